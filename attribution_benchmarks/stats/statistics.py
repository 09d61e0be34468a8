"""Means and rates with their intervals.

Means have a bootstrap-t interval (Efron, 1981), which follows skewness and equals Student's where there is none. Rates,
means of zeros and ones, have Wilson's interval (1927), which holds its level near 0 and 1. Inputs that belong together
count by cluster. An interval covers other inputs of the same kind, not other networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats import resampling
from attribution_benchmarks.stats.resampling import Array

CONFIDENCE = 0.95
RESAMPLES = 2000

Clusters = Sequence[Any] | npt.NDArray[Any] | None


class Estimate(NamedTuple):
    """A score with its interval: ``value``, ``low``, ``high``, and ``n``, the number of inputs."""

    value: float
    low: float
    high: float
    n: int


def mean_interval(
    values: npt.ArrayLike,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    clusters: Clusters = None,
    rate: float | None = None,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """Return the mean of one value per input, with its 95 % interval.

    Parameters
    ----------
    values
        (N,) finite numbers or booleans.
    resamples, seed
        Of the bootstrap; the same seed and N draw the same inputs, whatever the values.
    clusters
        (N,) cluster of each input, such as the image of a question; None for independent inputs.
    rate
        Value of a hit where the metric is a rate: 1, or 100 for percent; 1 for booleans. Values that are all 0 or
        ``rate`` have Wilson's interval. Means over networks lie between and have a bootstrap-t interval.
    bounds
        Least and greatest value of the metric; the interval ends there. ``(0, rate)`` for a rate.

    Returns
    -------
    Estimate
        In the unit of the values; NaN with ``n=0`` without values. The interval contains the mean. It has no width
        where all values are equal or there is a single cluster.

    Raises
    ------
    ValueError
        If a value is not finite, or the lengths differ.
    """
    if np.asarray(values).dtype == bool and rate is None:
        rate = 1.0
    values = finite_column(values, "values")
    if not len(values):
        return Estimate(np.nan, np.nan, np.nan, 0)
    if rate is None:
        least, greatest = bounds or (-np.inf, np.inf)
    else:
        least, greatest = 0.0, rate
    if rate is not None and np.isin(values, (0.0, rate)).all():
        low, high = (rate * end for end in _wilson(values / rate, clusters))
    else:
        low, high = column_intervals(values[:, None], clusters, resamples, seed)[:, 0].tolist()
    mean = float(values[0] + (values - values[0]).mean())  # exact where all values are equal
    return Estimate(mean, min(max(low, least), mean), max(min(high, greatest), mean), len(values))


def column_intervals(
    values: npt.ArrayLike, clusters: Clusters = None, resamples: int = RESAMPLES, seed: int = 0
) -> Array:
    """Return the bootstrap-t intervals of the means of several columns.

    Parameters
    ----------
    values
        (N, K) numbers; NaN values are dropped from their column.
    clusters, resamples, seed
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
    # Differences from one of the values: rounding leaves no spread where all values are equal.
    pivots = np.take_along_axis(values, known.argmax(axis=0)[None], axis=0)[0]
    centred = np.where(known, values - pivots, 0.0)
    means = centred.sum(axis=0) / known.sum(axis=0)
    centred = np.where(known, centred - means, 0.0)
    sums, sizes = resampling.cluster_sums(centred, clusters), resampling.cluster_sums(known, clusters)
    errors, t_values = resampling.bootstrap_t(sums, sizes, resamples, seed)
    tail = max(int((1 - CONFIDENCE) / 2 * (resamples + 1)), 1) - 1
    ordered = np.partition(t_values, (tail, resamples - 1 - tail), axis=0)
    quantiles = np.stack([ordered[resamples - 1 - tail], ordered[tail]])
    ends[:, scored] = pivots + means - np.where(np.isfinite(errors), errors, 0.0) * quantiles
    return ends


def bootstrap_means(columns: npt.ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """Return the means of (N, K) columns over the same bootstrap draws, (resamples, K) float64."""
    columns = np.asarray(columns, np.float64)
    return resampling.bootstrap_sums(columns, resamples, seed) / len(columns)


def finite_column(values: npt.ArrayLike, name: str) -> Array:
    """Return values as (N,) float64.

    Raises
    ------
    ValueError
        If they have another shape or are not finite.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1:
        raise ValueError(f"{name} has shape {values.shape}; one number per input is needed")
    if not np.isfinite(values).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(values))} of {name} are not finite")
    return values


def _wilson(hits: Array, clusters: Clusters) -> tuple[float, float]:
    """Return Wilson's interval of a share for the effective number of inputs.

    A share that clusters make v times as variable as independent inputs counts 1 / v of the inputs, and never more than
    all (the design effect; Korn and Graubard, 1998). A share of 0 or 1 shows no variance: each cluster then counts as
    if its members agreed. The variance is estimated from the clusters, so Student's quantile replaces the normal one.
    """
    from scipy import special

    share, n = float(hits.mean()), float(len(hits))
    quantile = float(special.ndtri((1 + CONFIDENCE) / 2))
    if clusters is not None:
        residuals, sizes = resampling.cluster_sums(np.stack([hits - share, np.ones_like(hits)], axis=1), clusters).T
        count = len(sizes)
        if count == 1 < n:
            return 0.0, 1.0
        if count < n:
            spread = (residuals**2).sum()
            effective = n * share * (1 - share) * n / spread if spread > 0 else 0.0
            n = min(max(effective, n * n / (sizes**2).sum()), n)
            quantile = float(special.stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    weight = quantile**2 / n
    centre = (share + weight / 2) / (1 + weight)
    half = quantile * np.sqrt(share * (1 - share) / n + weight / (4 * n)) / (1 + weight)
    return max(centre - half, 0.0), min(centre + half, 1.0)
