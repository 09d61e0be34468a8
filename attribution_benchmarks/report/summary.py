"""Sentences that state the results: the headline of the page and its summary. Every number in them is computed."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution_benchmarks.report.formatting import (
    cell_score,
    count_of,
    count_range,
    detectable,
    enumeration,
    interval,
    number,
    ordinal,
    percentages,
)
from attribution_benchmarks.report.matrix import Agreement, Column, Matrix
from attribution_benchmarks.report.significance import (
    INSENSITIVE,
    BaselineRecord,
    ColumnTests,
    baseline_record,
    describe_count,
    describe_records,
)
from attribution_benchmarks.stats.comparisons import LEVEL
from attribution_benchmarks.stats.correlation import Concordance

_AT_MOST = 4  # names in one sentence
_TIED_WITH = (
    f"“Tied with” means not significantly different in paired tests, Holm-corrected, p ≥ {LEVEL}; it is stated only if "
    "at least half of the other methods do differ."
)
_COUNTS = {2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}
_AGREE_WELL = 0.6  # mean rank correlation


def headline(matrix: Matrix, tests: Mapping[str, ColumnTests], names: Any, custom: Sequence[str]) -> tuple[str, str]:
    """Return the main result, and a sentence that qualifies it or an empty one.

    It is about the first custom method, or else about the methods that beat every baseline on most metrics. Methods
    that keep their score for a wrong class are named in the qualification.
    """
    if not matrix.methods:
        return "Nothing has been scored", ""
    if custom:
        return _about(custom[0], matrix, tests, names)
    if not any(one.has_power_for_controls() for one in tests.values()):
        return "A first look: the inputs are too few to compare methods with the baselines", ""
    return _best_methods({name: baseline_record(name, tests.values()) for name in matrix.methods}, names)


def _best_methods(records: Mapping[str, BaselineRecord], names: Any) -> tuple[str, str]:
    """Return which methods beat every baseline on most metrics, and which of them keep their score."""
    top = _top(records)
    best = records[top[0]]
    if best.beats == 0:
        return f"No method beats every baseline on {describe_count(best, 'any of ')}", ""
    passing = [name for name in top if not records[name].kept]
    named = passing or top
    text = f"{_methods(named, names)} {describe_records([records[name] for name in named])}"
    if not passing:
        return text, _best_passing(records, names)
    if best.beats < best.metrics:
        text += ", the most of any method"
    return text, " ".join([*_keeping(top, records, names), *_untested(passing, records, names)])


def _top(records: Mapping[str, BaselineRecord]) -> list[str]:
    """Return the methods that beat every baseline on most metrics."""
    most = max((one.beats for one in records.values()), default=0)
    return [name for name, one in records.items() if one.beats == most]


def _about(name: str, matrix: Matrix, tests: Mapping[str, ColumnTests], names: Any) -> tuple[str, str]:
    """Return on how many metrics a method beats every baseline, and its best and worst rank."""
    record = baseline_record(name, (one for one in tests.values() if name in one.tested))
    ends = _extreme_columns(name, matrix)
    if not ends:
        return f"{names(name)} fits none of the benchmarks", ""
    counts = matrix.rank_counts()
    ranks = [f"{ordinal(math.floor(matrix.ranks[name, one.key]))} of {counts[one.key]} on {one.label}" for one in ends]
    text = f"Best rank: {'; worst: '.join(ranks)}."
    silent = [one.label for one in ends if one.key not in tests or not tests[one.key].has_power()]
    if silent:
        text += f" The inputs are too few to distinguish methods on {enumeration(silent)}."
    if not record.metrics:
        return f"{names(name)}: a first look, with too few inputs to compare it with the baselines", text
    return f"{names(name)} {describe_records([record])}", text


def _extreme_columns(name: str, matrix: Matrix) -> list[Column]:
    """Return the columns of a method's best and worst relative rank; fewer if it has fewer than two ranks."""
    counts = matrix.rank_counts()
    ranked = [column for column in matrix.columns if (name, column.key) in matrix.ranks]
    ranked.sort(key=lambda column: matrix.ranks[name, column.key] / counts[column.key])
    return ranked if len(ranked) < 2 else [ranked[0], ranked[-1]]


def _keeping(methods: Sequence[str], records: Mapping[str, BaselineRecord], names: Any) -> list[str]:
    """Return which methods keep how much of their score for a wrong class."""
    keeping = [name for name in methods if records[name].kept]
    if not keeping:
        return []
    shares = percentages(share for name in keeping for share in records[name].kept.values())
    do, keep, their = ("does", "keeps", "its") if len(keeping) == 1 else ("do", "keep", "their")
    return [f"{_methods(keeping, names)} {do} so too, but {keep} {shares} of {their} score for a wrong class."]


def _untested(methods: Sequence[str], records: Mapping[str, BaselineRecord], names: Any) -> list[str]:
    """Return which methods were not compared with a wrong class, if any method was."""
    known = {name for name, one in records.items() if one.known}
    unknown = [name for name in methods if known and name not in known]
    return [f"Not compared with another class: {_methods(unknown, names)}."] if unknown else []


def _best_passing(records: Mapping[str, BaselineRecord], names: Any) -> str:
    """Return the best methods among those that are not known to keep their score for a wrong class."""
    passing = {name: one for name, one in records.items() if not one.kept}
    first = _top(passing)
    if not first or passing[first[0]].beats == 0:
        return f"Every method that beats all baselines on a metric keeps more than {100 * INSENSITIVE:.0f} % on one."
    text = f"{_methods(first, names)} {describe_records([passing[name] for name in first])}"
    return " ".join([f"Of the methods that do not, {text}, the most.", *_untested(first, records, names)])


def _methods(methods: Sequence[str], names: Any) -> str:
    """Return "a, b and c", or the number of methods if there are more than three."""
    return f"{len(methods)} methods" if len(methods) > 3 else enumeration(map(names, methods))


def sizes(matrix: Matrix) -> list[tuple[str, str]]:
    """Return the size of the run: numbers, each with what it counts."""
    inputs = [row["n"] for row in matrix.cells.values()]
    least, most = (f"{end(inputs):,}" if inputs else "" for end in (min, max))
    counts = {
        "method": len(matrix.methods), "control": len(matrix.controls), "metric": len(matrix.columns),
        "benchmark": len(matrix.groups()),
    }  # fmt: skip
    found = [(str(count), noun if count == 1 else f"{noun}s") for noun, count in counts.items()]
    return [*found, (least if least == most else f"{least}–{most}", "inputs per score")]


def summary(
    matrix: Matrix,
    agreement: Agreement,
    tests: Mapping[str, ColumnTests],
    names: Any,
    reasons: Mapping[str, str] | None = None,
) -> list[tuple[str, list[str]]]:
    """Return headings with their paragraphs.

    Parameters
    ----------
    matrix, agreement, tests
        Of the same documents; tests by column key.
    names
        ``formatting.Names``.
    reasons
        Printed name of a benchmark -> why its scores differ from the paper's.
    """
    if not matrix.methods:
        return [("Nothing scored", ["No benchmark has given a score."])]
    found = [
        ("What was scored", [f"{scope(matrix)} {_TIED_WITH}"]),
        *((f"Best on {group}", list(_leaders(group, matrix, tests, names))) for group in matrix.groups()),
        ("Against the baselines", list(filter(None, (_controls(one, matrix, names) for one in tests.values())))),
        ("Do the benchmarks agree?", _agreement(matrix, agreement) if len(matrix.groups()) > 1 else []),
        ("All-rounders", list(_all_rounders(matrix, list(tests.values()), names))),
        ("Compared with the papers", list(_papers(matrix, reasons or {}))),
    ]
    return [(heading, texts) for heading, texts in found if texts]


def scope(matrix: Matrix) -> str:
    """Return how many methods were scored on how many metrics, and on how many inputs."""
    counts = []
    for group in matrix.groups():
        inputs = count_range(row["n"] for row in _rows(matrix, group) if row["method"] in matrix.methods)
        if inputs:
            counts.append(f"{group} {inputs}")
    size = f"{count_of(len(matrix.methods), 'method')} on {count_of(len(matrix.columns), 'metric')}"
    on_all = f" Methods with a score on all metrics: {len(matrix.common)}." if len(matrix.columns) > 1 else ""
    return f"{size}; inputs per score: {enumeration(counts)}.{on_all}"


def _leaders(group: str, matrix: Matrix, tests: Mapping[str, ColumnTests], names: Any) -> Iterator[str]:
    """Yield which methods are best on each metric of a benchmark."""
    for column in matrix.columns:
        ranked = sorted((rank, name) for (name, key), rank in matrix.ranks.items() if key == column.key)
        if column.group == group and ranked:
            baseline = matrix.baseline_on_top(column)
            best = ranked[0][1]
            if baseline:
                yield _no_best(column, baseline, best, matrix, names)
            else:
                yield _best(column, best, tests.get(column.key), matrix, names)


def _best(column: Column, best: str, tests: ColumnTests | None, matrix: Matrix, names: Any) -> str:
    tied: list[str] = []
    if tests:
        best, *tied = tests.tied_with_best()
    text = f"{column.title}: {names(best)} ({cell_score(matrix.cells[best, column.key], column)})"
    if tests is None:
        return f"{text}."
    if not tied:
        return f"{text}, significantly better than all others."
    if tests.has_power():
        return f"{text}, tied with {enumeration(map(names, tied), _AT_MOST)}."
    others = f"{len(tied)} of the {len(tests.tested) - 1} others"
    return f"{text}, not significantly different from {others}: {_too_few(tests)}."


def _no_best(column: Column, baseline: str, best: str, matrix: Matrix, names: Any) -> str:
    """Return that a column names no best method, because a control has the highest score."""
    value, highest = (cell_score(matrix.cells[name, column.key], column) for name in (baseline, best))
    trivial = baseline in column.excluded
    why = "has the trivial maximum" if trivial else "uses no network and scores higher than any method"
    return (
        f"{column.title}: no method is named best. “{names(baseline)}” {why} ({value}); the best method has {highest}."
    )


def _too_few(tests: ColumnTests) -> str:
    """Return what the inputs of a column are too few for."""
    smallest = tests.detectable_between_methods()
    what = "to distinguish any two methods"
    if not math.isinf(smallest):
        what = f"for differences below {detectable(smallest, tests.column)}"
    return f"{tests.independent_inputs():,} independent inputs are too few {what}"


def _controls(tests: ColumnTests, matrix: Matrix, names: Any) -> str:
    """Return how many methods are not above every baseline of a column; empty if it has no controls."""
    if not tests.controls or not tests.tested:
        return ""
    label, count = tests.column.label + _on_networks(matrix, tests.column), len(tests.tested)
    if not tests.has_power_for_controls():
        inputs = f"{tests.independent_inputs():,} independent inputs"
        return f"{label}: {inputs} are too few to find any of {count} methods above every baseline."
    failing = [failed for failed in map(tests.failed_kinds, tests.tested) if failed]
    if not failing:
        return f"{label}: all {count} methods are above every baseline."
    smallest = detectable(tests.detectable_above_controls(), tests.column)
    return f"{label}: {_failing(failing, count, names)}; leads below {smallest} are not detected."


def _failing(failing: Sequence[Mapping], count: int, names: Any) -> str:
    """Return how many of a number of methods fail which controls."""
    often = collections.Counter(names(kind) for failed in failing for kind in failed)
    control, times = min(often.items(), key=lambda item: (-item[1], item[0]))
    if times == count:
        whom = enumeration(f"“{name}”" for name, failed in sorted(often.items()) if failed == count)
        return f"none of the {count} methods is significantly above {whom}"
    whom = f"“{control}”" if times == len(failing) else f"every baseline, {times} of them not above “{control}”"
    return f"{len(failing)} of {count} methods are not significantly above {whom}"


def _on_networks(matrix: Matrix, column: Column) -> str:
    """Return ", on the network saved_models/mine/first": tests hold for the networks that were scored."""
    networks = matrix.networks.get(column.key, ())
    if not networks:
        return ""
    return f", on the network{'' if len(networks) == 1 else 's'} {enumeration(networks, _AT_MOST)}"


def _agreement(matrix: Matrix, agreement: Agreement) -> list[str]:
    overall, between = agreement.overall, agreement.between
    if not math.isfinite(overall.w):
        return ["Too few methods were scored on all metrics to tell."]
    found = [
        f"Over the {overall.methods} methods that they all rank, the {overall.judges} metrics {describe(overall)}."
    ]
    if math.isfinite(between.w):
        found.append(f"The {between.judges} benchmarks, equally weighted, {describe(between)}. {predictive(between)}")
    return found + _extreme_pairs(matrix, agreement)


def _extreme_pairs(matrix: Matrix, agreement: Agreement) -> list[str]:
    """Return which metrics of different benchmarks rank most and least alike, if there are several such pairs."""
    pairs = [
        (agreement.correlations[i, j], first, second)
        for i, first in enumerate(matrix.columns)
        for j, second in enumerate(matrix.columns)
        if i < j and first.group != second.group and np.isfinite(agreement.correlations[i, j])
    ]
    if len(pairs) < 2:
        return []
    (low, *least), (high, *most) = (end(pairs, key=lambda pair: pair[0]) for end in (min, max))
    alike, unlike = (" and ".join(column.label for column in pair) for pair in (most, least))
    return [
        f"Of metrics of different benchmarks, {alike} rank most alike (Spearman {number(high)}), "
        f"{unlike} least ({number(low)})."
    ]


def describe(found: Concordance) -> str:
    """Return how well rankings agree: by their mean rank correlation, and whether by chance.

    The mean correlation of every two of m rankings is (m W - 1) / (m - 1). W itself is 1 / m for independent rankings,
    which would look like agreement if they are few.
    """
    mean = _mean_correlation(found, found.w)
    steps = ((0.2, "hardly agree"), (0.4, "agree little"), (0.6, "agree in part"), (0.8, "agree well"))
    words = next((words for limit, words in steps if mean < limit), "agree very well")
    chance = "" if found.p_value < LEVEL else ", no more than by chance"
    bounds = f" (95 % {interval(found.low, found.high)})" if math.isfinite(found.low) else ""
    p = "p < 0.001" if found.p_value < 0.001 else f"p = {number(found.p_value, 3)}"
    return (
        f"{words}{chance} (mean rank correlation {number(mean)}, Kendall's W = {number(found.w)}{bounds}, "
        f"{number(found.chance)} expected by chance, {p})"
    )


def predictive(found: Concordance) -> str:
    """Return whether a rank on one benchmark predicts that on another, or that this cannot be tested."""
    if found.p_value < LEVEL:
        return "A method's rank on one benchmark predicts its rank on another better than chance."
    if _mean_correlation(found, found.high) < _AGREE_WELL:
        return "A method's rank on one benchmark does not reliably predict its rank on another."
    return f"{_COUNTS.get(found.judges, found.judges)} benchmarks are too few to test whether they rank methods alike."


def _mean_correlation(found: Concordance, w: float) -> float:
    return (found.judges * w - 1) / (found.judges - 1)


def _all_rounders(matrix: Matrix, tests: Sequence[ColumnTests], names: Any) -> Iterator[str]:
    """Yield which metrics name no best method, and which methods are tied with the best on most others."""
    if len(tests) < 2 or not matrix.common:
        return
    naming = list(filter(ColumnTests.names_best, tests))
    silent = list(itertools.filterfalse(ColumnTests.names_best, tests))
    if silent:
        listed = enumeration((one.column.label for one in silent), _AT_MOST)
        yield f"{len(silent)} of {len(tests)} metrics name no best method and are not counted: {listed}."
    if naming:
        metrics = f"all {len(naming)} metrics" if len(naming) > 1 else "the one metric"
        yield _most_often_best(naming, matrix, f"{metrics} that do" if silent else metrics, names)


def _most_often_best(naming: Sequence[ColumnTests], matrix: Matrix, metrics: str, names: Any) -> str:
    counts = collections.Counter(dict.fromkeys(matrix.common, 0))
    for one in naming:
        counts.update(name for name in one.tied_with_best() if name in counts)
    top = max(counts.values())
    best = [names(name) for name, count in counts.items() if count == top]
    listed = enumeration(best, _AT_MOST)
    if top == len(naming):
        return f"Best, or tied with the best, on {metrics}: {listed}."
    are = "is" if len(best) == 1 else "are"
    return f"No method is best or tied with the best on {metrics}. {listed} {are} so on {top}."


def _papers(matrix: Matrix, reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield for each benchmark how many of the paper's scores lie inside our intervals, and why others do not."""
    compared = False
    for group in matrix.groups():
        rows = [row for row in _rows(matrix, group) if row.get("paper") is not None]
        why = f" {reasons[group]}" if group in reasons else ""
        compared = compared or bool(rows)
        if rows:
            yield f"{group}: {_inside(rows)}.{why}"
        elif why:
            yield f"{group}: the paper has no comparable score.{why}"
    if compared:
        yield "The intervals cover other inputs, not other networks; ours are not the papers' networks."


def _rows(matrix: Matrix, group: str) -> list[Mapping]:
    """Return the rows of a benchmark."""
    keys = {column.key for column in matrix.columns if column.group == group}
    return [row for (_, key), row in matrix.cells.items() if key in keys]


def _inside(rows: Sequence[Mapping]) -> str:
    """Return how many published scores lie inside our intervals, and how many of these intervals are uninformative."""
    spread = {
        metric: float(np.ptp([row["paper"] for row in rows if row["metric"] == metric]))
        for metric in {row["metric"] for row in rows}
    }
    inside = [row for row in rows if row["low"] <= row["paper"] <= row["high"]]
    text = f"{len(inside)} of the paper's {len(rows)} scores lie inside our 95 % intervals"
    wide = sum(row["high"] - row["low"] > spread[row["metric"]] / 2 for row in inside)
    if wide:
        are = "is" if wide == 1 else "are"
        text += f"; {wide} of these intervals {are} wider than half the range of the paper's scores: weak evidence"
    return text
