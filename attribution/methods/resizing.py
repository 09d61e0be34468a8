"""Bilinear resizing of maps by matrix products, for signals and images."""

from __future__ import annotations

import functools

import numpy as np


@functools.lru_cache(8)
def interpolation_matrix(size: int, new_size: int) -> np.ndarray:
    """Return the matrix ``(new_size, size)`` of linear interpolation between pixel centres, float32.

    Edges repeat, as in ``tf.image.resize(..., "bilinear")`` without antialiasing.
    """
    positions = np.clip((np.arange(new_size) + 0.5) * size / new_size - 0.5, 0, size - 1)
    left = np.minimum(positions.astype(np.int64), max(size - 2, 0))
    share = positions - left
    matrix = np.zeros((new_size, size), np.float32)
    lines = np.arange(new_size)
    matrix[lines, left] = 1 - share
    matrix[lines, np.minimum(left + 1, size - 1)] += share
    matrix.setflags(write=False)  # every caller gets the same
    return matrix


def resize(maps: np.ndarray, spatial_shape: tuple[int, ...]) -> np.ndarray:
    """Resize maps ``(N, T)`` or ``(N, H, W)`` bilinearly to ``(N, *spatial_shape)``."""
    for axis, new_size in enumerate(spatial_shape, start=1):
        if maps.shape[axis] != new_size:
            matrix = interpolation_matrix(maps.shape[axis], new_size)
            maps = np.moveaxis(np.moveaxis(maps, axis, -1) @ matrix.T, -1, axis)
    return np.ascontiguousarray(maps)
