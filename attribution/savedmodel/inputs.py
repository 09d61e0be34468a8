"""The arrays that a model takes: a caller's, checked, and random ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput, described, listed

if TYPE_CHECKING:
    import tensorflow as tf

Inputs = np.ndarray | Mapping[str, np.ndarray]  # (N, ...) of a model with one input, or by the inputs' names
ANY_SIZE = 64  # of an axis whose size the file leaves open


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
