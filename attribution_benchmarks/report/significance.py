"""What the scores of all inputs and networks say about each column: baselines, ranks, and pairs of methods.

The effect comes first: the share of a method's score that a baseline reaches. Baselines are maps that use no network,
and the method's own maps for a wrong class and on networks with random weights. A method passes where every baseline
reaches at most ``MARGIN`` of its score. One test claims that: ``stats.statistics.bet``, whose level holds for any
distribution, with Holm's correction for the methods of the column.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.core.batch import MEMBER
from attribution_benchmarks.core.controls import WRONG_CLASS
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.report.matrix import Column, Matrix, group_of
from attribution_benchmarks.stats.statistics import (
    LEVEL,
    MIN_INPUTS,
    MIN_NETWORKS,
    PairComparison,
    bet,
    better_than_every,
    compare_pairs,
    holm_corrected,
)

MARGIN = 0.8  # a baseline that reaches a larger share of a method's score is not beaten
PASSES, NOT_COMPARED, TOO_FEW = "✓", "n/a", "†"  # marks

Array = npt.NDArray[np.float64]


class Baseline(NamedTuple):
    """A method against one kind of baseline."""

    method: str
    kind: str  # a control without its number, "random_weights" for all networks of random weights
    own: bool  # whether the baseline is the method's own map under a control condition
    # Share of the method's score that the baseline reaches, or the inverse where less is better; NaN where the better
    # of the two scores is not positive.
    share: float
    low: float  # ends of its 95 % interval
    high: float
    claim: float  # p-value of the hypothesis that more than ``MARGIN`` is reached; 1 without a share
    inputs: int  # number of independent groups of inputs


class _RankRange(NamedTuple):
    """95 % interval of a method's rank: the methods that are significantly better and worse lie outside."""

    low: int
    high: int


@dataclasses.dataclass(frozen=True)
class ColumnTests:
    """Comparisons of one column."""

    column: Column
    tested: Sequence[str]  # methods that took part, the best first
    pairs: Sequence[PairComparison]  # all pairs of methods, first minus second
    baselines: Sequence[Baseline]  # each method against each baseline
    ranks: Mapping[str, _RankRange]  # method -> range of its rank
    networks: int  # number of trained networks
    conditions: Sequence[str] = ()  # control conditions of other methods, which are not among ``baselines``

    @functools.cached_property
    def p_values(self) -> dict[str, float]:
        """Corrected p-value of each method's claim that it passes against every baseline."""
        return better_than_every([one.method for one in self.baselines], [one.claim for one in self.baselines])

    def better(self, test: PairComparison) -> str | None:
        """Return the better one of a pair; None if they do not differ significantly."""
        if not test.p_corrected < LEVEL:
            return None
        return test.first if (test.difference > 0) == self.column.higher_is_better else test.second

    def against(self, method: str) -> list[Baseline]:
        """Return a method's comparisons with baselines."""
        return [one for one in self.baselines if one.method == method]

    def failed(self, method: str) -> list[Baseline]:
        """Return the baselines that reach more than the margin as measured, the one that is hardest to beat first."""
        reached = [one for one in self.against(method) if not one.share < MARGIN]
        return sorted(reached, key=lambda one: -np.nan_to_num(one.share, nan=np.inf))

    def not_compared(self, method: str) -> list[str]:
        """Return the control conditions that other methods of the column were compared under, but not this one."""
        every = {*self.conditions, *(one.kind for one in self.baselines if one.own)}
        return sorted(every - {one.kind for one in self.against(method)})

    def passes(self, method: str) -> bool:
        """Return whether a method beats every baseline by the margin, and was compared with all of them."""
        return self.mark(method) == PASSES

    def mark(self, method: str) -> str:
        """Return ``PASSES``, or ``TOO_FEW`` where every measured share is below the margin and the claim is not shown.

        ``NOT_COMPARED`` where a comparison is missing, and nothing where a baseline reaches more.
        """
        if method not in self.tested or not self.has_power() or not self.against(method) or self.failed(method):
            return ""
        if not self.p_values[method] < LEVEL:
            return TOO_FEW
        return NOT_COMPARED if self.not_compared(method) else PASSES

    def strongest(self, method: str, kind: str = "") -> Baseline | None:
        """Return a method's comparison with a kind of its own maps, or with the best map that uses no network.

        None if there is none, or no share is known.
        """
        found = [one for one in self.against(method) if (one.kind == kind if kind else not one.own)]
        return max((one for one in found if np.isfinite(one.share)), key=lambda one: one.share, default=None)

    def tied_with_best(self) -> list[str]:
        """Return the best method and those not significantly different from it.

        Holm's correction is for all pairs, because the scores that choose the best one also test the others.
        """
        best = self.tested[:1]
        tied = {name for test in self.pairs if best[0] in test[:2] and not self.better(test) for name in test[:2]}
        return [*best, *(name for name in self.tested[1:] if name in tied)]

    def independent_inputs(self) -> int:
        """Return the number of independent groups of inputs."""
        return max((*(test.clusters for test in self.pairs), *(one.inputs for one in self.baselines)), default=0)

    def has_power(self) -> bool:
        """Return whether there are enough inputs for claims."""
        return self.independent_inputs() >= MIN_INPUTS


class BaselineRecord(NamedTuple):
    """How a method compares with the baselines over all metrics."""

    passed: Sequence[str]  # labels of the metrics on which it passes
    compared: Sequence[str]  # and of those on which it was compared with every baseline
    # Metric's label -> share of the score that remains for a wrong class, where that is known.
    kept: Mapping[str, float]


def baseline_record(method: str, tests: Iterable[ColumnTests]) -> BaselineRecord:
    """Return a method's record over the columns with enough inputs."""
    passed, compared, kept = [], [], {}
    for one in tests:
        if method not in one.tested or not one.has_power():
            continue
        label, wrong = one.column.label, one.strongest(method, WRONG_CLASS.name)
        if one.passes(method):
            passed.append(label)
        if one.against(method) and not one.not_compared(method):
            compared.append(label)
        if wrong is not None:
            kept[label] = wrong.share
    return BaselineRecord(passed, compared, kept)


def compare_columns(matrix: Matrix, scores: Mapping[str, Sequence[InputScores]]) -> dict[str, ColumnTests]:
    """Return column key -> comparisons, of each column whose input scores are known.

    ``scores`` is benchmark -> groups of input scores, of one network or of several.
    """
    return {
        column.key: _compare_column(column, matrix, group)
        for column in matrix.columns
        if (group := group_of(column, scores)) is not None
    }


def compare_alone(
    column: Column, group: InputScores, method: str, others: Sequence[str], controls: Sequence[str]
) -> ColumnTests:
    """Compare one method with the others of a column and with the baselines, on the networks that it has scores of.

    The others are a fixed family, so that the claims about the method are corrected for its own tests alone, and a
    further method changes no other's claims.
    """
    networks = np.isfinite(group.by_network(method)).any(axis=0)
    group = dataclasses.replace(group, values={name: group.by_network(name)[:, networks] for name in group.values})
    independent = [name for name in controls if name in group.values and name not in column.excluded]
    every = {name: group.by_network(name) for name in (method, *others, *independent)}
    baselines = _baselines(column, every, [method], independent, group)
    pairs = compare_pairs(
        {name: every[name] for name in (method, *others)}, [(method, other) for other in others], group.clusters
    )
    better = [(one.difference > 0) == column.higher_is_better for one in pairs if one.p_corrected < LEVEL]
    return ColumnTests(
        column, [method], pairs, baselines,
        {method: _RankRange(1 + len(better) - sum(better), 1 + len(others) - sum(better))},
        int(networks.sum()),
        sorted({kind for other in others for kind in _conditions(other, group)}),
    )  # fmt: skip


def _compare_column(column: Column, matrix: Matrix, group: InputScores) -> ColumnTests:
    methods = [name for name in matrix.ranked(column) if name in group.values]
    independent = [name for name in matrix.controls if name in group.values and name not in column.excluded]
    every = {name: group.by_network(name) for name in (*methods, *independent)}
    values = {name: every[name] for name in methods}
    baselines = _baselines(column, every, methods, independent, group)
    networks = next(iter(values.values())).shape[1] if values else 0
    pairs = compare_pairs(values, list(itertools.combinations(methods, 2)), group.clusters)
    return ColumnTests(
        column, methods, pairs, baselines,
        _rank_ranges(methods, pairs, column), networks,
    )  # fmt: skip


def _baselines(
    column: Column, every: Mapping[str, Array], methods: Sequence[str], independent: Sequence[str], group: InputScores
) -> list[Baseline]:
    """Return each method's comparison with each baseline of a column.

    From ``MIN_NETWORKS`` trained networks on, the random networks of a trained one are averaged. Of fewer trained ones,
    the random one that is hardest to beat counts.
    """
    values, pairs = dict(every), list(itertools.product(methods, independent))
    for method in methods:
        for kind, members in _conditions(method, group).items():
            stacked = np.stack([group.by_network(member) for member in members])
            if stacked.shape[2] < MIN_NETWORKS:
                means = [_common_means(values[method], member)[1] for member in stacked]
                hardest = np.nanargmax(np.nan_to_num(means) * (1 if column.higher_is_better else -1))
                stacked = stacked[[hardest]]
            values[f"{method}/{kind}"] = stacked.mean(axis=0)
            pairs.append((method, f"{method}/{kind}"))
    return _shares(values, pairs, group, column)


def _conditions(method: str, group: InputScores) -> dict[str, list[str]]:
    """Return kind of control condition -> names of the method's own maps under it."""
    found: dict[str, list[str]] = {}
    for name in group.values:
        if name.startswith(f"{method}/"):
            found.setdefault(kind_of(name.removeprefix(f"{method}/")), []).append(name)
    return found


def _shares(
    values: Mapping[str, Array], pairs: Sequence[tuple[str, str]], group: InputScores, column: Column
) -> list[Baseline]:
    """Return the comparisons of pairs of a method and a baseline, of (N, networks) values."""
    if not pairs:
        return []
    sign = 1 if column.higher_is_better else -1
    # The mean of share times the better score minus the other one is zero: its interval is that of the share.
    ordered = list(pairs) if sign > 0 else [(other, method) for method, other in pairs]
    means = [_common_means(values[good], values[poor]) for good, poor in ordered]
    shares = [max(poor / good, 0.0) if good > 0 else np.nan for good, poor in means]
    around = compare_pairs(values, ordered, group.clusters, [(np.nan_to_num(share), 1.0) for share in shares])
    own, other = (np.stack([values[pair[side]] for pair in pairs], axis=-1) for side in (0, 1))
    lowest, highest = column.bounds or (0.0, np.inf)
    of_own, of_other, worst = (MARGIN, -1, MARGIN * lowest) if sign > 0 else (-1, MARGIN, -highest)
    claims = bet(of_own * own, of_other * other, worst, group.clusters)
    found = []
    for (method, other_name), share, (good, _), test, claim in zip(pairs, shares, means, around, claims, strict=True):
        low, high = (share - end / good if good > 0 else np.nan for end in (test.high, test.low))
        name = other_name.removeprefix(f"{method}/")
        claim = float(claim) if share < MARGIN else 1.0
        found.append(
            Baseline(method, name, name != other_name, share, max(min(low, share), 0.0), max(high, share), claim,
                     test.clusters)
        )  # fmt: skip
    return found


def _common_means(first: Array, second: Array) -> tuple[float, float]:
    both = np.isfinite(first) & np.isfinite(second)
    return (float(first[both].mean()), float(second[both].mean())) if both.any() else (np.nan, np.nan)


def _rank_ranges(methods: Sequence[str], pairs: Sequence[PairComparison], column: Column) -> dict[str, _RankRange]:
    """Return method -> range of its rank: Holm-corrected tests against all others leave these places.

    It contains the true rank with 95 % chance, whatever the number of networks, unlike the ranks of networks drawn
    again, which vary too little.
    """
    found = {}
    for method in methods:
        tests = holm_corrected([test for test in pairs if method in test[:2]])
        better = [(test.difference > 0) == ((test.first == method) == column.higher_is_better)
                  for test in tests if test.p_corrected < LEVEL]  # fmt: skip
        found[method] = _RankRange(1 + len(better) - sum(better), len(methods) - sum(better))
    return found


def kind_of(control: str) -> str:
    """Return a control's name without its number, "random_weights" for "random_weights#2"."""
    return control.partition(MEMBER)[0]
