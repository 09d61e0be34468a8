"""Means over inputs and networks, paired tests, and bets that hold for any distribution.

**Two factors.** A score belongs to an input and a trained network. Both are samples, so the mean of all scores varies
with both. Its variance is that of clusters of inputs plus that of networks minus that of the residuals, which both
contain (Cameron, Gelbach and Miller, "Robust Inference with Multiway Clustering", JBES 2011), and at least the larger
of the first two. Satterthwaite's formula gives the degrees of freedom; heavy tails lower those of the inputs. Hall's
transformation ("On the Removal of Skewness by Transformation", JRSS B 1992) corrects for the skewness of the mean.
From ``MIN_NETWORKS`` networks on, a t test of the networks' means alone has to agree. Fewer networks count as fixed.

**Pairs.** Rates are compared with one difference of each sign added (Agresti and Min, 2005), and so are differences
that do not vary. Holm's correction (1979) bounds the chance that even one claim of many is wrong.

**Bets.** Intervals and t tests are approximations: they fail where a method fails on a few inputs or networks that the
sample happens not to contain. ``bet`` does not, see there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Clusters = Sequence[Any] | npt.NDArray[Any] | None

CONFIDENCE = 0.95
MIN_NETWORKS = 3
_ROUNDING = 1e-12  # relative spread of values that differ by rounding only
_ADDED = 2  # hits and misses added to a rate (Agresti and Coull, 1998)


class Estimate(NamedTuple):
    """A score with its interval: ``value``, ``low``, ``high``, and ``n``, the number of inputs."""

    value: float
    low: float
    high: float
    n: int


class _Means(NamedTuple):
    """Means of P columns, (P,) float64 each, with what their intervals and tests need."""

    mean: Array
    error: Array  # standard error of the mean; 0 without variation, NaN for a single cluster
    freedom: Array  # degrees of freedom of the error
    skewness: Array  # of the distribution of the mean
    network_error: Array  # standard error from the networks' means alone; 0 for fewer than ``MIN_NETWORKS``
    networks: Array
    clusters: Array  # number of independent groups of inputs
    n: Array  # number of inputs

    def intervals(self) -> Array:
        """Return the ends of the 95 % intervals, (2, P)."""
        from scipy import special

        tail = (1 + CONFIDENCE) / 2
        quantile = special.stdtrit(self.freedom, tail)
        ends = [self.error * self._inverse(quantile), self.error * self._inverse(-quantile)]
        half = self.network_error * special.stdtrit(np.maximum(self.networks - 1, 1), tail)
        return np.stack([self.mean - np.maximum(ends[0], half), self.mean - np.minimum(ends[1], -half)])

    def p_values(self) -> Array:
        """Return the two-sided p-values of the hypotheses that a mean is zero, (P,); 1 without variation."""
        from scipy import special

        with np.errstate(invalid="ignore", divide="ignore"):
            t = self.mean / self.error
            skewness = self.skewness
            t = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
            p_values = 2 * special.stdtr(self.freedom, -np.abs(t))
            of_networks = 2 * special.stdtr(np.maximum(self.networks - 1, 1), -np.abs(self.mean) / self.network_error)
        p_values = np.where(self.network_error > 0, np.maximum(p_values, of_networks), p_values)
        return np.where(self.error > 0, np.minimum(p_values, 1.0), 1.0)

    def _inverse(self, quantile: Array) -> Array:
        """Return the t value whose transformation is a quantile."""
        skewness = np.where(np.abs(self.skewness) < 1e-8, 1e-8, self.skewness)
        return (np.cbrt(1 + skewness * (quantile - skewness / 6)) - 1) * 3 / skewness


def means(
    values: npt.ArrayLike, clusters: Clusters = None, scale: npt.ArrayLike = 0.0, added: npt.ArrayLike | None = None
) -> _Means:
    """Return the means of P columns over inputs and networks.

    Parameters
    ----------
    values
        (N, P) numbers, or (N, K, P) of K networks. NaN values are dropped.
    clusters
        (N,) cluster of each input, such as the image of a question; None for independent inputs.
    scale
        (P,) magnitude of the numbers that the values were computed from; smaller spreads are rounding.
    added
        (M, P) values of inputs to add to columns of hits and misses, NaN for other columns. Each is a cluster of the
        mean size. Columns with added values are not corrected for skewness and tails.
    """
    values = np.asarray(values, np.float64)
    values = values[:, None] if values.ndim == 2 else values
    rates: npt.NDArray[np.bool_] = np.zeros(values.shape[2], bool)
    if added is not None:
        rates = np.logical_and.reduce(np.isfinite(np.asarray(added, np.float64)), axis=0)
        values, clusters = _with_added(values, clusters, np.asarray(added, np.float64))
    known = np.isfinite(values)
    largest = np.abs(np.where(known, values, 0.0)).max(axis=(0, 1), initial=0.0)
    largest = np.maximum(np.asarray(scale, np.float64), largest)
    # A power of two changes no digit, and the fourth powers below neither overflow nor vanish.
    unit: Array = np.exp2(np.frexp(largest)[1] - 1.0)
    values, least = values / unit, _ROUNDING * largest / unit
    # Differences from one of the values: rounding leaves no spread where all values are equal.
    flat = values.reshape(-1, values.shape[2])
    pivot = np.take_along_axis(flat, np.isfinite(flat).argmax(axis=0)[None], axis=0)[0] if len(flat) else 0.0
    sums = cluster_sums(np.where(known, values - pivot, 0.0), clusters)
    sizes = cluster_sums(known, clusters)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = sizes.sum(axis=(0, 1))
        mean = sums.sum(axis=(0, 1)) / total
        residuals = (sums - sizes * mean) / total
        rows, count = residuals.sum(axis=1), np.count_nonzero(sizes.any(axis=1), axis=0).astype(np.float64)
        squares = (rows**2).sum(axis=0)
        kurtosis = np.where(rates | (squares == 0), 1.0, count * (rows**4).sum(axis=0) / squares**2)
        freedom = np.minimum(count - 1, 2 * count / np.maximum(kurtosis - 1, 1e-9))
        of_inputs = count / (count - 1) * squares
        networks = np.count_nonzero(sizes.any(axis=0), axis=0)
        of_networks, of_residuals = _network_variances(residuals, sizes, count, networks)
        variance = np.maximum(of_inputs + of_networks - of_residuals, np.maximum(of_inputs, of_networks))
        parts = of_inputs**2 / freedom + of_networks**2 / np.maximum(networks - 1, 1)
        freedom = np.where(parts > 0, variance**2 / parts, freedom)
        error = np.where(variance <= least**2, 0.0, np.sqrt(variance))
        error[count < 2] = np.nan
        skewness = np.where((error > 0) & ~rates, (rows**3).sum(axis=0) / error**3, 0.0)
    n = known.any(axis=1).sum(axis=0)
    mean, error, network_error = unit * (pivot + mean), unit * error, unit * np.sqrt(of_networks)
    return _Means(mean, error, np.maximum(freedom, 1.0), skewness, network_error, networks, count, n)


def _with_added(values: Array, clusters: Clusters, added: Array) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return (N, K, P) values with (M, P) added ones, each repeated to the mean size of a cluster, and all clusters."""
    names = np.arange(len(values)) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    names = names.reshape(-1)
    size = max(round(len(values) / (names.max() + 1)), 1)
    more = np.repeat(np.broadcast_to(added[:, None], (len(added), *values.shape[1:])), size, axis=0)
    return np.concatenate([values, more]), np.concatenate([names, names.max() + 1 + np.arange(len(more)) // size])


def _network_variances(residuals: Array, sizes: Array, count: Array, networks: Array) -> tuple[Array, Array]:
    """Return the variances of networks and of residuals, (P,) each; zero for columns of too few networks."""
    columns, rows = residuals.sum(axis=0), residuals.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        in_rows = np.nan_to_num(sizes / sizes.sum(axis=1, keepdims=True)) * rows[:, None]
        in_columns = np.nan_to_num(sizes / sizes.sum(axis=0, keepdims=True)) * columns
        cells = residuals - in_rows - in_columns
        correction = count * networks / ((count - 1) * (networks - 1))
        found = networks / (networks - 1) * (columns**2).sum(axis=0), correction * (cells**2).sum(axis=(0, 1))
    enough = networks >= MIN_NETWORKS
    return np.where(enough, found[0], 0.0), np.where(enough, found[1], 0.0)


def mean_interval(
    values: npt.ArrayLike,
    *,
    clusters: Clusters = None,
    rate: float | None = None,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """Return the mean of one value per input, or per input and network, with its 95 % interval.

    Parameters
    ----------
    values
        (N,) finite numbers or booleans (else ``ValueError``); (N, K) of K networks, NaN where a network has no score.
    clusters
        (N,) cluster of each input, such as the image of a question; None for independent inputs.
    rate
        Value of a hit where the metric is a rate: 1, or 100 for percent; 1 for booleans. Values that are all 0 or
        ``rate`` are hits and misses. Two of each are added for the interval, which holds its level near 0 and 1.
    bounds
        Least and greatest value of the metric; the interval ends there. That of a rate ends at 0 and ``rate``, too.

    Returns
    -------
    Estimate
        In the unit of the values; NaN with ``n=0`` without values. The interval contains the mean. It has no width
        where all values are equal, but for a rate, or where there is a single cluster.
    """
    if np.asarray(values).dtype == bool and rate is None:
        rate = 1.0
    values = _by_network(values)
    known = np.isfinite(values)
    if not known.any():
        return Estimate(np.nan, np.nan, np.nan, 0)
    least, greatest = bounds or (-np.inf, np.inf)
    if rate is not None:
        least, greatest = max(least, 0.0), min(greatest, rate)
    found = means(values[..., None], clusters)
    mean, n = float(found.mean[0]), int(found.n[0])
    if rate is not None and np.isin(values[known], (0.0, rate)).all():
        found = means(values[..., None], clusters, added=np.array([[rate], [0.0]]).repeat(_ADDED, axis=0))
    low, high = found.intervals()[:, 0].tolist() if np.isfinite(found.error[0]) else (mean, mean)
    return Estimate(mean, min(max(low, least), mean), max(min(high, greatest), mean), n)


def _by_network(values: npt.ArrayLike) -> Array:
    """Return values as (N, K) float64 of K networks; raise ``ValueError`` for (N,) values that are not finite."""
    values = np.asarray(values, np.float64)
    missing = np.count_nonzero(~np.isfinite(values))
    if values.ndim == 1 and missing:
        raise ValueError(f"{missing} of values are not finite")
    return values[:, None] if values.ndim == 1 else values


def cluster_sums(values: npt.ArrayLike, clusters: Clusters) -> Array:
    """Return the sums of (N, ...) values by cluster, (clusters, ...); the values themselves without clusters."""
    values = np.asarray(values, np.float64)
    if clusters is None:
        return values
    if len(clusters) != len(values):
        raise ValueError(f"{len(values)} values, but {len(clusters)} clusters")
    _, group = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.zeros((group.max(initial=-1) + 1, *values.shape[1:]))
    np.add.at(sums, group.reshape(-1), values)
    return sums


LEVEL = 0.05
MIN_INPUTS = 10  # independent groups of inputs; the approximations were checked from 15 on


class PairComparison(NamedTuple):
    """First minus second over the ``n`` inputs that both have: its 95 % interval, p-value, and Holm's.

    An end of the interval is infinite where the differences cannot exclude anything. ``clusters`` is the number of
    independent groups of inputs.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    p_corrected: float
    n: int
    clusters: int = 0


def compare_pairs(
    values: Mapping[str, npt.ArrayLike],
    pairs: Sequence[tuple[str, str]],
    clusters: Clusters = None,
    scales: Sequence[tuple[float, float]] | None = None,
) -> list[PairComparison]:
    """Compare pairs of methods on the same inputs, with Holm's correction for the number of pairs.

    A pair without common inputs has NaN and does not count for the correction.

    Parameters
    ----------
    values
        Method -> (N,) numbers in the same order of inputs, or (N, K) of the same K networks. An input, or cell, with
        NaN is dropped from the method's pairs. ``ValueError`` if lengths differ.
    pairs
        Names to compare.
    clusters
        (N,) cluster of each input, such as the image of a question; None for independent inputs.
    scales
        Factors of the first and the second score of each pair; 1 by default. ``(0.8, 1)`` tests whether the second
        reaches less than 80 % of the first.
    """
    if not pairs:
        return []
    names, table = list(values), _table(values)
    places = np.array([[names.index(name) for name in pair] for pair in pairs])
    factors = np.ones(places.shape) if scales is None else np.asarray(scales, np.float64)
    results = _compare(table, _hits(table), places.T, factors.T, clusters)
    not_yet = float("nan")  # Holm's p-value
    return holm_corrected(
        [
            PairComparison(*pair, mean, low, high, p_value, not_yet, int(n), int(groups) if n else 0)
            for pair, (mean, low, high, p_value, n, groups) in zip(pairs, results.T.tolist(), strict=True)
        ]
    )


def _table(values: Mapping[str, npt.ArrayLike]) -> Array:
    """Return the values as (N, networks, methods), NaN where they are not finite."""
    shapes = {np.shape(column) for column in values.values()}
    if len(shapes) > 1:
        raise ValueError(f"methods have {sorted(shapes)} values; a paired test needs the same inputs")
    table = np.stack([np.asarray(column, np.float64) for column in values.values()], axis=-1)
    table = np.where(np.isfinite(table), table, np.nan)
    return table[:, None] if table.ndim == 2 else table


def _compare(table: Array, hits: Array, places: npt.NDArray[np.int64], factors: Array, clusters: Clusters) -> Array:
    """Return difference, low, high, p-value, n and clusters of P pairs of columns, (6, P).

    ``hits`` is each column's value of a hit, 0 without a hit, NaN for a column that is no rate.
    """
    first, second = (table[..., place] * factor for place, factor in zip(places, factors, strict=True))
    magnitude = np.maximum(
        *(np.where(np.isfinite(side), np.abs(side), 0.0).max(axis=(0, 1), initial=0.0) for side in (first, second))
    )
    differences = first - second
    plain = found = means(differences, clusters, magnitude)
    least, hit = np.sort(hits[places], axis=0)
    rates = (hit > 0) & ((least == 0) | (least == hit))
    constant = (plain.error == 0) & (np.abs(plain.mean) > 0) & ~rates
    if rates.any() or constant.any():
        size = np.where(constant, np.abs(plain.mean), np.where(rates, hit * factors, np.nan))
        found = means(differences, clusters, magnitude, size * np.array([1, -1])[:, None])
    (low, high), p_values = found.intervals(), found.p_values()
    unknown = np.isnan(plain.error)  # a single cluster
    low = np.where(unknown, -np.inf, np.minimum(low, plain.mean))
    high = np.where(unknown, np.inf, np.maximum(high, plain.mean))
    results = np.stack([plain.mean, low, high, p_values, plain.n, plain.clusters])
    results[:4, plain.n == 0] = np.nan
    return results


def _hits(table: Array) -> Array:
    """Return each column's value of a hit, (M,): 1 or 100, 0 where all values are 0, NaN where others occur."""
    largest = np.where(np.isnan(table), 0.0, table).max(axis=(0, 1), initial=0.0)
    hits_or_misses = (np.isnan(table) | (table == 0) | (table == largest)).all(axis=(0, 1))
    return np.where(hits_or_misses & np.isin(largest, (0.0, 1.0, 100.0)), largest, np.nan)


def holm(p_values: npt.ArrayLike) -> Array:
    """Return Holm's corrected p-values of (N,) p-values, (N,) float64 in [0, 1].

    Those below a level are significant with a family-wise error below that level.
    """
    p_values = np.asarray(p_values, np.float64)
    order = np.argsort(p_values, kind="stable")
    corrected = np.empty_like(p_values)
    corrected[order] = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    bounded: Array = np.minimum(corrected, 1.0)
    return bounded


def holm_corrected(tests: Sequence[PairComparison]) -> list[PairComparison]:
    """Return tests with Holm's correction for their number; a test without inputs does not count."""
    corrected = iter(holm([test.p_value for test in tests if test.n]).tolist())
    return [test._replace(p_corrected=next(corrected)) if test.n else test for test in tests]


def better_than_every(methods: Sequence[str], claims: Sequence[float]) -> dict[str, float]:
    """Return method -> corrected p-value of the claim that it is better than all its baselines.

    ``methods`` and ``claims`` are the method of each comparison with a baseline, and its p-value, 1 where the method is
    not better. Holm's correction is over the methods, each with its largest p-value over the baselines.
    """
    largest: dict[str, float] = {}
    for method, claim in zip(methods, claims, strict=True):
        largest[method] = max(claim, largest.get(method, 0.0))
    return dict(zip(largest, holm(list(largest.values())).tolist(), strict=True))


GROUPS = 20  # of the inputs of one or two networks: each is a unit of a bet
_DRAWS = 10  # of groups, over which a bet's gain is averaged
_LEAST = 0.25  # smallest loss, as a share of the mean: a baseline may be 0 on a few networks by chance


def bet(own: npt.ArrayLike, other: npt.ArrayLike, worst: npt.ArrayLike, clusters: Clusters = None) -> Array:
    """Return p-values of the hypotheses that the means of ``own + other`` are at most 0, (P,) float64 in [0, 1].

    A gambler bets all money on one network after the other. The stake is the largest possible loss L, so a difference
    of x turns 1 into 1 + x / L. Where the mean is at most 0, the money does not grow on average, so the chance to end
    with m times the money is at most 1 / m, for any distribution and number of networks, however rare and large the
    failures (Ville, 1939; Waudby-Smith and Ramdas, JRSS B 2024). One over the final money is the p-value. L is the loss
    of a network on which ``own`` is ``worst`` and ``other`` as low as on any network, and at least a quarter of the
    mean of ``own``. A network's difference is its mean, plus the mean of a group of inputs of its own, minus the mean
    of all, so that other inputs count, too; the money is averaged over draws of these groups. One or two networks are
    fixed: ``GROUPS`` groups of inputs, or all clusters if they are fewer, take the place of networks.

    Parameters
    ----------
    own, other
        (N, K, P) scores times factors, such as 0.8 times a method's and minus a baseline's. NaN values are dropped.
    worst
        (P,) lowest possible value of ``own``; the p-value is 1 where it is infinite.
    clusters
        (N,) cluster of each input; None for independent inputs.
    """
    own, other = np.asarray(own, np.float64), np.asarray(other, np.float64)
    known = np.isfinite(own) & np.isfinite(other)
    networks = int(known.any(axis=(0, 2)).sum())
    names = np.arange(len(own)) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    random = networks >= MIN_NETWORKS
    count = networks if random else min(GROUPS, len(np.unique(names)))
    if not known.any() or count < 2:
        return np.ones(own.shape[2])
    sides = [_sums(side, known, random) for side in (own, other)]
    sizes = known.sum(axis=1)
    largest = np.bincount(names.reshape(-1)).max() * count / len(own)  # cluster, in groups
    gains = []
    for draw in range(_DRAWS):
        members = _groups(names.reshape(-1), count, draw)
        with np.errstate(invalid="ignore", divide="ignore"):
            mine, others = (members @ sums / (members @ sizes) + effects for sums, effects in sides)
        loss = np.maximum(-np.asarray(worst, np.float64) - np.nanmin(others, axis=0), _LEAST * abs(np.nanmean(mine, 0)))
        gains.append(np.maximum(1 + np.nan_to_num(mine + others) / (loss * max(largest, 1.0)), 0.0).prod(axis=0))
    return np.asarray(1 / np.maximum(np.nan_to_num(np.mean(gains, axis=0)), 1.0))


def _sums(values: Array, known: npt.NDArray[np.bool_], with_networks: bool) -> tuple[Array, Array]:
    """Return sums by input, (N, P), and networks' means minus the mean of all, (K, P), or 0 for fixed networks."""
    values = np.where(known, values, 0.0)
    if not with_networks:
        return values.sum(axis=1), np.zeros(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        effects = values.sum(axis=0) / known.sum(axis=0) - values.sum(axis=(0, 1)) / known.sum(axis=(0, 1))
    return values.sum(axis=1), effects[known.any(axis=(0, 2))]


def _groups(names: npt.NDArray[np.int64], count: int, seed: int) -> Array:
    """Return which inputs belong to each of some groups of whole clusters, about equally large, (count, N) 0 or 1."""
    sizes = np.bincount(names)
    order = np.random.default_rng(seed).permutation(len(sizes))
    filled, group = np.zeros(count), np.zeros(len(sizes), np.int64)
    for cluster in order[np.argsort(-sizes[order], kind="stable")]:
        group[cluster] = filled.argmin()
        filled[group[cluster]] += sizes[cluster]
    found: Array = (group[names] == np.arange(count)[:, None]).astype(np.float64)
    return found
