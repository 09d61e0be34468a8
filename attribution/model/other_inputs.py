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
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.batching import flat
from attribution.errors import BadInput, listed
from attribution.graph.view import GraphView, node_of, pure_subgraph, set_placeholder, without_nodes
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
    graph, wanted = frozen.graph, node_of(explain_input)
    path = graph.below(frozen.input_nodes.values()) & graph.above([target])
    inside = [name for name, node in graph.nodes.items() if name in path and node.op != "Placeholder"]
    floats = [name for name in inside if graph.is_float(name) and graph.shape(name).rank != 0]
    if wanted in floats:
        return wanted
    chosen = [name for name in floats if graph.shape(name).rank != 1 and graph.nodes[name].op not in _PASSING]
    found = _in_keras_layer(frozen, chosen, wanted) or [name for name in chosen if f"/{wanted}/" in f"/{name}/"]
    if not found:
        raise BadInput(
            f"the model has no input '{explain_input}'; its inputs are {listed(frozen.inputs)}, and no tensor of "
            "floating point between input and score has that name"
        )
    return found[-1]


def _in_keras_layer(frozen: FrozenGraph, names: list[str], layer: str) -> list[str]:
    """Return the nodes of a Keras layer; none of a file whose scopes Keras has not numbered."""
    if not frozen.numbered:
        return []
    numbered = re.compile(re.escape(layer) + r"_\d+")
    return [name for name in names if any(map(numbered.fullmatch, name.split("/")[:-1]))]


@dataclasses.dataclass(frozen=True)
class Step:
    """A way from a model to a view of it.

    Attributes
    ----------
    key
        Identifies the step, so that what is compiled for it is kept.
    change
        Returns the changed graph.
    feed
        Returns the arrays that go in, by name; ``None`` where a model has to compute the values of ``node``.
    node
        The tensor inside that becomes an input.
    moves_channels
        Whether an input has its channels last instead of first.
    joined
        The inputs that become one vector.
    """

    key: Hashable
    change: Callable[[FrozenGraph], FrozenGraph] = dataclasses.field(compare=False)
    feed: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] | None = dataclasses.field(compare=False)
    node: str = ""
    moves_channels: bool = False
    joined: JoinedInputs | None = dataclasses.field(default=None, compare=False)


def at_position(position: tuple[int, ...]) -> Step:
    """Return the step to the scores at a position of the output."""
    return Step(("position", position), lambda frozen: frozen.at_position(position), lambda feed: feed)


def at_tensor(name: str, node: str) -> Step:
    """Return the step to a model in which the tensor of a node is one more input called ``name``."""

    def change(frozen: FrozenGraph) -> FrozenGraph:
        graph, new = frozen.graph, node
        changed = tf.compat.v1.GraphDef()
        changed.CopyFrom(graph.graph_def)
        if any(tensor.startswith(f"{node}:") for user in graph.uses(node) for tensor in graph.nodes[user].input):
            new = changed.node.add(name=f"{node}/given").name  # other outputs of the node are used too
            for user in changed.node:
                user.input[:] = [new if tensor in (node, f"{node}:0") else tensor for tensor in user.input]
        spec = tf.TensorSpec(graph.shape(node), graph.dtype(node))
        set_placeholder(next(one for one in changed.node if one.name == new), spec.dtype, spec.shape)
        nodes = {**frozen.input_nodes, name: new}
        # The logits may lie beside the output.
        view = GraphView(pure_subgraph(changed, [frozen.output, frozen.logits], keep=nodes.values()), graph.weights)
        head, inputs = find_head(view, frozen.output), {**frozen.inputs, name: spec}
        return dataclasses.replace(frozen, graph=view, head=head, inputs=inputs, input_nodes=nodes)

    return Step(("tensor", name, node), change, None, node)


def with_channels_last(name: str) -> Step:
    """Return the step to a model that takes one input as ``(batch, positions..., channels)``, its channels last."""

    def change(frozen: FrozenGraph) -> FrozenGraph:
        spec = frozen.inputs[name]
        order = [0, spec.shape.rank - 1, *range(1, spec.shape.rank - 1)]
        last = tf.TensorSpec([spec.shape[0], *spec.shape[2:], spec.shape[1]], spec.dtype)
        inputs = {one: last if one == name else other for one, other in frozen.inputs.items()}
        return _with_inputs(frozen, inputs, lambda given: {name: tf.transpose(given[name], order)}, [name])

    def feed(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {**arrays, name: np.ascontiguousarray(np.moveaxis(arrays[name], 1, -1))}

    return Step(("channels last", name), change, feed, moves_channels=True)


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
    """

    arrays: Mapping[str, np.ndarray]

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

    def of(self, vector: np.ndarray) -> JoinedInputs:
        """Return the inputs of which a vector was made."""
        return JoinedInputs({name: part.astype(self.arrays[name].dtype) for name, part in self.split(vector).items()})

    def parameter(self, name: str, value: Any) -> Any:
        """Return a parameter of a method for the vector: by name, the values of all inputs ``(rows or 1, values)``.

        Raises
        ------
        BadInput
            If it is a word for positions of one input, or names or shapes are not those of the inputs.
        """
        is_start = name in ("baseline", "references")
        if isinstance(value, str) and (is_start or (name == "groups" and value != "features")):
            raise BadInput(f"{name}='{value}' is of one input; give numbers, those of all inputs side by side")
        if not isinstance(value, Mapping):
            return value
        if not is_start or set(value) != set(self.arrays):
            raise BadInput(
                f"{name} is given for {listed(value)}; a baseline and references are given for each explained input, "
                f"{listed(self.arrays)}, other parameters as one value for all"
            )
        try:
            arrays = [(np.asarray(value[name], np.float32), shape) for name, shape in self.shapes.items()]
            rows = max([len(array) for array, shape in arrays if array.ndim > len(shape)], default=1)
            return np.concatenate([flat(np.broadcast_to(array, (rows, *shape))) for array, shape in arrays], axis=1)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"{name} of an input is a number or an array of its shape, with rows or without; the shapes are "
                f"{', '.join(f'{shape} of {listed([one])}' for one, shape in self.shapes.items())}"
            ) from error


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


def with_joined_inputs(joined: JoinedInputs) -> Step:
    """Return the step to a model that takes the vector of some inputs after its other inputs.

    The arrays of ``joined`` may have no rows; their shapes and types count.
    """
    name = joined.name

    def change(frozen: FrozenGraph) -> FrozenGraph:
        inputs = {one: spec for one, spec in frozen.inputs.items() if one not in joined.arrays}
        batch = frozen.inputs[next(iter(joined.arrays))].shape[0]
        inputs[name] = tf.TensorSpec([batch, sum(joined.sizes)], joined.dtype)

        def parts(given: Mapping[str, Any]) -> dict[str, Any]:
            split = tf.split(given[name], joined.sizes, axis=1)
            return {
                one: tf.cast(tf.reshape(part, [-1, *shape]), frozen.inputs[one].dtype)
                for part, (one, shape) in zip(split, joined.shapes.items(), strict=True)
            }

        return _with_inputs(frozen, inputs, parts, joined.arrays)

    def feed(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        given = JoinedInputs({one: arrays[one] for one in joined.arrays})
        return {**{one: array for one, array in arrays.items() if one not in joined.arrays}, name: given.vector}

    types = tuple(array.dtype.name for array in joined.arrays.values())
    return Step(("joined", *joined.shapes.items(), *types), change, feed, joined=joined)


def _with_inputs(
    frozen: FrozenGraph,
    inputs: dict[str, tf.TensorSpec],
    make: Callable[[Mapping[str, Any]], dict[str, Any]],
    made: Iterable[str],
) -> FrozenGraph:
    """Return a graph with other inputs, from which some of its own are made.

    Parameters
    ----------
    frozen
        The graph.
    inputs
        All inputs of the one that is returned, by name.
    make
        From their tensors to those of the inputs ``made``, by name.
    """
    old = {frozen.input_nodes[name]: name for name in made}
    new = {name: spec for name, spec in inputs.items() if frozen.inputs.get(name) is not spec}
    with tf.Graph().as_default() as built:
        with tf.name_scope(f"{next(iter(old))}_made"):
            tensors = {name: tf.compat.v1.placeholder(spec.dtype, spec.shape) for name, spec in new.items()}
            found = make(tensors)
        rest = without_nodes(frozen.graph.graph_def, old)
        used = {node_of(tensor) for node in rest.node for tensor in node.input}
        replaced = {f"{node}:0": found[name] for node, name in old.items() if node in used}
        tf.graph_util.import_graph_def(rest, input_map=replaced, name="")
    nodes = {**frozen.input_nodes, **{name: tensor.op.name for name, tensor in tensors.items()}}
    return dataclasses.replace(
        frozen,
        graph=GraphView(built.as_graph_def(), frozen.graph.weights),
        inputs=inputs,
        input_nodes={name: nodes[name] for name in inputs},
    )
