"""A benchmark: its description for the report, and the hooks that ``core.runner`` calls to evaluate it."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from attribution.errors import BadInput, listed
from attribution_benchmarks.core import tables
from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import networks
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.tables import curve_rows, score_rows, undefined_notes

if TYPE_CHECKING:
    from attribution_benchmarks.core.evaluator import ShardedRun
    from attribution_benchmarks.core.examples import Examples
    from attribution_benchmarks.core.input_scores import InputScores
    from attribution_benchmarks.core.runner import Run

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
    further_cost
        The same on a further network; ``cost`` where 0.
    networks
        Flags of each further trained network that the same command can score.
    once
        Metrics and methods that only the benchmark's own network is scored by.
    network
        Number of the further network that it scores; 0 for the benchmark's own.
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
    further_cost: float = 0.0
    networks: tuple[tuple[str, ...], ...] = ()
    once: tuple[str, ...] = ()
    network: int = 0

    def with_methods(self, methods: Sequence[str]) -> ReportTask:
        """Return the unit with other methods."""
        return dataclasses.replace(self, methods=tuple(methods))

    def on_network(self, number: int) -> ReportTask:
        """Return the unit on a further network, from 1."""
        return dataclasses.replace(
            self, name=f"{self.name}_network{number}", title=f"{self.title}, network {number + 1}",
            command=(*self.command, *self.networks[number - 1]), trial=self.trial or self.command, pictures=False,
            methods=tuple(name for name in self.methods if name not in self.once),
            metrics=tuple(name for name in self.metrics if name not in self.once), model_flag="", network=number,
            cost=self.further_cost or self.cost,
        )  # fmt: skip

    def with_model(self, path: str) -> ReportTask:
        """Return the unit with a user's own model."""
        return dataclasses.replace(self, command=(*self.command, f"{self.model_flag}{path}"))


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of a run's output: rows of the long form, and their table as text and as Markdown.

    Without Markdown, a Markdown file has the text as a code block.
    """

    rows: list[dict[str, Any]]
    text: str
    markdown: str = ""

    def __add__(self, other: Section) -> Section:
        """Return this section followed by another."""
        return Section(self.rows + other.rows, self.text + other.text, self.markdown + other.markdown)


def metrics_named(names: Iterable[str], own: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return metrics as ``metrics.registry.select_metrics``, without importing all of them for a benchmark's own."""
    wanted = dict.fromkeys(names)
    if wanted and wanted.keys() <= own.keys():
        return {name: own[name] for name in wanted}
    from attribution_benchmarks.metrics.registry import select_metrics

    return select_metrics(wanted, own)


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A benchmark: attributes that describe it, and hooks that evaluate it; see ``core.runner``.

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
    examples
        ``examples(count, seed)`` returns what is explained; None for a benchmark with commands of its own.
    network
        Directory of the SavedModel that is explained, for a benchmark with ``examples``.
    score
        "logits" or "probabilities", what is explained of it.
    columns
        Of the matrix; from ``metrics`` where None.
    report_tasks
        ``report_tasks(quick, seed, share)`` returns the commands of a quick run, or of a full run on a share of its
        inputs; None for a benchmark with examples.
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
    examples: Callable[[int, int], Examples] | None = None
    network: str = ""
    score: str = "logits"
    columns: tuple[Column, ...] | None = None
    report_tasks: Callable[[bool, int, float], Sequence[ReportTask]] | None = None
    counts: tuple[int, int] = (30, 300)
    contexts: tuple[Mapping[str, str], ...] = ({},)

    def about_metric(self, name: str) -> str:
        """Return how to read a metric; empty for one that nothing is known of."""
        from attribution_benchmarks.metrics.registry import METRIC_REGISTRY

        known = {**METRIC_REGISTRY, **{metric.name: metric for metric in self.metrics}}
        return known[name].about if name in known else self.report.more_metrics.get(name, "")

    def matrix_columns(self) -> tuple[Column, ...]:
        """Return the benchmark's columns of the matrix."""
        if self.columns is None:
            return tuple(self.column(metric) for metric in self.metrics)
        return tuple(
            dataclasses.replace(column, excluded={**self.excluded(column.metric), **column.excluded})
            for column in self.columns
        )

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

    # Hooks of core.runner, in the order of their calls. The defaults are those of a benchmark with ``examples``.

    def define_flags(self, flag_values: flags.FlagValues) -> None:
        """Define the benchmark's own flags and change defaults of shared ones; see ``core.runner``."""
        from attribution import cli

        cli.define_common_flags(flag_values, model="", num_imgs=100)
        flag_values["num_imgs"].help = "how many inputs to score: a number, or 'all'"

    def select_metrics(self, names: Sequence[str]) -> dict[str, Metric]:
        """Return the metrics of ``--metrics`` by name; all of its own when empty."""
        own = {metric.name: metric for metric in self.metrics}
        return metrics_named(names or own, own)

    def check(self, run: Run) -> None:
        """Raise ``BadInput`` for flags that do not go together, before anything is loaded."""
        if run.flags.precomputed_maps and run.flags.model:
            raise BadInput("--precomputed_maps needs no network; leave out --model")

    def select_methods(self, run: Run) -> dict[str, tuple[Any, Mapping[str, Any]]]:
        """Return the methods of ``--methods``, name -> (method, overrides of its parameters)."""
        import attribution

        names = run.method_names or self.methods
        if not names:
            raise BadInput(f"--methods is empty, and {self.title} names none; choose of {listed(attribution.METHODS)}")
        methods = {name: attribution.resolve_method(name) for name in names}
        layer = {"layer": run.flags.layer} if run.flags.layer else {}
        return {name: (method, layer if "layer" in method.defaults else {}) for name, method in methods.items()}

    def default_scores_dir(self, run: Run) -> str:
        """Return where scores are stored without ``--scores_dir``; empty for nowhere."""
        return ""

    def load(self, run: Run) -> None:
        """Set ``run.models``, name -> model, and ``run.data``."""
        import attribution
        from attribution.remote_files import origin

        count = sys.maxsize if run.flags.num_imgs == "all" else int(run.flags.num_imgs)
        assert self.examples  # a benchmark without them overrides this
        run.data = self.examples(count, run.flags.seed)
        if run.flags.precomputed_maps:
            return
        path = pathlib.Path(run.flags.model or self.network)
        model = attribution.load_model(path, score=self.score)
        if run.flags.layer:
            model.layer(run.flags.layer)  # raises for an unknown layer
        run.models = {origin(path) if run.flags.model else path.name: model}

    def describe_models(self, run: Run) -> list[str]:
        """Return the lines of ``--check_model``."""
        return [
            f"{name} fits {self.title}: inputs of shape {run.data.inputs.shape[1:]} to "
            f"{model.scores(run.data.inputs[:1]).shape[1]} classes"
            for name, model in run.models.items()
        ]

    def sharded_runs(self, run: Run) -> Iterable[Sequence[ShardedRun]]:
        """Return everything that is explained and measured, in groups that are computed one after the other."""
        from attribution_benchmarks.core.evaluator import Evaluator, ShardedRun

        data: Examples = run.data
        assert self.examples  # a benchmark without them overrides this
        for metric in run.metrics.values():
            if metric.masks and not data.masks:
                raise BadInput(f"the metric '{metric.name}' needs masks, and {self.title} has none")
        model = next(iter(run.models.values()), None)
        fingerprints = {name: each.fingerprint for name, each in run.models.items()}
        evaluator = Evaluator(
            run.explainer(model, networks(self.controls, run.flags.random_networks)),
            [metric.measure for metric in run.metrics.values() if metric.measure],
            {"benchmark": self.name, "model": model.fingerprint if model else "", "score": str(self.score)},
            [self.examples, type(self)],
            run.store,
            maps_directory=run.maps_directory(models=fingerprints),
        )
        rows = range(len(data.names))
        return [
            [ShardedRun(self.name, evaluator, rows, run.flags.batch_size, lambda some, size: data.batches(size, some))]
        ]

    def sharded_run(self, run: Run, name: str) -> ShardedRun:
        """Return one of ``sharded_runs`` by name, for a worker."""
        return next(one for group in self.sharded_runs(run) for one in group if one.name == name)

    def drop(self, run: Run, failed: Mapping[str, Sequence[Any]]) -> None:
        """Drop inputs that workers could not compute, name of a sharded run -> its items; or raise ``BadInput``."""
        run.data = run.data.without(failed[self.name])

    def sections(self, run: Run) -> Iterator[Section]:
        """Evaluate, set ``run.input_scores`` and yield what is printed, part by part."""
        run.results = self.evaluate(run)
        run.input_scores = self.input_scores(run)
        rows = self.rows(run)
        heading, notes = self.heading(run), self.notes(run, rows)
        text = tables.report(heading, self.table(run, rows), notes, width=118)
        yield Section(rows, text, tables.report(heading, self.table(run, rows, markdown=True), notes, width=None))

    def evaluate(self, run: Run) -> Any:
        """Explain and measure; return what ``input_scores`` and ``rows`` read as ``run.results``."""
        ((sharded_run,),) = self.sharded_runs(run)
        return run.evaluate(sharded_run)

    def input_scores(self, run: Run) -> list[InputScores]:
        """Return each input's value by each metric."""
        from attribution_benchmarks.core.input_scores import InputScores

        return [
            InputScores(
                {"metric": name},
                list(run.data.names),
                {source.name: run.results.numbers(source, metric.measure)[:, 0] for source in run.results.sources},
                run.data.clusters,
            )
            for name, metric in run.metrics.items()
        ]

    def rows(self, run: Run) -> list[dict[str, Any]]:
        """Return the scores in the long form of ``core.tables``."""
        rows = score_rows(run.results.sources, run.input_scores, run.metrics)
        return rows + curve_rows(run.results, run.metrics.values(), run.data.clusters)

    def heading(self, run: Run) -> list[str]:
        """Return the lines above the table."""
        return [f"{self.title}: {len(run.data.names):,} inputs, {', '.join(run.models) or 'saved maps'}"]

    def notes(self, run: Run, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the sentences below the table."""
        return undefined_notes(run.input_scores)

    def table(self, run: Run, rows: Sequence[Mapping[str, Any]], markdown: bool = False) -> str:
        """Return rows laid out for reading."""
        titles = {name: metric.title for name, metric in run.metrics.items()}
        decimals = {name: 1 if metric.percent else 3 for name, metric in run.metrics.items()}
        return tables.wide(rows, titles, self.titles(run), markdown=markdown, decimals=decimals)

    def titles(self, run: Run) -> dict[str, str]:
        """Return the titles of the table's methods and controls by name."""
        return self.row_titles(run.results.sources)

    def row_titles(self, sources: Iterable[MapSource]) -> dict[str, str]:
        """Return the titles of methods and controls by name; a custom method has that of its function."""
        from attribution import METHODS

        controls = {control.name: control.title for control in self.controls}
        found = {}
        for source in by_kind(sources):
            registered = METHODS[source.method].title if source.method in METHODS else source.method.rpartition(":")[2]
            method = self.method_titles.get(source.method, registered)
            found[source.name] = method if not source.control else controls[source.control]
            if source.method and source.control:
                found[source.name] = f"{method} ({controls[source.control]})"
        return found

    def data_fingerprints(self, run: Run) -> dict[str, str]:
        """Return the fingerprints of the data sets by name, after ``sections``."""
        content = "\n".join(run.results.names).encode()
        return {self.name: hashlib.sha256(content).hexdigest()}

    def write_figures(self, run: Run, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write figures and examples into ``--plot_dir``, a flag of benchmarks that override this."""
