"""One number a position: how metrics of every benchmark read maps, with channels or without."""

from __future__ import annotations

import numpy as np

from attribution.errors import BadInput
from attribution.methods.perturbation import positions
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.stats import correlation


def magnitude(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return how much each position matters, for or against: absolute values summed over channels, (N, positions...).

    Raises
    ------
    BadInput
        If the maps are not of the inputs' positions.
    """
    return np.abs(_with_channels(maps, batch)).sum(axis=-1)


def evidence(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return how much each position speaks for the target: signed values summed over channels, (N, positions...).

    Raises
    ------
    BadInput
        If the maps are not of the inputs' positions.
    """
    return _with_channels(maps, batch).sum(axis=-1)


def flat(values: np.ndarray) -> np.ndarray:
    """Return values a position as one row an input, (N, positions)."""
    return np.reshape(values, (len(values), -1))


def ratio(above: np.ndarray, below: np.ndarray, otherwise: float = np.nan) -> np.ndarray:
    """Return a quotient where the divisor is positive, and something else where it is not, (N,) float64."""
    return np.divide(above, below, out=np.full(np.shape(below), otherwise), where=np.asarray(below) > 0)


def spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Spearman's rank correlation of two maps of each input, (N,) float64; 0 where one is constant."""
    return np.nan_to_num(correlation.spearman(flat(first), flat(second)))


def _with_channels(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return maps as (N, positions..., channels) float64."""
    spatial = positions(batch.pictures.shape)
    maps = np.asarray(maps, np.float64)
    if maps.shape[1 : len(spatial) + 1] != spatial or maps.ndim > len(spatial) + 2:
        raise BadInput(f"maps of shape {maps.shape[1:]}; the inputs have the positions {spatial}")
    return maps if maps.ndim == len(spatial) + 2 else maps[..., np.newaxis]
