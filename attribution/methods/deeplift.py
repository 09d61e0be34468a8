"""DeepLIFT's rescale rule: differences from a baseline are carried back, by slopes of chords in place of derivatives.

With x an operation's input and x' the same at the baseline, Δx = x - x', every rule gives multipliers m with
Σ m Δx = Δy, so that the map's sum is the difference of the scores. Linear operations have their weights for
multipliers.

A quotient y = n / d is the product y · d = n: with the means d̄ = (d + d') / 2 and ȳ = (y + y') / 2, Δy is
(Δn - ȳ Δd) / d̄. Normalisation multiplies by 1 / d, and near a baseline of zeros its d is next to nothing. The mean of
1 / d and 1 / d' would be enormous there, and so would the two contributions, which cancel; 1 / d̄ is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.errors import BadInput, listed
from attribution.methods import gradients
from attribution.methods.queries import ModelQueries

# Linear in what depends on the input.
_LINEAR = (
    "AddN", "AddV2", "Add", "AvgPool", "AvgPool3D", "BatchToSpaceND", "BiasAdd", "BroadcastTo", "Cast", "ConcatV2",
    "DepthToSpace", "ExpandDims", "GatherNd", "GatherV2", "Identity", "IdentityN", "Mean", "MirrorPad", "Neg", "Pack",
    "Pad", "PadV2", "Reshape", "ResizeBilinear", "ResizeNearestNeighbor", "Roll", "Slice", "SpaceToBatchND",
    "SpaceToDepth", "Split", "SplitV", "Squeeze", "StridedSlice", "Sub", "Sum", "Tile", "Transpose", "Unpack",
    "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3",
)  # fmt: skip
# Linear in their input if their kernel does not depend on it.
_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "Conv3DBackpropInputV2")
_UNARY = (
    "Abs", "Elu", "Erf", "Erfc", "Exp", "LeakyRelu", "Log", "Relu", "Relu6", "Rsqrt", "Selu", "Sigmoid", "Softplus",
    "Softsign", "Sqrt", "Tanh",
)  # fmt: skip
_QUADRATIC = ("Mul", "MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum", "Square", "SquaredDifference")
_MAXIMA = ("Max", "MaxPool", "MaxPool3D")
_GRADIENTS = {
    **dict.fromkeys(_UNARY, "AttributionRescale"),
    **dict.fromkeys(_QUADRATIC, "AttributionMidpoint"),
    **dict.fromkeys(_MAXIMA, "AttributionMaximum"),
    "RealDiv": "AttributionQuotient",
    "Softmax": "AttributionSoftmax",
    "StopGradient": "AttributionNoStop",
}
# Gradients of a product with a reciprocal, by which factor that is.
_RECIPROCALS = ("AttributionReciprocalFirst", "AttributionReciprocalSecond")
# What may lie between a reciprocal and the product with it, besides multiplication by what the input does not change.
_PASSED = ("BroadcastTo", "Cast", "ExpandDims", "Identity", "Neg", "Reshape", "Squeeze", "Tile", "Transpose")
# Name scopes of the two copies of the network in one graph. No input is called so: its placeholder would take the name.
AT_INPUT, AT_BASELINE = "attribution_at_input", "attribution_at_baseline"
_NEAR = 1e-6  # differences below it have no chord


def deeplift(queries: ModelQueries, *, baseline: Any = 0.0) -> np.ndarray:
    """DeepLIFT, rescale rule (Shrikumar et al. 2017): (x - b) times the multipliers; the sum is f(x) - f(b) exactly.

    Products of two variables, maxima and softmax are shared out as in SHAP's DeepExplainer (Lundberg and Lee 2017): a
    product's multiplier is the mean of the other factor's two values, and softmax is a quotient of exponentials.
    Normalisation and other quotients are shared out as at the head of this module.

    Parameters
    ----------
    queries
        Queries of a batch of inputs.
    baseline
        What inputs are compared with; see ``gradients.path_start``.
    """
    start = gradients.start_of(queries, baseline)
    return (queries.inputs - start) * queries.multipliers(start)


def rules(graph: Any, source: str, target: str) -> dict[str, str]:
    """Return the registered gradient of every operation between two nodes that is not linear.

    Raises
    ------
    BadInput
        If an operation has no rule; the message names it.
    """
    path = graph.between(source, target)
    on_path = set(path)
    refused = [
        f"{graph.nodes[name].op} ({name})"
        for name in path
        if name != source and not _has_rule(graph.nodes[name], on_path)
    ]
    if refused:
        more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
        raise BadInput(f"deeplift has no rule for {listed(refused[:5])}{more}")
    _register()
    return {name: _rule(graph, name, on_path) for name in path if graph.nodes[name].op in _GRADIENTS}


def _rule(graph, name, on_path) -> str:
    """Return the registered gradient of an operation that is not linear."""
    node = graph.nodes[name]
    if node.op == "Mul":
        factors = [tensor.split(":")[0] for tensor in node.input]
        reciprocal = [_is_reciprocal(graph, factor, on_path) for factor in factors]
        if sum(reciprocal) == 1 and on_path.issuperset(factors):
            return _RECIPROCALS[reciprocal.index(True)]
    return _GRADIENTS[node.op]


def _is_reciprocal(graph, name, on_path) -> bool:
    """Return whether a node is 1 / d of a d that depends on the input, moved and multiplied by constants."""
    while name in on_path:
        node = graph.nodes[name]
        depending = [factor for factor in (tensor.split(":")[0] for tensor in node.input) if factor in on_path]
        if node.op == "Rsqrt" or (node.op == "RealDiv" and node.input[0].split(":")[0] not in on_path):
            return True
        if node.op not in (*_PASSED, "Mul") or len(depending) != 1:
            return False
        name = depending[0]
    return False


def _has_rule(node, on_path) -> bool:
    if node.op in _CONVOLUTIONS:
        depending = [position for position, name in enumerate(node.input) if name.split(":")[0] in on_path]
        return len(depending) == 1
    if node.op in ("Select", "SelectV2"):  # a mask that the input does not change
        return node.input[0].split(":")[0] not in on_path
    if node.op.startswith("FusedBatchNorm") and node.attr["is_training"].b:
        return False
    return node.op in _LINEAR or node.op in _GRADIENTS


_registered = False


def _register():
    """Register the rules with TensorFlow, once."""
    global _registered
    if _registered:
        return
    import tensorflow as tf

    from attribution.graph.nodes import rebuild

    def twin(operation):
        return operation.graph.get_operation_by_name(AT_BASELINE + operation.name[len(AT_INPUT) :])

    def anew(operation, values, upper):
        """Return the gradients of an operation's like, at other values."""
        leaves = [tf.identity(value) for value in values]
        return tf.gradients(rebuild(operation, leaves), leaves, grad_ys=upper)

    def midway(operation):
        pairs = zip(operation.inputs, twin(operation).inputs, strict=True)
        return [0.5 * (x + b) if x.dtype.is_floating else x for x, b in pairs]

    def chord(run, rise, slope):
        near = tf.abs(run) < _NEAR
        return tf.where(near, slope, rise / tf.where(near, tf.ones_like(run), run))

    def with_shares(operation, upper, shares):
        """Return the gradients of Σ share · input of an operation with two inputs."""
        leaves = [tf.identity(value) for value in operation.inputs]
        return tf.gradients(leaves[0] * shares[0] + leaves[1] * shares[1], leaves, grad_ys=upper)

    def centred(x):
        top = tf.reduce_max(x, axis=-1, keepdims=True)
        return top, x - top

    def place(x):
        return tf.one_hot(tf.argmax(x, axis=-1), tf.shape(x)[-1], dtype=x.dtype)

    @tf.RegisterGradient("AttributionRescale")
    def rescale(operation, upper):
        other = twin(operation)
        slope = anew(operation, midway(operation), tf.ones_like(upper))[0]
        return upper * chord(operation.inputs[0] - other.inputs[0], operation.outputs[0] - other.outputs[0], slope)

    @tf.RegisterGradient("AttributionMidpoint")
    def midpoint(operation, upper):
        # Of a quadratic function the derivative halfway is the slope of the chord.
        return anew(operation, midway(operation), upper)

    @tf.RegisterGradient("AttributionQuotient")
    def quotient(operation, upper):
        other = twin(operation)
        (n, d), (n0, d0) = operation.inputs, other.inputs
        y, y0 = operation.outputs[0], other.outputs[0]
        # From one side of a pole to the other the mean of d may be 0: there the share is a product's, n with 1 / d.
        same = d * d0 > 0
        of_n = tf.where(same, 2 / (d + d0), 0.5 * (1 / d + 1 / d0))
        of_d = tf.where(same, -(y + y0) / (d + d0), -0.5 * (n + n0) / (d * d0))
        return with_shares(operation, upper, (of_n, of_d))

    def of_reciprocal(operation, upper, at):
        # n · r is n / d with r = 1 / d, and the chord of d = 1 / r has the slope -1 / (r r').
        other = twin(operation)
        (n, n0), (r, r0) = ((one.inputs[factor] for one in (operation, other)) for factor in (1 - at, at))
        y, y0 = operation.outputs[0], other.outputs[0]
        same = r * r0 > 0
        of_n = tf.where(same, 2 * (r / (r + r0)) * r0, 0.5 * (r + r0))
        of_r = tf.where(same, (y + y0) / (r + r0), 0.5 * (n + n0))
        return with_shares(operation, upper, (of_n, of_r) if at else (of_r, of_n))

    for at, name in enumerate(_RECIPROCALS):
        tf.RegisterGradient(name)(lambda operation, upper, at=at: of_reciprocal(operation, upper, at))

    @tf.RegisterGradient("AttributionSoftmax")
    def softmax(operation, upper):
        # exp(x - max x) / Σ exp(x - max x): without its maximum the exponentials could not be held in floats.
        x, b = operation.inputs[0], twin(operation).inputs[0]
        (top, run), (top0, run0) = centred(x), centred(b)
        e, e0 = tf.exp(run), tf.exp(run0)
        total, total0 = (tf.reduce_sum(one, axis=-1, keepdims=True) for one in (e, e0))
        of_total = tf.reduce_sum(-0.5 * upper * (e + e0), axis=-1, keepdims=True) / (total * total0)
        of_each = 0.5 * upper * (1 / total + 1 / total0) + of_total
        of_each *= chord(run - run0, e - e0, tf.exp(0.5 * (run + run0)))
        higher = tf.maximum(top, top0)
        of_top = place(x) * (higher - top0) + place(b) * (top - higher)
        return of_each - tf.reduce_sum(of_each, axis=-1, keepdims=True) * tf.math.divide_no_nan(of_top, x - b)

    @tf.RegisterGradient("AttributionNoStop")
    def no_stop(_, upper):
        return upper  # whatever the training held fixed: a difference comes through

    @tf.RegisterGradient("AttributionMaximum")
    def maximum(operation, upper):
        # A maximum rises by what its new place brings and falls by what its old place loses.
        other = twin(operation)
        x, b = operation.inputs[0], other.inputs[0]
        y, y0 = operation.outputs[0], other.outputs[0]
        higher = tf.maximum(y, y0)
        risen = anew(operation, operation.inputs, upper * (higher - y0))[0]
        fallen = anew(operation, other.inputs, upper * (y - higher))[0]
        found = tf.math.divide_no_nan(risen + fallen, x - b)
        return [found, *[None] * (len(operation.inputs) - 1)]

    _registered = True
