"""DeepLIFT's rescale rule: propagate differences from a baseline, by slopes of chords instead of derivatives.

With x an operation's input and x' the same at the baseline, Δx = x - x', every rule gives multipliers m with
Σ m Δx = Δy, so that the map's sum is the difference of the scores. The multipliers of linear operations are their
weights. ``attribution.model._registered_gradients`` has the other rules.

A quotient y = n / d is the product y · d = n: with the means d̄ = (d + d') / 2 and ȳ = (y + y') / 2, Δy is
(Δn - ȳ Δd) / d̄. Normalization multiplies by 1 / d, and near a baseline of zeros its d is almost 0. The mean of 1 / d
and 1 / d' would be enormous there, and so would the two contributions, which cancel; 1 / d̄ is not.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph._loops import Body, called
from attribution.graph.view import CALLS, CONVOLUTIONS, NORMALIZATIONS, node_of
from attribution.lrp.composite import WITHOUT_RULES
from attribution.model import _registered_gradients  # noqa: F401  registers them

# Linear in the factors that depend on the input.
_LINEAR = (
    "AddN", "AddV2", "Add", "AvgPool", "AvgPool3D", "BatchToSpaceND", "BiasAdd", "BroadcastTo", "Cast", "ConcatV2",
    "DepthToSpace", "EnsureShape", "ExpandDims", "ExtractImagePatches", "GatherNd", "GatherV2", "Identity", "IdentityN",
    "MatrixBandPart", "MatrixDiagPartV3", "MatrixDiagV3", "Mean", "MirrorPad", "Neg", "Pack", "Pad", "PadV2", "Reshape",
    "ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor", "ReverseV2", "Roll", "ScaleAndTranslate", "ScatterNd",
    "Slice", "SpaceToBatchND", "SpaceToDepth", "Split", "SplitV", "Squeeze", "StridedSlice", "Sub", "Sum",
    "TensorScatterAdd", "TensorScatterSub", "TensorScatterUpdate", "Tile", "Transpose", "Unpack",
    "Complex", "Conj", "FFT", "FFT2D", "IFFT", "IFFT2D", "Imag", "IRFFT", "IRFFT2D", "Real", "RFFT", "RFFT2D",
    *NORMALIZATIONS, "OnesLike", "ZerosLike",  # the last two read the shape alone
)  # fmt: skip
_PRECISE = {"float32", "float64", "complex64", "complex128"}
# Linear in their first input if the second, segments or an axis, does not depend on it.
_SEGMENTS = ("SegmentSum", "UnsortedSegmentSum", "Cumsum")
_UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BesselI0e", "BesselI1e", "Cos", "Cosh", "Digamma", "Elu",
    "Erf", "Erfc", "Erfinv", "Exp", "Expm1", "Inv", "LeakyRelu", "Lgamma", "Log", "Log1p", "Ndtri", "Reciprocal",
    "Relu", "Relu6", "Rsqrt", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
)  # fmt: skip
_PRODUCTS = ("Mul", "MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum")
_QUADRATIC = (*_PRODUCTS, "Square", "SquaredDifference")
_MAXIMA = ("Max", "MaxPool", "MaxPool3D", "Maximum")
MAXIMUM = "AttributionMaximum"
_MINIMA = ("Min", "Minimum")
_GRADIENTS = {
    **dict.fromkeys(_UNARY, "AttributionRescale"),
    **dict.fromkeys(_QUADRATIC, "AttributionMidpoint"),
    **dict.fromkeys(_MAXIMA, MAXIMUM),
    **dict.fromkeys(_MINIMA, "AttributionMinimum"),
    "RealDiv": "AttributionQuotient",
    "Softmax": "AttributionSoftmax",
    "LogSoftmax": "AttributionLogSoftmax",
    "Pow": "AttributionPower",
    **dict.fromkeys(CALLS, "AttributionStep"),
    "StopGradient": "AttributionPassOn",
}
# Gradients of a product with a reciprocal, which is its first or second factor.
_RECIPROCALS = ("AttributionReciprocalFirst", "AttributionReciprocalSecond")
# Operations between a reciprocal and the product with it, besides multiplication by constants.
_PASSED = ("BroadcastTo", "Cast", "ExpandDims", "Identity", "Neg", "Reshape", "Squeeze", "Tile", "Transpose")


def deeplift_rules(graph: Any, source: Any, target: Any) -> dict[str, str]:
    """Return the registered gradient of every operation between two nodes, or several, that is not linear.

    Raises
    ------
    BadInput
        If an operation has no rule; the message names it.
    """
    path = graph.between(source, target)
    on_path = set(path)
    others = [graph.nodes[name] for name in path if graph.nodes[name].op != "Placeholder"]
    refused = [f"{_kind(node)} ({node.name})" for node in others if not _has_rule(node, on_path)]
    if refused:
        raise BadInput(f"deeplift has no rule for {listed(refused, 5)}{WITHOUT_RULES}")
    return {name: _rule(graph, name, on_path) for name in path if not _is_linear(graph.nodes[name], on_path)}


def step_rules(graph: Any, source: str, target: str) -> dict[str, tuple[Body, list[str], dict[str, str]]]:
    """Return the steps of unrolled loops between two nodes, by the functions' names.

    Each has the arguments that depend on the source in some step, and its own ``deeplift_rules``.
    """
    path = graph.between(source, target)
    calls = [graph.nodes[name] for name in path if graph.nodes[name].op in CALLS]
    places: dict[str, set[int]] = {}
    for node in calls:
        moving = {place for place, tensor in enumerate(node.input) if node_of(tensor) in path}
        places.setdefault(node.attr["f"].func.name, set()).update(moving)
    found = {}
    for function, node in {node.attr["f"].func.name: node for node in calls}.items():
        body = called(graph, node)
        sources = [body.arguments[place] for place in sorted(places[function])]
        found[function] = body, sources, deeplift_rules(body.graph, sources, map(node_of, body.results))
    return found


def _is_linear(node: Any, on_path: set[str]) -> bool:
    """Return whether the true gradient of a node is its multiplier, as of a product with a constant."""
    if node.op in _PRODUCTS:
        return sum(tensor.split(":")[0] in on_path for tensor in node.input) == 1
    return node.op not in _GRADIENTS


def _rule(graph: Any, name: str, on_path: set[str]) -> str:
    """Return the registered gradient of an operation that is not linear."""
    node = graph.nodes[name]
    if node.op == "Mul":
        factors = [tensor.split(":")[0] for tensor in node.input]
        reciprocal = [_is_reciprocal(graph, factor, on_path) for factor in factors]
        if sum(reciprocal) == 1 and on_path.issuperset(factors):
            return _RECIPROCALS[reciprocal.index(True)]
    return _GRADIENTS[node.op]


def _is_reciprocal(graph: Any, name: str, on_path: set[str]) -> bool:
    """Return whether a node is 1 / d of a d that depends on the input, perhaps reshaped and multiplied by constants."""
    while name in on_path:
        node = graph.nodes[name]
        depending = [factor for factor in (tensor.split(":")[0] for tensor in node.input) if factor in on_path]
        if node.op == "Rsqrt" or (node.op == "RealDiv" and node.input[0].split(":")[0] not in on_path):
            return True
        if node.op not in (*_PASSED, "Mul") or len(depending) != 1:
            return False
        name = depending[0]
    return False


def _kind(node: Any) -> str:
    return f"{node.op} from {' to '.join(_types(node))}" if node.op == "Cast" else str(node.op)


def _types(node: Any) -> list[str]:
    """Return the names of the types that a Cast converts from and to."""
    return [tf.as_dtype(node.attr[name].type).name for name in ("SrcT", "DstT")]


def _has_rule(node: Any, on_path: set[str]) -> bool:
    if node.op == "Cast":  # to whole numbers or short ones it rounds, and TensorFlow has no gradient of it
        return set(_types(node)) <= _PRECISE
    if node.op in CONVOLUTIONS:  # linear in their input if their kernel does not depend on it
        depending = [position for position, name in enumerate(node.input) if name.split(":")[0] in on_path]
        return len(depending) == 1
    if node.op in _SEGMENTS:
        return node.input[1].split(":")[0] not in on_path
    if node.op == "Pow":  # of a constant, or to a constant
        return sum(tensor.split(":")[0] in on_path for tensor in node.input) == 1
    if node.op in ("Select", "SelectV2"):  # only with a constant mask
        return node.input[0].split(":")[0] not in on_path
    is_training = node.op.startswith("FusedBatchNorm") and node.attr["is_training"].b
    return not is_training and (node.op in _LINEAR or node.op in _GRADIENTS)
