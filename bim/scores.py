"""BIM's metrics as functions of arrays (Yang and Kim, arXiv:1907.09701, section 4).

A map is made two-dimensional, clipped and scaled to [0, 1]; the object's attribution is its mean over the object's
pixels. The metrics compare the attributions of the two members of a pair.

``correct`` marks the images that count: those which both members of a pair classify correctly, each against
its own labels. Every function returns one value per counted image, whose mean is the metric, so that
intervals and paired tests can be computed from it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.core.metric import Metric

_PERCENTILE = 99.0  # of a map's pixels, which becomes 1
CHANGE_THRESHOLD = 0.1  # IIR: a change below this share of the attribution is none


def two_dimensional(maps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return maps without channels, scaled to [0, 1], (N, H, W) float64, and which maps are flat, (N,) bool.

    Negative values of maps, (N, H, W, C) or (N, H, W), are cut off in each channel, the channels summed, and
    (v - min) / (p - min) clipped to [0, 1], p being the 99th percentile of the map's pixels. A map is flat if p equals
    its minimum, such as an all-zero map, or one with under 1 % of active pixels. Scaling has no meaning for it: it is 1
    where it is above its minimum and 0 elsewhere.
    """
    maps = np.maximum(np.asarray(maps, np.float64), 0)
    if maps.ndim == 4:
        maps = maps.sum(axis=3)
    pixels = maps.reshape(len(maps), -1)
    low = pixels.min(axis=1)[:, None, None]
    span = np.percentile(pixels, _PERCENTILE, axis=1)[:, None, None] - low
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


def both_correct(
    first_predicted: npt.ArrayLike,
    first_labels: npt.ArrayLike,
    second_predicted: npt.ArrayLike,
    second_labels: npt.ArrayLike,
) -> np.ndarray:
    """Return which images both members of a pair classify correctly, (N,) bool."""
    first = np.asarray(first_predicted) == np.asarray(first_labels)
    return first & (np.asarray(second_predicted) == np.asarray(second_labels))


def model_contrast_score(object_model: npt.ArrayLike, scene_model: npt.ArrayLike, correct: npt.ArrayLike) -> np.ndarray:
    """Return the model contrast per counted image.

    Parameters
    ----------
    object_model, scene_model
        (N,) attribution of the object for the two models.
    correct
        (N,) bool.

    Returns
    -------
    numpy.ndarray
        (n,) differences in [-1, 1]; their mean is the MCS. The object matters to the first model only, so
        more is better. Of a model that knows the dog from i scenes and one that knows it from all, it is the relative
        MCS, which should fall as i grows.
    """
    correct = np.asarray(correct, bool)
    return np.asarray(object_model, np.float64)[correct] - np.asarray(scene_model, np.float64)[correct]


def input_dependence_rate(
    with_object: npt.ArrayLike, without_object: npt.ArrayLike, correct: npt.ArrayLike
) -> np.ndarray:
    """Return whether the region is attributed less with the object than with the scene it covers.

    Parameters
    ----------
    with_object, without_object
        (N,) attribution of the object's region for the scene model, on the image and on the scene alone.
    correct
        (N,) bool.

    Returns
    -------
    numpy.ndarray
        (n,) of 0 and 1; their mean is the IDR. Strict: equal attribution is a failure.
    """
    correct = np.asarray(correct, bool)
    return (np.asarray(without_object)[correct] > np.asarray(with_object)[correct]).astype(np.float64)


def input_independence_rate(
    plain: npt.ArrayLike, patched: npt.ArrayLike, correct: npt.ArrayLike, threshold: float = CHANGE_THRESHOLD
) -> np.ndarray:
    """Return whether a patch that means nothing to the model leaves the region's attribution as it was.

    Parameters
    ----------
    plain, patched
        (N,) attribution of the region without and with the patch.
    correct
        (N,) bool.
    threshold
        Largest change that counts as none, as a share of ``plain``.

    Returns
    -------
    numpy.ndarray
        (n,) of 0 and 1; their mean is the IIR. Strict, so a region without attribution is a failure.
    """
    correct = np.asarray(correct, bool)
    before = np.asarray(plain, np.float64)[correct]
    change = np.abs(before - np.asarray(patched, np.float64)[correct])
    return (change < threshold * before).astype(np.float64)


def sample_rows(total: int, count: int | str, seed: int = 0) -> list[int]:
    """Return the rows to score, in rising order, drawn as the authors draw them.

    Parameters
    ----------
    total
        How many images there are.
    count
        How many to draw, or "all"; all where there are not as many.
    seed
        Of Python's own generator: 0 draws 663, 4242, ... of 10,000 first in order.
    """
    if count == "all" or int(count) >= total:
        return list(range(total))
    return sorted(random.Random(seed).sample(range(total), int(count)))


METRICS = {
    "mcs": Metric(
        "mcs",
        "MCS",
        about="Model contrast score: the object's mean attribution under a network that names objects, minus that "
        "under one that names scenes. Between -1 and 1; more is better, zero is what a map without knowledge of the "
        "network gets.",
        bounds=(-1.0, 1.0),
    ),
    "idr": Metric(
        "idr",
        "IDR",
        about="Input dependence rate: how often a network of scenes attributes less to a pasted object than to the "
        "piece of scene it covers. More is better; chance is near one half.",
        rate=True,
    ),
    "iir": Metric(
        "iir",
        "IIR",
        about="Input independence rate: how often a patch that changes nothing in the network's answer changes the "
        "attribution of its place by less than a tenth. More is better, but a map that ignores the network gets it "
        "all: read it beside the model contrast.",
        rate=True,
    ),
    "rmcs": Metric("rmcs", "Relative MCS", bounds=(-1.0, 1.0)),  # report.toml describes it: a curve, and no column
}
