"""DeepLIFT: completeness on every kind of operation, closed forms, refusals."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.model._deeplift_rules import deeplift_rules

POINTS = np.random.default_rng(5).normal(size=(6, 4)).astype(np.float32)
KERNEL = np.random.default_rng(6).normal(size=(4, 4)).astype(np.float32)


def attention(v):
    tokens = v[:, :, tf.newaxis] * KERNEL[0]
    weights = tf.nn.softmax(tf.matmul(tokens, tokens, transpose_b=True))
    return tf.reduce_sum(tf.matmul(weights, tokens), axis=1)


def normalized(v):
    mean, variance = tf.nn.moments(v, [1], keepdims=True)
    return (v - mean) * tf.math.rsqrt(variance + 1e-3)


FUNCTIONS = {
    "relu": lambda v: tf.nn.relu(tf.matmul(v, KERNEL) + 0.3),
    "sigmoid, tanh, exp": lambda v: tf.sigmoid(v) + tf.tanh(tf.matmul(v, KERNEL)) - tf.exp(0.3 * v),
    "swish": lambda v: v * tf.sigmoid(v),
    "product": lambda v: tf.matmul(v, KERNEL) * v,
    "quotient": lambda v: tf.matmul(v, KERNEL) / (1.5 + tf.sigmoid(v)),
    "maximum": lambda v: tf.reduce_max(tf.matmul(v, KERNEL), axis=1, keepdims=True) * tf.ones((1, 4)),
    "minimum": lambda v: tf.reduce_min(tf.matmul(v, KERNEL), axis=1, keepdims=True) * tf.ones((1, 4)),
    "the greater of two": lambda v: tf.maximum(tf.matmul(v, KERNEL), tf.maximum(v[:, :1], 0.2)),
    "the lesser of two": lambda v: tf.minimum(tf.matmul(v, KERNEL), tf.minimum(v[:, :1], [0.2, 0.1, -0.4, 1.0])),
    "max pooling": lambda v: tf.squeeze(tf.nn.max_pool1d(tf.matmul(v, KERNEL)[..., None], 2, 1, "SAME"), -1),
    "softmax inside": lambda v: tf.matmul(tf.nn.softmax(tf.matmul(v, KERNEL)), KERNEL),
    "attention": attention,
    "a sign-changing denominator": lambda v: (tf.matmul(v, KERNEL) + 3.0) / (v - 0.55),
    "layer normalization": normalized,
    "zeros and ones of a shape": lambda v: (
        (tf.matmul(v, KERNEL) + tf.raw_ops.ZerosLike(x=v)) * tf.raw_ops.OnesLike(x=v)
    ),
    "mask": lambda v: tf.nn.softmax(tf.where([True, True, False, True], tf.matmul(v, KERNEL), -1e9)),
    "GELU by tanh": lambda v: tf.nn.gelu(tf.matmul(v, KERNEL), approximate=True),
    "powers": lambda v: v**3 + tf.pow(2.0, tf.matmul(v, KERNEL)) + (tf.abs(v) + 0.1) ** tf.constant([[0.5], [1.5]])[1],
    "functions of one variable": lambda v: (
        tf.sin(v) + tf.math.log1p(v * v) + tf.math.expm1(v) + tf.atan(v) + tf.cosh(v)
    ),
    "reciprocals": lambda v: tf.math.reciprocal(2.0 + tf.tanh(v)) + tf.math.lgamma(tf.exp(v)),
    "log-softmax inside": lambda v: tf.matmul(tf.nn.log_softmax(40 * tf.matmul(v, KERNEL)), KERNEL),
    "a bicubic picture": lambda v: tf.reshape(
        tf.image.resize(tf.reshape(tf.nn.relu(v), (-1, 2, 2, 1)), (3, 3), method="bicubic"), (-1, 9)
    ),
    "scale and translate": lambda v: tf.reshape(
        tf.raw_ops.ScaleAndTranslate(
            images=tf.reshape(tf.nn.relu(v), (-1, 2, 2, 1)), size=[3, 3], scale=[1.5, 1.5], translation=[0.0, 0.0]
        ),
        (-1, 9),
    ),
    "patches and bands": lambda v: tf.reshape(
        tf.linalg.band_part(
            tf.image.extract_patches(
                tf.reshape(tf.sigmoid(v), (-1, 2, 2, 1)), [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"
            ),
            1,
            1,
        ),
        (-1, 16),
    ),
    "spectrum": lambda v: tf.signal.irfft(tf.signal.rfft(tf.tanh(v)) * tf.complex(0.3, -1.2)),
    "leaky, elu, softplus": lambda v: tf.nn.leaky_relu(v) + tf.nn.elu(-v) + tf.nn.softplus(v),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_sum_is_the_difference_of_the_scores(name, from_function):
    model = from_function(lambda v: FUNCTIONS[name](v), 4)
    for baseline in (0.0, 0.4):
        maps = attribution.explain("deeplift", model, POINTS, 1, baseline=baseline)
        start = np.full_like(POINTS, baseline)
        difference = (model.scores(POINTS) - model.scores(start))[:, 1]
        scale = np.abs(maps).sum(axis=1).max()
        np.testing.assert_allclose(maps.sum(axis=1), difference, atol=3e-6 * scale)


@pytest.mark.parametrize("kind", ["image", "signal"])
def test_complete_on_whole_networks_for_either_score(kind, models, by_score, inputs):
    x = inputs[kind]
    maps = attribution.explain("deeplift", models[kind], x, 2)
    difference = (models[kind].scores(x) - models[kind].scores(np.zeros_like(x)))[:, 2]
    np.testing.assert_allclose(maps.reshape(7, -1).sum(axis=1), difference, atol=1e-5)
    np.testing.assert_allclose(attribution.explain("deeplift", by_score["probabilities", kind], x, 2), maps, atol=1e-6)


def test_a_relu_has_the_slope_of_its_chord(from_function):
    """relu(x - 1) from 0 to 3 rises by 2: its multiplier is 2/3, where the gradient is 1."""
    model = from_function(lambda v: tf.nn.relu(v * tf.constant([1.0, 1.0]) - 1), 2)
    maps = attribution.explain("deeplift", model, np.array([[3.0, -2.0]], np.float32), 0)
    np.testing.assert_allclose(maps, [[2.0, 0.0]], atol=1e-6)


def test_a_softmax_has_the_multipliers_of_its_parts(from_function):
    """Of a product with 1 / Σ, and of the maximum, whose change the winners at the input and at the baseline share."""

    def by_hand(z):
        exponentials = tf.exp(z - tf.reduce_max(z, axis=1, keepdims=True))
        return exponentials * tf.exp(-tf.math.log(tf.reduce_sum(exponentials, axis=1, keepdims=True)))

    models = [from_function(lambda v, f=f: f(2 * v @ KERNEL) @ KERNEL, 4) for f in (tf.nn.softmax, by_hand)]
    maps = [attribution.explain("deeplift", model, POINTS, 1, baseline=0.4) for model in models]
    np.testing.assert_allclose(*maps, rtol=1e-4, atol=1e-5)


def test_a_linear_model_gives_gradient_x_input(from_function):
    model = from_function(lambda v: tf.matmul(tf.reverse(v, [1]), KERNEL) + 2.0, 4)
    maps = attribution.explain("deeplift", model, POINTS, 3)
    np.testing.assert_allclose(maps, POINTS * KERNEL[::-1, 3], rtol=1e-5)


def test_what_one_side_of_a_maximum_brings_and_the_other_loses(from_function):
    """From max(3, 1) to max(2, 5) it is 2 more by the second, from max(-1, -4) to max(-3, -2) 1 less by the first."""
    model = from_function(lambda v: tf.maximum(v[:, :1], v[:, 1:]) - tf.minimum(-v[:, :1], -v[:, 1:]), 2)
    for start, end, expected in (([3, 1], [2, 5], [0, 4]), ([-1, -4], [-3, -2], [-2, 0])):
        x, baseline = (np.array([one], np.float32) for one in (end, start))
        np.testing.assert_allclose(
            attribution.explain("deeplift", model, x, 0, baseline=baseline), [expected], rtol=1e-6
        )


def test_an_input_like_its_baseline_gets_nothing_and_no_nan(models, inputs):
    x = np.zeros_like(inputs["image"])
    np.testing.assert_array_equal(attribution.explain("deeplift", models["image"], x, 0), 0)


def test_one_gradient_and_one_forward_pass(models, inputs):
    model = models["image"]
    model.counts.clear()
    attribution.explain("deeplift", model, inputs["image"], 0, batch_size=4)
    assert model.counts == {"forward": 7, "forward_passes": 2, "backward": 7, "backward_passes": 2}


def test_operations_without_rule_are_refused_by_name(from_function):
    model = from_function(lambda v: tf.where(v > 0, v, tf.sin(v)), 4)
    with pytest.raises(BadInput, match="deeplift has no rule for 'Greater"):
        attribution.explain("deeplift", model, POINTS, 0)


def test_a_score_that_does_not_depend_on_the_input_is_refused(from_function):
    model = from_function(lambda v: tf.ones((tf.shape(v)[0], 2)), 4)
    with pytest.raises(
        BadInput, match=r"the score does not depend on the input '.*' through differentiable operations"
    ):
        attribution.explain("deeplift", model, POINTS, 0)


@tf.custom_gradient
def stable_softplus(x):
    e = tf.exp(x)
    return tf.math.log(1 + e), lambda upstream: upstream * (1 - 1 / (1 + e))


@tf.custom_gradient
def two_results(x, y):
    return (x * y, x + y), lambda first, second: (2 * first * y, second - first * x)


@tf.custom_gradient
def product_of_matrices(x):
    return tf.matmul(x, KERNEL), lambda upstream: 3 * tf.matmul(upstream, KERNEL, transpose_b=True)


@tf.custom_gradient
def reads_a_cosine(x):
    cosine = tf.cos(x)  # the values take no part in it, and no rule is needed
    return tf.tanh(x), lambda upstream: upstream * cosine


def reversed_gradient(x):
    return tf.custom_gradient(lambda v: (tf.identity(v), lambda upstream: -upstream))(x)


def clipped_gradient(x):
    return tf.custom_gradient(lambda v: (tf.identity(v), lambda upstream: tf.clip_by_value(upstream, -0.01, 0.01)))(x)


def of_two(x):
    return two_results(tf.tanh(x), x)[0] + two_results(x, x)[1]


CUSTOM = {
    "reversed": reversed_gradient,
    "clipped": clipped_gradient,
    "softplus": stable_softplus,
    "around a matrix": product_of_matrices,
    "of two": of_two,
    "reads": reads_a_cosine,
    "nested": lambda x: reversed_gradient(stable_softplus(reversed_gradient(product_of_matrices(x)))),
    "passed through": lambda x: tf.grad_pass_through(lambda v: 2 * tf.nn.relu(v))(x),
    "recomputed": lambda x: tf.recompute_grad(lambda v: tf.tanh(v) * v)(x),
    "stopped": lambda x: x + tf.stop_gradient(tf.tanh(x) - x),
}


@pytest.mark.parametrize("name", CUSTOM)
@pytest.mark.parametrize("is_live", [False, True])
def test_custom_gradients_do_not_matter(name, is_live, from_function):
    """What a network computes is distributed, whatever its gradient."""
    custom = CUSTOM[name]
    if is_live:
        inputs = keras.Input((4,))
        hidden = keras.layers.Dense(4)(inputs)
        network = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Lambda(custom, output_shape=(4,))(hidden)))
        model = attribution.load_model(network)
    else:
        model = from_function(lambda v: tf.matmul(custom(tf.matmul(v, KERNEL)), KERNEL), 4)
    _, found = attribution.explain("deeplift", model, POINTS, 1, baseline=0.3, return_residuals=True)
    assert found.relative.max() < 1e-3
    if name in ("reversed", "clipped", "around a matrix", "reads", "passed through"):  # FullGrad refuses the others
        (x,) = model.inputs
        terms, _ = model.full_gradient({x: POINTS}, np.ones(6, np.int32), x)
        np.testing.assert_allclose(sum(terms.values()), model.scores(POINTS)[:, 1].sum(), rtol=1e-4)


def test_relevance_of_the_second_result_of_a_custom_gradient(from_function):
    model = from_function(lambda v: tf.matmul(of_two(v), KERNEL), 4)
    _, found = attribution.explain("lrp_epsilon", model, POINTS, 1, epsilon=1e-9, return_residuals=True)
    assert found.relative.max() < 1e-3


ROUNDED = {
    "Round": lambda x: tf.custom_gradient(lambda v: (tf.round(v), lambda upstream: upstream))(x),
    "Floor": lambda x: tf.grad_pass_through(tf.floor)(x),
    "Cast from float32 to int32": lambda x: x + tf.cast(tf.cast(x, tf.int32), tf.float32),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rounding_is_refused_by_name(name, from_function):
    model = from_function(lambda v: tf.matmul(ROUNDED[name](3 * v), KERNEL), 4)
    with pytest.raises(BadInput, match=f"deeplift has no rule for '{name} "):
        attribution.explain("deeplift", model, POINTS, 0)


def test_a_float8_network_is_refused_by_name():
    network = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(3)])
    network(POINTS)
    network.quantize("float8")
    with pytest.raises(BadInput, match="deeplift has no rule for 'Cast from float32 to float8_e4m3fn"):
        attribution.explain("deeplift", attribution.load_model(network), POINTS, 0)


def rms_norm(x):
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6)


def rms_norm_as_a_quotient(x):
    return x / tf.sqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6)


def rms_norm_with_a_scaled_reciprocal(x):
    reciprocal = 1.0 / tf.sqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6)
    return tf.broadcast_to(reciprocal, tf.shape(x)) * x


def bias_free_transformer(norm, tokens=6, width=8):
    """Return two blocks with RMSNorm, rotary positions and SwiGLU, as language models have them, without biases."""
    generator = np.random.default_rng(4)

    def weights(*shape):
        return generator.normal(0, shape[0] ** -0.5, shape).astype(np.float32)

    blocks = [
        {name: weights(width, width) for name in ("query", "key", "value", "out", "gate", "up", "down")}
        for _ in range(2)
    ]
    end = weights(width, 3)
    angles = np.outer(np.arange(tokens), 100.0 ** -np.linspace(0, 1, width // 2)).astype(np.float32)

    def turned(x):
        first, second = x[..., : width // 2], x[..., width // 2 :]
        return tf.concat(
            [first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)], -1
        )

    def scores(x):
        for block in blocks:
            y = norm(x)
            query, key, value = (tf.matmul(y, block[name]) for name in ("query", "key", "value"))
            attended = tf.nn.softmax(tf.matmul(turned(query), turned(key), transpose_b=True) * width**-0.5)
            x = x + tf.matmul(tf.matmul(attended, value), block["out"])
            y = norm(x)
            x = x + tf.matmul(tf.nn.silu(tf.matmul(y, block["gate"])) * tf.matmul(y, block["up"]), block["down"])
        return tf.matmul(tf.reduce_mean(norm(x), axis=1), end)

    return scores


NORMS = [rms_norm, rms_norm_as_a_quotient, rms_norm_with_a_scaled_reciprocal]


@pytest.fixture(scope="module")
def transformers(from_function):
    """A bias-free transformer for each implementation of RMSNorm."""
    return {norm: from_function(bias_free_transformer(norm), 6, 8) for norm in NORMS}


@pytest.mark.parametrize("norm", NORMS)
def test_complete_where_normalization_divides_by_almost_zero_at_the_baseline(norm, transformers):
    """At a baseline of zeros each norm multiplies by 1000; the maps stay of the scores' size and keep their sum."""
    model = transformers[norm]
    x = np.random.default_rng(7).normal(size=(3, 6, 8)).astype(np.float32)
    maps = attribution.explain("deeplift", model, x, 1)
    difference = (model.scores(x) - model.scores(np.zeros_like(x)))[:, 1]
    np.testing.assert_allclose(maps.sum(axis=(1, 2)), difference, rtol=1e-4, atol=1e-5)
    assert np.abs(maps).max() < 10 * np.abs(difference).max()


def test_all_implementations_of_a_norm_give_the_same_map(transformers):
    x = np.random.default_rng(8).normal(size=(2, 6, 8)).astype(np.float32)
    expected, *maps = (attribution.explain("deeplift", model, x, 0, baseline=0.3) for model in transformers.values())
    for other in maps:
        np.testing.assert_allclose(other, expected, atol=1e-5 * np.abs(expected).max())


def test_a_quotient_is_a_product_with_its_denominator(from_function):
    """Of y = n / d with d = exp(v), Δn takes Δn / d̄ and v the rest, -ȳ Δd / d̄; d̄ and ȳ are means."""
    model = from_function(lambda v: tf.concat([v[:, :1] / tf.exp(v[:, 1:]), v], axis=1), 2)
    x, start = np.array([[3.0, -1.5]], np.float32), np.array([[1.0, 0.5]], np.float32)
    d, d0 = np.exp(-1.5), np.exp(0.5)
    y, y0 = 3.0 / d, 1.0 / d0
    expected = [[2.0 / ((d + d0) / 2), -(y + y0) / 2 * (d - d0) / ((d + d0) / 2)]]
    np.testing.assert_allclose(attribution.explain("deeplift", model, x, 0, baseline=start), expected, rtol=1e-5)


def test_a_baseline_for_each_input_is_taken_block_by_block(models, inputs):
    x = inputs["signal"]
    starts = np.linspace(-1, 1, x.size, dtype=np.float32).reshape(x.shape)
    maps = attribution.explain("deeplift", models["signal"], x, 0, baseline=starts, batch_size=3)
    for row in range(len(x)):
        alone = attribution.explain("deeplift", models["signal"], x[row : row + 1], 0, baseline=starts[row : row + 1])
        np.testing.assert_allclose(maps[row], alone[0], atol=1e-5)


def test_only_operations_that_are_not_linear_have_a_rule(from_function):
    model = from_function(lambda v: tf.tanh(tf.matmul(v, KERNEL) * [1.0, 2.0, 3.0, 4.0]) * v, 4)
    rules = deeplift_rules(model.graph, model.input_node(), model.logits.split(":")[0])
    assert sorted(model.graph.nodes[name].op for name in rules) == ["Mul", "Tanh"]
