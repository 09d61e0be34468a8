"""Do several rankings of the same methods agree? Kendall's W with its permutation test, and rank correlations.

Kendall and Babington Smith, "The problem of m rankings" (1939). Here the judges are the columns of a leaderboard, one
a metric, and what they rank are the methods.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats.statistics import CONFIDENCE, average_ranks, spearman

PERMUTATIONS = 10_000
MIN_FAMILIES = 5  # for an interval: four values or fewer do not tell how far they spread


class Concordance(NamedTuple):
    """Kendall's ``w`` of ``judges`` over ``methods``, and the share ``p_value`` of random rankings that agree as well.

    ``w`` is 1 where all judges give the same order. ``low`` and ``high`` end its 95 % interval, NaN for fewer than five
    ``families``.
    """

    w: float
    p_value: float
    judges: int
    methods: int
    low: float = float("nan")
    high: float = float("nan")
    families: int = 0

    @property
    def chance(self) -> float:
        """The expectation of ``w`` where the judges know nothing of each other, 1 / judges."""
        return 1 / self.judges if self.judges else float("nan")


def kendalls_w(
    scores: npt.ArrayLike, permutations: int = PERMUTATIONS, seed: int = 0, families: Sequence[Hashable] | None = None
) -> Concordance:
    """Kendall's coefficient of concordance, corrected for ties, with a permutation test and an interval.

    With R_i the sum of method i's ranks and t the sizes of the groups of ties::

        W = (12 sum R_i² - 3 m² n (n + 1)²) / (m² n (n² - 1) - m sum (t³ - t))

    The p-value is the share of draws, each judge's ranks shuffled by themselves, whose W is at least as large, the
    observed one counted as one more draw. It asks whether the judges agree more than chance, not whether they agree
    well; judges who look at the same inputs are not independent, which lowers it.

    Methods of one family, variants of one idea, are ranked side by side by every judge, which looks like agreement. So
    it is families that are shuffled, each with the mean of its members' ranks. The interval is a jackknife over
    families too: how far W would move had the same judges ranked other families.

    Parameters
    ----------
    scores
        (n, m) finite numbers: n methods, m judges, each judge's scale its own and more being better.
    permutations
        Number of draws.
    seed
        Seed of the draws.
    families
        (n,) what family a method is of; None where each stands for itself.

    Returns
    -------
    Concordance
        ``w`` and ``p_value`` are NaN for fewer than two methods or judges, or where every judge ties all methods;
        ``p_value`` is NaN for fewer than two families too.

    Raises
    ------
    ValueError
        If a score is not finite, ``scores`` has not two axes, or ``families`` another length.
    """
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 2:
        raise ValueError(f"scores have shape {scores.shape}; (methods, judges) is needed")
    if not np.isfinite(scores).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(scores))} of the scores are not finite")
    n, m = scores.shape
    if families is not None and len(families) != n:
        raise ValueError(f"{len(families)} families for {n} methods")
    names = list(dict.fromkeys(families if families is not None else range(n)))
    member = np.array([names.index(name) for name in (families if families is not None else range(n))], int)
    nan = float("nan")
    w = _w(scores)
    if not np.isfinite(w):
        return Concordance(nan, nan, m, n, families=len(names))
    ranks = _ranks(scores)
    means = np.stack([ranks[member == family].mean(axis=0) for family in range(len(names))])
    p_value = _share_of_random_rankings(_ranks(means), permutations, seed)
    return Concordance(w, p_value, m, n, *_interval(w, scores, member), len(names))


def _w(scores: np.ndarray) -> float:
    """Return W of (n, m) scores, NaN where it is not defined."""
    n, m = scores.shape
    if n < 2 or m < 2:
        return float("nan")
    ties = sum(float((sizes**3 - sizes).sum()) for sizes in map(_tie_sizes, scores.T))
    scale = m * m * n * (n * n - 1.0) - m * ties
    if scale <= 0:
        return float("nan")
    return float((12 * (_ranks(scores).sum(axis=1) ** 2).sum() - 3 * m * m * n * (n + 1.0) ** 2) / scale)


def _ranks(scores: np.ndarray) -> np.ndarray:
    return np.stack([average_ranks(column) for column in scores.T], axis=1)


def _share_of_random_rankings(ranks: np.ndarray, permutations: int, seed: int) -> float:
    """Return the p-value of (n, m) ranks; the ties stay what they are under shuffling, so sums of squares decide."""
    if len(ranks) < 2:
        return float("nan")
    observed = float((ranks.sum(axis=1) ** 2).sum())
    generator = np.random.default_rng(seed)
    shuffled = generator.permuted(np.broadcast_to(ranks, (permutations, *ranks.shape)), axis=1)
    drawn = (shuffled.sum(axis=2) ** 2).sum(axis=1)
    as_large = np.count_nonzero(drawn >= observed - 1e-9 * observed)
    return float((as_large + 1) / (permutations + 1))


def _interval(w: float, scores: np.ndarray, member: np.ndarray) -> tuple[float, float]:
    """Return the jackknife's interval of W over families, between 0 and 1."""
    from scipy import special

    count = member.max() + 1
    if count < MIN_FAMILIES:
        return float("nan"), float("nan")

    left_out = np.array([_w(scores[member != family]) for family in range(count)])
    if not np.isfinite(left_out).all():
        return float("nan"), float("nan")
    error = np.sqrt((count - 1) ** 2 / count * left_out.var(ddof=1))
    half = special.stdtrit(count - 1, (1 + CONFIDENCE) / 2) * error
    return max(float(w - half), 0.0), min(float(w + half), 1.0)


def rank_correlations(scores: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
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
