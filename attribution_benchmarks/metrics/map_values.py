"""Reduce maps, with channels or without, to one number per position."""

from __future__ import annotations

import numpy as np

from attribution.errors import BadInput
from attribution.methods.perturbation import positions
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.stats import correlation


def magnitude(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return the magnitude of each position, (N, positions...): absolute values summed over channels.

    Raises ``BadInput`` if maps and inputs have different positions.
    """
    return np.asarray(np.abs(_with_channels(maps, batch)).sum(axis=-1))


def evidence(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return the evidence of each position for the target, (N, positions...): signed values summed over channels.

    Raises ``BadInput`` if maps and inputs have different positions.
    """
    return np.asarray(_with_channels(maps, batch).sum(axis=-1))


def flat(values: np.ndarray) -> np.ndarray:
    """Return one row per input, (N, positions)."""
    return np.reshape(values, (len(values), -1))


def ratio(above: np.ndarray, below: np.ndarray, otherwise: float = np.nan) -> np.ndarray:
    """Return the quotient where the divisor is positive, ``otherwise`` elsewhere; float64."""
    out = np.full(np.shape(below), otherwise)
    np.divide(above, below, out=out, where=np.asarray(below) > 0)
    return out


def pearson(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation row by row, (N,) float64; NaN where one is constant."""
    first, second = (each - each.mean(axis=1, keepdims=True) for each in (first, second))
    return ratio((first * second).sum(axis=1), np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1)))


def spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Spearman's rank correlation of two maps of each input, (N,) float64; 0 where one is constant."""
    return np.asarray(np.nan_to_num(correlation.spearman(flat(first), flat(second))))


def correlation_of_drops(sums: np.ndarray, drops: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation of a map's sums over parts of an input with the drops without them, (N,) float64.

    Both are (N, parts). 0 for sums that are equal but for rounding, NaN where all drops are equal.
    """
    rounding = 16 * np.finfo(np.float32).eps * np.abs(sums).max(axis=1, initial=0)
    first, second = (each - each.mean(axis=1, keepdims=True) for each in (sums, drops))
    ours, theirs = ((each**2).sum(axis=1) for each in (first, second))
    varies = (np.abs(first).max(axis=1, initial=0) > rounding) & (theirs > 0)
    found = np.divide((first * second).sum(axis=1), np.sqrt(ours * theirs), out=np.zeros(len(first)), where=varies)
    return np.where(theirs > 0, found, np.nan)


def rank_of_drops(sums: np.ndarray, drops: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation of a map's sums over parts of an input with the drops without them, (N,) float64.

    Both are (N, parts). 0 for sums that are equal but for rounding, NaN where all drops are equal.
    """
    size = np.abs(sums).max(axis=1, keepdims=True)
    sums = np.where(np.ptp(sums, axis=1, keepdims=True) <= 1e-6 * size, 0.0, sums)
    return np.where(np.ptp(drops, axis=1) > 0, spearman(sums, drops), np.nan)


def _with_channels(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return maps as (N, positions..., channels) float64."""
    spatial = positions(batch.pictures.shape)
    maps = np.asarray(maps, np.float64)
    if maps.shape[1 : len(spatial) + 1] != spatial or maps.ndim > len(spatial) + 2:
        raise BadInput(f"maps of shape {maps.shape[1:]}; the inputs have the positions {spatial}")
    return maps if maps.ndim == len(spatial) + 2 else maps[..., np.newaxis]
