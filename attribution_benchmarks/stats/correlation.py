"""Rank correlations with intervals, and the agreement of several rankings of the same methods."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats import resampling
from attribution_benchmarks.stats.resampling import Array
from attribution_benchmarks.stats.statistics import CONFIDENCE, Clusters, Estimate, finite_column

_PERMUTATIONS = 10_000
_MIN_FAMILIES = 5  # fewer do not show a spread
_MIN_CLUSTERS = 10  # of a bootstrap
_RESAMPLES = 1000
_NUMBERS_AT_ONCE = 500_000  # bounds the memory


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> Any:
    """Return Spearman's rank correlation along the last axis, with average ranks for ties.

    Parameters
    ----------
    first, second
        (..., N) finite numbers of shapes that broadcast.

    Returns
    -------
    float or np.ndarray
        (...) float64 in [-1, 1]; NaN for fewer than two pairs, or where one side is constant.

    Raises
    ------
    ValueError
        If a number is not finite or the lengths differ.
    """
    from scipy.stats import rankdata

    sides = [np.asarray(side, np.float64) for side in (first, second)]
    if sides[0].shape[-1] != sides[1].shape[-1]:
        raise ValueError(f"{sides[0].shape[-1]} values against {sides[1].shape[-1]}")
    if not all(np.isfinite(side).all() for side in sides):
        raise ValueError("values are not finite")
    ranks, other = (rankdata(side, axis=-1) - (side.shape[-1] + 1) / 2 for side in sides)
    norm = np.sqrt((ranks**2).sum(axis=-1) * (other**2).sum(axis=-1))
    product = (ranks * other).sum(axis=-1)
    return np.divide(product, norm, out=np.full(np.shape(norm), np.nan), where=norm > 0)[()]


def kendall_tau(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return Kendall's rank correlation tau-b of (N,) finite numbers, in [-1, 1].

    NaN for fewer than two pairs, or where one side is constant.

    Raises
    ------
    ValueError
        If a number is not finite or the lengths differ.
    """
    from scipy.stats import kendalltau

    first, second = finite_column(first, "first"), finite_column(second, "second")
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}")
    # The p-value is not used. The exact one is expensive; the asymptotic one divides by zero for two values.
    return float(kendalltau(first, second, method="asymptotic" if len(first) > 2 else "auto").statistic)


def spearman_interval(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    clusters: Clusters = None,
    seed: int = 0,
    resamples: int = _RESAMPLES,
) -> Estimate:
    """Return Spearman's rank correlation with its 95 % bootstrap interval.

    Each draw of inputs is ranked again. The standard deviation of the draws on Fisher's scale, artanh, gives the
    interval (Efron and Tibshirani, 1993, chapter 12).

    Parameters
    ----------
    first, second
        (N,) finite numbers.
    clusters
        (N,) cluster of each input; None for independent inputs.
    seed, resamples
        Of the bootstrap.

    Returns
    -------
    Estimate
        All NaN where one side is constant. The interval is [-1, 1] for fewer than ``_MIN_CLUSTERS`` clusters, and the
        value alone for a perfect correlation.

    Raises
    ------
    ValueError
        If a number is not finite or the lengths differ.
    """
    from scipy import special

    value = float(spearman(first, second))
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    n = len(first)
    _, group = np.unique(np.arange(n) if clusters is None else np.asarray(clusters), return_inverse=True)
    count = int(group.max(initial=-1)) + 1
    if count < _MIN_CLUSTERS and not np.isnan(value):
        return Estimate(value, -1.0, 1.0, n)
    if np.isnan(value) or abs(value) == 1:
        return Estimate(value, value, value, n)
    at_once = max(1, _NUMBERS_AT_ONCE // n)
    draws = [
        _weighted_spearman(first, second, counts[start : start + at_once, group])
        for counts in resampling.bootstrap_counts(count, resamples, seed)
        for start in range(0, len(counts), at_once)
    ]
    limit = 1 - 1e-9  # a draw of few distinct inputs may be in perfect order
    spread = np.nanstd(np.arctanh(np.clip(np.concatenate(draws), -limit, limit)), ddof=1)
    half = special.stdtrit(count - 1, (1 + CONFIDENCE) / 2) * spread
    low, high = np.tanh(np.arctanh(value) + np.array([-half, half]))
    return Estimate(value, float(low), float(high), n)


def _weighted_spearman(first: Array, second: Array, weights: Array) -> Array:
    """Return Spearman's correlation where input i counts ``weights[:, i]`` times, (draws,); NaN for a constant side."""
    middle = (weights.sum(axis=1, keepdims=True) + 1) / 2
    ranks, other = (_weighted_ranks(values, weights) - middle for values in (first, second))
    norm = np.sqrt((weights * ranks**2).sum(axis=1) * (weights * other**2).sum(axis=1))
    found = np.full(len(weights), np.nan)
    np.divide((weights * ranks * other).sum(axis=1), norm, out=found, where=norm > 0)
    return found


def _weighted_ranks(values: Array, weights: Array) -> Array:
    """Return each input's average rank among the drawn inputs, (draws, N)."""
    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(group.max() + 1))
    copies = np.add.reduceat(weights[:, order], starts, axis=1)  # of each distinct value
    ranks: Array = np.cumsum(copies, axis=1) - (copies - 1) / 2
    return ranks[:, group]


def rank_correlations(scores: npt.ArrayLike) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return Spearman's correlation of every two columns over the methods that both rank.

    Parameters
    ----------
    scores
        (n, m) numbers; NaN where a column does not rank a method.

    Returns
    -------
    correlations, counts
        (m, m) float64, NaN for fewer than three common methods or a constant side; (m, m) int64 common methods.
    """
    scores = np.asarray(scores, np.float64)
    known = np.isfinite(scores)
    counts = known.T.astype(np.int64) @ known
    correlations = np.full(counts.shape, np.nan)
    for i, j in np.argwhere(counts >= 3):
        both = known[:, i] & known[:, j]
        correlations[i, j] = spearman(scores[both, i], scores[both, j])
    return correlations, counts


class Concordance(NamedTuple):
    """Kendall's ``w`` of ``judges`` over ``methods``, and its permutation p-value.

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
        """The expectation of ``w`` for independent judges, 1 / judges."""
        return 1 / self.judges if self.judges else float("nan")


def kendalls_w(
    scores: npt.ArrayLike, permutations: int = _PERMUTATIONS, seed: int = 0, families: Sequence[Hashable] | None = None
) -> Concordance:
    """Return Kendall's coefficient of concordance, corrected for ties, with a permutation test and an interval.

    W is the variance of the methods' rank sums, divided by its greatest possible value (Kendall and Babington Smith,
    "The problem of m rankings", 1939). The p-value is the share of random rankings, each judge's ranks shuffled
    separately, whose W is at least as large, with the observed one counted as one more. It tests agreement above
    chance, not strong agreement. Judges of the same inputs are not independent, which lowers it.

    Methods of one family are variants of one idea, and every judge ranks them alike, which looks like agreement. So
    families are shuffled, each with the mean of its members' ranks, and the interval is a jackknife over families.

    Parameters
    ----------
    scores
        (n, m) finite numbers: n methods, m judges, each on its own scale; more is better.
    permutations, seed
        Number and seed of the random rankings.
    families
        (n,) family of each method; None if each method is its own.

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
    labels: Sequence[Hashable] = range(n) if families is None else families
    index = {name: number for number, name in enumerate(dict.fromkeys(labels))}
    family = np.array([index[name] for name in labels], int)
    w = _w(scores)
    if np.isnan(w):
        return Concordance(w, w, m, n, families=len(index))
    ranks = _ranks(scores)
    means = np.stack([ranks[family == number].mean(axis=0) for number in range(len(index))])
    p_value = _permutation_p_value(_ranks(means), permutations, seed)
    return Concordance(w, p_value, m, n, *_jackknife(w, scores, family), len(index))


def _ranks(scores: Array) -> Array:
    from scipy.stats import rankdata

    return np.asarray(rankdata(scores, axis=0), np.float64)


def _w(scores: Array) -> float:
    """Return W of (n, m) scores, NaN where it is undefined."""
    n, m = scores.shape
    if n < 2 or m < 2:
        return float("nan")
    ranks = _ranks(scores)
    greatest = m * ranks.var(axis=0).sum()  # of the variance of the sums, where all judges agree
    return float(ranks.sum(axis=1).var() / greatest) if greatest > 0 else float("nan")


def _permutation_p_value(ranks: Array, permutations: int, seed: int) -> float:
    """Return the p-value of (n, m) ranks. Shuffling keeps ties, so the sum of squares orders rankings as W does."""
    if len(ranks) < 2:
        return float("nan")
    observed = (ranks.sum(axis=1) ** 2).sum()
    generator = np.random.default_rng(seed)
    shuffled = generator.permuted(np.broadcast_to(ranks, (permutations, *ranks.shape)), axis=1)
    drawn = (shuffled.sum(axis=2) ** 2).sum(axis=1)
    as_large = np.count_nonzero(drawn >= observed - 1e-9 * observed)
    return float((as_large + 1) / (permutations + 1))


def _jackknife(w: float, scores: Array, family: npt.NDArray[np.int64]) -> tuple[float, float]:
    """Return the 95 % interval of W from leaving out one family at a time, within [0, 1]."""
    from scipy import special

    count = int(family.max()) + 1
    if count < _MIN_FAMILIES:
        return float("nan"), float("nan")
    others = np.array([_w(scores[family != number]) for number in range(count)])
    if not np.isfinite(others).all():
        return float("nan"), float("nan")
    error = np.sqrt((count - 1) ** 2 / count * others.var(ddof=1))
    half = float(special.stdtrit(count - 1, (1 + CONFIDENCE) / 2) * error)
    return max(w - half, 0.0), min(w + half, 1.0)
