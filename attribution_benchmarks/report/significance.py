"""Paired tests of all methods and controls on each column, and how well each metric ranks the truth above controls.

Tests are paired over inputs. All pairs of methods of a column are one family. "Better than every control" is one claim
per method; the claims of a column's methods are another family (``stats.comparisons``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attribution_benchmarks.core.batch import MEMBER
from attribution_benchmarks.core.controls import WRONG_CLASS
from attribution_benchmarks.core.definition import ORACLE
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report.formatting import count_of, percentages
from attribution_benchmarks.report.matrix import Column, Matrix
from attribution_benchmarks.stats import statistics
from attribution_benchmarks.stats.comparisons import (
    LEVEL,
    CachedTests,
    PairComparison,
    better_than_every,
    compare_pairs,
    holm_corrected,
    minimum_detectable_difference,
    smallest_p_value,
)

INSENSITIVE = 0.8  # a map that keeps a larger share of its score for a wrong class hardly depends on the class


def condition_of(test: PairComparison) -> str:
    """Return the control condition of the method's own map that it is tested against; empty for other controls."""
    own = f"{test.first}/"
    return test.second.removeprefix(own) if test.second.startswith(own) else ""


def kind_of(control: str) -> str:
    """Return a control's name without its number, "random_weights" for "random_weights#2"."""
    return control.partition(MEMBER)[0]


def quoted_kinds(kinds: Mapping[str, tuple[int, int]], names: Any) -> list[str]:
    """Return the printed names of kinds of controls, each with its count if a kind has several."""
    return [f"“{names(kind)}”" + (f" ({count} of {total})" if total > 1 else "")
            for kind, (count, total) in kinds.items()]  # fmt: skip


class ColumnTests(NamedTuple):
    """Paired tests of one column.

    Attributes
    ----------
    column, matrix
        The column, and the matrix that it is of.
    tested
        Methods that took part.
    methods, controls
        All pairs of methods; all pairs of a method and a control that is not excluded. A difference is first minus
        second, in the metric's direction. The corrected p-value of a pair with a control is that of the claim that the
        method is better.
    """

    column: Column
    matrix: Matrix
    tested: Sequence[str]
    methods: Sequence[PairComparison]
    controls: Sequence[PairComparison]

    def better(self, test: PairComparison) -> str | None:
        """Return the better one of a pair; None if they do not differ significantly."""
        if not test.p_corrected < LEVEL:
            return None
        return test.first if (test.difference > 0) == self.column.higher_is_better else test.second

    def beaten_by(self, method: str) -> list[str]:
        """Return the methods that this one is significantly better than."""
        return [
            test.second if test.first == method else test.first
            for test in self.methods
            if method in test[:2] and self.better(test) == method
        ]

    def fails_controls(self, method: str) -> list[str]:
        """Return the controls that a method is not significantly better than."""
        return [test.second for test in self.controls if test.first == method and self.better(test) != method]

    def failed_kinds(self, method: str) -> dict[str, tuple[int, int]]:
        """Return kind of control -> how many of it a method fails, and how many there are."""
        failed = set(self.fails_controls(method))
        tests = [(kind_of(condition_of(test) or test.second), test) for test in self.controls if test.first == method]
        counts = {kind: sum(test.second in failed for one, test in tests if one == kind) for kind, _ in tests}
        return {kind: (count, sum(one == kind for one, _ in tests)) for kind, count in counts.items() if count}

    def untested_controls(self, method: str) -> list[str]:
        """Return the control conditions that other methods of the column were tested under, but not this one."""
        tested = {(test.first, condition_of(test)) for test in self.controls if condition_of(test)}
        return sorted({control for _, control in tested if (method, control) not in tested})

    def untested_kinds(self, method: str) -> dict[str, tuple[int, int]]:
        """Return kind of control -> how many of it a method was not tested against, and how many others were."""
        tested = {condition_of(test) for test in self.controls} - {""}
        missing = list(map(kind_of, self.untested_controls(method)))
        return {
            kind: (missing.count(kind), sum(kind_of(one) == kind for one in tested)) for kind in sorted(set(missing))
        }

    def scores_under_controls(self, method: str, value: float) -> dict[str, list[float]]:
        """Return kind of control -> mean scores of the method's maps under it, given the method's own score."""
        found: dict[str, list[float]] = {}
        for test in self.controls:
            if test.first == method and condition_of(test):
                found.setdefault(kind_of(condition_of(test)), []).append(value - test.difference)
        return found

    def wrong_class_share(self, method: str) -> float | None:
        """Return the share of a method's score that remains when another class is explained.

        It is the wrong class's score over the method's own, or the inverse if less is better: 1 for a map that does
        not depend on the class. None if it is unknown or the method's own score is not positive.
        """
        own = self.matrix.cells[method, self.column.key]["value"]
        others = self.scores_under_controls(method, own).get(WRONG_CLASS.name)
        if not others:
            return None
        part, whole = (others[0], own) if self.column.higher_is_better else (own, others[0])
        return max(part / whole, 0.0) if whole > 0 else None

    def beats_every_baseline(self, method: str) -> bool:
        """Return whether a method is significantly better than every control, and was tested against all of them."""
        return method in self.tested and not self.fails_controls(method) and not self.untested_controls(method)

    def tied_with_best(self) -> list[str]:
        """Return the best method of the column and those not significantly different from it, by rank."""
        ranked = sorted(self.tested, key=lambda name: self.matrix.ranks[name, self.column.key])
        best = ranked[:1]
        tied = {name for test in self.methods if best[0] in test[:2] and not self.better(test) for name in test[:2]}
        return best + [name for name in ranked[1:] if name in tied]

    def has_power(self) -> bool:
        """Return whether at least half of the other methods differ significantly from the best one.

        Otherwise the inputs are too few for "tied with the best" to be informative.
        """
        others = len(self.tested) - 1
        return others > 0 and 2 * (len(self.tied_with_best()) - 1) <= others

    def names_best(self) -> bool:
        """Return whether the best method differs from most others, and no model-independent control scores higher."""
        return self.has_power() and self.matrix.baseline_on_top(self.column) is None

    def has_power_for_controls(self) -> bool:
        """Return whether the inputs are enough for any method to be significantly better than every control."""
        clusters = [test.clusters for test in self.controls if test.n]
        return bool(clusters) and smallest_p_value(max(clusters)) * len(self.tested) < LEVEL

    def marks(self, method: str) -> str:
        """Return a method's marks in the matrix, as ``publish.LEGEND`` explains them."""
        found = "*" if self.names_best() and method in self.tied_with_best() else ""
        if not self.has_power_for_controls():
            return found
        return found + ("†" if self.fails_controls(method) else "°" if self.untested_controls(method) else "")

    def detectable_between_methods(self) -> float:
        """Return the smallest difference of two methods that is found with 80 % power; infinite if none is."""
        return minimum_detectable_difference(self.methods)

    def detectable_above_controls(self) -> float:
        """Return the smallest lead over a control that is found with 80 % power; infinite if none is."""
        return minimum_detectable_difference(self.controls, claims=max(len(self.tested), 1))

    def independent_inputs(self) -> int:
        """Return the number of independent groups of inputs."""
        return max((test.clusters for test in (*self.methods, *self.controls)), default=0)


class BaselineRecord(NamedTuple):
    """How a method compares with the baselines over all metrics.

    Attributes
    ----------
    beats
        Number of metrics on which it beats every baseline.
    metrics
        Number of metrics with enough inputs.
    kept
        Metric's label -> share of the score that remains for a wrong class, if that is more than ``INSENSITIVE`` and
        the score is better than that of every model-independent control.
    known
        Whether any such share is known.
    few
        Whether other metrics have too few inputs.
    """

    beats: int
    metrics: int
    kept: Mapping[str, float]
    known: bool
    few: bool


def baseline_record(method: str, tests: Iterable[ColumnTests]) -> BaselineRecord:
    """Return a method's record over some columns."""
    tests = list(tests)
    powered = [one for one in tests if one.has_power_for_controls()]
    shares = {
        one.column.label: one.wrong_class_share(method)
        for one in tests
        if one.matrix.above_baselines(method, one.column)
    }
    known = {label: share for label, share in shares.items() if share is not None}
    return BaselineRecord(
        sum(one.beats_every_baseline(method) for one in powered),
        len(powered),
        {label: share for label, share in known.items() if share > INSENSITIVE},
        bool(known),
        len(powered) < len(tests),
    )


def describe_records(records: Sequence[BaselineRecord]) -> str:
    """Return "beats every baseline on 8 of 10 metrics, but keeps 98 % of its score for a wrong class on 4 metrics".

    Several records are those of methods that beat every baseline equally often; the verb is then plural.
    """
    several, one = len(records) > 1, records[0]
    if not one.beats:
        return f"{'do' if several else 'does'} not beat every baseline on {describe_count(one, 'any of ')}"
    text = f"beat{'' if several else 's'} every baseline on {describe_count(one)}"
    kept = [share for each in records for share in each.kept.values()]
    if kept:
        keep, their = ("keep", "their") if several else ("keeps", "its")
        text += f", but {keep} {percentages(kept)} of {their} score for a wrong class"
        text += "" if several else f" on {count_of(len(kept), 'metric')}"
    return text


def describe_count(one: BaselineRecord, any_of: str = "") -> str:
    """Return "8 of 10 metrics", "all 10 metrics" or "the one metric"; after ``any_of``, the number of metrics."""
    metrics = f"metric{'' if one.metrics == 1 else 's'}{' with enough inputs' if one.few else ''}"
    if one.metrics == 1:
        return f"the one {metrics}"
    if any_of:
        return f"{any_of}{one.metrics} {metrics}"
    return f"all {one.metrics} {metrics}" if one.beats == one.metrics else f"{one.beats} of {one.metrics} {metrics}"


def compare_columns(
    matrix: Matrix, scores: Mapping[str, Sequence[InputScores]], seed: int = 0, cache: CachedTests | None = None
) -> dict[str, ColumnTests]:
    """Return column key -> paired tests, of each column whose input scores are known.

    Parameters
    ----------
    matrix
        From ``matrix.build``.
    scores
        Benchmark -> groups of input scores. A method is tested against the matrix's controls, and against its own
        maps under control conditions, "method/control".
    seed
        Of permutations and bootstrap samples.
    cache
        As of ``comparisons.compare_pairs``.
    """
    found = {}
    for column in matrix.columns:
        group = group_of(column, scores)
        if group is None:
            continue
        methods = [name for name in matrix.methods if name in group.values and (name, column.key) in matrix.cells]
        pairs = list(itertools.combinations(methods, 2))
        against = [
            (method, control)
            for method in methods
            for control in (
                *rivals(column, matrix, group),
                *(name for name in group.values if name.startswith(f"{method}/")),
            )
        ]
        # Tested together, because they share random numbers; each family is corrected by itself.
        tests = compare_pairs(group.values, [*pairs, *against], group.clusters, seed=seed, cache=cache)
        compared, controls = holm_corrected(tests[: len(pairs)]), tests[len(pairs) :]
        above = better_than_every(controls, column.higher_is_better)
        found[column.key] = ColumnTests(column, matrix, methods, compared, above)
    return found


def group_of(column: Column, scores: Mapping[str, Sequence[InputScores]]) -> InputScores | None:
    """Return the input scores of a column; None if there are none, or several."""
    found = [group for group in scores.get(column.benchmark, ()) if column.takes(group.where)]
    return found[0] if len(found) == 1 else None


def rivals(column: Column, matrix: Matrix, group: InputScores) -> list[str]:
    """Return the controls that methods of a column are tested against."""
    return [name for name in matrix.controls if name in group.values and name not in column.excluded]


class ControlShare(NamedTuple):
    """Share of ``n`` inputs on which a metric ranks the truth above a control, ties as one half, with its interval."""

    control: str
    share: float
    low: float
    high: float
    n: int


class OraclePower(NamedTuple):
    """How well a column's metric ranks the truth, taken as a map, above model-independent maps.

    Attributes
    ----------
    column
        The column.
    truth
        Control that is an oracle.
    value
        Its mean score.
    shares
        One for each control, the lowest first.
    """

    column: Column
    truth: str
    value: float
    shares: tuple[ControlShare, ...]


def oracle_power(matrix: Matrix, scores: Mapping[str, Sequence[InputScores]], seed: int = 0) -> list[OraclePower]:
    """Return the columns with an oracle, by decreasing share of the control that is hardest to distinguish.

    Parameters
    ----------
    matrix, scores
        As of ``compare_columns``.
    seed
        Of the bootstrap.
    """
    groups = [(column, group_of(column, scores)) for column in matrix.columns]
    found = [_power(column, group, matrix, seed) for column, group in groups if group]
    return sorted(
        (one for one in found if one and one.shares),
        key=lambda one: (-one.shares[0].share, -float(np.mean([each.share for each in one.shares]))),
    )


def _power(column: Column, group: InputScores, matrix: Matrix, seed: int) -> OraclePower | None:
    """Return the power of a column; None if it has no oracle."""
    oracles = [name for name, why in column.excluded.items() if why == ORACLE and name in group.values]
    if not oracles:
        return None
    values = np.asarray(group.values[oracles[0]], np.float64)
    shares = [_share_above(group, values, name, column, seed) for name in rivals(column, matrix, group)]
    known = sorted((one for one in shares if one.n), key=lambda one: (one.share, one.control))
    return OraclePower(column, oracles[0], float(np.nanmean(values)), tuple(known))


def _share_above(group: InputScores, truth: np.ndarray, name: str, column: Column, seed: int) -> ControlShare:
    lead = truth - np.asarray(group.values[name], np.float64)
    known = np.isfinite(lead)
    won = (1 + np.sign(lead[known] if column.higher_is_better else -lead[known])) / 2
    clusters = None if group.clusters is None else np.asarray(group.clusters)[known]
    estimate = statistics.mean_interval(won, seed=seed, clusters=clusters, bounds=(0.0, 1.0))
    return ControlShare(name, estimate.value, estimate.low, estimate.high, int(known.sum()))
