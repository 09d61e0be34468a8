"""What each section of the report shows, as plain values for the page's template."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attribution_benchmarks.core.definition import Benchmark, Column, Trend
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.metrics.curves import ALONG
from attribution_benchmarks.metrics.curves import name_of as curve_name
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from attribution_benchmarks.report import charts, pictures, trends
from attribution_benchmarks.report.matrix import Agreement, Matrix
from attribution_benchmarks.report.matrix_table import control_cell, least, number, shown
from attribution_benchmarks.report.power import Power
from attribution_benchmarks.report.significance import Verdicts, in_words, kind_of, own_control


@dataclasses.dataclass(frozen=True)
class Result:
    """What one unit gave.

    Attributes
    ----------
    name, benchmark, title, note
        As of ``reproduction.ReportTask``.
    document
        What its command wrote; None where it failed, for the reason in ``failed``.
    printed
        What its command printed.
    pictures
        Files it drew.
    failed
        Why there is no table.
    examples
        File of ``core.report_examples``; None if there is none.
    """

    name: str
    benchmark: str
    title: str
    note: str
    document: Mapping | None
    printed: str = ""
    pictures: Sequence[pathlib.Path] = ()
    failed: str = ""
    examples: pathlib.Path | None = None


def shown_path(place: str) -> str:
    """Return a path to print: as the user gave it; of an absolute one the name of the file alone.

    A page that is passed on does not say where its maker keeps files.
    """
    path = pathlib.PurePath(place)
    return path.name if path.is_absolute() else place


class Names:
    """Names to print, and whether a method is the user's own."""

    def __init__(self, titles: Mapping[str, str], own: Sequence[str], families: Mapping[str, str] | None = None):
        self._titles, self._own, self._families = titles, set(own), families or {}

    def __call__(self, name: str) -> str:
        """Return a method's or control's name to print; that of a control asked of a method names both."""
        method, _, control = name.rpartition("/")
        if name not in self._titles and control in self._titles:
            return f"{self._titles.get(method, method)} under “{self._titles[control]}”"
        return self._titles.get(name, name)

    def own(self, name: str) -> bool:
        """Tell whether a method is the user's own."""
        return name in self._own

    def family(self, name: str) -> str:
        """Return a method's family; its name where it is a family by itself."""
        return self._families.get(name, name)

    def path(self, name: str) -> str:
        """Return where a custom method is, by ``shown_path``; empty for a built-in one."""
        return shown_path(name) if name in self._own else ""


def groups(matrix: Matrix) -> list[dict]:
    """Return the headings above the columns."""
    names = dict.fromkeys(column.group for column in matrix.columns)
    return [{"name": name, "span": sum(column.group == name for column in matrix.columns)} for name in names]


def matrix_lines(matrix: Matrix, judged: Any, named: Any) -> list[dict]:
    """Return the matrix's lines of methods; ``heat`` is 100 for the best rank of a column and 0 for the worst."""
    counts = {column.key: sum(key == column.key for _, key in matrix.ranks) for column in matrix.columns}
    lines = []
    for name in matrix.methods:
        cells: list[dict] = []
        for column in matrix.columns:
            row = matrix.cells.get((name, column.key))
            if row is None:
                cells.append({"text": "–", "value": "", "rank": "", "marks": ""})
                continue
            rank = matrix.ranks[name, column.key]
            marks = judged[column.key].marks(name, matrix) if column.key in judged else ""
            cells.append(
                {
                    "text": shown(row, column),
                    "value": repr(row["value"] if column.higher_is_better else -row["value"]),
                    "rank": number(rank, 1).removesuffix(".0"),
                    "marks": marks,
                    "heat": round(100 * (counts[column.key] - rank) / max(counts[column.key] - 1, 1)),
                }
            )
        title = "yours" if named.own(name) else named.family(name)
        lines.append({"title": named(name), "name": name, "own": named.own(name), "cells": cells,
                      "family": title if title != name else "others"})  # fmt: skip
    return lines


def told(matrix: Matrix, judged: Any, named: Any) -> dict[str, list[list[str]]]:
    """Return method -> what stands behind each of its figures, a few lines a column."""
    return {name: [_told(name, column, matrix, judged, named) for column in matrix.columns] for name in matrix.methods}


def _told(name: str, column: Column, matrix: Matrix, judged: Any, named: Any) -> list[str]:
    row = matrix.cells.get((name, column.key))
    if row is None:
        return [f"No score: {matrix.blanks[name, column.key]}"]
    count = sum(key == column.key for _, key in matrix.ranks)
    rank = number(matrix.ranks[name, column.key], 1).removesuffix(".0")
    lines = [
        f"{shown(row, column)}, 95 % interval {_interval(row, column)}, over {row['n']:,} inputs",
        f"rank {rank} of {count}; {'more' if column.higher_is_better else 'less'} is better",
    ]
    if row.get("paper") is not None:
        inside = row["low"] <= row["paper"] <= row["high"]
        lines.append(f"the paper has {row['paper']:g}, {'inside' if inside else 'outside'} our interval")
    verdict = judged.get(column.key)
    if verdict is None or name not in verdict.tested:
        return [*lines, "not tested: the scores of single inputs are not known"]
    beaten = verdict.beaten_by(name)
    lines.append(f"significantly better than {len(beaten)} of {len(verdict.tested) - 1} other methods"
                 + (f": {', '.join(map(named, beaten))}" if 0 < len(beaten) <= 6 else ""))  # fmt: skip
    if verdict.names_best(matrix) and name in verdict.level_with_best(matrix):
        lines.append("best of the column, or not told apart from it")
    if not verdict.tells_controls():
        lines.append("the inputs are too few to find any method above every control")
        return lines
    lines += _against_controls(name, row, column, verdict, named)
    return lines


def _against_controls(name: str, row: Mapping, column: Column, verdict: Verdicts, named: Any) -> list[str]:
    """Say what a method's own maps under controls have, which controls it is not above, and which were not asked."""
    lines = []
    for kind, values in verdict.own_maps(name, row["value"]).items():
        ends = [shown({"value": end}, column) for end in (min(values), max(values))]
        many = f"its own maps under {len(values)} “{named(kind)}”: {ends[0]} to {ends[1]}"
        lines.append(many if len(values) > 1 else f"its own map under “{named(kind)}”: {ends[0]}")
    missed = [test for test in verdict.controls if test.first == name and verdict.better(test) != name]
    for kind, words in zip(verdict.kinds_not_above(name), in_words(verdict.kinds_not_above(name), named), strict=True):
        of_kind = [test for test in missed if kind_of(own_control(test) or test.second) == kind]
        worst = max(of_kind, key=lambda test: test.p_corrected)
        lines.append(
            f"not significantly above {words}: difference {number(worst.difference, 3)}, p = "
            f"{number(worst.p_corrected, 3)} after Holm" + (", the largest of these" if len(of_kind) > 1 else "")
        )
    untested = in_words(verdict.kinds_untested(name), named)
    if untested:
        lines.append(f"not tested against its own map under {', '.join(untested)}: too costly")
    if not missed:
        lines.append(f"significantly above every control{' it was tested against' if untested else ''}")
    return lines


def power_lines(found: Sequence[Power], named: Any) -> list[dict]:
    """Return the metrics from the one that tells the truth from every control most often to the one that does least."""
    return [
        {
            "title": one.column.label,
            "direction": "more" if one.column.higher_is_better else "less",
            "truth": f"{named(one.truth)} ({shown({'value': one.value}, one.column)})",
            "least": number(one.told[0].share),
            "interval": f"{number(one.told[0].low)} to {number(one.told[0].high)}",
            "control": named(one.told[0].control),
            "bar": round(100 * one.told[0].share),
            "others": ", ".join(f"{named(each.control)} {number(each.share)}" for each in one.told[1:]),
            "inputs": f"{one.told[0].n:,}",
        }
        for one in found
    ]


def control_lines(matrix: Matrix, named: Any) -> list[dict]:
    """Return the matrix's lines of controls."""
    return [
        {
            "title": named(name),
            "bound": _aside(name, [column for column in matrix.columns if (name, column.key) in matrix.cells]),
            "cells": [control_cell(matrix, name, column) for column in matrix.columns],
        }
        for name in matrix.controls
    ]


def blanks(matrix: Matrix, named: Any) -> list[tuple[str, str]]:
    """Return reason -> which methods of which benchmarks, one line each."""
    found: dict[tuple[str, str], dict] = {}
    for name in matrix.methods:
        for column in matrix.columns:
            reason = matrix.blanks.get((name, column.key))
            if reason:
                found.setdefault((column.group, reason), {})[named(name)] = None
    return [(f"{group}: {', '.join(names)}", reason) for (group, reason), names in found.items()]


def correlations(matrix: Matrix, agreement: Agreement) -> list[list[dict]]:
    """Return the table of rank correlations; ``heat`` is 100 times their size."""
    return [
        [
            {
                "text": number(agreement.correlations[i, j]) if i != j else "",
                "count": int(agreement.counts[i, j]),
                "heat": round(100 * abs(float(agreement.correlations[i, j]))) if _finite(agreement, i, j) else 0,
                "negative": _finite(agreement, i, j) and agreement.correlations[i, j] < 0,
            }
            for j in range(len(matrix.columns))
        ]
        for i in range(len(matrix.columns))
    ]


def _finite(agreement, i, j) -> bool:
    return i != j and bool(agreement.correlations[i, j] == agreement.correlations[i, j])


def benchmark(definition: Benchmark, matrix: Matrix, judged: Any, results: Any, named: Any) -> dict:
    """Return a benchmark's section: its metrics with their bars, pictures, and what its commands printed."""
    name = definition.name
    own_results = [result for result in results if result.benchmark == name]
    columns = [column for column in matrix.columns if column.benchmark == name]
    stems = [path.stem for result in own_results for path in result.pictures]
    several = len(set(stems)) < len(stems)  # its units draw pictures of the same names
    about = {control.name: control.about for control in definition.controls}
    controls = [
        control for control in matrix.controls if any((control, column.key) in matrix.cells for column in columns)
    ]
    others = {
        kind_of(control)
        for verdict in judged.values()
        if verdict.column in columns
        for test in verdict.controls
        if (control := own_control(test))
    }
    metrics = dict.fromkeys(
        row["metric"] for result in own_results if result.document for row in result.document["rows"]
    )
    seen = {column.metric for column in columns}
    rows = [row for result in own_results if result.document for row in result.document["rows"]]
    found = [(trend.metric, trends.charts_of(trend, rows, named)) for trend in definition.trends]
    found += [
        (trend.metric, trends.charts_of(trend, result.document["rows"], named))
        for trend_of in curve_trends()
        for result in own_results
        if result.document
        for trend in [trend_of(result.title)]
    ]
    curves, drawn = [chart for _, chart in found if chart], {metric for metric, chart in found if chart}
    return {
        "id": name.replace("_", "-"),
        "name": definition.title,
        "paper": definition.paper,
        "about": definition.about,
        "metrics": [_metric(column, matrix, judged.get(column.key), named, definition) for column in columns],
        "others": [definition.more_metrics[metric] for metric in metrics
                   if metric not in seen | drawn and metric in definition.more_metrics],
        "trends": curves,
        "controls": [(named(control), about[control]) for control in (*controls, *sorted(others))
                     if about.get(control)],
        "pictures": [
            pictures.embed(path, definition.pictures, result.title.rpartition(": ")[2].capitalize() if several else "",
                           f"pictures/{result.name}/{path.name}")
            for result in own_results
            for path in result.pictures
            if _is_shown(path.stem, columns, drawn)
        ],
        "results": own_results,
    }  # fmt: skip


def curve_trends() -> list[Callable[[str], Trend]]:
    """Return a function from a table's title to the trend of its curves, for each metric with curves."""

    def of(metric: Metric) -> Callable[[str], Trend]:
        return lambda title: Trend(
            curve_name(metric), f"{metric.title}: curves ({title})",
            f"{metric.about} The score is the area below the curve.", ALONG, "the share of positions removed",
        )  # fmt: skip

    return [of(metric) for metric in METRIC_REGISTRY.values() if metric.curve]


def _is_shown(stem: str, columns: Sequence[Column], drawn: set[str]) -> bool:
    """Tell whether a picture belongs on the page: that draws bars and curves itself, and has one truth a column."""
    bars = {f"{metric}_scores" for metric in (*(column.metric for column in columns), *drawn)}
    truths = {f"{column.metric}_{column.where['ground_truth']}" for column in columns if column.where}
    of_metric = any(stem.startswith(f"{column.metric}_") for column in columns if column.where)
    return stem not in bars and (not of_metric or stem in truths)


def _metric(column: Column, matrix: Matrix, verdict: Verdicts | None, named, definition: Benchmark) -> dict:
    """Return one metric's table: a line per method by rank, then the controls."""
    methods = sorted(
        (name for name in matrix.methods if (name, column.key) in matrix.cells),
        key=lambda name: matrix.ranks[name, column.key],
    )
    controls = [name for name in matrix.controls if (name, column.key) in matrix.cells]
    rows = [matrix.cells[name, column.key] for name in (*methods, *controls)]
    scale = charts.scale_of(rows, column.percent)
    sign = 1 if column.higher_is_better else -1
    rivals = [matrix.cells[name, column.key]["value"] for name in controls if name not in column.excluded]
    reference = max(rivals, key=lambda value: sign * value) if rivals else None
    lines = []
    for name, row in zip((*methods, *controls), rows, strict=True):
        tested = verdict is not None and name in verdict.tested
        marks = verdict.marks(name, matrix) if tested else ""
        kind = "own" if named.own(name) else row["kind"]
        lines.append(
            {
                "title": named(name),
                "own": named.own(name),
                "control": name in controls,
                "bound": _aside(name, [column]),
                "value": repr(row["value"]),
                "text": shown(row, column),
                "interval": _interval(row, column),
                "bar": charts.bar({**row, "kind": kind}, scale, reference),
                "paper": "" if row.get("paper") is None else f"{row['paper']:g}",
                "better_than": len(verdict.beaten_by(name)) if tested else "",
                "best": "*" in marks,
                "marks": marks,
            }
        )
    sizes = sorted({row["n"] for row in rows})
    return {
        "key": column.key.replace(" ", "-").replace("_", "-"),
        "title": column.label,
        "about": definition.about_metric(column.metric),
        "scale": str(scale),
        "direction": "more is better" if column.higher_is_better else "less is better",
        "shows": ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in column.where.items()),
        "lines": lines,
        "inputs": f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}",
        "beats": [
            (
                named(name),
                ", ".join(map(named, verdict.beaten_by(name))),
                ", ".join(in_words(verdict.kinds_not_above(name), named)),
            )
            for name in methods
            if verdict and name in verdict.tested
        ],
        "papers": any(line["paper"] for line in lines),
        "tested": verdict is not None,
        "power": _power(verdict) if verdict else "",
        "reference": None if reference is None else shown({"value": reference}, column),
    }


def _aside(name: str, columns: Sequence[Column]) -> str:
    """Return why a control is no rival in any of these columns, in a word; empty where it is one in some."""
    words = {column.excluded.get(name, "") for column in columns}
    return words.pop() if len(words) == 1 else ""


def _power(verdict: Verdicts) -> str:
    """Say what the inputs can tell."""
    between, above = verdict.detectable_between_methods(), verdict.detectable_above_controls()
    found = [
        f"{what} are found four times in five from {least(value, verdict.column)} on"
        if math.isfinite(value)
        else f"no {what} can be found, however large"
        for what, value in (("differences between methods", between), ("leads over controls", above))
        if not math.isnan(value)
    ]
    return f"{verdict.independent_inputs():,} independent inputs: {'; '.join(found)}." if found else ""


def _interval(row: Mapping, column: Column) -> str:
    low, high = (shown({"value": row[end]}, column) for end in ("low", "high"))
    return f"{low} to {high}"
