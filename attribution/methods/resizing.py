"""Resizing of maps by matrix products, for signals and images."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

Matrix = Callable[[int, int], np.ndarray]
_STEPS_OF_CUBIC = 1024  # TensorFlow reads the weights of bicubic interpolation from a table of this size


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


@functools.lru_cache(8)
def aligned_matrix(size: int, new_size: int) -> np.ndarray:
    """Return the matrix of linear interpolation with aligned corners, as ``scipy.ndimage.zoom(order=1)``; float32."""
    return _linear(np.arange(new_size) * (size - 1) / max(new_size - 1, 1), size)


@functools.lru_cache(8)
def mirrored_matrix(size: int, new_size: int) -> np.ndarray:
    """Return the matrix of linear interpolation between pixel centres, mirrored at the first and the last; float32.

    As ``skimage.transform.resize`` enlarges.
    """
    positions = np.abs((np.arange(new_size) + 0.5) * size / new_size - 0.5)
    mirrored = np.where(positions > size - 1, 2 * (size - 1) - positions, positions)
    return _linear(np.clip(mirrored, 0, size - 1), size)  # a single value has no neighbor to mirror at


@functools.lru_cache(8)
def nearest_matrix(size: int, new_size: int) -> np.ndarray:
    """Return the matrix that takes the number ⌊i · size / new_size⌋ at place i, as PyTorch's "nearest"; float32."""
    matrix = np.eye(size, dtype=np.float32)[np.arange(new_size) * size // new_size]
    matrix.setflags(write=False)
    return matrix


def _linear(positions: np.ndarray, size: int) -> np.ndarray:
    """Return the matrix ``(positions, size)`` that interpolates linearly at some positions."""
    matrix: np.ndarray = np.maximum(1 - np.abs(positions[:, np.newaxis] - np.arange(size)), 0).astype(np.float32)
    matrix.setflags(write=False)
    return matrix


@functools.lru_cache(8)
def bicubic_matrix(size: int, new_size: int) -> np.ndarray:
    """Return the matrix of cubic interpolation as ``tf.image.resize(..., "bicubic")`` without antialiasing; float32.

    Keys' kernel with a = -1/2; weights beyond the border are 0, and the others sum to 1.
    """
    positions = (np.arange(new_size) + 0.5) * size / new_size - 0.5
    left = np.floor(positions)
    positions = left + np.rint((positions - left) * _STEPS_OF_CUBIC) / _STEPS_OF_CUBIC
    distance = np.abs(positions[:, np.newaxis] - np.arange(size))
    near, far = (1.5 * distance - 2.5) * distance**2 + 1, ((2.5 - 0.5 * distance) * distance - 4) * distance + 2
    matrix = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    shares: np.ndarray = (matrix / matrix.sum(axis=1, keepdims=True)).astype(np.float32)
    shares.setflags(write=False)
    return shares


def resize(
    maps: Any, spatial_shape: tuple[int, ...], matrix_of: Matrix = interpolation_matrix, xp: Any = np
) -> np.ndarray:
    """Resize maps ``(N, T)`` or ``(N, H, W)`` to ``(N, *spatial_shape)``, by default bilinearly.

    Parameters
    ----------
    maps
        Maps.
    spatial_shape
        New sizes of the axes after the first.
    matrix_of
        ``matrix_of(size, new_size)`` is the matrix ``(new_size, size)`` of the interpolation.
    xp
        NumPy, or a module with its functions.
    """
    for axis, new_size in enumerate(spatial_shape, start=1):
        if maps.shape[axis] != new_size:
            matrix = matrix_of(maps.shape[axis], new_size)
            maps = xp.moveaxis(xp.moveaxis(maps, axis, -1) @ matrix.T, -1, axis)
    resized: np.ndarray = np.ascontiguousarray(maps) if xp is np else maps
    return resized
