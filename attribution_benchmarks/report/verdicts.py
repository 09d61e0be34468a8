"""Who beats whom: every two methods of every column, and every method against every control.

The scores of single inputs decide, paired; p-values are corrected after Holm within a column, the pairs of methods and
the pairs of method and control each being one family.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from attribution_benchmarks.leaderboard.comparisons import LEVEL, PairComparison, compare_pairs
from attribution_benchmarks.leaderboard.input_scores import InputScores
from attribution_benchmarks.report.matrix import Column, Matrix

CEILINGS = ("template_position",)  # controls that know the truth: a bound, nothing a method should beat


class Verdicts(NamedTuple):
    """What the paired tests of one column say.

    ``tested`` are the methods that took part; ``methods`` holds all pairs of them, ``controls`` all pairs of a method
    and a control. A difference is first minus second in the metric's own direction.
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
        """Return the controls that a method is not significantly better than; a bound is no such control."""
        return [
            test.second
            for test in self.controls
            if test.first == method and test.second not in CEILINGS and self.better(test) != method
        ]

    def level_with_best(self, matrix: Matrix) -> list[str]:
        """Return the best method of the column, and those that are not told apart from it, by rank."""
        ranked = sorted(self.tested, key=lambda name: matrix.ranks[name, self.column.key])
        best = ranked[:1]
        tied = {name for test in self.methods if best[0] in test[:2] and not self.better(test) for name in test[:2]}
        return best + [name for name in ranked[1:] if name in tied]


def judge(matrix: Matrix, scores: Mapping[str, Sequence[InputScores]], seed: int = 0) -> list[Verdicts]:
    """Compare the methods of every column whose inputs' scores are known.

    Parameters
    ----------
    matrix
        From ``matrix.build``.
    scores
        Benchmark -> groups of ``input_scores``. Besides the matrix's controls, which know no method, a method is
        tested against those asked of itself, "method/control".
    seed
        Of the bootstrap.
    """
    found = []
    for column in matrix.columns:
        groups = [group for group in scores.get(column.benchmark, ()) if column.takes(group.where)]
        if len(groups) != 1:
            continue
        (group,) = groups
        methods = [name for name in matrix.methods if name in group.values and (name, column.key) in matrix.cells]
        controls = [name for name in matrix.controls if name in group.values]
        pairs = list(itertools.combinations(methods, 2))
        against = [
            (method, control)
            for method in methods
            for control in (*controls, *(name for name in group.values if name.startswith(f"{method}/")))
        ]
        found.append(
            Verdicts(
                column,
                methods,
                compare_pairs(group.values, pairs, group.clusters, seed=seed),
                compare_pairs(group.values, against, group.clusters, seed=seed),
            )
        )
    return found
