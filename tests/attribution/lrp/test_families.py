"""Relevance of layers without a definition in the zoo, of other number formats, and of normalization."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution

layers = keras.layers
GRID = (8, 8, 3)


def convolution(channels, size=3, **options):
    return layers.Conv2D(channels, size, use_bias=False, **options)


def dense(units, **options):
    return layers.Dense(units, use_bias=False, **options)


def grouped_query_attention():
    tokens = keras.Input((5, 8))
    x = layers.GroupQueryAttention(4, 4, 2, use_bias=False)(tokens, tokens)
    return keras.Model(tokens, dense(3)(layers.Flatten()(x)))


def residual():
    image = keras.Input(GRID)
    x = convolution(4, activation="relu")(image)
    x = layers.Add()([convolution(4, padding="same")(x), x])
    return keras.Model(image, dense(3)(layers.GlobalAveragePooling2D()(layers.ReLU()(x))))


def pooled(*middle):
    return keras.Sequential([keras.Input(GRID), *middle, layers.GlobalAveragePooling2D(), dense(3)])


def volumes():
    transposed = layers.Conv3DTranspose(3, 2, strides=2, use_bias=False, activation="relu")
    return keras.Sequential([keras.Input((6, 6, 6, 2)), transposed, layers.GlobalAveragePooling3D(), dense(3)])


FAMILIES = {
    "transposed 3-D convolution": volumes,
    "grouped query attention": grouped_query_attention,
    "mish": lambda: pooled(convolution(4, activation="mish")),
    "unit norm": lambda: pooled(convolution(4), layers.UnitNormalization(), layers.ReLU()),
}


def randomise(model):
    generator = np.random.default_rng(4)
    for variable in model.variables:
        if "int" not in str(variable.dtype):
            values = generator.normal(0, 0.5, variable.shape)
            positive = any(word in variable.path for word in ("gamma", "scale", "alpha"))
            variable.assign(np.abs(values) + 0.5 if positive else values)
    return model


@pytest.mark.parametrize("name", FAMILIES)
def test_relevance_adds_up_and_has_the_sign_of_the_score(name, tmp_path):
    network = randomise(FAMILIES[name]())
    network.export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    x = np.random.default_rng(7).normal(size=(3, *network.input_shape[1:])).astype(np.float32)
    targets = model.predict(x)
    logits = model.scores(x)[np.arange(3), targets]
    maps = attribution.explain("lrp_cp", model, x, targets, epsilon=0.0).reshape(3, -1)
    np.testing.assert_allclose(maps.sum(axis=1), logits, rtol=1e-5, atol=1e-5 * np.abs(maps).max())
    maps = attribution.explain("lrp_alpha1beta0", model, x, targets, sums="joint").reshape(3, -1)
    assert (maps * np.sign(logits)[:, np.newaxis]).min() >= 0
    assert np.abs(maps).sum(axis=1).max() <= np.abs(logits).max() * (1 + 1e-4)


def maps_of_type(policy, path):
    """Return the maps of two methods of a network with normalization whose numbers all types can represent."""
    keras.config.set_dtype_policy(policy)
    try:
        network = keras.Sequential(
            [
                keras.Input(GRID),
                layers.Conv2D(4, 3),
                layers.BatchNormalization(),
                layers.ReLU(),
                layers.LayerNormalization(),
                layers.Activation("swish"),
                layers.GlobalAveragePooling2D(),
                layers.Dense(3),
            ]
        )
    finally:
        keras.config.set_dtype_policy("float32")
    generator = np.random.default_rng(0)
    for variable in network.variables:
        values = np.round(generator.normal(0, 0.5, variable.shape) * 16) / 16
        variable.assign(np.abs(values) + 0.5 if "variance" in variable.path else values)
    network.export(path, verbose=False)
    x = np.round(np.random.default_rng(1).random((2, *GRID)) * 16) / 16
    model = attribution.load_model(path)
    x = x.astype(next(iter(model.inputs.values())).dtype.as_numpy_dtype)
    return {method: attribution.explain(method, model, x, 1) for method in ("lrp_cp", "lrp_epsilon_plus")}


def test_double_precision_gives_the_map_of_single_precision(tmp_path):
    single_precision = maps_of_type("float32", tmp_path / "float32")
    for method, maps in maps_of_type("float64", tmp_path / "float64").items():
        assert maps.dtype == np.float32
        expected = single_precision[method]
        np.testing.assert_allclose(maps, expected, atol=1e-3 * np.abs(expected).max())


def test_the_relative_stabiliser_does_not_see_the_scale_of_the_scores(tmp_path):
    """An absolute ε eats scores of 3e-5."""
    maps = {}
    for scale in (1.0, 1e-12):
        network = randomise(residual())
        network.layers[-1].kernel.assign(network.layers[-1].kernel * scale)
        network.export(tmp_path / str(scale), verbose=False)
        model = attribution.load_model(tmp_path / str(scale))
        x = np.random.default_rng(0).random((2, *GRID), dtype=np.float32)
        for stabiliser in ("absolute", "relative"):
            maps[stabiliser, scale] = attribution.explain("lrp_cp", model, x, 1, stabiliser=stabiliser) / scale
    expected = maps["relative", 1.0]
    np.testing.assert_allclose(maps["relative", 1e-12], expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
    assert np.abs(maps["absolute", 1e-12]).max() < 1e-3 * np.abs(expected).max()


def test_normalization_that_cannot_be_folded_does_not_explode(tmp_path):
    """Before activation and padding, six times: handed on unchanged, its shift is divided by next to nothing."""
    image = keras.Input(GRID)
    x = layers.Conv2D(4, 3, padding="same")(image)
    for _ in range(3):
        y = layers.ReLU()(layers.BatchNormalization()(x))
        y = layers.Conv2D(4, 3, padding="same")(y)
        y = layers.Conv2D(4, 3, padding="same")(layers.ReLU()(layers.BatchNormalization()(y)))
        x = layers.Add()([x, y])
    network = keras.Model(image, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)))
    generator = np.random.default_rng(0)
    for variable in network.variables:
        values = generator.normal(0, 0.3, variable.shape)
        variable.assign(np.abs(values) + 0.5 if "variance" in variable.path else values)
    network.export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    x = np.random.default_rng(0).normal(size=(2, *GRID)).astype(np.float32)
    expected = attribution.explain("gradient_x_input", model, x, 1)
    maps = attribution.explain("lrp_epsilon", model, x, 1, epsilon=0.0)
    np.testing.assert_allclose(maps, expected, atol=1e-3 * np.abs(expected).max())
    # On request, as before.
    passed = attribution.explain("lrp_epsilon", model, x, 1, epsilon=0.0, batch_norm="pass")
    assert np.abs(passed).max() > 100 * np.abs(expected).max()


def test_fused_normalization_that_cannot_be_folded_is_an_affine_layer(from_function):
    generator = np.random.default_rng(3)
    gamma, beta, mean = (generator.normal(size=3).astype(np.float32) for _ in range(3))
    kernel = generator.normal(size=(3, 3, 3, 4)).astype(np.float32)

    def scores(x):
        y = tf.compat.v1.nn.fused_batch_norm(x, gamma, beta, mean, np.abs(mean) + 0.5, is_training=False)[0]
        return tf.reduce_sum(tf.nn.relu(tf.nn.conv2d(tf.nn.relu(y), kernel, 1, "SAME")), [1, 2])

    model = from_function(scores, 6, 6, 3)
    assert any(node.op == "FusedBatchNormV3" for node in model.graph.nodes.values())
    x = generator.normal(size=(2, 6, 6, 3)).astype(np.float32)
    expected = attribution.explain("gradient_x_input", model, x, 1)
    maps = attribution.explain("lrp_epsilon", model, x, 1, epsilon=0.0)
    np.testing.assert_allclose(maps, expected, atol=1e-5 * np.abs(expected).max())


def test_the_shift_of_a_normalization_is_no_bias_of_the_sum_behind_it(from_function):
    """Of (2 a + 1) + (5 - 3 b) each branch takes its value; normalization passes it on, or shares it by the ε-rule."""

    def scores(x):
        a, b = (tf.nn.relu(tf.matmul(x, column)) for column in np.eye(2, dtype=np.float32)[:, :, np.newaxis])
        return (a * [[2.0]] + [[1.0]]) + ([[5.0]] - b * [[3.0]])

    model, x = from_function(scores, 2), np.array([[1.0, 1.0], [3.0, 0.5]], np.float32)
    passed = attribution.explain("excitation_backprop", model, x, 0)
    np.testing.assert_allclose(passed, [[3 / 5, 2 / 5], [7 / 10.5, 3.5 / 10.5]], rtol=1e-5)
    shared = attribution.explain("lrp_epsilon_plus", model, x, 0)
    np.testing.assert_allclose(shared, [[2, -3], [6, -1.5]], rtol=1e-5)
