"""Values of the sections of the pages, as plain data for its template."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attribution_benchmarks.core.definition import ORACLE, TRIVIAL_MAX, Benchmark, Column
from attribution_benchmarks.core.report_text import Trend
from attribution_benchmarks.core.tables import ALONG, curve_name
from attribution_benchmarks.metrics.cards import Card, card_of
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from attribution_benchmarks.report import charts, images
from attribution_benchmarks.report.formatting import (
    Names,
    anchor,
    cell_interval,
    cell_score,
    count_range,
    detectable,
    interval,
    number,
    rank,
    score,
)
from attribution_benchmarks.report.matrix import Agreement, Matrix
from attribution_benchmarks.report.results import Result
from attribution_benchmarks.report.significance import MARGIN, Baseline, ColumnTests, OraclePower, baseline_record

_REASONS = {ORACLE: "an oracle", TRIVIAL_MAX: "a trivial maximum"}


def groups(matrix: Matrix) -> list[dict]:
    """Return the headings above the columns."""
    return [{"name": name, "span": sum(column.group == name for column in matrix.columns)} for name in matrix.groups()]


def matrix_lines(matrix: Matrix, tests: Mapping[str, ColumnTests], names: Names) -> list[dict]:
    """Return the lines of methods; ``heat`` is 100 for the best rank of a column and 0 for the worst."""
    counts = matrix.rank_counts()

    def cell(name: str, column: Column) -> dict:
        row = matrix.cells.get((name, column.key))
        if row is None:
            return {"text": "–", "value": "", "rank": "", "mark": ""}
        place, count = matrix.ranks[name, column.key], counts[column.key]
        return {
            "text": cell_score(row, column),
            "value": repr(row["value"] if column.higher_is_better else -row["value"]),
            "rank": rank(place),
            "mark": tests[column.key].mark(name) if column.key in tests else "",
            "heat": round(100 * (count - place) / max(count - 1, 1)),
        }

    records = {name: baseline_record(name, tests.values()) for name in matrix.methods}
    return [
        {
            "title": names(name), "name": name, "own": names.is_custom(name),
            "family": "yours" if names.is_custom(name) else names.families.get(name, "others"),
            "cells": [cell(name, column) for column in matrix.columns],
            "passes": len(record.passed), "compared": len(record.compared),
        }
        for name, record in records.items()
    ]  # fmt: skip


def script_columns(matrix: Matrix) -> list[dict]:
    """Return what the page's script needs to know of the columns."""
    return [
        {
            "key": column.key, "label": column.label, "title": column.title, "group": column.group,
            "less": not column.higher_is_better, "digits": 1 if column.percent else 3,
        }
        for column in matrix.columns
    ]  # fmt: skip


def cell_details(matrix: Matrix, tests: Mapping[str, ColumnTests], names: Names) -> dict[str, list[list[str]]]:
    """Return method -> lines on each of its scores: interval, rank, paper and tests."""
    counts = matrix.rank_counts()
    return {
        name: [
            list(_details(name, column, matrix, counts[column.key], tests.get(column.key), names))
            for column in matrix.columns
        ]
        for name in matrix.methods
    }


def _details(
    name: str, column: Column, matrix: Matrix, count: int, tests: ColumnTests | None, names: Names
) -> Iterator[str]:
    row = matrix.cells.get((name, column.key))
    if row is None:
        yield f"No score: {matrix.blanks[name, column.key]}"
        return
    yield f"{cell_score(row, column)}, 95 % interval {cell_interval(row, column)}, over {row['n']:,} inputs"
    direction = "more" if column.higher_is_better else "less"
    yield f"rank {rank(matrix.ranks[name, column.key])} of {count}; {direction} is better"
    if math.isfinite(share := matrix.headroom_share(name, column)):
        yield f"{100 * share:.0f} % of the way from the best baseline to the truth as a map"
    if row.get("paper") is not None:
        inside = row["low"] <= row["paper"] <= row["high"]
        yield f"the paper has {row['paper']:g}, {'inside' if inside else 'outside'} our interval"
    if tests is None or name not in tests.tested:
        yield "not tested: the scores of single inputs are not known"
    else:
        yield from _test_details(name, column, tests, names)


def _test_details(name: str, column: Column, tests: ColumnTests, names: Names) -> Iterator[str]:
    yield f"rank {' to '.join(map(rank, sorted(set(tests.ranks[name]))))}: all others are significantly better or worse"
    if not tests.has_power():
        yield "the inputs are too few to compare it with baselines"
        return
    if few := tests.shortage(name):
        yield f"{few} are too few to claim that it beats a baseline"
    for one in tests.against(name):
        yield f"{_baseline(one, names)}{'' if one not in tests.failed(name) else ': not beaten by the margin'}"
    missing = tests.not_compared(name)
    if missing:
        yield f"not compared with its map under {', '.join(f'“{names(kind)}”' for kind in missing)}: too expensive"
    if tests.passes(name):
        yield f"beats every baseline: each reaches at most {100 * MARGIN:.0f} % of its score"


def _baseline(one: Baseline, names: Names) -> str:
    """Return "“Random map” reaches 43 % (41 to 46)" of a method's score."""
    if not math.isfinite(one.share):
        return f"“{names(one.kind)}”: no share, because the score is not positive"
    return f"“{names(one.kind)}” reaches {100 * one.share:.0f} % ({100 * one.low:.0f} to {100 * one.high:.0f})"


def kept_lines(matrix: Matrix, tests: Mapping[str, ColumnTests], names: Names) -> list[dict]:
    """Return the table of shares: what a baseline reaches of each method's score, a line per method and kind.

    A cell is the share with its interval; ``heat`` is 100 for a baseline that reaches nothing. Kinds are the conditions
    of the method's own map, and the best map that uses no network.
    """
    kinds = sorted({one.kind for each in tests.values() for one in each.baselines if one.own})
    lines = []
    for name in matrix.methods:
        for kind in [*kinds, ""]:
            found = [_worst(tests.get(column.key), name, kind) for column in matrix.columns]
            if any(found):
                title = names(kind) if kind else "best map without a network"
                lines.append({"title": names(name), "kind": title, "cells": [_share_cell(one) for one in found]})
    return lines


def _worst(tests: ColumnTests | None, name: str, kind: str) -> Baseline | None:
    """Return the comparison with a kind of own baseline, or with the model-independent one that reaches most."""
    found = [one for one in tests.against(name) if (one.kind == kind if kind else not one.own)] if tests else []
    found = [one for one in found if math.isfinite(one.share)]
    return max(found, key=lambda one: one.share, default=None)


def _share_cell(one: Baseline | None) -> dict:
    if one is None:
        return {"text": "–", "interval": "", "heat": 0, "equal": False}
    return {
        "text": f"{100 * one.share:.0f} %",
        "interval": f"{100 * one.low:.0f} to {100 * one.high:.0f}",
        "heat": round(100 * max(0.0, 1 - one.share)),
        "equal": one.low > MARGIN,
    }


def power_lines(found: Sequence[OraclePower], names: Names) -> list[dict]:
    """Return the lines of the table of power."""
    return [
        {
            "title": one.column.label,
            "direction": "more" if one.column.higher_is_better else "less",
            "truth": f"{names(one.truth)} ({score(one.value, one.column)})",
            "least": number(one.shares[0].share),
            "interval": f"{number(one.shares[0].low)} to {number(one.shares[0].high)}",
            "control": names(one.shares[0].control),
            "bar": round(100 * one.shares[0].share),
            "others": ", ".join(f"{names(each.control)} {number(each.share)}" for each in one.shares[1:]),
            "inputs": f"{one.shares[0].n:,}",
        }
        for one in found
    ]


def control_lines(matrix: Matrix, names: Names) -> list[dict]:
    """Return the matrix's lines of controls."""
    return [
        {
            "title": names(name),
            "cells": [_control_cell(matrix, name, column) for column in matrix.columns],
        }
        for name in matrix.controls
    ]


def _control_cell(matrix: Matrix, name: str, column: Column) -> dict:
    """Return a control's score, and whether it is excluded from the tests."""
    row = matrix.cells.get((name, column.key))
    return {"text": cell_score(row, column), "excluded": bool(row) and name in column.excluded}


def blanks(matrix: Matrix, names: Names) -> list[tuple[str, str]]:
    """Return pairs of benchmark with methods, and reason."""
    found: dict[tuple[str, str], dict] = {}
    for name in matrix.methods:
        for column in matrix.columns:
            reason = matrix.blanks.get((name, column.key))
            if reason:
                found.setdefault((column.group, reason), {})[names(name)] = None
    return [(f"{group}: {', '.join(methods)}", reason) for (group, reason), methods in found.items()]


def concordances(agreement: Agreement) -> list[dict]:
    """Return the lines of the table of Kendall's W."""
    return [
        {
            **row._asdict(),
            "over": over,
            "w": number(row.w),
            "interval": interval(row.low, row.high),
            "chance": number(row.chance),
            "p": number(row.p_value, 4),
        }
        for over, row in agreement.rows.items()
    ]


def correlations(matrix: Matrix, agreement: Agreement) -> list[list[dict]]:
    """Return the table of rank correlations; ``heat`` is 100 times their absolute value."""

    def cell(i: int, j: int) -> dict:
        value = float(agreement.correlations[i, j])
        finite = i != j and math.isfinite(value)
        return {
            "text": number(value) if i != j else "",
            "count": int(agreement.counts[i, j]),
            "heat": round(100 * abs(value)) if finite else 0,
            "negative": finite and value < 0,
        }

    size = range(len(matrix.columns))
    return [[cell(i, j) for j in size] for i in size]


def benchmark(
    definition: Benchmark, matrix: Matrix, tests: Mapping[str, ColumnTests], results: Sequence[Result], names: Names
) -> dict:
    """Return a benchmark's section: metrics, curves, pictures, and the output of its commands."""
    own = [result for result in results if result.benchmark == definition.name]
    columns = [column for column in matrix.columns if column.benchmark == definition.name]
    curves = _curves(definition, own, names)
    drawn = {metric for metric, _ in curves}
    return {
        "id": definition.name.replace("_", "-"),
        "name": definition.title,
        "paper": definition.report.paper,
        "about": definition.report.about,
        "metrics": [_metric(column, matrix, tests.get(column.key), names, definition) for column in columns],
        "others": _other_metrics(definition, own, drawn.union(column.metric for column in columns)),
        "trends": [chart for _, chart in curves],
        "controls": _controls(definition, columns, matrix, tests, names),
        "pictures": _pictures(definition, columns, own, drawn),
        "results": own,
    }


def _other_metrics(definition: Benchmark, results: Sequence[Result], shown: set[str]) -> list[str]:
    """Return the descriptions of a benchmark's metrics that are in tables only."""
    metrics = dict.fromkeys(row["metric"] for result in results for row in result.rows)
    about = definition.report.more_metrics
    return [about[one] for one in metrics if one in about and one not in shown]


def _curves(definition: Benchmark, results: Sequence[Result], names: Names) -> list[tuple[str, dict]]:
    """Return pairs of metric and chart: the benchmark's trends, and the curves of each table."""
    rows = [row for result in results for row in result.rows]
    trends: list[tuple[Trend, Sequence[Mapping]]] = [(trend, rows) for trend in definition.report.trends]
    for metric in METRIC_REGISTRY.values():
        if metric.curve:
            trends += [(curve_trend(metric, result.title), result.rows) for result in results]
    charted = ((trend.metric, charts.line_charts(trend, rows, names)) for trend, rows in trends)
    return [(metric, chart) for metric, chart in charted if chart]


def curve_trend(metric: Any, title: str) -> Trend:
    """Return the trend of a metric's curves in a table."""
    return Trend(
        curve_name(metric), f"{metric.title}: curves ({title})",
        f"{metric.about} The score is the area below the curve.", ALONG, "the share of positions removed",
    )  # fmt: skip


def _controls(
    definition: Benchmark, columns: Sequence[Column], matrix: Matrix, tests: Mapping[str, ColumnTests], names: Names
) -> list[tuple[str, str]]:
    """Return the printed name of each control that a benchmark has or applies to methods, and its description."""
    keys = {column.key for column in columns}
    scored = {name for name, key in matrix.cells if key in keys}
    conditions = {one.kind for key in keys & set(tests) for one in tests[key].baselines if one.own}
    about = {control.name: control.about for control in definition.controls}
    shown = [*filter(scored.__contains__, matrix.controls), *sorted(conditions)]
    return [(names(control), about[control]) for control in filter(about.get, shown)]


def _pictures(
    definition: Benchmark, columns: Sequence[Column], results: Sequence[Result], drawn: set[str]
) -> list[images.Picture]:
    """Return a benchmark's pictures except bars and curves, which the page draws, and truths without a column."""
    texts = definition.report.pictures
    files = [(result, path) for result in results for path in result.pictures]
    ambiguous = len({path.stem for _, path in files}) < len(files)
    return [
        images.embed(path, texts, result.title.rpartition(": ")[2].capitalize() if ambiguous else "",
                     f"pictures/{result.name}/{path.name}")
        for result, path in files
        if _is_shown(path.stem, columns, drawn)
    ]  # fmt: skip


def _is_shown(stem: str, columns: Sequence[Column], drawn: set[str]) -> bool:
    bars = {f"{metric}_scores" for metric in drawn.union(column.metric for column in columns)}
    with_truth = [column for column in columns if column.where]
    of_truths = tuple(f"{column.metric}_" for column in with_truth)
    truths = {f"{column.metric}_{column.where['ground_truth']}" for column in with_truth}
    return stem in truths or not (stem in bars or stem.startswith(of_truths))


def _metric(column: Column, matrix: Matrix, tests: ColumnTests | None, names: Names, definition: Benchmark) -> dict:
    """Return one metric's table: a line per method by rank, then the controls."""
    rows = _ranked_rows(column, matrix)
    card = _card(column.metric, definition)
    scale = charts.scale_of(list(rows.values()), column.percent)
    reference = _strongest(column, rows)
    lines = []
    for name, row in rows.items():
        kind = "own" if names.is_custom(name) else row["kind"]
        drawn = charts.bar({**row, "kind": kind}, scale, reference)
        lines.append({**_line(name, row, column, names), **_test_cells(name, tests), "bar": drawn})
    return {
        "key": anchor(column),
        "title": column.label,
        "about": definition.about_metric(column.metric),
        "card": None if card is None else {"phrase": card.phrase, "cautions": card.cautions()},
        "scale": str(scale),
        "direction": "more is better" if column.higher_is_better else "less is better",
        "shows": ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in column.where.items()),
        "lines": lines,
        "inputs": count_range(row["n"] for row in rows.values()),
        "papers": any(line["paper"] for line in lines),
        "tested": tests is not None,
        "power": _power(tests) if tests else "",
        "reference": None if reference is None else score(reference, column),
    }


def _card(metric: str, definition: Benchmark) -> Card | None:
    """Return the card of a benchmark's own metric, or of one that all share."""
    own = any(one.name == metric for one in definition.metrics)
    return card_of(metric, definition.name) or (None if own else card_of(metric))


def _ranked_rows(column: Column, matrix: Matrix) -> dict[str, Mapping]:
    """Return the rows of a column: methods by rank, then controls."""
    ranked = [name for name in matrix.methods if (name, column.key) in matrix.ranks]
    ranked.sort(key=lambda name: matrix.ranks[name, column.key])
    names = (*ranked, *matrix.controls)
    return {name: matrix.cells[name, column.key] for name in names if (name, column.key) in matrix.cells}


def _strongest(column: Column, rows: Mapping[str, Mapping]) -> float | None:
    """Return the best score of a control that is not excluded."""
    controls = {name: row["value"] for name, row in rows.items() if row["kind"] == "control"}
    scores = [value for name, value in controls.items() if name not in column.excluded]
    return (max if column.higher_is_better else min)(scores, default=None)


def _test_cells(name: str, tests: ColumnTests | None) -> dict:
    """Return the 95 % range of a method's rank, and its mark; empty text if it was not tested."""
    if tests is None or name not in tests.ranks:
        return {"ranks": "", "mark": ""}
    low, high = tests.ranks[name]
    return {"ranks": f"{rank(low)}–{rank(high)}", "mark": tests.mark(name)}


def _line(name: str, row: Mapping, column: Column, names: Names) -> dict:
    """Return a line of a metric's table, without bar and tests."""
    return {
        "title": names(name),
        "own": names.is_custom(name),
        "control": row["kind"] == "control",
        "bound": _REASONS.get(column.excluded.get(name, ""), ""),  # why a control is excluded from the tests
        "value": repr(row["value"]),
        "text": cell_score(row, column),
        "interval": cell_interval(row, column),
        "paper": "" if row.get("paper") is None else f"{row['paper']:g}",
    }


def _power(tests: ColumnTests) -> str:
    """Return which differences the inputs of a column can detect."""
    found = [
        f"{what} are found with 80 % power from {detectable(value, tests.column)} on"
        if math.isfinite(value)
        else f"no {what} can be found, however large"
        for what, value in (
            ("differences between methods", tests.detectable_between_methods()),
            ("leads over the margin", tests.detectable_above_baselines()),
        )
        if not math.isnan(value)
    ]
    return f"{tests.independent_inputs():,} independent inputs: {'; '.join(found)}." if found else ""
