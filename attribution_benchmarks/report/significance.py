"""What the scores of all inputs and networks say about each column: baselines, ranks, and pairs of methods.

The effect comes first. A method passes against a baseline where the baseline reaches at most ``MARGIN`` of its score,
and a test over inputs and networks supports that. Baselines are maps that use no network, and the method's own maps for
a wrong class and on networks with random weights.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.core.batch import MEMBER
from attribution_benchmarks.core.controls import WRONG_CLASS
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.report.matrix import Column, Matrix, group_of
from attribution_benchmarks.stats import statistics
from attribution_benchmarks.stats.statistics import (
    LEVEL,
    MIN_INPUTS,
    PairComparison,
    better_than_every,
    compare_pairs,
    holm_corrected,
)

INPUTS_FOR_MARK = 60  # of one or two networks: fewer seldom contain one of the inputs on which a method fails
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
    low: float  # ends of its interval: simultaneous for the column's methods, 95 % where networks are too few for marks
    high: float
    test: PairComparison  # comparison of ``MARGIN`` times the better score with the other one

    @property
    def claim(self) -> float:
        """The p-value of the claim that at most ``MARGIN`` is reached; 1 where the interval has more."""
        return self.test.p_value if self.high < MARGIN and self.test.difference > 0 else 1.0


class _RankRange(NamedTuple):
    """95 % interval of a method's rank: the methods that are significantly better and worse lie outside."""

    low: int
    high: int


def mark_p_value(networks: int, methods: int) -> float:
    """Return the smallest corrected p-value of a mark, where the baseline reaches nothing on every network.

    A mark has to hold with one network more, on which the baseline is as good as the method. Student's t is then
    ``MARGIN`` · K - (1 - ``MARGIN``), with K degrees of freedom.
    """
    from scipy import special

    return float(2 * special.stdtr(networks, 1 - MARGIN - MARGIN * networks) * max(methods, 1))


def too_few_networks(networks: int, methods: int) -> bool:
    """Return whether several networks are too few for a mark, however good a method is.

    One or two networks are not a sample: claims are about them.
    """
    return networks >= statistics.MIN_NETWORKS and mark_p_value(networks, methods) >= LEVEL


def networks_for_mark(methods: int) -> int:
    """Return the least number of networks with which a mark is possible, see ``mark_p_value``."""
    counts = itertools.count(statistics.MIN_NETWORKS)
    return next(count for count in counts if mark_p_value(count, methods) < LEVEL)


@dataclasses.dataclass(frozen=True)
class ColumnTests:
    """Comparisons of one column."""

    column: Column
    tested: Sequence[str]  # methods that took part, the best first
    pairs: Sequence[PairComparison]  # all pairs of methods, first minus second
    baselines: Sequence[Baseline]  # each method against each baseline
    p_values: Mapping[str, float]  # method -> corrected p-value of the claim that it passes against every baseline
    ranks: Mapping[str, _RankRange]  # method -> range of its rank
    networks: int  # number of trained networks
    conditions: Sequence[str] = ()  # control conditions of other methods, which are not among ``baselines``

    def better(self, test: PairComparison) -> str | None:
        """Return the better one of a pair; None if they do not differ significantly."""
        if not test.p_corrected < LEVEL:
            return None
        return test.first if (test.difference > 0) == self.column.higher_is_better else test.second

    def against(self, method: str) -> list[Baseline]:
        """Return a method's comparisons with baselines."""
        return [one for one in self.baselines if one.method == method]

    def failed(self, method: str) -> list[Baseline]:
        """Return the baselines that a method does not beat by the margin, the one that is hardest to beat first.

        Of too few networks or inputs those that reach more than the margin as measured.
        """
        if self.shortage(method):
            reached = [one for one in self.against(method) if not one.share < MARGIN]
            return sorted(reached, key=lambda one: -np.nan_to_num(one.share, nan=np.inf))
        if self.p_values.get(method, 1.0) < LEVEL:
            return []
        ordered = sorted(self.against(method), key=lambda one: -one.claim)
        return [one for one in ordered if not one.claim < LEVEL] or ordered[:1]

    def not_compared(self, method: str) -> list[str]:
        """Return the control conditions that other methods of the column were compared under, but not this one."""
        every = {*self.conditions, *(one.kind for one in self.baselines if one.own)}
        return sorted(every - {one.kind for one in self.against(method)})

    def passes(self, method: str) -> bool:
        """Return whether a method beats every baseline by the margin, and was compared with all of them."""
        return self.mark(method) == PASSES

    def mark(self, method: str) -> str:
        """Return ``PASSES``, nothing, or why a mark is withheld.

        ``NOT_COMPARED`` for want of a comparison, and ``TOO_FEW`` networks or inputs where every measured share is
        below the margin.
        """
        if method not in self.tested or not self.has_power() or not self.against(method):
            return ""
        if self.failed(method):
            return ""
        if self.shortage(method):
            return TOO_FEW
        return NOT_COMPARED if self.not_compared(method) else PASSES

    def shortage(self, method: str = "") -> str:
        """Return what a method, or any, has too few of for a mark: "5 networks", "24 independent inputs", or ""."""
        if self.networks >= statistics.MIN_NETWORKS:
            return f"{self.networks} networks" if too_few_networks(self.networks, len(self.tested)) else ""
        counts = [one.test.clusters for one in self.against(method)]
        inputs = min(counts, default=self.independent_inputs())
        return f"{inputs} independent inputs" if inputs < INPUTS_FOR_MARK else ""

    def needed(self) -> tuple[int, str]:
        """Return from how many on a method could have a mark, and of what: of networks, or of independent inputs."""
        if self.networks < statistics.MIN_NETWORKS:
            return INPUTS_FOR_MARK, "independent inputs"
        return networks_for_mark(len(self.tested)), "networks"

    def makes_marks(self) -> bool:
        """Return whether inputs and networks are enough for a mark."""
        return self.has_power() and not self.shortage()

    def strongest(self, method: str, kind: str = "") -> Baseline | None:
        """Return a method's comparison with a kind of its own maps, or with the best map that uses no network.

        None if there is none, or no share is known.
        """
        found = [one for one in self.against(method) if (one.kind == kind if kind else not one.own)]
        return max((one for one in found if np.isfinite(one.share)), key=lambda one: one.share, default=None)

    def tied_with_best(self) -> list[str]:
        """Return the best method and those not significantly different from it, Holm-corrected for these tests."""
        best = self.tested[:1]
        tests = holm_corrected([test for test in self.pairs if best[0] in test[:2]])
        tied = {name for test in tests if not self.better(test) for name in test[:2]}
        return [*best, *(name for name in self.tested[1:] if name in tied)]

    def independent_inputs(self) -> int:
        """Return the number of independent groups of inputs."""
        return max((test.clusters for test in (*self.pairs, *(one.test for one in self.baselines))), default=0)

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
    """Return a method's record over the columns with enough inputs; with enough networks, where it may pass."""
    passed, compared, kept = [], [], {}
    for one in tests:
        if method not in one.tested or not one.has_power():
            continue
        label, wrong = one.column.label, one.strongest(method, WRONG_CLASS.name)
        if one.passes(method):
            passed.append(label)
        if not one.shortage(method) and one.against(method) and not one.not_compared(method):
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
        better_than_every([one.method for one in baselines], [one.claim for one in baselines]),
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
        column,
        methods,
        pairs,
        baselines,
        better_than_every([one.method for one in baselines], [one.claim for one in baselines]),
        _rank_ranges(methods, pairs, column),
        networks,
    )


def _baselines(
    column: Column, every: Mapping[str, Array], methods: Sequence[str], independent: Sequence[str], group: InputScores
) -> list[Baseline]:
    """Return each method's comparison with each baseline of a column."""
    values, pairs, found = dict(every), list(itertools.product(methods, independent)), []
    for method in methods:
        for kind, members in _conditions(method, group).items():
            name, stacked = f"{method}/{kind}", np.stack([group.by_network(member) for member in members], axis=-1)
            if len(members) < statistics.MIN_NETWORKS or stacked.shape[1] >= statistics.MIN_NETWORKS:
                values[name] = stacked.mean(axis=-1)
                pairs.append((method, name))
            else:  # of few trained networks those of random weights are the ones that vary
                repeated = np.repeat(values[method], len(members), axis=1)
                flat = {method: repeated, name: stacked.reshape(len(stacked), -1)}
                found += _shares(flat, [(method, name)], group, column, len(methods), trained=False)
    return _shares(values, pairs, group, column, len(methods)) + found


def _conditions(method: str, group: InputScores) -> dict[str, list[str]]:
    """Return kind of control condition -> names of the method's own maps under it."""
    found: dict[str, list[str]] = {}
    for name in group.values:
        if name.startswith(f"{method}/"):
            found.setdefault(kind_of(name.removeprefix(f"{method}/")), []).append(name)
    return found


def _shares(
    values: Mapping[str, Array],
    pairs: Sequence[tuple[str, str]],
    group: InputScores,
    column: Column,
    methods: int,
    trained: bool = True,
) -> list[Baseline]:
    """Return the comparisons of pairs of a method and a baseline, of (N, networks) values.

    The intervals are simultaneous for the column's ``methods``, so that a mark and the intervals agree. ``trained`` is
    whether the networks are, else of random weights.
    """
    # The mean of share times the better score minus the other one is zero: its interval is that of the share.
    ordered = pairs if column.higher_is_better else [(second, first) for first, second in pairs]
    means = [_common_means(values[good], values[poor]) for good, poor in ordered]
    shares = [max(poor / good, 0.0) if good > 0 else np.nan for good, poor in means]
    marks = not (trained and any(too_few_networks(each.shape[1], methods) for each in values.values()))
    tested, places = _with_a_failure(values, ordered) if trained and marks else (values, ordered)
    level = LEVEL / max(methods, 1)
    confidence = 1 - level if marks else statistics.CONFIDENCE
    margins = compare_pairs(tested, places, group.clusters, [(MARGIN, 1.0)] * len(pairs))
    scales = [(np.nan_to_num(share), 1.0) for share in shares]
    around = compare_pairs(tested, places, group.clusters, scales, confidence)
    found = []
    for (method, other), names, (good, _), share, margin, test in zip(
        pairs, ordered, means, shares, margins, around, strict=True
    ):
        not_better = marks and not margin.p_value < level
        low, high = _ends_of_share(share, good, test, MARGIN if not_better else -np.inf)
        own = other.startswith(f"{method}/")
        margin = margin._replace(first=names[0], second=names[1])
        found.append(Baseline(method, other.removeprefix(f"{method}/"), own, share, low, high, margin))
    return found


def _ends_of_share(share: float, good: float, test: statistics.PairComparison, least: float) -> tuple[float, float]:
    """Return the ends of a share's interval, which contains the share and reaches up to ``least``.

    The test of the margin is more exact than the interval's end: ``least`` is the margin where it is not significant.
    """
    low, high = (share - end / good if good > 0 else np.nan for end in (test.high, test.low))
    return max(min(low, share), 0.0), max(high, least, share)


def _with_a_failure(
    values: Mapping[str, Array], pairs: Sequence[tuple[str, str]]
) -> tuple[Mapping[str, Array], Sequence[tuple[str, str]]]:
    """Return values and names of pairs with a network more, on which the second is as good as the first.

    A few networks seldom contain one of those on which a method fails, so their mean is too high and their variance too
    low. Fewer than ``MIN_NETWORKS`` networks are fixed and stay as they are.
    """
    found, names = {}, []
    for number, pair in enumerate(pairs):
        first, second = (values[name] for name in pair)
        if first.shape[1] >= statistics.MIN_NETWORKS:
            known = np.isfinite(first)
            count = known.sum(axis=1, keepdims=True)
            mean = np.where(known, first, 0.0).sum(axis=1, keepdims=True) / np.where(count, count, np.nan)
            first, second = np.hstack([first, mean]), np.hstack([second, mean])
        names.append((f"{number} first", f"{number} second"))
        found |= dict(zip(names[-1], (first, second), strict=True))
    return found, names


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
