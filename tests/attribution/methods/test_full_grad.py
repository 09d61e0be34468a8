"""FullGrad: completeness, the map written out on a tape, and refusals."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput

KERNELS = [np.random.default_rng(seed).normal(size=(3, 3, 3, 3)).astype(np.float32) * 0.4 for seed in (0, 1)]
SHIFT, SCALE, HEAD = np.random.default_rng(2).normal(size=(3, 3)).astype(np.float32)
IMAGES = np.random.default_rng(3).random((3, 8, 8, 3), dtype=np.float32)


def decomposed(model, inputs, row, target):
    """Return the terms of one row of inputs by name."""
    feed = {name: array[row : row + 1] for name, array in model.feed(inputs).items()}
    return model.full_gradient(feed, np.array([target], np.int32), model.explained_input())[0]


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "relu6", "elu", "tanh"])
def test_input_and_biases_add_up_to_the_logit(activation, with_relu, inputs):
    """Of ReLU networks with batch normalization, and by the biases of tangents also of others."""
    model = attribution.load_model(with_relu("image", getattr(keras.activations, activation)))
    for row, target in enumerate([4, 0, 2]):
        terms = decomposed(model, inputs["image"], row, target)
        logit = model.scores(inputs["image"][row : row + 1])[0, target]
        assert sum(terms.values()) == pytest.approx(logit, rel=1e-5)
        own = {"relu": 0, "leaky_relu": 0}.get(activation, 3)
        assert len(terms) == 1 + 2 + 3 + 1 + own  # input; convolution and head with bias, 4 normalizations; activations


def test_constants_beside_the_input_and_other_inputs_are_biases(from_function, models, inputs):
    grid = np.random.default_rng(5).normal(size=(8, 8, 1)).astype(np.float32)
    kernel = np.concatenate(KERNELS, axis=2)[:, :, :4]

    def scores(x):
        cells = tf.concat([x, tf.broadcast_to(grid, (tf.shape(x)[0], 8, 8, 1))], -1)
        return tf.reduce_max(tf.nn.relu(tf.nn.conv2d(cells, kernel, 1, "SAME")), (1, 2))

    model = from_function(scores, 8, 8, 3)
    terms = decomposed(model, IMAGES, 0, 1)
    assert len(terms) == 2
    assert sum(terms.values()) == pytest.approx(model.scores(IMAGES[:1])[0, 1], rel=1e-5)
    two, x = models["two_inputs"], {name: array[:1] for name, array in inputs["two_inputs"].items()}
    terms, _ = two.full_gradient(two.feed(x), np.array([2], np.int32), "image")
    assert sum(terms.values()) == pytest.approx(two.scores(x)[0, 2], rel=1e-5)


def network(x, at_bias=0.0, at_shift=0.0):
    """Convolution with bias, normalization, ReLU, pooling, a convolution without bias, mean and head."""
    biased = tf.nn.conv2d(x, KERNELS[0], 1, "SAME") + SHIFT + at_bias
    normalized = biased * SCALE + HEAD + at_shift
    pooled = tf.nn.max_pool2d(tf.nn.relu(normalized), 2, 2, "VALID")
    hidden = tf.nn.relu(tf.nn.conv2d(pooled, KERNELS[1], 1, "SAME"))
    return tf.reduce_mean(hidden, (1, 2)) + HEAD


@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_map_is_the_sum_of_the_rescaled_terms(batch_size, from_function):
    points = [tf.constant(IMAGES), tf.zeros((3, 8, 8, 3)), tf.zeros((3, 8, 8, 3))]
    with tf.GradientTape() as tape:
        tape.watch(points)
        score = network(*points)[:, 1]
    of_input, of_bias, of_shift = tape.gradient(score, points)
    expected = np.zeros((3, 8, 8))
    for product in (IMAGES * of_input, SHIFT * of_bias, HEAD * of_shift):
        size = np.abs(product).reshape(3, -1)
        low, high = size.min(axis=1, keepdims=True), size.max(axis=1, keepdims=True)
        expected += ((size - low) / (high - low)).reshape(3, 8, 8, 3).sum(axis=-1)
    maps = attribution.explain("full_grad", from_function(network, 8, 8, 3), IMAGES, 1, batch_size=batch_size)
    np.testing.assert_allclose(maps, expected, rtol=1e-5)


def test_coarser_layers_are_upsampled(from_function):
    """One bias at half the resolution and none at the input: the map is that bias' gradient, interpolated."""
    spread = np.random.default_rng(6).random((1, 4, 4, 1)).astype(np.float32)

    def scores(x):
        pooled = tf.nn.avg_pool2d(x, 2, 2, "VALID") + [2.0]
        return tf.reduce_sum(pooled * spread, (1, 2))

    maps = attribution.explain("full_grad", from_function(scores, 8, 8, 1), np.zeros((1, 8, 8, 1), np.float32))
    scaled = (spread - spread.min()) / np.ptp(spread)
    np.testing.assert_allclose(maps[0], tf.image.resize(scaled, (8, 8))[0, ..., 0], rtol=1e-5, atol=1e-7)


def test_what_has_no_defined_bias_is_refused(from_function, with_relu, inputs):
    gated = from_function(lambda x: tf.reduce_mean(x * tf.sigmoid(x), (1, 2)), 8, 8, 3)
    with pytest.raises(BadInput, match=r"full_grad is defined for .* has 'Mul \(PartitionedCall/mul\)'"):
        attribution.explain("full_grad", gated, IMAGES)
    gelu = attribution.load_model(with_relu("image", keras.activations.gelu))
    with pytest.raises(BadInput, match=r"full_grad is defined for .* has 'Erfc \("):
        attribution.explain("full_grad", gelu, inputs["image"])
    with pytest.raises(BadInput, match="full_grad needs positions"):
        attribution.explain("full_grad", from_function(lambda x: x @ HEAD[:, None], 3), IMAGES[:, 0, 0])
