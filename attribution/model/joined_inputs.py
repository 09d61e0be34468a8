"""The same model with several of its inputs as one vector, so that methods explain them together.

Each method runs as for a vector; its maps are split by input afterwards. Their sum, where a law fixes it, is over all
of these inputs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph import nodes as graph_nodes
from attribution.graph.view import GraphView
from attribution.methods.gradients import is_median, path_start
from attribution.methods.perturbation import labels_of
from attribution.methods.queries import broadcasts
from attribution.model.saved_model import FrozenModel

ALL = "all"  # in place of names: every input of floating point
BY_INPUT = "inputs"  # groups: each input is one


@dataclasses.dataclass(frozen=True)
class JoinedInputs:
    """Several inputs that are explained together.

    Attributes
    ----------
    arrays : dict[str, np.ndarray]
        Name to array ``(N, ...)``, in the order of the vector.
    channels_first
        Names of the inputs whose channels come before their positions.
    """

    arrays: Mapping[str, np.ndarray]
    channels_first: Collection[str] = ()

    @property
    def name(self) -> str:
        """Name of the vector."""
        return f"({', '.join(self.arrays)})"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name to the shape of one row."""
        return {name: array.shape[1:] for name, array in self.arrays.items()}

    @property
    def sizes(self) -> list[int]:
        """Number of values of each input."""
        return [math.prod(shape) for shape in self.shapes.values()]

    @property
    def dtype(self) -> tf.DType:
        """Type of the vector: double precision if an input has it, else single."""
        return tf.float64 if any(array.dtype == np.float64 for array in self.arrays.values()) else tf.float32

    @property
    def vector(self) -> np.ndarray:
        """``(N, values)``: the inputs."""
        parts = [_flat(array) for array in self.arrays.values()]
        return np.concatenate(parts, axis=1, dtype=self.dtype.as_numpy_dtype)

    def split(self, maps: np.ndarray) -> dict[str, np.ndarray]:
        """Return maps ``(N, values)`` by name, each of its input's shape."""
        parts = np.split(maps, np.cumsum(self.sizes)[:-1], axis=1)
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: np.ascontiguousarray(part).reshape(len(part), *shape) for (name, shape), part in named}

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a method's parameters for the vector.

        A baseline and references may be given by name, and groups too. Groups by default or by word are those of each
        input; ``"inputs"`` makes each input one group.

        Raises
        ------
        BadInput
            If another parameter is given by name, or names or shapes are not those of the inputs.
        """
        joined = {}
        for name, value in given.items():
            if name == "groups" and (value is None or isinstance(value, (str, Mapping))):
                value = self._joined(name, value, self._groups)
                starts = np.cumsum([0, *(part.max(initial=0) + 1 for part in value)])
                value = _side_by_side([part + start for part, start in zip(value, starts, strict=False)])
            elif isinstance(value, Mapping):
                if name not in ("baseline", "references"):
                    raise BadInput(f"{name} is one value for all inputs, not one by name")
                value = _side_by_side(self._joined(name, value, self._start))
            joined[name] = value
        return joined

    def _joined(self, parameter: str, value: Any, part: Any) -> list[np.ndarray]:
        """Return the values of a parameter by input, ``(rows or 1, values)`` each."""
        if not isinstance(value, Mapping):
            value = dict.fromkeys(self.arrays, value)
        if set(value) != set(self.arrays):
            raise BadInput(
                f"{parameter} is given for {listed(value)}; give it for each explained input, {listed(self.arrays)}"
            )
        return [_flat(part(name, value[name])) for name in self.arrays]

    def _start(self, name: str, value: Any) -> np.ndarray:
        """Return a baseline or references of one input, ``(rows or 1, ...)`` float32."""
        if is_median(value):
            return self._as_given(name, path_start(self._channels_last(name), value))
        array, shape = np.asarray(value, np.float32), self.shapes[name]
        if array.ndim <= len(shape) and broadcasts(array.shape, shape):
            array = np.broadcast_to(array, (1, *shape))
        if array.shape[1:] != shape:
            raise BadInput(
                f"a number or an array of shape {shape} is needed for '{name}', with rows or without, not one of shape "
                f"{array.shape}"
            )
        return array

    def _groups(self, name: str, wanted: Any) -> np.ndarray:
        """Return the groups of one input's values, ``(rows or 1, ...)`` from 0."""
        if isinstance(wanted, str) and wanted == BY_INPUT:
            return np.zeros((1, *self.shapes[name]), np.int64)
        inputs = self._channels_last(name)
        labels = labels_of(inputs, wanted)
        if labels.ndim < inputs.ndim:
            labels = labels[..., np.newaxis]
        labels = self._as_given(name, labels)
        return np.unique(labels, return_inverse=True)[1].reshape(labels.shape)

    def _channels_last(self, name: str) -> np.ndarray:
        return np.moveaxis(self.arrays[name], 1, -1) if name in self.channels_first else self.arrays[name]

    def _as_given(self, name: str, values: np.ndarray) -> np.ndarray:
        """Return values ``(rows, ...)`` that broadcast to an input with the channels last as the caller's input is."""
        values = np.broadcast_to(values, (len(values), *self._channels_last(name).shape[1:]))
        return np.moveaxis(values, -1, 1) if name in self.channels_first else values


def names_of(explain_input: str) -> list[str]:
    """Return the names that a text has by comma.

    Raises
    ------
    BadInput
        If a name is empty or given twice.
    """
    names = [name.strip() for name in explain_input.split(",")]
    if "" in names:
        raise BadInput(f"explain_input='{explain_input}' has an empty name; separate names by one comma")
    if len(set(names)) < len(names):
        raise BadInput(f"explain_input='{explain_input}' names an input twice")
    return names


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _side_by_side(parts: list[np.ndarray]) -> np.ndarray:
    """Return arrays ``(rows or 1, values)`` as one."""
    rows = max(map(len, parts))
    if {len(part) for part in parts} - {1, rows}:
        raise BadInput(f"{listed(map(len, parts))} rows were given for the explained inputs; give as many for each")
    return np.concatenate([np.broadcast_to(part, (rows, part.shape[1])) for part in parts], axis=1)


def with_joined_inputs(frozen: FrozenModel, joined: JoinedInputs) -> FrozenModel:
    """Return a model that takes the vector of some inputs, ``joined.name``, after its other inputs."""
    specs = [frozen.inputs[name] for name in joined.shapes]
    batch = specs[0].shape[0]
    nodes = {
        frozen.input_nodes[name]: tf.TensorSpec([batch, *shape], spec.dtype)
        for (name, shape), spec in zip(joined.shapes.items(), specs, strict=True)
    }
    new, loaded = "attribution_joined", frozen.loaded
    inputs = {name: spec for name, spec in frozen.inputs.items() if name not in joined.shapes}
    inputs[joined.name] = tf.TensorSpec([batch, sum(joined.sizes)], joined.dtype)

    def split(*arrays: Any) -> Any:
        given = dict(zip(inputs, arrays, strict=True))
        parts = tf.split(given.pop(joined.name), joined.sizes, axis=1)
        for part, spec, (name, shape) in zip(parts, specs, joined.shapes.items(), strict=True):
            given[name] = tf.cast(tf.reshape(part, [-1, *shape]), spec.dtype)
        assert loaded is not None
        return loaded(*(given[name] for name in frozen.inputs))

    return dataclasses.replace(
        frozen,
        graph=GraphView(
            graph_nodes.with_joined_inputs(frozen.graph.graph_def, nodes, new, joined.dtype), frozen.graph.weights
        ),
        inputs=inputs,
        input_nodes={name: frozen.input_nodes.get(name, new) for name in inputs},
        loaded=split if loaded is not None else None,
    )
