"""Evaluate benchmarks and choose methods from Python: ``evaluate``, ``score`` and ``choose``."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attribution import Method, resolve_method
from attribution.errors import BadInput, listed, print_line
from attribution.files import cache_directory
from attribution.savedmodel.paths import find_saved_model
from attribution.tensorflow_log import quiet_tensorflow
from attribution_benchmarks.choosing import scoring
from attribution_benchmarks.choosing.choice import Choice
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.evaluation import MethodLike, Run, evaluated, load, named, prepare
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.places import BENCHMARKS
from attribution_benchmarks.core.progress import Bars, Progress, ignored
from attribution_benchmarks.core.registry import REPORTED, benchmark_named
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.core.settings import RunSettings
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.report import placement, published
from attribution_benchmarks.report.placement import Ranking
from attribution_benchmarks.report.presets import tasks_of
from attribution_benchmarks.report.published import PublishedSet
from attribution_benchmarks.report.tasks import of_fitting

Methods = Sequence[MethodLike] | Mapping[str, MethodLike]


def evaluate(
    benchmark: Benchmark | str,
    methods: Methods | None = None,
    settings: RunSettings | None = None,
    *,
    metrics: Sequence[str | Metric] | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Evaluate one benchmark.

    Parameters
    ----------
    benchmark
        A benchmark such as ``svea.BENCHMARK``, its name, or ``"file.py:NAME"`` of a custom one.
    methods
        Names of ``attribution.METHODS``, ``"file.py:function"``, functions of the model's queries (docs/own_models.md),
        or ``attribution.Method`` objects, in a list or by the names under which they are scored; the benchmark's own
        where None.
    settings
        Of the benchmark's class, such as ``svea.Settings(seed=1)``; its defaults where None.
    metrics
        Names or ``Metric`` objects; the benchmark's own where None.
    store
        Directory to keep scores in, so that none is computed twice; in memory where None.
    progress
        Called with a ``core.progress.Step`` after each batch; bars on standard error where None.

    Returns
    -------
    Scores
        Of methods and baselines.

    Raises
    ------
    BadInput
        If a name or a setting is invalid, or a method cannot be scored.
    """
    if not isinstance(store, (str, os.PathLike, type(None))) or store == "":
        raise BadInput(f"store={store!r}: expected a directory, or None for memory")
    place, definition = _defined(benchmark)
    given = None if methods is None else named(_several("methods", methods))
    added = None if metrics is None else _several("metrics", metrics)
    kept = ScoreStore(None if store is None else os.fspath(store))
    with _quiet():
        run = prepare(definition, given, settings, metrics=added, store=kept, place=place)
        return _evaluated(run, progress)


def _defined(benchmark: Any) -> tuple[str, Benchmark]:
    """Return the name of a benchmark, empty for a ``Benchmark``, and its definition."""
    if isinstance(benchmark, str):
        return benchmark, benchmark_named(benchmark, "benchmark")
    if not isinstance(benchmark, Benchmark):
        raise BadInput(f"benchmark is of the type {type(benchmark).__name__}; give a Benchmark or its name")
    return "", benchmark


def choose(
    model: Any,
    inputs: np.ndarray | Mapping[str, np.ndarray],
    targets: npt.ArrayLike | None = None,
    methods: Methods | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Choice:
    """Say which method to use for a model, and whether inputs without ground truth speak against it.

    Parameters
    ----------
    model
        What ``attribution.load_model`` takes, or a model that it returned.
    inputs
        (N, ...) as the model takes them, or a mapping from input name to such arrays; at least
        ``stats.statistics.MIN_INPUTS`` for a test.
    targets
        (N,) classes to explain, or one for all; the predicted ones where None.
    methods
        Further methods, as of ``evaluate``, to score beside the recommended one.
    progress
        Called with a ``core.progress.Step`` after each batch; bars on standard error where None.
    **options
        ``groups``: N groups of the inputs, such as their objects or patients; None for independent inputs.
        ``background``: values of a removed position, a number or an array of an input's shape with channels last. Where
        None, the input's mean color, and for vectors each feature's mean over the inputs. Tokens need it: the number of
        padding, of a mask or of an unknown word.
        ``explain_input``: of a model with several inputs, as of ``attribution.explain``.
        ``batch_size``, ``seed``: inputs in one pass, by default by the network's size; the seed of random numbers.

    Returns
    -------
    Choice
        Printed, it is the advice, what speaks against it, and a table.

    Raises
    ------
    BadInput
        If the model or the inputs are of another kind, or no method of known record applies.
    """
    with _quiet(), Bars() as bars:
        return scoring.choose(model, inputs, targets, methods, progress=progress or bars, **options)


def score(
    methods: MethodLike | Methods,
    benchmarks: str | Sequence[str] = REPORTED,
    *,
    model: str | os.PathLike[str] | None = None,
    metrics: str | Sequence[str] = (),
    quick: bool = True,
    seed: int = 0,
    time: float = 180.0,
) -> Scores:
    """Score attribution methods on benchmarks, with the settings of the report and each benchmark's baselines.

    On a benchmark with published scores, only these methods are computed, on its inputs and networks, and ranked among
    the published methods. Other benchmarks, and all with a ``model``, ``metrics`` or a ``seed``, give a table.

    Parameters
    ----------
    methods
        One method or several, as of ``evaluate``.
    benchmarks
        Names of benchmarks ("svea", "bim", "clevr_xai", "exact", "xai_units", "xai_tris", "sequences", "parts",
        "clevr_xai_contrast"), or
        ``"file.py:NAME"`` of custom ones.
    model
        SavedModel, or ``.keras`` or ``.h5`` file, to explain instead of each benchmark's network. A benchmark that it
        does not fit is listed in ``manifest["skipped"]``.
    metrics
        Further metrics, as ``--metrics`` of the report takes them: names of docs/metrics.md or ``"file.py:NAME"``.
    quick
        Without published scores, the inputs and samples of the report's ``--quick``; False for those of a full report.
    seed
        Seed of random numbers.
    time
        Seconds for the comparison with published methods. If they do not suffice for all networks and controls, fewer
        are computed, and the result says which.

    Returns
    -------
    Scores
        Of methods and baselines on all benchmarks; a ``report.placement.Ranking`` where they are compared with
        published methods. They are stored in the cache, so that a second call is fast; those
        of a function that reads files or changes itself are not, and a line on standard error says so.

    Raises
    ------
    BadInput
        If a name is unknown, if ``model`` or ``seed`` is invalid, or if no benchmark can score any of the methods.
    """
    given = named(_several("methods", methods))
    places, added = tuple(dict.fromkeys(_several("benchmarks", benchmarks))), tuple(_several("metrics", metrics))
    if not given:
        raise BadInput("methods is empty; give one at least")
    if not places:
        raise BadInput(f"benchmarks is empty; choose of {listed(BENCHMARKS)}")
    if not isinstance(model, (str, os.PathLike, type(None))):
        raise BadInput(f"model is the path of a SavedModel or of a .keras or .h5 file, not {model!r}")
    if model:
        find_saved_model(model)
    checked = RunSettings(seed=seed)
    parts: list[Scores] = []
    skipped: dict[str, str] = {}
    compared = [] if model or added or checked.seed else published.sets(places)
    ranked = _ranked(given, compared, time) if compared else None
    for place in places:
        if place in {one.benchmark for one in compared}:
            continue
        benchmark = benchmark_named(place)
        for task in tasks_of(benchmark, place, quick, checked.seed, added):
            if not task.methods:  # TCAV scores concepts, not methods
                continue
            if model and not task.own_model:
                skipped[task.title] = "this table takes no other model"
                continue
            settings = benchmark.with_model(task.settings, os.fspath(model)) if model else task.settings
            try:
                scored = functools.partial(_scored_in_cache, benchmark, task, settings, given)
                part, refused = of_fitting(scored, (), list(given))
                parts.append(part)
            except BadInput as error:
                refused = dict.fromkeys(given, str(error))
            skipped |= {f"{task.title}: {name}": why for name, why in refused.items()}
    if not parts and ranked:
        return ranked
    if not parts:
        raise BadInput("; ".join(f"{place}: {reason}" for place, reason in skipped.items()))
    found = Scores.joined(parts)
    notes = "".join(f"Not scored: {place}: {reason}\n" for place, reason in skipped.items())
    found = dataclasses.replace(found, text=found.text + notes, manifest={**found.manifest, "skipped": skipped})
    if not ranked:
        return found
    joined = Scores.joined([ranked, found])
    return dataclasses.replace(ranked, **{name: getattr(joined, name) for name in ("rows", "groups", "titles", "text")})


def _ranked(methods: Mapping[str, MethodLike], sets: Sequence[PublishedSet], seconds: float) -> Ranking:
    """Return the places of methods among the published ones."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise BadInput(f"time={seconds!r}: expected a positive number of seconds")
    known = {source.method for one in sets for source in one.scores.sources}
    for name, method in methods.items():
        if name in known and method != name:
            raise BadInput(f"'{name}' is a published method; give yours another name: {{\"my_{name}\": function}}")
        if isinstance(method, str) and name not in known:
            resolve_method(method)  # raises for an unknown one
    with _quiet(), Bars() as bars:

        def score_some(task: ReportTask, names: Sequence[str]) -> Scores:
            return scores_of(task, {name: methods[name] for name in names}, bars)

        say = functools.partial(print_line, file=sys.stderr)
        found, remarks = placement.compute(sets, list(methods), score_some, seconds, say)
    if not any(found.values()) and not known & methods.keys():
        raise BadInput(" ".join(remarks))
    for one in sets:
        note = placement.foreign(one.scores, found[one.task])
        remarks += [f"{one.tasks[0].title}: {note}"] if note else []
    return placement.ranking(
        {one: placement.with_methods(one, found[one.task]) for one in sets}, list(methods), remarks
    )


def scores_of(task: ReportTask, methods: Mapping[str, MethodLike], progress: Progress = ignored) -> Scores:
    """Return the values of some methods by a task of the report, without tables; they are kept in the cache."""
    with contextlib.closing(ScoreStore(str(cache_directory("scores")))) as store:
        run = prepare(
            benchmark_named(task.place), methods, task.settings,
            metrics=task.metrics, store=store, progress=progress, place=task.place,
        )  # fmt: skip
        groups = [group for group in load(run).groups() if group.kept]
    sources = dict.fromkeys(source for group in groups for source in group.sources)
    return Scores(groups=groups, titles=run.benchmark.row_titles(sources))


def _scored_in_cache(
    benchmark: Benchmark,
    task: ReportTask,
    settings: RunSettings,
    methods: Mapping[str, MethodLike],
    names: Sequence[str],
) -> Scores:
    """Return the scores of some methods by a task; they are kept in the cache."""
    store, chosen = ScoreStore(str(cache_directory("scores"))), {name: methods[name] for name in names}
    with _quiet():
        return _evaluated(prepare(benchmark, chosen, settings, metrics=task.metrics, store=store, place=task.place))


def _evaluated(run: Run, progress: Progress | None = None) -> Scores:
    """Return the scores of a run, and close its store."""
    with contextlib.closing(run.store), Bars() as bars:
        return evaluated(load(dataclasses.replace(run, progress=progress or bars)))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep TensorFlow's notes on devices and retracing from standard error."""
    quiet_tensorflow()
    logger = logging.getLogger("tensorflow")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _several(what: str, value: Any) -> Any:
    """Return one name or function, several in a list, or a mapping by name; raise ``BadInput`` for anything else."""
    if isinstance(value, Mapping):
        return value
    found = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    for each in found:
        if isinstance(each, str) and not each.strip():
            raise BadInput(f"{what} has the invalid name {each!r}; several names are given as a list")
        if not isinstance(each, str | Metric | Method) and not callable(each):
            raise BadInput(f"{what} are {'names or functions' if what == 'methods' else 'names'}, not {each!r}")
    return found
