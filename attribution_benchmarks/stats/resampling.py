"""Draws of inputs, or of the clusters they belong to, and what means do under them.

Two kinds. The bootstrap draws as many as there are with replacement and tells how far a mean would move on other inputs
(Efron and Tibshirani, "An Introduction to the Bootstrap", 1993). Flipping the signs of differences tells what two
methods would show if their names meant nothing: a mean whose flipped part is the set S beats the observed one where
the mean over S alone has the other sign (Hartigan, "Using Subsample Values as Typical Values", JASA 1969), so that all
flips are told by the means of all subsets, and so are all shifts of the differences.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np

_NUMBERS_AT_ONCE = 2_000_000  # bounds the memory: 16 MB of draws
_SMOOTHING = 0.25  # of what one input adds to a variance; see ``bootstrap_t``


def cluster_sums(columns: np.ndarray, clusters: Sequence | np.ndarray) -> np.ndarray:
    """Sum rows of the same cluster.

    Parameters
    ----------
    columns
        (N, K) numbers.
    clusters
        (N,) names or numbers; None where each row stands for itself.

    Returns
    -------
    np.ndarray
        (clusters, K) float64, clusters in the order of their names; the rows themselves where there are none.
    """
    columns = np.asarray(columns, np.float64)
    if clusters is None:
        return columns
    _, group = np.unique(np.asarray(clusters), return_inverse=True)
    summed = np.zeros((group.max(initial=-1) + 1, columns.shape[1]))
    np.add.at(summed, group.reshape(-1), columns)
    return summed


def bootstrap_sums(columns: np.ndarray, resamples: int, seed: int = 0) -> np.ndarray:
    """Sum the columns over rows drawn with replacement.

    Parameters
    ----------
    columns
        (N, K) finite numbers.
    resamples
        Number of draws.
    seed
        The same seed and N draw the same rows, whatever the numbers.

    Returns
    -------
    np.ndarray
        (resamples, K) float64.

    Raises
    ------
    ValueError
        If there is nothing to draw, or no draw is wanted.
    """
    return np.concatenate([counts @ columns for counts in bootstrap_counts(len(columns), resamples, seed)])


def bootstrap_counts(n: int, resamples: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield how often each of n inputs was drawn with replacement, (some resamples, n) float64, until it is enough.

    Parameters and errors as of ``bootstrap_sums``, which draws the same.
    """
    if n < 1 or resamples < 1:
        raise ValueError(f"{resamples} draws of {n} inputs; at least one of each is needed")
    # A benchmark asks for many scores over the same inputs; where they fit, the draws are kept for the next one.
    if n * resamples <= _NUMBERS_AT_ONCE:
        yield from _kept_draws(n, resamples, seed)
    else:
        yield from (counts.astype(np.float64) for counts in _draws(n, resamples, seed))


def standard_errors(sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the standard errors of ratios of sums by linearisation.

    Parameters
    ----------
    sums, sizes
        As of ``bootstrap_t``.

    Returns
    -------
    np.ndarray
        (K,) float64; NaN for a single cluster.
    """
    return np.sqrt(_variances(sums, sizes)[1])


def _variances(sums: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what of each cluster's sum its size does not explain, (C, K), and the variances of ratios, (K,)."""
    clusters, total = np.count_nonzero(sizes, axis=0), sizes.sum(axis=0)
    left = sums - sizes * (sums.sum(axis=0) / total)
    with np.errstate(invalid="ignore", divide="ignore"):
        return left, clusters / (clusters - 1.0) * (left**2).sum(axis=0) / total**2


def bootstrap_t(sums: np.ndarray, sizes: np.ndarray, resamples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the standard errors of ratios of sums, and how far bootstrap draws stray, each in its own error.

    The bootstrap-t (Efron, 1981). The variance of a draw of n clusters is right on the average after adding 1 / n of
    the observed one; a quarter of that is added, so that no draw is without an error, however few the clusters.

    Parameters
    ----------
    sums, sizes
        (C, K) each cluster's sum and number of values, for K methods or pairs; no column of sizes is all zero.
    resamples, seed
        As of ``bootstrap_sums``.

    Returns
    -------
    errors, strayed
        (K,) standard errors of ``sums.sum(0) / sizes.sum(0)`` by linearisation, NaN for a single cluster; (resamples,
        K) bootstrap t values, zero where the error is.
    """
    clusters = np.count_nonzero(sizes, axis=0)
    total = sizes.sum(axis=0)
    left, variance = _variances(sums, sizes)
    alone = bool((sizes == 1).all())  # each input a cluster: the products with sizes need no sums of their own
    parts = [left, left**2] if alone else [left, left**2, left * sizes, sizes, sizes**2]
    drawn = np.split(bootstrap_sums(np.concatenate(parts, axis=1), resamples, seed), len(parts), axis=1)
    if alone:
        drawn = [*drawn, drawn[0], total, total]
    with np.errstate(invalid="ignore", divide="ignore"):
        correction = clusters / (clusters - 1.0)
        shift = drawn[0] / drawn[3]
        of_draw = np.maximum(drawn[1] - 2 * shift * drawn[2] + shift**2 * drawn[4], 0.0) / drawn[3] ** 2
        errors = np.sqrt(correction * of_draw + _SMOOTHING * variance / clusters)
        strayed = np.where(errors > 0, shift * np.sqrt(correction) / errors, 0.0)
    return np.sqrt(variance), np.where(drawn[3] > 0, strayed, 0.0)


def subset_means(sums: np.ndarray, sizes: np.ndarray, subsets: int, seed: int = 0) -> np.ndarray:
    """Return the means over subsets of clusters: all of them where they are few, or random ones.

    Parameters
    ----------
    sums, sizes
        As of ``bootstrap_t``.
    subsets
        How many to draw where there are more than so many; the seed draws the same for the same number of clusters.
    seed
        Of the draws.

    Returns
    -------
    np.ndarray
        (all subsets but the empty one, or ``subsets``; K) float64; NaN where a subset holds no value. What rounding
        has left of a sum that is zero is zero.
    """
    found = []
    slack = 1e-12 * np.abs(sums).sum(axis=0)
    for chosen in _subsets(len(sums), subsets, seed):
        total, count = chosen @ sums, chosen @ sizes
        total[np.abs(total) <= slack] = 0.0
        found.append(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))
    return np.concatenate(found)


@functools.lru_cache(maxsize=4)  # of intervals and tests, of a whole set and its subsets
def _kept_draws(n: int, resamples: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return what ``_draws`` yields, kept as what a product takes: to convert them costs as much as the product."""
    return tuple(counts.astype(np.float64) for counts in _draws(n, resamples, seed))


def _draws(n: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often each of n inputs was drawn: (some resamples, n) of a small unsigned type, until it is enough."""
    generator = np.random.default_rng(seed)
    step, part = max(1, _NUMBERS_AT_ONCE // n), max(1, _NUMBERS_AT_ONCE // 8 // n)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        counts = np.empty((rows, n), np.min_scalar_type(n))
        for first in range(0, rows, part):  # numbers follow each other whatever the parts, which keep the memory small
            drawn = generator.integers(n, size=(min(part, rows - first), n))
            drawn += n * np.arange(len(drawn))[:, None]
            counts[first : first + part] = np.bincount(drawn.reshape(-1), minlength=drawn.size).reshape(drawn.shape)
        yield counts


def _subsets(n: int, count: int, seed: int) -> Iterator[np.ndarray]:
    """Yield which of n clusters a subset holds: (some, n) of 0.0 and 1.0, all subsets but the empty one if few."""
    if 2**n <= count + 1:
        yield (np.arange(1, 2**n)[:, None] >> np.arange(n) & 1).astype(np.float64)
        return
    generator = np.random.default_rng((seed, n))
    step = max(1, _NUMBERS_AT_ONCE // n)
    for start in range(0, count, step):
        rows = min(step, count - start)
        drawn = generator.integers(256, size=(rows, -(-n // 8)), dtype=np.uint8)
        yield np.unpackbits(drawn, axis=1, count=n).astype(np.float64)
