"""Swish: the derivative of x · σ(x) in each way of writing it, with σ(x) used elsewhere and asked for by name."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.savedmodel._gradient_support import swish_rules

POINTS = np.linspace(-6, 6, 12, dtype=np.float32).reshape(3, 4)


def sigma(x):
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def slope(x, beta=1.0):
    gate = sigma(beta * x)
    return gate + beta * x * gate * (1 - gate)


# How it is written, its derivative, and how many products of it are taken for a swish.
WAYS = {
    "silu": (tf.nn.silu, slope, 1),
    "x first": (lambda v: v * tf.sigmoid(v), slope, 1),
    "gate first": (lambda v: tf.sigmoid(v) * v, slope, 1),
    "steeper": (lambda v: tf.nn.silu(v, beta=2.0), lambda x: slope(x, 2.0), 0),
    "gate of another": (lambda v: v * tf.sigmoid(v + 1), lambda x: (s := sigma(x + 1)) + x * s * (1 - s), 0),
    "gate used twice": (
        lambda v: (gate := tf.sigmoid(v)) * v + 3 * gate,
        lambda x: slope(x) + 3 * sigma(x) * (1 - sigma(x)),
        1,
    ),
    "twice": (lambda v: tf.nn.silu(tf.nn.silu(v)), lambda x: slope(x) * slope(x * sigma(x)), 2),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_derivative(way, from_function):
    function, derivative, products = WAYS[way]
    model = from_function(function, 4)
    assert len(swish_rules(model.graph)) == products
    for target in range(4):
        expected = np.zeros_like(POINTS)
        expected[:, target] = derivative(POINTS[:, target])
        maps = attribution.explain("gradient", model, POINTS, target)
        np.testing.assert_allclose(maps, expected, rtol=1e-5, atol=1e-6)


def test_a_gate_whose_gradient_is_wanted_stays_a_factor(from_function):
    model = from_function(lambda v: v * tf.sigmoid(v), 4)
    (gate,) = (name for name, node in model.graph.nodes.items() if node.op == "Sigmoid")
    assert swish_rules(model.graph) and not swish_rules(model.graph, [gate])
    (explain_input,) = model.inputs
    found = model.backward({explain_input: POINTS}, np.full(3, 2, np.int32), explain_input, layers=[gate])
    np.testing.assert_allclose(found.values[gate], sigma(POINTS), rtol=1e-5)
    np.testing.assert_allclose(found.gradients[gate], np.where(np.arange(4) == 2, POINTS, 0), rtol=1e-6)
