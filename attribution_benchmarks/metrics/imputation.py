"""Changed inputs: imputation of removed positions, and the network's scores of changed inputs, in full batches.

Imputation is by the mean color, the blurred input, or ROAD's noisy linear imputation. It is a function ``fill(pictures,
gone, keys)`` of (N, positions..., C) inputs, (N, positions...) bool masks of removed positions, and N names that random
numbers depend on. It returns the imputed inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from attribution import batching
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, memoize_last
from attribution_benchmarks.metrics.map_values import flat

Fill = Callable[[np.ndarray, np.ndarray, Sequence[Any]], np.ndarray]
BLUR = 0.05  # standard deviation of the blur as a share of each side
NOISE = 0.01  # standard deviation of ROAD's noise as a share of the input's range, as in its authors' code
_SWEEPS = 12  # of the finest grid
_COARSE_SWEEPS = 36  # of each coarser one
_NEIGHBOURS = np.array([[1, 2, 1], [2, 0, 2], [1, 2, 1]], np.float32)


def mean_colour(pictures: np.ndarray, gone: np.ndarray, keys: Sequence[Any]) -> np.ndarray:
    """Return inputs with removed positions set to the input's mean color; for vectors, the mean feature."""
    means = pictures.mean(axis=tuple(range(1, max(pictures.ndim - 1, 2))), keepdims=True)
    return np.where(_over_channels(gone, pictures), means, pictures)


def given_background(batch: Batch) -> Fill:
    """Return the imputation by ``batch.truth["background"]``, (N, ...) of the inputs' shape."""
    values = np.asarray(batch.truth["background"])
    return lambda pictures, gone, keys: np.where(_over_channels(gone, pictures), values, pictures)


def blurred(pictures: np.ndarray, gone: np.ndarray, keys: Sequence[Any]) -> np.ndarray:
    """Return inputs with removed positions set to those of the blurred input."""
    return np.where(_over_channels(gone, pictures), _soft(pictures), pictures)


@memoize_last
def _soft(pictures: np.ndarray) -> np.ndarray:
    from scipy.ndimage import gaussian_filter1d

    pictures = as_floats(pictures)
    for axis, size in enumerate(pictures.shape[1:-1], start=1):
        pictures = gaussian_filter1d(pictures, BLUR * size, axis=axis, mode="nearest")
    return pictures


def as_floats(pictures: np.ndarray) -> np.ndarray:
    """Return pictures of integers as float32, whose differences do not wrap around; others unchanged."""
    return pictures.astype(np.float32) if np.issubdtype(pictures.dtype, np.integer) else pictures


def _over_channels(gone: np.ndarray, pictures: np.ndarray) -> np.ndarray:
    return gone if gone.ndim == pictures.ndim else gone[..., np.newaxis]


def noisy_linear(pictures: np.ndarray, gone: np.ndarray, keys: Sequence[Any]) -> np.ndarray:
    """Return inputs with removed positions imputed from the remaining ones, with a little noise.

    A missing position is the weighted mean of its neighbors, with adjacent ones twice as heavy as diagonal ones, so
    that the shape of the mask reveals little (ROAD; Rong et al., "A Consistent and Efficient Evaluation Strategy for
    Attribution Methods", ICML 2022). The values are single precision. ``pictures`` are (N, H, W, C) or (N, T, C), else
    ``BadInput``.
    """
    spatial = pictures.shape[1:-1]
    if len(spatial) not in (1, 2):
        raise BadInput("noisy linear imputation needs signals or images, whose positions have neighbors")
    found = np.array(pictures, np.float32)
    spans = NOISE * np.ptp(flat(as_floats(pictures)), axis=1)
    for row, key in enumerate(keys):
        imputed = (linear if len(spatial) == 2 else interpolate_signal)(found[row], gone[row])
        noise = batching.generator(0, key, "ROAD").standard_normal(imputed.shape, np.float32)
        found[row] = np.where(gone[row][..., np.newaxis], imputed + spans[row] * noise, imputed)
    return found


def interpolate_signal(signal: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Return a signal, (T, C), with missing points, (T,) bool, interpolated linearly; its mean if all are missing."""
    places, left = np.arange(len(gone)), np.flatnonzero(~gone)
    if not len(left):
        return np.broadcast_to(signal.mean(axis=0), signal.shape)
    return np.stack([np.interp(places, left, channel[left]) for channel in signal.T], axis=1)


def linear(picture: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Return an image, (H, W, C) float32, in which each missing position is the weighted mean of its neighbors.

    A multigrid relaxation, from the coarsest grid to the finest, takes a tenth of the time of a sparse solver. Its root
    mean square error is below ROAD's noise for scattered positions, and up to three times as large for one block of a
    quarter of the image. If all positions are missing, they have the mean color.
    """
    mean = picture.mean(axis=(0, 1))
    known = ~gone[..., np.newaxis]
    return _relaxed(np.where(known, picture, mean), known.astype(np.float32), _SWEEPS)


def _relaxed(picture: np.ndarray, known: np.ndarray, sweeps: int) -> np.ndarray:
    """Return the solution for unknown positions; ``known`` is (H, W, 1), 0 or 1."""
    import cv2

    height, width = picture.shape[:2]
    unknown = 1 - known
    if not unknown.any():
        return picture
    fixed, found = picture * known, picture
    if max(height, width) > 2:
        weight = _pooled(known)
        coarse = np.divide(_pooled(fixed), weight, out=_pooled(picture), where=weight > 0)
        coarse = _relaxed(coarse, (weight > 0).astype(np.float32), _COARSE_SWEEPS)
        found = fixed + unknown * _stretched(coarse, height, width)

    def of_neighbours(one: np.ndarray) -> np.ndarray:
        sums: np.ndarray = cv2.filter2D(one, -1, _NEIGHBOURS, borderType=cv2.BORDER_CONSTANT)
        return sums.reshape(height, width, -1)

    share = unknown / np.maximum(of_neighbours(np.ones((height, width), np.float32)), 1)
    for _ in range(sweeps):
        found = of_neighbours(found)
        found *= share
        found += fixed
    return found


def _pooled(picture: np.ndarray) -> np.ndarray:
    """Return means of two by two positions, (H, W, C); the last row or column alone where a side is odd."""
    for axis in (0, 1):
        size = picture.shape[axis]
        if size > 1:
            starts = np.arange(0, size, 2)
            counts = np.diff([*starts, size]).astype(np.float32).reshape((-1,) + (1,) * (2 - axis))
            picture = np.add.reduceat(picture, starts, axis=axis) / counts
    return picture


def _stretched(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return an image on a finer grid, (height, width, C), by linear interpolation."""
    import cv2

    finer: np.ndarray = cv2.resize(picture, (width, height), interpolation=cv2.INTER_LINEAR)
    return finer.reshape(height, width, -1)


Scores = Callable[[object], np.ndarray]


class Explain(Protocol):
    """Explains a batch by the method of a map source, see ``Explainer.explain_function``; ``model`` is the run's."""

    model: Any

    def scores(self, inputs: Any) -> np.ndarray:
        """Return the run's model's scores of inputs, (N, classes)."""

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return maps of a batch, of another model where one is given."""


BYTES = 2**26  # of changed inputs in one request


def changed_scores(batch: Batch, scores: Scores, changes: Iterable[tuple[int, np.ndarray]]) -> Iterator[np.ndarray]:
    """Yield the scores of changed inputs one by one, (classes,) float64.

    ``changes`` are (row of the batch, its changed input) pairs. They are grouped into requests of ``BYTES``.
    """
    rows, pictures = [], []
    most = max(BYTES // max(batch.pictures[:1].nbytes, 1), 1)
    for row, picture in changes:
        rows.append(row)
        pictures.append(picture)
        if len(rows) == most:
            yield from _query(batch, scores, rows, pictures)
            rows, pictures = [], []
    if rows:
        yield from _query(batch, scores, rows, pictures)


def _query(batch: Batch, scores: Scores, rows: list[int], pictures: list[np.ndarray]) -> np.ndarray:
    return np.asarray(scores(batch.take(rows).with_pictures(np.stack(pictures))), np.float64)


def probabilities(found: np.ndarray, scores: Scores) -> np.ndarray:
    """Return scores, (..., classes), as probabilities, as the model of ``scores`` defines them.

    A function without ``probabilities_of``, which ``ModelScores`` has, returns logits of a softmax over several
    classes, or one number that stays as it is. ``BadInput`` is raised if a model's scores are not known to be logits or
    probabilities.
    """
    from scipy.special import softmax

    if of_model := getattr(scores, "probabilities_of", None):
        return np.asarray(of_model(found))
    return found if found.shape[-1] == 1 else np.asarray(softmax(found, axis=-1))


def check_probabilities(model: Any) -> None:
    """Raise ``BadInput`` unless the scores of a model, if there is one, are known to be logits or probabilities."""
    if model is not None:
        model.probabilities_of(np.zeros((1, model.num_classes)))
