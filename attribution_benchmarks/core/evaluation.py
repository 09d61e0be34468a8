"""The evaluation of every benchmark: choose, check, load, explain, measure.

A benchmark with a network, ``examples`` and metrics of maps needs nothing else. Any other is a subclass of
``Benchmark``, whose hooks choose and check before anything is loaded, and a subclass of ``Evaluation`` for the rest.
Several models are several sharded runs, one for each. Several numbers a map, such as ten poolings, are one
``PerSampleMetric`` of that width. A prediction filter and further measures are arguments of ``Evaluator``. Random
networks are controls of the explainer.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
from attribution_benchmarks.core.evaluator import Evaluator, Results, ShardedRun
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.explainer import Explainer, MapsDirectory, SavedMaps, check_folders, saved_methods
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.input_scores import save as save_input_scores
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.progress import Progress, Reporter, ignored
from attribution_benchmarks.core.random_weights import networks
from attribution_benchmarks.core.settings import ALL, ExampleSettings, MapSettings, RunSettings
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.core.tables import curve_rows, score_rows, undefined_notes

MethodLike = str | Method | Callable[..., Any]
Chosen = Mapping[str, tuple[Method, Mapping[str, Any]]]  # name -> (method, overrides of its parameters)


class Section(NamedTuple):
    """A part of a run's output.

    Attributes
    ----------
    rows
        Scores in the long form of ``core.tables``.
    text, markdown
        Their table, as text and as Markdown; without the latter, a Markdown file has the text as a code block.
    input_scores
        Each input's value by each metric.
    results
        What was measured, for figures; their type is the benchmark's.
    """

    rows: list[dict[str, Any]]
    text: str
    markdown: str = ""
    input_scores: Sequence[InputScores] = ()
    results: Sequence[Any] = ()

    def joined(self, other: Section) -> Section:
        """Return this section followed by another."""
        return Section(
            self.rows + other.rows, self.text + other.text, self.markdown + other.markdown,
            [*self.input_scores, *other.input_scores], [*self.results, *other.results],
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Run:
    """What is asked of a benchmark; nothing is loaded yet.

    Attributes
    ----------
    benchmark, settings, metrics
        The benchmark, its settings, and the metrics by name.
    names, methods
        Names of the methods, and the methods. With ``precomputed_maps`` there are no methods, and names only where
        some of the maps were chosen.
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

    @property
    def shared_metrics(self) -> dict[str, Metric]:
        """Metrics of the run that are not the benchmark's own, by name."""
        return {name: metric for name, metric in self.metrics.items() if metric not in self.benchmark.metrics}

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
        place = {} if self.benchmark.command else {"benchmark": self.place or self.benchmark.name}
        module = self.benchmark.command or "attribution_benchmarks.core.evaluate"
        return manifest.command_of(f"python -m {module}", values | changed | place)


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

    Without a ``store``, numbers are kept where the benchmark keeps them by default.
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
    if store is None:
        store = _own_store(benchmark, settings, in_worker)
    return Run(
        benchmark, settings, selected, tuple(chosen), _with_map_error(found, settings), store, progress, in_worker,
        place=place, metric_places=_places(metrics or selected),
    )  # fmt: skip


def _settings_of(benchmark: Benchmark, settings: RunSettings | None) -> RunSettings:
    if settings is None:
        return benchmark.settings()
    if type(settings) is not benchmark.settings:
        kind = f"{benchmark.settings.__module__}.{benchmark.settings.__qualname__}"
        raise BadInput(f"{benchmark.title} has settings of the type {kind}, not {settings!r}")
    return settings


def _with_map_error(found: Chosen, settings: RunSettings) -> Chosen:
    """Return methods with the settings' ``map_error``, those that have one; what a library defines stays as it is."""
    error = getattr(settings, "map_error", 0)
    if not error:
        return found
    return {
        name: (method, {**given, "map_error": error} if _takes_map_error(method) else given)
        for name, (method, given) in found.items()
    }


def _takes_map_error(method: Any) -> bool:
    return "map_error" in getattr(method, "defaults", ()) and not is_preset(method.name)


def _own_store(benchmark: Benchmark, settings: RunSettings, in_worker: bool) -> ScoreStore:
    return ScoreStore(None if in_worker else benchmark.default_scores_dir(settings) or None)


def _places(metrics: Iterable[str | Metric]) -> tuple[str, ...]:
    return tuple(metric if isinstance(metric, str) else metric.name for metric in metrics)


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


class Evaluation(abc.ABC):
    """A benchmark whose networks and inputs are loaded. Nothing in it changes after it was made.

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
    def sections(self) -> Iterator[Section]:
        """Explain, measure, and yield what is printed, part by part."""

    @abc.abstractmethod
    def data_fingerprints(self, results: Sequence[Any]) -> dict[str, str]:
        """Return the fingerprints of the data sets by name, from the results of all sections."""

    def titles(self, results: Sequence[Any]) -> dict[str, str]:
        """Return the titles of methods and controls by name, from the results of all sections."""
        return {}

    def sharded_runs(self) -> Iterable[Sequence[ShardedRun]]:
        """Return everything that is explained and measured, in groups that are computed one after the other."""
        return []

    def sharded_run(self, name: str) -> ShardedRun:
        """Return one of ``sharded_runs`` by name, for a worker."""
        return next(one for group in self.sharded_runs() for one in group if one.name == name)

    def without(self, failed: Mapping[str, Sequence[Any]]) -> Evaluation:
        """Return the evaluation without inputs that workers could not compute, name of a sharded run -> its items.

        Raises ``BadInput`` if it needs all.
        """
        title = self.run.benchmark.title
        raise BadInput(f"{title} needs all of its inputs; what is computed is kept, so run the command again")

    def write_figures(self, section: Section, directory: str, formats: Sequence[str]) -> None:
        """Write figures and examples, of a benchmark with ``figures``."""
        raise BadInput(f"{self.run.benchmark.title} writes no figures")

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
            folders = saved_methods(given.precomputed_maps, self.run.names)
            _refuse_controls(folders, controls)
            scores = ModelScores(model, given.batch_size) if model else None
            return SavedMaps(folders, controls, given.seed, scores)
        chosen = self.run.methods if methods is None else methods
        _refuse_controls(chosen, controls)
        return Explainer(model, chosen, controls, controlled, given.seed, given.batch_size)

    def maps_directory(self, reduce: Callable[..., Any] | None = None, **origin: Any) -> MapsDirectory | None:
        """Return where maps are saved; None without ``save_maps``.

        ``reduce`` is applied to a map before it is saved; None saves it whole. ``origin`` is what the maps depend on
        besides benchmark and seed; a directory holds maps of one origin.
        """
        if not self.settings.save_maps:
            return None
        described = {"benchmark": self.run.benchmark.name, **origin, "seed": self.settings.seed}
        if self.settings.map_error:
            described["map_error"] = self.settings.map_error
        return MapsDirectory(self.settings.save_maps, described, reduce)

    def computed(self, sharded_run: ShardedRun, unit: str = "input", title: str = "") -> Results:
        """Explain and measure a sharded run in this process, and report its progress."""
        report = Reporter(self.run.progress, title or self.run.benchmark.title, unit, len(sharded_run.items))
        return sharded_run.evaluate(report)


class TableEvaluation(Evaluation):
    """An evaluation that prints one table: each method in turn gets what ``evaluate`` returned."""

    def sections(self) -> Iterator[Section]:
        """Explain, measure, and yield the table."""
        results = self.evaluate()
        scores = self.input_scores(results)
        rows = self.rows(results, scores)
        heading, notes = self.heading(results), self.notes(results, scores, rows)
        text, markdown = (
            tables.report(heading, self.table(results, rows, markdown), notes, width=None if markdown else 118)
            for markdown in (False, True)
        )
        yield Section(rows, text, markdown, scores, [results])

    def evaluate(self) -> Any:
        """Explain and measure."""
        ((sharded_run,),) = self.sharded_runs()
        return self.computed(sharded_run)

    @abc.abstractmethod
    def input_scores(self, results: Any) -> list[InputScores]:
        """Return each input's value by each metric."""

    @abc.abstractmethod
    def rows(self, results: Any, scores: Sequence[InputScores]) -> list[dict[str, Any]]:
        """Return the scores in the long form of ``core.tables``."""

    @abc.abstractmethod
    def heading(self, results: Any) -> list[str]:
        """Return the lines above the table."""

    def notes(self, results: Any, scores: Sequence[InputScores], rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the sentences below the table."""
        return undefined_notes(scores)

    def table(self, results: Any, rows: Sequence[Mapping[str, Any]], markdown: bool) -> str:
        """Return rows laid out for reading."""
        metrics = self.run.metrics
        titles = {name: metric.title for name, metric in metrics.items()}
        decimals = {name: 1 if metric.percent else 3 for name, metric in metrics.items()}
        return tables.wide(rows, titles, self.titles([results]), markdown=markdown, decimals=decimals)

    def titles(self, results: Sequence[Any]) -> dict[str, str]:
        """Return the titles of methods and controls by name; a custom method has that of its function."""
        return self.run.benchmark.row_titles(results[0].sources)


class ExampleEvaluation(TableEvaluation):
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
        inputs = self.data.inputs
        return [
            f"{name} fits {self.run.benchmark.title}: inputs of shape {inputs.shape[1:]} to "
            f"{model.scores(inputs[:1]).shape[1]} classes"
            for name, model in self.models.items()
        ]

    def sharded_runs(self) -> list[list[ShardedRun]]:
        """Return one run through the examples."""
        model = next(iter(self.models.values()), None)
        return [[self.run_of_network(self.run.benchmark.name, model, range(len(self.data.names)))]]

    def run_of_network(self, name: str, model: Any, rows: Sequence[int], methods: Chosen | None = None) -> ShardedRun:
        """Return the run of one network through some examples, with some ``methods``, or those of the run."""
        run, benchmark, data = self.run, self.run.benchmark, self.data
        for metric in run.metrics.values():
            if metric.masks and not data.masks:
                raise BadInput(f"the metric '{metric.name}' needs masks, and {benchmark.title} has none")
        assert benchmark.examples
        evaluator = Evaluator(
            self.explainer(model, networks(benchmark.controls, self.settings.random_networks), methods=methods),
            [metric.measure for metric in run.metrics.values() if metric.measure],
            {"benchmark": benchmark.name, "model": model.fingerprint if model else "", "score": str(benchmark.score)},
            [benchmark.examples, type(self)],
            run.store,
            maps_directory=self.maps_directory(models={name: each.fingerprint for name, each in self.models.items()}),
        )
        return ShardedRun(name, evaluator, rows, self.settings.batch_size, lambda some, size: data.batches(size, some))

    def without(self, failed: Mapping[str, Sequence[Any]]) -> ExampleEvaluation:
        """Return the evaluation without some examples."""
        return type(self)(self.run, self.models, self.data.without(failed[self.run.benchmark.name]))

    def input_scores(self, results: Results) -> list[InputScores]:
        """Return each input's value by each metric."""
        return [
            InputScores(
                {"metric": name},
                list(self.data.names),
                {
                    source.name: results.numbers(source, metric.measure)[:, 0]
                    for source in results.sources
                    if metric.measure
                },
                self.data.clusters,
            )
            for name, metric in self.run.metrics.items()
        ]

    def rows(self, results: Results, scores: Sequence[InputScores]) -> list[dict[str, Any]]:
        """Return the scores in the long form of ``core.tables``."""
        metrics = self.run.metrics
        return score_rows(results.sources, scores, metrics) + curve_rows(results, metrics.values(), self.data.clusters)

    def heading(self, results: Results) -> list[str]:
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

    def data_fingerprints(self, results: Sequence[Results]) -> dict[str, str]:
        """Return the fingerprint of the inputs' names, which hold their content."""
        content = "\n".join(results[0].names).encode()
        return {self.run.benchmark.name: hashlib.sha256(content).hexdigest()}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What an evaluation gave: its sections joined."""

    evaluation: Evaluation
    section: Section

    @property
    def titles(self) -> dict[str, str]:
        """Titles of methods and controls by name."""
        return self.evaluation.titles(self.section.results)

    def manifest(self) -> dict[str, Any]:
        """Return the provenance of the scores, with the methods that were skipped."""
        run = self.evaluation.run
        found = manifest.describe_run(
            run.benchmark.name,
            models={name: model.fingerprint for name, model in self.evaluation.models.items()},
            data=self.evaluation.data_fingerprints(self.section.results),
            seed=run.settings.seed,
            command=run.command(),
        )
        return {**found, "skipped": dict(run.skipped)} if run.skipped else found

    def write(
        self, output: str = "", input_scores: str = "", plot_dir: str = "", formats: Sequence[str] = ("png",)
    ) -> None:
        """Write the scores, those of each input, and figures; nothing where the place is empty."""
        section, run = self.section, self.evaluation.run
        if output:
            tables.save(output, section.rows, self.manifest(), section.text, section.markdown or None)
        if input_scores:
            save_input_scores(input_scores, run.benchmark.name, section.input_scores)
        if plot_dir:
            self.evaluation.write_figures(section, plot_dir, formats)


def load(run: Run) -> Evaluation:
    """Load the networks and the inputs of a run."""
    return (run.benchmark.evaluation or ExampleEvaluation.load)(run)


def evaluated(evaluation: Evaluation, show: Callable[[int, str], object] = lambda number, text: None) -> Outcome:
    """Explain and measure what is loaded; ``show`` gets the number and the text of each section at once."""
    whole = Section([], "")
    for number, section in enumerate(evaluation.sections()):
        show(number, section.text)
        whole = whole.joined(section)
    return Outcome(evaluation, whole)
