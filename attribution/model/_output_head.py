"""The scores of a graph: its logits and probabilities, and a position of an output such as a segmentation map."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph.view import GraphView, node_of
from attribution.model.saved_model import FrozenModel

# As given to ``load_model(position=)``, and the name of the input that then holds each row's position.
PER_ROW = "per_row"
POSITION = "position"
# Operations after a softmax that leave its numbers as they are.
_MOVES = ("Identity", "Cast", "Reshape", "Squeeze", "ExpandDims", "EnsureShape")


def split_scores(graph: GraphView, output: str) -> tuple[str, str | None]:
    """Return the tensors of the logits and of the probabilities behind an output.

    An output that ends in Softmax, LogSoftmax or Sigmoid, or in exponentials over their sum, has its logits at the
    input of that operation, whatever moves, casts, clips to [0, 1] or factors of 1 follow it. An average of several
    softmaxes, as of an ensemble, gives probabilities without logits: both values are the output. Any other output
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


def final_activation(graph: GraphView, logits: str, probabilities: str | None) -> str | None:
    """Return the activation that gives probabilities from logits, ``"Softmax"`` or ``"Sigmoid"``.

    Both are as from ``split_scores``. Where the file has no probabilities, they are the softmax of the logits. ``None``
    is returned where the file's own operations are to give the probabilities: an average of softmaxes, or an activation
    that other operations follow.
    """
    if probabilities is None:
        return "Softmax"
    node = graph.nodes[node_of(probabilities)]
    if node.input[0] != logits or node.op not in ("Softmax", "Sigmoid"):
        return None
    one_class = node.op == "Softmax" and graph.shape(node.name)[-1:].as_list() == [1]  # always 1
    return None if one_class else node.op


def _before(graph: GraphView, tensor: str) -> str | None:
    """Return the tensor whose numbers an operation passes on, in another shape or type at most; else ``None``."""
    node = graph.nodes[node_of(tensor)]
    if node.op in _MOVES:
        before, after = graph.shape(node_of(node.input[0])), graph.shape(node.name)
        same = before.rank is not None and after.rank is not None and _sizes(before) == _sizes(after)
        return node.input[0] if same else None
    factor = _constant_operand(graph, node)
    if factor is None or node.op not in ("Mul", "RealDiv", "Minimum", "Maximum"):
        return None
    value, other = factor
    keeps = (value == 1).all() if node.op in ("Mul", "RealDiv") else ((value >= 0) & (value <= 1)).all()
    return other if keeps else None


def _constant_operand(graph: GraphView, node: Any) -> tuple[np.ndarray, str] | None:
    """Return the constant operand of a binary operation and the other operand; ``None`` where there is none."""
    if len(node.input) != 2:
        return None
    first, second = (graph.constant(name) for name in node.input)
    if second is not None:
        return second, node.input[0]
    return None if first is None or node.op == "RealDiv" else (first, node.input[1])


def _share_of_softmaxes(graph: GraphView, tensor: str) -> float | None:
    """Return the sum of the weights in a weighted sum of softmaxes, or ``None`` where a tensor is anything else."""
    node = graph.nodes[node_of(tensor)]
    if node.op in ("Softmax", "Sigmoid"):
        return 1.0
    terms, factor = _terms(graph, node)
    shares = [_share_of_softmaxes(graph, term) for term in terms]
    known = [share for share in shares if share is not None]
    return factor * sum(known) if known and len(known) == len(shares) and factor > 0 else None


def _terms(graph: GraphView, node: Any) -> tuple[Sequence[str], float]:
    """Return the tensors that an operation sums and the factor of the sum; no tensors where it does anything else."""
    if node.op in _MOVES:
        return node.input[:1], 1.0
    if node.op in ("Add", "AddV2", "AddN"):
        return node.input, 1.0
    if node.op == "Mean":
        stack, axis = graph.nodes[node_of(graph.skip_identities(node.input[0]))], graph.constant(node.input[1])
        if stack.op == "Pack" and axis is not None and axis.ravel().tolist() == [stack.attr["axis"].i]:
            return stack.input, 1 / len(stack.input)
    if node.op in ("Mul", "RealDiv"):
        factor = _constant_operand(graph, node)
        if factor is not None and factor[0].size == 1:
            value = float(factor[0].item())
            return [factor[1]], value if node.op == "Mul" else 1 / value
    return [], 1.0


def _sizes(shape: tf.TensorShape) -> list[int | None]:
    return [size for size in shape[1:] if size != 1]


def _exponentials_over_their_sum(graph: GraphView, node: Any) -> str | None:
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
    return shifted.input[0] if _subtracts_its_maximum(graph, shifted) else logits


def _subtracts_its_maximum(graph: GraphView, node: Any) -> bool:
    if node.op != "Sub":
        return False
    largest = graph.nodes[node_of(graph.skip_identities(node.input[1]))]
    while largest.op in ("StopGradient", "Identity"):
        largest = graph.nodes[node_of(largest.input[0])]
    return largest.op == "Max" and node_of(largest.input[0]) == node_of(node.input[0])


def shape_of_output(scores: tf.TensorShape, declared: tf.TensorShape) -> tf.TensorShape:
    """Return the shape in which an output's positions are counted: the signature's.

    Parameters
    ----------
    scores
        Inferred shape of the tensor of logits. Between it and the output, axes of size 1 may be dropped or added.
    declared
        Shape of the output in the signature.
    """
    if not scores.rank or declared.rank is None:
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


def _ones(shape: tf.TensorShape) -> list[int]:
    return [axis for axis, size in enumerate(shape) if axis and size == 1]


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


def with_position(frozen: FrozenModel) -> FrozenModel:
    """Return a model whose output is ``(batch, classes)``: the scores at each row's position.

    Parameters
    ----------
    frozen
        The model. The one returned has the input ``position``, int32 ``(batch, axes)``, one number for each axis
        between batch and classes.

    Raises
    ------
    BadInput
        If the output has no such axes, or the model has an input of that name.
    """
    graph = frozen.graph
    logits, probabilities = split_scores(graph, frozen.output)
    shape = shape_of_output(graph.shape(logits), frozen.output_shape)
    _check_positions_exist(frozen, shape, averages=probabilities == logits)
    head = None  # the operation from logits to probabilities
    if probabilities is not None:
        users = [graph.nodes[user].op for user in graph.uses(node_of(logits))]
        head = "Sigmoid" if "Sigmoid" in users else "Softmax"
    batch = next((spec.shape[0] for spec in frozen.inputs.values() if spec.shape.rank), None)
    spec = tf.TensorSpec((batch, shape.rank - 2), tf.int32, name=POSITION)
    added, last = _gathering(graph.dtype(logits), graph.shape(logits), shape, spec, head)
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph.graph_def)
    for node in added.node:
        if node.name == "scores":
            continue
        copy = changed.node.add()
        copy.CopyFrom(node)
        copy.name = _scoped(node.name)
        del copy.input[:]
        copy.input.extend(logits if tensor == "scores" else _scoped(tensor) for tensor in node.input)
    return dataclasses.replace(
        frozen,
        graph=GraphView(changed, graph.weights),
        inputs={**frozen.inputs, POSITION: spec},
        input_nodes={**frozen.input_nodes, POSITION: _scoped(POSITION)},
        output=_scoped(last),
        output_shape=tf.TensorShape([shape[0], shape[-1]]),
    )


def _check_positions_exist(frozen: FrozenModel, shape: tf.TensorShape, averages: bool) -> None:
    if shape.rank is None or shape.rank < 3 or None in shape[1:].as_list()[-1:]:
        raise BadInput(
            f"position='{PER_ROW}' needs an output with positions between batch and classes; this one has shape {shape}"
        )
    if frozen.loaded is not None:
        raise BadInput(
            f"position='{PER_ROW}' is not supported: the gradients of {frozen.inexact} are in the loaded function "
            "alone; give one position for all rows"
        )
    if averages:
        raise BadInput(
            f"position='{PER_ROW}' is not supported for an average of softmaxes; give one position for all rows"
        )
    if POSITION in frozen.inputs:
        raise BadInput(f"the model has an input named '{POSITION}' among {listed(frozen.inputs)}")


def _gathering(
    dtype: tf.DType, found: tf.TensorShape, shape: tf.TensorShape, spec: tf.TensorSpec, head: str | None
) -> tuple[tf.compat.v1.GraphDef, str]:
    """Return a graph from ``scores`` and ``position`` to the scores there, and the name of its last node."""
    with tf.Graph().as_default() as built:
        scores = in_shape(tf.compat.v1.placeholder(dtype, found, name="scores"), shape)
        position = tf.compat.v1.placeholder(spec.dtype, spec.shape, name=POSITION)
        rows = tf.range(tf.shape(position)[0])[:, tf.newaxis]
        last = tf.gather_nd(scores, tf.concat([rows, position], axis=1))
        if head is not None:
            last = tf.sigmoid(last) if head == "Sigmoid" else tf.nn.softmax(last)
    return built.as_graph_def(), last.op.name


def _scoped(name: str) -> str:
    return f"attribution_position/{name}"


def limits(frozen: FrozenModel) -> list[int | None]:
    """Return how many positions a model's output has along each axis between batch and classes."""
    logits, _ = split_scores(frozen.graph, frozen.output)
    sizes: list[int | None] = shape_of_output(frozen.graph.shape(logits), frozen.output_shape)[1:-1].as_list()
    return sizes


def check_positions(positions: np.ndarray, sizes: Sequence[int | None]) -> None:
    """Refuse positions ``(N, axes)`` outside the output."""
    most = np.array([np.iinfo(np.int32).max if size is None else size for size in sizes])
    wrong = ((positions < 0) | (positions >= most)).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise BadInput(
            f"position {tuple(positions[row].tolist())} of row {row} is outside the model's output, which has "
            f"{' x '.join('any' if size is None else str(size) for size in sizes)} positions"
        )
