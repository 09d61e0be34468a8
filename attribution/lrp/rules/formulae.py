"""The rules of ``attribution.lrp.composite`` as sums of products of inputs and weights."""

from __future__ import annotations

import collections

import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.lrp.composite import KINDS, Rule

# One summand of a rule: its weight, the pairs (inputs, weights) whose products contribute, what a bias contributes.
Part = collections.namedtuple("Part", "weight pairs bias")


def positive(x: tf.Tensor) -> tf.Tensor:
    """Return max(x, 0)."""
    return tf.maximum(x, 0)


def negative(x: tf.Tensor) -> tf.Tensor:
    """Return min(x, 0)."""
    return tf.minimum(x, 0)


def parts(rule: Rule) -> list[Part]:
    """Return a rule as summands.

    Raises
    ------
    BadInput
        If there is no such rule.
    """
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
        return [Part(1.0, lambda x, w, _: [(x, w)], share_of_bias(lambda b: b))]
    if rule.kind == "z_plus":
        return [Part(1.0, plus, share_of_bias(positive))]
    if rule.kind == "alpha_beta":
        return [
            Part(rule.alpha, plus, share_of_bias(positive)),
            Part(-rule.beta, minus, share_of_bias(negative)),
        ]
    if rule.kind == "gamma":

        def favour(w):
            return w + tf.cast(rule.gamma, w.dtype) * positive(w)

        return [Part(1.0, lambda x, w, _: [(x, favour(w))], share_of_bias(favour))]
    if rule.kind == "box":
        return [Part(1.0, within_box, tf.zeros_like)]
    if rule.kind == "flat":
        return [Part(1.0, lambda x, w, _: [(tf.ones_like(x), tf.ones_like(w))], tf.zeros_like)]
    raise BadInput(f"no relevance rule '{rule.kind}'; the rules are {listed(KINDS)}")


def divide(relevance: tf.Tensor, total: tf.Tensor, rule: Rule) -> tf.Tensor:
    """Divide without leaving the finite numbers: by total ± ε, or giving 0 at 0 where ε is 0."""
    if isinstance(rule.epsilon, (int, float)) and rule.epsilon == 0:
        return tf.math.divide_no_nan(relevance, total)
    epsilon = tf.cast(rule.epsilon, total.dtype)
    if rule.stabiliser == "relative":
        # Along the last axis alone: other axes may hold the inputs of one batch. What has no relevance does not count:
        # a mask of -1e9 is no measure of anything.
        sizes = tf.where(relevance != 0, tf.abs(total), tf.zeros_like(total))
        epsilon *= tf.reduce_max(sizes, axis=-1, keepdims=True) if total.shape.rank != 0 else sizes
        return tf.math.divide_no_nan(relevance, total + tf.where(total >= 0, epsilon, -epsilon))
    return relevance / (total + tf.where(total >= 0, epsilon, -epsilon))


def fit(relevance: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Sum relevance over the axes along which a tensor was broadcast."""
    if relevance.shape.rank == tensor.shape.rank and relevance.shape[1:].as_list() == tensor.shape[1:].as_list():
        return relevance
    source = tf.identity(tensor)
    return tf.gradients(source + tf.zeros_like(relevance), source, grad_ys=relevance)[0]
