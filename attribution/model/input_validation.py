"""Whether what a caller gives fits a model: its inputs and its classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attribution.errors import BadInput, listed
from attribution.methods.protocols import Inputs


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
    if not isinstance(inputs, Mapping):
        with_rows = [name for name, wanted in expected.items() if not wanted.is_single]
        if len(with_rows) != 1:
            raise BadInput(f"{owner} has the inputs {listed(expected)}; give a mapping from name to array")
        inputs = {with_rows[0]: inputs}
    switches = [name for name, wanted in expected.items() if wanted.is_single and wanted.dtype == np.bool_]
    inputs = {**{name: np.zeros((), bool) for name in switches}, **inputs}  # off by default, as in inference
    if set(inputs) != set(expected):
        raise BadInput(f"inputs {listed(inputs)} were given, {owner} takes {listed(expected)}")
    feed = {}
    for name, wanted in expected.items():
        array = np.asarray(inputs[name])
        if array.ndim == 0 and not wanted.is_single:
            raise BadInput(f"input '{name}' is a single value, {owner} takes {wanted.shown}")
        if (array.dtype == object and wanted.dtype not in (None, object)) or not wanted.fits(array.shape):
            raise BadInput(f"input '{name}' has shape {array.shape}, {owner} takes {wanted.shown}")
        array = array.astype(wanted.dtype) if wanted.is_single else np.ascontiguousarray(array, dtype=wanted.dtype)
        if array.dtype.kind in "fV" and array.ndim and not np.isfinite(array).all():  # "V": bfloat16
            row = int(np.argmin(np.isfinite(array.reshape(len(array), -1)).all(axis=1)))
            raise BadInput(f"input '{name}' has NaN or infinite values, first in row {row}")
        feed[name] = array
    lengths = {name: len(array) for name, array in feed.items() if array.ndim}
    if len(set(lengths.values())) > 1:
        raise BadInput(f"inputs differ in length: {lengths}")
    return feed


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
    array = np.asarray(targets)
    if not (np.issubdtype(array.dtype, np.integer) and array.shape in ((), (total,))):
        shown = f"{array.dtype} of shape {array.shape}"
        raise BadInput(f"targets must be {total} whole numbers, one per input, not {shown}")
    wrong = array[(array < 0) | (array >= num_classes)]
    if wrong.size:
        raise BadInput(f"target {wrong.flat[0]} is outside the model's classes 0 to {num_classes - 1}")
    return np.broadcast_to(array, (total,)).astype(np.int32)
