"""Scores of BIM as rows, as input scores and as text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from attribution_benchmarks.core import tables
from attribution_benchmarks.core.batch import by_kind
from attribution_benchmarks.core.controls import WRONG_CLASS
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.tables import control_row, curve_points, format_controls, row_kind
from attribution_benchmarks.stats import statistics
from attribution_benchmarks.stats.statistics import PairComparison, compare_pairs
from bim.members import Comparison
from bim.scores import METRICS

_HEADINGS = {
    "mcs": "MCS, model contrast score: object model minus scene model; more is better",
    "idr": "IDR, input dependence rate: object below the scene it covers; more is better",
    "iir": "IIR, input independence rate: unchanged by a patch without meaning; more is better",
    "rmcs": "Relative MCS: dog in i scenes against dog in all ten",
}
CHOSEN_BY_SCORE = (
    "a check of the data's sense, no independent result: how the models scene1 to scene10 were trained was chosen "
    "after\nlooking at this score on 60 images of the drawn sets (see their cards)"
)


def image_scores(comparisons: Sequence[Comparison]) -> list[InputScores]:
    """Return the scores of every image: a group for each metric, and for each contrast model of relative MCS.

    The comparisons of one group count the same images.
    """
    groups: dict[tuple, list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault((comparison.metric, comparison.scene_model), []).append(comparison)
    return [
        InputScores(
            {"metric": metric, **({} if number is None else {"scene_model": number})},
            [f"image {row}" for row in group[0].rows],
            {comparison.method: comparison.values for comparison in group},
            group[0].clusters,
        )
        for (metric, number), group in groups.items()
    ]


def score_rows(
    comparisons: list[Comparison], compared_with: str = "random", metrics: Mapping[str, Metric] = METRICS
) -> list[dict]:
    """Return scores in long form, one dictionary per method and metric; ``metrics`` has those of the comparisons.

    Keys are those of ``core.tables`` and: ``scene_model`` (RMCS), ``drawn`` images, ``flat`` maps, ``difference`` and
    ``p_value`` against the method ``compared_with``, image by image, if it was scored, ``reason`` where there is no
    value. Behind them are the rows of methods' own maps under a control, see ``core.tables.control_row``.
    """
    asked = [each for each in comparisons if not each.of_control]
    tests = _tests(asked, compared_with)
    rows = []
    for comparison in asked:
        row = _score_row(comparison, metrics[comparison.metric])
        paired = tests.get((comparison.metric, comparison.scene_model, comparison.method))
        if paired:
            row.update(compared_with=compared_with, difference=paired.difference, p_value=paired.p_value)
        rows.append(row)
    return rows + _own_rows(comparisons, metrics)


def _score_row(comparison: Comparison, metric: Metric) -> dict:
    """Return the row of one comparison, without a test."""
    row: dict = {"method": comparison.method, "metric": comparison.metric}
    if comparison.scene_model is not None:
        row["scene_model"] = comparison.scene_model
    values = comparison.values
    reason = _why_undefined(comparison)
    if reason:
        row["reason"] = reason
    estimate = statistics.mean_interval(
        [] if reason else values, clusters=None if reason else comparison.clusters,
        rate=metric.hit, bounds=metric.bounds,
    )  # fmt: skip
    row.update(
        value=estimate.value, low=estimate.low, high=estimate.high, n=len(values), paper=None,
        kind=row_kind(comparison.source),
        drawn=comparison.drawn, flat=comparison.flat,
    )  # fmt: skip
    return row


def _why_undefined(comparison: Comparison) -> str:
    """Return why a comparison has no score; an empty string where it has one."""
    nan = int(np.isnan(comparison.values).sum())
    if not len(comparison.values):
        return "no image is classified correctly by both"
    if nan and comparison.metric in METRICS:
        return f"{nan} maps are flat, which upstream turns into 0 / 0"
    return f"undefined for {nan} images" if nan else ""


def _own_rows(comparisons: list[Comparison], metrics: Mapping[str, Metric]) -> list[dict]:
    """Return the scores of methods' own maps under a control, see ``core.tables.control_row``."""
    groups: dict[tuple[str, int | None], dict] = {}
    for one in comparisons:
        if one.of_control:
            groups.setdefault((one.metric, one.scene_model), {})[one.source] = one
    rows = []
    for (metric, number), found in groups.items():
        for label, alike in by_kind(found).items():
            first, values = found[alike[0]], np.array([found[one].values for one in alike])
            defined = values.size and not np.isnan(values).any()
            row = control_row(
                label, metric, values if defined else values[:, :0], metrics[metric].hit,
                clusters=first.clusters if defined else None, bounds=metrics[metric].bounds,
            )  # fmt: skip
            row["n"] = values.shape[1]
            if number is not None:
                row["scene_model"] = number
            rows.append(row)
    return rows


def _tests(comparisons: list[Comparison], compared_with: str) -> dict[tuple, PairComparison]:
    """Return the tests of methods against one of them, by metric, scene model and method."""
    groups: dict[tuple, dict[str, Comparison]] = {}
    for one in comparisons:
        if len(one.values) and not np.isnan(one.values).any():
            groups.setdefault((one.metric, one.scene_model), {})[one.method] = one
    return {
        (*place, test.first): test
        for place, group in groups.items()
        if compared_with in group
        for test in compare_pairs(
            {method: one.values for method, one in group.items()},
            [(method, compared_with) for method in group if method != compared_with],
            group[compared_with].clusters,
        )
    }


def curve_rows(comparisons: list[Comparison], metrics: Mapping[str, Metric]) -> list[dict]:
    """Return the curves behind scores in long form, one dictionary a point; see ``core.tables.curve_points``."""
    return [
        {"method": one.method, **point, "kind": row_kind(one.source)}
        for one in comparisons
        if one.curves is not None and not one.of_control
        for point in curve_points(metrics[one.metric], one.curves, one.clusters)
    ]


def _counts(rows: list[dict], by: str) -> str:
    drawn, counted = max(row["drawn"] for row in rows), sorted({row["n"] for row in rows})
    shown = str(counted[0]) if len(counted) == 1 else f"{counted[0]} to {counted[-1]}"
    return f"{drawn} images drawn, {shown} classified correctly{by} and counted"


def table(metric: Metric, rows: list[dict], titles: dict[str, str]) -> str:
    """Return one metric's scores for reading."""
    own_maps = [row for row in rows if "of" in row]
    rows = [row for row in rows if "of" not in row]
    own = metric in METRICS.values()
    heading = _HEADINGS[metric.name] if own else f"{metric.title}; {metric.better} is better; object model on its set"
    lines = [heading, _counts(rows, by=" by both" if own else "")]
    header, body = (_by_scene_model if metric is METRICS["rmcs"] else _by_method)(metric, rows, titles)
    lines.append(tables.text_table(header, body).rstrip())
    reasons = {f"{titles[row['method']]}: {row['reason']}" for row in rows if "reason" in row}
    return "\n".join([*lines, *sorted(reasons), *_of_own_maps(metric, own_maps, titles), ""])


def _by_scene_model(metric: Metric, rows: list[dict], titles: dict[str, str]) -> tuple[list[str], list[list[str]]]:
    """Return the header and body of a table of values, one column for each scene model."""
    numbers = sorted({row["scene_model"] for row in rows})
    cells = {(row["method"], row["scene_model"]): row for row in rows}
    body = [
        [titles[name], *(_figure(cells[name, number]["value"]) for number in numbers)]
        for name in dict.fromkeys(row["method"] for row in rows)
    ]
    return ["method", *(f"i={number}" for number in numbers)], body


def _by_method(metric: Metric, rows: list[dict], titles: dict[str, str]) -> tuple[list[str], list[list[str]]]:
    """Return the header and body of a table of values, intervals, flat maps and, if there are any, tests."""
    other = next((row["compared_with"] for row in rows if "compared_with" in row), None)
    header = ["method", metric.title, "95 %", "flat maps", *([f"minus {other}", "p"] if other else [])]
    body, kind = [], "method"
    for row in rows:
        if row["kind"] != kind:
            body.append([])
            kind = row["kind"]
        line = [
            titles[row["method"]],
            _figure(row["value"]),
            f"{_figure(row['low'])}, {_figure(row['high'])}",
            str(row["flat"]),
        ]
        if other:
            p_value = row.get("p_value")
            small = p_value is not None and p_value < 0.00005
            line += [_figure(row.get("difference")), "< 0.0001" if small else _figure(p_value, 4)]
        body.append(line)
    return header, body


def _of_own_maps(metric: Metric, rows: list[dict], titles: dict[str, str]) -> list[str]:
    """Say what is left of the methods' scores for a wrong class, and on networks that have learnt nothing."""
    if metric is METRICS["rmcs"]:  # whose curve is the score
        return []
    found = []
    conditions = {WRONG_CLASS.name: "for a wrong class", RANDOM_WEIGHTS.name: "on networks of random weights"}
    for condition, words in conditions.items():
        if of_condition := [row for row in rows if row["control"] == condition]:
            each, count = format_controls(of_condition, titles, _figure)
            several = f", mean over {count} [least, largest]" if count > 1 else ""
            found += textwrap.wrap(f"The methods' own maps {words}{several}: {each}.", 118)
    return found


def _figure(value, decimals: int = 3) -> str:
    """Return a number for a table, or a dash for what does not exist."""
    return "–" if value is None or not np.isfinite(value) else f"{value:.{decimals}f}"
