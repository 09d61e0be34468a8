"""A benchmark as a definition: all that commands, matrix and report need to know of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY

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
    """

    benchmark: str
    metric: str
    title: str
    group: str
    higher_is_better: bool = True
    percent: bool = False
    where: Mapping[str, str] = dataclasses.field(default_factory=dict)
    excluded: Mapping[str, str] = dataclasses.field(default_factory=dict)

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

    def takes(self, row: Mapping) -> bool:
        """Tell whether a row belongs to this column; a control asked of a method (``of``) stands in no column."""
        wanted = {"metric": self.metric, **self.where}
        return "of" not in row and all(row.get(key) == value for key, value in wanted.items())


@dataclasses.dataclass(frozen=True)
class ReportTask:
    """One command and the table it gives.

    Attributes
    ----------
    name
        Of its files.
    benchmark
        Name of the benchmark.
    title
        Heading of its table.
    command
        What follows ``python``, without ``--methods``.
    methods
        Names for ``--methods``; empty where the command has no such flag.
    note
        Its settings in words, and where they differ from the paper's.
    trial
        What follows ``python`` where a single method is tried; as ``command`` where empty.
    input_scores, scores, pictures
        Whether there are scores of inputs, a store, pictures.
    shared
        Whether the cheap methods of the other benchmarks' papers are scored, too.
    metrics
        Names for ``--metrics``, to which the user's own are added; empty where none can be.
    model_flag
        Flag that takes a user's own model, such as ``--model=``; empty where none applies.
    random_networks
        Whether it takes ``--random_networks``: networks of random weights are one of its controls.
    cost
        CPU seconds that it takes, roughly: the longest begin first where several run side by side.
    """

    name: str
    benchmark: str
    title: str
    command: tuple[str, ...]
    methods: tuple[str, ...] = ()
    note: str = ""
    trial: tuple[str, ...] = ()
    input_scores: bool = True
    scores: bool = True
    pictures: bool = True
    shared: bool = True
    metrics: tuple[str, ...] = ()
    model_flag: str = ""
    random_networks: bool = False
    cost: float = 10.0

    def with_methods(self, methods: Sequence[str]) -> ReportTask:
        """Return the unit with other methods."""
        return dataclasses.replace(self, methods=tuple(methods))

    def with_model(self, path: str) -> ReportTask:
        """Return the unit with a user's own model."""
        return dataclasses.replace(self, command=(*self.command, f"{self.model_flag}{path}"))


@dataclasses.dataclass(frozen=True)
class Trend:
    """Rows of a document that are read along something: a curve a method, a network, or whatever else.

    Attributes
    ----------
    metric
        As in the rows.
    title, about
        Heading of its charts, and how to read them.
    along, along_title
        The rows' key that a curve runs along, and what that is.
    series
        The rows' key that tells the curves apart.
    """

    metric: str
    title: str
    about: str
    along: str
    along_title: str
    series: str = "method"


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    Attributes
    ----------
    name, title
        As in files; as printed.
    about, paper
        What it asks, in plain sentences; who published it.
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
    examples
        ``examples(count, seed)`` returns what is explained; None for a benchmark with commands of its own.
    network
        Directory of the SavedModel that is explained, for a benchmark with ``examples``.
    score
        "logits" or "probabilities", what is explained of it.
    columns
        Of the matrix; from ``metrics`` where None.
    report_tasks
        ``report_tasks(quick, seed)`` returns the commands of a quick or a full run; None for a benchmark with examples.
    counts
        Inputs of a quick and of a whole run, for a benchmark with ``examples``.
    reasons
        Method -> why it is not scored here.
    pictures
        How a picture's file name begins -> what it shows to who cannot see it, and its caption.
    method_note
        How its settings of a method differ from the registry's, such as "Mine takes the absolute gradient".
    contexts
        Keys that the rows of a metric of all benchmarks have here, one mapping a column of the matrix.
    more_metrics
        Metric -> how to read it, for what stands in tables but in no column.
    trends
        What is drawn as curves.
    beside_paper
        Why figures differ from the paper's, as far as it is known: one sentence or more.
    """

    name: str
    title: str
    about: str = ""
    paper: str = ""
    metrics: tuple[Metric, ...] = ()
    controls: tuple[Control, ...] = ()
    methods: tuple[str, ...] = ()
    method_titles: Mapping[str, str] = dataclasses.field(default_factory=dict)
    method_families: Mapping[str, str] = dataclasses.field(default_factory=dict)
    examples: Callable[[int, int], Examples] | None = None
    network: str = ""
    score: str = "logits"
    columns: tuple[Column, ...] | None = None
    report_tasks: Callable[[bool, int], Sequence[ReportTask]] | None = None
    counts: tuple[int, int] = (30, 300)
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pictures: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    more_metrics: Mapping[str, str] = dataclasses.field(default_factory=dict)
    method_note: str = ""
    contexts: tuple[Mapping[str, str], ...] = ({},)
    trends: tuple[Trend, ...] = ()
    beside_paper: str = ""

    def about_metric(self, name: str) -> str:
        """Return how to read a metric; empty for one that nothing is known of."""
        known = {**METRIC_REGISTRY, **{metric.name: metric for metric in self.metrics}}
        return known[name].about if name in known else self.more_metrics.get(name, "")

    def matrix_columns(self) -> tuple[Column, ...]:
        """Return the benchmark's columns of the matrix."""
        if self.columns is None:
            return tuple(self.column(metric) for metric in self.metrics)
        return tuple(
            dataclasses.replace(column, excluded={**self.excluded(column.metric), **column.excluded})
            for column in self.columns
        )

    def excluded(self, metric: str) -> dict[str, str]:
        """Return the controls that are no rivals under a metric, and why."""
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
        )  # fmt: skip

    def columns_of(self, metric: Metric) -> tuple[Column, ...]:
        """Return the columns of a metric that is not the benchmark's own."""
        return tuple(self.column(metric, where) for where in self.contexts)
