"""Rank correlations with intervals, and the agreement of several rankings of the same methods."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats.statistics import CONFIDENCE, Array, Clusters, Estimate

_PERMUTATIONS = 10_000
_MIN_FAMILIES = 5  # fewer do not show a spread
_MIN_CLUSTERS = 10
_ROUNDING = 1e-12  # of a probability
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


def kendall_tau(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return Kendall's rank correlation tau-b of (N,) finite numbers, in [-1, 1].

    NaN for fewer than two pairs, or where one side is constant. ``ValueError`` for other numbers or lengths that
    differ.
    """
    from scipy.stats import kendalltau

    first, second = _paired(first, second)
    # The p-value is not used. The exact one is expensive; the asymptotic one divides by zero for two values.
    return float(kendalltau(first, second, method="asymptotic" if len(first) > 2 else "auto").statistic)


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


def kendall_interval(first: npt.ArrayLike, second: npt.ArrayLike, families: Sequence[Hashable]) -> Estimate:
    """Return Kendall's tau-b of two rankings of methods, with a 95 % interval that generalises to other families.

    The jackknife leaves out one family at a time; ``n`` is the number of methods. The interval is [-1, 1] for fewer
    than five families.
    """
    first, second = _paired(first, second)
    value, names = kendall_tau(first, second), np.array([str(name) for name in families])
    low, high = _over_families(value, lambda kept: kendall_tau(first[kept], second[kept]), names, -1.0)
    return Estimate(value, -1.0 if np.isnan(low) else low, 1.0 if np.isnan(high) else high, len(first))


def _over_families(
    value: float, without: Callable[[npt.NDArray[np.bool_]], float], families: npt.NDArray[Any], least: float
) -> tuple[float, float]:
    """Return the 95 % interval of a statistic within [least, 1], from leaving out one family at a time.

    ``without`` returns the statistic of some of the methods. NaN for too few families, or where it is undefined.
    """
    others = [without(families != one) for one in np.unique(families)]
    if len(others) < _MIN_FAMILIES or not np.isfinite(others).all():
        return float("nan"), float("nan")
    low, high = _jackknife(value, others)
    return max(low, least), min(high, 1.0)


class AgreementByChance(NamedTuple):
    """What unrelated rankings give, and the power to recognise related ones by W.

    ``tau`` is the smallest t with P(abs(tau) <= t) >= 95 %, ``w`` the 95 % quantile of W.
    """

    tau: float = float("nan")
    w: float = float("nan")
    power: float = float("nan")


def agreement_by_chance(
    n: int, judges: int = 2, correlation: float = 0.5, draws: int = 2000, seed: int = 0
) -> AgreementByChance:
    """Return what unrelated rankings give, and how often related ones are recognised.

    Of ``judges`` rankings of ``n`` independent methods (families). Tau is exact, W is simulated. The scores of related
    rankings are normal, every two with the given ``correlation``.
    """
    if n < 2 or judges < 2:
        return AgreementByChance()
    generator = np.random.default_rng(seed)
    common, own, unrelated = (generator.normal(size=(n, draws, count)) for count in (1, judges, judges))
    related = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    of_unrelated, of_related = (
        _ranks(scores).sum(axis=2).var(axis=0) / (judges**2 * (n**2 - 1) / 12) for scores in (unrelated, related)
    )
    limit = float(np.quantile(of_unrelated, CONFIDENCE))
    return AgreementByChance(_tau_by_chance(n), limit, float((of_related > limit).mean()))


def _tau_by_chance(n: int) -> float:
    """Return the smallest t with P(abs(tau) <= t) >= 95 % over all orders of ``n`` methods, each as likely."""
    inversions = np.ones(1)  # probability of each number of pairs in the other order
    for size in range(2, n + 1):
        inversions = np.convolve(inversions, np.full(size, 1 / size))
    taus = np.abs(np.linspace(1, -1, len(inversions)))
    order = np.argsort(taus)
    return float(taus[order][np.searchsorted(inversions[order].cumsum(), CONFIDENCE - _ROUNDING)])


def rank_correlations(scores: npt.ArrayLike) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return Spearman's correlation of every two columns of (n, m) scores over the methods that both rank.

    NaN is a column that does not rank a method. Returns (m, m) float64 correlations, NaN for fewer than three common
    methods or a constant side, and (m, m) int64 numbers of common methods.
    """
    scores = np.asarray(scores, np.float64)
    known = np.isfinite(scores)
    counts = known.T.astype(np.int64) @ known
    correlations = np.full(counts.shape, np.nan)
    for i, j in np.argwhere(counts >= 3):
        both = known[:, i] & known[:, j]
        correlations[i, j] = spearman(scores[both, i], scores[both, j])
    return correlations, counts


class Concordance(NamedTuple):
    """Kendall's ``w`` of ``judges`` over ``methods``, and its permutation p-value.

    ``w`` is 1 where all judges give the same order. ``low`` and ``high`` end its 95 % interval, NaN for fewer than five
    ``families``.
    """

    w: float
    p_value: float
    judges: int
    methods: int
    low: float = float("nan")
    high: float = float("nan")
    families: int = 0

    @property
    def chance(self) -> float:
        """The expectation of ``w`` for independent judges, 1 / judges."""
        return 1 / self.judges if self.judges else float("nan")


def kendalls_w(
    scores: npt.ArrayLike, permutations: int = _PERMUTATIONS, seed: int = 0, families: Sequence[Hashable] | None = None
) -> Concordance:
    """Return Kendall's coefficient of concordance, corrected for ties, with a permutation test and an interval.

    W is the variance of the methods' rank sums, divided by its greatest possible value (Kendall and Babington Smith,
    "The problem of m rankings", 1939). The p-value is the share of random rankings, each judge's ranks shuffled
    separately, whose W is at least as large, with the observed one counted as one more. It tests agreement above
    chance, not strong agreement. Judges of the same inputs are not independent, which lowers it.

    Methods of one family are variants of one idea, and every judge ranks them alike, which looks like agreement. So
    families are shuffled, each with the mean of its members' ranks, and the interval is a jackknife over families.

    Parameters
    ----------
    scores
        (n, m) finite numbers: n methods, m judges, each on its own scale; more is better. ``ValueError`` for others.
    permutations, seed
        Number and seed of the random rankings.
    families
        (n,) family of each method; None if each method is its own.

    Returns
    -------
    Concordance
        ``w`` and ``p_value`` are NaN for fewer than two methods or judges, or where every judge ties all methods;
        ``p_value`` is NaN for fewer than two families too.
    """
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 2:
        raise ValueError(f"scores have shape {scores.shape}; (methods, judges) is needed")
    if not np.isfinite(scores).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(scores))} of the scores are not finite")
    n, m = scores.shape
    if families is not None and len(families) != n:
        raise ValueError(f"{len(families)} families for {n} methods")
    labels = list(range(n) if families is None else families)
    names = list(dict.fromkeys(labels))
    family = np.array([names.index(label) for label in labels], int)
    w = _w(scores)
    if np.isnan(w):
        return Concordance(w, w, m, n, families=len(names))
    ranks = _ranks(scores)
    means = np.stack([ranks[family == number].mean(axis=0) for number in range(len(names))])
    p_value = _permutation_p_value(_ranks(means), permutations, seed)
    return Concordance(w, p_value, m, n, *_over_families(w, lambda kept: _w(scores[kept]), family, 0.0), len(names))


def _ranks(scores: Array) -> Array:
    from scipy.stats import rankdata

    return np.asarray(rankdata(scores, axis=0), np.float64)


def _w(scores: Array) -> float:
    """Return W of (n, m) scores, NaN where it is undefined."""
    n, m = scores.shape
    if n < 2 or m < 2:
        return float("nan")
    ranks = _ranks(scores)
    greatest = m * ranks.var(axis=0).sum()  # of the variance of the sums, where all judges agree
    return float(ranks.sum(axis=1).var() / greatest) if greatest > 0 else float("nan")


def _permutation_p_value(ranks: Array, permutations: int, seed: int) -> float:
    """Return the p-value of (n, m) ranks. Shuffling keeps ties, so the sum of squares orders rankings as W does."""
    if len(ranks) < 2:
        return float("nan")
    observed = (ranks.sum(axis=1) ** 2).sum()
    generator = np.random.default_rng(seed)
    shuffled = generator.permuted(np.broadcast_to(ranks, (permutations, *ranks.shape)), axis=1)
    drawn = (shuffled.sum(axis=2) ** 2).sum(axis=1)
    as_large = np.count_nonzero(drawn >= observed - 1e-9 * observed)
    return float((as_large + 1) / (permutations + 1))
