"""Score attribution methods from Python: ``attribution_benchmarks.score``."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import logging
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.cli import quiet_tensorflow
from attribution.errors import BadInput, listed
from attribution.files import cache_directory, find_saved_model
from attribution.methods.registry import METHODS, registered
from attribution_benchmarks.core import tables
from attribution_benchmarks.core.definition import ORACLE, TRIVIAL_MAX, ReportTask
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.registry import BENCHMARKS, REPORTED, benchmark_named
from attribution_benchmarks.core.runner import Run
from attribution_benchmarks.metrics.registry import select_metrics
from attribution_benchmarks.report.presets import columns_of, tasks_of
from attribution_benchmarks.stats.statistics import PairComparison, compare_pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MethodLike = str | Callable[..., Any]
_STYLES = {  # color and marker in figures
    "method": ("tab:blue", "o"),
    "baseline": ("0.55", "s"),
    "oracle (uses the truth)": ("tab:green", "D"),
    "trivial maximum": ("tab:orange", "^"),
}


def score(
    methods: MethodLike | Sequence[MethodLike],
    benchmarks: str | Sequence[str] = REPORTED,
    *,
    model: str | os.PathLike[str] | None = None,
    metrics: str | Sequence[str] = (),
    quick: bool = True,
    seed: int = 0,
) -> Results:
    """Score attribution methods on benchmarks, with each benchmark's baselines.

    Parameters
    ----------
    methods
        One method or several: a name of ``attribution.METHODS``, ``"file.py:function"``, ``"module:function"``, or a
        function of the model's queries (docs/own_models.md).
    benchmarks
        Names of benchmarks ("svea", "bim", "clevr_xai", "exact", "xai_units", "xai_tris"), or ``"file.py:NAME"`` of
        custom ones.
    model
        Directory of a SavedModel to explain instead of each benchmark's network. A benchmark that it does not fit is
        listed in ``Results.skipped``.
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
    given = _listed("methods", methods)
    named = {each if isinstance(each, str) else each.__name__: each for each in given}
    if len(named) < len(given) or not named:
        raise BadInput("methods need different names, one at least")
    settings = _settings(benchmarks, model, metrics, quick, seed)
    parts, skipped = settings.parts(named)
    if not parts:
        raise BadInput("; ".join(f"{place}: {reason}" for place, reason in skipped.items()))
    return Results(parts, skipped, settings, named)


def _settings(benchmarks: Any, model: Any, metrics: Any, quick: bool, seed: Any) -> _Settings:
    """Return the checked settings of ``score``."""
    places = tuple(dict.fromkeys(_listed("benchmarks", benchmarks)))
    if not places:
        raise BadInput(f"benchmarks is empty; choose of {listed(BENCHMARKS)}")
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise BadInput(f"seed={seed!r}: a whole number from 0 on is needed")
    if not isinstance(quick, bool):
        raise BadInput(f"quick={quick!r}: True or False is needed")
    if not isinstance(model, (str, os.PathLike, type(None))):
        raise BadInput(f"model is the directory of a SavedModel, which keras.Model.export writes, not {model!r}")
    if model:
        find_saved_model(model)
    return _Settings(places, os.fspath(model or ""), tuple(_listed("metrics", metrics)), quick, int(seed))


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
        self, parts: Sequence[Part], skipped: Mapping[str, str], settings: _Settings, methods: Mapping[str, MethodLike]
    ):
        self.parts, self.skipped = list(parts), dict(skipped)
        self._settings, self._methods = settings, dict(methods)

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
        report does, for one network per benchmark. Empty for too few inputs.
        """
        from attribution_benchmarks.report import matrix, significance, summary
        from attribution_benchmarks.report.formatting import Names

        names = self._settings.benchmarks
        added = list(select_metrics(self._settings.metrics, {}).values()) if self._settings.metrics else []
        columns = [column for place in names for column in columns_of(benchmark_named(place), added)]
        built = matrix.build([{"benchmark": part.benchmark, "rows": part.rows} for part in self.parts], columns)
        scores: dict[str, list[InputScores]] = {}
        for part in self.parts:
            scores.setdefault(part.benchmark, []).extend(part.input_scores)
        titles = {name: title for part in self.parts for name, title in part.titles.items()}
        tests = significance.compare_columns(built, scores, self._settings.seed)
        tested = [one for one in tests.values() if one.has_power()]
        return "\n".join([*summary.advice(built, tests, Names(titles)), *summary.caveats(tested)])

    def _columns_of(self, other: str) -> tuple[dict[tuple[Any, ...], Any], str, dict[str, str]]:
        """Return the scores of one method or baseline by table and column, its title, and why tables lack it.

        It is scored if it is missing.
        """
        parts, refused = self.parts, dict[str, str]()
        if not any(other in group.values for part in parts for group in part.input_scores):
            parts, refused = self._settings.parts({other: other})
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
class _Settings:
    benchmarks: tuple[str, ...]
    model: str
    metrics: tuple[str, ...]
    quick: bool
    seed: int

    def parts(self, methods: Mapping[str, MethodLike]) -> tuple[list[Part], dict[str, str]]:
        """Return the scores of all tables, and why a method or a table is missing."""
        parts: list[Part] = []
        skipped: dict[str, str] = {}
        functions = {name: each for name, each in methods.items() if callable(each)}
        with registered(functions), _quiet():
            for place in self.benchmarks:
                benchmark = benchmark_named(place)
                tasks = tasks_of(benchmark, place, self.quick, self.seed, self.metrics)
                for task in (task for task in tasks if task.methods):  # TCAV scores concepts, not methods
                    if self.model and not task.model_flag:
                        skipped[task.title] = "this table takes no other model"
                        continue
                    part, refused = self._scored(task, list(methods))
                    skipped |= {f"{task.title}: {name}": why for name, why in refused.items()}
                    parts += [part] if part else []
        return parts, skipped

    def _scored(self, task: ReportTask, names: Sequence[str]) -> tuple[Part | None, dict[str, str]]:
        """Return the scores of one table, without the methods that it refuses, and the reasons of these."""
        try:
            return self._run(task, names), {}
        except BadInput as error:
            if len(names) == 1:
                return None, {names[0]: str(error)}
        refused = {}
        for name in names:
            refused |= self._scored(task, [name])[1]
        left = [name for name in names if name not in refused]
        return (self._run(task, left) if left else None), refused

    def _run(self, task: ReportTask, names: Sequence[str]) -> Part:
        _, module, *arguments = task.command
        command = importlib.import_module(module).COMMAND
        flag_values = copy.deepcopy(command.flags)
        flag_values.unparse_flags()  # the command may have run in this process
        model = [f"{task.model_flag}{self.model}"] if self.model else []
        metrics = [f"--metrics={','.join(task.metrics)}"] if task.metrics else []
        stored = f"--scores_dir={cache_directory('scores')}"
        flag_values([module, *arguments, *metrics, *model, f"--methods={','.join(names)}", stored])
        run = Run(command.select_benchmark(flag_values), flag_values)
        with contextlib.closing(run.store):
            run.benchmark.load(run)
            sections = list(run.benchmark.sections(run))
        rows = [row for section in sections for row in section.rows]
        text = "\n".join(section.text for section in sections)
        excluded = {name: run.benchmark.excluded(name) for name in run.metrics}
        titles = run.benchmark.titles(run)
        return Part(task.benchmark, task.title, rows, run.input_scores, run.metrics, titles, excluded, text)


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


def _listed(what: str, value: Any) -> list[Any]:
    """Return one name or function, or several of them, as a list; raise ``BadInput`` for anything else."""
    found = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    for each in found:
        name = getattr(each, "__name__", each) if what == "methods" and callable(each) else each
        if not isinstance(name, str):
            raise BadInput(f"{what} are {'names or functions' if what == 'methods' else 'names'}, not {each!r}")
        if not re.fullmatch(r"(?=.*\S)[^,\x00-\x1f]+", name):  # commands take lists of names
            raise BadInput(f"{what} has the invalid name {name!r}; several names are given as a list")
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
