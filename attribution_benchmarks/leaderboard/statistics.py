"""What a score is worth: means, bootstrap intervals, paired tests and rank correlation, in NumPy.

Intervals are percentile bootstraps (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993): the
inputs of the benchmark are drawn again with replacement, the score is computed on each draw, and the interval
holds the middle 95 % of what came out. They tell how far a score would move on other inputs of the same kind;
not how far on another network.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 2000
_DRAWS_AT_ONCE = 2_000_000  # bounds the memory: 16 MB of indices and as much of counts


class Estimate(NamedTuple):
    """A score with its interval: ``value``, ``low``, ``high``, and ``n``, the number of inputs behind it."""

    value: float
    low: float
    high: float
    n: int


class PairedDifference(NamedTuple):
    """First minus second: ``difference``, its interval ``low`` to ``high``, two-sided ``p_value``, and ``n``."""

    difference: float
    low: float
    high: float
    p_value: float
    n: int


def mean_interval(values, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Mean of one value per input, with its bootstrap interval.

    An accuracy is the mean of zeros and ones, or of booleans.

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

    Returns
    -------
    Estimate
        In the unit of the values; NaN with ``n=0`` if there are none.

    Raises
    ------
    ValueError
        If a value is not finite.
    """
    values = _column(values, "values")
    return ratio_interval(values, np.ones_like(values), confidence, resamples, seed)


def ratio_interval(
    numerators, denominators, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Sum of numerators over sum of denominators, with its bootstrap interval.

    For rates with a denominator per input, and for inputs that come in clusters, such as questions about one
    image: give each cluster's sum and size, and clusters are drawn instead of single inputs.

    Parameters
    ----------
    numerators, denominators
        (N,) numbers, one pair per input or cluster; each denominator at least zero.
    confidence, resamples, seed
        As for ``mean_interval``.

    Returns
    -------
    Estimate
        NaN if the denominators sum to zero. A draw whose denominators sum to zero is left out of the
        interval.

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
    sums = resampled_sums(np.stack([numerators, denominators], axis=1), resamples, seed)
    sums = sums[sums[:, 1] > 0]
    low, high = _percentiles(sums[:, 0] / sums[:, 1], confidence)
    return Estimate(float(numerators.sum() / total), low, high, len(numerators))


def paired_bootstrap(
    first, second, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> PairedDifference:
    """Compare two methods scored on the same inputs.

    The p-value is the share of draws in which the mean difference strays from the observed one by at least as
    much as the observed one strays from zero, the observed data counted as one more draw. So it is never
    zero.

    Parameters
    ----------
    first, second
        (N,) numbers or booleans, the two methods' values for the same inputs in the same order.
    confidence, resamples, seed
        As for ``mean_interval``.

    Returns
    -------
    PairedDifference
        Mean of first minus second with its interval; p-value 1 if they never differ.

    Raises
    ------
    ValueError
        If a number is not finite, the lengths differ, or there are none.
    """
    first, second = _column(first, "first"), _column(second, "second")
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}; a paired test needs the same inputs")
    if not len(first):
        raise ValueError("no values to compare")
    differences = first - second
    observed = differences.mean()
    drawn = resampled_sums(differences[:, None], resamples, seed)[:, 0] / len(differences)
    low, high = _percentiles(drawn, confidence)
    # The slack forgives rounding: with zeros and ones, many draws stray exactly as far as the observed mean.
    slack = 1e-12 * np.abs(differences).max()
    as_far = np.count_nonzero(np.abs(drawn - observed) >= abs(observed) - slack)
    return PairedDifference(float(observed), low, high, float((as_far + 1) / (resamples + 1)), len(differences))


def resampled_means(columns, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
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
    return resampled_sums(columns, resamples, seed) / len(columns)


def resampled_sums(columns: np.ndarray, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """Sum the columns over rows drawn with replacement; the draws are those of ``mean_interval``.

    Parameters
    ----------
    columns
        (N, K) finite numbers.
    resamples, seed
        As for ``mean_interval``.

    Returns
    -------
    np.ndarray
        (resamples, K) float64.

    Raises
    ------
    ValueError
        If there is nothing to draw, or no draw is wanted.
    """
    n = len(columns)
    if n < 1 or resamples < 1:
        raise ValueError(f"{resamples} draws of {n} inputs; at least one of each is needed")
    # A benchmark asks for many scores over the same inputs; where they fit, the draws are kept for the next one.
    draws = _kept_draws(n, resamples, seed) if n * resamples <= _DRAWS_AT_ONCE else _draws(n, resamples, seed)
    return np.concatenate([counts @ columns for counts in draws])


def spearman(first, second) -> float:
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


def average_ranks(values) -> np.ndarray:
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


@functools.lru_cache(maxsize=1)
def _kept_draws(n: int, resamples: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return what ``_draws`` yields, kept."""
    return tuple(_draws(n, resamples, seed))


def _draws(n: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often each of n inputs was drawn: (some resamples, n) float64, until there are enough."""
    generator = np.random.default_rng(seed)
    step = max(1, _DRAWS_AT_ONCE // n)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = generator.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        yield np.bincount(drawn.reshape(-1), minlength=rows * n).reshape(rows, n).astype(np.float64)


def _percentiles(drawn: np.ndarray, confidence: float) -> tuple[float, float]:
    """Return the ends of the middle ``confidence`` of the draws."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it lies between 0 and 1")
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
