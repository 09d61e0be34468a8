"""Relevance laws on small networks of every family, exported by Keras, without biases."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution

layers, ops = keras.layers, keras.ops
GRID = (8, 8, 3)


def convolution(channels, size=3, **options):
    return layers.Conv2D(channels, size, use_bias=False, **options)


def dense(units, **options):
    return layers.Dense(units, use_bias=False, **options)


def chain(*middle, shape=GRID, pooled=True):
    head = [layers.GlobalAveragePooling2D()] if pooled else []
    return keras.Sequential([keras.Input(shape), *middle, *head, dense(3)])


def transformer():
    """A block of a vision transformer with pre-normalization."""
    image = keras.Input(GRID)
    x = layers.Reshape((4, 8))(convolution(8, 4, strides=4)(image))
    y = layers.LayerNormalization(center=False)(x)
    x = layers.Add()([x, layers.MultiHeadAttention(2, 4, dropout=0.1, use_bias=False)(y, y)])
    y = layers.LayerNormalization(center=False)(x)
    x = layers.Add()([x, dense(8)(dense(12, activation="gelu")(y))])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(center=False)(x))
    return keras.Model(image, dense(3)(x))


def grouped_query_attention():
    tokens = keras.Input((5, 8))
    x = layers.GroupQueryAttention(4, 4, 2, use_bias=False)(tokens, tokens)
    return keras.Model(tokens, dense(3)(layers.Flatten()(x)))


def mixer():
    image = keras.Input(GRID)
    x = layers.Reshape((4, 8))(convolution(8, 4, strides=4)(image))
    y = layers.Permute((2, 1))(layers.LayerNormalization(center=False)(x))
    x = layers.Add()([x, layers.Permute((2, 1))(dense(4)(dense(6, activation="gelu")(y)))])
    return keras.Model(image, dense(3)(layers.GlobalAveragePooling1D()(x)))


def squeeze_and_excitation():
    image = keras.Input(GRID)
    x = convolution(4, activation="swish")(image)
    y = layers.GlobalAveragePooling2D(keepdims=True)(x)
    y = convolution(4, 1, activation="sigmoid")(convolution(2, 1, activation="relu")(y))
    return keras.Model(image, dense(3)(layers.GlobalAveragePooling2D()(layers.Multiply()([x, y]))))


def upsampling(interpolation):
    resized = layers.UpSampling2D(interpolation=interpolation)
    return chain(convolution(4, activation="relu"), resized, convolution(4), layers.ReLU())


def densely_connected():
    image = keras.Input(GRID)
    x = convolution(4, activation="relu")(image)
    x = layers.Concatenate()([x, convolution(4, padding="same", activation="relu")(x)])
    return keras.Model(image, dense(3)(layers.GlobalAveragePooling2D()(layers.AveragePooling2D(2)(x))))


def residual():
    image = keras.Input(GRID)
    x = convolution(4, activation="relu")(image)
    x = layers.Add()([convolution(4, padding="same")(x), x])
    return keras.Model(image, dense(3)(layers.GlobalAveragePooling2D()(layers.ReLU()(x))))


SERIES = (3, 3)
VOLUME = (6, 6, 6, 2)
FAMILIES = {
    "residual": residual,
    "densely connected": densely_connected,
    "LeakyReLU": lambda: chain(convolution(4), layers.LeakyReLU(0.2)),
    "PReLU": lambda: chain(convolution(4), layers.PReLU(shared_axes=[1, 2])),
    "global max pooling": lambda: chain(convolution(4), layers.GlobalMaxPooling2D(), pooled=False),
    "bilinear resizing": lambda: upsampling("bilinear"),
    "nearest resizing": lambda: upsampling("nearest"),
    "transposed convolution": lambda: chain(
        convolution(4, strides=2, activation="relu"),
        layers.Conv2DTranspose(3, 3, strides=2, use_bias=False, activation="relu"),
    ),
    "grouped convolution": lambda: chain(
        convolution(4, activation="relu"), convolution(4, groups=2, activation="relu")
    ),
    "dilated convolution": lambda: chain(convolution(4, dilation_rate=2, padding="same", activation="relu")),
    "separable convolution": lambda: chain(layers.SeparableConv2D(4, 3, use_bias=False, activation="relu")),
    "3-D convolution": lambda: chain(
        layers.Conv3D(4, 3, use_bias=False, activation="relu"), layers.MaxPooling3D(2), layers.AveragePooling3D(1),
        layers.GlobalAveragePooling3D(), shape=VOLUME, pooled=False,
    ),
    "transposed 3-D convolution": lambda: chain(
        layers.Conv3DTranspose(3, 2, strides=2, use_bias=False, activation="relu"), layers.GlobalAveragePooling3D(),
        shape=VOLUME, pooled=False,
    ),
    "vision transformer": transformer,
    "grouped query attention": grouped_query_attention,
    "MLP-Mixer": mixer,
    "mish": lambda: chain(convolution(4, activation="mish")),
    "squeeze and excitation": squeeze_and_excitation,
    "GroupNorm": lambda: chain(convolution(4), layers.GroupNormalization(2, center=False), layers.ReLU()),
    "RMSNorm": lambda: chain(convolution(4), layers.RMSNormalization(), layers.ReLU()),
    "unit norm": lambda: chain(convolution(4), layers.UnitNormalization(), layers.ReLU()),
    "LSTM": lambda: chain(layers.LSTM(4, use_bias=False), shape=SERIES, pooled=False),
}  # fmt: skip
# What is linear for each pattern of rectifiers, so that ε-LRP is input times gradient.
PIECEWISE_LINEAR = list(FAMILIES)[: list(FAMILIES).index("vision transformer")]
WITH_EVERY_RULE = ["residual", "vision transformer", "GroupNorm", "LSTM"]
# Where Gradient x Input is the truth, lrp_epsilon is compared with it for every family, and lrp_cp for the first alone.
ADDED_UP = [
    pytest.param(name, marks=[pytest.mark.exhaustive] * (name in PIECEWISE_LINEAR and name not in WITH_EVERY_RULE))
    for name in FAMILIES
]


def randomise(model):
    generator = np.random.default_rng(4)
    for variable in model.variables:
        if "int" not in str(variable.dtype):
            values = generator.normal(0, 0.5, variable.shape)
            positive = any(word in variable.path for word in ("gamma", "scale", "alpha"))
            variable.assign(np.abs(values) + 0.5 if positive else values)
    return model


@pytest.fixture(scope="module")
def family_named(tmp_path_factory):
    """Return a function from a family's name to the loaded model, inputs and the targets with the highest score."""

    @functools.cache
    def made(name):
        path = tmp_path_factory.mktemp("family")
        network = randomise(FAMILIES[name]())
        network.export(path, verbose=False)
        model = attribution.load_model(path)
        x = np.random.default_rng(7).normal(size=(3, *network.input_shape[1:])).astype(np.float32)
        return model, x, model.predict(x)

    return made


@pytest.fixture(params=FAMILIES)
def family(request, family_named):
    """Name, loaded model, inputs and the targets with the highest score."""
    return request.param, *family_named(request.param)


def flat_sum(maps):
    return maps.reshape(len(maps), -1).sum(axis=1)


@pytest.mark.parametrize("family", ADDED_UP, indirect=True)
def test_conservative_propagation_sums_to_the_logit(family):
    _, model, x, targets = family
    logits = model.scores(x)[np.arange(3), targets]
    maps = attribution.explain("lrp_cp", model, x, targets, epsilon=0.0)
    np.testing.assert_allclose(flat_sum(maps), logits, rtol=1e-5, atol=1e-5 * np.abs(maps).max())


@pytest.mark.parametrize("family", PIECEWISE_LINEAR, indirect=True)
def test_epsilon_lrp_is_input_times_gradient_where_the_network_is_piecewise_linear(family):
    name, model, x, targets = family
    expected = attribution.explain("gradient_x_input", model, x, targets)
    for method in ("lrp_epsilon", "lrp_cp", "lrp_attn") if name == "residual" else ("lrp_epsilon",):
        maps = attribution.explain(method, model, x, targets, epsilon=0.0)
        np.testing.assert_allclose(maps, expected, atol=1e-5 * np.abs(expected).max())


def test_positive_rules_give_positive_relevance(family):
    name, model, x, targets = family
    of_one = [("excitation_backprop", {})] if name in WITH_EVERY_RULE else []
    for method, options in [("lrp_alpha1beta0", {"sums": "joint"}), *of_one]:
        maps = attribution.explain(method, model, x, targets, **options)
        scores = model.scores(x)[np.arange(3), targets] if method == "lrp_alpha1beta0" else np.ones(3)
        signed = maps * np.sign(scores).reshape(-1, *[1] * (maps.ndim - 1))
        assert signed.min() >= 0
        assert flat_sum(np.abs(maps)).max() <= np.abs(scores).max() * (1 + 1e-4)


@pytest.mark.parametrize("family", WITH_EVERY_RULE, indirect=True)
def test_relevance_does_not_depend_on_the_batch(family):
    _, model, x, targets = family
    for method in ("lrp_attn", "lrp_epsilon_plus"):
        together = attribution.explain(method, model, x, targets)
        alone = attribution.explain(method, model, x, targets, batch_size=1)
        np.testing.assert_allclose(alone, together, atol=2e-5 * np.abs(together).max())


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
                layers.Dense(3, dtype="float32" if "mixed" in policy else None),
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


@pytest.fixture(scope="module")
def single_precision(tmp_path_factory):
    return maps_of_type("float32", tmp_path_factory.mktemp("float32"))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float16", "float64"])
def test_other_types_give_the_map_of_single_precision(policy, single_precision, tmp_path):
    for method, maps in maps_of_type(policy, tmp_path).items():
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
            maps[stabiliser, scale] = attribution.explain("lrp_alpha1beta0", model, x, 1, stabiliser=stabiliser) / scale
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
    # As before, where it is asked for.
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
        return (a * [[2.0]] + [[1.0]]) + (b * [[-3.0]] + [[5.0]])

    model, x = from_function(scores, 2), np.array([[1.0, 1.0], [3.0, 0.5]], np.float32)
    passed = attribution.explain("excitation_backprop", model, x, 0)
    np.testing.assert_allclose(passed, [[3 / 5, 2 / 5], [7 / 10.5, 3.5 / 10.5]], rtol=1e-5)
    shared = attribution.explain("lrp_epsilon_plus", model, x, 0)
    np.testing.assert_allclose(shared, [[2, -3], [6, -1.5]], rtol=1e-5)
