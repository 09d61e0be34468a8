"""Relevance rules against an oracle that unrolls each layer into a matrix, and their conservation laws."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.lrp._rules import divide, parts
from attribution.lrp.composite import SUM_CHOICES, Composite, Rule

GENERATOR = np.random.default_rng(11)


def draw(*shape):
    return GENERATOR.normal(0, 0.5, shape).astype(np.float32)


def share_out(rule, a, matrix, bias, relevance):
    """Share the relevance of y = a @ matrix + bias out among a, by the formulas in ``attribution.lrp.composite``."""
    plus, minus = (lambda x: np.maximum(x, 0)), (lambda x: np.minimum(x, 0))
    bias = bias * rule.bias
    contributions = a[:, None] * matrix

    def ratio(part, bias_part):
        total = part.sum(axis=0) + bias_part
        if rule.epsilon == 0:
            share = np.divide(relevance, total, out=np.zeros_like(total), where=total != 0)
        else:
            share = relevance / (total + np.where(total >= 0, rule.epsilon, -rule.epsilon))
        return (part * share).sum(axis=1)

    if rule.kind == "epsilon":
        return ratio(contributions, bias)
    if rule.kind == "gamma":
        sign = np.sign(contributions.sum(axis=0) + bias)
        favoured = [part * (1 + rule.gamma * (part * sign > 0)) for part in (contributions, bias)]
        return ratio(*favoured)
    if rule.kind == "box":
        return ratio(contributions - rule.low * plus(matrix) - rule.high * minus(matrix), 0)
    if rule.kind == "flat":
        # Which inputs a layer sees, whatever the weights.
        return ratio((matrix != 0).astype(float), 0)
    positive = ratio(plus(contributions), plus(bias))
    if rule.kind == "z_plus":
        return positive
    return rule.alpha * positive - rule.beta * ratio(minus(contributions), minus(bias))


def unroll(layer, shape):
    """Return the matrix and bias of an affine layer on inputs of a shape."""
    size = int(np.prod(shape))
    bias = layer(np.zeros((1, *shape), np.float32)).numpy().ravel().astype(float)
    basis = np.eye(size, dtype=np.float32).reshape(size, *shape)
    return layer(basis).numpy().reshape(size, -1).astype(float) - bias, bias


def expected_relevance(layers, rules, x, target):
    """Return the relevance of one input of a chain of affine layers with a ReLU after each but the last."""
    activations, unrolled = [x.astype(float).ravel()], []
    shape = x.shape
    for index, layer in enumerate(layers):
        matrix, bias = unroll(layer, shape)
        unrolled.append((matrix, bias))
        shape = layer(np.zeros((1, *shape), np.float32)).shape[1:]
        y = activations[-1] @ matrix + bias
        activations.append(y if index == len(layers) - 1 else np.maximum(y, 0))
    relevance = np.where(np.arange(len(activations[-1])) == target, activations[-1], 0)
    for a, (matrix, bias), rule in zip(activations[-2::-1], unrolled[::-1], rules[::-1], strict=True):
        relevance = share_out(rule, a, matrix, bias, relevance)
    return relevance.reshape(x.shape)


KERNELS = [draw(3, 3, 2, 3), draw(2, 2, 3, 4), draw(3, 3, 2, 2), draw(3, 2, 4), draw(2, 4, 3)]
BIASES = [draw(3), draw(4), draw(5)]
DENSE = [draw(48, 5), draw(16, 5), draw(8, 5), draw(6, 4), draw(5, 3)]

ARCHITECTURES = {
    "dense": ((6,), [lambda x: tf.matmul(x, DENSE[3]) + BIASES[1], lambda x: tf.matmul(x, KERNELS[4][0, :, :3])]),
    "convolution": (
        (6, 6, 2),
        [
            lambda x: tf.nn.bias_add(tf.nn.conv2d(x, KERNELS[0], 2, "SAME"), BIASES[0]),
            lambda x: tf.nn.conv2d(x, KERNELS[1], 1, "VALID"),
            lambda x: tf.matmul(tf.reshape(x, (-1, 16)), DENSE[1]) + BIASES[2],
        ],
    ),
    "depthwise and pooled": (
        (6, 6, 2),
        [
            lambda x: tf.nn.depthwise_conv2d(x, KERNELS[2], (1, 1, 1, 1), "SAME"),
            lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"),
            lambda x: tf.reduce_mean(x, axis=[1, 2]),
            lambda x: tf.matmul(x, draw_once["pooled"]) + BIASES[2],
        ],
    ),
    "one-dimensional": (
        (8, 2),
        [
            lambda x: tf.nn.conv1d(x, KERNELS[3], 1, "SAME") - BIASES[1],
            lambda x: tf.nn.conv1d(x, KERNELS[4], 2, "VALID"),
            lambda x: tf.reduce_sum(x, axis=1),
        ],
    ),
}
draw_once = {"pooled": draw(4, 5)}
KINDS = [
    Rule("epsilon", epsilon=0.01),
    Rule("epsilon", epsilon=0.01, bias=False),
    Rule("z_plus"),
    Rule("z_plus", epsilon=0.0, bias=False),
    Rule("alpha_beta", alpha=2.0, beta=1.0, epsilon=1e-3),
    Rule("gamma", gamma=0.5, epsilon=0.01),
    Rule("flat", epsilon=0.0),
]


def chained(layers):
    def call(x):
        for layer in layers[:-1]:
            x = tf.nn.relu(layer(x))
        return layers[-1](x)

    return call


@pytest.fixture(scope="module")
def chains(from_function):
    """Every architecture as a SavedModel."""
    return {name: from_function(chained(layers), *shape) for name, (shape, layers) in ARCHITECTURES.items()}


def relevance_method(composite):
    def method(passes):
        return passes.relevance(composite)

    return method


@pytest.mark.parametrize("rule", KINDS, ids=lambda rule: f"{rule.kind}-{rule.epsilon}-{rule.bias}")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_rule_in_every_layer_equals_its_formula(name, rule, chains):
    shape, layers = ARCHITECTURES[name]
    x = GENERATOR.normal(size=(3, *shape)).astype(np.float32)
    targets = np.array([0, 1, 2])
    maps = attribution.explain(relevance_method(Composite(rule, rule, rule)), chains[name], x, targets)
    for row in range(3):
        expected = expected_relevance(layers, [rule] * len(layers), x[row], targets[row])
        np.testing.assert_allclose(maps[row], expected, rtol=1e-3, atol=1e-5 * max(np.abs(expected).max(), 1e-3))


def test_a_normalization_in_another_number_format_belongs_to_its_layer(from_function):
    """Keras on PyTorch normalizes in float32 in a network that computes in float64."""
    kernel, scale, shift, last = draw(3, 3, 2, 4), draw(4), draw(4), draw(4, 3)

    def network(dtype):
        def call(x):
            y = tf.nn.conv2d(tf.cast(x, tf.float64), tf.cast(kernel, tf.float64), 1, "SAME")
            y = tf.cast(tf.cast(y, dtype) * tf.cast(scale, dtype) + tf.cast(shift, dtype), tf.float64)
            product = tf.cast(tf.reduce_mean(tf.nn.relu(y), [1, 2]), dtype) @ tf.cast(last, dtype)
            return tf.cast(product, tf.float64) + tf.constant([1.0, -1, 2], tf.float64)

        return from_function(call, 6, 6, 2)

    models = [network(dtype) for dtype in (tf.float64, tf.float32)]
    x = GENERATOR.normal(size=(2, 6, 6, 2)).astype(np.float32)
    for method in ("lrp_epsilon", "lrp_epsilon_plus", "lrp_alpha1beta0"):
        expected, found = (attribution.explain(method, model, x, [0, 2]) for model in models)
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_the_composite_distinguishes_first_convolution_dense_and_merging_layers(chains):
    first, convolution, dense = (
        Rule("box", low=-0.5, high=2.0),
        Rule("z_plus"),
        Rule("epsilon", epsilon=0.01),
    )
    shape, layers = ARCHITECTURES["convolution"]
    x = GENERATOR.uniform(-0.5, 2, (2, *shape)).astype(np.float32)
    composite = Composite(convolution, dense, Rule("flat"), first=first)
    maps = attribution.explain(relevance_method(composite), chains["convolution"], x, 2)
    for row in range(2):
        expected = expected_relevance(layers, [first, convolution, dense], x[row], 2)
        np.testing.assert_allclose(maps[row], expected, rtol=1e-3, atol=1e-6)
    shape, layers = ARCHITECTURES["depthwise and pooled"]
    merge = Rule("z_plus")
    composite = Composite(convolution, dense, merge, first=first)
    x = GENERATOR.uniform(-0.5, 2, (1, *shape)).astype(np.float32)
    maps = attribution.explain(relevance_method(composite), chains["depthwise and pooled"], x, 2)
    expected = expected_relevance(layers, [first, merge, merge, dense], x[0], 2)
    np.testing.assert_allclose(maps[0], expected, rtol=1e-3, atol=1e-6)


def test_a_layer_behind_a_shortcut_from_the_input_is_not_the_first(from_function):
    """Of x + x W the shortcut and the layer are one, the first, in which flat has n + 1 inputs of each output."""
    w, v = (np.random.default_rng(seed).normal(size=(4, 4)).astype(np.float32) for seed in range(2))
    model = from_function(lambda x: tf.nn.relu(x @ w + x) @ v, 4)
    x, rule = GENERATOR.normal(size=(3, 4)).astype(np.float32), Rule("epsilon", epsilon=0.0)
    composite = Composite(rule, rule, rule, first=Rule("flat", epsilon=0.0))
    behind = np.maximum(x @ w + x, 0) * v[:, 1]
    expected = (behind + behind.sum(axis=1, keepdims=True)) / 5
    np.testing.assert_allclose(attribution.explain(relevance_method(composite), model, x, 1), expected, rtol=1e-4)


@pytest.fixture(scope="module")
def pair_networks(from_function):
    """The first layer of a Relation Network, factorised with broadcasts, and as one matrix."""
    u, v, b, end = draw(4, 5), draw(4, 5), draw(5), draw(5, 3)

    def factorised(x):  # (N, 3, 4): pairs of three objects
        first = tf.matmul(x, tf.constant(u))[:, :, tf.newaxis]
        second = tf.reshape(tf.matmul(x, tf.constant(v)), (-1, 1, 3, 5))
        return tf.nn.relu(tf.nn.bias_add(first + second, b))

    def joint(x):
        pairs = tf.concat([tf.tile(x[:, :, None], (1, 1, 3, 1)), tf.tile(x[:, None], (1, 3, 1, 1))], axis=-1)
        return tf.nn.relu(tf.matmul(pairs, tf.concat([u, v], axis=0)) + b)

    return [
        from_function(lambda x, hidden=hidden: tf.matmul(tf.reduce_sum(hidden(x), axis=[1, 2]), end), 3, 4)
        for hidden in (factorised, joint)
    ]


@pytest.mark.parametrize("sums", SUM_CHOICES)
@pytest.mark.parametrize("rule", [rule for rule in KINDS if rule.bias], ids=lambda rule: rule.kind)
def test_a_layer_written_as_a_sum_of_products_is_one_layer(rule, sums, pair_networks):
    x = GENERATOR.normal(size=(2, 3, 4)).astype(np.float32)
    method = relevance_method(Composite(rule, rule, rule, sums=sums))
    factorised, joint = (attribution.explain(method, model, x, 1) for model in pair_networks)
    np.testing.assert_allclose(factorised, joint, rtol=1e-3, atol=1e-5 * np.abs(joint).max())


@pytest.mark.parametrize("kind", ["signal", "image", "two_inputs"])
def test_epsilon_lrp_is_input_times_gradient(kind, models, inputs):
    """On ReLU networks, with biases, residual blocks and folded normalization, as epsilon goes to 0."""
    options = {"explain_input": "image"} if kind == "two_inputs" else {}
    expected = attribution.explain("gradient_x_input", models[kind], inputs[kind], 1, **options)
    maps = attribution.explain("lrp_epsilon", models[kind], inputs[kind], 1, epsilon=1e-9, **options)
    np.testing.assert_allclose(maps, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


def everything(x):
    """A network without biases of every kind of layer that has a rule."""
    weights = np.random.default_rng(0)

    def kernel(*shape):
        return weights.normal(0, 0.5, shape).astype(np.float32)

    y = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
    y = tf.nn.relu(tf.nn.conv2d(y, kernel(3, 3, 2, 4), 1, "VALID"))
    y = y * np.array([0.5, 2.0, 1.5, 1.0], np.float32)  # normalization
    y = tf.nn.max_pool2d(y, 2, 2, "SAME")
    y = tf.nn.relu(tf.nn.conv2d(y, kernel(3, 3, 4, 4), 1, "SAME") + y)  # residual
    left, right = tf.split(y, 2, axis=-1)
    y = tf.concat([right, left, y[..., :2]], axis=-1)
    y = tf.nn.relu(tf.einsum("nhwc,cd->nhwd", y, kernel(6, 5)))
    y = tf.transpose(tf.nn.avg_pool2d(y, 2, 1, "SAME"), (0, 3, 1, 2))
    y = tf.gather(tf.reshape(y, (-1, 5, 16)), [0, 2, 2, 4, 1, 3], axis=1)
    y = tf.tile(y, (1, 1, 2)) / 3.0
    y = tf.nn.relu(tf.matmul(tf.reduce_mean(y, axis=2), kernel(6, 6)))
    y = tf.squeeze(tf.expand_dims(y, 1), 1) + tf.broadcast_to(tf.reduce_sum(y, axis=1, keepdims=True), tf.shape(y))
    return tf.matmul(tf.nn.relu(y), np.abs(kernel(6, 3)))


@pytest.fixture(scope="module")
def every_layer(from_function):
    return from_function(everything, 8, 8, 2)


@pytest.mark.parametrize("method", ["lrp_alpha1beta0", "excitation_backprop", "lrp_clevr_xai"])
def test_positive_rules_conserve_relevance_through_every_kind_of_layer(method, every_layer):
    """Separate sums, the default of LRP-α1β0, would make a branch negative that lowers a residual block's sum."""
    model = every_layer
    x = np.random.default_rng(3).random((4, 8, 8, 2), dtype=np.float32)
    options = {} if method == "excitation_backprop" else {"epsilon": 0.0}
    options |= {"sums": "joint"} if method == "lrp_alpha1beta0" else {}
    maps = attribution.explain(method, model, x, 1, **options)
    total = np.ones(4) if method == "excitation_backprop" else model.scores(x)[:, 1]
    assert (total > 0).all()
    np.testing.assert_allclose(maps.sum(axis=(1, 2, 3)), total, rtol=1e-4)
    assert (maps >= 0).all()


def test_every_layer_holds_the_same_relevance(every_layer):
    model = every_layer
    x = GENERATOR.random((4, 8, 8, 2), dtype=np.float32)
    plus = Rule("z_plus", epsilon=0.0)
    layers = [name for name in model.layers() if model.graph.nodes[name].op in ("Relu", "MaxPool", "ConcatV2")]
    assert len(layers) > 4
    targets = np.full(4, 1, np.int32)
    relevance = model.relevance({"x": x}, targets, "x", Composite(plus, plus, plus), layers=layers)
    for name in layers:
        np.testing.assert_allclose(relevance[name].sum(axis=(1, 2, 3)), model.scores(x)[:, 1], rtol=1e-4)


@pytest.mark.parametrize("sums", SUM_CHOICES)
def test_relevance_of_a_difference_of_two_branches_sums_to_the_score(sums, from_function):
    w, v, last = (np.random.default_rng(seed).normal(size=(4, 4)).astype(np.float32) for seed in range(3))
    model = from_function(lambda x: tf.nn.relu(tf.nn.relu(x @ w) - tf.nn.relu(x @ v)) @ last, 4)
    x, rule = GENERATOR.normal(size=(5, 4)).astype(np.float32), Rule("epsilon", epsilon=0.0)
    maps = attribution.explain(lambda queries: queries.relevance(Composite(rule, rule, rule, sums=sums)), model, x, 1)
    np.testing.assert_allclose(maps.sum(axis=1), model.scores(x)[:, 1], rtol=1e-4, atol=1e-5)


def test_the_relative_stabiliser_is_measured_in_each_row_without_masked_values():
    rule = Rule("epsilon", epsilon=0.1, stabiliser="relative")
    found = divide(tf.constant([[1.0, 0.0], [1.0, 1.0]]), tf.constant([[1.0, -1e9], [2.0, -4.0]]), rule)
    np.testing.assert_allclose(found, [[1 / 1.1, 0], [1 / 2.4, 1 / -4.4]], rtol=1e-6)


def test_an_output_of_zero_has_neither_summand_of_gamma():
    rule, one = Rule("gamma", gamma=0.25), tf.ones(1)
    assert [part.share(one, one, rule, tf.zeros(1)).numpy().tolist() for part in parts(rule)] == [[0], [0]]


def test_activations_that_were_shifted_may_be_negative(from_function):
    """A difference from a constant and a sum with its opposite are the same to a rule that looks at signs."""
    w, v, c = (
        np.random.default_rng(n).normal(size=size).astype(np.float32) for n, size in enumerate([(4, 6), (6, 3), 6])
    )
    x = np.random.default_rng(9).normal(size=(3, 4)).astype(np.float32)
    models = (
        from_function(lambda x, shifted=shifted: shifted(tf.nn.relu(x @ w)) @ v, 4)
        for shifted in (lambda y: y - abs(c), lambda y: y + -abs(c))
    )
    maps = [attribution.explain("lrp_alpha1beta0", model, x, 1) for model in models]
    np.testing.assert_allclose(maps[0], maps[1], rtol=1e-5, atol=1e-6)


WAYS_TO_ADD_A_BIAS = {
    "in two steps": lambda x, w, b, c: tf.matmul(x, w) + (b - c) + c,
    "of two products": lambda x, w, b, c: (tf.matmul(x[:, :2], w[:2]) + (b + c)) + (tf.matmul(x[:, 2:], w[2:]) - c),
    "of a subtracted product": lambda x, w, b, c: (
        (tf.matmul(x[:, :2], w[:2]) + b) - (c - tf.matmul(x[:, 2:], w[2:])) + c
    ),
    "behind a reshape": lambda x, w, b, c: tf.reshape(tf.matmul(x, w) - c, (-1, 2, 3)) + tf.reshape(b + c, (2, 3)),
    "of normalization before it": lambda x, w, b, c: tf.matmul((x - 3.0) * 0.5, 2 * w) + b + 3 * tf.reduce_sum(w, 0),
}


@pytest.fixture(scope="module")
def with_bias(from_function):
    """Return a function that makes a network of a layer, once, in one of ``WAYS_TO_ADD_A_BIAS`` or in one step."""
    generator = np.random.default_rng(7)
    w, v = (generator.normal(size=shape).astype(np.float32) for shape in ((5, 6), (6, 3)))
    b, c = (generator.normal(size=6).astype(np.float32) for _ in range(2))
    ways = {"in one step": lambda x, w, b, c: tf.matmul(x, w) + b, **WAYS_TO_ADD_A_BIAS}

    @functools.cache
    def network(written):
        layer = ways[written]
        return from_function(lambda x: tf.matmul(tf.nn.relu(tf.reshape(layer(x, w, b, c), (-1, 6))), v), 5)

    return network


@pytest.mark.parametrize("method", ["lrp_alpha1beta0", "lrp_gamma", "lrp_epsilon"])
@pytest.mark.parametrize("written", WAYS_TO_ADD_A_BIAS)
def test_how_a_bias_is_written_changes_no_relevance(method, written, with_bias):
    """Also where the two parts have opposite signs: rules look at the sign of the bias."""
    x = np.random.default_rng(8).random((4, 5), dtype=np.float32)
    once, other = with_bias("in one step"), with_bias(written)
    np.testing.assert_allclose(other.scores(x), once.scores(x), atol=1e-4)
    expected = attribution.explain(method, once, x, 1)
    np.testing.assert_allclose(attribution.explain(method, other, x, 1), expected, atol=1e-4 * np.abs(expected).max())


def test_another_input_takes_its_share_of_relevance(models, inputs):
    """With a second input, the relevance of the image is less than the score."""
    x = inputs["two_inputs"]
    positive = attribution.explain("excitation_backprop", models["two_inputs"], x, explain_input="image").sum(
        axis=(1, 2, 3)
    )
    assert (positive > 0).all() and (positive < 1).all()


def test_relevance_of_a_product_of_two_variables_is_halved(from_function):
    model = from_function(lambda x: x[:, :2] * x[:, 2:], 4)
    x = np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)
    np.testing.assert_allclose(attribution.explain("lrp_epsilon", model, x, 1), [[0, 4, 0, 4]])


@pytest.mark.parametrize("method", ["lrp_epsilon", "lrp_cp", "lrp_epsilon_plus@zennit"])
def test_a_mask_takes_no_relevance(method, from_function):
    """As padding is hidden: the relevance of what is not hidden is that of a network without the mask."""
    masks = {
        "plain": lambda x: tf.cast(x > 0, tf.float32),
        "moved": lambda x: tf.cast(x > 0, tf.float32)[:, tf.newaxis][:, 0],
        "of hidden ones": lambda x: 1.0 - tf.cast(x <= 0, tf.float32),
    }
    x = np.array([[1.0, 2.0, 3.0, 1.0, -1.0, 1.0]], np.float32)
    visible = from_function(lambda x: tf.matmul(x[:, :3] * [1.0, 0.0, 1.0], LAST[:3]), 6)
    expected = attribution.explain(method, visible, x, 1)
    assert np.abs(expected).sum() > 0
    for mask in masks.values():
        model = from_function(lambda x, mask=mask: tf.matmul(x[:, :3] * mask(x[:, 3:]), LAST[:3]), 6)
        np.testing.assert_allclose(attribution.explain(method, model, x, 1), expected, atol=1e-6)


def test_a_quotient_of_a_constant_is_refused_by_name(from_function):
    model = from_function(lambda x: tf.matmul(2.0 / x, np.ones((3, 2), np.float32)), 3)
    with pytest.raises(BadInput, match="RealDiv of a constant by a divisor that depends on the input"):
        attribution.explain("lrp_epsilon", model, np.ones((1, 3), np.float32))


EXPERTS = np.random.default_rng(5).normal(size=(4, 8, 3)).astype(np.float32)
GATES = np.random.default_rng(6).normal(size=(8, 4)).astype(np.float32)
LAST = np.random.default_rng(7).normal(size=(8, 3)).astype(np.float32)


def best_experts(x):
    """A mixture of the two of four experts that a gate chooses."""
    return tf.reduce_sum(tf.one_hot(tf.math.top_k(x @ GATES, 2).indices, 4), axis=1)


def by_columns(function, *arguments):
    return lambda x: tf.transpose(function(tf.transpose(x), *arguments)) @ LAST[:4]


WITHOUT_RULE = {  # of relevance and of DeepLIFT
    "RFFT|ComplexAbs": lambda x: tf.abs(tf.signal.rfft(x)) @ LAST[:5],
    "FFT|ComplexAbs": lambda x: tf.abs(tf.signal.fft(tf.cast(x, tf.complex64))) @ LAST,
    "Floor": lambda x: (x + tf.floor(x)) @ LAST,
    "Prod": lambda x: tf.reduce_prod(x, 1, keepdims=True) @ LAST[:1],
}


@pytest.mark.parametrize("operation", WITHOUT_RULE)
def test_operations_without_published_rule_are_refused_with_methods_that_need_none(operation, from_function):
    model, x = from_function(WITHOUT_RULE[operation], 8), np.ones((2, 8), np.float32)
    more = "'integrated_gradients', 'smoothgrad', 'kernel_shap' and 'occlusion' need no rules$"
    for method in ("lrp_epsilon", "lrp_alpha1beta0", "excitation_backprop"):
        with pytest.raises(BadInput, match=rf"no relevance rule for the operation ({operation}) \(node '.*'\); {more}"):
            attribution.explain(method, model, x)
    with pytest.raises(BadInput, match=rf"deeplift has no rule for '({operation}) .*; {more}"):
        attribution.explain("deeplift", model, x)
    for method in ("integrated_gradients", "smoothgrad", "kernel_shap", "occlusion"):
        assert attribution.explain(method, model, x).shape == x.shape


def test_deeplift_refuses_choices_which_differ_at_the_baseline(from_function):
    chosen = from_function(lambda x: tf.einsum("nf,efc,ne->nc", x, EXPERTS, best_experts(x)), 8)
    largest = from_function(lambda x: tf.math.top_k(x, 4).values @ LAST[:4], 8)
    for model in (chosen, largest):
        with pytest.raises(BadInput, match="deeplift has no rule for 'TopKV2"):
            attribution.explain("deeplift", model, np.ones((2, 8), np.float32))


CHOICES = {  # piecewise linear, so that LRP-ε is Gradient x Input, whose sum is the score
    "experts": lambda x: tf.einsum("nf,efc,ne->nc", x, EXPERTS, best_experts(x)),
    "an expert": lambda x: tf.einsum("nf,efc,ne->nc", x, EXPERTS, tf.one_hot(tf.argmax(x @ GATES, axis=-1), 4)),
    "largest values": lambda x: tf.math.top_k(x, 4).values @ LAST[:4],
    "sorted": lambda x: tf.sort(x, axis=1) @ LAST,
    "sums of segments": by_columns(tf.math.segment_sum, [0, 0, 1, 1, 2, 2, 3, 3]),
    "sums of mixed segments": by_columns(tf.math.unsorted_segment_sum, [0, 3, 1, 1, 2, 2, 3, 0], 4),
    "running sums": lambda x: tf.nn.relu(tf.cumsum(x, axis=1)) @ LAST,
}


@pytest.mark.parametrize("kind", CHOICES)
def test_choices_are_constants_and_sums_are_linear(kind, from_function):
    model = from_function(CHOICES[kind], 8)
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    maps = attribution.explain_many(["lrp_epsilon", "gradient_x_input"], model, x, 1)
    np.testing.assert_allclose(maps["lrp_epsilon"], maps["gradient_x_input"], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(maps["lrp_epsilon"].sum(axis=1), model.scores(x)[:, 1], rtol=1e-3, atol=1e-3)
    if "sums" in kind:
        start = np.random.default_rng(1).normal(size=8).astype(np.float32)
        found, residuals = attribution.explain("deeplift", model, x, 1, baseline=start, return_residuals=True)
        assert residuals.relative.max() < 1e-4 and np.abs(found).max() > 0


HOMOGENEOUS = {  # by the function, of degree 1: LRP-ε is Gradient x Input
    "absolute value": tf.abs,
    "norm": lambda v: tf.sqrt(tf.reduce_sum(tf.square(v), -1, keepdims=True)) * np.array([[1.0, -2.0]], np.float32),
    "norm by products": lambda v: tf.sqrt(tf.reduce_mean(v * v, -1, keepdims=True)) * np.ones((1, 2), np.float32),
    "maximum": lambda v: tf.maximum(v[:, :2], v[:, 2:]),
    "minimum": lambda v: tf.minimum(v[:, :2], -v[:, 2:]),
    "maxout": lambda v: tf.maximum(tf.maximum(v[:, :2], v[:, 2:]), v[:, 1:3] - v[:, 3:]),
    "reversed": lambda v: tf.reverse(v, [1]) * np.arange(1, 5, dtype=np.float32),
}


@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_homogeneous_functions_give_gradient_x_input_and_conserve(name, from_function):
    kernel, last, x = draw(5, 4), draw(HOMOGENEOUS[name](tf.zeros((1, 4))).shape[1], 3), draw(6, 5)
    model = from_function(lambda x: tf.matmul(HOMOGENEOUS[name](tf.matmul(x, kernel)), last), 5)
    maps = attribution.explain("lrp_epsilon", model, x, 1, epsilon=0.0)
    expected = attribution.explain("gradient_x_input", model, x, 1)
    np.testing.assert_allclose(maps, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(maps.sum(axis=1), model.scores(x)[:, 1], rtol=1e-4, atol=1e-5)


def test_the_greater_of_two_takes_all_relevance(from_function):
    """As in max pooling, also under the positive rules; a constant that is greater absorbs it."""
    model = from_function(lambda v: tf.maximum(v[:, :2], v[:, 2:]) + tf.maximum(v[:, :2], [0.5, 0.5]), 4)
    x = np.array([[1.0, 2.0, 3.0, 0.25]], np.float32)
    for method in ("lrp_epsilon", "lrp_alpha1beta0"):
        for first, passed in ((1.0, 1.0), (0.25, 0.0)):
            x[0, 0] = first
            np.testing.assert_allclose(attribution.explain(method, model, x, 0), [[passed, 0, 3, 0]], rtol=1e-5)


@pytest.mark.parametrize(
    ("activation", "exact", "at_zero"),
    [
        (tf.nn.softplus, lambda z: np.log1p(np.exp(z)), np.log(2)),
        (tf.sigmoid, lambda z: 1 / (1 + np.exp(-z)), 0.5),
    ],
    ids=["softplus", "sigmoid"],
)
def test_softplus_and_sigmoid_are_an_activation_and_a_bias(activation, exact, at_zero, from_function):
    """Each is what it is above its value at 0, which is 0 at 0, and that value, which takes a bias's share."""
    first, last = draw(4, 6), draw(6, 3)
    model = from_function(lambda x: tf.matmul(activation(tf.matmul(x, first)), last), 4)
    x = draw(5, 4)
    maps = attribution.explain("lrp_epsilon", model, x, 1, epsilon=0.0)
    z = (x @ first).astype(np.float64)
    chord = (exact(z) - at_zero) / z  # relevance a_j w_j, without the value at 0's share, shared out by z
    np.testing.assert_allclose(maps, x * ((chord * last[:, 1]) @ first.T), rtol=1e-4, atol=1e-6)
    expected = model.scores(x)[:, 1] - at_zero * last[:, 1].sum()
    np.testing.assert_allclose(maps.sum(axis=1), expected, rtol=1e-4, atol=1e-5)


def test_interpolation_is_linear(from_function):
    """Without biases the map is the input times the gradient; rules of signs are refused by name."""
    last = draw(9, 3)

    def scores(x):
        resized = tf.image.resize(tf.reshape(tf.nn.relu(x), (-1, 2, 2, 1)), (3, 3), method="bicubic")
        return tf.matmul(tf.reshape(tf.linalg.band_part(resized[..., 0], 1, 1), (-1, 9)), last)

    model = from_function(scores, 4)
    x = draw(5, 4)
    maps = attribution.explain("lrp_epsilon", model, x, 1, epsilon=0.0)
    np.testing.assert_allclose(maps, x * attribution.explain("gradient", model, x, 1), rtol=1e-4, atol=1e-5)
    with pytest.raises(BadInput, match="ResizeBicubic under a rule that looks at signs"):
        attribution.explain("lrp_alpha1beta0", model, x, 1)


def test_softplus_under_the_positive_rules(from_function):
    """Below 0 it is less than at 0, and under z+ only what is more takes part; the value at 0 takes its share."""
    first, last = np.abs(draw(4, 6)), np.abs(draw(6, 3))
    model = from_function(lambda x: tf.matmul(tf.nn.softplus(tf.matmul(x, first)), last), 4)
    x = np.concatenate([np.abs(draw(3, 4)), -np.abs(draw(3, 4))])
    maps = attribution.explain("lrp_alpha1beta0", model, x, 1, epsilon=0.0)
    more = np.log1p(np.exp((x[:3] @ first).astype(np.float64))) - np.log(2)
    np.testing.assert_allclose(maps[:3].sum(axis=1), more @ last[:, 1], rtol=1e-4)
    assert (maps[:3] >= 0).all() and (maps[3:] == 0).all()


def test_inputs_outside_the_box_are_refused(from_function):
    model = from_function(lambda x: tf.matmul(tf.nn.relu(tf.matmul(x, np.ones((3, 2), np.float32))), draw(2, 3)), 3)
    x = np.array([[0.5, 0.0, 1.5]], np.float32)
    with pytest.raises(BadInput, match=r"low=0 and high=1; these are between 0 and 1.5; give the range"):
        attribution.explain("lrp_clevr_xai", model, x, 1)
    assert np.isfinite(attribution.explain("lrp_clevr_xai", model, x, 1, high=1.5)).all()


def test_the_logit_is_explained_for_either_score(by_score, models, inputs):
    maps = attribution.explain("lrp_epsilon", by_score["probabilities", "signal"], inputs["signal"], 1)
    np.testing.assert_allclose(
        maps, attribution.explain("lrp_epsilon", models["signal"], inputs["signal"], 1), atol=1e-6
    )


def test_an_unknown_rule_is_refused(models, inputs):
    rule = Rule("delta")
    with pytest.raises(BadInput, match="no relevance rule 'delta'; the rules are 'epsilon', 'z_plus'"):
        attribution.explain(relevance_method(Composite(rule, rule, rule)), models["signal"], inputs["signal"])


def test_the_box_rule_propagates_the_range_through_padding_and_scaling(from_function):
    """Explicit padding and a scaled input give the same map as padding and scaling inside the convolution."""
    kernel, end = draw(3, 3, 2, 3), draw(3, 4)

    def head(y):
        return tf.matmul(tf.reduce_mean(tf.nn.relu(y), axis=[1, 2]), end)

    inside = from_function(lambda x: head(tf.nn.conv2d(x, -2 * kernel, 1, "SAME")), 6, 6, 2)
    padding = [[0, 0], [1, 1], [1, 1], [0, 0]]
    outside = from_function(lambda x: head(tf.nn.conv2d(tf.pad(-2 * x, padding), kernel, 1, "VALID")), 6, 6, 2)
    x = GENERATOR.random((3, 6, 6, 2), dtype=np.float32)
    maps = [attribution.explain("lrp_clevr_xai", model, x, 1) for model in (inside, outside)]
    np.testing.assert_allclose(maps[1], maps[0], rtol=1e-3, atol=1e-6)
