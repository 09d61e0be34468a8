"""Whether what a caller gives fits a model's inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from attribution_benchmarks.command_line import BadInput, listed


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a model takes for one of its inputs.

    Attributes
    ----------
    dtype : np.dtype, optional
        None where the model does not say.
    fits
        Tells whether an array of some shape would do; how many rows it has does not count.
    shown
        The shape as people read it.
    """

    dtype: np.dtype | None
    fits: Callable[[tuple], bool]
    shown: str


def checked_feed(inputs, expected: Mapping[str, Expected], owner: str) -> dict[str, np.ndarray]:
    """Return inputs by name, in the types that a model takes.

    Parameters
    ----------
    inputs
        Array ``(N, ...)`` for a model with one input, or a mapping from input name to array.
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
        if len(expected) > 1:
            raise BadInput(f"{owner} has the inputs {listed(expected)}; give a mapping from name to array")
        inputs = {next(iter(expected)): inputs}
    if set(inputs) != set(expected):
        raise BadInput(f"inputs {listed(inputs)} were given, {owner} takes {listed(expected)}")
    feed = {}
    for name, wanted in expected.items():
        array = np.asarray(inputs[name])
        if (array.dtype == object and wanted.dtype not in (None, object)) or not wanted.fits(array.shape):
            raise BadInput(f"input '{name}' has shape {array.shape}, {owner} takes {wanted.shown}")
        array = np.ascontiguousarray(array, dtype=wanted.dtype)
        if array.dtype.kind in "fV" and not np.isfinite(array).all():  # "V": bfloat16
            row = int(np.argmin(np.isfinite(array.reshape(len(array), -1)).all(axis=1)))
            raise BadInput(f"input '{name}' has NaN or infinite values, first in row {row}")
        feed[name] = array
    if len({len(array) for array in feed.values()}) > 1:
        raise BadInput(f"inputs differ in length: { {name: len(array) for name, array in feed.items()} }")
    return feed
