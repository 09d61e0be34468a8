"""FullGrad: gradients of the score with respect to the input and to every bias of the network.

A network of ReLUs is affine around each input: f(x) = Σ x · df/dx + Σ b · df/db, the second sum over all biases b
(Srinivas and Fleuret 2019, proposition 1). A bias is what an operation gives where everything it reads of the input is
0: the constant of a sum, β - γ μ / √(σ² + ε) of batch normalization, a constant that is concatenated, and inputs that
are not explained. Of other activations σ it is the paper's implicit bias, σ(z) - z σ'(z), of the tangent at z. With
these the equation holds for every network whose operations are allowed here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput, listed
from attribution.methods import resizing
from attribution.methods.queries import ModelQueries

if TYPE_CHECKING:  # it imports TensorFlow
    from attribution.graph.view import GraphView

_HOMOGENEOUS = ("Relu", "LeakyRelu")  # σ(z) = z σ'(z)
_WITH_IMPLICIT_BIAS = ("Relu6", "Elu", "Selu", "Softplus", "Softsign", "Sigmoid", "Tanh")
_JOINS = ("ConcatV2", "Concat", "Pack", "PadV2")


def full_grad(queries: ModelQueries) -> np.ndarray:
    """FullGrad (Srinivas and Fleuret 2019): Σ_c ψ(x · df/dx) + Σ_layers Σ_c ψ(b · df/db), non-negative.

    ψ is the paper's: the absolute values, scaled linearly to [0, 1] over each input's channels and positions of a
    layer as in the authors' code, and upsampled bilinearly to the input. Layers without positions, as dense ones behind
    pooling, are left out, as there, and so are layers whose positions cannot be followed back to the input's. f is the
    logit. A layer adds at most the number of its channels, so that the map's sum is not the logit;
    ``Model.full_gradient`` gives the terms whose sum is.
    """
    spatial = queries.inputs.shape[1:-1]
    if not spatial:
        raise BadInput("full_grad needs positions, as a signal or an image has; these inputs are vectors")
    maps = np.zeros((len(queries), *spatial))
    for rows, layers in queries.full_gradient():
        for layer in layers:
            maps[rows] += resizing.resize(layer[: len(rows)], spatial)
    return maps


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
    if refused := [f"{graph.nodes[name].op} ({name})" for name, kind in kinds.items() if kind == "undefined"]:
        more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
        raise BadInput(
            "full_grad is defined for linear operations, pooling, normalization by constants and activations of one "
            f"variable; this network has {listed(refused[:5])}{more}"
        )
    return {name: kind == "tangent" for name, kind in kinds.items() if kind}


def _kind_of_bias(graph: GraphView, name: str, path: Collection[str]) -> str:
    """Return ``"constant"``, ``"tangent"``, ``"undefined"``, or ``""`` for a node without bias."""
    from attribution.graph.view import node_of  # here, because the registry of methods imports no TensorFlow
    from attribution.lrp import composite as ops
    from attribution.methods._registered_gradients import is_linear

    node = graph.nodes[name]
    if node.op in _WITH_IMPLICIT_BIAS:
        return "tangent"
    normalizes = node.op in ops.NORMALIZATIONS
    if not is_linear(node, path) or (normalizes and node.attr["is_training"].b):
        return "undefined"
    constants = [tensor for tensor in node.input if node_of(tensor) not in path]
    may_add = node.op in (*ops.SUMS, *_JOINS) and any(map(graph.is_float, constants))
    return "constant" if may_add or normalizes else ""


def rescaled(values: Any) -> Any:
    """Return absolute values ``(N, ...)`` of a tensor, each row scaled linearly to [0, 1]; 0 for a constant row."""
    import tensorflow as tf

    axes = list(range(1, values.shape.rank))
    values = tf.abs(values)
    values -= tf.reduce_min(values, axes, keepdims=True)
    return tf.math.divide_no_nan(values, tf.reduce_max(values, axes, keepdims=True))
