"""What a score is: known from the operations at the graph's end, never guessed from its values.

A softmax, sigmoid or log-softmax at the end, behind moves of axes, gives probabilities and logits. An affine end is
logits. Any other end is the file's output.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput
from attribution.graph._loops import value_of
from attribution.graph.view import GraphView, node_of

LOGITS, PROBABILITIES, OUTPUT = SCORES = ("logits", "probabilities", "output")
_ACTIVATIONS = ("Softmax", "Sigmoid", "LogSoftmax")
# Operations that leave values as they are; the last ones move them to other axes.
_SAME = ("Identity", "Cast", "EnsureShape")
_MOVES = ("Reshape", "Squeeze", "ExpandDims", "Transpose")
# Operations that are affine in one operand, where weights or constants are the others.
_WEIGHTED = (
    "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "BiasAdd", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Einsum",
    "MatMul",
)  # fmt: skip
_SCALED = ("Add", "AddV2", "Sub", "Mul", "RealDiv", "Mean", "AvgPool", "AvgPool3D")
_MOVED_LOGITS = "attribution_logits/"  # scope of nodes


@dataclasses.dataclass(frozen=True)
class Head:
    """The scores that an output gives.

    A softmax, sigmoid or log-softmax at the end gives logits and probabilities. An affine end gives logits, and
    probabilities as their softmax. Any other end is the file's output, of which no more is known.

    Attributes
    ----------
    logits
        Tensor of the logits; the output where its end is not an activation.
    activation
        ``"Softmax"``, ``"Sigmoid"`` or ``"LogSoftmax"`` where the output ends in it, else ``None``.
    names
        Which of ``SCORES`` the file gives, the default first.
    """

    logits: str
    activation: str | None
    names: tuple[str, ...] = (LOGITS, PROBABILITIES)

    @property
    def gives_probabilities(self) -> bool:
        """Whether the output itself is probabilities."""
        return self.activation in ("Softmax", "Sigmoid")

    @property
    def to_probabilities(self) -> str:
        """``"Sigmoid"`` or ``"Softmax"``: what makes probabilities of the logits."""
        return "Sigmoid" if self.activation == "Sigmoid" else "Softmax"


def find_head(graph: GraphView, output: str) -> Head:
    """Return the scores that an output gives; the graph is as ``with_moved_logits`` returns it."""
    activation, logits, moves = _last_activation(graph, output)
    if activation is None:
        return Head(output, None, (LOGITS, PROBABILITIES) if _is_affine(graph, output) else (OUTPUT,))
    moved = _MOVED_LOGITS + moves[0] if moves else ""
    return Head(moved if moved in graph.nodes else logits, activation)


def with_moved_logits(graph: GraphView, output: str) -> GraphView:
    """Return a graph whose logits are moved to the axes of the output, as the graph moves what follows them."""
    _, tensor, moves = _last_activation(graph, output)
    if not moves:
        return graph
    changed, dtype = tf.compat.v1.GraphDef(), graph.dtype(tensor).as_datatype_enum
    changed.CopyFrom(graph.graph_def)
    for name in reversed(moves):
        node = changed.node.add()
        node.CopyFrom(graph.nodes[name])
        node.name, node.input[0], node.attr["T"].type = _MOVED_LOGITS + name, tensor, dtype
        tensor = node.name
    return GraphView(changed, graph.weights)


def _last_activation(graph: GraphView, output: str) -> tuple[str | None, str, list[str]]:
    """Return the activation at an output's end, its input, and the nodes that move its values, last to first.

    Without one, or where its classes are not on the last axis, ``None``, the output and no nodes are returned.
    """
    activation, logits, moves, axis = _end(graph, output)
    return (activation, logits, moves) if activation and axis == -1 else (None, output, [])


def _end(graph: GraphView, output: str) -> tuple[str | None, str, list[str], int | None]:
    """Return activation, its input, moves, and the output's axis of classes from the end; ``None`` if not known."""
    found, moves = output, []
    while (node := graph.nodes[node_of(found)]).op in (*_SAME, *_MOVES):
        moves += [node.name] if node.op in _MOVES else []
        found = node.input[0]
    activation, logits, axis = node.op, node.input[0] if node.input else "", -1
    if activation not in _ACTIVATIONS:
        activation, logits, axis = _written_out_softmax(graph, node)
    over_classes = activation not in (None, "Sigmoid")
    return activation, logits, moves, _moved(graph, node.name, moves, axis) if over_classes else axis


def _moved(graph: GraphView, activation: str, moves: Sequence[str], axis: int) -> int | None:
    """Return the axis of an activation over classes behind moves, from the end as given; ``None`` if not known."""
    shape = graph.shape(activation)
    if shape.rank and shape[axis] == 1:  # always 1
        return None
    for name in reversed(moves):
        node = graph.nodes[name]
        before, after = graph.shape(node_of(node.input[0])), graph.shape(name)
        if node.op == "Transpose":
            order = value_of(graph.graph_def, node.input[1])  # such as one that ``tf.nn.softmax`` computes
            if order is None:
                return None
            axis = order.tolist().index(len(order) + axis) - len(order)
        else:
            sizes = [[size for size in one if size != 1][-1:] if one.rank else [] for one in (before, after)]
            if axis != -1 or sizes[0] != sizes[1] or None in sizes[0] or sizes[0] == []:
                return None
    return axis


def check_classes_are_last(graph: GraphView, output: str) -> None:
    """Refuse an output whose softmax is known to be over another axis than the last."""
    shape, axis = graph.shape(output), _end(graph, output)[3]
    if axis not in (-1, None):
        raise BadInput(
            f"the softmax at the model's end is over axis {len(shape) + axis} of its output of shape {shape}, so that "
            "the classes are there; position= needs them on the last axis: transpose the output in the export"
        )


def _is_affine(graph: GraphView, tensor: str) -> bool:
    """Return whether the operations at a tensor's end are affine, with weights or constants."""
    while True:
        node = graph.nodes[node_of(tensor)]
        places = () if node.op in ("Mean", "AvgPool", "AvgPool3D") else node.input[:2]
        varying = [name for name in places if not _is_fixed(graph, name)]
        if node.op in _WEIGHTED:
            return len(varying) < 2
        if node.op not in (*_SAME, *_MOVES, *_SCALED) or (node.op in _SCALED and len(varying) > 1):
            return False
        tensor = varying[0] if varying else node.input[0]


def _is_fixed(graph: GraphView, tensor: str) -> bool:
    """Return whether a tensor is computed from weights and constants alone."""
    above = {node_of(tensor), *graph.above([node_of(tensor)])}
    return all(graph.nodes[name].op != "Placeholder" or name in graph.weights for name in above)


def _written_out_softmax(graph: GraphView, node: Any) -> tuple[str | None, str, int]:
    """Return ``"Softmax"``, z and an axis from the end where a node is exp(z) / Σ exp(z) over it, else ``None``."""
    nothing = None, node.name, -1
    if node.op != "RealDiv":
        return nothing
    exponential, total = (graph.nodes[node_of(graph.skip_identities(tensor))] for tensor in node.input)
    if exponential.op != "Exp" or total.op != "Sum":
        return nothing
    logits = graph.skip_identities(exponential.input[0])
    summed = graph.nodes[node_of(graph.skip_identities(total.input[0]))]
    axes, rank = graph.constant(total.input[1]), graph.shape(exponential.name).rank
    is_same = summed.op == "Exp" and graph.skip_identities(summed.input[0]) == logits
    if not is_same or axes is None or rank is None or axes.size != 1:
        return nothing
    shifted = graph.nodes[node_of(logits)]
    axis = int(axes.ravel()[0]) % rank - rank
    return "Softmax", shifted.input[0] if _subtracts_its_maximum(graph, shifted) else logits, axis


def _subtracts_its_maximum(graph: GraphView, node: Any) -> bool:
    if node.op != "Sub":
        return False
    largest = graph.nodes[node_of(graph.skip_identities(node.input[1]))]
    while largest.op in ("StopGradient", "Identity"):
        largest = graph.nodes[node_of(largest.input[0])]
    return largest.op == "Max" and node_of(largest.input[0]) == node_of(node.input[0])


def shape_of_output(scores: tf.TensorShape, declared: tf.TensorShape) -> tf.TensorShape:
    """Return the inferred shape of scores, with the sizes that only the signature declares."""
    if scores.rank is None or not scores.is_compatible_with(declared):
        return declared if scores.rank is None else scores
    return tf.TensorShape([*scores[:1], *scores.merge_with(declared)[1:]])


def classes_of(shape: tf.TensorShape, position: Collection[int] = ()) -> int | None:
    """Return how many scores an output has at one position, or ``None`` where it is not one per class.

    ``position`` has an index for each axis between batch and classes.
    """
    if not shape.rank:
        return None
    sizes = list(shape[1:])
    if position:
        if len(position) != len(sizes) - 1:
            return None
        sizes = sizes[-1:]
    sizes = [size for size in sizes if size != 1] or [1]
    return int(np.prod(sizes)) if len(sizes) == 1 and sizes[0] is not None else None
