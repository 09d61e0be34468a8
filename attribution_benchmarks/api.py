"""Evaluate benchmarks and choose methods from Python: ``evaluate``, ``score`` and ``choose``."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pathlib
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attribution import METHODS, Method
from attribution.errors import BadInput, listed
from attribution.files import cache_directory
from attribution.savedmodel.paths import find_saved_model
from attribution.tensorflow_log import quiet_tensorflow
from attribution_benchmarks.choosing import page, scoring
from attribution_benchmarks.choosing.choice import Choice
from attribution_benchmarks.core import tables
from attribution_benchmarks.core.definition import ORACLE, TRIVIAL_MAX, Benchmark, ReportTask
from attribution_benchmarks.core.evaluation import MethodLike, Run, evaluated, load, named, prepare
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.places import BENCHMARKS
from attribution_benchmarks.core.progress import Bars, Progress
from attribution_benchmarks.core.registry import REPORTED, benchmark_named
from attribution_benchmarks.core.settings import RunSettings
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.metrics.registry import select_metrics
from attribution_benchmarks.report.presets import columns_of, tasks_of
from attribution_benchmarks.stats.statistics import PairComparison, compare_pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Methods = Sequence[MethodLike] | Mapping[str, MethodLike]
_STYLES = {  # color and marker in figures
    "method": ("tab:blue", "o"),
    "baseline": ("0.55", "s"),
    "oracle (uses the truth)": ("tab:green", "D"),
    "trivial maximum": ("tab:orange", "^"),
}


def evaluate(
    benchmark: Benchmark | str,
    methods: Methods | None = None,
    settings: RunSettings | None = None,
    *,
    metrics: Sequence[str | Metric] | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Results:
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
    Results
        Scores of methods and baselines.

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

    def part(chosen: Mapping[str, MethodLike] | None) -> Part:
        kept = ScoreStore(None if store is None else os.fspath(store))
        run = prepare(definition, chosen, settings, metrics=added, store=kept, place=place)
        return _part(run, definition.title, progress)

    with _quiet():
        first = part(given)
    own = [row["method"] for row in first.rows if row.get("kind") == "method"]  # with precomputed maps, their folders
    scored = given or dict.fromkeys(own, "")

    def more(chosen: Mapping[str, MethodLike]) -> tuple[list[Part], dict[str, str]]:
        with _quiet():
            return [part(chosen)], {}

    others = [metric for metric in first.metrics.values() if metric not in definition.metrics]
    return Results([first], {}, more, scored, [definition], others)


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
    masks: np.ndarray | None = None,
    methods: Methods | None = None,
    *,
    output_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Choice:
    """Score the methods that apply to a model on inputs without ground truth, and say which to use.

    Parameters
    ----------
    model
        What ``attribution.load_model`` takes, or a model that it returned.
    inputs
        (N, ...) as the model takes them, or a mapping from input name to such arrays; at least
        ``stats.statistics.MIN_INPUTS`` for a test. Tokens need ``background=``, a model with several inputs of
        floating point ``explain_input=``.
    targets
        (N,) classes to explain, or one for all; the predicted ones where None.
    masks
        (N, positions...) bool, where a map should be, without channels. They do not change the verdict.
    methods
        As of ``evaluate``; all that apply, but those of other libraries, where None.
    output_dir
        Directory of the page and the maps; None writes nothing.
    progress
        Called with a ``core.progress.Step`` after each batch; bars on standard error where None.
    **options
        ``names``, ``background``, ``explain_input``, ``feature_names``, ``batch_size`` and ``seed`` of
        ``choosing.scoring.rounds``.

    Returns
    -------
    Choice
        Printed, it is the answer in sentences.

    Raises
    ------
    BadInput
        If the model or the inputs are of another kind, or no method applies.
    """
    with _quiet(), Bars() as bars:
        *_, last = scoring.rounds(
            model, inputs, targets, masks, methods, output_dir=output_dir, progress=progress or bars, **options
        )
    if output_dir is not None:
        directory = pathlib.Path(output_dir)
        page.write(last, directory, commands=list(filter(None, [page.in_python(last, "model", directory)])))
    return last


def score(
    methods: MethodLike | Methods,
    benchmarks: str | Sequence[str] = REPORTED,
    *,
    model: str | os.PathLike[str] | None = None,
    metrics: str | Sequence[str] = (),
    quick: bool = True,
    seed: int = 0,
) -> Results:
    """Score attribution methods on benchmarks, with the settings of the report and each benchmark's baselines.

    Parameters
    ----------
    methods
        One method or several, as of ``evaluate``.
    benchmarks
        Names of benchmarks ("svea", "bim", "clevr_xai", "exact", "xai_units", "xai_tris", "sequences", "parts"), or
        ``"file.py:NAME"`` of custom ones.
    model
        SavedModel, or ``.keras`` or ``.h5`` file, to explain instead of each benchmark's network. A benchmark that it
        does not fit is listed in ``Results.skipped``.
    metrics
        Further metrics, as ``--metrics`` of the report takes them: names of docs/metrics.md or ``"file.py:NAME"``.
    quick
        The inputs and samples of the report's ``--quick``; False for those of a full report.
    seed
        Seed of random numbers.

    Returns
    -------
    Results
        Scores of methods and baselines. They are stored in the cache, so that a second call is fast; scores of a
        function that reads files or changes itself are not, which a line on standard error says (docs/own_models.md).

    Raises
    ------
    BadInput
        If a name is unknown, if ``model`` or ``seed`` is invalid, or if no benchmark can score any of the methods.
    """
    given = named(_several("methods", methods))
    if not given:
        raise BadInput("methods is empty; give one at least")
    request = _request(benchmarks, model, metrics, quick, seed)
    parts, skipped = request.parts(given)
    if not parts:
        raise BadInput("; ".join(f"{place}: {reason}" for place, reason in skipped.items()))
    definitions = [benchmark_named(place) for place in request.benchmarks]
    added = list(select_metrics(request.metrics, {}).values()) if request.metrics else []
    return Results(parts, skipped, request.parts, given, definitions, added)


def _request(benchmarks: Any, model: Any, metrics: Any, quick: bool, seed: Any) -> _Request:
    """Return the checked arguments of ``score``."""
    places = tuple(dict.fromkeys(_several("benchmarks", benchmarks)))
    if not places:
        raise BadInput(f"benchmarks is empty; choose of {listed(BENCHMARKS)}")
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise BadInput(f"seed={seed!r}: a whole number from 0 on is needed")
    if not isinstance(quick, bool):
        raise BadInput(f"quick={quick!r}: True or False is needed")
    if not isinstance(model, (str, os.PathLike, type(None))):
        raise BadInput(f"model is the path of a SavedModel or of a .keras or .h5 file, not {model!r}")
    if model:
        find_saved_model(model)
    return _Request(places, os.fspath(model or ""), tuple(_several("metrics", metrics)), quick, int(seed))


@dataclasses.dataclass(frozen=True)
class Part:
    """The scores of one table.

    Attributes
    ----------
    benchmark, title
        Name of the benchmark, and title of the table.
    rows
        Scores in the long form of ``core.tables``.
    input_scores
        The score of every input, by metric.
    metrics, titles
        Metrics by name; printed names of methods and baselines.
    excluded
        Metric -> controls that no method is compared with: oracles and trivial maxima.
    text
        The table as the benchmark's command prints it.
    """

    benchmark: str
    title: str
    rows: list[dict[str, Any]]
    input_scores: Sequence[InputScores]
    metrics: Mapping[str, Metric]
    titles: Mapping[str, str]
    excluded: Mapping[str, Mapping[str, str]]
    text: str

    def label(self, where: Mapping[str, Any]) -> str:
        """Return the title of a metric and what distinguishes the columns of one metric, such as the questions."""
        others = [str(value) if isinstance(value, str) else f"{key} {value}" for key, value in where.items()
                  if key != "metric"]  # fmt: skip
        return " ".join([self.metrics[where["metric"]].title, *others])

    def rows_of(self, where: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of one column with a value, methods before baselines, without methods under a control."""
        found = [
            row
            for row in self.rows
            if all(row.get(key) == value for key, value in where.items()) and row.get("value") is not None
            and not {"of", "at"} & set(row)
        ]  # fmt: skip
        return sorted(found, key=lambda row: bool(row["kind"] == "control"))


class Results:
    """Scores of methods and baselines on one or more benchmarks.

    Attributes
    ----------
    parts
        The tables, one or more for each benchmark.
    skipped
        "Table: method" or "table" -> why it was not scored.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        skipped: Mapping[str, str],
        more: Callable[[Mapping[str, MethodLike]], tuple[list[Part], dict[str, str]]],
        methods: Mapping[str, MethodLike],
        benchmarks: Sequence[Benchmark],
        metrics: Sequence[Metric],
    ):
        self.parts, self.skipped = list(parts), dict(skipped)
        self._more, self._methods, self._benchmarks = more, dict(methods), list(benchmarks)
        self._metrics = list(metrics)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Scores in the long form of ``--output=FILE.json``, with the title of their table as ``table``."""
        return [{"table": part.title, **row} for part in self.parts for row in part.rows]

    def table(self) -> Table:
        """Return the scores for reading, one table for each benchmark, as its command prints them."""
        skipped = [f"Not scored: {place}: {reason}" for place, reason in self.skipped.items()]
        return Table(self.rows, "\n".join([*(part.text for part in self.parts), *skipped]))

    def compare(self, other: str) -> Table:
        """Return the paired difference of each method to another one, by metric.

        Parameters
        ----------
        other
            A method or a baseline, by its name or its title in the table. A method that was not scored yet is scored
            now.

        Returns
        -------
        Table
            Rows with ``table``, ``metric``, ``method``, ``minus``, ``difference`` (method minus other, mean over the
            inputs that both have), its 95 % interval ``low`` and ``high``, ``p_value`` (Holm's correction for the
            number of methods) and ``n``.

        Raises
        ------
        BadInput
            If there is no such method or baseline.
        """
        if not isinstance(other, str):
            raise BadInput(f"compare takes the name of a method or of a baseline, not {other!r}")
        if other not in self._names():
            names = {method.title: name for name, method in METHODS.items()}
            names |= {title: name for part in self.parts for name, title in part.titles.items()}
            other = names.get(other, other)
        columns, title, refused = self._columns_of(other)
        rows, body = [], []
        for part in self.parts:
            for group in part.input_scores:
                label, better = part.label(group.where), part.metrics[group.where["metric"]].better
                for pair in self._compared(part, group, other, columns):
                    rows.append(
                        {
                            "table": part.title, **group.where, "method": pair.first, "minus": pair.second,
                            "difference": pair.difference, "low": pair.low, "high": pair.high,
                            "p_value": pair.p_corrected, "n": pair.n,
                        }
                    )  # fmt: skip
                    body.append(
                        [
                            part.title, label, better, part.titles.get(pair.first, pair.first),
                            f"{pair.difference:+.3f}", f"{pair.low:+.3f}, {pair.high:+.3f}",
                            "< 0.0001" if pair.p_corrected < 1e-4 else f"{pair.p_corrected:.4f}", str(pair.n),
                        ]
                    )  # fmt: skip
        if not rows:
            reason = "".join(f" ({why})" for why in list(refused.values())[:1])
            raise BadInput(f"nothing to compare with '{other}'{reason}; scored are {listed(self._names())}")
        header = ["table", "metric", "better", "method", f"minus {title}", "95 %", "p", "inputs"]
        return Table(rows, tables.text_table(header, body))

    def advice(self) -> str:
        """Return which of the methods to use, in plain sentences.

        They say by how much baselines are beaten, ranks by in-domain deletion, costs, and what remains open; as the
        report does, for one network per benchmark. With too few inputs it says how many are needed.
        """
        from attribution_benchmarks.report import matrix, significance, summary
        from attribution_benchmarks.report.formatting import Names

        columns = [column for benchmark in self._benchmarks for column in columns_of(benchmark, self._metrics)]
        built = matrix.build([{"benchmark": part.benchmark, "rows": part.rows} for part in self.parts], columns)
        scores: dict[str, list[InputScores]] = {}
        for part in self.parts:
            scores.setdefault(part.benchmark, []).extend(part.input_scores)
        titles = {name: title for part in self.parts for name, title in part.titles.items()}
        tests = significance.compare_columns(built, scores)
        tested = [one for one in tests.values() if one.has_power()]
        none = summary.no_verdict(tested)
        lines = [f"{none}."] if none else summary.advice(built, tests, Names(titles))
        return "\n".join([*lines, *summary.caveats(tested)])

    def _columns_of(self, other: str) -> tuple[dict[tuple[Any, ...], Any], str, dict[str, str]]:
        """Return the scores of one method or baseline by table and column, its title, and why tables lack it.

        It is scored if it is missing.
        """
        parts, refused = self.parts, dict[str, str]()
        if not any(other in group.values for part in parts for group in part.input_scores):
            parts, refused = self._more({other: other})
        columns = {
            (part.title, *group.where.items()): group.values[other]
            for part in parts
            for group in part.input_scores
            if other in group.values
        }
        return columns, next((part.titles[other] for part in parts if other in part.titles), other), refused

    def _compared(
        self, part: Part, group: InputScores, other: str, columns: Mapping[tuple[Any, ...], Any]
    ) -> list[PairComparison]:
        """Return the paired comparisons of the methods with another one by one metric."""
        place = (part.title, *group.where.items())
        names = [name for name in self._methods if name != other and name in group.values]
        if place not in columns:
            return []
        values = {**{name: group.values[name] for name in names}, other: columns[place]}
        return compare_pairs(values, [(name, other) for name in names], group.clusters)

    def plot(self) -> Figure:
        """Return a figure: a panel for each metric, methods, baselines and oracles with their 95 % intervals."""
        from matplotlib.figure import Figure

        panels = [
            (part, group.where, rows)
            for part in self.parts
            for group in part.input_scores
            if (rows := part.rows_of(group.where))
        ]
        columns = min(3, len(panels))
        lines = -(-len(panels) // columns)
        height = max(len(rows) for *_, rows in panels)
        figure = Figure(figsize=(5 * columns, (0.24 * height + 1.1) * lines), layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False).flat
        for axis, panel in zip(axes, panels, strict=False):
            _draw_panel(axis, *panel)
        _draw_legend(figure)
        for axis in list(figure.axes)[len(panels) :]:
            axis.set_axis_off()
        return figure

    def _names(self) -> list[str]:
        return list(dict.fromkeys(row["method"] for row in self.rows if "of" not in row))

    def __repr__(self) -> str:
        return str(self.table())


class Table(list[dict[str, Any]]):
    """Rows as dictionaries; printed, they are a table."""

    def __init__(self, rows: Sequence[dict[str, Any]], text: str):
        super().__init__(rows)
        self._text = text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class _Request:
    """Arguments of ``score``."""

    benchmarks: tuple[str, ...]
    model: str
    metrics: tuple[str, ...]
    quick: bool
    seed: int

    def parts(self, methods: Mapping[str, MethodLike]) -> tuple[list[Part], dict[str, str]]:
        """Return the scores of all tables, and why a method or a table is missing."""
        parts: list[Part] = []
        skipped: dict[str, str] = {}
        with _quiet():
            for place in self.benchmarks:
                benchmark = benchmark_named(place)
                tasks = tasks_of(benchmark, place, self.quick, self.seed, self.metrics)
                for task in (task for task in tasks if task.methods):  # TCAV scores concepts, not methods
                    if self.model and not task.own_model:
                        skipped[task.title] = "this table takes no other model"
                        continue
                    part, refused = self._scored(benchmark, task, methods)
                    skipped |= {f"{task.title}: {name}": why for name, why in refused.items()}
                    parts += [part] if part else []
        return parts, skipped

    def _scored(
        self, benchmark: Benchmark, task: ReportTask, methods: Mapping[str, MethodLike]
    ) -> tuple[Part | None, dict[str, str]]:
        """Return the scores of one table, without the methods that it refuses, and the reasons of these."""
        try:
            return self._run(benchmark, task, methods), {}
        except BadInput as error:
            if len(methods) == 1:
                return None, {name: str(error) for name in methods}
        refused = {}
        for name, method in methods.items():
            refused |= self._scored(benchmark, task, {name: method})[1]
        left = {name: method for name, method in methods.items() if name not in refused}
        return (self._run(benchmark, task, left) if left else None), refused

    def _run(self, benchmark: Benchmark, task: ReportTask, methods: Mapping[str, MethodLike]) -> Part:
        settings = benchmark.with_model(task.settings, self.model) if self.model else task.settings
        store = ScoreStore(str(cache_directory("scores")))
        run = prepare(benchmark, methods, settings, metrics=task.metrics, store=store, place=task.place)
        return _part(run, task.title, None)


def _part(run: Run, title: str, progress: Progress | None) -> Part:
    """Return the scores of a run, and close its store."""
    with contextlib.closing(run.store), Bars() as bars:
        found = evaluated(load(dataclasses.replace(run, progress=progress or bars)))
    excluded = {name: run.benchmark.excluded(name) for name in run.metrics}
    section = found.section
    return Part(
        run.benchmark.name, title, section.rows, section.input_scores, run.metrics, found.titles, excluded, section.text
    )


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


def _kind(row: Mapping[str, Any], excluded: Mapping[str, str]) -> str:
    """Return the key of ``_STYLES`` of a row."""
    if row["kind"] != "control":
        return "method"
    return {ORACLE: "oracle (uses the truth)", TRIVIAL_MAX: "trivial maximum"}.get(
        excluded.get(row["method"], ""), "baseline"
    )


def _draw_legend(figure: Figure) -> None:
    """Draw a legend of the kinds that occur, below the panels."""
    handles = {line.get_label(): line for axis in figure.axes for line in axis.lines}
    shown = [handles[label] for label in _STYLES if label in handles]
    figure.legend(handles=shown, loc="outside lower center", ncols=len(shown), fontsize=8)


def _draw_panel(axis: Any, part: Part, where: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Draw the scores of one column with their intervals; the label of each point is its kind."""
    for place, row in enumerate(rows):
        kind = _kind(row, part.excluded.get(where["metric"], {}))
        color, marker = _STYLES[kind]
        low, high = (np.nan if row[end] is None else row[end] for end in ("low", "high"))
        axis.plot([low, high], [place, place], color=color, linewidth=1.5)
        axis.plot([row["value"]], [place], marker, color=color, markersize=4, label=kind)
    axis.set_yticks(range(len(rows)), [part.titles.get(row["method"], row["method"]) for row in rows])
    axis.tick_params(labelsize=8)
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    title = f"{part.title}: {part.label(where)} ({part.metrics[where['metric']].better} is better)"
    # Above the names of the methods there is room for what is wider than the axes.
    axis.set_title(textwrap.fill(title, 56), fontsize=9, loc="right")
