"""Gradients of a file equal a tape's through its signature, also those that the file brings with it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput

KERNEL = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
TARGETS = np.array([0, 1, 2, 1, 0])


def through_the_signature(path, x, targets):
    """Gradient of the target score by a tape around the signature of the loaded file."""
    loaded = tf.saved_model.load(str(path))
    function = loaded.signatures["serving_default"]
    name = next(iter(function.structured_input_signature[1]))

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            scores = next(iter(function(**{name: x}).values()))
            chosen = tf.gather(scores, targets, batch_dims=1)
        return tape.gradient(chosen, x)

    return gradient(tf.constant(x)).numpy()


def assert_exact(model, x, targets=None):
    targets = np.arange(len(x)) % model.num_classes if targets is None else targets
    expected = through_the_signature(model.path, x, targets)
    found = attribution.explain("gradient", model, x, targets, batch_size=2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert np.abs(expected).max() > 0


@tf.custom_gradient
def straight_through(x):
    """Rounded forward, three times the identity backward."""
    return tf.round(x), lambda upstream: 3 * upstream


@tf.custom_gradient
def reads_what_it_computed(x):
    """A gradient that is no derivative and reads a value from inside the function."""
    inner = tf.exp(x) + 1

    def gradient(upstream):
        return upstream * inner * tf.sin(x)

    return tf.math.log(inner), gradient


@tf.custom_gradient
def two_results(x, y):
    return (x * y, x + y), lambda first, second: (2 * first * y, second - first * x)


def test_a_straight_through_gradient_is_kept(from_function):
    model = from_function(lambda x: tf.matmul(straight_through(2 * x), KERNEL), 4)
    assert_exact(model, X, TARGETS)
    np.testing.assert_allclose(attribution.explain("gradient", model, X, TARGETS), 6 * KERNEL.T[TARGETS], rtol=1e-6)


def test_a_gradient_reads_values_from_inside(from_function):
    model = from_function(lambda x: tf.matmul(reads_what_it_computed(tf.tanh(x)), KERNEL), 4)
    assert_exact(model, X, TARGETS)


def test_a_gradient_of_two_arguments_and_two_results(from_function):
    def scores(x):
        product, total = two_results(tf.sin(x), x)
        return tf.matmul(product * total, KERNEL)

    assert_exact(from_function(scores, 4), X, TARGETS)


def test_a_custom_gradient_within_called_functions(from_function):
    @tf.function
    def inner(x):
        return reads_what_it_computed(straight_through(x) + x)

    @tf.function(jit_compile=True)
    def compiled(x):
        return inner(x) * inner(2 * x)

    model = from_function(lambda x: tf.matmul(compiled(x) + inner(x), KERNEL), 4)
    assert_exact(model, X, TARGETS)


def test_recomputed_gradients(from_function):
    model = from_function(lambda x: tf.matmul(tf.recompute_grad(lambda z: tf.sin(z) * z)(x), KERNEL), 4)
    assert_exact(model, X, TARGETS)


def test_values_that_a_gradient_reads_are_the_file_s_where_normalization_is_folded(tmp_path):
    """Passes compute normalization with the layer before it; what a gradient reads in between must stay."""
    kernel, scale = tf.Variable(KERNEL), tf.Variable([2.0, -3.0, 0.5])

    @tf.custom_gradient
    def read(y):
        return tf.identity(y), lambda upstream: upstream * y

    module = tf.Module()
    module.variables_ = [kernel, scale]
    module.call = tf.function(
        lambda x: {"scores": read(tf.matmul(x, kernel)) * scale},
        input_signature=[tf.TensorSpec((None, 4), tf.float32, name="x")],
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    assert_exact(attribution.load_model(tmp_path), X, TARGETS)


def small(*layers, shape=(8, 8, 3), end=None):
    head = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4, activation=end)]
    return keras.Sequential([keras.Input(shape), *layers, *head])


def test_activations_of_keras(tmp_path):
    activations = ("swish", "gelu", "hard_swish", "mish", "relu6", "leaky_relu", "elu")
    network = small(*(keras.layers.Conv2D(6, 1, activation=activation) for activation in activations))
    network.export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    assert not [node for node in model.graph.nodes.values() if "_gradient_op_type" in node.attr]
    assert_exact(model, np.random.default_rng(0).random((3, 8, 8, 3), dtype=np.float32))


def test_grouped_convolutions(tmp_path):
    network = small(keras.layers.Conv2D(6, 3, groups=3), keras.layers.Conv2D(8, 3, groups=2, activation="relu"))
    network.export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    assert not [node for node in model.graph.nodes.values() if "PartitionedCall" in node.op]
    assert_exact(model, np.random.default_rng(0).random((3, 8, 8, 3), dtype=np.float32))
    maps = attribution.explain("grad_cam", model, np.ones((1, 8, 8, 3), np.float32), resize=False)
    assert maps.shape == (1, 4, 4)


def test_int8_has_its_gradients_inside_and_outside(tmp_path):
    network = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(8, activation="swish"), keras.layers.Dense(4, activation="softmax")]
    )
    network.quantize("int8")
    network.export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path, score="probabilities")
    x = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    assert_exact(model, x)
    logits = attribution.load_model(tmp_path)
    gradient = attribution.explain("gradient", logits, x, 1)
    assert np.abs(gradient).max() > 0
    with pytest.raises(BadInput, match="no relevance rule"):
        attribution.explain("lrp_epsilon", logits, x)
