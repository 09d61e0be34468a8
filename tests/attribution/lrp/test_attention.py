"""Attention, norms and gates against detached gradients; tests/test_zoo.py compares AttnLRP with its definition."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.methods import lrp

TOKENS, WIDTH, HEADS = 5, 6, 2
DEPTH = WIDTH // HEADS
GENERATOR = np.random.default_rng(8)
QUERY, KEY, VALUE, OUT = (GENERATOR.normal(0, 0.6, (WIDTH, WIDTH)).astype(np.float32) for _ in range(4))
END = GENERATOR.normal(size=(WIDTH, 3)).astype(np.float32)
MASK = np.tril(np.ones((TOKENS, TOKENS), bool))


def attention(x, spelling):
    """One layer of masked self-attention and the mean of its tokens, (N, TOKENS, WIDTH) -> (N, 3)."""
    query, key, value = (
        tf.reshape(tf.matmul(x, weights), (-1, TOKENS, HEADS, DEPTH)) for weights in (QUERY, KEY, VALUE)
    )
    if spelling == "einsum":
        logits = tf.einsum("nqhd,nkhd->nhqk", query / np.sqrt(DEPTH).astype(np.float32), key)
        weights = tf.nn.softmax(tf.where(MASK, logits, -1e9))
        mixed = tf.einsum("nhqk,nkhd->nqhd", weights, value)
    else:
        query, key, value = (tf.transpose(one, (0, 2, 1, 3)) for one in (query, key, value))
        logits = tf.matmul(query, key, transpose_b=True) / np.sqrt(DEPTH).astype(np.float32)
        weights = tf.nn.softmax(logits + np.where(MASK, 0, -1e9).astype(np.float32))
        mixed = tf.transpose(tf.matmul(weights, value), (0, 2, 1, 3))
    mixed = tf.matmul(tf.reshape(mixed, (-1, TOKENS, WIDTH)), OUT)
    return tf.matmul(tf.reduce_mean(mixed, axis=1), END)


@pytest.fixture(scope="module")
def attention_models(from_function):
    return {
        name: from_function(lambda x, name=name: attention(x, name), TOKENS, WIDTH) for name in ("einsum", "matmul")
    }


@pytest.mark.parametrize("method", ["lrp_cp", "lrp_attn", "lrp_alpha1beta0"])
def test_attention_by_einsum_and_by_matmul_is_the_same(method, attention_models):
    x = GENERATOR.normal(size=(3, TOKENS, WIDTH)).astype(np.float32)
    einsum, matmul = (attribution.explain(method, model, x, 1, epsilon=1e-9) for model in attention_models.values())
    np.testing.assert_allclose(einsum, matmul, atol=1e-4 * np.abs(einsum).max())


def layer_norm(x, constant):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), -1, keepdims=True)
    return (x - mean) * constant(tf.math.rsqrt(variance + 1e-3)) * SCALE + SHIFT


SCALE, SHIFT = (GENERATOR.normal(size=WIDTH).astype(np.float32) for _ in range(2))
# Each is a function of a tensor and of what holds a factor constant.
PARTS = {
    "LayerNorm": layer_norm,
    "RMSNorm": lambda x, c: x * c(tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-3)) * SCALE,
    "a quotient": lambda x, c: x / c(tf.sqrt(tf.reduce_sum(x * x, -1, keepdims=True))),
    "an exact GELU": lambda x, c: x * c(0.5 * (1 + tf.math.erf(x / np.sqrt(2.0).astype(np.float32)))),
    "a GELU by tanh": lambda x, c: x * c(tf.nn.gelu(x, approximate=True) / x),
    "swish": lambda x, c: x * c(tf.sigmoid(x)),
    "hard swish": lambda x, c: x * c(tf.nn.relu6(x + 3) / 6),
    "a gated linear unit": lambda x, c: tf.matmul(x, QUERY) * c(tf.sigmoid(tf.matmul(x, KEY))),
    "a hard gate": lambda x, c: tf.matmul(x, QUERY) * c(tf.clip_by_value(0.2 * tf.matmul(x, KEY) + 0.5, 0, 1)),
    "a gate by ReLU6": lambda x, c: tf.matmul(x, QUERY) * c(tf.nn.relu6(tf.matmul(x, KEY) + 3) / 6),
    "an inverted gate": lambda x, c: (1 - c(tf.sigmoid(x))) * tf.matmul(x, KEY),
    "attention as weights of a sum": lambda x, c: tf.reduce_sum(x * c(tf.nn.softmax(tf.matmul(x, KEY), axis=1)), 1),
}


@pytest.mark.parametrize("part", PARTS)
def test_conservative_propagation_is_input_times_the_gradient_with_constants(part, from_function):
    """The same function with gates, attention and denominators detached (Ali et al. 2022)."""

    def network(x, constant):
        y = PARTS[part](tf.matmul(x, VALUE), constant)
        return tf.matmul(tf.reduce_sum(y, axis=list(range(1, y.shape.rank - 1))), END)

    # The network itself has the plain GELU; only its twin writes it as a product.
    plain = {"a GELU by tanh": lambda x, _: tf.nn.gelu(x, approximate=True)}.get(part, PARTS[part])

    def scores(x):
        y = plain(tf.matmul(x, VALUE), tf.identity)
        return tf.matmul(tf.reduce_sum(y, axis=list(range(1, y.shape.rank - 1))), END)

    model = from_function(scores, TOKENS, WIDTH)
    x = GENERATOR.normal(size=(3, TOKENS, WIDTH)).astype(np.float32)
    with tf.GradientTape() as tape:
        variable = tf.Variable(x)
        score = network(variable, tf.stop_gradient)[:, 1]
    expected = x * tape.gradient(score, variable).numpy()
    for method in ("lrp_cp", "lrp_epsilon"):
        maps = attribution.explain(method, model, x, 1, epsilon=0.0)
        np.testing.assert_allclose(maps, expected, atol=2e-5 * np.abs(expected).max())


def test_norms_pass_relevance_unchanged_under_positive_rules(from_function):
    weights = np.abs(END)
    model = from_function(lambda x: tf.matmul(tf.nn.relu(layer_norm(x, tf.identity)), weights), WIDTH)
    x = GENERATOR.normal(size=(2, WIDTH)).astype(np.float32)
    activation = np.maximum(layer_norm(x, tf.identity).numpy(), 0)
    expected = activation * weights[:, 1]
    np.testing.assert_allclose(attribution.explain("lrp_alpha1beta0", model, x, 1, epsilon=0.0), expected, rtol=1e-4)


def test_a_gate_takes_nothing(from_function):
    model = from_function(lambda x: x[:, :2] * tf.sigmoid(x[:, 2:]), 4)
    x = np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)
    score = 2 / (1 + np.exp(-4.0))
    np.testing.assert_allclose(attribution.explain("lrp_epsilon", model, x, 1), [[0, score, 0, 0]], rtol=1e-5)


def test_two_gates_are_two_signals(from_function):
    """Each takes half of the relevance, and passes on what it is above its value at 0."""
    model = from_function(lambda x: tf.sigmoid(x[:, :2]) * tf.sigmoid(x[:, 2:]), 4)
    value = 1 / (1 + np.exp(-1))
    half = value**2 / 2 * (value - 0.5) / value
    maps = attribution.explain("lrp_cp", model, np.ones((1, 4), np.float32), 1, epsilon=0.0)
    np.testing.assert_allclose(maps, [[0, half, 0, half]], rtol=1e-5)


REFUSED = {
    "Sqrt": lambda x: (x + tf.sqrt(x * x + 4.0)) / 2,  # squareplus
    "Sqrt of both signs": tf.sqrt,
    "Sin": tf.sin,
    "Exp": tf.exp,
    "Softmax": tf.nn.softmax,
    "Cos": lambda x: x + tf.cos(x),
}


@pytest.mark.parametrize("operation", REFUSED)
def test_a_function_that_is_no_activation_is_refused_by_name(operation, from_function):
    model = from_function(lambda x: tf.matmul(REFUSED[operation](tf.matmul(x, VALUE)), END), WIDTH)
    with pytest.raises(BadInput, match=rf"no relevance rule for the operation {operation.split()[0]} \(node '.*'\)"):
        attribution.explain("lrp_cp", model, np.ones((1, WIDTH), np.float32))


ACTIVATIONS = {
    **{function.__name__: function for function in (tf.nn.leaky_relu, tf.nn.elu, tf.nn.selu, tf.tanh)},
    "softsign": tf.nn.softsign,
    "mish": lambda x: x * tf.tanh(tf.nn.softplus(x)),
    "a choice": lambda x: tf.where(x > 0, x, 0.1 * x),
    "a maximum": lambda x: tf.maximum(x, 0.1 * x),
    "soft shrinkage": lambda x: tf.where(x > 0.2, x - 0.2, tf.where(x < -0.2, x + 0.2, 0.0)),
    "a squared ReLU": lambda x: tf.square(tf.nn.relu(x)),
    "a cube": lambda x: x**3,
    "PReLU": lambda x: tf.nn.relu(x) - np.float32(0.3) * tf.nn.relu(-x),
}


@pytest.fixture(scope="module")
def last_layer(from_function):
    return from_function(lambda x: tf.matmul(x, END), WIDTH)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_passes_relevance_unchanged(name, last_layer, from_function):
    """The relevance of its input is that of its output, which depends only on the layer after it."""
    model = from_function(lambda x: tf.matmul(ACTIVATIONS[name](x), END), WIDTH)
    x = GENERATOR.normal(size=(2, WIDTH)).astype(np.float32)
    values = np.asarray(ACTIVATIONS[name](tf.constant(x)))
    for method in ("lrp_cp", "lrp_alpha1beta0"):
        expected = attribution.explain(method, last_layer, values, 1)
        np.testing.assert_allclose(attribution.explain(method, model, x, 1), expected, rtol=1e-5, atol=1e-7)


def test_so_does_one_whose_constants_have_a_row_for_each_input(last_layer, tmp_path):
    """As the slopes of a PReLU that PyTorch writes for a fixed batch: no sum of two ReLUs, which ε would see."""
    x, slopes = GENERATOR.normal(size=(3, WIDTH)).astype(np.float32), np.tile(np.linspace(0.1, 0.5, WIDTH), (3, 1))
    module = tf.Module()
    module.call = tf.function(
        lambda x: tf.matmul(tf.nn.relu(x) - tf.constant(slopes, tf.float32) * tf.nn.relu(-x), END),
        input_signature=[tf.TensorSpec((3, WIDTH), tf.float32, "x")],
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    expected = attribution.explain("lrp_cp", last_layer, np.where(x > 0, x, slopes * x), 1, epsilon=0.1)
    found = attribution.explain("lrp_cp", attribution.load_model(tmp_path), x, 1, epsilon=0.1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (lrp.lrp_epsilon, {"batch_norm": "folded"}, "no batch_norm 'folded'; choose one of 'pass', 'fold'"),
        (lrp.lrp_epsilon_plus, {"sums": "zennit"}, "no sums 'zennit'; choose one of 'joint', 'separate'"),
        (lrp.lrp_cp, {"stabiliser": "none"}, "no stabiliser 'none'"),
        (lrp.lrp_cp, {"epsilon": -1e-6}, "epsilon must be a number of at least 0, not -1e-06"),
        (lrp.lrp_clevr_xai, {"low": 1.0, "high": 0.0}, "low must not be greater: 1.0 > 0.0"),
    ],
)
def test_invalid_options_raise(function, options, message, models, inputs):
    with pytest.raises(BadInput, match=message):
        attribution.explain(function, models["image"], inputs["image"], **options)


def test_separate_sums_share_by_value_before_their_layers(from_function):
    """Each branch gets the part of its value, then shares it by its own rule, as zennit has it."""
    generator = np.random.default_rng(1)
    first, second = (generator.normal(size=(4, 4)).astype(np.float32) for _ in range(2))
    end = np.abs(END[:4])

    def network(x):  # (N, 1, 1, 4)
        joined = tf.nn.conv2d(x, first[None, None], 1, "SAME") + tf.nn.conv2d(x, second[None, None], 1, "SAME")
        return tf.matmul(tf.reshape(tf.nn.relu(joined), (-1, 4)), end)

    model = from_function(network, 1, 1, 4)
    x = generator.random((3, 4), dtype=np.float32)
    branches = x @ first, x @ second
    values = np.maximum(sum(branches), 0)
    at_sum = values * end[:, 1]
    expected = np.zeros_like(x)
    for branch, weights in zip(branches, (first, second), strict=True):
        share = np.divide(branch * at_sum, sum(branches), where=values > 0, out=np.zeros_like(values))
        plus = np.maximum(weights, 0)
        expected += x * ((share / (x @ plus)) @ plus.T)
    given = x.reshape(3, 1, 1, 4)
    maps = attribution.explain("lrp_alpha1beta0", model, given, 1, epsilon=0.0).reshape(3, 4)
    np.testing.assert_allclose(maps, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    joint = attribution.explain("lrp_alpha1beta0", model, given, 1, epsilon=0.0, sums="joint").reshape(3, 4)
    assert np.abs(joint - maps).max() > 0.01 * np.abs(maps).max()


def test_biases_of_a_branch_take_nothing_from_the_shortcut(from_function):
    """In x + W x + b the biases take their share of the branch alone: zennit's formula, and the default."""
    generator = np.random.default_rng(2)
    weights = generator.normal(size=(4, 4)).astype(np.float32)
    bias = np.full(4, 3.0, np.float32)
    end = np.abs(END[:4])
    model = from_function(lambda x: tf.matmul(tf.nn.relu(x + tf.nn.bias_add(tf.matmul(x, weights), bias)), end), 4)
    x = generator.random((3, 4), dtype=np.float32)
    branch = x @ weights + bias
    share = np.where(x + branch > 0, end[:, 1], 0.0)  # relevance of the sum, over its value
    plus = np.maximum(weights, 0)
    expected = x * share + x * ((branch * share / (x @ plus + bias)) @ plus.T)
    maps = attribution.explain("lrp_alpha1beta0", model, x, 1, epsilon=0.0)
    np.testing.assert_allclose(maps, expected, rtol=1e-4)
    positive = x + x @ plus  # as one layer with the biases, in which the shortcut competes with them
    joint = attribution.explain("lrp_alpha1beta0", model, x, 1, epsilon=0.0, sums="joint")
    ratio = share * (x + branch) / (positive + bias)
    np.testing.assert_allclose(joint, x * (ratio @ (np.eye(4) + plus).T), rtol=1e-4)
