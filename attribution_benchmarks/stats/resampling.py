"""Bootstrap draws and random sign flips of inputs or clusters of inputs.

The bootstrap draws inputs with replacement (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993). The sign
flip test compares the observed mean difference with the means under random signs. A flip of the clusters in S changes
the sign of the mean exactly where the mean over S alone has the other sign, so the means of subsets give the test of
every shift of the differences (Hartigan, "Using Subsample Values as Typical Values", JASA 1969).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_NUMBERS_AT_ONCE = 2_000_000  # bounds the memory: 16 MB of draws
_SMOOTHING = 0.25  # share of one input's part of the variance; see ``bootstrap_t``
_SINGLE = 1e-4  # more than the relative error of a t value whose squares were summed in single precision


def cluster_sums(columns: npt.ArrayLike, clusters: Sequence[Any] | npt.NDArray[Any] | None) -> Array:
    """Return the sums of rows by cluster, (clusters, K) float64 in the order of the clusters' names.

    Parameters
    ----------
    columns
        (N, K) numbers.
    clusters
        (N,) names or numbers; None returns the rows themselves.

    Raises
    ------
    ValueError
        If the lengths differ.
    """
    columns = np.asarray(columns, np.float64)
    if clusters is None:
        return columns
    if len(clusters) != len(columns):
        raise ValueError(f"{len(columns)} values, but {len(clusters)} clusters")
    _, group = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.zeros((group.max(initial=-1) + 1, columns.shape[1]))
    np.add.at(sums, group.reshape(-1), columns)
    return sums


def bootstrap_counts(n: int, resamples: int, seed: int = 0) -> Iterator[Array]:
    """Yield how often each of n inputs was drawn with replacement, (some resamples, n) float64.

    The draws depend on ``n``, ``resamples`` and ``seed`` only. Draws that fit the memory bound are cached, because a
    benchmark computes many scores of the same inputs.

    Raises
    ------
    ValueError
        If ``n`` or ``resamples`` is below 1.
    """
    if n < 1 or resamples < 1:
        raise ValueError(f"{resamples} draws of {n} inputs; at least one of each is needed")
    if n * resamples <= _NUMBERS_AT_ONCE:
        yield _cached_counts(n, resamples, seed)
    else:
        yield from _counts(n, resamples, seed)


@functools.lru_cache(maxsize=4)  # intervals and tests, of all inputs and of their subsets
def _cached_counts(n: int, resamples: int, seed: int) -> Array:
    return np.concatenate(list(_counts(n, resamples, seed)))


def _draws(n: int, resamples: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    step = max(1, _NUMBERS_AT_ONCE // n)
    for start in range(0, resamples, step):
        yield generator.integers(n, size=(min(step, resamples - start), n))


def _counts(n: int, resamples: int, seed: int) -> Iterator[Array]:
    for drawn in _draws(n, resamples, seed):
        drawn += n * np.arange(len(drawn))[:, None]
        yield np.bincount(drawn.reshape(-1), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)


def bootstrap_sums(columns: Array, resamples: int, seed: int = 0) -> Array:
    """Return the sums of (N, K) columns over rows drawn with replacement, (resamples, K) float64.

    See ``bootstrap_counts`` for the other parameters and errors.
    """
    return np.concatenate([counts @ columns for counts in bootstrap_counts(len(columns), resamples, seed)])


def ratio_variances(sums: Array, sizes: Array) -> tuple[Array, Array]:
    """Return each cluster's residual, (C, K), and the variance of each ratio of sums by linearisation, (K,).

    Parameters
    ----------
    sums, sizes
        (C, K) each cluster's sum and number of values, for K methods or pairs. No column of sizes is all zero. The
        variance is NaN for a single cluster.
    """
    clusters, total = np.count_nonzero(sizes, axis=0), sizes.sum(axis=0)
    residuals = sums - sizes * (sums.sum(axis=0) / total)
    with np.errstate(invalid="ignore", divide="ignore"):
        return residuals, clusters / (clusters - 1.0) * (residuals**2).sum(axis=0) / total**2


def bootstrap_t(sums: Array, sizes: Array, resamples: int, seed: int = 0) -> tuple[Array, Array]:
    """Return the standard errors of ratios of sums, and bootstrap t values (Efron, 1981).

    The variance of a draw of n clusters is unbiased after adding 1 / n of the observed variance. A quarter of that is
    added, so that no draw has an error of zero, however few the clusters.

    Parameters
    ----------
    sums, sizes
        As of ``ratio_variances``.
    resamples, seed
        As of ``bootstrap_counts``.

    Returns
    -------
    errors, t_values
        (K,) standard errors, NaN for a single cluster; (resamples, K) float64, zero where a draw has no error.
    """
    residuals, variance = ratio_variances(sums, sizes)
    single = bool((sizes == 1).all())  # every cluster has one value: products with sizes need no sums
    parts = [residuals, residuals**2] if single else [residuals, residuals**2, residuals * sizes, sizes, sizes**2]
    drawn = np.split(bootstrap_sums(np.concatenate(parts, axis=1), resamples, seed), len(parts), axis=1)
    if single:
        drawn = [*drawn, drawn[0], sizes.sum(axis=0), sizes.sum(axis=0)]
    return np.sqrt(variance), _t_values(drawn, variance, np.count_nonzero(sizes, axis=0))


def _t_values(drawn: Any, variance: Array, clusters: Any) -> Array:
    """Return the t values of draws, given the draws' sums and the observed variance.

    Sums are of residuals, of their squares, of their products with sizes, of sizes, and of squared sizes.
    """
    residuals, squares, products, sizes, square_sizes = drawn
    with np.errstate(invalid="ignore", divide="ignore"):
        correction = clusters / (clusters - 1.0)
        shift = residuals / sizes
        squares = np.maximum(squares - 2 * shift * products + shift**2 * square_sizes, 0.0)
        errors = np.sqrt(correction * squares / sizes**2 + _SMOOTHING * variance / clusters)
        t_values = np.where(errors > 0, shift * np.sqrt(correction) / errors, 0.0)
    return np.where(sizes > 0, t_values, 0.0)


def subset_means(sums: Array, sizes: Array, subsets: int, seed: int = 0) -> Array:
    """Return the means over random subsets of clusters, or over all subsets if there are at most ``subsets``.

    Parameters
    ----------
    sums, sizes
        As of ``ratio_variances``.
    subsets, seed
        Number and seed of the random subsets, which depend on the number of clusters only.

    Returns
    -------
    np.ndarray
        (``subsets`` or 2 ** C - 1, K) float64; NaN where a subset has no value. Sums of zero up to rounding give 0.
    """
    means = []
    slack = 1e-12 * np.abs(sums).sum(axis=0)
    for members in _subsets(len(sums), subsets, seed):
        total, count = members @ sums, members @ sizes
        total[np.abs(total) <= slack] = 0.0
        means.append(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))
    return np.concatenate(means)


def _subsets(n: int, count: int, seed: int) -> Iterator[Array]:
    """Yield membership of n clusters in subsets, (some, n) of 0.0 and 1.0; all non-empty subsets if they are few."""
    if 2**n <= count + 1:
        yield (np.arange(1, 2**n)[:, None] >> np.arange(n) & 1).astype(np.float64)
        return
    generator = np.random.default_rng((seed, n))
    step = max(1, _NUMBERS_AT_ONCE // n)
    for start in range(0, count, step):
        drawn = generator.integers(256, size=(min(step, count - start), -(-n // 8)), dtype=np.uint8)
        yield np.unpackbits(drawn, axis=1, count=n).astype(np.float64)


class SharedColumns(NamedTuple):
    """K pairs of M columns, whose sums over draws are the differences of the columns' sums.

    Attributes
    ----------
    columns, sizes
        (C, M) and (C, 1) each cluster's sums and its number of values, which is the same for all columns and not zero.
    first, second
        (K,) int64, columns of each pair.
    """

    columns: Array
    sizes: Array
    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]

    def of_pairs(self, part: npt.NDArray[np.int64]) -> SharedColumns:
        """Return some of the pairs."""
        return self._replace(first=self.first[part], second=self.second[part])

    def represent(self, sums: Array) -> npt.NDArray[np.bool_]:
        """Return which pairs of ``sums``, (C, K), differ by much more than the rounding errors of columns, (K,)."""
        scale = np.abs(self.columns).sum(axis=0)
        return np.asarray(np.abs(sums).sum(axis=0) >= 0.05 * (scale[self.first] + scale[self.second]))  # not of NaN

    def subset_means(self, sums: Array, subsets: int, seed: int) -> Array:
        """Return what the function ``subset_means`` does of the pairs' ``sums``, (C, K), for random subsets."""
        means = np.empty((len(self.first), subsets))
        slack, done = 1e-12 * np.abs(sums).sum(axis=0), 0
        for members in _subsets(len(self.columns), subsets, seed):
            totals = self._differences(members @ self.columns)
            totals[np.abs(totals) <= slack[:, None]] = 0.0
            means[:, done : done + len(members)] = totals / (members @ self.sizes).T
            done += len(members)
        return means.T

    def bootstrap_t(
        self, sums: Array, observed: Array, slack: Array, ranks: tuple[int, ...], resamples: int, seed: int
    ) -> Array:
        """Return bootstrap t values as ``bootstrap_t`` does: exact where they decide, elsewhere to single precision.

        Parameters
        ----------
        sums
            (C, K) each pair's differences by cluster.
        observed, slack
            (K,) what draws are compared with, and by how much they may miss it.
        ranks
            Two places in the order of the draws whose values are needed.
        """
        residuals, variance = ratio_variances(sums, self.sizes)
        residuals = np.ascontiguousarray(residuals.T)
        squares = np.square(residuals).astype(np.float32)
        of_columns, _ = ratio_variances(self.columns, self.sizes)
        single = bool((self.sizes == 1).all())
        parts = [of_columns, self.sizes, self.sizes**2] + ([] if single else [of_columns * self.sizes])
        products, width, n = np.concatenate(parts, axis=1), of_columns.shape[1], len(sums)
        t_values = np.empty((len(self.first), resamples))
        done = 0
        for counts in bootstrap_counts(n, resamples, seed):
            drawn = counts @ products
            shifts = self._differences(drawn[:, :width])
            of_products = shifts if single else self._differences(drawn[:, width + 2 :])
            found = shifts, squares @ counts.astype(np.float32).T, of_products, *drawn[:, width : width + 2].T
            t_values[:, done : done + len(counts)] = _t_values(found, variance[:, None], n)
            done += len(counts)
        # Draws that may lie on the other side of what they are compared with are computed again, with all digits.
        near = np.zeros(t_values.shape, bool)
        ordered = np.empty(resamples)
        for values, close, *places in zip(t_values, near, observed - slack, observed + slack, strict=True):
            ordered[:] = values
            ordered.partition(ranks)
            for place in [*places, *ordered[list(ranks)]]:
                if np.isfinite(place):
                    close |= np.abs(values - place) <= 2 * _SINGLE * abs(place)
        draws, pairs = np.nonzero(near.T)
        exact, done = np.empty((5, len(draws))), 0
        for drawn_rows in _draws(n, resamples, seed):
            for number in range(*np.searchsorted(draws, [done, done + len(drawn_rows)])):
                chosen = drawn_rows[draws[number] - done]
                one, size = residuals[pairs[number]][chosen], self.sizes[chosen, 0]
                exact[:, number] = [each.sum() for each in (one, one**2, one * size, size, size**2)]
            done += len(drawn_rows)
        t_values[pairs, draws] = _t_values(exact, variance[pairs], n)
        return t_values.T

    def _differences(self, sums: Array) -> Array:
        """Return the pairs' differences of sums (draws, M), as (K, draws) contiguous by pair."""
        by_column = np.ascontiguousarray(sums.T)
        return np.asarray(by_column[self.first] - by_column[self.second])
