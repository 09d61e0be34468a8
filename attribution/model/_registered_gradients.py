"""Gradients that methods register with TensorFlow in place of the true ones, by name; registered at the import.

Guided Backprop and Deconvnet change rectifiers (``attribution.methods.modified_relu``), and are defined for networks of
rectifiers alone. Between input and score these are allowed, and operations that are linear, normalize by constants,
move values or select them as pooling does. Every other operation is refused by name.

DeepLIFT uses slopes of chords instead of derivatives (``attribution.model._deeplift_rules``): its graph holds the
network twice, at the input and at the baseline, in two name scopes. In the comments Δ is the difference between both, '
marks the baseline.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph import _tf_internals
from attribution.graph.view import GraphView, node_of, operations_named, rebuild
from attribution.lrp import composite as ops

# Name scopes of the two copies of the network in one graph; no input may have such a name.
AT_INPUT, AT_BASELINE = "attribution_at_input", "attribution_at_baseline"
# Operations that are a rectifier each; PReLU is a sum of two.
RECTIFIERS = ("Relu", "Relu6", "LeakyRelu")
PRELU = "PRelu"
STEPS = "attribution_steps"  # collection of a graph with a mapping from name to ``Step``
_NONLINEAR_CHOICES = ("Select", "SelectV2", "Maximum", "Minimum", "ClipByValue")
_ALLOWED = {
    *ops.LAYERS, *ops.AVERAGES, *ops.SUMS, *ops.MOVES, *ops.SELECTS, *ops.SCALES, *ops.NORMALIZATIONS, "Neg",
    "OnesLike", "ZerosLike",  # read the shape alone
} - set(_NONLINEAR_CHOICES)  # fmt: skip


def find_rectifiers(graph: GraphView, source: str, target: str, method: str) -> dict[str, str]:
    """Return the rectifiers between two nodes: node name to "Relu", "Relu6", "LeakyRelu" or "PRelu".

    The node of a PReLU is the sum that ends it; the two ReLUs in it are not listed.

    Parameters
    ----------
    graph
        A frozen graph.
    source, target
        Node names of the explained input and of the scores.
    method
        Name of the method, for the message.

    Raises
    ------
    BadInput
        If there is another nonlinear operation, a product of two factors that both depend on the input, or no
        rectifier at all.
    """
    path = dict.fromkeys(graph.between(source, target))
    prelus = {name: halves for name in path if (halves := prelu_halves(graph, name)) is not None}
    refused = [
        name
        for name in path
        if name != source and not (graph.nodes[name].op in RECTIFIERS or is_linear(graph.nodes[name], path))
    ]
    if refused:
        raise BadInput(
            f"{method} is defined for networks of Relu, Relu6, LeakyRelu and PReLU alone; this one has "
            f"{listed(operations_named(graph, refused), 5)}"
        )
    inside = {name for halves in prelus.values() for name in halves}
    found = {name: graph.nodes[name].op for name in path if graph.nodes[name].op in RECTIFIERS and name not in inside}
    found |= dict.fromkeys(prelus, PRELU)
    if not found:
        raise BadInput(f"{method} changes the gradient of rectifiers and this model has none; use gradient")
    return found


def prelu_halves(graph: GraphView, name: str) -> tuple[str, str] | None:
    """Return the two ReLUs of a PReLU, relu(x) ± c relu(-x) with a constant c, by its sum; ``None`` for other nodes."""
    node = graph.nodes[name]
    if node.op not in ("Add", "AddV2", "Sub"):
        return None
    for place in (0, 1):
        relu, product = (graph.nodes[node_of(node.input[one])] for one in (place, 1 - place))
        if relu.op != "Relu" or product.op != "Mul" or (node.op == "Sub" and place == 1):
            continue
        for other in (graph.nodes[node_of(tensor)] for tensor in product.input):
            negated = graph.nodes[node_of(other.input[0])] if other.op == "Relu" else None
            if negated is None or negated.op != "Neg" or negated.input[0] != relu.input[0]:
                continue
            if all(len(graph.uses(one.name)) == 1 for one in (relu, product, other)):
                return relu.name, other.name
    return None


def is_linear(node: Any, path: Collection[str]) -> bool:
    """Return whether a node is linear in the input, moves its values, or chooses among them as pooling does."""
    if node.op not in _ALLOWED:
        return False
    moving = [place for place, tensor in enumerate(node.input) if node_of(tensor) in path]
    if node.op == "RealDiv":
        return moving == [0]
    return node.op not in (*ops.LAYERS, "Mul") or len(moving) == 1


_NEAR = 1e-6  # smaller differences have no chord


def _relu(_: tf.Operation, gradient: tf.Tensor) -> Any:
    return tf.nn.relu(gradient)


def _leaky_relu(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    return tf.nn.leaky_relu(gradient, operation.get_attr("alpha"))


def _prelu(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    """Return relu(g) ± c relu(-g), as the sum that ends a PReLU computes from its input."""
    (product,) = (term.op for term in operation.inputs if term.op.type == "Mul")
    (constant,) = (factor for factor in product.inputs if factor.op.type != "Relu")
    below = constant * tf.nn.relu(-gradient)
    return tf.nn.relu(gradient) - below if operation.type == "Sub" else tf.nn.relu(gradient) + below


def _guided_relu(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    return tf.raw_ops.ReluGrad(gradients=_relu(operation, gradient), features=operation.outputs[0])


def _guided_relu6(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    return tf.raw_ops.Relu6Grad(gradients=_relu(operation, gradient), features=operation.outputs[0])


def _guided_leaky_relu(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    return tf.raw_ops.LeakyReluGrad(
        gradients=_leaky_relu(operation, gradient), features=operation.inputs[0], alpha=operation.get_attr("alpha")
    )


def _guided_prelu(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    gradient = _prelu(operation, gradient)
    return gradient, -gradient if operation.type == "Sub" else gradient


def _deconvnet_prelu(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    gradient = _prelu(operation, gradient)
    return [gradient if term.op.type == "Relu" else None for term in operation.inputs]


def _pass_on(_: tf.Operation, gradient: tf.Tensor) -> Any:
    return gradient


def _twin(operation: tf.Operation) -> Any:
    """Return the same operation at the baseline."""
    return operation.graph.get_operation_by_name(AT_BASELINE + operation.name[len(AT_INPUT) :])


def _gradients_at(operation: tf.Operation, values: Sequence[tf.Tensor], gradient: tf.Tensor) -> Any:
    """Return the true gradients of an operation at other values of its inputs."""
    return _tf_internals.gradients_of(rebuild(operation, values).op, [gradient])


def _midpoints(operation: tf.Operation) -> list[tf.Tensor]:
    pairs = zip(operation.inputs, _twin(operation).inputs, strict=True)
    return [0.5 * (x + b) if x.dtype.is_floating else x for x, b in pairs]


def _chord(run: tf.Tensor, rise: tf.Tensor, slope: tf.Tensor) -> Any:
    """Return rise / run, or ``slope`` where the run is near 0."""
    near = tf.abs(run) < _NEAR
    return tf.where(near, slope, rise / tf.where(near, tf.ones_like(run), run))


def _with_multipliers(operation: tf.Operation, gradient: tf.Tensor, multipliers: Sequence[tf.Tensor]) -> Any:
    """Return the gradients of Σ multiplier · input of an operation with two inputs."""
    leaves = [tf.identity(value) for value in operation.inputs]
    return tf.gradients(leaves[0] * multipliers[0] + leaves[1] * multipliers[1], leaves, grad_ys=gradient)


def _rescale(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    other = _twin(operation)
    slope = _gradients_at(operation, _midpoints(operation), tf.ones_like(gradient))[0]
    return gradient * _chord(operation.inputs[0] - other.inputs[0], operation.outputs[0] - other.outputs[0], slope)


def _power(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    """Return the gradients of x ** c or c ** x; the constant's is not used."""
    other = _twin(operation)
    rise = operation.outputs[0] - other.outputs[0]
    base, exponent = _midpoints(operation)
    slopes = exponent * tf.pow(base, exponent - 1), tf.pow(base, exponent) * tf.math.log(base)
    runs = [x - b for x, b in zip(operation.inputs, other.inputs, strict=True)]
    chords = [_chord(run + tf.zeros_like(rise), rise, slope) for run, slope in zip(runs, slopes, strict=True)]
    return _with_multipliers(operation, gradient, chords)


def _midpoint(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    # The derivative of a quadratic function at the midpoint is the slope of the chord.
    return _gradients_at(operation, _midpoints(operation), gradient)


def _quotient(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    other = _twin(operation)
    (n, d), (n0, d0) = operation.inputs, other.inputs
    y, y0 = operation.outputs[0], other.outputs[0]
    # Across a pole the mean of d may be 0: there it is the product of n and 1 / d.
    same = d * d0 > 0
    of_n = tf.where(same, 2 / (d + d0), 0.5 * (1 / d + 1 / d0))
    of_d = tf.where(same, -(y + y0) / (d + d0), -0.5 * (n + n0) / (d * d0))
    return _with_multipliers(operation, gradient, (of_n, of_d))


def _reciprocal_product(operation: tf.Operation, gradient: tf.Tensor, at: int) -> Any:
    """Return the gradients of a product whose factor number ``at`` is a reciprocal."""
    # n · r is n / d with r = 1 / d, and the chord of d = 1 / r has the slope -1 / (r r').
    other = _twin(operation)
    (n, n0), (r, r0) = ((one.inputs[factor] for one in (operation, other)) for factor in (1 - at, at))
    y, y0 = operation.outputs[0], other.outputs[0]
    same = r * r0 > 0
    of_n = tf.where(same, 2 * (r / (r + r0)) * r0, 0.5 * (r + r0))
    of_r = tf.where(same, (y + y0) / (r + r0), 0.5 * (n + n0))
    return _with_multipliers(operation, gradient, (of_n, of_r) if at else (of_r, of_n))


def _softmax(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    # exp(x - max x) / Σ exp(x - max x): without the maximum the exponentials overflow.
    x, b = operation.inputs[0], _twin(operation).inputs[0]
    top, top0 = (tf.reduce_max(one, axis=-1, keepdims=True) for one in (x, b))
    run, run0 = x - top, b - top0
    e, e0 = tf.exp(run), tf.exp(run0)
    total, total0 = (tf.reduce_sum(one, axis=-1, keepdims=True) for one in (e, e0))
    of_total = tf.reduce_sum(-0.5 * gradient * (e + e0), axis=-1, keepdims=True) / (total * total0)
    of_each = 0.5 * gradient * (1 / total + 1 / total0) + of_total
    of_each *= _chord(run - run0, e - e0, tf.exp(0.5 * (run + run0)))
    higher = tf.maximum(top, top0)
    of_top = _one_hot_maximum(x) * (higher - top0) + _one_hot_maximum(b) * (top - higher)
    return of_each - tf.reduce_sum(of_each, axis=-1, keepdims=True) * tf.math.divide_no_nan(of_top, x - b)


def _log_softmax(operation: tf.Operation, gradient: tf.Tensor) -> Any:
    # x - log Σ exp x, with one shift of both sides, so that the larger exponentials do not overflow.
    x, b = operation.inputs[0], _twin(operation).inputs[0]
    top = tf.maximum(*(tf.reduce_max(one, axis=-1, keepdims=True) for one in (x, b)))
    e, e0 = tf.exp(x - top), tf.exp(b - top)
    total, total0 = (tf.reduce_sum(one, axis=-1, keepdims=True) for one in (e, e0))
    rise = tf.reduce_logsumexp(x, axis=-1, keepdims=True) - tf.reduce_logsumexp(b, axis=-1, keepdims=True)
    of_total = _chord(total - total0, rise, 2 / (total + total0))
    of_each = _chord(x - b, e - e0, tf.exp(0.5 * (x + b) - top))
    return gradient - tf.reduce_sum(gradient, axis=-1, keepdims=True) * of_total * of_each


def _one_hot_maximum(x: tf.Tensor) -> Any:
    return tf.one_hot(tf.argmax(x, axis=-1), tf.shape(x)[-1], dtype=x.dtype)


def _extreme(operation: tf.Operation, gradient: tf.Tensor, farther: Callable[..., Any]) -> Any:
    # A maximum rises by what its new position brings and falls by what its old one loses; a minimum does the reverse.
    other = _twin(operation)
    y, y0 = operation.outputs[0], other.outputs[0]
    reached = farther(y, y0)
    gained = _gradients_at(operation, operation.inputs, gradient * (reached - y0))
    lost = _gradients_at(operation, other.inputs, gradient * (y - reached))
    moves = zip(operation.inputs, other.inputs, gained, lost, strict=True)
    return [None if of_x is None else tf.math.divide_no_nan(of_x + of_b, x - b) for x, b, of_x, of_b in moves]


def _step(operation: tf.Operation, *upstream: Any) -> Any:
    """Return the multipliers of a call of a step of an unrolled loop."""
    (steps,) = operation.graph.get_collection(STEPS)
    return steps[operation.get_attr("f").name](operation.inputs, _twin(operation).inputs, upstream)


def forget_gradient_names() -> None:
    """Remove from the graph that is being built the names of gradients that this process alone knows.

    The gradients themselves are in the graph by now, as operations.
    """
    for operation in tf.compat.v1.get_default_graph().get_operations():
        if "_gradient_op_type" in operation.node_def.attr:
            operation._clear_attr("_gradient_op_type")


class Step:
    """DeepLIFT through the function of a step, traced once for all steps.

    Parameters
    ----------
    body : attribution.graph._loops.Body
        The function.
    moving
        Its arguments that depend on the explained input.
    rules
        Registered gradients by node name.
    """

    def __init__(self, body: Any, moving: Collection[str], rules: Mapping[str, str]) -> None:
        self._body, self._moving, self._rules = body, moving, rules
        self._run = tf.function(self._multipliers, autograph=False, experimental_attributes={"_noinline": True})

    def __call__(self, inputs: Any, at_baseline: Any, upstream: Any) -> list[Any]:
        """Return the multiplier of each input, ``None`` of those that do not move."""
        found = iter(self._run(list(inputs), list(at_baseline), list(upstream)))
        return [next(found) if name in self._moving else None for name in self._body.arguments]

    def _multipliers(self, inputs: list[Any], at_baseline: list[Any], upstream: list[Any]) -> Any:
        body = self._body
        body.graph.import_on(dict(zip(body.arguments, at_baseline, strict=True)), body.results, name=AT_BASELINE)
        given = dict(zip(body.arguments, map(tf.identity, inputs), strict=True))
        results, _ = body.graph.import_on(given, body.results, self._rules, AT_INPUT)
        moving = [given[name] for name in body.arguments if name in self._moving]
        found = tf.gradients(results, moving, grad_ys=upstream, unconnected_gradients="zero")
        forget_gradient_names()  # TensorFlow would look for them when a function that calls this one is exported
        return found


for _name, _function in {
    "AttributionGuidedRelu": _guided_relu,
    "AttributionGuidedRelu6": _guided_relu6,
    "AttributionGuidedLeakyRelu": _guided_leaky_relu,
    "AttributionGuidedPRelu": _guided_prelu,
    "AttributionDeconvnetRelu": _relu,
    "AttributionDeconvnetRelu6": _relu,
    "AttributionDeconvnetLeakyRelu": _leaky_relu,
    "AttributionDeconvnetPRelu": _deconvnet_prelu,
    "AttributionPassOn": _pass_on,  # also of operations that stop gradients: a difference passes them
    "AttributionRescale": _rescale,
    "AttributionMidpoint": _midpoint,
    "AttributionMaximum": functools.partial(_extreme, farther=tf.maximum),
    "AttributionMinimum": functools.partial(_extreme, farther=tf.minimum),
    "AttributionQuotient": _quotient,
    "AttributionReciprocalFirst": functools.partial(_reciprocal_product, at=0),
    "AttributionReciprocalSecond": functools.partial(_reciprocal_product, at=1),
    "AttributionSoftmax": _softmax,
    "AttributionLogSoftmax": _log_softmax,
    "AttributionPower": _power,
    "AttributionStep": _step,
}.items():
    tf.RegisterGradient(_name)(_function)
