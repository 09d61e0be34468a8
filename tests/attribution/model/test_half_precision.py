"""Gradients of networks in half precision are those of a float32 twin with the same weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution

METHODS = ("gradient", "smoothgrad", "integrated_gradients", "grad_cam", "full_grad", "deeplift", "guided_backprop")


def network(policy):
    inputs = keras.Input((12, 12, 3))
    x = keras.layers.Conv2D(8, 3, activation="relu", padding="same", dtype=policy)(inputs)
    x = keras.layers.BatchNormalization(dtype=policy)(x)
    x = keras.layers.Conv2D(8, 3, activation="relu", padding="same", dtype=policy)(x)
    x = keras.layers.GlobalAveragePooling2D(dtype=policy)(x)
    return keras.Model(inputs, keras.layers.Dense(4, dtype=policy)(x))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16", "bfloat16"])
def test_maps_are_those_of_a_twin_in_single_precision(policy):
    """Weights are so small that gradients in float16 are zero."""
    keras.utils.set_random_seed(0)
    half, twin = network(policy), network("float32")
    half.set_weights([0.01 * np.asarray(weight, np.float32) for weight in half.get_weights()])
    twin.set_weights([np.asarray(tf.cast(weight, tf.float32)) for weight in half.get_weights()])
    inputs = np.random.default_rng(0).random((2, 12, 12, 3), np.float32)
    model, expected_of = attribution.load_model(half), attribution.load_model(twin)
    for method in METHODS:
        found = attribution.explain(method, model, inputs, targets=1)
        expected = attribution.explain(method, expected_of, inputs, targets=1)
        assert np.any(expected), method
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max(), err_msg=method)


def test_scores_are_those_of_the_file():
    keras.utils.set_random_seed(0)
    half = network("mixed_float16")
    inputs = np.random.default_rng(0).random((2, 12, 12, 3), np.float32)
    expected = np.asarray(half(inputs), np.float32)
    np.testing.assert_allclose(
        attribution.load_model(half).scores(inputs), expected, atol=2e-3 * np.abs(expected).max()
    )
