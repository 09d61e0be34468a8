"""Who beats whom: every two methods of every column, and every method against every control that is a rival.

The scores of single inputs decide, paired. The pairs of methods of a column are one family of claims; "above every
control" is one claim a method, the methods of a column another family (``leaderboard.comparisons``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from attribution_benchmarks.core.batch import MEMBER
from attribution_benchmarks.core.controls import WRONG_CLASS
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report.matrix import Column, Matrix
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

KEPT = 0.8  # a method that keeps a larger share of its score for another class hardly depends on the class


def own_control(test: PairComparison) -> str:
    """Return what a method's own map was made under, "wrong_class", in a test against it; empty for other controls."""
    under = f"{test.first}/"
    return test.second.removeprefix(under) if test.second.startswith(under) else ""


def kind_of(control: str) -> str:
    """Return a control's name without its number among its kind, "random_weights" of "random_weights#2"."""
    return control.partition(MEMBER)[0]


def in_words(kinds: Mapping[str, tuple[int, int]], named: Callable[[str], str]) -> list[str]:
    """Return kinds of controls as they are named, with how many of them where a kind has several."""
    return [f"“{named(kind)}”" + (f" ({count} of {total})" if total > 1 else "")
            for kind, (count, total) in kinds.items()]  # fmt: skip


class Verdicts(NamedTuple):
    """What the paired tests of one column say.

    ``tested`` are the methods that took part; ``methods`` holds all pairs of them, ``controls`` all pairs of a method
    and a control that is not set aside. A difference is first minus second in the metric's own
    direction; the corrected p-value of a pair with a control is that of the claim that the method is better.
    """

    column: Column
    tested: Sequence[str]
    methods: Sequence[PairComparison]
    controls: Sequence[PairComparison]

    def better(self, test: PairComparison) -> str | None:
        """Return the better one of a pair, or None where they are not told apart."""
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

    def not_above(self, method: str) -> list[str]:
        """Return the controls that a method is not significantly better than."""
        return [test.second for test in self.controls if test.first == method and self.better(test) != method]

    def kinds_not_above(self, method: str) -> dict[str, tuple[int, int]]:
        """Return kind of control -> how many of it a method is not significantly better than, and how many there are.

        The names are those of the controls, also where they are asked of the method itself.
        """
        missed = set(self.not_above(method))
        tests = [(kind_of(own_control(test) or test.second), test) for test in self.controls if test.first == method]
        counts = {kind: sum(test.second in missed for one, test in tests if one == kind) for kind, _ in tests}
        return {kind: (count, sum(one == kind for one, _ in tests)) for kind, count in counts.items() if count}

    def kinds_untested(self, method: str) -> dict[str, tuple[int, int]]:
        """Return kind of control -> how many of it a method was not tested against, and how many others were."""
        asked = {own_control(test) for test in self.controls} - {""}
        missing = list(map(kind_of, self.untested(method)))
        return {
            kind: (missing.count(kind), sum(kind_of(one) == kind for one in asked)) for kind in sorted(set(missing))
        }

    def own_maps(self, method: str, value: float) -> dict[str, list[float]]:
        """Return kind of control -> what the method's own maps under it have, given what the method itself has."""
        found: dict[str, list[float]] = {}
        for test in self.controls:
            if test.first == method and own_control(test):
                found.setdefault(kind_of(own_control(test)), []).append(value - test.difference)
        return found

    def kept_for_another_class(self, method: str, matrix: Matrix) -> float | None:
        """Return the share of a method's score that remains when another class is explained, None where it is unknown.

        It is the other class's score over the method's own, or the inverse where less is better: 1 for a map that does
        not depend on the class. A method whose own score is not positive has no share.
        """
        own = matrix.cells[method, self.column.key]["value"]
        others = self.own_maps(method, own).get(WRONG_CLASS.name)
        if not others:
            return None
        part, whole = (others[0], own) if self.column.higher_is_better else (own, others[0])
        return max(part / whole, 0.0) if whole > 0 else None

    def beats_every_baseline(self, method: str) -> bool:
        """Tell whether a method is significantly above every control, and was compared with all that others were."""
        return method in self.tested and not self.not_above(method) and not self.untested(method)

    def untested(self, method: str) -> list[str]:
        """Return the controls that other methods of the column are held against under their own name, and it is not.

        "Above every control" says less of such a method.
        """
        asked = {(test.first, own_control(test)) for test in self.controls if own_control(test)}
        return sorted({control for _, control in asked if (method, control) not in asked})

    def level_with_best(self, matrix: Matrix) -> list[str]:
        """Return the best method of the column, and those that are not told apart from it, by rank."""
        ranked = sorted(self.tested, key=lambda name: matrix.ranks[name, self.column.key])
        best = ranked[:1]
        tied = {name for test in self.methods if best[0] in test[:2] and not self.better(test) for name in test[:2]}
        return best + [name for name in ranked[1:] if name in tied]

    def tells_best(self, matrix: Matrix) -> bool:
        """Tell whether at least half of the other methods are told apart from the best one.

        Where they are not, "level with the best" is no praise: it says that the inputs are few.
        """
        others = len(self.tested) - 1
        return others > 0 and 2 * (len(self.level_with_best(matrix)) - 1) <= others

    def names_best(self, matrix: Matrix) -> bool:
        """Return whether the best method differs from most others, and no control without a network scores higher."""
        return self.tells_best(matrix) and matrix.baseline_on_top(self.column) is None

    def tells_controls(self) -> bool:
        """Tell whether any method could be found above every control, given how many inputs there are."""
        clusters = [test.clusters for test in self.controls if test.n]
        return bool(clusters) and smallest_p_value(max(clusters)) * len(self.tested) < LEVEL

    def marks(self, method: str, matrix: Matrix) -> str:
        """Return a method's marks: "*" among the best where ``names_best``, "†" not above a control.

        "°" marks one that is above every control it was tested against, and was tested against fewer than others of the
        column. Where the inputs are too few for a mark to mean anything, there is none.
        """
        found = "*" if self.names_best(matrix) and method in self.level_with_best(matrix) else ""
        if not self.tells_controls():
            return found
        return found + ("†" if self.not_above(method) else "°" if self.untested(method) else "")

    def detectable_between_methods(self) -> float:
        """Return the smallest difference of two methods that is found four times in five; infinite if none is."""
        return minimum_detectable_difference(self.methods)

    def detectable_above_controls(self) -> float:
        """Return the smallest lead over a control that is found four times in five; infinite if none is."""
        return minimum_detectable_difference(self.controls, claims=max(len(self.tested), 1))

    def independent_inputs(self) -> int:
        """Return how many independent groups of inputs the tests rest on."""
        return max((test.clusters for test in (*self.methods, *self.controls)), default=0)


class Record(NamedTuple):
    """On how many ``metrics`` with enough inputs a method ``beats`` every baseline.

    ``kept`` is the label of a metric -> the share of the score that remains for another class, where that is more than
    ``KEPT`` and the score better than that of every control without a network: a score no better than theirs has
    nothing to lose. A method with such a metric does not pass. ``known`` says whether any such share is known, ``few``
    whether other metrics have too few inputs to be counted.
    """

    beats: int
    metrics: int
    kept: Mapping[str, float]
    known: bool
    few: bool


def record(method: str, judged: Iterable[Verdicts], matrix: Matrix) -> Record:
    """Return a method's record over the columns whose inputs are enough to find a method above every control."""
    judged = list(judged)
    able = [verdict for verdict in judged if verdict.tells_controls()]
    beaten = sum(verdict.beats_every_baseline(method) for verdict in able)
    shares = {
        verdict.column.label: verdict.kept_for_another_class(method, matrix)
        for verdict in judged
        if matrix.above_baselines(method, verdict.column)
    }
    kept = {label: share for label, share in shares.items() if share is not None and share > KEPT}
    known = any(share is not None for share in shares.values())
    return Record(beaten, len(able), kept, known, len(able) < len(judged))


def record_in_words(records: Sequence[Record]) -> str:
    """Return "beats every baseline on 8 of 10 metrics, but keeps 98 % of its score for a wrong class on 4 metrics".

    Several records are those of methods that beat every baseline equally often; the verb is then plural.
    """
    several, one = len(records) > 1, records[0]
    if not one.beats:
        return f"{'do' if several else 'does'} not beat every baseline on {count_in_words(one, 'any of ')}"
    found = f"beat{'' if several else 's'} every baseline on {count_in_words(one)}"
    kept = [share for each in records for share in each.kept.values()]
    if kept:
        found += f", but {'keep' if several else 'keeps'} {percentages(kept)} of {'their' if several else 'its'} score"
        found += " for a wrong class" + ("" if several else f" on {len(kept)} metric{'' if len(kept) == 1 else 's'}")
    return found


def count_in_words(one: Record, any_of: str = "") -> str:
    """Return "8 of 10 metrics", "all 10 metrics" or "the one metric"; after ``any_of``, the number of metrics."""
    metrics = f"metric{'' if one.metrics == 1 else 's'}{' with enough inputs' if one.few else ''}"
    if one.metrics == 1:
        return f"the one {metrics}"
    if any_of:
        return f"{any_of}{one.metrics} {metrics}"
    return f"all {one.metrics} {metrics}" if one.beats == one.metrics else f"{one.beats} of {one.metrics} {metrics}"


def percentages(shares: Iterable[float]) -> str:
    """Return "97 to 100 %", the least and the largest of some shares."""
    ordered = sorted(shares)
    ends = [f"{100 * share:.0f}" for share in (ordered[0], ordered[-1])]
    return f"{' to '.join(dict.fromkeys(ends))} %"


def judge(
    matrix: Matrix, scores: Mapping[str, Sequence[InputScores]], seed: int = 0, cache: CachedTests | None = None
) -> list[Verdicts]:
    """Compare the methods of every column whose inputs' scores are known.

    Parameters
    ----------
    matrix
        From ``matrix.build``.
    scores
        Benchmark -> groups of ``input_scores``. Besides the matrix's controls, which know no method, a method is
        tested against those asked of itself, "method/control".
    seed
        Of the tests' draws.
    cache
        As of ``comparisons.compare_pairs``.
    """
    found = []
    for column in matrix.columns:
        groups = [group for group in scores.get(column.benchmark, ()) if column.takes(group.where)]
        if len(groups) != 1:
            continue
        (group,) = groups
        methods = [name for name in matrix.methods if name in group.values and (name, column.key) in matrix.cells]
        controls = [name for name in matrix.controls if name in group.values and name not in column.excluded]
        pairs = list(itertools.combinations(methods, 2))
        against = [
            (method, control)
            for method in methods
            for control in (*controls, *(name for name in group.values if name.startswith(f"{method}/")))
        ]
        # Tested at once, since they share their draws; each family is corrected by itself.
        tests = compare_pairs(group.values, [*pairs, *against], group.clusters, seed=seed, cache=cache)
        compared, rivals = holm_corrected(tests[: len(pairs)]), tests[len(pairs) :]
        found.append(Verdicts(column, methods, compared, better_than_every(rivals, column.higher_is_better)))
    return found
