"""The biases of a network's operations, which FullGrad takes gradients of.

FullGrad takes the gradients of the score with respect to the input and to every bias of the network. A network of ReLUs
is affine around each input: f(x) = Σ x · df/dx + Σ b · df/db, the second sum over all biases b (Srinivas and Fleuret
2019, proposition 1). A bias is what an operation gives where everything it reads of the input is 0: the constant of a
sum, β - γ μ / √(σ² + ε) of batch normalization, a constant that is concatenated, and inputs that are not explained. Of
other activations σ it is the paper's implicit bias, σ(z) - z σ'(z), of the tangent at z. With these the equation holds
for every network whose operations are allowed here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph.view import GraphView, node_of, operations_named
from attribution.lrp import composite as ops
from attribution.model._registered_gradients import is_linear

_HOMOGENEOUS = ("Relu", "LeakyRelu")  # σ(z) = z σ'(z)
_WITH_IMPLICIT_BIAS = ("Relu6", "Elu", "Selu", "Softplus", "Softsign", "Sigmoid", "Tanh")
_JOINS = ("ConcatV2", "Concat", "Pack", "PadV2")


def bias_rules(graph: GraphView, source: str, target: str) -> dict[str, bool]:
    """Return the nodes between two nodes that have a bias, and whether it is that of an activation's tangent.

    Raises
    ------
    BadInput
        If there is an operation whose biases are not defined; the message names it.
    """
    path = dict.fromkeys(graph.between(source, target))
    others = [name for name in list(path)[1:] if graph.nodes[name].op not in _HOMOGENEOUS]
    kinds = {name: _kind_of_bias(graph, name, path) for name in others}
    if refused := [name for name, kind in kinds.items() if kind == "undefined"]:
        raise BadInput(
            "full_grad is defined for linear operations, pooling, normalization by constants and activations of one "
            f"variable; this network has {listed(operations_named(graph, refused), 5)}"
        )
    return {name: kind == "tangent" for name, kind in kinds.items() if kind}


def _kind_of_bias(graph: GraphView, name: str, path: Collection[str]) -> str:
    """Return ``"constant"``, ``"tangent"``, ``"undefined"``, or ``""`` for a node without bias."""
    node = graph.nodes[name]
    if node.op in _WITH_IMPLICIT_BIAS:
        return "tangent"
    normalizes = node.op in ops.NORMALIZATIONS
    if not is_linear(node, path) or (normalizes and node.attr["is_training"].b):
        return "undefined"
    constants = [tensor for tensor in node.input if node_of(tensor) not in path]
    may_add = node.op in (*ops.SUMS, *_JOINS) and any(map(graph.is_float, constants))
    return "constant" if may_add or normalizes else ""


def rescaled(values: Any, apart: int = 0) -> Any:
    """Return absolute values ``(N, ...)`` of a tensor, each row scaled linearly to [0, 1]; 0 for a constant row.

    Slices along the axis ``apart``, if it is not 0, are scaled by themselves, by their maximum and 1e-7.
    """
    rank = values.shape.rank
    axes = [axis for axis in range(1, rank) if axis != apart % rank]
    values = tf.abs(values)
    values -= tf.reduce_min(values, axes, keepdims=True)
    return tf.math.divide_no_nan(values, tf.reduce_max(values, axes, keepdims=True) + (1e-7 if apart else 0))
