"""Graded corruptions of exact maps, whose true error is known and grows with the grade.

A corrupted map is (1 - grade) · truth + grade · end, for an end of the truth's length. The angle to the truth, and with
it ``exact.metrics.distance``, grows with the grade for any end. Only "partly_zero" sets a growing share of positions to
zero instead.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attribution.model import batching
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import edge_detector
from attribution_benchmarks.metrics.map_values import flat, ratio

GRADES = (0.25, 0.5, 0.75, 1.0)
_SHIFT = 2  # positions along each axis
_WIDTH = 1.5  # standard deviation of the smoothing, in positions

_End = Callable[[np.ndarray, np.ndarray, Batch], np.ndarray]  # of truth, truth of another class, and batch


def _noise(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    keys = batch.truth["key"]
    return np.stack([batching.generator(0, key, "corruption").standard_normal(truth.shape[1:]) for key in keys])


def _edges(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    return edge_detector(batch, 0) if batch.pictures.ndim == 4 else np.abs(batch.pictures)


def _shifted(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    axes = tuple(range(1, truth.ndim))
    return np.roll(truth, [_SHIFT] * len(axes), axes)


def _smoothed(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(truth, (0, *[_WIDTH] * (truth.ndim - 1))))


ENDS: dict[str, tuple[str, _End]] = {  # name -> description, map at grade 1 before its scaling
    "noise": ("mixed with Gaussian noise", _noise),
    "edges": ("mixed with the image's edges; for vectors, with the features' magnitudes", _edges),
    "shifted": ("mixed with itself, shifted by two positions along each axis", _shifted),
    "other_class": ("mixed with the exact map of another output", lambda truth, other, batch: other),
    "smoothed": ("mixed with itself, smoothed over 1.5 positions", _smoothed),
    "sign_lost": ("mixed with its absolute values", lambda truth, other, batch: np.abs(truth)),
}
KINDS = {**{name: about for name, (about, _) in ENDS.items()}, "partly_zero": "a share of positions set to zero"}


def corrupted(truth: np.ndarray, other: np.ndarray, batch: Batch, kind: str, grade: float) -> np.ndarray:
    """Return corrupted maps of a kind of ``KINDS``, (N, positions...) float64; grade 0 returns the truth.

    ``truth`` and ``other`` are (N, positions...) exact maps of the targets, and of another output of the same network.
    ``batch.truth["key"]`` holds N names that random numbers depend on.
    """
    if kind == "partly_zero":
        keys, shape = batch.truth["key"], truth.shape[1:]
        order = np.stack([batching.generator(0, key, "zeros").permutation(truth[0].size) for key in keys])
        return np.where(order.reshape(-1, *shape) < round(grade * truth[0].size), 0.0, truth)
    end = ENDS[kind][1](truth, other, batch).astype(np.float64)
    lengths, ends = (np.linalg.norm(flat(each), axis=1) for each in (truth, end))
    scale = ratio(lengths, ends, 0.0).reshape((-1,) + (1,) * (truth.ndim - 1))
    return (1 - grade) * truth + grade * scale * end
