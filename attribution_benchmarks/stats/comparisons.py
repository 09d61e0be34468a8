"""Paired tests of many pairs of methods, corrected for their number.

**One pair.** If two methods are alike, flipping the signs of their differences, cluster by cluster, changes nothing. A
sign flip test is exact for symmetric differences, however few the inputs, and too liberal for skewed ones, such as
differences from a constant. The bootstrap-t follows skewness and is too liberal for few inputs. So both must agree: the
p-value is the larger of the two, and the interval contains both. The interval excludes zero exactly where p is below
0.05, because its ends invert the same two tests. Differences of hits and misses are symmetric where two rates are
equal, so there the flips alone decide (McNemar's test).

**Many pairs.** Holm's correction (1979) bounds the chance that even one claim is wrong, whatever the dependence of the
tests; tests of methods on the same inputs are dependent. "Better than every control" is one claim per method, an
intersection of hypotheses (Berger, 1982): its p-value is the largest over the controls, corrected for the number of
methods only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from attribution.errors import BadInput
from attribution_benchmarks.stats import resampling
from attribution_benchmarks.stats.resampling import Array
from attribution_benchmarks.stats.statistics import CONFIDENCE, Clusters

DRAWS = 19_999  # the smallest p-value is 0.0001: enough for Holm's correction of 500 pairs
LEVEL = 0.05
_POWER = 0.8
_PAIRS_AT_ONCE = 64  # bounds the memory: some 100 MB of draws
_SHARING_PAIRS_AT_ONCE = 1280  # some 400 MB with 10,000 inputs
_SHARING_FROM = 1000  # clusters; fewer are tested in no time, one pair at a time
# Matrix products compute full blocks of columns alike; columns of a partial block may differ in the last digit. With
# full blocks only, a pair has the same digits in every family of pairs, whether its test was cached or not.
_BLOCK = 16


class PairComparison(NamedTuple):
    """First minus second over the ``n`` inputs that both have: its 95 % interval, p-value, and Holm's.

    An end of the interval is infinite where the inputs are too few to exclude anything. ``error`` is the standard error
    of the difference, ``clusters`` the number of independent groups of inputs.
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


class _Tests(NamedTuple):
    """Results of K paired tests, (K,) float64 each."""

    difference: Array
    low: Array
    high: Array
    p_value: Array
    error: Array
    clusters: Array


class _Series(Protocol):
    """A persistent mapping from a name to a record, such as ``core.store.Series``."""

    path: str | None

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names without a record."""

    def records(self, names: Iterable[str]) -> Iterator[Any]:
        """Yield the records of some names."""

    def append(self, records: Mapping[str, object]) -> None:
        """Add records."""


class CachedTests:
    """Paired tests in a series of a store, keyed by their input data.

    A test is known by its differences summed by cluster: pairs of equal scores share a test, and changed scores are
    tested again.

    Parameters
    ----------
    series
        From ``core.store.ScoreStore.series``; its key holds the code, the draws, the seed and the versions.
    """

    def __init__(self, series: _Series):
        self._series = series

    def load(self, sums: Array, sizes: Array) -> Array:
        """Return cached tests, (6, K) float64, NaN in the columns of tests that are missing.

        Parameters
        ----------
        sums, sizes
            (clusters, K) each cluster's sum and number of values.

        Raises
        ------
        BadInput
            If a record is not a test.
        """
        names = _hashes(sums, sizes)
        missing = set(self._series.missing(names))
        cached = [column for column, name in enumerate(names) if name not in missing]
        found = np.full((len(_Tests._fields), len(names)), np.nan)
        try:
            for column, record in zip(cached, self._series.records(names[i] for i in cached), strict=True):
                found[:, column] = [float.fromhex(number) for number in record]
        except (TypeError, ValueError) as error:
            raise BadInput(f"{self._series.path} holds no paired tests; remove it to compute them again") from error
        return found

    def save(self, sums: Array, sizes: Array, tests: Array) -> None:
        """Add tests, (6, K) float64, of sums and sizes as of ``load``."""
        # Hexadecimal numbers keep all digits, and may be infinite.
        records = ([number.hex() for number in column] for column in tests.T.tolist())
        self._series.append(dict(zip(_hashes(sums, sizes), records, strict=True)))


def _hashes(sums: Array, sizes: Array) -> list[str]:
    columns = zip(np.ascontiguousarray(sums.T), np.ascontiguousarray(sizes.T), strict=True)
    return [hashlib.sha256(one.tobytes() + other.tobytes()).hexdigest()[:32] for one, other in columns]


def compare(first: npt.ArrayLike, second: npt.ArrayLike, clusters: Clusters = None, seed: int = 0) -> PairComparison:
    """Compare (N,) scores of two methods on the same inputs; see ``compare_pairs``.

    Raises
    ------
    ValueError
        If lengths differ or there are no values.
    """
    if not np.size(first):
        raise ValueError("no values to compare")
    return compare_pairs({"first": first, "second": second}, [("first", "second")], clusters, seed=seed)[0]


def compare_pairs(
    values: Mapping[str, npt.ArrayLike],
    pairs: Sequence[tuple[str, str]],
    clusters: Clusters = None,
    draws: int = DRAWS,
    seed: int = 0,
    cache: CachedTests | None = None,
) -> list[PairComparison]:
    """Compare pairs of methods on the same inputs, with Holm's correction for the number of pairs.

    Parameters
    ----------
    values
        Method -> (N,) numbers, one per input in the same order. An input with NaN is dropped from the method's pairs.
    pairs
        Names to compare.
    clusters
        (N,) cluster of each input, such as the image of a question; None for independent inputs.
    draws, seed
        Of the bootstrap, and of the signs unless all can be enumerated. They depend on the number of clusters only, so
        a pair has the same p-value in every family.
    cache
        Tests of the same draws and seed. New tests are added.

    Returns
    -------
    list of PairComparison
        In the order of the pairs. A pair without common inputs has NaN and does not count for the correction.

    Raises
    ------
    ValueError
        If lengths differ.
    """
    columns = {name: np.asarray(column, np.float64) for name, column in values.items()}
    lengths = {len(column) for column in columns.values()} | ({len(clusters)} if clusters is not None else set())
    if len(lengths) > 1:
        raise ValueError(f"methods have {sorted(lengths)} values; a paired test needs the same inputs")
    if not pairs:
        return []
    names = list(columns)
    places = np.array([[names.index(name) for name in pair] for pair in pairs]).T
    found = []
    results = _run_tests(np.stack(list(columns.values()), axis=1), places, clusters, draws, seed, cache)
    for pair, (n, *numbers, count) in zip(pairs, results.T.tolist(), strict=True):
        difference, low, high, p_value, error = numbers
        values_of_pair = (difference, low, high, p_value, float("nan"), int(n), error, int(count) if n else 0)
        found.append(PairComparison(*pair, *values_of_pair))
    return holm_corrected(found)


def _shared_columns(
    values: Array, places: npt.NDArray[np.int64], clusters: Clusters
) -> resampling.SharedColumns | None:
    """Return the columns of values without NaN for the pairs of ``places``; None for few clusters."""
    complete = ~np.isnan(values).any(axis=0)
    if len(values) <= _SHARING_FROM or not complete.any():
        return None
    # Differences from the methods' mean: rounding is relative to what distinguishes methods.
    centred = np.where(complete, values - values[:, complete].mean(axis=1, keepdims=True), np.nan)
    sums, sizes = (resampling.cluster_sums(each, clusters) for each in (centred, np.ones((len(values), 1))))
    return resampling.SharedColumns(sums, sizes, *places) if len(sums) > _SHARING_FROM else None


def _run_tests(
    values: Array,
    places: npt.NDArray[np.int64],
    clusters: Clusters,
    draws: int,
    seed: int,
    cache: CachedTests | None,
) -> Array:
    """Return the number of inputs and the tests of pairs of columns, (7, K) float64, NaN for pairs without an input.

    Parameters
    ----------
    values, places
        (N, M) scores of methods, and (2, K) the columns of each pair.
    """
    values = np.where(np.isfinite(values), values, np.nan)
    shared = _shared_columns(values, places, clusters)
    known = ~np.isnan(values)
    counts = (known.T.astype(np.float64) @ known)[tuple(places)]
    results = np.full((len(_Tests._fields), len(counts)), np.nan)
    is_shared = np.zeros(len(counts), bool)

    def in_parts(which: npt.NDArray[np.int64], at_once: int) -> Iterator[tuple[npt.NDArray[np.int64], Array, Array]]:
        for start in range(0, len(which), at_once):
            part = which[start : start + at_once]
            first, second = places[:, part]
            differences = values.take(first, axis=1)
            differences -= values.take(second, axis=1)
            sums = resampling.cluster_sums(np.nan_to_num(differences, copy=False), clusters)
            if shared is not None and is_shared[part].all():
                yield part, sums, np.broadcast_to(shared.sizes, sums.shape)
            else:
                both = known.take(first, axis=1) & known.take(second, axis=1)
                yield part, sums, resampling.cluster_sums(both, clusters)

    untested = np.flatnonzero(counts)
    for part, sums, sizes in in_parts(untested, _PAIRS_AT_ONCE):
        if cache is not None:
            results[:, part] = cache.load(sums, sizes)
        if shared is not None:
            is_shared[part] = shared.of_pairs(part).represent(sums)
    untested = untested[np.isnan(results[-1, untested])]
    for kind, at_once in ((False, _PAIRS_AT_ONCE), (True, _SHARING_PAIRS_AT_ONCE)):
        for part, sums, sizes in in_parts(untested[is_shared[untested] == kind], at_once):
            results[:, part] = _test(sums, sizes, draws, seed, shared.of_pairs(part) if shared and kind else None)
            if cache is not None:
                cache.save(sums, sizes, results[:, part])
    return np.concatenate([counts[None], results])


def holm(p_values: npt.ArrayLike) -> Array:
    """Return Holm's corrected p-values, (N,) float64 in [0, 1].

    Those below a level are significant with a family-wise error below that level.

    Parameters
    ----------
    p_values
        (N,) numbers in [0, 1].
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


def better_than_every(tests: Sequence[PairComparison], higher_is_better: bool = True) -> list[PairComparison]:
    """Correct tests of methods against controls for the claim "better than every control".

    Parameters
    ----------
    tests
        From ``compare_pairs``, the method first: all controls of all methods of a column.
    higher_is_better
        Direction of the metric.

    Returns
    -------
    list of PairComparison
        With ``p_corrected`` of the claim that the method is better: 1 where it is not. A method is better than all its
        controls where all its corrected values are below the level; the chance that any such claim is wrong is below
        the level too. The values are Holm's over the methods, each other method with its largest p-value.
    """
    sign = 1 if higher_is_better else -1
    claims = [test.p_value if sign * test.difference > 0 else 1.0 for test in tests]
    largest: dict[str, float] = {}
    for test, claim in zip(tests, claims, strict=True):
        largest[test.first] = max(claim, largest.get(test.first, 0.0))
    corrected = []
    for test, claim in zip(tests, claims, strict=True):
        family = {**largest, test.first: claim}
        p_corrected = holm(list(family.values()))[list(family).index(test.first)]
        corrected.append(test._replace(p_corrected=float(p_corrected)))
    return corrected


def minimum_detectable_difference(tests: Sequence[PairComparison], claims: int | None = None) -> float:
    """Return the smallest true difference that such tests find with a power of 80 %.

    By Student's t at the strictest step of Holm's correction, with the median error of the tests.

    Parameters
    ----------
    tests
        From ``compare_pairs``.
    claims
        Number of claims to correct for; the number of tests when None.

    Returns
    -------
    float
        In the unit of the metric. Infinite where the inputs are too few for any difference to be significant; NaN
        without a test.
    """
    from scipy import special

    errors = [test.error for test in tests if np.isfinite(test.error)]
    clusters = [test.clusters for test in tests if test.n]
    if not clusters:
        return float("nan")
    level, usual = LEVEL / (claims or len(tests)), int(np.median(clusters))
    if not errors or smallest_p_value(usual) >= level:
        return float("inf")
    quantiles = special.stdtrit(usual - 1, 1 - level / 2), special.stdtrit(usual - 1, _POWER)
    return float(sum(quantiles) * np.median(errors))


def smallest_p_value(clusters: int) -> float:
    """Return the smallest p-value of a sign flip test of so many clusters."""
    return max(2.0 ** (1 - clusters), 2 / (DRAWS + 1))


def _test(sums: Array, sizes: Array, draws: int, seed: int, shared: resampling.SharedColumns | None = None) -> _Tests:
    """Test each of K columns of clusters' sums of differences, (C, K), against a mean of zero."""
    columns = sums.shape[1]
    if shared is None:
        sums, sizes = _in_blocks(sums, sizes)
    difference = sums.sum(axis=0) / sizes.sum(axis=0)
    clusters = np.count_nonzero(sizes, axis=0)
    largest = np.abs(sums).max(axis=0)
    error = np.sqrt(resampling.ratio_variances(sums, sizes)[1])
    error[error <= 1e-12 * largest] = 0.0  # all differences are equal up to rounding
    error[clusters < 2] = np.nan
    # Evidence for a mean above and below zero; a subset without values flips nothing.
    flipped = (
        resampling.subset_means(sums, sizes, draws, seed) if shared is None else shared.subset_means(sums, draws, seed)
    )
    above, below = _tail_share(~(flipped > 0)), _tail_share(~(flipped < 0))
    low, high = _ends(flipped)
    del flipped
    # Differences of hits and misses, each input its own cluster, are symmetric wherever the rates are equal: the flips
    # are exact, and bootstrap draws, which may be all alike, add nothing.
    exact = (sizes <= 1).all(axis=0) & ((sums == 0) | (np.abs(sums) == largest)).all(axis=0) & (clusters > 1)
    rest = np.flatnonzero(~exact)
    if len(rest):
        if len(rest) < len(exact):
            sums, sizes, shared = sums[:, rest], sizes[:, rest], shared and shared.of_pairs(rest)
        found = _bootstrap_t_test(sums, sizes, difference[rest], error[rest], draws, seed, shared)
        above[rest], below[rest] = np.maximum(above[rest], found[0]), np.maximum(below[rest], found[1])
        low[rest], high[rest] = np.minimum(low[rest], found[2]), np.maximum(high[rest], found[3])
    p_value = np.minimum(2 * np.minimum(above, below), 1.0)
    for end in (low, high):
        end[np.abs(end) <= 1e-9 * np.nan_to_num(error)] = 0.0
    low, high = np.minimum(low, difference), np.maximum(high, difference)
    results = _Tests(difference, low, high, p_value, error, clusters.astype(np.float64))
    return _Tests._make(result[:columns] for result in results)


def _bootstrap_t_test(
    sums: Array,
    sizes: Array,
    difference: Array,
    error: Array,
    draws: int,
    seed: int,
    shared: resampling.SharedColumns | None,
) -> tuple[Array, Array, Array, Array]:
    """Return the one-sided p-values for a mean above and below zero and the interval's ends, (K,) each.

    A column of a single cluster has p-values of 1 and no ends.
    """
    single = np.isnan(error)
    error = np.nan_to_num(error)
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = np.where(error > 0, difference / error, np.sign(difference) * np.inf)
    observed[(error == 0) & (difference == 0)] = 0.0
    slack = 1e-9 * np.where(np.isfinite(observed), np.maximum(1.0, np.abs(observed)), 1.0)
    if shared is None:
        t_values = resampling.bootstrap_t(*_in_blocks(sums, sizes), draws, seed)[1][:, : len(difference)]
    else:
        t_values = shared.bootstrap_t(sums, observed, slack, _ranks(draws), draws, seed)
    above = np.where(single, 1.0, _tail_share(t_values >= observed - slack))
    below = np.where(single, 1.0, _tail_share(t_values <= observed + slack))
    least, greatest = _ends(t_values)
    with np.errstate(invalid="ignore"):
        low = np.where(single, -np.inf, difference - error * greatest)
        high = np.where(single, np.inf, difference - error * least)
    return above, below, low, high


def _in_blocks(sums: Array, sizes: Array) -> tuple[Array, Array]:
    """Return columns of sums and sizes, padded to a multiple of ``_BLOCK`` columns and contiguous by row."""
    padding = ((0, 0), (0, -sums.shape[1] % _BLOCK))
    return (  # the order of additions depends on the layout
        np.pad(np.ascontiguousarray(sums), padding),
        np.pad(np.ascontiguousarray(sizes), padding, constant_values=1.0),
    )


def _tail_share(extreme: npt.NDArray[np.bool_]) -> Array:
    """Return the share of draws that are as extreme, with the observed one counted as one more, (K,)."""
    return np.asarray((np.count_nonzero(extreme, axis=0) + 1) / (len(extreme) + 1), np.float64)


def _ends(drawn: Array) -> tuple[Array, Array]:
    """Return the smallest and largest shift that a test at the interval's level does not reject, (K,) each.

    They are draws, as many from either end as ``_tail_share`` calls extreme; NaN is extreme on both sides.
    """
    ranks = _ranks(len(drawn))
    if not ranks:
        return np.full(drawn.shape[1], -np.inf), np.full(drawn.shape[1], np.inf)
    ends = []
    for start in range(0, drawn.shape[1], _PAIRS_AT_ONCE):
        part = drawn[:, start : start + _PAIRS_AT_ONCE]
        for rank, extreme in zip(ranks, (-np.inf, np.inf), strict=True):
            ordered = np.array(part)
            ordered[np.isnan(ordered)] = extreme
            ordered.partition(rank, axis=0)
            ends.append(ordered[rank])
    return np.concatenate(ends[::2]), np.concatenate(ends[1::2])


def _ranks(count: int) -> tuple[int, ...]:
    """Return the places of the interval's ends in the order of draws; empty for too few draws."""
    tail = (1 - CONFIDENCE) / 2 * (count + 1)
    rank = int(np.ceil(tail - 1e-9)) - 1  # shares below the level have fewer draws and the observed one
    return () if rank < 1 else (rank - 1, count - rank)
