"""Where a graph's logits and probabilities are."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.nodes import node_of
from attribution.graph.view import GraphView

# Operations after a softmax that leave its numbers as they are.
_MOVES = ("Identity", "Cast", "Reshape", "Squeeze", "ExpandDims", "EnsureShape")


def split_scores(graph: GraphView, output: str) -> tuple[str, str | None]:
    """Return the tensors of the logits and of the probabilities behind an output.

    An output that ends in Softmax, LogSoftmax or Sigmoid, or in exponentials over their sum, has its logits at the
    input of that operation, whatever moves, casts, clips to [0, 1] or factors of 1 follow it. An average of several
    softmaxes, as of an ensemble, gives probabilities that have no logits: both values are the output. Any other output
    is taken for logits, and the second value is ``None`` unless the output gives probabilities.
    """
    last = graph.skip_identities(output)
    found, moved = last, False
    while (before := _before(graph, found)) is not None:
        found, moved = before, True
    node = graph.nodes[node_of(found)]
    if node.op in ("Softmax", "Sigmoid"):
        return node.input[0], output if moved else last
    if node.op == "LogSoftmax":
        return node.input[0], None
    logits = _exponentials_over_their_sum(graph, node)
    if logits:
        return logits, output if moved else last
    share = _share_of_softmaxes(graph, last)
    return output, output if share is not None and abs(share - 1) < 1e-6 else None


def _before(graph, tensor) -> str | None:
    """Return the tensor whose numbers an operation passes on, in another shape or type at most; else ``None``."""
    node = graph.nodes[node_of(tensor)]
    if node.op in _MOVES:
        before, after = graph.shape(node_of(node.input[0])), graph.shape(node.name)
        same = before.rank is not None and after.rank is not None and _sizes(before) == _sizes(after)
        return node.input[0] if same else None
    if node.op not in ("Mul", "RealDiv", "Minimum", "Maximum") or len(node.input) != 2:
        return None
    values = [graph.constant(name) for name in node.input]
    if values[1] is None and (values[0] is None or node.op == "RealDiv"):
        return None
    value, other = (values[1], node.input[0]) if values[1] is not None else (values[0], node.input[1])
    if node.op in ("Mul", "RealDiv"):
        return other if (value == 1).all() else None
    return other if ((value >= 0) & (value <= 1)).all() else None


def _share_of_softmaxes(graph, tensor) -> float | None:
    """Return the sum of the weights in a weighted sum of softmaxes, or ``None`` where a tensor is anything else."""
    node = graph.nodes[node_of(tensor)]
    if node.op in ("Softmax", "Sigmoid"):
        return 1.0
    terms, factor = [], 1.0
    if node.op in _MOVES:
        terms = node.input[:1]
    elif node.op in ("Add", "AddV2", "AddN"):
        terms = node.input
    elif node.op == "Mean":
        stack, axis = graph.nodes[node_of(graph.skip_identities(node.input[0]))], graph.constant(node.input[1])
        if stack.op == "Pack" and axis is not None and axis.ravel().tolist() == [stack.attr["axis"].i]:
            terms, factor = stack.input, 1 / len(stack.input)
    elif node.op in ("Mul", "RealDiv"):
        values = [graph.constant(one) for one in node.input]
        place = next((place for place, value in enumerate(values) if value is not None and value.size == 1), None)
        if place == 1 or (place == 0 and node.op == "Mul"):
            value = float(values[place].item())
            terms, factor = [node.input[1 - place]], value if node.op == "Mul" else 1 / value
    shares = [_share_of_softmaxes(graph, term) for term in terms]
    return factor * sum(shares) if shares and None not in shares and factor > 0 else None


def _sizes(shape) -> list:
    return [size for size in shape[1:] if size != 1]


def _exponentials_over_their_sum(graph, node) -> str | None:
    """Return z where a node computes exp(z) / Σ exp(z), perhaps with the largest z taken off both."""
    if node.op != "RealDiv":
        return None
    above, below = (graph.skip_identities(tensor) for tensor in node.input)
    exponential, total = graph.nodes[node_of(above)], graph.nodes[node_of(below)]
    if exponential.op != "Exp" or total.op != "Sum":
        return None
    logits = graph.skip_identities(exponential.input[0])
    summed = graph.nodes[node_of(graph.skip_identities(total.input[0]))]
    if summed.op != "Exp" or graph.skip_identities(summed.input[0]) != logits:
        return None
    shifted = graph.nodes[node_of(logits)]
    if shifted.op == "Sub":
        largest = graph.nodes[node_of(graph.skip_identities(shifted.input[1]))]
        while largest.op in ("StopGradient", "Identity"):
            largest = graph.nodes[node_of(largest.input[0])]
        if largest.op == "Max" and node_of(largest.input[0]) == node_of(shifted.input[0]):
            return shifted.input[0]
    return logits


def shape_of_output(scores: tf.TensorShape, declared: tf.TensorShape) -> tf.TensorShape:
    """Return the shape in which an output's positions are counted: the signature's.

    Parameters
    ----------
    scores
        Shape of the tensor of logits as the graph knows it. Between it and the output, axes of size 1 may be dropped or
        added.
    declared
        Shape of the output in the signature.
    """
    if scores.rank is None or declared.rank is None:
        return declared if scores.rank is None else scores
    sizes = _sizes(scores)
    if len(sizes) != len(_sizes(declared)):
        return scores
    known = iter(sizes)
    return tf.TensorShape([scores[0], *(1 if size == 1 else next(known) for size in declared[1:])])


def in_shape(scores: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """Return scores in the shape that ``shape_of_output`` gave of them."""
    if scores.shape.rank == shape.rank and _ones(scores.shape) == _ones(shape):
        return scores
    if ones := _ones(scores.shape):
        scores = tf.squeeze(scores, ones)
    for axis in _ones(shape):
        scores = tf.expand_dims(scores, axis)
    return scores


def _ones(shape) -> list[int]:
    return [axis for axis, size in enumerate(shape) if axis and size == 1]


def classes_of(shape: Any, position: Any = ()) -> int | None:
    """Return how many scores an output has at one position, or ``None`` where it is not one per class.

    Parameters
    ----------
    shape
        Shape of the output.
    position
        Indices of the axes between batch and classes.
    """
    if shape.rank is None:
        return None
    sizes = list(shape[1:])
    if position:
        if len(position) != len(sizes) - 1:
            return None
        sizes = sizes[-1:]
    sizes = [size for size in sizes if size != 1] or [1]
    return int(np.prod(sizes)) if len(sizes) == 1 and sizes[0] is not None else None
