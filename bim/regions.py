"""From a map to one number: how much of it falls on the object (Yang and Kim, section 4.1).

A map is made two-dimensional, clipped and scaled to [0, 1]; the object's attribution is its mean over the
object's pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PERCENTILE = 99.0


def two_dimensional(maps: np.ndarray, percentile: float = PERCENTILE) -> tuple[np.ndarray, np.ndarray]:
    """Return maps without channels, scaled to [0, 1], (N, H, W) float64, and which maps are flat, (N,) bool.

    Negative values of maps, (N, H, W, C) or (N, H, W), are cut off in each channel, the channels summed, and (v - min)
    / (p - min) clipped to [0, 1], p being the percentile of the map's pixels. A map is flat if p equals its minimum,
    such as an all-zero map, or one with under 1 % of active pixels. Scaling has no meaning for it: it is 1 where it is
    above its minimum and 0 elsewhere.
    """
    maps = np.maximum(np.asarray(maps, np.float64), 0)
    if maps.ndim == 4:
        maps = maps.sum(axis=3)
    pixels = maps.reshape(len(maps), -1)
    low = pixels.min(axis=1)[:, None, None]
    span = np.percentile(pixels, percentile, axis=1)[:, None, None] - low
    flat = span[:, 0, 0] <= 0
    scaled = np.divide(maps - low, span, out=(maps > low).astype(np.float64), where=span > 0)
    return np.clip(scaled, 0, 1), flat


def object_attribution(scaled: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Return each map's mean over its object's pixels, (N,) float64; 0 for an empty mask.

    ``scaled`` is (N, H, W), from ``two_dimensional``; ``masks`` (N, H, W) bool, or weights; see ``place_mask``.
    """
    masks = np.asarray(masks, np.float64)
    sums = (np.asarray(scaled, np.float64) * masks).sum(axis=(1, 2))
    sizes = masks.sum(axis=(1, 2))
    return np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0)


def place_mask(mask: np.ndarray, box: Sequence[float], side: int, image_side: int = 128) -> np.ndarray:
    """Return an object's mask, (h, w) bool as cut out, where the object is in the map: (side, side) bool.

    As the authors do it: the box's corners, row0, col0, row1, col1 in pixels of the image, are scaled by
    ``int(v * side / image_side)``, and the mask, as uint8 of 0 and 1, is resized into it bilinearly by Pillow, which
    rounds.
    """
    from PIL import Image

    placed = np.zeros((side, side), bool)
    row0, col0, row1, col1 = (int(int(value) * float(side) / image_side) for value in box)
    if row1 > row0 and col1 > col0:
        picture = Image.fromarray(np.asarray(mask).astype(np.uint8))
        resized = picture.resize((col1 - col0, row1 - row0), Image.Resampling.BILINEAR)
        placed[row0:row1, col0:col1] = np.asarray(resized) > 0
    return placed


def resize_like_skimage(image: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Resize (H, W) or (H, W, C) bilinearly as ``skimage.transform.resize`` does without anti-aliasing; float64.

    Pixel centres are aligned, and beyond the border the picture is mirrored about its edge pixels
    (mode "reflect" of skimage), rather than extended as TensorFlow and Pillow do.
    """
    image = np.asarray(image, np.float64)
    for axis, (old, new) in enumerate(zip(image.shape[:2], shape, strict=True)):
        centres = (np.arange(new) + 0.5) * old / new - 0.5
        low = np.floor(centres).astype(int)
        weight = (centres - low).reshape([-1 if a == axis else 1 for a in range(image.ndim)])
        before, after = (_mirrored(places, old) for places in (low, low + 1))
        image = np.take(image, before, axis) * (1 - weight) + np.take(image, after, axis) * weight
    return image


def _mirrored(places: np.ndarray, size: int) -> np.ndarray:
    """Return indices mirrored about the first and the last pixel."""
    if size == 1:
        return np.zeros_like(places)
    period = 2 * (size - 1)
    places = np.abs(places) % period
    return np.where(places >= size, period - places, places)
