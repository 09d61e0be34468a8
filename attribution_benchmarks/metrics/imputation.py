"""What stands in place of removed positions: the mean colour, a blurred picture, or ROAD's noisy linear imputation.

A baseline is a function ``fill(pictures, gone, keys)`` of (N, positions..., C) pictures, (N, positions...) bool and N
names, which returns the pictures without what is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attribution.errors import BadInput
from attribution.model import batching
from attribution_benchmarks.core.memoize_last import memoize_last

Fill = Callable[[np.ndarray, np.ndarray, Sequence], np.ndarray]
BLUR = 0.05  # standard deviation of the blur as a share of each side
NOISE = 0.01  # standard deviation of ROAD's noise as a share of the input's range, as in its authors' code
SWEEPS = 12  # of the finest grid
COARSE_SWEEPS = 36  # of each coarser one
_NEIGHBOURS = np.array([[1, 2, 1], [2, 0, 2], [1, 2, 1]], np.float32)


def mean_colour(pictures: np.ndarray, gone: np.ndarray, keys: Sequence) -> np.ndarray:
    """Return pictures with each one's own mean colour in place of what is gone; a vector has its mean feature."""
    means = pictures.mean(axis=tuple(range(1, max(pictures.ndim - 1, 2))), keepdims=True)
    return np.where(_over_channels(gone, pictures), means, pictures)


def blurred(pictures: np.ndarray, gone: np.ndarray, keys: Sequence) -> np.ndarray:
    """Return pictures with their own blurred version in place of what is gone."""
    return np.where(_over_channels(gone, pictures), _soft(pictures), pictures)


@memoize_last
def _soft(pictures: np.ndarray) -> np.ndarray:
    from scipy.ndimage import gaussian_filter1d

    for axis, size in enumerate(pictures.shape[1:-1], start=1):
        pictures = gaussian_filter1d(pictures, BLUR * size, axis=axis, mode="nearest")
    return pictures


def _over_channels(gone: np.ndarray, pictures: np.ndarray) -> np.ndarray:
    return gone if gone.ndim == pictures.ndim else gone[..., np.newaxis]


def noisy_linear(pictures: np.ndarray, gone: np.ndarray, keys: Sequence) -> np.ndarray:
    """Return pictures with what is gone imputed from what is left, and a little noise.

    A missing position is the weighted mean of its neighbours, beside it twice as heavy as diagonal, so that the shape
    of what is gone does not tell a network what was there (Rong et al., "A Consistent and Efficient Evaluation Strategy
    for Attribution Methods", ICML 2022). The values are single precision.

    Parameters
    ----------
    pictures
        (N, H, W, C) or (N, T, C).
    gone
        (N, H, W) or (N, T) bool.
    keys
        N names, of which the noise depends.

    Raises
    ------
    BadInput
        If positions have no neighbours in one or two directions, as the features of a vector.
    """
    spatial = pictures.shape[1:-1]
    if len(spatial) not in (1, 2):
        raise BadInput("noisy linear imputation needs signals or images, whose positions have neighbours")
    found = np.array(pictures, np.float32)
    for row, key in enumerate(keys):
        imputed = (linear if len(spatial) == 2 else along)(found[row], gone[row])
        noise = batching.generator(0, key, "ROAD").standard_normal(imputed.shape, np.float32)
        found[row] = np.where(gone[row][..., np.newaxis], imputed + NOISE * np.ptp(pictures[row]) * noise, imputed)
    return found


def along(signal: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Return a signal, (T, C), whose missing points, (T,) bool, lie on lines between those left; its mean if none."""
    places, left = np.arange(len(gone)), np.flatnonzero(~gone)
    if not len(left):
        return np.broadcast_to(signal.mean(axis=0), signal.shape)
    return np.stack([np.interp(places, left, channel[left]) for channel in signal.T], axis=1)


def linear(picture: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Return a picture in which each missing position is the weighted mean of its neighbours.

    The equations are relaxed on the coarsest grid first, whose solution begins the next finer one: a tenth of what
    factoring them takes, with a root mean square error about as large as ROAD's noise. Where all is gone, the mean
    colour stands.

    Parameters
    ----------
    picture
        (H, W, C) float32.
    gone
        (H, W) bool.
    """
    mean = picture.mean(axis=(0, 1))
    known = ~gone[..., np.newaxis]
    return _relaxed(np.where(known, picture, mean), known.astype(np.float32), SWEEPS)


def _relaxed(picture: np.ndarray, known: np.ndarray, sweeps: int) -> np.ndarray:
    """Solve for what is unknown; ``known`` is (H, W, 1), 0 or 1."""
    import cv2

    height, width = picture.shape[:2]
    unknown = 1 - known
    if not unknown.any():
        return picture
    fixed, found = picture * known, picture
    if max(height, width) > 2:
        weight = _pooled(known)
        coarse = np.divide(_pooled(fixed), weight, out=_pooled(picture), where=weight > 0)
        coarse = _relaxed(coarse, (weight > 0).astype(np.float32), COARSE_SWEEPS)
        found = fixed + unknown * _stretched(coarse, height, width)

    def of_neighbours(one: np.ndarray) -> np.ndarray:  # nothing lies beyond the border
        return cv2.filter2D(one, -1, _NEIGHBOURS, borderType=cv2.BORDER_CONSTANT).reshape(height, width, -1)

    share = unknown / np.maximum(of_neighbours(np.ones((height, width), np.float32)), 1)
    for _ in range(sweeps):
        found = of_neighbours(found)
        found *= share
        found += fixed
    return found


def _pooled(picture: np.ndarray) -> np.ndarray:
    """Return means of two by two positions, (H, W, C); the last one alone where a side is odd."""
    for axis in (0, 1):
        size = picture.shape[axis]
        if size > 1:
            starts = np.arange(0, size, 2)
            counts = np.diff([*starts, size]).astype(np.float32).reshape((-1,) + (1,) * (2 - axis))
            picture = np.add.reduceat(picture, starts, axis=axis) / counts
    return picture


def _stretched(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return a picture at a finer grid's positions, (height, width, C), interpolated linearly."""
    import cv2

    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_LINEAR).reshape(height, width, -1)
