"""Paired tests of many pairs of methods, corrected for their number.

**One pair.** The mean difference over inputs and networks is tested as ``stats.statistics`` says. Rates are
compared with one difference of each sign added (Agresti and Min, 2005), and so are differences that do not vary: that
all of a few inputs agree does not show that all others do.

**Many pairs.** Holm's correction (1979) bounds the chance that even one claim is wrong, whatever the dependence of the
tests. "Better than every baseline" is one claim per method, an intersection of hypotheses (Berger, 1982): its p-value
is the largest over the baselines, corrected for the number of methods only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats.statistics import Array, Clusters, means

LEVEL = 0.05
MIN_INPUTS = 10  # independent groups of inputs; the approximations were checked from 15 on
_POWER = 0.8
_NUMBERS_AT_ONCE = 4_000_000  # bounds the memory: some 200 MB


class PairComparison(NamedTuple):
    """First minus second over the ``n`` inputs that both have: its 95 % interval, p-value, and Holm's.

    An end of the interval is infinite where the differences cannot exclude anything. ``error`` is the standard error
    of the difference and ``freedom`` its degrees of freedom, ``clusters`` the number of independent groups of inputs.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    p_corrected: float
    n: int
    error: float = float("nan")
    clusters: int = 0
    freedom: float = float("nan")


def compare(first: npt.ArrayLike, second: npt.ArrayLike, clusters: Clusters = None) -> PairComparison:
    """Compare (N,) scores of two methods on the same inputs, see ``compare_pairs``; ``ValueError`` without values."""
    if not np.size(first):
        raise ValueError("no values to compare")
    return compare_pairs({"first": first, "second": second}, [("first", "second")], clusters)[0]


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
    at_once = max(1, _NUMBERS_AT_ONCE // (table.shape[0] * table.shape[1] + 1))
    parts = [slice(start, start + at_once) for start in range(0, len(pairs), at_once)]
    hits = _hits(table)
    results = np.concatenate(
        [_compare(table, hits, places[part].T, factors[part].T, clusters) for part in parts], axis=1
    )
    not_yet = float("nan")  # Holm's p-value
    return holm_corrected(
        [
            PairComparison(*pair, mean, low, high, p_value, not_yet, int(n), error, int(groups) if n else 0, freedom)
            for pair, (mean, low, high, p_value, n, error, groups, freedom) in zip(
                pairs, results.T.tolist(), strict=True
            )
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
    """Return difference, low, high, p-value, n, error, clusters and freedom of P pairs of columns, (8, P).

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
    error, freedom = found.decisive_errors()
    unknown = np.isnan(plain.error)  # a single cluster
    low = np.where(unknown, -np.inf, np.minimum(low, plain.mean))
    high = np.where(unknown, np.inf, np.maximum(high, plain.mean))
    results = np.stack([plain.mean, low, high, p_values, plain.n, error, plain.clusters, freedom])
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


def minimum_detectable_difference(tests: Sequence[PairComparison], claims: int | None = None) -> float:
    """Return the smallest true difference that such tests find with a power of 80 %, in the unit of the metric.

    By Student's t at the strictest step of Holm's correction for ``claims`` claims (the number of tests when None),
    with the median error of the tests. Infinite for fewer than ``MIN_INPUTS`` independent inputs; NaN without a test.
    """
    from scipy import special

    known = [test for test in tests if np.isfinite(test.error) and test.clusters >= MIN_INPUTS]
    if not known:
        return float("inf") if any(test.n for test in tests) else float("nan")
    level, freedom = LEVEL / (claims or len(tests)), float(np.median([test.freedom for test in known]))
    quantiles = special.stdtrit(freedom, 1 - level / 2), special.stdtrit(freedom, _POWER)
    return float(sum(quantiles) * np.median([test.error for test in known]))
