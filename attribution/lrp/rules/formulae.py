"""The rules of ``attribution.lrp.composite`` as sums of products of inputs and weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph.nodes import rebuild
from attribution.lrp.composite import KINDS, Rule
from attribution.lrp.rules import operations as ops

if TYPE_CHECKING:
    from attribution.lrp.engine import Walk

_NONNEGATIVE = ("Relu", "Relu6", "Softmax", "Sigmoid", "Square", "Abs")
_MONOTONE = (
    *ops.MOVES, *ops.SELECTS, *ops.AVERAGES, *ops.SUMS, *ops.SCALES, *ops.NORMALIZATIONS, *ops.ACTIVATIONS, "Cast",
    "Neg",
)  # fmt: skip


class Part(NamedTuple):
    """A summand of a rule.

    Attributes
    ----------
    weight
        Its factor.
    pairs
        Function from (inputs, weights, layer) to pairs of both, whose products contribute.
    bias
        Function from the bias to its contribution.
    is_nonnegative
        Whether no contribution is negative.
    sign
        1 or -1 if only outputs above or below zero have this summand; 0 if all have.
    """

    weight: float
    pairs: Callable[[tf.Tensor, tf.Tensor, LayerInputs], list[tuple[Any, Any]]]
    bias: Callable[[tf.Tensor], Any]
    is_nonnegative: bool = False
    sign: int = 0

    def share(self, relevance: tf.Tensor, total: tf.Tensor, rule: Rule, output: tf.Tensor) -> Any:
        """Return the relevance per unit of a total of the part's contributions to a layer's output."""
        if self.sign:
            relevance = tf.where(self.sign * output > 0, relevance, tf.zeros_like(relevance))
        share = divide(relevance, total, rule, self.is_nonnegative)
        if isinstance(self.weight, float) and self.weight == 1:
            return share
        return tf.cast(self.weight, total.dtype) * share


class LayerInputs:
    """Facts about the inputs of a layer that do not need their values.

    Parameters
    ----------
    walk
        The walk through the graph.
    tensor
        The inputs.
    """

    def __init__(self, walk: Walk, tensor: tf.Tensor) -> None:
        self._walk = walk
        self._tensor = tensor

    def is_nonnegative(self) -> bool:
        """Return whether no input can be negative, so that half of z+ need not be computed."""
        tensor = self._tensor
        while tensor.op.type in (*ops.MOVES, "MaxPool", "AvgPool", "Mean", "Pad"):
            tensor = tensor.op.inputs[0]
        return tensor.op.type in _NONNEGATIVE

    def bounds(self, low: float, high: float) -> tuple[Any, Any]:
        """Return the least and greatest values of the layer's inputs if the explained input is in [low, high]."""
        return self._bounds(self._tensor, low, high)

    def _bounds(self, tensor: tf.Tensor, low: float, high: float) -> tuple[Any, Any]:
        operation = tensor.op
        if operation.name == self._walk.source.name:
            shape, dtype = tf.shape(tensor), tensor.dtype
            return tf.fill(shape, tf.cast(low, dtype)), tf.fill(shape, tf.cast(high, dtype))
        if operation.name not in self._walk.near_input:
            return tensor, tensor
        # Operations before the first layer (padding, scaling) must be monotone in each value.
        moving = self._walk.variable_inputs(operation)
        if operation.type not in _MONOTONE or (operation.type in ops.SUMS + ops.SCALES and len(moving) > 1):
            raise BadInput(
                f"the box rule cannot determine the range of {operation.type} (node '{self._walk.name(operation)}') "
                "before the first layer; use another rule there"
            )
        sources = [self._bounds(source, low, high) for source in operation.inputs]
        ends = [rebuild(operation, [source[end] for source in sources], tensor.value_index) for end in (0, 1)]
        return tf.minimum(*ends), tf.maximum(*ends)


def parts(rule: Rule) -> list[Part]:
    """Return a rule as summands.

    Raises
    ------
    BadInput
        If there is no such rule.
    """

    def bias(function: Callable[[tf.Tensor], Any]) -> Callable[[tf.Tensor], Any]:
        return function if rule.bias else tf.zeros_like

    def favour(half: Callable[[tf.Tensor], Any]) -> Callable[[tf.Tensor], Any]:
        return lambda w: w + tf.cast(rule.gamma, w.dtype) * half(w)

    def favoured(half: Callable[[tf.Tensor], Any], other: Callable[[tf.Tensor], Any], sign: int) -> Part:
        """Return the summand of the outputs of one sign: contributions of that sign count 1 + γ times."""

        def pairs(x: tf.Tensor, w: tf.Tensor, layer: LayerInputs) -> list[tuple[Any, Any]]:
            if layer.is_nonnegative():
                return [(x, favour(half)(w))]
            return [(_positive(x), favour(half)(w)), (_negative(x), favour(other)(w))]

        return Part(1.0, pairs, bias(favour(half)), sign=sign)

    def within_box(x: tf.Tensor, w: tf.Tensor, layer: LayerInputs) -> list[tuple[Any, Any]]:
        low, high = layer.bounds(rule.low, rule.high)
        return [(x, w), (-low, _positive(w)), (-high, _negative(w))]

    if rule.kind == "epsilon":
        return [Part(1.0, lambda x, w, _: [(x, w)], bias(lambda b: b))]
    if rule.kind == "z_plus":
        return [Part(1.0, _plus, bias(_positive), True)]
    if rule.kind == "alpha_beta":
        return [Part(rule.alpha, _plus, bias(_positive), True), Part(-rule.beta, _minus, bias(_negative))]
    if rule.kind == "gamma":
        return [favoured(_positive, _negative, 1), favoured(_negative, _positive, -1)]
    if rule.kind == "box":
        return [Part(1.0, within_box, tf.zeros_like)]
    if rule.kind == "flat":
        return [Part(1.0, lambda x, w, _: [(tf.ones_like(x), tf.ones_like(w))], tf.zeros_like)]
    raise BadInput(f"no relevance rule '{rule.kind}'; the rules are {listed(KINDS)}")


def _positive(x: tf.Tensor) -> Any:
    return tf.maximum(x, 0)


def _negative(x: tf.Tensor) -> Any:
    return tf.minimum(x, 0)


def _plus(x: tf.Tensor, w: tf.Tensor, layer: LayerInputs) -> list[tuple[Any, Any]]:
    if layer.is_nonnegative():
        return [(x, _positive(w))]
    return [(_positive(x), _positive(w)), (_negative(x), _negative(w))]


def _minus(x: tf.Tensor, w: tf.Tensor, layer: LayerInputs) -> list[tuple[Any, Any]]:
    if layer.is_nonnegative():
        return [(x, _negative(w))]
    return [(_positive(x), _negative(w)), (_negative(x), _positive(w))]


def divide(relevance: tf.Tensor, total: tf.Tensor, rule: Rule, is_nonnegative: bool = False) -> Any:
    """Return relevance / (total ± ε), or 0 at 0 where ε is 0: always finite.

    The sign of ε is the total's, which need not be found where the total ``is_nonnegative``.
    """
    if isinstance(rule.epsilon, (int, float)) and rule.epsilon == 0:
        return tf.math.divide_no_nan(relevance, total)
    epsilon, quotient = tf.cast(rule.epsilon, total.dtype), tf.divide
    if rule.stabiliser == "relative":
        # Only along the last axis: other axes may hold the inputs of one batch. Values without relevance do not count:
        # a mask of -1e9 is no measure of size.
        sizes = tf.where(relevance != 0, tf.abs(total), tf.zeros_like(total))
        epsilon *= tf.reduce_max(sizes, axis=-1, keepdims=True) if total.shape.rank != 0 else sizes
        quotient = tf.math.divide_no_nan
    return quotient(relevance, total + (epsilon if is_nonnegative else tf.where(total >= 0, epsilon, -epsilon)))


def share_with_constant(
    walk: Walk,
    rule: Rule,
    source: tf.Tensor,
    varying: tf.Tensor,
    constant: tf.Tensor,
    given: tf.Tensor,
    output: tf.Tensor,
) -> None:
    """Give ``source`` the relevance of ``varying`` in ``varying + constant``, the output of an elementwise function."""
    for part in parts(rule):
        pairs = part.pairs(varying, tf.ones((), varying.dtype), LayerInputs(walk, varying))
        contribution = tf.add_n([value * weight for value, weight in pairs])
        share = part.share(given, contribution + part.bias(constant), rule, output)
        walk.add(source, fit(contribution * share, source))


def fit(relevance: tf.Tensor, tensor: tf.Tensor) -> Any:
    """Sum relevance over the axes along which a tensor was broadcast."""
    if relevance.shape.rank == tensor.shape.rank and relevance.shape[1:].as_list() == tensor.shape[1:].as_list():
        return relevance
    source = tf.identity(tensor)
    return tf.gradients(source + tf.zeros_like(relevance), source, grad_ys=relevance)[0]
