"""Guided Backprop and Deconvnet equal live networks whose ReLU has that gradient written out."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput


@tf.custom_gradient
def guided_relu(x):
    return tf.nn.relu(x), lambda g: tf.where(x > 0, 1.0, 0.0) * tf.where(g > 0, 1.0, 0.0) * g


@tf.custom_gradient
def deconvnet_relu(x):
    return tf.nn.relu(x), tf.nn.relu


RELUS = {"guided_backprop": guided_relu, "deconvnet": deconvnet_relu}
TARGETS = np.array([0, 1, 2, 3, 3, 2, 1])


@pytest.mark.parametrize("kind", ["signal", "image"])
@pytest.mark.parametrize("method", RELUS)
def test_a_keras_export_equals_the_live_model_with_that_gradient(method, kind, with_relu, by_score, inputs, oracle):
    model = by_score["probabilities" if kind == "signal" else "logits", kind]
    maps = attribution.explain(method, model, inputs[kind], TARGETS)
    expected = oracle(with_relu(kind, RELUS[method]), inputs[kind], TARGETS)
    np.testing.assert_allclose(maps, expected, atol=1e-6 * max(1, np.abs(expected).max()))
    # The networks are such that it matters.
    assert np.abs(maps - attribution.explain("gradient", model, inputs[kind], TARGETS)).max() > 1e-4


@pytest.mark.parametrize("method", RELUS)
def test_a_tensorflow_1_file_equals_its_twin_with_that_gradient(method, tf1, inputs, oracle):
    path, twin = tf1
    model = attribution.load_model(path, inputs=["input_tensor:0"], output="resnet_model/final_dense:0")
    maps = attribution.explain(method, model, inputs["image"], TARGETS)
    expected = oracle(twin(relu=RELUS[method]), inputs["image"], TARGETS)
    np.testing.assert_allclose(maps, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", RELUS)
def test_of_two_inputs_only_the_explained_branch_is_changed(method, with_relu, models, inputs, oracle):
    x = inputs["two_inputs"]
    changed = with_relu("two_inputs", RELUS[method])
    expected = oracle(lambda image: changed([image, tf.constant(x["question"])]), x["image"], TARGETS)
    maps = attribution.explain(method, models["two_inputs"], x, TARGETS, explain_input="image")
    np.testing.assert_allclose(maps, expected, atol=1e-6 * np.abs(expected).max())


def test_guided_grad_cam_is_the_product_of_its_parts(models, inputs):
    model, x = models["image"], inputs["image"]
    product = attribution.explain("grad_cam", model, x, 1)[..., np.newaxis] * attribution.explain(
        "guided_backprop", model, x, 1
    )
    np.testing.assert_array_equal(attribution.explain("guided_grad_cam", model, x, 1), product)


def rectifier(negative_slope, ceiling, method):
    """A rectifier whose backward pass is g f'(z) f'(g), or g f'(g), written out."""

    @tf.custom_gradient
    def call(z):
        def slope(x):
            return tf.where(x > 0, tf.where(x < ceiling, 1.0, 0.0), negative_slope)

        def backward(g):
            of_gradient = g * tf.where(g > 0, 1.0, negative_slope)
            return of_gradient if method == "deconvnet" else of_gradient * slope(z)

        return tf.where(z > 0, tf.minimum(z, ceiling), negative_slope * z), backward

    return call


SLOPES = np.random.default_rng(5).uniform(0.05, 0.6, 6).astype(np.float32)
RECTIFIERS = {
    "Relu6": (lambda: keras.layers.Activation("relu6"), 0.0, 6.0),
    "LeakyRelu": (lambda: keras.layers.LeakyReLU(0.3), 0.3, np.inf),
    "PReLU": (lambda: keras.layers.PReLU(shared_axes=[1, 2]), SLOPES, np.inf),
    "PReLU written as a difference": (
        lambda: keras.layers.Lambda(lambda x: tf.nn.relu(x) - SLOPES * tf.nn.relu(-x)),
        SLOPES,
        np.inf,
    ),
}


def rectifier_network(activation):
    generator = np.random.default_rng(2)
    layers = [keras.layers.Conv2D(6, 3), activation(), keras.layers.Conv2D(6, 3), activation()]
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), *layers, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4)]
    )
    for layer in model.layers:
        if "alpha" in [weight.name for weight in layer.weights]:
            layer.set_weights([SLOPES.reshape(1, 1, 6)])
        elif layer.weights:
            layer.set_weights([generator.normal(0, 2.0, weight.shape) for weight in layer.weights])
    return model


@pytest.mark.parametrize("kind", RECTIFIERS)
def test_other_rectifiers_use_their_slope(kind, tmp_path, oracle):
    make, slope, ceiling = RECTIFIERS[kind]
    live = rectifier_network(make)
    live.export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    x = np.random.default_rng(3).random((4, 8, 8, 3), dtype=np.float32)
    gradient = oracle(live, x, TARGETS[:4])
    for method in RELUS:
        twin = rectifier_network(lambda method=method: keras.layers.Lambda(rectifier(slope, ceiling, method)))
        np.testing.assert_allclose(twin(x), live(x), rtol=1e-4)
        maps = attribution.explain(method, model, x, TARGETS[:4])
        expected = oracle(twin, x, TARGETS[:4])
        np.testing.assert_allclose(maps, expected, atol=1e-5 * np.abs(expected).max())
        assert np.abs(maps - gradient).max() > 1e-3 * np.abs(maps).max()


NONLINEAR = {
    "elu": (tf.nn.elu, "Elu"),
    "gelu": (tf.nn.gelu, "Erfc"),
    "approximate gelu": (lambda x: tf.nn.gelu(x, approximate=True), "Tanh"),
    "mish": (keras.activations.mish, "Softplus"),
    "softplus": (tf.nn.softplus, "Softplus"),
    "swish": (lambda x: x * tf.sigmoid(x), "Sigmoid"),
    "tanh": (tf.tanh, "Tanh"),
    "absolute value": (tf.abs, "Abs"),
    "square": (tf.square, "Square"),
    "sine": (tf.sin, "Sin"),
    "minimum": (lambda x: tf.minimum(x, 1.0), "Minimum"),
    "clipping": (lambda x: tf.clip_by_value(x, -1.0, 1.0), "Maximum"),
    "a leaky ReLU as a choice": (lambda x: tf.where(x > 0, x, 0.1 * x), "SelectV2"),
    "a leaky ReLU as a maximum": (lambda x: tf.maximum(x, 0.1 * x), "Maximum"),
    "an inner softmax": (tf.nn.softmax, "Softmax"),
    "squareplus": (lambda x: (x + tf.sqrt(x * x + 4.0)) / 2, "Sqrt"),
    "soft shrinkage": (lambda x: keras.activations.soft_shrink(x), "SelectV2"),
    "a ReLU with a threshold": (lambda x: x * tf.cast(x > 0.3, tf.float32), "Mul"),
    "a product of two factors": (lambda x: x * (1 + x), "Mul"),
    "a product of two matrices": (lambda x: tf.matmul(x[:, :, None], x[:, None, :])[:, 0], "BatchMatMulV2"),
    "a quotient": (lambda x: 1.0 / (3.0 + x), "RealDiv"),
    "a layer norm": (lambda x: x * tf.math.rsqrt(tf.reduce_mean(x * x, 1, keepdims=True) + 1), "Rsqrt"),
}


@pytest.mark.parametrize("name", NONLINEAR)
def test_every_other_nonlinear_operation_is_refused_by_name(name, from_function):
    function, operation = NONLINEAR[name]
    weights = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    model = from_function(lambda x: tf.matmul(function(tf.nn.relu(tf.matmul(x, weights))), weights[:, :3]), 4)
    for method in RELUS:
        with pytest.raises(BadInput, match=f"{method} is defined for networks of Relu, Relu6") as refusal:
            attribution.explain(method, model, np.ones((1, 4), np.float32))
        assert f"{operation} (" in str(refusal.value)


@pytest.mark.parametrize("method", RELUS)
def test_zeros_and_ones_of_a_shape_change_nothing(method, from_function):
    weights = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)

    def rectified(v):
        return tf.nn.relu(tf.matmul(v, weights))

    functions = (rectified, lambda v: rectified(v) + tf.raw_ops.ZerosLike(x=v) + tf.raw_ops.OnesLike(x=v))
    maps = [attribution.explain(method, from_function(function, 4), x, 0) for function in functions]
    np.testing.assert_array_equal(*maps)


def test_a_network_without_relu_is_refused(from_function):
    with pytest.raises(BadInput, match="this model has none; use gradient"):
        attribution.explain("guided_backprop", from_function(lambda x: 2 * x, 3), np.ones((1, 3), np.float32))
