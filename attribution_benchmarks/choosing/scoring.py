"""Score the methods that apply to a model on a user's own inputs, in rounds of more and more inputs."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import attribution
from attribution import METHODS
from attribution.errors import BadInput, MissedSum
from attribution.files import origin
from attribution.methods.method import ARRAYS
from attribution.trial import Trial, try_method
from attribution_benchmarks.choosing import verdict as verdicts
from attribution_benchmarks.choosing.choice import Choice
from attribution_benchmarks.choosing.completeness import COMPLETENESS
from attribution_benchmarks.choosing.problem import problem_of, references
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import ExampleEvaluation, MethodLike, evaluated, named, prepare
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.explainer import remove_saved_maps
from attribution_benchmarks.core.progress import Progress, ignored
from attribution_benchmarks.core.settings import ExampleSettings
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.stats.statistics import Estimate

RANDOM_NETWORKS = 2  # of shuffled weights
WITH_MASKS = ("attribution_localisation", "iou_at_area", "pointing_game")
_ROUNDS = (4, 16, 64)  # inputs of the first rounds
_CHEAP = 64  # passes of an input up to which a method is in the very first round


def rounds(
    model: Any,
    inputs: np.ndarray | Mapping[str, np.ndarray],
    targets: npt.ArrayLike | None = None,
    masks: np.ndarray | None = None,
    methods: Sequence[MethodLike] | Mapping[str, MethodLike] | None = None,
    *,
    names: Sequence[str] | None = None,
    background: npt.ArrayLike | None = None,
    explain_input: str | None = None,
    feature_names: Sequence[str] | None = None,
    output_dir: str | os.PathLike[str] | None = None,
    batch_size: int = 8,
    seed: int = 0,
    progress: Progress = ignored,
) -> Iterator[Choice]:
    """Yield what is known after each round: first cheap methods on few inputs, at last all methods on all inputs.

    Parameters
    ----------
    model, inputs, targets, masks, methods
        As of ``attribution_benchmarks.choose``.
    names
        N names of the inputs; numbers where None.
    background
        Values of a removed position, a number or an array of an input's shape with channels last. Where None, the
        input's mean color, and for vectors each feature's mean over the inputs. Tokens need it: the number of padding,
        of a mask or of an unknown word.
    explain_input
        Of a model with several inputs: the one to explain, several by comma, or ``"all"`` of floating point, as of
        ``attribution.explain``; or a tensor inside.
    feature_names
        Names of a vector's features, for the page.
    output_dir
        Directory of the maps, which replace those of an earlier call; a temporary one where None.
    batch_size, seed
        Inputs in one pass, and the seed of random numbers.
    progress
        Called with each ``core.progress.Step``.
    """
    loaded = model if hasattr(model, "at") else attribution.load_model(model)
    problem = problem_of(loaded, inputs, targets, masks, names, background, explain_input)
    examples, explained_model = problem.examples, problem.model
    held = tempfile.TemporaryDirectory(prefix="choose_") if output_dir is None else None
    directory = pathlib.Path(held.name if held else str(output_dir))
    chosen, started = _chosen(methods, problem.absent)
    first = examples.without(range(1, len(examples.names)))
    trials = {name: _tried(method, explained_model, first) for name, method in chosen.items()}
    refused = _refused(trials)
    controls, notes = references(loaded, problem, seed)
    scorer = _Scorer(
        explained_model, bool(examples.masks), controls, directory, ExampleSettings(batch_size=batch_size, seed=seed)
    )
    order = np.random.default_rng(seed).permutation(len(examples.names))  # neighbors are often of one class
    for some, count in _schedule(trials, len(order)):
        part = examples.without(order[count:].tolist())
        found = scorer.scored({name: chosen[name] for name in some}, part, progress)
        yield Choice(
            model=scorer.name,
            verdict=found.verdict,
            scores=found.scores,
            missed=found.missed,
            passes={name: trials[name].passes for name in some},
            refused=refused,
            missing=[name for name in trials if name not in {*some, *refused}],
            notes=[*notes, *found.predicted],
            inputs=part.inputs,
            features=feature_names or problem.features,
            names=part.names,
            targets=found.targets,
            maps=directory / "maps",
            explained=explain_input,
            seed=seed,
            baseline=problem.absent,
            started={name: started[name] for name in some if name in started},
            _held=held,
        )


def _schedule(trials: Mapping[str, Trial], total: int) -> list[tuple[list[str], int]]:
    """Return the methods and the number of inputs of each round: cheap methods first."""
    applying = [name for name, trial in trials.items() if trial.applies]
    cheap = [name for name in applying if trials[name].passes <= _CHEAP]
    rounds = [(applying, count) for count in sorted({min(each, total) for each in (*_ROUNDS, total)})]
    return [(cheap, min(_ROUNDS[0], total)), *rounds] if 0 < len(cheap) < len(applying) else rounds


@dataclasses.dataclass(frozen=True)
class _Found:
    """What one round found."""

    verdict: verdicts.Verdict
    scores: Mapping[str, Mapping[str, Estimate]]
    missed: Mapping[str, float]
    targets: np.ndarray
    predicted: Sequence[str]


class _Scorer:
    """Scores methods on some inputs; keeps the numbers of earlier rounds in memory."""

    def __init__(
        self, model: Any, masks: bool, controls: Sequence[Control], directory: pathlib.Path, settings: ExampleSettings
    ):
        self._model, self._controls, self._store = model, controls, ScoreStore(None)
        remove_saved_maps(directory / "maps")
        self._settings = settings.replaced(save_maps=str(directory / "maps"), random_networks=RANDOM_NETWORKS)
        self._masks = WITH_MASKS if masks else ()
        path = pathlib.Path(origin(model.path))
        self.name = path.parent.name if path.name.isdecimal() else path.name  # of a numbered version

    def scored(self, methods: Mapping[str, MethodLike], inputs: Examples, progress: Progress) -> _Found:
        """Return the verdict on some inputs."""
        benchmark = Benchmark(name="own", title=self.name, controls=tuple(self._controls), examples=_none)
        metrics = [*verdicts.METRICS, *self._masks, COMPLETENESS]
        run = prepare(benchmark, methods, self._settings, metrics=metrics, store=self._store, progress=progress)
        evaluation = ExampleEvaluation(run, {self.name: self._model}, inputs)
        section = evaluated(evaluation).section
        by_metric = {group.where["metric"]: group.values for group in section.input_scores}
        values = {
            source: verdicts.agreement(*(by_metric[metric][source.name] for metric in verdicts.METRICS))
            for source in section.results[0].sources
        }
        scores = {metric: _means(by_metric[metric], methods) for metric in self._masks}
        missed = {name: _median(np.asarray(by_metric[COMPLETENESS.name][name])) for name in methods}
        found = verdicts.verdict(
            {name: values[MapSource(name)] for name in methods},
            {name: _own(name, values) for name in methods},
            {source.control: value for source, value in values.items() if not source.method},
        )
        return _Found(found, scores, missed, *self._classes(evaluation))

    def _classes(self, evaluation: ExampleEvaluation) -> tuple[np.ndarray, list[str]]:
        """Return the explained classes, (N,), and whether the network predicts them, in sentences."""
        inputs = evaluation.data
        if inputs.targets is not None:
            return np.asarray(inputs.targets), evaluation.facts()
        predicted = np.asarray(self._model.scores(inputs.feed, self._settings.batch_size).argmax(axis=1))
        text = (
            "The explained classes are those that the network predicts. Whether they are right was not checked; a map "
            "of a wrong one explains the mistake. targets= (--target=) explains given ones."
        )
        return predicted, [text] if self._model.num_classes > 1 else []


def _means(values: Mapping[str, Any], methods: Iterable[str]) -> dict[str, Estimate]:
    """Return the mean score of each method by a metric of masks."""
    return {name: verdicts.mean_where_defined(values[name], (0.0, 1.0)) for name in methods}


def _median(values: np.ndarray) -> float:
    """Return the median of those values that are defined; NaN where none is."""
    defined = values[np.isfinite(values)]
    return float(np.median(defined)) if len(defined) else math.nan


def _none(count: int, seed: int) -> Examples:
    """Stand for the inputs, which are given."""
    raise AssertionError("the inputs are given")


def _own(method: str, values: Mapping[MapSource, np.ndarray]) -> dict[str, np.ndarray]:
    """Return condition -> (N,) agreement of a method's own maps under it, the mean over random networks."""
    under: dict[str, list[np.ndarray]] = {}
    for source, found in values.items():
        if source.method == method and source.control:
            under.setdefault(source.kind.control, []).append(found)
    return {condition: np.mean(each, axis=0) for condition, each in under.items()}


def _chosen(methods: Any, absent: np.ndarray | None) -> tuple[dict[str, MethodLike], dict[str, str]]:
    """Return methods, those of a name that have a baseline with the values of absent features, (1, features), as it.

    The second mapping is from these to their parameter of the baseline.
    """
    chosen, started = named(_default_methods() if methods is None else methods), {}
    for name, method in chosen.items() if absent is not None else ():
        known = attribution.resolve_method(method) if isinstance(method, str) else None
        if known and (parameter := next((each for each in ARRAYS if each in known.defaults), "")):
            started[name] = parameter
            function = functools.partial(known.function, **{parameter: absent})
            chosen[name] = dataclasses.replace(known, function=function)
    return chosen, started


def _refused(trials: Mapping[str, Trial]) -> dict[str, str]:
    """Return why methods do not apply; raise ``BadInput`` if none does."""
    refused = {name: trial.reason for name, trial in trials.items() if not trial.applies}
    if len(refused) == len(trials):
        raise BadInput(f"no method applies to the model; '{next(iter(refused))}': {next(iter(refused.values()))}")
    return refused


def _default_methods() -> list[str]:
    return [name for name, method in METHODS.items() if not method.library and method.family != "random"]


def _tried(method: MethodLike, model: Any, first: Examples) -> Trial:
    """Return whether a method applies to the first input, and its passes: counted, or estimated where they are many."""
    name = first.explained or None
    trial = try_method(method, model, model.feed(first.feed), name)
    if not trial.applies or trial.passes > _CHEAP:
        return trial
    before = _passes(model)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissedSum)
            attribution.explain(method, model, first.feed, explain_input=name)
    except BadInput as error:
        return Trial(False, str(error))
    return dataclasses.replace(trial, passes=_passes(model) - before)


def _passes(model: Any) -> int:
    return int(model.counts["forward"] + model.counts["backward"])
