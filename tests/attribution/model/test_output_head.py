"""Logits and probabilities are found whatever a file does after its softmax."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput

WEIGHTS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
X = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)


@pytest.mark.parametrize("ending", ["softmax", "sigmoid", "linear", "log_softmax"])
def test_logits_and_probabilities_whatever_the_file_returns(ending, from_function):
    weights = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    end = {"linear": tf.identity, "softmax": tf.nn.softmax, "sigmoid": tf.sigmoid, "log_softmax": tf.nn.log_softmax}
    model = from_function(lambda x: tf.identity(end[ending](tf.matmul(x, weights))), 3)
    x = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(model.scores(x), x @ weights, rtol=1e-5, atol=1e-6)
    expected = (tf.sigmoid if ending == "sigmoid" else tf.nn.softmax)(x @ weights)
    probabilities = attribution.load_model(model.path, score="probabilities")
    np.testing.assert_allclose(probabilities.scores(x), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(BadInput, match="no score 'logit'; the scores are 'logits', 'probabilities'"):
        attribution.load_model(model.path, score="logit")


@pytest.mark.parametrize("activation", [tf.nn.softmax, tf.sigmoid])
def test_a_probability_close_to_one_has_its_true_gradient(activation, from_function):
    """It is p (1 - p) times that of the logit, or of the difference of two logits; 1 - p is down to 1e-10."""
    weights = np.array([[9, 0], [8, 1], [7, -5]], np.float32)
    path = from_function(lambda x: activation(tf.matmul(x, weights)), 3).path
    model = attribution.load_model(path, score="probabilities")
    x = np.array([[1, 1, 1], [0.7, 0.7, 0.6], [0.1, 0.2, 0]], np.float32)
    w = weights[:, 0] - (0 if activation is tf.sigmoid else weights[:, 1].astype(float))
    z = x.astype(float) @ w
    expected = (1 / (1 + np.exp(-z)) / (1 + np.exp(z)))[:, np.newaxis] * w
    np.testing.assert_allclose(attribution.explain("gradient", model, x, targets=0), expected, rtol=5e-5)


def by_hand(z):
    exponentials = tf.exp(z - tf.stop_gradient(tf.reduce_max(z, axis=1, keepdims=True)))
    return exponentials / tf.reduce_sum(exponentials, axis=1, keepdims=True)


AFTER_SOFTMAX = {
    "times one": lambda z: tf.nn.softmax(z) * 1.0,
    "cast": lambda z: tf.cast(tf.nn.softmax(tf.cast(z, tf.float64)), tf.float32),
    "reshape": lambda z: tf.reshape(tf.nn.softmax(z[:, tf.newaxis, tf.newaxis]), (-1, 4)),
    "clip": lambda z: tf.clip_by_value(tf.nn.softmax(z), 1e-7, 1 - 1e-7),
    "by hand": by_hand,
    "plain exponentials": lambda z: tf.exp(z) / tf.reduce_sum(tf.exp(z), axis=1, keepdims=True),
}


@pytest.mark.parametrize("ending", AFTER_SOFTMAX)
def test_what_follows_a_softmax_hides_it_not(ending, from_function):
    model = from_function(lambda x: AFTER_SOFTMAX[ending](tf.matmul(x, WEIGHTS)), 3)
    probabilities = attribution.load_model(model.path, score="probabilities")
    np.testing.assert_allclose(probabilities.scores(X), tf.nn.softmax(X @ WEIGHTS), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.scores(X), X @ WEIGHTS, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.gradients(X, 1), np.tile(WEIGHTS[:, 1], (5, 1)), rtol=1e-5)


def two_heads(x):
    return tf.nn.softmax(tf.matmul(x, WEIGHTS)), tf.nn.softmax(tf.matmul(-2.0 * x, WEIGHTS))


AVERAGES = {
    "halved": lambda one, other: (one + other) / 2,
    "weighted": lambda one, other: 0.25 * one + 0.75 * other,
    "mean of a stack": lambda one, other: tf.reduce_mean(tf.stack([one, other]), axis=0),
}
ORACLES = {"weighted": lambda one, other: 0.25 * one + 0.75 * other}


@pytest.mark.parametrize("average", AVERAGES)
def test_an_average_of_softmaxes_is_probabilities_and_has_no_logits(average, tmp_path):
    path, module = tmp_path, tf.Module()
    module.call = tf.function(
        lambda x: {"scores": AVERAGES[average](*two_heads(x))},
        input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")],
    )
    tf.saved_model.save(module, str(path), signatures=module.call)
    with pytest.raises(BadInput, match=r"averages several softmaxes.*load it with score='probabilities'"):
        attribution.load_model(path)
    one, other = (value.numpy().astype(np.float64) for value in two_heads(X))
    expected = ORACLES.get(average, lambda one, other: (one + other) / 2)(one, other)
    model = attribution.load_model(path, score="probabilities")
    np.testing.assert_allclose(model.scores(X), expected, rtol=1e-5)
    with tf.GradientTape() as tape:
        values = tf.constant(X)
        tape.watch(values)
        score = AVERAGES[average](*two_heads(values))[:, 2]
    np.testing.assert_allclose(model.gradients(X, 2), tape.gradient(score, values), rtol=1e-4, atol=1e-6)


def test_a_sum_of_softmaxes_is_no_probability(from_function):
    model = from_function(lambda x: sum(two_heads(x)), 3)
    np.testing.assert_allclose(model.scores(X), sum(value.numpy() for value in two_heads(X)), rtol=1e-5)


@pytest.mark.parametrize("factor", [2.0, [1.0, 1.0, 1.0, 2.0]])
def test_other_numbers_than_probabilities_are_scores(factor, from_function):
    model = from_function(lambda x: tf.sigmoid(tf.matmul(x, WEIGHTS)) * factor, 3)
    expected = tf.sigmoid(X @ WEIGHTS) * np.array(factor, np.float32)
    np.testing.assert_allclose(model.scores(X), expected, rtol=1e-5)


def test_one_output_has_probabilities_only_behind_a_sigmoid(from_function):
    plain = from_function(lambda x: tf.matmul(x, WEIGHTS[:, :1]), 3)
    assert plain.num_classes == 1
    with pytest.raises(BadInput, match="gives no probabilities; explain it with score='logits'"):
        attribution.load_model(plain.path, score="probabilities")
    binary = from_function(lambda x: tf.sigmoid(tf.matmul(x, WEIGHTS[:, :1])), 3)
    np.testing.assert_allclose(binary.scores(X), X @ WEIGHTS[:, :1], rtol=1e-5)
    probability = attribution.load_model(binary.path, score="probabilities")
    p = 1 / (1 + np.exp(-X @ WEIGHTS[:, :1]))
    np.testing.assert_allclose(probability.scores(X), p, rtol=1e-5)
    np.testing.assert_allclose(attribution.explain("gradient", probability, X), p * (1 - p) * WEIGHTS[:, 0], rtol=1e-4)


@pytest.fixture(scope="module")
def segmentation(tmp_path_factory):
    """Softmax scores of 3 classes at each of 4 x 5 positions: the pixel's channels times a matrix."""
    kernel, path = WEIGHTS[:2, :3], tmp_path_factory.mktemp("segmentation")
    module = tf.Module()
    module.call = tf.function(
        lambda x: {"scores": tf.nn.softmax(tf.nn.conv2d(x, kernel[np.newaxis, np.newaxis], 1, "VALID"))},
        input_signature=[tf.TensorSpec((None, 4, 5, 2), tf.float32, name="x")],
    )
    tf.saved_model.save(module, str(path), signatures=module.call)
    return path, kernel


def test_a_position_of_a_segmentation_map_is_explained(segmentation):
    path, kernel = segmentation
    with pytest.raises(BadInput, match=r"shape \(any, 4, 5, 3\).*choose one with position="):
        attribution.load_model(path)
    x = np.random.default_rng(0).normal(size=(3, 4, 5, 2)).astype(np.float32)
    model = attribution.load_model(path, position=(1, 2))
    assert model.num_classes == 3
    np.testing.assert_allclose(model.scores(x), x[:, 1, 2] @ kernel, rtol=1e-5)
    expected = np.zeros_like(x)
    expected[:, 1, 2] = kernel[:, 2]
    np.testing.assert_allclose(attribution.explain("gradient", model, x, 2), expected, rtol=1e-5)
    np.testing.assert_allclose(attribution.explain("lrp_epsilon", model, x, 2), expected * x, rtol=1e-4, atol=1e-6)
    probabilities = attribution.load_model(path, position=(1, 2), score="probabilities")
    np.testing.assert_allclose(probabilities.scores(x), tf.nn.softmax(x[:, 1, 2] @ kernel), rtol=1e-5)


@pytest.fixture(scope="module")
def squeezed(tmp_path_factory):
    """One sigmoid at each of 4 x 5 positions, whose axis of classes the file drops: 4 positions with 5 scores each."""
    path, kernel = tmp_path_factory.mktemp("squeezed"), np.array([[1.5], [-0.5]], np.float32)
    module = tf.Module()
    module.call = tf.function(
        lambda x: {"scores": tf.squeeze(tf.sigmoid(tf.nn.conv2d(x, kernel[np.newaxis, np.newaxis], 1, "VALID")), -1)},
        input_signature=[tf.TensorSpec((None, 4, 5, 2), tf.float32, name="x")],
    )
    tf.saved_model.save(module, str(path), signatures=module.call)
    return path, kernel[:, 0]


@pytest.mark.parametrize("score", ["logits", "probabilities"])
def test_positions_are_those_of_the_declared_output(score, squeezed):
    path, kernel = squeezed
    with pytest.raises(BadInput, match=r"output has shape \(any, 4, 5\);"):
        attribution.load_model(path)
    x = np.random.default_rng(0).normal(size=(3, 4, 5, 2)).astype(np.float32)
    expected = x[:, 1] @ kernel if score == "logits" else 1 / (1 + np.exp(-x[:, 1] @ kernel))
    model = attribution.load_model(path, position=(1,), score=score)
    assert model.num_classes == 5
    np.testing.assert_allclose(model.scores(x), expected, rtol=1e-5)
    per_row = attribution.load_model(path, position="per_row", score=score)
    np.testing.assert_allclose(per_row.scores({"x": x, "position": [(1,)] * 3}), expected, rtol=1e-5)
    if score == "logits":
        maps = attribution.explain("lrp_epsilon", model, x, 2)
        np.testing.assert_allclose(maps[:, 1, 2], x[:, 1, 2] * kernel, rtol=1e-4, atol=1e-6)
        assert np.abs(np.delete(maps, 1, axis=1)).max() == 0


@pytest.mark.parametrize("score", ["logits", "probabilities"])
def test_each_row_may_have_a_position_of_its_own(score, segmentation):
    path, _ = segmentation
    x = np.random.default_rng(0).normal(size=(3, 4, 5, 2)).astype(np.float32)
    positions = [(1, 2), (3, 0), (0, 4)]
    model = attribution.load_model(path, position="per_row", score=score)
    inputs = {"x": x, "position": positions}
    alone = [attribution.load_model(path, position=position, score=score) for position in positions]
    for row, single in enumerate(alone):
        np.testing.assert_allclose(model.scores(inputs)[row], single.scores(x)[row], rtol=1e-5)
    for method in ("gradient", "lrp_epsilon", "deeplift", "occlusion", "grad_cam"):
        options = {"layer": model.layers()[0]} if method == "grad_cam" else {}
        maps = attribution.explain(method, model, inputs, 2, batch_size=2, **options)
        for row, single in enumerate(alone):
            expected = attribution.explain(method, single, x, 2, **options)[row]
            # A difference of scores has their precision, 1.2e-7 of a score of 1 to 2.
            np.testing.assert_allclose(maps[row], expected, rtol=1e-5, atol=3e-7)
    with pytest.raises(BadInput, match=r"position \(4, 0\) of row 1 is outside the model's output, which has 4 x 5"):
        model.scores({"x": x, "position": [(0, 0), (4, 0), (9, 9)]})


def test_positions_of_rows_need_an_output_with_positions(from_function):
    model = from_function(lambda x: tf.matmul(x, WEIGHTS), 3)
    with pytest.raises(BadInput, match="position='per_row' needs an output with positions"):
        attribution.load_model(model.path, position="per_row")


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ((1,), "does not fit the model's output"),
        ((1, 2, 0), "does not fit the model's output"),
        ((4, 0), "is outside the model's output"),
        ((0, -1), "is outside the model's output"),
        ((0.5, 1), "must be whole numbers"),
    ],
)
def test_positions_that_do_not_exist_are_refused(position, message, segmentation):
    with pytest.raises(BadInput, match=message):
        attribution.load_model(segmentation[0], position=position)
