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
LOGITS, PROBABILITIES, OUTPUT = SCORES = ("logits", "probabilities", "output")
# Operations after a softmax that leave its numbers as they are.
_MOVES = ("Identity", "Cast", "Reshape", "Squeeze", "ExpandDims", "EnsureShape")
# Operations whose values lie between the least and the largest value of their first input.
_WITHIN = (
    *_MOVES, "AvgPool", "AvgPool3D", "BatchToSpaceND", "BroadcastTo", "CheckNumerics", "DepthToSpace", "Gather",
    "GatherNd", "GatherV2", "Max", "MaxPool", "MaxPool3D", "MaxPoolV2", "Mean", "Min", "MirrorPad",
    "Pad", "PreventGradient", "ResizeBilinear", "ResizeNearestNeighbor", "ReverseV2", "Roll", "Slice",
    "SpaceToBatchND", "SpaceToDepth", "Split", "SplitV", "StopGradient", "StridedSlice", "Tile", "TopKV2",
    "Transpose", "Unpack",
)  # fmt: skip
# Operations with weights, behind which probabilities are features like any other.
_WEIGHTED = (
    "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Einsum", "MatMul",
)  # fmt: skip
_ACTIVATIONS = ("Softmax", "Sigmoid", "LogSoftmax")
_SELECTIONS = ("ConcatV2", "Maximum", "Minimum", "Pack", "Select", "SelectV2")
_SUMS = ("Add", "AddN", "AddV2", "Sub")
# Operations whose values have no bound.
_UNBOUNDED = (*_WEIGHTED, "BiasAdd", "Elu", "LeakyRelu", "Relu", "Selu", "Softplus")


@dataclasses.dataclass(frozen=True)
class Head:
    """The scores that an output gives.

    Attributes
    ----------
    logits
        Tensor of the logits; the output where the graph has none.
    probabilities
        Tensor of the probabilities; ``None`` where the graph does not compute them.
    names
        Which of ``SCORES`` the file gives, the default first; empty where the output's values decide
        (``names_by_values``).
    is_unbounded
        Whether the output's operations are known to give values without a bound.
    is_derived
        Whether all operands of the output's operations are probabilities.
    """

    logits: str
    probabilities: str | None
    names: tuple[str, ...] = (LOGITS, PROBABILITIES)
    is_unbounded: bool = False
    is_derived: bool = False


def find_head(graph: GraphView, output: str) -> Head:
    """Return the scores that an output gives.

    An output that ends in Softmax, LogSoftmax or Sigmoid, or in exponentials over their sum, has its logits at the
    input of that operation, whatever moves, casts, clips to [0, 1] or factors of 1 follow it. A selection, an average,
    a largest value or a product of probabilities gives probabilities without logits.
    """
    last = graph.skip_identities(output)
    found, moved = last, False
    while (before := _before(graph, found)) is not None:
        found, moved = before, True
    node = graph.nodes[node_of(found)]
    if node.op in ("Softmax", "Sigmoid"):
        return Head(node.input[0], output if moved else last)
    if node.op == "LogSoftmax":
        return Head(node.input[0], None)
    logits = _exponentials_over_their_sum(graph, node)
    if logits:
        return Head(logits, output if moved else last)
    largest = _largest(graph, last, {})
    if largest is not None and abs(largest - 1) < 1e-6:
        return Head(output, output, (PROBABILITIES,))
    return Head(output, None, (), _is_unbounded(graph, output, set()), is_derived=largest is not None)


def names_by_values(head: Head, outputs: np.ndarray) -> tuple[str, ...]:
    """Return which of ``SCORES`` an output gives whose operations do not say it.

    Parameters
    ----------
    head
        As ``find_head`` returns it.
    outputs
        ``(N, classes)``: its values for random inputs, NaN where it has none.
    """
    finite = outputs[np.isfinite(outputs).all(axis=1)]
    outside = len(finite) > 0 and (finite.min() < 0 or finite.max() > 1 + 1e-3)
    varies = len(finite) > 0 and np.ptp(finite, axis=0).max() > 1e-6
    if varies and not outside and outputs.shape[1] > 1 and np.abs(finite.sum(axis=1) - 1).max() < 1e-2:
        return (PROBABILITIES,)
    return (LOGITS, PROBABILITIES) if not head.is_derived and (outside or head.is_unbounded) else (OUTPUT,)


def final_activation(graph: GraphView, logits: str, probabilities: str | None) -> str | None:
    """Return the activation that gives probabilities from logits, ``"Softmax"`` or ``"Sigmoid"``.

    Both are as in ``Head``. Where the file has no probabilities, they are the softmax of the logits. ``None`` is
    returned where the file's own operations give the probabilities: an average of softmaxes, or an activation that
    other operations follow.
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
    other = node.input[0] if node.op in _MOVES else None
    factor = None if node.op in _MOVES else _constant_operand(graph, node)
    if factor is not None and node.op in ("Mul", "RealDiv", "Minimum", "Maximum"):
        value, operand = factor
        keeps = (value == 1).all() if node.op in ("Mul", "RealDiv") else ((value >= 0) & (value <= 1)).all()
        other = operand if keeps else None
    if other is None:
        return None
    before, after = graph.shape(node_of(other)), graph.shape(node.name)
    same = before.rank is not None and after.rank is not None and _sizes(before) == _sizes(after)
    return other if same else None


def _constant_operand(graph: GraphView, node: Any) -> tuple[np.ndarray, str] | None:
    """Return the constant operand of a binary operation and the other operand; ``None`` where there is none."""
    if len(node.input) != 2:
        return None
    first, second = (graph.constant(name) for name in node.input)
    if second is not None:
        return second, node.input[0]
    return None if first is None or node.op == "RealDiv" else (first, node.input[1])


def _largest(graph: GraphView, tensor: str, known: dict[str, float | None]) -> float | None:
    """Return a bound of values that are computed from probabilities, ``inf`` where it is not known.

    The values are not negative where the bound is finite. ``None`` is returned for other values. ``known`` holds what
    was found before.
    """
    node = graph.nodes[node_of(tensor)]
    while node.op in ("Identity", "IdentityN"):
        tensor = node.input[int(tensor.partition(":")[2] or 0)]
        node = graph.nodes[node_of(tensor)]
    if tensor not in known:
        are_places = node.op == "TopKV2" and tensor.endswith(":1")
        known[tensor] = None if are_places else _largest_of(graph, node, known)
    return known[tensor]


def _largest_of(graph: GraphView, node: Any, known: dict[str, float | None]) -> float | None:
    if node.op in _ACTIVATIONS[:2] or _exponentials_over_their_sum(graph, node):
        return 1.0
    operands = [(graph.constant(tensor), tensor) for tensor in _operands(node)]
    constants = [value for value, _ in operands]
    if node.op in _WEIGHTED and any(value is not None for value in constants):
        return None
    bounds = [_largest(graph, one, known) if value is None else _range_of(value) for value, one in operands]
    computed = [bound for bound, value in zip(bounds, constants, strict=True) if value is None]
    if all(bound is None for bound in computed):
        return None
    if node.op in (*_WITHIN, *_SELECTIONS):
        return max(np.inf if bound is None else bound for bound in bounds)
    return None if None in computed else _combined(node.op, bounds, constants)


def _operands(node: Any) -> Any:
    """Return the inputs of an operation that hold values, without axes and conditions."""
    if node.op in _WITHIN or node.op == "ConcatV2":
        return node.input[:1] if node.op in _WITHIN else node.input[:-1]
    return node.input[1:] if node.op in ("Select", "SelectV2") else node.input


def _combined(op: str, bounds: Sequence[Any], constants: Sequence[np.ndarray | None]) -> float:
    """Return a bound of an operation's values from those of its operands."""
    first, last = constants[0], constants[-1]
    if op in _SUMS[:3]:
        return float(sum(bounds))
    if op == "Mul":
        return float(np.prod(bounds))
    if op == "RealDiv" and last is not None and (last > 0).all():
        return float(bounds[0] / last.min())
    if op == "Sub" and first is not None and first.min() >= bounds[1]:
        return float(bounds[0])
    return np.inf


def _is_unbounded(graph: GraphView, tensor: str, seen: set[str]) -> bool:
    """Return whether the operations that end in a tensor are known to give values without a bound."""
    node = graph.nodes[node_of(tensor)]
    if node.op in _UNBOUNDED or tensor in seen:
        return node.op in _UNBOUNDED
    seen.add(tensor)
    inputs = node.input[:1] if node.op in _WITHIN else node.input if node.op in (*_SUMS, "Mul", "Sum") else ()
    return any(_is_unbounded(graph, before, seen) for before in inputs)


def _range_of(value: np.ndarray) -> float:
    """Return the largest of constants of which none is negative, else ``inf``."""
    return float(value.max()) if value.size and value.dtype.kind in "buif" and value.min() >= 0 else np.inf


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
    if _agree(scores, declared):
        return tf.TensorShape([scores[0], *scores.merge_with(declared)[1:]])
    sizes = _sizes(scores)
    if len(sizes) != len(_sizes(declared)):
        return scores
    known = iter(sizes)
    return tf.TensorShape([scores[0], *(1 if size == 1 else next(known) for size in declared[1:])])


def in_shape(scores: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """Return scores in the shape that ``shape_of_output`` gave of them."""
    if scores.shape.rank is None:
        scores = tf.ensure_shape(scores, shape)
    if _agree(scores.shape, shape):
        return scores
    if ones := _ones(scores.shape):
        scores = tf.squeeze(scores, ones)
    for axis in _ones(shape):
        scores = tf.expand_dims(scores, axis)
    return scores


def _agree(scores: tf.TensorShape, declared: tf.TensorShape) -> bool:
    """Return whether a declared shape has the same axes as the inferred one, of which it may know more sizes."""
    same = scores.rank == declared.rank and scores.is_compatible_with(declared)
    return same and set(_ones(scores)) <= set(_ones(declared))


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
    logits, head = _last_activation(graph, frozen.output)
    shape = shape_of_output(graph.shape(logits), frozen.output_shape)
    _check_positions_exist(frozen, shape)
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


def _last_activation(graph: GraphView, output: str) -> tuple[str, str | None]:
    """Return the input of the activation that gives an output, and its operation; else the output and ``None``.

    What else follows the activation is computed by the graph alone, so that it cannot be applied again at a position.
    """
    found = graph.skip_identities(output)
    while graph.nodes[node_of(found)].op in _MOVES and (before := _before(graph, found)) is not None:
        found = before
    node = graph.nodes[node_of(found)]
    return (node.input[0], node.op) if node.op in _ACTIVATIONS else (output, None)


def _check_positions_exist(frozen: FrozenModel, shape: tf.TensorShape) -> None:
    if shape.rank is None or shape.rank < 3 or None in shape[1:].as_list()[-1:]:
        raise BadInput(
            f"position='{PER_ROW}' needs an output with positions between batch and classes; this one has shape {shape}"
        )
    if frozen.loaded is not None:
        raise BadInput(
            f"position='{PER_ROW}' is not supported: the gradients of {frozen.inexact} are in the loaded function "
            "alone; give one position for all rows"
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
            activations = {"Sigmoid": tf.sigmoid, "Softmax": tf.nn.softmax, "LogSoftmax": tf.nn.log_softmax}
            last = activations[head](last)
    return built.as_graph_def(), last.op.name


def _scoped(name: str) -> str:
    return f"attribution_position/{name}"


def limits(frozen: FrozenModel) -> list[int | None]:
    """Return how many positions a model's output has along each axis between batch and classes."""
    logits, _ = _last_activation(frozen.graph, frozen.output)
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
