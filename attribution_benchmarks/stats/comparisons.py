"""Which methods are better than which: paired tests of many pairs, corrected for their number.

**One pair.** If two methods are alike, flipping the signs of their differences, cluster by cluster, changes nothing. A
test by such flips is exact where differences are symmetric, however few the inputs. Differences from a constant can be
skewed, and then it claims too much; the bootstrap-t follows skewness, and claims too much of few inputs. So both must
agree: the p-value is the larger one of the two, the interval holds both. It leaves out zero exactly where p is below
0.05, since both ends come from the same two tests, asked of every shift. Differences of hits and misses are symmetric
where two rates are equal, so that there the flips alone decide (McNemar's test).

**Many pairs.** Holm's correction (1979) bounds the chance that even one claim is wrong, whatever the dependence of
tests, and tests of methods on the same inputs are dependent. A procedure that bounds the share of false claims
(Benjamini and Hochberg) finds more, and would leave the reader of a single line in doubt. "Better than every control"
is one claim a method, an intersection of hypotheses to be refused together (Berger, 1982): the largest of its p-values
stands for it, and is corrected for the number of methods alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats import resampling
from attribution_benchmarks.stats.cached_tests import CachedTests
from attribution_benchmarks.stats.statistics import CONFIDENCE

DRAWS = 19_999  # the smallest p-value is 0.0001: enough for Holm's correction of 500 pairs
LEVEL = 0.05
POWER = 0.8
_PAIRS_AT_ONCE = 64  # bounds the memory: some 100 MB of draws
# Products of matrices compute so many columns alike; those left over may differ in the last digit. With none left over,
# a pair has the same digits beside whichever others it is tested, and whether its test was kept or not.
_TOGETHER = 16


class PairComparison(NamedTuple):
    """First minus second over the ``n`` inputs that both have: its 95 % interval, p-value, and Holm's.

    An end of the interval is infinite where the inputs are too few to exclude anything. ``error`` is the standard error
    of the difference, ``clusters`` how many independent groups of inputs are behind it.
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


def holm(p_values: npt.ArrayLike) -> np.ndarray:
    """Correct p-values for their number: each, times how many are at least as large, and never falling.

    Parameters
    ----------
    p_values
        (N,) numbers in [0, 1].

    Returns
    -------
    np.ndarray
        (N,) float64 in [0, 1]; those below a level are significant with a family-wise error below it.
    """
    p_values = np.asarray(p_values, np.float64)
    order = np.argsort(p_values, kind="stable")
    raised = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(raised, 1.0)
    return corrected


def compare(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    clusters: Sequence | np.ndarray | None = None,
    seed: int = 0,
) -> PairComparison:
    """Compare two methods scored on the same inputs; the p-value is that of ``compare_pairs``, which needs no other.

    Parameters
    ----------
    first, second
        (N,) numbers or booleans in the same order.
    clusters, seed
        As of ``compare_pairs``.

    Raises
    ------
    ValueError
        If lengths differ or there are no values.
    """
    if not len(first):
        raise ValueError("no values to compare")
    return compare_pairs({"first": first, "second": second}, [("first", "second")], clusters, seed=seed)[0]


def compare_pairs(
    values: Mapping[str, Sequence[float] | np.ndarray],
    pairs: Sequence[tuple[str, str]],
    clusters: Sequence | np.ndarray | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    cache: CachedTests | None = None,
) -> list[PairComparison]:
    """Compare pairs of methods scored on the same inputs; the pairs are one family for Holm's correction.

    Parameters
    ----------
    values
        Method -> (N,) numbers, one per input in the same order; NaN where a method has none for an input, which is
        then left out of that method's pairs.
    pairs
        Names to compare.
    clusters
        (N,) what inputs belong to, such as the image of a question: signs are flipped and draws made by cluster. None
        takes each input for itself.
    draws
        Of the bootstrap, and of the signs where there are more ways to choose them. They depend on the seed and the
        number of clusters alone, so that a pair has the same p-value in every family.
    seed
        Seed of the draws.
    cache
        Tests of the same draws and seed: what was tested before is found there, what is new is added.

    Returns
    -------
    list of PairComparison
        In the order of the pairs. A pair without common inputs has NaN and takes no part in the correction.

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
    differences = np.stack([columns[first] - columns[second] for first, second in pairs], axis=1)
    known = np.isfinite(differences)
    counted = np.flatnonzero(known.any(axis=0))
    differences[~known] = 0.0
    found = np.full((7, len(pairs)), np.nan)
    waiting = counted
    if cache is not None:
        for part in _parts(counted):
            found[:, part] = cache.load(*_by_cluster(differences, known, part, clusters))
        waiting = counted[np.isnan(found[6, counted])]
    for part in _parts(waiting):
        sums, sizes = _by_cluster(differences, known, part, clusters)
        found[:, part] = _test(sums, sizes, draws, seed)
        if cache is not None:
            cache.save(sums, sizes, found[:, part])
    n = known.sum(axis=0)
    tests = [
        PairComparison._make(
            [*pair, *map(float, found[:5, i]), int(n[i]), float(found[5, i]), int(np.nan_to_num(found[6, i]))]
        )
        for i, pair in enumerate(pairs)
    ]
    return holm_corrected(tests)


def holm_corrected(tests: Sequence[PairComparison]) -> list[PairComparison]:
    """Return tests corrected for their own number by Holm's rule, whatever they were corrected for before."""
    counted = [test.p_value for test in tests if test.n]
    corrected = iter(holm(counted).tolist())
    return [test._replace(p_corrected=next(corrected)) if test.n else test for test in tests]


def better_than_every(tests: Sequence[PairComparison], higher_is_better: bool = True) -> list[PairComparison]:
    """Correct the tests of methods against controls for the claim "better than every control".

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
        controls, with the chance of any such claim being wrong below the level, where all its corrected values are
        below it. They are Holm's over the methods, each other method standing there with its weakest control.
    """
    sign = 1 if higher_is_better else -1
    claims = [test.p_value if sign * test.difference > 0 else 1.0 for test in tests]
    methods = list(dict.fromkeys(test.first for test in tests))
    weakest = np.array(
        [max(claim for claim, test in zip(claims, tests, strict=True) if test.first == name) for name in methods]
    )
    corrected = []
    for claim, test in zip(claims, tests, strict=True):
        place = methods.index(test.first)
        corrected.append(float(holm(np.concatenate([weakest[:place], [claim], weakest[place + 1 :]]))[place]))
    return [test._replace(p_corrected=value) for test, value in zip(tests, corrected, strict=True)]


def minimum_detectable_difference(tests: Sequence[PairComparison], claims: int | None = None) -> float:
    """Return the smallest true difference that such tests would find four times in five.

    By Student's t at the first and strictest step of Holm's correction, with the median error of the tests.

    Parameters
    ----------
    tests
        From ``compare_pairs``.
    claims
        How many are corrected for; the tests themselves when None.

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
    quantiles = special.stdtrit(usual - 1, 1 - level / 2), special.stdtrit(usual - 1, POWER)
    return float(sum(quantiles) * np.median(errors))


def smallest_p_value(clusters: int) -> float:
    """Return the smallest p-value that flipping the signs of so many clusters can give."""
    return max(2.0 ** (1 - clusters), 2 / (DRAWS + 1))


def _parts(places: np.ndarray) -> Iterator[np.ndarray]:
    return (places[start : start + _PAIRS_AT_ONCE] for start in range(0, len(places), _PAIRS_AT_ONCE))


def _by_cluster(differences: np.ndarray, known: np.ndarray, part: np.ndarray, clusters) -> tuple[np.ndarray, ...]:
    return tuple(resampling.cluster_sums(columns[:, part], clusters) for columns in (differences, known))


def _filled_up(sums: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of sums and sizes with others behind them, so that they are a multiple of ``_TOGETHER``."""
    more = ((0, 0), (0, -sums.shape[1] % _TOGETHER))
    # By line: what is kept by column is added up in another order.
    return (
        np.pad(np.ascontiguousarray(sums, np.float64), more),
        np.pad(np.ascontiguousarray(sizes, np.float64), more, constant_values=1.0),
    )


def _test(sums: np.ndarray, sizes: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Return difference, low, high, p-value, NaN, error and clusters of each column of clusters' sums, (7, K)."""
    columns = sums.shape[1]
    sums, sizes = _filled_up(sums, sizes)
    total = sizes.sum(axis=0)
    difference = sums.sum(axis=0) / total
    clusters = np.count_nonzero(sizes, axis=0)
    flipped = resampling.subset_means(sums, sizes, draws, seed)
    errors = resampling.standard_errors(sums, sizes)
    # What rounding leaves of differences that are all the same is no error.
    errors[errors <= 1e-12 * np.abs(sums).max(axis=0)] = 0.0
    alone = clusters < 2
    errors = np.where(alone, np.nan, errors)
    # Differences of hits and misses, each input for itself, are symmetric wherever the rates are equal: the flips are
    # exact, and the bootstrap, whose draws may be all alike, has nothing to add.
    largest = np.abs(sums).max(axis=0)
    exact = (sizes <= 1).all(axis=0) & ((sums == 0) | (np.abs(sums) == largest)).all(axis=0) & ~alone
    # Evidence for a mean above and below zero, each: of subsets and of t; a subset without values flips nothing.
    above, below = _share(~(flipped > 0)), _share(~(flipped < 0))
    low, high = _ends(flipped)
    rest = np.flatnonzero(~exact)
    if len(rest):
        _, strayed = resampling.bootstrap_t(*_filled_up(sums[:, rest], sizes[:, rest]), draws, seed)
        strayed = strayed[:, : len(rest)]
        with np.errstate(invalid="ignore", divide="ignore"):
            observed = np.where(errors > 0, difference / errors, np.sign(difference) * np.inf)
        observed[(errors == 0) & (difference == 0)] = 0.0
        observed = observed[rest]
        slack = 1e-9 * np.maximum(1.0, np.where(np.isfinite(observed), np.abs(observed), 1.0))
        lonely = alone[rest]
        above[rest] = np.maximum(above[rest], np.where(lonely, 1.0, _share(strayed >= observed - slack)))
        below[rest] = np.maximum(below[rest], np.where(lonely, 1.0, _share(strayed <= observed + slack)))
        ends = _ends(strayed)
        with np.errstate(invalid="ignore"):
            near = np.where(lonely, -np.inf, difference[rest] - np.nan_to_num(errors[rest]) * ends[1])
            far = np.where(lonely, np.inf, difference[rest] - np.nan_to_num(errors[rest]) * ends[0])
        low[rest], high[rest] = np.minimum(low[rest], near), np.maximum(high[rest], far)
    p_values = np.minimum(2 * np.minimum(above, below), 1.0)
    for end in (low, high):
        end[np.abs(end) <= 1e-9 * np.nan_to_num(errors)] = 0.0
    low, high = np.minimum(low, difference), np.maximum(high, difference)
    return np.stack([difference, low, high, p_values, np.full_like(p_values, np.nan), errors, clusters])[:, :columns]


def _share(counted: np.ndarray) -> np.ndarray:
    """Return the share of draws that are as extreme, the observed one counted as one more draw, (K,)."""
    return (np.count_nonzero(counted, axis=0) + 1) / (len(counted) + 1)


def _ends(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest shift that a test at the level of the interval does not refuse, (K,) each.

    They are draws themselves, as many from either end as ``_share`` would still call extreme; a NaN is extreme on both
    sides.
    """
    count = len(drawn)
    tail = (1 - CONFIDENCE) / 2 * (count + 1)
    place = int(np.ceil(tail - 1e-9)) - 1  # shares below the level have fewer than this and the observed one
    if place < 1:
        return np.full(drawn.shape[1], -np.inf), np.full(drawn.shape[1], np.inf)
    low = np.partition(np.where(np.isnan(drawn), -np.inf, drawn), place - 1, axis=0)[place - 1]
    high = np.partition(np.where(np.isnan(drawn), np.inf, drawn), count - place, axis=0)[count - place]
    return low, high
