"""Do several rankings of the same methods agree? Kendall's W with its permutation test, and rank correlations.

Kendall and Babington Smith, "The problem of m rankings" (1939). Here the judges are the columns of a leaderboard, one
a metric, and what they rank are the methods.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attribution_benchmarks.leaderboard.statistics import average_ranks, spearman

PERMUTATIONS = 10_000


class Concordance(NamedTuple):
    """Kendall's ``w`` of ``judges`` over ``methods``, and the share ``p_value`` of random rankings that agree as well.

    ``w`` is 1 where all judges give the same order, and about 1 / judges where they know nothing of each other.
    """

    w: float
    p_value: float
    judges: int
    methods: int


def kendalls_w(scores, permutations: int = PERMUTATIONS, seed: int = 0) -> Concordance:
    """Kendall's coefficient of concordance, corrected for ties, with a permutation test.

    With R_i the sum of method i's ranks and t the sizes of the groups of ties::

        W = (12 sum R_i² - 3 m² n (n + 1)²) / (m² n (n² - 1) - m sum (t³ - t))

    The p-value is the share of draws, each judge's ranks shuffled by themselves, whose W is at least as large, the
    observed one counted as one more draw. It asks whether the judges agree more than chance, not whether they agree
    well; judges who look at the same inputs are not independent, which lowers it.

    Parameters
    ----------
    scores
        (n, m) finite numbers: n methods, m judges, each judge's scale its own and more being better.
    permutations
        Number of draws.
    seed
        Seed of the draws.

    Returns
    -------
    Concordance
        ``w`` and ``p_value`` are NaN for fewer than two methods or judges, or where every judge ties all methods.

    Raises
    ------
    ValueError
        If a score is not finite, or ``scores`` has not two axes.
    """
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 2:
        raise ValueError(f"scores have shape {scores.shape}; (methods, judges) is needed")
    if not np.isfinite(scores).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(scores))} of the scores are not finite")
    n, m = scores.shape
    if n < 2 or m < 2:
        return Concordance(float("nan"), float("nan"), m, n)
    ranks = np.stack([average_ranks(column) for column in scores.T], axis=1)
    ties = sum(float((sizes**3 - sizes).sum()) for sizes in map(_tie_sizes, scores.T))
    scale = m * m * n * (n * n - 1.0) - m * ties
    if scale <= 0:
        return Concordance(float("nan"), float("nan"), m, n)
    observed = float((ranks.sum(axis=1) ** 2).sum())
    generator = np.random.default_rng(seed)
    # The ties stay what they are under shuffling, so W grows with the sum of squares alone.
    shuffled = generator.permuted(np.broadcast_to(ranks, (permutations, n, m)), axis=1)
    drawn = (shuffled.sum(axis=2) ** 2).sum(axis=1)
    as_large = np.count_nonzero(drawn >= observed - 1e-9 * observed)
    w = (12 * observed - 3 * m * m * n * (n + 1.0) ** 2) / scale
    return Concordance(float(w), float((as_large + 1) / (permutations + 1)), m, n)


def rank_correlations(scores) -> tuple[np.ndarray, np.ndarray]:
    """Spearman's correlation of every two judges over the methods that both have ranked.

    Parameters
    ----------
    scores
        (n, m) numbers; NaN where a judge has not ranked a method.

    Returns
    -------
    correlations, counts
        (m, m) float64, NaN where fewer than three methods are shared or one side is constant; (m, m) int, how many
        methods are shared.
    """
    scores = np.asarray(scores, np.float64)
    known = np.isfinite(scores)
    count = scores.shape[1]
    correlations, counts = np.full((count, count), np.nan), np.zeros((count, count), int)
    for i in range(count):
        for j in range(count):
            both = known[:, i] & known[:, j]
            counts[i, j] = both.sum()
            if counts[i, j] >= 3:
                correlations[i, j] = spearman(scores[both, i], scores[both, j])
    return correlations, counts


def _tie_sizes(column) -> np.ndarray:
    """Return the sizes of the groups of equal values."""
    return np.unique(column, return_counts=True)[1].astype(np.float64)
