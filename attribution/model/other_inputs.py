"""The same network elsewhere: at a tensor inside it, with its channels last, with several inputs as one.

A ``Step`` changes a frozen graph, and the arrays that go in. It is a value, so that a model keeps what it compiled for
one.

Integers have no gradient. For tokens and integer images the first floating-point tensor behind them is explained: the
embedding, or the image as the network computes with it.

Several inputs that are explained together are one vector. Each method runs as for a vector; its maps are split by input
afterwards. Their sum, where a law fixes it, is over all of these inputs.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph.view import GraphView, constant, node_of, pure_subgraph, set_placeholder, without_nodes
from attribution.model.batching import flat
from attribution.savedmodel.freeze import PARSING, FrozenGraph
from attribution.savedmodel.scores import find_head

_PASSING = ("Identity", "IdentityN", "StopGradient")


def first_floats(frozen: FrozenGraph, source: str, target: str) -> list[str]:
    """Return the nodes behind an input of another type that first hold numbers with a gradient.

    ``source`` and ``target`` are the nodes of the input and of the score.
    """
    graph, found = frozen.graph, []
    path = graph.between(source, target)
    on_path = set(path)
    rank = graph.shape(source).rank
    behind: set[str] = set()  # what is computed from numbers of floating point
    for name in path[1:]:
        op, before = graph.nodes[name].op, [tensor for tensor in graph.nodes[name].input if node_of(tensor) in on_path]
        if any(_has_floats(graph, tensor, behind) for tensor in before):
            behind.add(name)
        elif graph.is_float(name) and op not in PARSING:
            if graph.shape(name).rank is None or graph.shape(name).rank >= rank:
                found.append(name)
    # A mask is made of comparisons, and its numbers say nothing of the input's.
    return [name for name in found if not _is_mask(graph, name)] or found


def _has_floats(graph: GraphView, tensor: str, behind: Collection[str]) -> bool:
    """Return whether a tensor has numbers of floating point, or of the nodes ``behind`` their spectrum or list."""
    if graph.is_float(node_of(tensor)):
        return graph.nodes[node_of(tensor)].op not in PARSING
    dtype = graph.dtype(tensor)
    return node_of(tensor) in behind and (dtype.is_floating or dtype.is_complex or dtype == tf.variant)


def _is_mask(graph: GraphView, name: str) -> bool:
    node = graph.nodes[name]
    while node.op in ("Cast", "Identity", "ExpandDims", "Reshape"):
        if node.op == "Cast" and node.attr["SrcT"].type == tf.bool.as_datatype_enum:
            return True
        node = graph.nodes[node_of(node.input[0])]
    return False


def find_tensor(frozen: FrozenGraph, explain_input: str, target: str) -> str:
    """Return the node of the tensor inside a model that a user's name means.

    Parameters
    ----------
    explain_input
        A node or tensor name, or a component of it, such as a Keras layer's name; of several nodes the last is meant.
    target
        Node of the score.

    Raises
    ------
    BadInput
        If there is none of floating point between the inputs and the score.
    """
    floats = _floats_inside(frozen, target)
    wanted = node_of(explain_input)
    if wanted in floats:
        return wanted
    graph = frozen.graph
    chosen = [name for name in floats if graph.shape(name).rank != 1 and graph.nodes[name].op not in _PASSING]
    found = _in_keras_layer(frozen, chosen, wanted) or [name for name in chosen if f"/{wanted}/" in f"/{name}/"]
    if not found:
        raise BadInput(
            f"the model has no input '{explain_input}'; its inputs are {listed(frozen.inputs)}, and no tensor of "
            f"floating point between input and score has that name{_first_of_them(frozen, target)}"
        )
    return found[-1]


def _first_of_them(frozen: FrozenGraph, target: str) -> str:
    """Return, as the end of a sentence on tensors inside a model, the first of floating point behind other inputs."""
    sources = [node for node in frozen.input_nodes.values() if not frozen.graph.is_float(node)]
    first = [one for source in sources for one in first_floats(frozen, source, target)]
    return f"; the first of them are {listed(dict.fromkeys(first))}" if first else ""


def _floats_inside(frozen: FrozenGraph, target: str) -> list[str]:
    """Return the nodes of floating point with rows between the inputs and the score."""
    graph = frozen.graph
    path = graph.below(frozen.input_nodes.values()) & graph.above([target])
    floats = [name for name, node in graph.nodes.items() if name in path and node.op != "Placeholder"]
    return [name for name in floats if graph.is_float(name) and graph.shape(name).rank != 0]


def _in_keras_layer(frozen: FrozenGraph, names: list[str], layer: str) -> list[str]:
    """Return the nodes of a Keras layer; none of a file whose scopes Keras has not numbered."""
    if not frozen.numbered:
        return []
    numbered = re.compile(re.escape(layer) + r"_\d+")
    return [name for name in names if any(map(numbered.fullmatch, name.split("/")[:-1]))]


def at_tensor(frozen: FrozenGraph, name: str, node: str) -> FrozenGraph:
    """Return a model in which the tensor of a node is one more input called ``name``."""
    if frozen.loaded is not None:
        raise BadInput(f"the tensor '{node}' cannot be explained: the gradients of {frozen.inexact} are known only as "
                       "gradients of the model's own inputs")  # fmt: skip
    graph, dtype = frozen.graph, frozen.graph.dtype(node)
    shape = graph.shape(node)
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph.graph_def)
    if any(tensor.startswith(f"{node}:") for user in graph.uses(node) for tensor in graph.nodes[user].input):
        new = changed.node.add(name=f"{node}/given")  # other outputs of the node are used too
        for user in changed.node:
            user.input[:] = [new.name if tensor in (node, f"{node}:0") else tensor for tensor in user.input]
        node = new.name
    set_placeholder(next(one for one in changed.node if one.name == node), dtype, shape)
    nodes = {**frozen.input_nodes, name: node}
    # The logits may lie beside the output.
    view = GraphView(pure_subgraph(changed, [frozen.output, frozen.logits], keep=nodes.values()), graph.weights)
    return dataclasses.replace(
        frozen,
        graph=view,
        head=find_head(view, frozen.output),
        inputs={**frozen.inputs, name: tf.TensorSpec(shape, dtype)},
        input_nodes=nodes,
    )


def with_channels_last(frozen: FrozenGraph, name: str) -> FrozenGraph:
    """Return a model that takes one input as ``(batch, positions..., channels)`` instead of with channels first."""
    spec, node = frozen.inputs[name], frozen.input_nodes[name]
    graph_def, new = _graph_with_channels_last(frozen.graph.graph_def, node, spec.dtype, spec.shape)
    loaded = frozen.loaded

    def transposed(*arrays: Any) -> Any:
        back = [0, spec.shape.rank - 1, *range(1, spec.shape.rank - 1)]
        pairs = zip(frozen.inputs, arrays, strict=True)
        assert loaded is not None
        return loaded(*(tf.transpose(array, back) if key == name else array for key, array in pairs))

    return dataclasses.replace(
        frozen,
        graph=GraphView(graph_def, frozen.graph.weights),
        inputs={**frozen.inputs, name: tf.TensorSpec([spec.shape[0], *spec.shape[2:], spec.shape[1]], spec.dtype)},
        input_nodes={**frozen.input_nodes, name: new},
        loaded=transposed if loaded is not None else None,
    )


def _graph_with_channels_last(
    graph_def: tf.compat.v1.GraphDef, name: str, dtype: tf.DType, shape: Any
) -> tuple[tf.compat.v1.GraphDef, str]:
    """Return a pure graph whose input has its channels last, and the new input's node.

    ``name`` is the node of an input ``(batch, channels, positions...)`` of a type and shape.
    """
    changed = without_nodes(graph_def, [name])
    rank, new, order = len(shape), f"{name}_channels_last", f"{name}_channels_first/order"
    placeholder = changed.node.add(name=new)
    set_placeholder(placeholder, dtype, [shape[0], *shape[2:], shape[1]])
    constant(changed.node, {}, order, np.array([0, rank - 1, *range(1, rank - 1)], np.int32))
    transpose = changed.node.add(name=name, op="Transpose")
    transpose.input.extend([new, order])
    transpose.attr["T"].type = dtype.as_datatype_enum
    transpose.attr["Tperm"].type = tf.int32.as_datatype_enum
    return changed, new


def channels_first(array: np.ndarray) -> np.ndarray:
    """Return ``(N, positions..., channels)`` as ``(N, channels, positions...)``."""
    return np.ascontiguousarray(np.moveaxis(array, -1, 1))


ALL = "all"  # in place of names: every input of floating point


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
        parts = [flat(array) for array in self.arrays.values()]
        return np.concatenate(parts, axis=1, dtype=self.dtype.as_numpy_dtype)

    def split(self, maps: np.ndarray) -> dict[str, np.ndarray]:
        """Return maps ``(N, values)`` by name, each of its input's shape."""
        parts = np.split(maps, np.cumsum(self.sizes)[:-1], axis=1)
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: np.ascontiguousarray(part).reshape(len(part), *shape) for (name, shape), part in named}


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


def with_joined_inputs(frozen: FrozenGraph, joined: JoinedInputs) -> FrozenGraph:
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
            _graph_with_joined_inputs(frozen.graph.graph_def, nodes, new, joined.dtype), frozen.graph.weights
        ),
        inputs=inputs,
        input_nodes={name: frozen.input_nodes.get(name, new) for name in inputs},
        loaded=split if loaded is not None else None,
    )


def _graph_with_joined_inputs(
    graph_def: tf.compat.v1.GraphDef, specs: Mapping[str, tf.TensorSpec], new: str, dtype: tf.DType
) -> tf.compat.v1.GraphDef:
    """Return a pure graph that takes several inputs as one vector, which it splits, reshapes and casts.

    ``specs`` are these inputs' shapes and types by node, with no axis of unknown size but the first; ``new`` and
    ``dtype`` are the new input's node and type.
    """
    changed = without_nodes(graph_def, specs)
    sizes = [spec.shape[1:].num_elements() for spec in specs.values()]
    set_placeholder(changed.node.add(name=new), dtype, [next(iter(specs.values())).shape[0], sum(sizes)])
    counts = constant(changed.node, {}, f"{new}/sizes", np.array(sizes, np.int32))
    axis = constant(changed.node, {}, f"{new}/axis", np.int32(1))
    split = changed.node.add(name=f"{new}/split", op="SplitV", input=[new, counts, axis])
    split.attr["T"].type, split.attr["Tlen"].type = dtype.as_datatype_enum, tf.int32.as_datatype_enum
    split.attr["num_split"].i = len(sizes)
    for number, (name, spec) in enumerate(specs.items()):
        shape = constant(changed.node, {}, f"{name}/shape", np.array([-1, *spec.shape[1:]], np.int32))
        is_cast = spec.dtype != dtype
        part = changed.node.add(name=f"{name}/part" if is_cast else name, op="Reshape")
        part.input.extend([f"{split.name}:{number}", shape])
        part.attr["T"].type, part.attr["Tshape"].type = dtype.as_datatype_enum, tf.int32.as_datatype_enum
        if is_cast:
            cast = changed.node.add(name=name, op="Cast", input=[part.name])
            cast.attr["SrcT"].type, cast.attr["DstT"].type = dtype.as_datatype_enum, spec.dtype.as_datatype_enum
    return changed


@dataclasses.dataclass(frozen=True)
class AtTensor:
    """The tensor of a node is one more input; a model computes its values."""

    name: str
    node: str

    def change(self, frozen: FrozenGraph) -> FrozenGraph:
        """Return the changed graph."""
        return at_tensor(frozen, self.name, self.node)


@dataclasses.dataclass(frozen=True)
class ChannelsLast:
    """An input has its channels last instead of first, as methods need it."""

    name: str

    def change(self, frozen: FrozenGraph) -> FrozenGraph:
        """Return the changed graph."""
        return with_channels_last(frozen, self.name)

    def feed(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the arrays that go in."""
        return {**feed, self.name: np.ascontiguousarray(np.moveaxis(feed[self.name], 1, -1))}


@dataclasses.dataclass(frozen=True)
class AtPosition:
    """The scores are those at a position of the output."""

    position: tuple[int, ...]

    def change(self, frozen: FrozenGraph) -> FrozenGraph:
        """Return the changed graph."""
        return frozen.at_position(self.position)

    def feed(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the arrays that go in."""
        return feed


@dataclasses.dataclass(frozen=True)
class Joined:
    """Several inputs are one vector; see ``JoinedInputs`` for the attributes."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[tf.DType, ...]
    channels_first: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the vector."""
        return self._of_no_rows.name

    @property
    def _of_no_rows(self) -> JoinedInputs:
        pairs = zip(self.shapes, self.types, strict=True)
        arrays = [np.zeros((0, *shape), dtype.as_numpy_dtype) for shape, dtype in pairs]
        return JoinedInputs(dict(zip(self.names, arrays, strict=True)), self.channels_first)

    def change(self, frozen: FrozenGraph) -> FrozenGraph:
        """Return the changed graph."""
        return with_joined_inputs(frozen, self._of_no_rows)

    def feed(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the arrays that go in."""
        joined = JoinedInputs({name: feed[name] for name in self.names}, self.channels_first)
        return {**{name: array for name, array in feed.items() if name not in self.names}, self.name: joined.vector}

    def inputs(self, vector: np.ndarray) -> JoinedInputs:
        """Return the inputs of which a vector is made."""
        parts = self._of_no_rows.split(vector)
        types = dict(zip(self.names, self.types, strict=True))
        return JoinedInputs(
            {name: part.astype(types[name].as_numpy_dtype) for name, part in parts.items()}, self.channels_first
        )


Step = AtTensor | ChannelsLast | AtPosition | Joined
