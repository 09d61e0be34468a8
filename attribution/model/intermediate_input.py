"""The same model with another input: a tensor inside it, or its input with the channels last.

Integers have no gradient. For tokens and integer images the first floating-point tensor behind them is explained: the
embedding, or the image as the network computes with it.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph import nodes as graph_nodes
from attribution.graph.nodes import node_of
from attribution.graph.view import GraphView
from attribution.model.saved_model import FrozenModel

_PASSING = ("Identity", "IdentityN", "StopGradient")


def first_floats(frozen: FrozenModel, source: str, target: str) -> list[str]:
    """Return the nodes behind an input of another type that first hold numbers with a gradient.

    Parameters
    ----------
    frozen
        The model.
    source, target
        Nodes of the input and of the score.
    """
    graph, found = frozen.graph, []
    path = graph.between(source, target)
    on_path = set(path)
    rank = graph.shape(source).rank
    for name in path[1:]:
        before = [node_of(tensor) for tensor in graph.nodes[name].input if node_of(tensor) in on_path]
        first = graph.is_float(name) and not any(graph.is_float(tensor) for tensor in before)
        first = first and not graph.nodes[name].op.startswith("TensorList")
        if first and (None in (rank, graph.shape(name).rank) or graph.shape(name).rank >= rank):
            found.append(name)
    # A mask is made of comparisons, and its numbers say nothing of the input's.
    return [name for name in found if not _is_mask(graph, name)] or found


def _is_mask(graph: GraphView, name: str) -> bool:
    node = graph.nodes[name]
    while node.op in ("Cast", "Identity", "ExpandDims", "Reshape"):
        if node.op == "Cast" and node.attr["SrcT"].type == tf.bool.as_datatype_enum:
            return True
        node = graph.nodes[node_of(node.input[0])]
    return False


def find_tensor(frozen: FrozenModel, explain_input: str, target: str) -> str:
    """Return the node of the tensor inside a model that a user's name means.

    Parameters
    ----------
    frozen
        The model.
    explain_input
        A node or tensor name, or a component of it, such as a Keras layer's name; of several nodes the last is meant.
    target
        Node of the score.

    Raises
    ------
    BadInput
        If there is none of floating point between the inputs and the score.
    """
    graph = frozen.graph
    inside = _floats_inside(frozen, target)
    wanted = node_of(explain_input)
    if wanted in inside:
        return wanted
    chosen = [name for name in inside if graph.nodes[name].op not in _PASSING]
    found = _in_keras_layer(frozen, chosen, wanted) or [name for name in chosen if f"/{wanted}/" in f"/{name}/"]
    if not found:
        sources = [node for node in frozen.input_nodes.values() if not graph.is_float(node)]
        first = [one for source in sources for one in first_floats(frozen, source, target)]
        raise BadInput(
            f"the model has no input '{explain_input}'; its inputs are {listed(frozen.inputs)}, and no tensor of "
            "floating point between input and score has that name"
            + (f"; the first of them are {listed(dict.fromkeys(first))}" if first else "")
        )
    return found[-1]


def _floats_inside(frozen: FrozenModel, target: str) -> list[str]:
    """Return the nodes of floating point with positions or features between the inputs and the score."""
    graph = frozen.graph
    path = graph.below(frozen.input_nodes.values()) & graph.above([target])
    floats = [name for name, node in graph.nodes.items() if name in path and node.op != "Placeholder"]
    return [name for name in floats if graph.is_float(name) and graph.shape(name).rank not in (0, 1)]


def _in_keras_layer(frozen: FrozenModel, names: list[str], layer: str) -> list[str]:
    """Return the nodes of a Keras layer; none of a file whose scopes Keras has not numbered."""
    if not frozen.numbered:
        return []
    numbered = re.compile(re.escape(layer) + r"_\d+")
    return [name for name in names if any(map(numbered.fullmatch, name.split("/")[:-1]))]


def at_tensor(frozen: FrozenModel, name: str, node: str) -> FrozenModel:
    """Return a model in which a tensor inside is one more input.

    Parameters
    ----------
    frozen
        The model.
    name
        Name of the new input.
    node
        The tensor's node.
    """
    if frozen.loaded is not None:
        raise BadInput(f"the tensor '{node}' cannot be explained: the gradients of {frozen.inexact} are known only as "
                       "gradients of the model's own inputs")  # fmt: skip
    graph, dtype = frozen.graph, frozen.graph.dtype(node)
    shape = graph.shape(node)
    nodes = {**frozen.input_nodes, name: node}
    changed = graph_nodes.with_placeholder(graph.graph_def, node, dtype, shape)
    pure = graph_nodes.pure_subgraph(changed, [frozen.output], keep=nodes.values())
    return dataclasses.replace(
        frozen,
        graph=GraphView(pure, graph.weights),
        inputs={**frozen.inputs, name: tf.TensorSpec(shape, dtype)},
        input_nodes=nodes,
    )


def with_channels_last(frozen: FrozenModel, name: str) -> FrozenModel:
    """Return a model that takes one input as ``(batch, positions..., channels)`` instead of with channels first."""
    spec, node = frozen.inputs[name], frozen.input_nodes[name]
    graph_def, new = graph_nodes.with_channels_last(frozen.graph.graph_def, node, spec.dtype, spec.shape)
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


def channels_last(array: np.ndarray) -> np.ndarray:
    """Return ``(N, channels, positions...)`` as ``(N, positions..., channels)``."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def channels_first(array: np.ndarray) -> np.ndarray:
    """Return ``(N, positions..., channels)`` as ``(N, channels, positions...)``."""
    return np.ascontiguousarray(np.moveaxis(array, -1, 1))
