"""How far two numbers of the same inputs rise together, with an interval: Spearman's correlation under the bootstrap.

Each draw of inputs is ranked anew, since ranks are known from the inputs as well. Draws are taken on Fisher's scale,
artanh, where a correlation is as uncertain whatever it is, and their standard deviation makes the interval (Efron and
Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 12).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats import resampling, statistics
from attribution_benchmarks.stats.statistics import Estimate

RESAMPLES = 1000
FEWEST = 10  # clusters, below which a bootstrap knows too little
_NUMBERS_AT_ONCE = 500_000  # bounds the memory, whatever the number of inputs


def spearman_interval(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    clusters: Sequence | np.ndarray | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Return Spearman's rank correlation with its 95 % interval over draws of inputs.

    Parameters
    ----------
    first, second
        (N,) finite numbers.
    clusters
        (N,) what inputs belong to, such as the image of a question; None where each stands for itself.
    seed, resamples
        Of the draws; see ``resampling.bootstrap_sums``.

    Returns
    -------
    Estimate
        Between -1 and 1; all NaN where one side is constant. The interval goes from -1 to 1 for fewer than ``FEWEST``
        clusters, and is the value alone where the order is the same, or opposite, in every draw.

    Raises
    ------
    ValueError
        If a number is not finite or the lengths differ.
    """
    value = statistics.spearman(first, second)
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    n = len(first)
    if np.isnan(value):
        return Estimate(value, value, value, n)
    _, group = np.unique(np.arange(n) if clusters is None else np.asarray(clusters), return_inverse=True)
    count = int(group.max()) + 1
    if count < FEWEST:
        return Estimate(value, -1.0, 1.0, n)
    if abs(value) == 1:
        return Estimate(value, value, value, n)
    at_once = max(1, _NUMBERS_AT_ONCE // n)
    draws = np.concatenate(
        [
            _correlations(first, second, drawn[start : start + at_once, group])
            for drawn in resampling.bootstrap_counts(count, resamples, seed)
            for start in range(0, len(drawn), at_once)
        ]
    )
    from scipy import special

    most = 1 - 1e-9  # a draw of few distinct inputs may be in perfect order
    spread = np.nanstd(np.arctanh(np.clip(draws, -most, most)), ddof=1)
    reach = special.stdtrit(count - 1, (1 + statistics.CONFIDENCE) / 2) * spread
    low, high = np.tanh(np.arctanh(value) + np.array([-reach, reach]))
    return Estimate(value, float(low), float(high), n)


def _correlations(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation where each input counts as often as drawn; NaN for a constant side.

    ``weights`` are (draws, N).
    """
    total = weights.sum(axis=1, keepdims=True)
    ranks = [_ranks(values, weights) - (total + 1) / 2 for values in (first, second)]
    norm = np.sqrt(np.prod([(weights * one**2).sum(axis=1) for one in ranks], axis=0))
    product = (weights * ranks[0] * ranks[1]).sum(axis=1)
    return np.divide(product, norm, out=np.full(len(weights), np.nan), where=norm > 0)


def _ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return each input's average rank among the inputs drawn, (draws, N)."""
    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(group.max() + 1))
    held = np.add.reduceat(weights[:, order], starts, axis=1)  # how many of each value were drawn
    return (np.cumsum(held, axis=1) - (held - 1) / 2)[:, group]
