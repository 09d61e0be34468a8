"""Parameters of a method for several inputs that are explained together as one vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.batching import flat
from attribution.errors import BadInput, listed
from attribution.methods.gradients import is_median, path_start
from attribution.methods.perturbation import labels_of
from attribution.methods.queries import broadcasts

if TYPE_CHECKING:  # it imports TensorFlow
    from attribution.model.other_inputs import JoinedInputs

BY_INPUT = "inputs"  # groups: each input is one


def joined_parameters(joined: JoinedInputs, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's parameters for the vector of inputs that are explained together.

    A baseline and references may be given by name, and groups too. Groups by default or by word are those of each
    input; ``"inputs"`` makes each input one group.

    Raises
    ------
    BadInput
        If another parameter is given by name, or names or shapes are not those of the inputs.
    """
    parameters = {}
    for name, value in given.items():
        if name == "groups" and (value is None or isinstance(value, (str, Mapping))):
            value = _by_input(joined, name, value, _groups)
            starts = np.cumsum([0, *(part.max(initial=0) + 1 for part in value)])
            value = _side_by_side([part + start for part, start in zip(value, starts, strict=False)])
        elif isinstance(value, Mapping):
            if name not in ("baseline", "references"):
                raise BadInput(f"{name} is one value for all inputs, not one by name")
            value = _side_by_side(_by_input(joined, name, value, _start))
        parameters[name] = value
    return parameters


def _by_input(joined: JoinedInputs, parameter: str, value: Any, part: Any) -> list[np.ndarray]:
    """Return the values of a parameter by input, ``(rows or 1, values)`` each."""
    if not isinstance(value, Mapping):
        value = dict.fromkeys(joined.arrays, value)
    if set(value) != set(joined.arrays):
        raise BadInput(
            f"{parameter} is given for {listed(value)}; give it for each explained input, {listed(joined.arrays)}"
        )
    return [flat(part(joined, name, value[name])) for name in joined.arrays]


def _start(joined: JoinedInputs, name: str, value: Any) -> np.ndarray:
    """Return a baseline or references of one input, ``(rows or 1, ...)`` float32."""
    if is_median(value):
        return _as_given(joined, name, path_start(_channels_last(joined, name), value))
    array, shape = np.asarray(value, np.float32), joined.shapes[name]
    if array.ndim <= len(shape) and broadcasts(array.shape, shape):
        array = np.broadcast_to(array, (1, *shape))
    if array.shape[1:] != shape:
        raise BadInput(
            f"a number or an array of shape {shape} is needed for '{name}', with rows or without, not one of shape "
            f"{array.shape}"
        )
    return array


def _groups(joined: JoinedInputs, name: str, wanted: Any) -> np.ndarray:
    """Return the groups of one input's values, ``(rows or 1, ...)`` from 0."""
    if isinstance(wanted, str) and wanted == BY_INPUT:
        return np.zeros((1, *joined.shapes[name]), np.int64)
    inputs = _channels_last(joined, name)
    labels = labels_of(inputs, wanted)
    if labels.ndim < inputs.ndim:
        labels = labels[..., np.newaxis]
    labels = _as_given(joined, name, labels)
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape)


def _channels_last(joined: JoinedInputs, name: str) -> np.ndarray:
    return np.moveaxis(joined.arrays[name], 1, -1) if name in joined.channels_first else joined.arrays[name]


def _as_given(joined: JoinedInputs, name: str, values: np.ndarray) -> np.ndarray:
    """Return values ``(rows, ...)`` that broadcast to an input with the channels last as the caller's input is."""
    values = np.broadcast_to(values, (len(values), *_channels_last(joined, name).shape[1:]))
    return np.moveaxis(values, -1, 1) if name in joined.channels_first else values


def _side_by_side(parts: list[np.ndarray]) -> np.ndarray:
    """Return arrays ``(rows or 1, values)`` as one."""
    rows = max(map(len, parts))
    if {len(part) for part in parts} - {1, rows}:
        raise BadInput(f"{listed(map(len, parts))} rows were given for the explained inputs; give as many for each")
    return np.concatenate([np.broadcast_to(part, (rows, part.shape[1])) for part in parts], axis=1)
