"""Propagate relevance from a score back to an input, operation by operation, on an imported graph.

The graph is walked from the score backwards. Sums, biases and the linear operations below them are shared out
together: in y = W u + V v + b the contributions of u and v compete for the relevance of y, however many
operations the graph spells the sum with. Operations that only move, copy or select values hand relevance on
by their gradient; ReLU and normalisation hand it on unchanged. Anything else is refused by name.
"""

from __future__ import annotations

import collections

import tensorflow as tf

from attribution.graph import SHAPES
from attribution.graph_nodes import rebuild
from attribution.lrp import KINDS, Composite, Rule
from attribution_benchmarks.command_line import BadInput, listed

_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMul", "Einsum")
_AVERAGES = ("Mean", "Sum", "AvgPool")  # linear with positive weights of their own
_SUMS = ("Add", "AddV2", "AddN", "Sub", "BiasAdd")
# Every value of the output is a value of the first input.
_MOVES = (
    "Identity", "Reshape", "Squeeze", "ExpandDims", "Transpose", "Tile", "BroadcastTo", "Slice", "StridedSlice",
    "Gather", "GatherV2",
)  # fmt: skip
_SELECTS = (
    "MaxPool", "Pad", "PadV2", "MirrorPad", "ConcatV2", "Concat", "Pack", "Unpack", "Split", "SplitV", "GatherNd",
)  # fmt: skip
_SCALES = ("Mul", "RealDiv")  # by a constant: normalisation
_NORMALISATIONS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
# Elementwise, 0 at 0, of the sign of their input.
_ACTIVATIONS = ("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Tanh")


# One summand of a rule: its weight, the pairs (inputs, weights) whose products contribute, what a bias contributes.
_Part = collections.namedtuple("_Part", "weight pairs bias")


def propagate(graph, operations, inputs, source, target, start, composite: Composite) -> dict:
    """Return the relevance of every tensor on the way from a score to an input.

    Parameters
    ----------
    graph : attribution.graph.GraphView
        The frozen graph.
    operations
        Its node names to imported ``tf.Operation``.
    inputs
        Names of all its input nodes.
    source
        Node name of the explained input.
    target
        Tensor name of the scores, ``(N, classes)``.
    start
        Their relevance, of the same shape.
    composite
        Which rule holds where.

    Returns
    -------
    dict
        Node name to the relevance of its first output, of that output's shape.

    Raises
    ------
    BadInput
        If an operation on the way has no rule.
    """
    propagation = _Propagation(graph, operations, inputs, source, target.split(":")[0], composite)
    return propagation.run(target, start)


class _Propagation:
    def __init__(self, graph, operations, inputs, source, target, composite):
        self.operations = operations
        self.path = graph.between(source, target)
        self.source = source
        self.composite = composite
        self.imported = {operation.name for operation in operations.values()}
        self.variable = {operations[name].name for name in graph.below(inputs)}
        self.on_path = {operations[name].name for name in self.path}
        self.relevance = {}
        # Nodes that the input reaches through no linear operation yet.
        self.near_input = set()
        for name in self.path:
            operation = operations[name]
            above = {tensor.op.name for tensor in operation.inputs} & self.on_path
            if name == source or (above <= self.near_input and operation.type not in _CONVOLUTIONS + _PRODUCTS):
                self.near_input.add(operation.name)

    def run(self, target, start):
        node, _, number = target.partition(":")
        self.relevance[self.operations[node].outputs[int(number or 0)].ref()] = start
        for name in reversed(self.path):
            operation = self.operations[name]
            given = [self.relevance.get(output.ref()) for output in operation.outputs]
            if name != self.source and any(one is not None for one in given):
                self._share_out(operation, given)
        return {
            name: self.relevance[self.operations[name].outputs[0].ref()]
            for name in self.path
            if self.operations[name].outputs and self.operations[name].outputs[0].ref() in self.relevance
        }

    def _share_out(self, operation, given):
        kind = operation.type
        if kind in _CONVOLUTIONS + _PRODUCTS + _AVERAGES + _SUMS:
            self._share_sum(operation, given[0])
        elif kind in _ACTIVATIONS + _NORMALISATIONS:
            self._add(operation.inputs[0], given[0])
        elif kind in _SCALES:
            self._share_product(operation, given[0])
        elif kind in _MOVES + _SELECTS:
            self._follow_gradient(operation, given)
        else:
            raise BadInput(f"no relevance rule for the operation {kind} (node '{self._node(operation)}')")

    def _share_sum(self, operation, given):
        """Share the relevance of a sum of linear operations out among all their inputs."""
        if self._only_shifts(operation):
            moving = [tensor for tensor in operation.inputs if not self._is_constant(tensor)]
            self._add(moving[0], _fit(given, moving[0]))
            return
        rule = self._rule(operation)
        for part in _parts(rule):
            leaves = []
            total = self._build(operation.outputs[0], part, 1.0, leaves, root=True)
            share = part.weight * _divide(given, total, rule.epsilon)
            factors = [factor for _, factor in leaves]
            gradients = tf.gradients(total, factors, grad_ys=share)
            for (tensor, factor), gradient in zip(leaves, gradients, strict=True):
                self._add(tensor, factor * gradient)

    def _build(self, tensor, part, sign, leaves, root=False):
        """Build one part of a sum anew, from copies of its inputs that are collected in ``leaves``."""
        operation = tensor.op
        inner = root or self._belongs(tensor)
        kind = operation.type
        if self._is_constant(tensor):
            return part.bias(sign * tensor)
        if inner and kind in _SUMS:
            signs = [sign, -sign] if kind == "Sub" else [sign] * len(operation.inputs)
            terms = [
                self._build(term, part, term_sign, leaves)
                for term, term_sign in zip(operation.inputs, signs, strict=True)
            ]
            if kind == "BiasAdd":
                return rebuild(operation, terms)
            return tf.add_n(terms) if kind == "AddN" else terms[0] + terms[1]
        if inner and kind in _MOVES:
            return rebuild(operation, [self._build(operation.inputs[0], part, sign, leaves), *operation.inputs[1:]])
        if inner and kind in _CONVOLUTIONS + _PRODUCTS:
            position = self._position_of_input(operation)
            variable, weights = operation.inputs[position], operation.inputs[1 - position]

            def layer(x, w):
                return rebuild(operation, [x, w] if position == 0 else [w, x])
        elif inner and kind in _AVERAGES:
            variable, weights = operation.inputs[0], tf.ones((), tensor.dtype)

            def layer(x, w):
                return w * rebuild(operation, [x, *operation.inputs[1:]])
        else:
            variable, weights = tensor, tf.ones((), tensor.dtype)

            def layer(x, w):
                return w * x

        total = None
        for factor, weight in part.pairs(variable, sign * weights, _Layer(self, variable)):
            factor = tf.identity(factor)
            leaves.append((variable, factor))
            value = layer(factor, weight)
            total = value if total is None else total + value
        return total

    def _share_product(self, operation, given):
        """Hand relevance on through a scaling by a constant; halve it between two variable factors."""
        variable = [tensor for tensor in operation.inputs if not self._is_constant(tensor)]
        for tensor in variable:
            self._add(tensor, _fit(given / len(variable), tensor))

    def _follow_gradient(self, operation, given):
        outputs = [output for output, one in zip(operation.outputs, given, strict=True) if one is not None]
        sources = [tensor for tensor in operation.inputs if tensor.dtype.is_floating]
        gradients = tf.gradients(
            outputs, sources, grad_ys=[one for one in given if one is not None], stop_gradients=sources
        )
        for tensor, gradient in zip(sources, gradients, strict=True):
            if gradient is not None:
                self._add(tensor, gradient)

    def _add(self, tensor, relevance):
        if tensor.op.name not in self.on_path:
            return  # a constant, or a branch the explained input does not reach
        known = self.relevance.get(tensor.ref())
        self.relevance[tensor.ref()] = relevance if known is None else known + relevance

    def _rule(self, operation) -> Rule:
        """Return the rule of a sum, by the linear operations in it."""
        kinds, sees_input = set(), False
        stack, root = [operation.outputs[0]], True
        while stack:
            tensor = stack.pop()
            kind = tensor.op.type
            if self._is_constant(tensor) or not (root or self._belongs(tensor)):
                continue
            root = False
            if kind in _SUMS:
                stack.extend(tensor.op.inputs)
            elif kind in _MOVES:
                stack.append(tensor.op.inputs[0])
            elif kind in _CONVOLUTIONS + _PRODUCTS:
                kinds.add(kind)
                variable = tensor.op.inputs[self._position_of_input(tensor.op)]
                sees_input = sees_input or (variable.op.name in self.near_input)
        if sees_input and self.composite.first is not None:
            return self.composite.first
        if kinds & set(_CONVOLUTIONS):
            return self.composite.convolution
        return self.composite.dense if kinds else self.composite.merge

    def _belongs(self, tensor) -> bool:
        """Return whether a tensor is computed inside a sum alone, so that it can be shared out with it."""
        kind = tensor.op.type
        if kind not in _CONVOLUTIONS + _PRODUCTS + _SUMS + _MOVES:
            return False
        if kind in _MOVES:
            return self._belongs(tensor.op.inputs[0]) and self._has_one_use(tensor)
        return self._has_one_use(tensor)

    def _has_one_use(self, tensor) -> bool:
        uses = [use for use in tensor.consumers() if use.name in self.imported and use.type not in SHAPES]
        return len(uses) == 1

    def _only_shifts(self, operation) -> bool:
        """Return whether a sum adds constants to one tensor that no linear operation gave: normalisation does."""
        if operation.type not in _SUMS:
            return False
        moving = [tensor for tensor in operation.inputs if not self._is_constant(tensor)]
        return len(moving) == 1 and not self._belongs(moving[0])

    def _is_constant(self, tensor) -> bool:
        return tensor.op.name not in self.variable

    def _position_of_input(self, operation) -> int:
        """Return which of a product's two factors is not a constant."""
        variable = [position for position, tensor in enumerate(operation.inputs) if not self._is_constant(tensor)]
        if len(variable) != 1:
            raise BadInput(
                f"no relevance rule for {operation.type} with two factors that depend on the input "
                f"(node '{self._node(operation)}')"
            )
        return variable[0]

    def _node(self, operation) -> str:
        return next(name for name, known in self.operations.items() if known.name == operation.name)


class _Layer:
    """What is known of a layer's inputs without their values."""

    def __init__(self, propagation, tensor):
        self._propagation = propagation
        self._tensor = tensor

    def is_nonnegative(self) -> bool:
        """Whether no input can be negative, so that half of z+ need not be computed."""
        tensor = self._tensor
        while tensor.op.type in (*_MOVES, "MaxPool", "AvgPool", "Pad"):
            tensor = tensor.op.inputs[0]
        return tensor.op.type in ("Relu", "Relu6", "Softmax", "Sigmoid", "Square", "Abs")

    def bounds(self, low, high):
        """Return the least and greatest values of the layer's inputs if the explained input is in [low, high]."""
        return self._bounds(self._tensor, low, high)

    def _bounds(self, tensor, low, high):
        operation, propagation = tensor.op, self._propagation
        if operation.name == propagation.operations[propagation.source].name:
            return tf.fill(tf.shape(tensor), float(low)), tf.fill(tf.shape(tensor), float(high))
        if operation.name not in propagation.near_input:
            return tensor, tensor
        # What lies before the first layer (padding, scaling) is monotone in each value.
        sources = [self._bounds(source, low, high) for source in operation.inputs]
        ends = [rebuild(operation, [source[end] for source in sources]) for end in (0, 1)]
        return tf.minimum(*ends), tf.maximum(*ends)


def _parts(rule: Rule) -> list[_Part]:
    """Return a rule as summands."""
    positive, negative = (lambda x: tf.maximum(x, 0)), (lambda x: tf.minimum(x, 0))
    share_of_bias = (lambda function: function) if rule.bias else (lambda _: tf.zeros_like)

    def plus(x, w, layer):
        if layer.is_nonnegative():
            return [(x, positive(w))]
        return [(positive(x), positive(w)), (negative(x), negative(w))]

    def minus(x, w, layer):
        if layer.is_nonnegative():
            return [(x, negative(w))]
        return [(positive(x), negative(w)), (negative(x), positive(w))]

    def within_box(x, w, layer):
        low, high = layer.bounds(rule.low, rule.high)
        return [(x, w), (-low, positive(w)), (-high, negative(w))]

    if rule.kind == "epsilon":
        return [_Part(1.0, lambda x, w, _: [(x, w)], share_of_bias(lambda b: b))]
    if rule.kind == "z_plus":
        return [_Part(1.0, plus, share_of_bias(positive))]
    if rule.kind == "alpha_beta":
        return [
            _Part(rule.alpha, plus, share_of_bias(positive)),
            _Part(-rule.beta, minus, share_of_bias(negative)),
        ]
    if rule.kind == "gamma":

        def favour(w):
            return w + rule.gamma * positive(w)

        return [_Part(1.0, lambda x, w, _: [(x, favour(w))], share_of_bias(favour))]
    if rule.kind == "box":
        return [_Part(1.0, within_box, tf.zeros_like)]
    if rule.kind == "flat":
        return [_Part(1.0, lambda x, w, _: [(tf.ones_like(x), tf.ones_like(w))], tf.zeros_like)]
    raise BadInput(f"no relevance rule '{rule.kind}'; the rules are {listed(KINDS)}")


def _divide(relevance, total, epsilon):
    """Divide without leaving the finite numbers: by total ± ε, or giving 0 at 0 where ε is 0."""
    if epsilon == 0:
        return tf.math.divide_no_nan(relevance, total)
    return relevance / (total + tf.where(total >= 0, epsilon, -epsilon))


def _fit(relevance, tensor):
    """Sum relevance over the axes along which a tensor was broadcast."""
    if relevance.shape.rank == tensor.shape.rank and relevance.shape[1:].as_list() == tensor.shape[1:].as_list():
        return relevance
    source = tf.identity(tensor)
    return tf.gradients(source + tf.zeros_like(relevance), source, grad_ys=relevance)[0]
