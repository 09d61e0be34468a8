"""Which methods are better than which: paired bootstraps of many pairs, corrected for their number.

The correction is Holm's (1979). It bounds the chance that even one of the claims "A is better than B" is wrong,
whatever the dependence between the tests, and tests of methods on the same inputs are dependent. A procedure that
bounds the share of false claims (Benjamini and Hochberg) finds more of them, and would leave the reader of a single
line in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attribution_benchmarks.leaderboard.statistics import CONFIDENCE, resampled_sums

RESAMPLES = 10_000  # a hundred pairs need p-values well below 0.05 / 100
LEVEL = 0.05


class PairComparison(NamedTuple):
    """First minus second over the ``n`` inputs that both have: its 95 % interval, p-value, and Holm's."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    p_corrected: float
    n: int


def holm(p_values) -> np.ndarray:
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


def compare_pairs(
    values: Mapping[str, Sequence[float]],
    pairs: Sequence[tuple[str, str]],
    clusters: Sequence | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[PairComparison]:
    """Compare pairs of methods scored on the same inputs; the pairs are one family for Holm's correction.

    The p-value is that of ``statistics.paired_bootstrap``: the share of draws in which the mean difference strays from
    the observed one by at least as much as that strays from zero. Of few inputs a bootstrap says too much: no p-value
    is below 2 / 2^n for n inputs or clusters, the smallest that flipping the signs of n differences can give.

    Parameters
    ----------
    values
        Method -> (N,) numbers, one per input in the same order; NaN where a method has none for an input, which is
        then left out of that method's pairs.
    pairs
        Names to compare.
    clusters
        (N,) what inputs belong to, such as the image of a question: clusters are drawn, not inputs. None draws inputs.
    resamples, seed
        As for ``statistics.mean_interval``.

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
    sums, counts = _by_cluster(np.where(known, differences, 0.0), clusters), _by_cluster(known, clusters)
    total, n = sums.sum(axis=0), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = total / n
        if len(sums):
            drawn = resampled_sums(np.concatenate([sums, counts], axis=1), resamples, seed)
            means = drawn[:, : len(pairs)] / drawn[:, len(pairs) :]
        else:
            means = np.full((resamples, len(pairs)), np.nan)
    p_values = np.ones(len(pairs))
    low, high = np.full((2, len(pairs)), np.nan)
    for i in np.flatnonzero(n):
        mean = means[np.isfinite(means[:, i]), i]
        low[i], high[i] = np.quantile(mean, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        # The slack forgives rounding, as in paired_bootstrap.
        slack = 1e-12 * np.abs(differences[known[:, i], i]).max()
        as_far = np.count_nonzero(np.abs(mean - observed[i]) >= abs(observed[i]) - slack)
        p_values[i] = max((as_far + 1) / (len(mean) + 1), 2.0 ** (1 - np.count_nonzero(counts[:, i])))
    p_values[n == 0] = np.nan
    corrected = np.full(len(pairs), np.nan)
    corrected[n > 0] = holm(p_values[n > 0])
    return [
        PairComparison(
            *pair, *(float(part[i]) for part in (observed, low, high, p_values, corrected)), int(n[i])
        )
        for i, pair in enumerate(pairs)
    ]  # fmt: skip


def _by_cluster(columns, clusters) -> np.ndarray:
    """Sum rows of the same cluster: (N, K) -> (clusters, K) float64; the rows themselves where there are none."""
    columns = np.asarray(columns, np.float64)
    if clusters is None:
        return columns
    _, group = np.unique(np.asarray(clusters), return_inverse=True)
    summed = np.zeros((group.max(initial=-1) + 1, columns.shape[1]))
    np.add.at(summed, group.reshape(-1), columns)
    return summed
