"""The evaluation of every benchmark: choose, check, load, explain, measure.

``prepare`` makes a ``Run`` of names and settings, ``load`` an ``Evaluation`` of that, and ``evaluated`` its ``Scores``.
A benchmark with a network, ``examples`` and metrics of maps needs nothing else. Any other is a subclass of
``Benchmark``, whose hooks choose and check before anything is loaded, and a subclass of ``Evaluation``, which yields
the values of the inputs. Several models are several evaluators, one for each. Several numbers a map, such as ten
poolings, are one ``PerSampleMetric`` of that width. Random networks are controls of the explainer.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import itertools
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import attribution
from attribution import Method
from attribution.errors import BadInput
from attribution.files import check_directory, origin
from attribution.methods.libraries import is_preset
from attribution.methods.registry import as_method, name_of
from attribution.savedmodel.paths import find_saved_model
from attribution_benchmarks.core import manifest, tables
from attribution_benchmarks.core.batch import ModelScores
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluator import Evaluator, Inputs, Numbers
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.explainer import (
    Explainer,
    MapsDirectory,
    SavedMaps,
    check_folders,
    published_rows,
    saved_methods,
)
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.progress import Progress, Reporter, ignored
from attribution_benchmarks.core.random_weights import networks
from attribution_benchmarks.core.scores import ALONG, InputScores, Scores, summarised
from attribution_benchmarks.core.settings import ALL, ExampleSettings, MapSettings, RunSettings
from attribution_benchmarks.core.store import ScoreStore

MethodLike = str | Method | Callable[..., Any]
Chosen = Mapping[str, tuple[Method, Mapping[str, Any]]]  # name -> (method, overrides of its parameters)


@dataclasses.dataclass(frozen=True)
class Run:
    """What is asked of a benchmark; nothing is loaded yet.

    Attributes
    ----------
    benchmark, settings, metrics
        The benchmark, its settings, and the metrics by name.
    names, methods
        Names of the methods, and the methods. With ``precomputed_maps`` there are no methods, and names only where
        some of the maps were chosen, with ``=METHOD`` where they are compared with that method of the paper.
    store
        Where numbers are kept.
    progress
        Called with each ``core.progress.Step``.
    in_worker
        Whether it computes blocks of another process, which names their inputs.
    only_describes
        Whether the models are only described, and nothing is explained.
    place
        Where the benchmark is defined, as ``core.registry.benchmark_named`` takes it; empty where unknown.
    metric_places
        Names of the metrics as they were given, such as ``file.py:NAME``.
    skipped
        Method -> why it cannot explain the network; these are not among the methods.
    published_rows
        Name of precomputed maps -> method of the paper that they are compared with.
    """

    benchmark: Benchmark
    settings: RunSettings
    metrics: Mapping[str, Metric]
    names: tuple[str, ...]
    methods: Chosen
    store: ScoreStore
    progress: Progress = ignored
    in_worker: bool = False
    only_describes: bool = False
    place: str = ""
    metric_places: tuple[str, ...] = ()
    skipped: Mapping[str, str] = dataclasses.field(default_factory=dict)
    published_rows: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def shared_metrics(self) -> dict[str, Metric]:
        """Metrics of the run that are not the benchmark's own, by name."""
        return {name: metric for name, metric in self.metrics.items() if metric not in self.benchmark.metrics}

    @functools.cached_property
    def map_folders(self) -> dict[str, pathlib.Path]:
        """Folders of the precomputed maps by method; empty without them."""
        directory = getattr(self.settings, "precomputed_maps", "")
        return saved_methods(directory, self.names) if directory else {}

    def without(self, refused: Mapping[str, str]) -> Run:
        """Return the run without methods that cannot explain the network, name -> reason."""
        left = {name: each for name, each in self.methods.items() if name not in refused}
        names = tuple(name for name in self.names if name not in refused)
        return dataclasses.replace(self, names=names, methods=left, skipped={**self.skipped, **refused})

    def command(self) -> str:
        """Return the command that computes the same numbers."""
        changed = self.settings.changed()
        values: dict[str, Any] = {}
        if self.names and (self.names != self.benchmark.methods or not self.methods):
            values["methods"] = self.names
        values |= {name: changed.pop(name) for name in ("batch_size", "seed") if name in changed}
        if tuple(self.metrics) != self.benchmark.default_metrics:
            values["metrics"] = self.metric_places
        module, place = self.benchmark.command, self.place or self.benchmark.name
        program = f"python -m {module}" if module else f"attribution-benchmarks {place}"
        return manifest.command_of(program, values | changed)


def prepare(
    benchmark: Benchmark,
    methods: Mapping[str, MethodLike] | Sequence[MethodLike] | None = None,
    settings: RunSettings | None = None,
    *,
    metrics: Sequence[str | Metric] | None = None,
    store: ScoreStore | None = None,
    progress: Progress = ignored,
    in_worker: bool = False,
    place: str = "",
) -> Run:
    """Return what is asked of a benchmark, checked; see ``attribution_benchmarks.evaluate`` for the arguments.

    Without a ``store``, numbers are kept in memory. ``default_store`` is where a command keeps them.
    """
    settings = _settings_of(benchmark, settings)
    from_files = bool(getattr(settings, "precomputed_maps", ""))
    if methods is None:
        methods = () if from_files else benchmark.methods
    chosen, selected = named(methods), _selected(benchmark, metrics)
    if isinstance(settings, MapSettings):
        _check_maps(settings, chosen)
    benchmark.check(settings, selected, tuple(chosen))
    if isinstance(settings, MapSettings) and (model := getattr(settings, "model", "")):
        find_saved_model(model)  # before TensorFlow is imported, which takes seconds
    found = {} if from_files else benchmark.with_parameters(_resolved(benchmark, chosen), settings)
    return Run(
        benchmark, settings, selected, tuple(chosen), _with_map_error(found, settings), store or ScoreStore(None),
        progress, in_worker, place=place,
        metric_places=tuple(one if isinstance(one, str) else one.name for one in metrics or selected),
        published_rows=published_rows(tuple(chosen), benchmark.paper) if from_files else {},
    )  # fmt: skip


def _settings_of(benchmark: Benchmark, settings: RunSettings | None) -> RunSettings:
    if settings is None:
        return benchmark.settings()
    if type(settings) is not benchmark.settings:
        kind = f"{benchmark.settings.__module__}.{benchmark.settings.__qualname__}"
        raise BadInput(f"{benchmark.title} has settings of the type {kind}, not {settings!r}")
    return settings


def _with_map_error(found: Chosen, settings: RunSettings) -> Chosen:
    """Return methods with the settings' ``map_error``, those that have one and no tolerance, and are no library's."""
    error = getattr(settings, "map_error", 0)
    if not error:
        return found
    return {
        name: (method, {**given, "map_error": error})
        if "map_error" in getattr(method, "defaults", ()) and "tolerance" not in given and not is_preset(method.name)
        else (method, given)
        for name, (method, given) in found.items()
    }


def default_store(benchmark: Benchmark, settings: RunSettings) -> ScoreStore:
    """Return the store in which a command keeps the numbers of a benchmark; in memory if it has none."""
    return ScoreStore(benchmark.default_scores_dir(settings) or None)


def _check_maps(settings: MapSettings, methods: Iterable[str]) -> None:
    if settings.save_maps:
        check_folders(methods)
        check_directory("save_maps", settings.save_maps)
        if settings.precomputed_maps:
            raise BadInput("--precomputed_maps makes no maps that could be saved; leave out --save_maps")


def named(methods: Mapping[str, MethodLike] | Sequence[MethodLike]) -> dict[str, MethodLike]:
    """Return methods by name: those of a list have the names of their functions."""
    if isinstance(methods, Mapping):
        for name in methods:
            if not isinstance(name, str):
                raise BadInput(f"methods has the name {name!r}; names are text")
        return dict(methods)
    found: dict[str, MethodLike] = {}
    for method in methods:
        name = method if isinstance(method, str) else name_of(method)
        if name in found:
            only_names = isinstance(method, str) and isinstance(found[name], str)
            advice = "name it once" if only_names else "give methods of one name as a mapping from name to method"
            raise BadInput(f"--methods names '{name}' twice; {advice}")
        found[name] = method
    return found


def _selected(benchmark: Benchmark, metrics: Sequence[str | Metric] | None) -> dict[str, Metric]:
    """Return metrics by name, the benchmark's own where None."""
    chosen = benchmark.default_metrics if metrics is None else metrics
    names = [metric for metric in chosen if isinstance(metric, str)]
    found = dict(benchmark.select_metrics(names)) if names or not chosen else {}
    for metric in chosen:
        if isinstance(metric, Metric) and found.setdefault(metric.name, metric) != metric:
            raise BadInput(f"metrics has two metrics called '{metric.name}'; give yours another name")
    return found


def _resolved(benchmark: Benchmark, chosen: Mapping[str, MethodLike]) -> dict[str, Method]:
    return {
        name: benchmark.method_named(method) if isinstance(method, str) else as_method(name, method)
        for name, method in chosen.items()
    }


def _refuse_controls(names: Iterable[str], controls: Sequence[Control]) -> None:
    """Refuse methods that have the name of a control, whose rows could not be distinguished from theirs."""
    for control in controls:
        if control.name in names:
            raise BadInput(f"'{control.name}' is a control, which is scored anyway; omit the method or rename it")


def table_of(
    benchmark: Benchmark, metrics: Mapping[str, Metric], groups: Sequence[InputScores], lines: Sequence[str] | None,
    published: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> Scores:  # fmt: skip
    """Return the rows of the groups of one table, and the table, below ``lines``; without a table where they are None.

    ``published`` returns the keys of published figures of a row, see ``core.scores.summarised``.
    """
    rows, columns, own = [], [], []
    for group in groups:
        metric = metrics[group.where["metric"]]
        found = summarised(group, metric, published)
        rows += [{"benchmark": benchmark.name, **row} for row in found]
        heading, decimals = group.column or metric.title, 1 if metric.percent else 3
        shown = [row for row in found if not {"of", ALONG} & set(row)]
        columns.append(tables.Figures(heading, shown, decimals, group.brief))
        if not group.brief:
            own.append(tables.Figures(heading, [row for row in found if "of" in row], decimals))
    sources = dict.fromkeys(source for group in groups for source in group.sources)
    kept = [dataclasses.replace(group, where={"benchmark": benchmark.name, **group.where})
            for group in groups if group.kept]  # fmt: skip
    titles = benchmark.row_titles(sources)
    if lines is None:
        return Scores(rows, kept, titles)
    controls = {control.name: control.title for control in benchmark.controls}
    text, markdown = (
        "\n".join(
            filter(None, [
                tables.paragraphs(lines, is_markdown),
                tables.laid_out(columns, titles, is_markdown),
                tables.under_controls(own, titles, controls, is_markdown),
            ])
        ) + "\n"
        for is_markdown in (False, True)
    )  # fmt: skip
    return Scores(rows, kept, titles, text, markdown)


class Evaluation(abc.ABC):
    """A benchmark whose networks and inputs are loaded.

    Attributes
    ----------
    run, models
        What is asked, and the models by name.
    """

    def __init__(self, run: Run, models: Mapping[str, Any]):
        self.run, self.models = run, models

    @property
    def settings(self) -> Any:
        """Settings of the run, of the benchmark's own class."""
        return self.run.settings

    @abc.abstractmethod
    def describe_models(self) -> list[str]:
        """Return the lines of ``--check_model``."""

    @abc.abstractmethod
    def groups(self) -> Iterator[InputScores]:
        """Explain, measure, and yield the values of the inputs by each metric; those of one table follow each other."""

    @abc.abstractmethod
    def data_fingerprints(self) -> dict[str, str]:
        """Return the fingerprints of the data sets by name, after ``groups``."""

    def heading(self) -> list[str]:
        """Return the lines above the first table, after its ``groups``."""
        return []

    def notes(self, scores: Scores) -> list[str]:
        """Return the sentences below the last table."""
        return undefined_notes(scores.groups)

    def published(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the keys of published figures of a row, see ``core.scores.summarised``."""
        method = self.run.published_rows.get(row["method"], row["method"])
        return self.run.benchmark.published_figures({**row, "method": method})

    def tables(self) -> Iterator[Scores]:
        """Explain, measure, and yield each table as soon as it is known."""
        parts: list[Scores] = []
        for title, groups in itertools.groupby(self.groups(), key=lambda group: group.table):
            parts.append(self._table(title, list(groups), not parts))
            yield parts[-1]
        notes = self.notes(Scores.joined(parts))
        yield Scores(text=tables.paragraphs(notes), markdown="".join(f"- {note}\n" for note in notes))

    def _table(self, title: str | None, groups: Sequence[InputScores], is_first: bool) -> Scores:
        """Return the rows of one table, and the table."""
        lines = None if title is None else [*(self.heading() if is_first else []), *title.splitlines()]
        return table_of(self.run.benchmark, self.run.metrics, groups, lines, self.published)

    def measurements(self) -> Iterable[Sequence[Evaluator]]:
        """Return everything that is explained and measured, in groups that are computed one after the other."""
        return []

    def measurement(self, name: str) -> Evaluator:
        """Return one of ``measurements`` by name, for a worker."""
        return next(one for group in self.measurements() for one in group if one.name == name)

    def explainer(
        self,
        model: Any,
        controls: Sequence[Control] = (),
        controlled: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        methods: Chosen | None = None,
    ) -> Explainer | SavedMaps:
        """Return what makes a model's maps, or reads them with ``precomputed_maps``.

        ``controls`` and ``controlled`` are as of ``Explainer``; precomputed maps have model-independent controls only,
        and need no model. ``methods`` are those of the run where None.
        """
        given = self.settings
        if given.precomputed_maps:
            _refuse_controls(self.run.map_folders, controls)
            scores = ModelScores(model, given.batch_size) if model else None
            return SavedMaps(self.run.map_folders, controls, given.seed, scores)
        chosen = self.run.methods if methods is None else methods
        _refuse_controls(chosen, controls)
        return Explainer(model, chosen, controls, controlled, given.seed, given.batch_size)

    def maps_directory(self, **origin: Any) -> MapsDirectory | None:
        """Return where maps are saved; None without ``save_maps``.

        ``origin`` is what the maps depend on besides benchmark and seed; a directory holds maps of one origin.
        """
        if not self.settings.save_maps:
            return None
        described = {"benchmark": self.run.benchmark.name, **origin, "seed": self.settings.seed}
        if self.settings.map_error:
            described["map_error"] = self.settings.map_error
        return MapsDirectory(self.settings.save_maps, described)

    def computed(self, evaluator: Evaluator, unit: str = "input", title: str = "") -> Numbers:
        """Explain and measure the inputs of an evaluator in this process, and report its progress."""
        report = Reporter(self.run.progress, title or self.run.benchmark.title, unit, len(evaluator.items))
        return evaluator.evaluate(report)


def undefined_notes(groups: Iterable[InputScores]) -> list[str]:
    """Return a sentence for the metrics that are undefined for equally many inputs, which are left out."""
    found: dict[tuple[int, int, int], list[str]] = {}
    for group in groups:
        counts = [int(np.isnan(group.by_network(name)).all(axis=1).sum()) for name in group.values]
        if any(counts):
            found.setdefault((min(counts), max(counts), len(group.inputs)), []).append(str(group.where["metric"]))
    return [
        f"{', '.join(dict.fromkeys(metrics))}: undefined for {least}{f' to {most}' if most > least else ''} of {count} "
        f"inputs{', by method' if most > least else ''}, which are left out."
        for (least, most, count), metrics in found.items()
    ]


class ExampleEvaluation(Evaluation):
    """A benchmark with ``examples`` and one network, or none with ``precomputed_maps``."""

    def __init__(self, run: Run, models: Mapping[str, Any], data: Examples):
        super().__init__(run, models)
        self.data = data

    @classmethod
    def load(cls, run: Run) -> ExampleEvaluation:
        """Load the network and draw the examples."""
        benchmark, given = run.benchmark, run.settings
        assert isinstance(given, ExampleSettings) and benchmark.examples
        data = benchmark.examples(sys.maxsize if given.num_imgs == ALL else int(given.num_imgs), given.seed)
        if given.precomputed_maps:
            return cls(run, {}, data)
        path = pathlib.Path(given.model or benchmark.network)
        model = attribution.load_model(path, score=benchmark.score)
        if given.layer:
            model.layer(given.layer)  # raises for an unknown layer
        return cls(run, {origin(path) if given.model else path.name: model}, data)

    def describe_models(self) -> list[str]:
        """Return the shape of the inputs and the number of classes."""
        first, shape = next(iter(self.data.batches(1))).load().inputs, self.data.inputs.shape[1:]
        return [
            f"{name} fits {self.run.benchmark.title}: inputs of shape {shape} to {model.scores(first).shape[1]} classes"
            for name, model in self.models.items()
        ]

    def measurements(self) -> list[list[Evaluator]]:
        """Return one run through the examples."""
        model = next(iter(self.models.values()), None)
        return [[self.evaluator_of(self.run.benchmark.name, model, range(len(self.data.names)))]]

    def evaluator_of(
        self, name: str, model: Any, rows: Sequence[int], methods: Chosen | None = None, place: int = 0
    ) -> Evaluator:
        """Return the evaluator of some examples on one network, with some ``methods``, or those of the run.

        ``place`` is the number of the network among several whose maps are compared, see ``random_weights.network``.
        """
        run, benchmark, data = self.run, self.run.benchmark, self.data
        for metric in run.metrics.values():
            if metric.masks and not data.masks:
                raise BadInput(f"the metric '{metric.name}' needs masks, and {benchmark.title} has none")
        assert benchmark.examples
        return Evaluator(
            self.explainer(model, networks(benchmark.controls, self.settings.random_networks, place), methods=methods),
            [metric.measure for metric in run.metrics.values() if metric.measure],
            {"benchmark": benchmark.name, "model": model.fingerprint if model else "", "score": str(benchmark.score)},
            [benchmark.examples, type(self)],
            run.store,
            maps_directory=self.maps_directory(models={name: each.fingerprint for name, each in self.models.items()}),
            inputs=Inputs(name, rows, self.settings.batch_size, lambda some, size: data.batches(size, some)),
        )

    @functools.cached_property
    def numbers(self) -> Numbers:
        """What was explained and measured."""
        ((evaluator,),) = self.measurements()
        return self.computed(evaluator)

    def groups(self) -> Iterator[InputScores]:
        """Yield each input's value by each metric, in one table."""
        numbers = self.numbers
        for name, metric in self.run.metrics.items():
            if measure := metric.measure:
                found = {source: numbers.of(source, measure) for source in numbers.sources}
                yield InputScores(
                    {"metric": name}, list(self.data.names),
                    {source.name: values[:, 0] for source, values in found.items()}, self.data.clusters,
                    sources=list(found),
                    curves={
                        source.name: values[:, 1:]
                        for source, values in found.items()
                        if metric.curve and not (source.method and source.control)
                    },
                )  # fmt: skip

    def heading(self) -> list[str]:
        """Return the number of inputs and the network, and facts about it."""
        models = ", ".join(self.models) or "saved maps"
        return [f"{self.run.benchmark.title}: {len(self.data.names):,} inputs, {models}", *self.facts()]

    def facts(self) -> list[str]:
        """Return of how many inputs each network predicts the given class, in sentences; none without given classes."""
        given, sentences = self.data.targets, []
        for name, model in self.models.items() if given is not None else ():
            if model.num_classes > 1:
                right = model.scores(self.data.feed, self.settings.batch_size).argmax(axis=1) == given
                sentences.append(f"{name} predicts the given class of {right.sum():,} of {len(right):,} inputs.")
        return sentences

    def data_fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of the inputs' names with their content."""
        content = "\n".join(name for batch in self.data.batches(1000) for name in batch.names).encode()
        return {self.run.benchmark.name: hashlib.sha256(content).hexdigest()}


def load(run: Run) -> Evaluation:
    """Load the networks and the inputs of a run."""
    return (run.benchmark.evaluation or ExampleEvaluation.load)(run)


def evaluated(evaluation: Evaluation, show: Callable[[int, str], object] = lambda number, text: None) -> Scores:
    """Explain and measure what is loaded; ``show`` gets number and text of each table and of the notes."""
    parts = []
    for number, part in enumerate(evaluation.tables()):
        show(number, part.text)
        parts.append(part)
    run = evaluation.run
    provenance = manifest.describe_run(
        run.benchmark.name,
        models={name: model.fingerprint for name, model in evaluation.models.items()},
        data=evaluation.data_fingerprints(),
        seed=run.settings.seed,
        command=run.command(),
    )
    skipped = {"skipped": dict(run.skipped)} if run.skipped else {}
    return dataclasses.replace(Scores.joined(parts), manifest={**provenance, **skipped})
