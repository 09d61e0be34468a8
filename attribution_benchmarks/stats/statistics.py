"""What a score is worth: means and rates with their intervals, and rank correlation.

Means have a bootstrap-t interval (Efron, 1981; Efron and Tibshirani, "An Introduction to the Bootstrap", 1993,
chapter 12): it follows skewness, which a percentile bootstrap does not, and is as wide as Student's where there is
none. Rates, means of nothing but zeros and ones, have Wilson's (1927), which holds its level near 0 and 1. Inputs that
belong together count by cluster. Intervals tell how far a score would move on other inputs of the same kind; not how
far on another network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats import resampling

CONFIDENCE = 0.95
RESAMPLES = 2000


class Estimate(NamedTuple):
    """A score with its interval: ``value``, ``low``, ``high``, and ``n``, the number of inputs behind it."""

    value: float
    low: float
    high: float
    n: int


def mean_interval(
    values: npt.ArrayLike,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    clusters: Sequence | np.ndarray | None = None,
    rate: float | None = None,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """Mean of one value per input, with its interval.

    Parameters
    ----------
    values
        (N,) numbers or booleans, one per input. An undefined value (NaN) is the caller's to drop or to count.
    confidence
        Coverage of the interval, between 0 and 1.
    resamples
        Number of bootstrap draws.
    seed
        Seed of the draws; the same seed and N draw the same inputs, whatever the values.
    clusters
        (N,) what inputs belong to, such as the image of a question; None where each stands for itself.
    rate
        What a hit counts, where the metric is a rate: 1, or 100 for percent. Booleans need no saying. A rate whose
        values are nothing but 0 and ``rate`` has Wilson's interval; means over networks lie between, and have that of
        a mean within the same bounds.
    bounds
        Least and most the metric can be; the interval ends there. ``(0, rate)`` for a rate.

    Returns
    -------
    Estimate
        In the unit of the values; NaN with ``n=0`` if there are none. The interval holds the value. That of a mean has
        no width where all values are equal or there is one cluster alone: nothing is known of the spread then.

    Raises
    ------
    ValueError
        If a value is not finite, or the lengths differ.
    """
    if np.asarray(values).dtype == bool and rate is None:
        rate = 1.0
    values = _column(values, "values")
    if clusters is not None and len(clusters) != len(values):
        raise ValueError(f"{len(values)} values, but {len(clusters)} clusters")
    if not len(values):
        return Estimate(np.nan, np.nan, np.nan, 0)
    if rate is not None and np.isin(values, (0.0, rate)).all():
        low, high = _wilson(values / rate, clusters, confidence)
        ends = np.array([rate * low, rate * high])
    else:
        ends = column_intervals(values[:, None], clusters, confidence, resamples, seed)[:, 0]
    low, high = ends
    return _holding(float(_mean(values)), low, high, len(values), bounds if rate is None else (0.0, rate))


def ratio_interval(
    numerators: npt.ArrayLike,
    denominators: npt.ArrayLike,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Sum of numerators over sum of denominators, with its bootstrap-t interval.

    Parameters
    ----------
    numerators, denominators
        (N,) numbers, one pair per input or cluster; each denominator at least zero.
    confidence, resamples, seed
        As for ``mean_interval``.

    Returns
    -------
    Estimate
        NaN if the denominators sum to zero.

    Raises
    ------
    ValueError
        If a number is not finite, a denominator negative, or the lengths differ.
    """
    numerators, denominators = _column(numerators, "numerators"), _column(denominators, "denominators")
    if len(numerators) != len(denominators):
        raise ValueError(f"{len(numerators)} numerators, but {len(denominators)} denominators")
    if (denominators < 0).any():
        raise ValueError("a denominator is negative")
    total = denominators.sum()
    if total == 0:
        return Estimate(np.nan, np.nan, np.nan, len(numerators))
    value = float(numerators.sum() / total)
    left = numerators - value * denominators
    left[np.abs(left) <= 1e-12 * np.abs(numerators).max()] = 0.0
    low, high = _bootstrap_t(left[:, None], denominators[:, None], confidence, resamples, seed)[:, 0]
    return _holding(value, value + low, value + high, len(numerators))


def column_intervals(
    values: npt.ArrayLike,
    clusters: Sequence | np.ndarray | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> np.ndarray:
    """Return the bootstrap-t intervals of the means of several columns at once.

    Parameters
    ----------
    values
        (N, K) numbers; a NaN is left out of its column.
    clusters, confidence, resamples, seed
        As for ``mean_interval``.

    Returns
    -------
    np.ndarray
        (2, K) float64, ends low and high; NaN for a column without a value.
    """
    values = np.asarray(values, np.float64)
    known = np.isfinite(values)
    scored = known.any(axis=0)
    ends = np.full((2, values.shape[1]), np.nan)
    if not scored.any():
        return ends
    values, known = values[:, scored], known[:, scored]
    # Sums start from one of the values: where all are equal nothing is left for rounding to spread.
    pivots = np.take_along_axis(values, known.argmax(axis=0)[None], axis=0)[0]
    left = np.where(known, values - pivots, 0.0)
    means = left.sum(axis=0) / known.sum(axis=0)
    left = np.where(known, left - means, 0.0)
    sums, sizes = resampling.cluster_sums(left, clusters), resampling.cluster_sums(known, clusters)
    ends[:, scored] = pivots + means + _bootstrap_t(sums, sizes, confidence, resamples, seed)
    return ends


def bootstrap_means(columns: npt.ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """Means of several methods over the same bootstrap draws, for intervals of what is computed from all of them.

    Parameters
    ----------
    columns
        (N, K) finite numbers: K methods' values for the same N inputs.
    resamples, seed
        As for ``mean_interval``; the draws are the same.

    Returns
    -------
    np.ndarray
        (resamples, K) float64.
    """
    columns = np.asarray(columns, np.float64)
    return resampling.bootstrap_sums(columns, resamples, seed) / len(columns)


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Spearman's rank correlation, ties given their average rank.

    Parameters
    ----------
    first, second
        (N,) finite numbers.

    Returns
    -------
    float
        Between -1 and 1; NaN for fewer than two pairs, or where one side is constant.

    Raises
    ------
    ValueError
        If a number is not finite or the lengths differ.
    """
    first, second = _column(first, "first"), _column(second, "second")
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}")
    ranks = [average_ranks(values) - (len(values) + 1) / 2 for values in (first, second)]
    norm = np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum())
    return float((ranks[0] * ranks[1]).sum() / norm) if norm > 0 else float("nan")


def spearman_of_rows(rows: npt.ArrayLike, values: npt.ArrayLike) -> np.ndarray:
    """Spearman's rank correlation of each of many rows with the same values, which are ranked once.

    Parameters
    ----------
    rows
        (R, N) finite numbers.
    values
        (N,) finite numbers.

    Returns
    -------
    np.ndarray
        (R,) float64, of each row what ``spearman`` gives.
    """
    from scipy.stats import rankdata

    middle = (len(np.asarray(values)) + 1) / 2
    ranks, other = rankdata(rows, axis=1) - middle, average_ranks(values) - middle
    norm = np.sqrt((ranks**2).sum(axis=1) * (other**2).sum())
    return np.divide((ranks * other).sum(axis=1), norm, out=np.full(len(ranks), np.nan), where=norm > 0)


def kendall_tau(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Kendall's rank correlation tau-b: of all pairs, those ordered alike minus those ordered otherwise, as a share.

    Pairs that are tied on one side count on neither (Kendall, "Rank Correlation Methods", 1948).

    Parameters
    ----------
    first, second
        (N,) finite numbers.

    Returns
    -------
    float
        Between -1 and 1; NaN for fewer than two pairs, or where one side is constant.

    Raises
    ------
    ValueError
        If a number is not finite or the lengths differ.
    """
    first, second = _column(first, "first"), _column(second, "second")
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}")
    from scipy.stats import kendalltau

    # The p-value is not asked for. The exact one would cost most of the time; the other divides by zero for two values.
    method = "asymptotic" if len(first) > 2 else "auto"
    return float(kendalltau(first, second, method=method).statistic)


def average_ranks(values: npt.ArrayLike) -> np.ndarray:
    """Ranks from 1, the smallest first; equal values share the mean of their ranks.

    Parameters
    ----------
    values
        (N,) numbers.

    Returns
    -------
    np.ndarray
        (N,) float64.
    """
    _, group, sizes = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[group.reshape(-1)]


def _column(values, name: str) -> np.ndarray:
    """Return the values as (N,) float64, or raise if they are not N finite numbers."""
    values = np.asarray(values, np.float64)
    if values.ndim != 1:
        raise ValueError(f"{name} has shape {values.shape}; one number per input is needed")
    if not np.isfinite(values).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(values))} of {name} are not finite")
    return values


def _mean(values: np.ndarray) -> float:
    """Return the mean; exactly the value itself where all are equal, on every processor."""
    return values[0] + (values - values[0]).mean()


def _holding(value: float, low: float, high: float, n: int, bounds=None) -> Estimate:
    """Return an estimate whose interval ends at the bounds and holds the value, whatever rounding did to either."""
    least, most = bounds or (-np.inf, np.inf)
    return Estimate(value, min(max(float(low), least), value), max(min(float(high), most), value), n)


def _bootstrap_t(sums, sizes, confidence: float, resamples: int, seed: int) -> np.ndarray:
    """Return the ends of the intervals about means of zero, (2, K): the quantiles of t, times the error, turned."""
    _check(confidence)
    errors, strayed = resampling.bootstrap_t(sums, sizes, resamples, seed)
    place = max(int((1 - confidence) / 2 * (resamples + 1)), 1) - 1
    ordered = np.partition(strayed, (place, resamples - 1 - place), axis=0)
    errors = np.where(np.isfinite(errors), errors, 0.0)
    return np.stack([-errors * ordered[resamples - 1 - place], -errors * ordered[place]])


def _wilson(hits: np.ndarray, clusters, confidence: float) -> tuple[float, float]:
    """Return Wilson's interval of a share, of as many inputs as the clusters are worth.

    A share that clusters make v times as variable as that of single inputs counts 1 / v of them, and never more than
    all (the design effect, as Korn and Graubard, 1998, use it); of a share of 0 or 1, which shows no variance, each
    cluster is worth as much as if its members agreed. Student's quantile stands for the normal one where clusters were
    counted, since their number is what the variance is known from.
    """
    from scipy import special

    _check(confidence)
    share, n = float(hits.mean()), float(len(hits))
    quantile = special.ndtri((1 + confidence) / 2)
    if clusters is not None:
        left, sizes = resampling.cluster_sums(np.stack([hits - share, np.ones_like(hits)], axis=1), clusters).T
        count, least = len(sizes), n * n / (sizes**2).sum()
        if count < len(hits):
            spread = (left**2).sum()
            worth = n * share * (1 - share) * n / spread if spread > 0 else 0.0
            n = min(max(worth, least), n)
            quantile = special.stdtrit(count - 1, (1 + confidence) / 2) if count > 1 else np.inf
    if not np.isfinite(quantile):
        return 0.0, 1.0
    weight = quantile**2 / n
    centre = (share + weight / 2) / (1 + weight)
    half = quantile * np.sqrt(share * (1 - share) / n + weight / (4 * n)) / (1 + weight)
    return max(centre - half, 0.0), min(centre + half, 1.0)


def _check(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it lies between 0 and 1")
