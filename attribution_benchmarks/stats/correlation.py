"""Rank correlations with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats.statistics import CONFIDENCE, Array, Clusters, Estimate

_MIN_CLUSTERS = 10
_GROUPS = 200  # of clusters that a jackknife leaves out together, at most


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> Any:
    """Return Spearman's rank correlation along the last axis, with average ranks for ties, (...) float64 in [-1, 1].

    NaN for fewer than two pairs, or where one side is constant. Both sides are (..., N) finite numbers whose shapes
    broadcast; else ``ValueError``.
    """
    from scipy.stats import rankdata

    ranks, other = (rankdata(side, axis=-1) - (side.shape[-1] + 1) / 2 for side in _paired(first, second))
    norm = np.sqrt((ranks**2).sum(axis=-1) * (other**2).sum(axis=-1))
    product = (ranks * other).sum(axis=-1)
    return np.divide(product, norm, out=np.full(np.shape(norm), np.nan), where=norm > 0)[()]


def _paired(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[Array, Array]:
    """Return both sides as float64; raise ``ValueError`` for numbers that are not finite, or of other lengths."""
    sides = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if sides[0].shape[-1] != sides[1].shape[-1]:
        raise ValueError(f"{sides[0].shape[-1]} values against {sides[1].shape[-1]}")
    if not all(np.isfinite(side).all() for side in sides):
        raise ValueError("values are not finite")
    return sides


def spearman_interval(first: npt.ArrayLike, second: npt.ArrayLike, *, clusters: Clusters = None) -> Estimate:
    """Return Spearman's rank correlation of (N,) finite numbers with its 95 % interval.

    A jackknife over groups of ``clusters`` (each input alone where None) on Fisher's scale, artanh (Efron and
    Tibshirani, 1993, chapter 11). All NaN where one side is constant. The interval is [-1, 1] for fewer than
    ``_MIN_CLUSTERS`` clusters and where the correlation without a group is perfect or undefined, and the value alone
    for a perfect correlation.
    """
    first, second = _paired(first, second)
    value, n = float(spearman(first, second)), len(first)
    _, group = np.unique(np.arange(n) if clusters is None else np.asarray(clusters), return_inverse=True)
    if group.max(initial=-1) + 1 < _MIN_CLUSTERS and not np.isnan(value):
        return Estimate(value, -1.0, 1.0, n)
    if np.isnan(value) or abs(value) == 1:
        return Estimate(value, value, value, n)
    group = group.reshape(-1) % _GROUPS
    others = np.array([spearman(first[group != one], second[group != one]) for one in range(group.max() + 1)])
    if not (np.abs(others) < 1).all():
        return Estimate(value, -1.0, 1.0, n)
    low, high = np.tanh(_jackknife(np.arctanh(value), np.arctanh(others)))
    return Estimate(value, float(low), float(high), n)


def _jackknife(value: float, others: npt.ArrayLike) -> tuple[float, float]:
    """Return the 95 % interval of a statistic, given its values without one group at a time."""
    from scipy import special

    others = np.asarray(others, np.float64)
    count = len(others)
    error = np.sqrt((count - 1) ** 2 / count * others.var(ddof=1))
    half = float(special.stdtrit(count - 1, (1 + CONFIDENCE) / 2) * error)
    return value - half, value + half
