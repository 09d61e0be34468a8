"""Sentences that state the results: the headline of the page and its summary. Every number in them is computed."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attribution.methods.registry import known_method
from attribution_benchmarks.report.formatting import (
    Names,
    cell_interval,
    cell_score,
    count_of,
    count_range,
    enumeration,
    percentages,
    rank,
)
from attribution_benchmarks.report.matrix import Column, Matrix
from attribution_benchmarks.report.significance import (
    MARGIN,
    PASSES,
    TOO_FEW,
    Baseline,
    BaselineRecord,
    ColumnTests,
    baseline_record,
)
from attribution_benchmarks.stats.statistics import MIN_INPUTS, MIN_NETWORKS

_AT_MOST = 4  # names in one sentence
_FAITHFULNESS = "in_domain_deletion"


def headline(matrix: Matrix, tests: Mapping[str, ColumnTests], names: Names, custom: Sequence[str]) -> tuple[str, str]:
    """Return the main result, and a sentence that qualifies it or an empty one.

    It is about the first custom method, or else about the methods that pass on most metrics.
    """
    custom = [name for name in custom if name in matrix.methods]
    if not matrix.methods:
        return "Nothing has been scored", ""
    if custom:
        return _about(custom[0], matrix, tests, names), ""
    if not any(one.has_power() for one in tests.values()):
        return "A first look: the inputs are too few to compare methods with the baselines", ""
    records = {name: baseline_record(name, tests.values()) for name in matrix.methods}
    first = _most_passes(records)
    if not first:
        return f"No method beats every baseline ({PASSES}) on any metric", ""
    who = f"{len(first)} methods" if len(first) > 3 else enumeration(map(names, first))
    text = f"{who} {describe_record(records[first[0]], len(first) > 1)}"
    return text, "No method passes on more metrics." if len(records[first[0]].passed) < len(tests) else ""


def _most_passes(records: Mapping[str, BaselineRecord]) -> list[str]:
    """Return the methods that pass on most metrics; none if no method passes."""
    most = max((len(one.passed) for one in records.values()), default=0)
    return [name for name, one in records.items() if most and len(one.passed) == most]


def describe_record(record: BaselineRecord, plural: bool = False) -> str:
    """Return "beats every baseline (✓) on 5 of 9 metrics"."""
    passed, compared = len(record.passed), len(record.compared)
    if not compared:
        return f"{'were' if plural else 'was'} compared with every baseline on no metric"
    verb = ("beat" if plural else "beats") if passed else f"{'do' if plural else 'does'} not beat"
    metrics = count_of(compared, "metric")
    where = f"{passed} of {metrics}" if passed else f"any of {metrics}"
    if passed == compared or compared == 1:
        where = f"all {metrics}" if compared > 1 else "the one metric"
    return f"{verb} every baseline ({PASSES}) on {where}"


def _about(name: str, matrix: Matrix, tests: Mapping[str, ColumnTests], names: Names) -> str:
    """Return on how many metrics a method passes."""
    tested = [one for one in tests.values() if name in one.tested]
    if not any(name == scored for scored, _ in matrix.cells):
        return f"{names(name)} fits none of the benchmarks"
    if not any(one.has_power() for one in tested):
        return f"{names(name)}: a first look, with too few inputs to compare it with the baselines"
    return f"{names(name)} {describe_record(baseline_record(name, tested))}"


def advice(matrix: Matrix, tests: Mapping[str, ColumnTests], names: Names) -> list[str]:
    """Return which method to use, with what the results leave open; empty for too few inputs.

    Methods are recommended that pass on most metrics. Their ranks by in-domain deletion and their cost follow.
    """
    tested = [one for one in tests.values() if one.has_power()]
    records = {name: baseline_record(name, tested) for name in matrix.methods}
    first = _most_passes(records)
    if not tested or not matrix.methods:
        return []
    if not first:
        return _none_passes(tested, names)
    alike: dict[tuple, list[str]] = {}
    for name in first[:_AT_MOST]:
        alike.setdefault((tuple(records[name].passed), tuple(records[name].compared)), []).append(name)
    return [text for group in alike.values() for text in _recommend(group, records[group[0]], tested, names)]


class Choice(NamedTuple):
    """The best methods of a metric."""

    column: Column
    best: Sequence[str]  # several where they tie
    like: Sequence[str]  # methods that do not differ significantly from the first of the best
    untested: str  # why ``like`` is not known; empty where it is
    beaten: bool  # whether no method is as good as a control
    caveat: str  # what speaks against the best


def choices(matrix: Matrix, tests: Mapping[str, ColumnTests], names: Names) -> list[Choice]:
    """Return the best methods of each metric, what is as good, and what speaks against them."""
    found = []
    for column in matrix.columns:
        ranked, of_column = matrix.ranked(column), tests.get(column.key)
        if not ranked:
            continue
        first = matrix.ranks[ranked[0], column.key]
        best = [name for name in ranked if matrix.ranks[name, column.key] == first]
        tested = of_column is not None and of_column.has_power()
        untested = "" if tested else "not tested: too few inputs" if of_column else "not tested"
        like = [name for name in of_column.tied_with_best() if name not in best] if of_column and tested else []
        caveats = dict.fromkeys(_caveat(name, of_column, names) for name in best) if of_column and tested else {}
        caveat = "; ".join(filter(None, caveats))
        if baseline := matrix.baseline_on_top(column):
            why = "has the trivial maximum" if baseline in column.excluded else "uses no network and scores higher"
            caveat = f"“{names(baseline)}” {why} ({cell_score(matrix.cells[baseline, column.key], column)})"
        found.append(Choice(column, best, like, untested, baseline is not None, caveat))
    return found


def _caveat(best: str, tests: ColumnTests, names: Names) -> str:
    """Return what speaks against the best method of a metric; empty if nothing does."""
    if failed := tests.failed(best):
        return _strongest(failed, names)
    if tests.mark(best) == TOO_FEW:
        return "too few networks or inputs to claim that it beats the baselines"
    return "too expensive to compare with every baseline" if tests.not_compared(best) else ""


def _strongest(failed: Sequence[Baseline], names: Names) -> str:
    """Return which of the baselines that a method does not beat reaches most of its score."""
    reached = [one for one in failed if math.isfinite(one.share)]
    worst = max(reached or failed, key=lambda one: one.share)
    share = f"reaches {percentages([worst.share])} of its score" if reached else "is not beaten"
    return f"{'its own map under ' if worst.own else ''}“{names(worst.kind)}” {share}"


def undecided(tests: Mapping[str, ColumnTests], names: Names) -> list[str]:
    """Return what the results leave open."""
    tested = [one for one in tests.values() if one.has_power()]
    weak = [one.column.label for one in tests.values() if not one.has_power()]
    return [
        *_best_open(tested),
        *([f"{enumeration(weak)}: fewer than {MIN_INPUTS} independent inputs, too few for any test."] if weak else []),
        *_open_for_want_of_data(tested),
        *caveats(tested),
    ]


def _open_for_want_of_data(tested: Sequence[ColumnTests]) -> list[str]:
    """Return on which metrics more networks or inputs may show that methods beat the baselines."""
    open_ = {one.column.label: sum(one.mark(name) == TOO_FEW for name in one.tested) for one in tested}
    labels = [f"{label} ({count_of(count, 'method')})" for label, count in open_.items() if count]
    return [f"More networks or inputs may show marks ({PASSES}) on {enumeration(labels)}: {TOO_FEW}."] if labels else []


def _best_open(tested: Sequence[ColumnTests]) -> list[str]:
    """Return on how many metrics other methods are as good as the best."""
    ties = [len(one.tied_with_best()) - 1 for one in tested if len(one.tested) > 1]
    several = [count for count in ties if count]
    if not several:
        return []
    others = f"{count_range(several)} other method{'' if max(several) == 1 else 's'}"
    return [
        f"On {len(several)} of {count_of(len(ties), 'metric')} no single method is best: {others} "
        f"{'is' if max(several) == 1 else 'are'} not significantly different from the best one."
    ]


def _none_passes(tested: Sequence[ColumnTests], names: Names) -> list[str]:
    """Return that no method passes, and which comes closest: its strongest baseline reaches the smallest share."""
    strongest = [
        (max(one.against(name), key=lambda each: each.share), one)
        for one in tested
        for name in one.tested
        if one.against(name) and not one.not_compared(name)
    ]
    said = [f"None of these methods beats every baseline ({PASSES}) on any metric."]
    strongest = [each for each in strongest if np.isfinite(each[0].share)]
    if strongest:
        closest, one = min(strongest, key=lambda each: each[0].share)
        said.append(
            f"The closest is {names(closest.method)} on {one.column.label}: “{names(closest.kind)}” reaches "
            f"{100 * closest.share:.0f} % of its score (95 % interval {100 * closest.low:.0f} to "
            f"{100 * closest.high:.0f} %). A method passes where this is shown to be below {100 * MARGIN:.0f} %."
        )
    return said


def _recommend(
    names_of: Sequence[str], record: BaselineRecord, tested: Sequence[ColumnTests], names: Names
) -> list[str]:
    """Return where methods of one record pass, their ranks by in-domain deletion, and their costs."""
    missed = [label for label in record.compared if label not in record.passed]
    text = f"{enumeration(map(names, names_of))} beat{'s' if len(names_of) == 1 else ''} every baseline ({PASSES}) on "
    text += enumeration(record.passed, _AT_MOST) + (f", not on {enumeration(missed, _AT_MOST)}" if missed else "")
    ranks = [
        f"{names(name)} {_range(one, name)} of {len(one.tested)}"
        for one, name in itertools.product(tested, names_of)
        if one.column.metric == _FAITHFULNESS and name in one.ranks
    ]
    methods = {name: known_method(name) for name in names_of}
    costs = [f"{names(name)} {method.card.cost}" for name, method in methods.items() if method and method.card]
    found = {"Rank by in-domain deletion": ranks, "Cost of an input": costs}
    return [f"{text}.", *(f"{what}: {'; '.join(texts)}." for what, texts in found.items() if texts)]


def _range(tests: ColumnTests, name: str) -> str:
    """Return the range of a method's rank."""
    low, high = tests.ranks[name]
    return rank(low) if low == high else f"{rank(low)} to {rank(high)}"


def caveats(tested: Sequence[ColumnTests]) -> list[str]:
    """Return for which networks the results of tested columns hold."""
    several = list(dict.fromkeys(one.column.group for one in tested if one.networks >= MIN_NETWORKS))
    fixed = list(dict.fromkeys(one.column.group for one in tested if one.column.group not in several))
    return [
        *([f"Other architectures and tasks: on {enumeration(several)}, the results hold for networks trained alike."]
          if several else []),
        *([f"Other networks: on {enumeration(fixed)}, the results hold for the networks that were scored."]
          if fixed else []),
    ]  # fmt: skip


def against_baselines(tests: Mapping[str, ColumnTests], names: Names) -> list[str]:
    """Return for each metric how many methods beat every baseline."""
    return [text for one in tests.values() if (text := _baselines(one, names))]


def scope(matrix: Matrix) -> str:
    """Return how many methods were scored on how many metrics, and on how many inputs."""
    counts = []
    for group in matrix.groups():
        inputs = count_range(row["n"] for row in _rows(matrix, group) if row["method"] in matrix.methods)
        if inputs:
            counts.append(f"{group} {inputs}")
    size = f"{count_of(len(matrix.methods), 'method')} on {count_of(len(matrix.columns), 'metric')}"
    on_all = f" Methods with a score on all: {len(matrix.common)}." if len(matrix.columns) > 1 else ""
    return f"{size}; inputs per score: {enumeration(counts)}.{on_all}"


def _baselines(tests: ColumnTests, names: Names) -> str:
    """Return how many methods pass on a column, and which baseline stops most others; empty without baselines."""
    label, compared = tests.column.label, [name for name in tests.tested if tests.against(name)]
    if not compared:
        return ""
    if not tests.has_power():
        return f"{label}: {tests.independent_inputs():,} independent inputs are too few; {MIN_INPUTS} are needed."
    passing = [name for name in compared if tests.passes(name)]
    stopped = collections.Counter(names(one.kind) for name in compared for one in tests.failed(name)[:1])
    measured = sum(tests.mark(name) == TOO_FEW for name in compared)
    text = f"{label}: {len(passing)} of {len(compared)} methods pass"
    text += f", {measured} as measured only" if measured else ""
    if stopped:
        control, times = min(stopped.items(), key=lambda item: (-item[1], item[0]))
        text += f"; for {times} the baseline that is hardest to beat is “{control}”"
    return f"{text}."


def papers(matrix: Matrix, reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield for each benchmark how many of the paper's scores lie inside our intervals, and why others do not.

    ``reasons`` is printed name of a benchmark -> why its scores differ from the paper's.
    """
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
        yield "Our networks are not the papers' networks."


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


def of_method(name: str, tests: Mapping[str, ColumnTests], names: Names) -> list[str]:
    """Return what the tests of all columns found for a method, and how many of them have enough inputs."""
    tested = [one for one in tests.values() if name in one.tested]
    if not tested:
        return ["No paired test: the scores of single inputs are not known."]
    powered = [one for one in tested if one.has_power()]
    if not powered:
        return ["The inputs are too few to compare it with baselines."]
    record = baseline_record(name, powered)
    text = describe_record(record)
    failed = [f"{one.column.label} (“{names(found[0].kind)}”)" for one in powered if (found := one.failed(name))]
    kept = {label: share for label, share in record.kept.items() if share > MARGIN}
    first = [one.column.label for one in powered if len(one.tested) > 1 and one.ranks[name].high == 1]
    return [
        f"{text[0].upper()}{text[1:]}{f'; not on {enumeration(failed, _AT_MOST)}' if failed else ''}.",
        *([f"Keeps {percentages(kept.values())} of its score for a wrong class on {enumeration(kept, _AT_MOST)}."]
          if kept else []),
        *([f"Significantly better than all others on {enumeration(first, _AT_MOST)}."] if first else []),
    ]  # fmt: skip


def of_score(name: str, column: Column, matrix: Matrix, tests: ColumnTests | None, names: Names) -> Iterator[str]:
    """Yield what a score and its tests say: interval, rank, and baselines."""
    row = matrix.cells.get((name, column.key))
    if row is None:
        yield f"No score: {matrix.blanks[name, column.key]}"
        return
    yield f"{cell_score(row, column)}, 95 % interval {cell_interval(row, column)}, over {row['n']:,} inputs"
    if math.isfinite(share := matrix.headroom_share(name, column)):
        yield f"{100 * share:.0f} % of the way from the best baseline to the truth as a map"
    if tests is None or name not in tests.tested:
        yield "not tested: the scores of single inputs are not known"
        return
    yield f"rank {_range(tests, name)}: all others are significantly better or worse"
    if not tests.has_power():
        yield "the inputs are too few to compare it with baselines"
        return
    if tests.mark(name) == TOO_FEW:
        yield "too few networks or inputs to claim that it beats every baseline"
    failed = tests.failed(name)
    for one in tests.against(name):
        reached = f"reaches {100 * one.share:.0f} % ({100 * one.low:.0f} to {100 * one.high:.0f})"
        known = reached if math.isfinite(one.share) else "no share, because the score is not positive"
        yield f"“{names(one.kind)}”: {known}{', not beaten by the margin' if one in failed else ''}"
    if missing := tests.not_compared(name):
        yield f"not compared with its map under {', '.join(f'“{names(kind)}”' for kind in missing)}: too expensive"
    if tests.passes(name):
        yield f"beats every baseline: each reaches at most {100 * MARGIN:.0f} % of its score"
