"""Arrays on their way through a model: a caller's, checked, random ones, passes of equal size, means over samples."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attribution.errors import BadInput, described, listed

if TYPE_CHECKING:
    import tensorflow as tf

Inputs = np.ndarray | Mapping[str, np.ndarray]  # (N, ...) of a model with one input, or by the inputs' names
ANY_SIZE = 64  # of an axis whose size the file leaves open
NodeRules = Mapping[str, str]  # node of the graph -> name of the registered gradient that replaces the true one
Rules = Callable[[Any, str, str], NodeRules]  # from (graph, input node, score node)


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a model takes for one of its inputs.

    Attributes
    ----------
    dtype : np.dtype, optional
        None where the model does not say.
    fits
        Whether an array of some shape fits; the number of rows does not count.
    shown
        The shape as text.
    is_single
        It is one value for all rows, such as a switch between training and inference.
    """

    dtype: np.dtype | None
    fits: Callable[[tuple[int, ...]], bool]
    shown: str
    is_single: bool = False


def shown(shape: tf.TensorShape) -> str:
    """Return a shape as messages say it."""
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")" if shape.rank else str(shape)


def checked_feed(inputs: Inputs, expected: Mapping[str, Expected], owner: str) -> dict[str, np.ndarray]:
    """Return inputs by name, in the types that a model takes.

    Parameters
    ----------
    inputs
        Array ``(N, ...)`` for a model with one input, or a mapping from input name to array. A single bool, such as
        ``training``, may be missing and is False then.
    expected
        For each input of the model.
    owner
        What a message calls the model.

    Raises
    ------
    BadInput
        If names, shapes, lengths or values do not fit.
    """
    named = _by_name(inputs, expected, owner)
    feed = {name: _checked_array(name, named[name], wanted, owner) for name, wanted in expected.items()}
    lengths = {name: len(array) for name, array in feed.items() if array.ndim}
    if len(set(lengths.values())) > 1:
        raise BadInput(f"inputs differ in length: {lengths}")
    return feed


def _by_name(inputs: Inputs, expected: Mapping[str, Expected], owner: str) -> dict[str, np.ndarray]:
    """Return inputs by name, with those that may be missing."""
    if not isinstance(inputs, Mapping):
        with_rows = [name for name, wanted in expected.items() if not wanted.is_single]
        if len(with_rows) != 1:
            raise BadInput(f"{owner} has the inputs {listed(expected)}; give a mapping from name to array")
        inputs = {with_rows[0]: inputs}
    switches = [name for name, wanted in expected.items() if wanted.is_single and wanted.dtype == np.bool_]
    named = {**{name: np.zeros((), bool) for name in switches}, **inputs}  # off by default, as in inference
    if set(named) != set(expected):
        raise BadInput(f"inputs {listed(named)} were given, {owner} takes {listed(expected)}")
    return named


def _checked_array(name: str, given: Any, wanted: Expected, owner: str) -> np.ndarray:
    """Return an input in the type that a model takes."""
    array = as_array(given, f"input '{name}'")
    if array.ndim == 0 and not wanted.is_single:
        kind = "text" if array.dtype.kind in "US" else "a single value"
        raise BadInput(f"input '{name}' is {kind}, {owner} takes {wanted.shown}")
    if not wanted.fits(array.shape):
        hint = "; add the axis of the batch to one input by [np.newaxis]" if wanted.fits((1, *array.shape)) else ""
        raise BadInput(f"input '{name}' has shape {array.shape}, {owner} takes {wanted.shown}{hint}")
    if wanted.dtype is not None and not converts(array.dtype, np.dtype(wanted.dtype)):
        raise BadInput(f"input '{name}' has values of type {array.dtype}, {owner} takes {np.dtype(wanted.dtype)}")
    given = array
    with np.errstate(invalid="ignore", over="ignore"):  # checked below
        array = given.astype(wanted.dtype) if wanted.is_single else np.ascontiguousarray(given, dtype=wanted.dtype)
    _check_types(name, given, array, owner)
    _check_finite(name, given, array)
    return array


def _check_types(name: str, given: np.ndarray, array: np.ndarray, owner: str) -> None:
    """Refuse values that change in the type that a model takes, other than by rounding."""
    if array.dtype.kind == "O" and not all(isinstance(value, (str, bytes)) for value in array.flat):
        raise BadInput(f"input '{name}' has values of type {given.dtype}, {owner} takes text")
    if array.dtype.kind in "iub" and given.dtype.kind in "iuf" and (array != given).any():
        wrong = "numbers other than 0 and 1," if array.dtype.kind == "b" else "fractions or numbers"
        raise BadInput(f"input '{name}' has {wrong} outside {array.dtype}, the type that {owner} takes")


def _check_finite(name: str, given: np.ndarray, array: np.ndarray) -> None:
    if array.dtype.kind in "fV" and array.ndim and not np.isfinite(array).all():  # "V": bfloat16
        row = int(np.argmin(np.isfinite(array.reshape(len(array), -1)).all(axis=1)))
        wrong = f"values too large for {array.dtype}" if np.isfinite(given[row]).all() else "NaN or infinite values"
        raise BadInput(f"input '{name}' has {wrong}, first in row {row}")


def converts(given: np.dtype, wanted: np.dtype) -> bool:
    """Return whether values of a type are numbers if a model takes numbers, without an imaginary part to lose."""
    if wanted.kind in "OSU":
        return True
    return given.kind in "biuf" or given == wanted or (given.kind == "V" and given.type is not np.void)  # bfloat16


def as_array(value: Any, name: str) -> np.ndarray:
    """Return a caller's array.

    Raises
    ------
    BadInput
        If it is masked, a list of parts of different shapes, or an object that cannot be converted.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise BadInput(f"{name}: a masked array; give a value for every position")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise BadInput(f"{name}: a {type(value).__name__} whose parts differ in shape is not an array") from error
    except Exception as error:  # of its own conversion
        raise BadInput(f"{name}: a {type(value).__name__} is not an array ({described(error)})") from error


def random_feed(model: Any, rows: int = 1, any_size: int = ANY_SIZE) -> dict[str, np.ndarray]:
    """Return ``random_arrays`` of a model's inputs by name; ``rows`` is their number where the file leaves it open."""
    arrays = random_arrays(model.inputs.values(), model.batch_size(rows), any_size)
    return dict(zip(model.inputs, arrays, strict=True))


def random_arrays(specs: Iterable[tf.TensorSpec], rows: int, any_size: int) -> list[np.ndarray]:
    """Return random arrays: numbers in [0, 1] of floating point, True for truth values, else zeros.

    A single truth value, such as ``training``, is False.

    Parameters
    ----------
    specs
        Shapes and types.
    rows, any_size
        Sizes of the first axis and of the others, where a shape leaves them open.
    """
    generator = np.random.default_rng(0)
    arrays = []
    for spec in specs:
        sizes = spec.shape.as_list() if spec.shape.rank else []
        shape = tuple(size or (any_size if axis else rows) for axis, size in enumerate(sizes))
        dtype = spec.dtype.as_numpy_dtype
        if spec.dtype.is_floating:
            arrays.append(generator.random(shape, dtype=np.float32).astype(dtype))
        else:
            value = b"" if dtype is object else spec.dtype.is_bool and shape != ()
            arrays.append(np.full(shape, value, dtype))
    return arrays


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
    """Yield the rows of each pass over ``total`` ones, int64 indices, and how many of them are not padding.

    All passes have the same number of rows, so that no function is traced twice; the last one is filled up by repeating
    its last row. If ``equal``, they may be smaller than ``batch_size`` to divide the rows evenly: then fewer rows than
    passes are padding. Otherwise each has exactly ``batch_size`` rows, as a model with a fixed batch needs.
    """
    if total == 0:
        return
    passes = -(-total // batch_size)
    size = -(-total // passes) if equal else batch_size
    for start in range(0, total, size):
        yield np.minimum(np.arange(start, start + size), total - 1), min(size, total - start)


def real_rows(values: np.ndarray, fed: int, real: int, name: str, size: int | None = None) -> np.ndarray:
    """Return those ``real`` rows of a pass's values ``(fed, ...)`` that are not padding.

    ``name`` is what the values are, for the error. ``size`` is the length of their first axis as the file declares it,
    for a model whose batch has any size: an axis of fixed length may have the batch's length by chance.

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
