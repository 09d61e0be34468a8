"""A benchmark: what describes it, and what chooses and checks before it is evaluated."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attribution import METHODS, Method, resolve_method
from attribution.errors import BadInput, listed
from attribution.methods.registry import title_of
from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.places import SHARED_METRICS
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.settings import ExampleSettings, RunSettings

if TYPE_CHECKING:
    from attribution_benchmarks.core.examples import Examples

ORACLE = "bound"  # knows the truth; nothing that a method should beat
TRIVIAL_MAX = "ceiling"  # has its figure by construction: the best there is, or the same for every network


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of the matrix: which rows of a benchmark's documents it shows.

    Attributes
    ----------
    benchmark, metric
        As the benchmark writes them.
    title
        Heading; ``group`` is the heading above it.
    group
        Name of the benchmark as printed.
    higher_is_better
        Direction of the metric.
    percent
        Whether values are percentages; they are shares of one otherwise.
    where
        Other keys a row must have, such as ``questions``.
    excluded
        Controls that no method is tested against, each with ``ORACLE`` or ``TRIVIAL_MAX``.
    bounds
        Least and most a value can be; intervals end there.
    comparable
        Whether its ranking is compared with those of other benchmarks; only methods with a score on it can be ranked
        there.
    """

    benchmark: str
    metric: str
    title: str
    group: str
    higher_is_better: bool = True
    percent: bool = False
    where: Mapping[str, str] = dataclasses.field(default_factory=dict)
    excluded: Mapping[str, str] = dataclasses.field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    comparable: bool = True

    @property
    def key(self) -> str:
        """Return "benchmark metric questions": unique among columns, and safe in every format."""
        return " ".join(
            [self.benchmark, self.metric, *([self.where["questions"]] if "questions" in self.where else [])]
        )

    @property
    def label(self) -> str:
        """Return "Benchmark metric", the name once where both have the same."""
        return self.title if self.title == self.group else f"{self.group} {self.title}"

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row belongs to this column; a method under a control (``of``) belongs to none."""
        wanted = {"metric": self.metric, **self.where}
        return "of" not in row and all(row.get(key) == value for key, value in wanted.items())


@dataclasses.dataclass(frozen=True)
class ReportTask:
    """One evaluation, and the table that it gives.

    Attributes
    ----------
    name
        Of its files.
    benchmark
        Name of the benchmark that its table belongs to.
    title
        Heading of its table.
    settings
        Of the evaluation.
    methods
        Names of the methods; empty where none are scored.
    note
        Its settings in words, and where they differ from the paper's.
    place
        What is evaluated: a name of ``core.places.BENCHMARKS``, ``module:NAME`` or ``file.py:NAME``.
    scores
        Whether there is a store.
    shared
        Whether the cheap methods of the other benchmarks' papers are scored, too.
    metrics
        Names of the metrics, to which the user's own are added.
    more_metrics
        Whether metrics can be added.
    own_model
        Whether a user's model can be scored.
    random_networks
        Whether networks of random weights are one of its controls.
    cost
        CPU seconds that it takes, roughly: the longest begin first where several run side by side.
    further_cost
        The same on a further network; ``cost`` where 0.
    networks
        Settings of each further trained network that can be scored.
    once
        Metrics and methods that only the benchmark's own network is scored by.
    network
        Number of the further network that it scores; 0 for the benchmark's own.
    """

    name: str
    benchmark: str
    title: str
    settings: RunSettings
    methods: tuple[str, ...] = ()
    note: str = ""
    place: str = ""
    scores: bool = True
    shared: bool = True
    metrics: tuple[str, ...] = ()
    more_metrics: bool = True
    own_model: bool = True
    random_networks: bool = True
    cost: float = 10.0
    further_cost: float = 0.0
    networks: tuple[RunSettings, ...] = ()
    once: tuple[str, ...] = ()
    network: int = 0

    @property
    def series(self) -> str:
        """Name of the task on the benchmark's own network."""
        return self.name.removesuffix(f"_network{self.network}")

    def on_network(self, number: int) -> ReportTask:
        """Return the task on a further network, from 1."""
        return dataclasses.replace(
            self, name=f"{self.name}_network{number}", title=f"{self.title}, network {number + 1}",
            settings=self.networks[number - 1],
            methods=tuple(name for name in self.methods if name not in self.once),
            metrics=tuple(name for name in self.metrics if name not in self.once), own_model=False, network=number,
            cost=self.further_cost or self.cost,
        )  # fmt: skip


def metrics_named(names: Iterable[str], own: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return metrics as ``metrics.registry.select_metrics``, without importing all of them for a benchmark's own."""
    wanted = dict.fromkeys(names)
    if wanted and wanted.keys() <= own.keys():
        return {name: own[name] for name in wanted}
    found: dict[str, Metric] = _shared_metrics().select_metrics(wanted, own)
    return found


def _shared_metrics() -> Any:
    """Return the module of the metrics of all benchmarks, which are written with what is defined here."""
    return importlib.import_module(SHARED_METRICS)


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A benchmark: attributes that describe it, and hooks that choose what is evaluated; see ``core.evaluation``.

    Attributes
    ----------
    name, title
        As in files; as printed.
    report
        What the report says about it: a ``ReportText``, or one of a file with ``ReportText.load``.
    metrics
        Its own metrics.
    controls
        What methods are measured against.
    methods
        Methods of its table, by default.
    method_titles
        Method -> what the benchmark's paper calls it, where that is not the registry's title.
    method_families
        Method -> family, for methods that the registry does not list; see ``attribution.Method``.
    settings
        Class of its settings.
    command
        Module of its command; empty for ``attribution-benchmarks NAME``.
    evaluation
        Returns the ``core.evaluation.Evaluation`` of a ``Run``; None for a benchmark with ``examples``.
    examples
        ``examples(count, seed)`` returns what is explained; None for a benchmark with an ``evaluation`` of its own.
    network
        Directory of the SavedModel that is explained, for a benchmark with ``examples``.
    further_networks
        Directories of the network with other training seeds; a report's scores are means over at most ``--networks``.
    score
        "logits" or "probabilities", what is explained of it.
    paper
        Published figures: ``method``, ``metric`` and other keys of a row, with its ``value``, and ``std`` and
        ``median`` where they are published.
    columns
        Of the matrix; from ``metrics`` where None.
    report_tasks
        ``report_tasks(quick, seed)`` returns the tasks of a quick or of a full run; None for a benchmark with examples.
    counts
        Inputs of a quick and of a whole run, for a benchmark with ``examples``.
    contexts
        Keys that the rows of a metric of all benchmarks have here, one mapping a column of the matrix.
    """

    name: str
    title: str
    report: ReportText = dataclasses.field(default_factory=ReportText)
    metrics: tuple[Metric, ...] = ()
    controls: tuple[Control, ...] = ()
    methods: tuple[str, ...] = ()
    method_titles: Mapping[str, str] = dataclasses.field(default_factory=dict)
    method_families: Mapping[str, str] = dataclasses.field(default_factory=dict)
    settings: type[RunSettings] = ExampleSettings
    command: str = ""
    evaluation: Callable[[Any], Any] | None = None
    examples: Callable[[int, int], Examples] | None = None
    network: str = ""
    further_networks: tuple[str, ...] = ()
    score: str = "logits"
    paper: Sequence[Mapping[str, Any]] = ()
    columns: tuple[Column, ...] | None = None
    report_tasks: Callable[[bool, int], Sequence[ReportTask]] | None = None
    counts: tuple[int, int] = (60, 300)
    contexts: tuple[Mapping[str, str], ...] = ({},)

    def about_metric(self, name: str) -> str:
        """Return how to read a metric; empty for one that nothing is known of."""
        known = {**_shared_metrics().METRIC_REGISTRY, **{metric.name: metric for metric in self.metrics}}
        return known[name].about if name in known else self.report.more_metrics.get(name, "")

    def matrix_columns(self) -> tuple[Column, ...]:
        """Return the benchmark's columns of the matrix."""
        if self.columns is None:
            return tuple(self.column(metric) for metric in self.metrics)
        return tuple(
            dataclasses.replace(column, excluded={**self.excluded(column.metric), **column.excluded})
            for column in self.columns
        )

    def published_figures(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``paper``, ``paper_std`` and ``paper_median`` of a row, as far as they are published."""
        names = {"value": "paper", "std": "paper_std", "median": "paper_median"}
        for figure in self.paper:
            if all(row.get(key) == value for key, value in figure.items() if key not in names):
                return {names[key]: value for key, value in figure.items() if key in names}
        return {}

    def excluded(self, metric: str) -> dict[str, str]:
        """Return the controls that are no baselines for a metric, and why."""
        return {
            control.name: ORACLE if control.oracle else TRIVIAL_MAX
            for control in self.controls
            if control.oracle or metric in control.trivial_max_of
        }

    def column(self, metric: Metric, where: Mapping[str, str] | None = None) -> Column:
        """Return the column of one metric."""
        kind = f", {where['questions']}" if where and "questions" in where else ""
        return Column(
            self.name, metric.name, f"{metric.title}{kind}", self.title, metric.better == "more", metric.percent,
            where or {}, self.excluded(metric.name),
            metric.bounds if metric.hit is None else (0.0, metric.hit),
        )  # fmt: skip

    def columns_of(self, metric: Metric) -> tuple[Column, ...]:
        """Return the columns of a metric that is not the benchmark's own."""
        return tuple(self.column(metric, where) for where in self.contexts)

    # Hooks, in the order of their calls, before anything is loaded; see ``core.evaluation.prepare``.

    @property
    def default_metrics(self) -> tuple[str, ...]:
        """Names of the metrics that are scored unless others are chosen."""
        return tuple(metric.name for metric in self.metrics)

    def select_metrics(self, names: Sequence[str]) -> dict[str, Metric]:
        """Return metrics by name; all of its own when empty."""
        own = {metric.name: metric for metric in self.metrics}
        return metrics_named(names or own, own)

    def check(self, settings: Any, metrics: Mapping[str, Metric], names: Sequence[str]) -> None:
        """Raise ``BadInput`` for settings that do not go together, or not with the metrics and methods."""
        if settings.precomputed_maps and getattr(settings, "model", ""):
            raise BadInput("--precomputed_maps needs no network; leave out --model")

    def method_named(self, name: str) -> Method:
        """Return the method of a name: of the registry, or the user's ``module:function``."""
        return resolve_method(name)

    def with_parameters(
        self, methods: Mapping[str, Method], settings: Any
    ) -> Mapping[str, tuple[Method, Mapping[str, Any]]]:
        """Return name -> (method, overrides of its parameters)."""
        if not methods:
            raise BadInput(f"--methods is empty, and {self.title} names none; choose of {listed(METHODS)}")
        layer = {"layer": settings.layer} if settings.layer else {}
        return {name: (method, layer if "layer" in method.defaults else {}) for name, method in methods.items()}

    def default_scores_dir(self, settings: Any) -> str:
        """Return where scores are kept unless a store is given; empty for memory."""
        return ""

    def with_model(self, settings: Any, path: str) -> Any:
        """Return settings with a user's model in place of the benchmark's network."""
        return dataclasses.replace(settings, model=path)

    def row_titles(self, sources: Iterable[MapSource]) -> dict[str, str]:
        """Return the titles of methods and controls by name; a custom method has that of its function."""
        controls = {control.name: control.title for control in self.controls}
        found = {}
        for source in by_kind(sources):
            method = self.method_titles.get(source.method, title_of(source.method))
            found[source.name] = method if not source.control else controls[source.control]
            if source.method and source.control:
                found[source.name] = f"{method} ({controls[source.control]})"
        return found
