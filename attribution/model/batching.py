"""Passes: rows cut into those of equal size and what they return, random numbers per input, means over samples."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from attribution.errors import BadInput
from attribution.savedmodel.inputs import as_array

NodeRules = Mapping[str, str]  # node of the graph -> name of the registered gradient that replaces the true one
Rules = Callable[[Any, str, str], NodeRules]  # from (graph, input node, score node)


class Backward(NamedTuple):
    """Results of a backward pass over R rows.

    Attributes
    ----------
    scores
        ``(R, classes)`` float32.
    input_gradient
        Of the input's shape; ``None`` unless requested.
    values, gradients
        Layer name to array ``(R, ...)`` of the layer's shape.
    """

    scores: np.ndarray
    input_gradient: np.ndarray | None
    values: Mapping[str, np.ndarray]
    gradients: Mapping[str, np.ndarray]


class FoldedBatch(BadInput):
    """The first axis of a tensor does not count the inputs: windows or time steps are folded into it."""


class NotFinite(BadInput):
    """Scores, or gradients of them, are NaN or infinite."""


def checked_targets(targets: Any, total: int, num_classes: int) -> np.ndarray:
    """Return the classes to explain as ``(total,)`` int32.

    Parameters
    ----------
    targets
        ``(total,)`` whole numbers, or one for all.
    total
        Inputs.
    num_classes
        Of the model.

    Raises
    ------
    BadInput
        If they are not integers, not one per input, or not classes of the model.
    """
    array = as_array(targets, "targets")
    if not (np.issubdtype(array.dtype, np.integer) and array.shape in ((), (total,))):
        shown = f"{array.dtype} of shape {array.shape}"
        raise BadInput(f"targets must be {total} whole numbers, one per input, or one for all, not {shown}")
    wrong = array[(array < 0) | (array >= num_classes)]
    if wrong.size:
        raise BadInput(f"target {wrong.flat[0]} is outside the model's classes 0 to {num_classes - 1}")
    return np.broadcast_to(array, (total,)).astype(np.int32)


def chunks(total: int, batch_size: int, equal: bool = True) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the rows of each pass.

    All passes have the same number of rows, so that no function is traced twice. The last one is
    filled up by repeating its last row.

    Parameters
    ----------
    total
        Number of rows.
    batch_size
        Most rows in one pass.
    equal
        Whether the passes may be smaller than ``batch_size`` so that they divide the rows evenly; then fewer
        rows than passes are padding. Otherwise each has exactly ``batch_size`` rows, as a model with a fixed
        batch needs.

    Yields
    ------
    rows : np.ndarray
        Row indices, int64.
    real : int
        How many of them are not padding.
    """
    if total == 0:
        return
    passes = -(-total // batch_size)
    size = -(-total // passes) if equal else batch_size
    for start in range(0, total, size):
        yield np.minimum(np.arange(start, start + size), total - 1), min(size, total - start)


def real_rows(values: np.ndarray, fed: int, real: int, name: str, size: int | None = None) -> np.ndarray:
    """Return the rows of a pass's values that are not padding.

    Parameters
    ----------
    values
        What the pass computed, ``(fed, ...)``.
    fed
        Number of rows fed, padding included.
    real
        How many of them are not padding.
    name
        What the values are, for the error.
    size
        Length of the values' first axis as the file declares it, for a model whose batch has any size. An axis of
        fixed length may have the batch's length by chance.

    Raises
    ------
    BadInput
        ``FoldedBatch``, if the values' first axis does not count the inputs. Cutting them would give one input the
        values of another.
    """
    if values.ndim == 0 or len(values) != fed or (size is not None and fed > 1):
        raise FoldedBatch(
            f"{name} has shape {values.shape} for a batch of {fed}: its first axis does not count the inputs, because "
            "windows or time steps are folded into the batch, so its values cannot be assigned to inputs"
        )
    return values[:real]


def take(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return some rows of an array; without a copy where rising rows leave none out. A single number has no rows."""
    return array[_whole(rows)] if array.ndim else array


def flat(array: np.ndarray) -> np.ndarray:
    """Return an array ``(N, ...)`` as ``(N, values)``."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _whole(rows: np.ndarray) -> np.ndarray | slice:
    """Return rows that rise one by one as a slice, others as they are."""
    return slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] + 1 == len(rows) else rows


def pieces(numbers: np.ndarray) -> list[tuple[int, int, int]]:
    """Return (value, start, stop) of each run of equal values."""
    stops = [*(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
    return [(int(numbers[stop - 1]), start, stop) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def generator(seed: int, key: Any, purpose: str) -> np.random.Generator:
    """Return the random generator of one input.

    Parameters
    ----------
    seed
        Seed of the run.
    key
        Name or index of the input. Batch and order do not matter, the key does.
    purpose
        Use of the numbers; different purposes give independent numbers.
    """
    text = f"{seed}/{purpose}/{key}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()  # as of a file whose name is no UTF-8
    return np.random.Generator(np.random.SFC64(np.frombuffer(digest, np.uint32)))


class Moments:
    """Running mean, and mean of squares or variance, of samples that are not stored.

    Parameters
    ----------
    shape
        Shape of one sample of all inputs, ``(N, ...)``.
    squares
        Whether second moments are wanted.
    """

    def __init__(self, shape: tuple[int, ...], squares: bool) -> None:
        self._count = np.zeros(shape[0], np.int64)
        self._sum: np.ndarray = np.zeros(shape)
        self._square_sum: np.ndarray | None = np.zeros(shape) if squares else None

    def add(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Add one sample of each of some inputs; ``rows`` names each input at most once, in rising order."""
        places = _whole(rows)  # adds in place, without a copy
        self._count[places] += 1
        self._sum[places] += values
        if self._square_sum is not None:
            self._square_sum[places] += np.square(values, dtype=np.float64)

    @property
    def mean(self) -> np.ndarray:
        """Mean of the samples, float64."""
        return np.asarray(self._sum / self._divisor)

    @property
    def mean_square(self) -> np.ndarray:
        """Mean of the squared samples, float64."""
        return np.asarray(self._square_sum / self._divisor)

    @property
    def variance(self) -> np.ndarray:
        """Variance of the samples (divided by their number), float64, never negative."""
        return np.asarray(np.maximum(self.mean_square - np.square(self.mean), 0.0))

    @property
    def _divisor(self) -> np.ndarray:
        return self._count.reshape((-1,) + (1,) * (self._sum.ndim - 1))
