"""What a score is: known from the operations at the graph's end.

A softmax, sigmoid or log-softmax at the end (behind moves of axes) gives probabilities and logits. An affine end is
logits. Any other end is the file's output.
"""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.graph import stablehlo
from attribution.graph.view import GraphView, Untranslatable
from attribution.savedmodel.scores import find_head

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
    with pytest.raises(BadInput, match="no score 'logit'; the scores are 'logits', 'probabilities', 'output'"):
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


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_a_softmax_whose_axis_is_moved_away_gives_no_probabilities_of_classes(order):
    with tf.Graph().as_default() as graph:
        scores = tf.nn.softmax(tf.compat.v1.placeholder(tf.float32, (None, 2, 4)))
        tf.transpose(scores, order, name="moved")
    head = find_head(GraphView(graph.as_graph_def()), "moved")
    assert head.activation == ("Softmax" if order == (0, 1, 2) else None)


AFTER_SOFTMAX = {
    "cast": lambda z: tf.cast(tf.nn.softmax(tf.cast(z, tf.float64)), tf.float32),
    "reshape": lambda z: tf.reshape(tf.nn.softmax(z[:, tf.newaxis, tf.newaxis]), (-1, 4)),
    "moves": lambda z: tf.squeeze(tf.transpose(tf.nn.softmax(z[:, None, None]), (0, 2, 1, 3)), (1, 2)),
    "by hand": by_hand,
    "plain exponentials": lambda z: tf.exp(z) / tf.reduce_sum(tf.exp(z), axis=1, keepdims=True),
}


@pytest.mark.parametrize("ending", AFTER_SOFTMAX)
def test_a_softmax_behind_moves_of_axes_gives_logits_and_probabilities(ending, from_function):
    model = from_function(lambda x: AFTER_SOFTMAX[ending](tf.matmul(x, WEIGHTS)), 3)
    assert (model.score, model.score_names) == ("logits", ("logits", "probabilities"))
    probabilities = attribution.load_model(model.path, score="probabilities")
    assert probabilities.score == "probabilities"
    np.testing.assert_allclose(probabilities.scores(X), tf.nn.softmax(X @ WEIGHTS), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.scores(X), X @ WEIGHTS, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(attribution.explain("gradient", model, X, 1), np.tile(WEIGHTS[:, 1], (5, 1)), rtol=1e-5)


def two_heads(x):
    return tf.nn.softmax(tf.matmul(x, WEIGHTS)), tf.nn.softmax(tf.matmul(-2.0 * x, WEIGHTS))


OUTPUTS = {
    "sum": lambda x: tf.reduce_sum(x[:, :, tf.newaxis] * WEIGHTS, axis=1),
    "sum of softmaxes": lambda x: sum(two_heads(x)),
    "average of softmaxes": lambda x: sum(two_heads(x)) / 2,
    "some classes": lambda x: two_heads(x)[0][:, 1:],
    "clip": lambda x: tf.clip_by_value(two_heads(x)[0], 1e-7, 1 - 1e-7),
    "twice a sigmoid": lambda x: tf.sigmoid(tf.matmul(x, WEIGHTS)) * 2.0,
    "relu": lambda x: tf.nn.relu(tf.matmul(x, WEIGHTS)),
    "gated": lambda x: tf.sigmoid(tf.matmul(x, WEIGHTS)) * tf.matmul(x, WEIGHTS),
    "loop": lambda x: tf.map_fn(tf.nn.softmax, tf.matmul(x, WEIGHTS)),
    "over other axes": lambda x: tf.reshape(tf.nn.softmax(tf.reshape(tf.matmul(x, WEIGHTS), (-1, 2, 2))), (-1, 4)),
}


@pytest.mark.parametrize("ending", OUTPUTS)
def test_any_other_end_is_the_output_which_wanted_logits_take_as_it_is(ending, from_function):
    model = from_function(OUTPUTS[ending], 3)
    assert (model.score, model.score_names) == ("output", ("output",))
    logits = attribution.load_model(model.path, score="logits")
    assert logits.score == "output"
    for one in (model, logits):
        np.testing.assert_allclose(one.scores(X), OUTPUTS[ending](X), rtol=1e-4, atol=1e-6)
    with tf.GradientTape() as tape:
        values = tf.constant(X)
        tape.watch(values)
        score = OUTPUTS[ending](values)[:, 1]
    np.testing.assert_allclose(
        attribution.explain("gradient", logits, X, 1), tape.gradient(score, values), rtol=1e-4, atol=1e-6
    )
    with pytest.raises(BadInput, match="ends in no softmax, sigmoid or log-softmax; load it with score='output'"):
        attribution.load_model(model.path, score="probabilities")


LOGITS = {
    "linear": lambda x: tf.matmul(x, WEIGHTS) + 1.0,
    "mean over places": lambda x: tf.reduce_mean(tf.nn.conv1d(x[:, :, None], WEIGHTS[None, :1], 1, "SAME"), axis=1),
    "scaled": lambda x: tf.reshape(2 * tf.matmul(x, WEIGHTS), (-1, 4)),
    "classifier of probabilities": lambda x: tf.matmul(two_heads(x)[0], np.eye(4, dtype=np.float32)[:, ::-1] * 9),
    "hidden sigmoids": lambda x: tf.matmul(tf.sigmoid(tf.matmul(x, WEIGHTS)), WEIGHTS.T),
}


@pytest.mark.parametrize("ending", LOGITS)
def test_an_affine_end_is_logits(ending, from_function):
    model = from_function(LOGITS[ending], 3)
    assert (model.score, model.score_names) == ("logits", ("logits", "probabilities"))
    expected = tf.nn.softmax(LOGITS[ending](X))
    np.testing.assert_allclose(attribution.load_model(model.path, score="probabilities").scores(X), expected, rtol=1e-4)
    output = attribution.load_model(model.path, score="output")
    assert output.score == "output"
    np.testing.assert_array_equal(output.scores(X), model.scores(X))


def test_the_output_is_explained_as_it_is(from_function):
    """Also behind a softmax, and where it is a logarithm of one."""
    for function in (tf.nn.softmax, tf.nn.log_softmax, tf.sigmoid):
        path = from_function(lambda x, function=function: function(tf.matmul(x, WEIGHTS)), 3).path
        model = attribution.load_model(path, score="output")
        np.testing.assert_allclose(model.scores(X), function(X @ WEIGHTS), rtol=1e-5, atol=1e-6)


def test_a_reshape_behind_the_softmax_of_a_map_keeps_its_positions(tmp_path):
    module, kernel = tf.Module(), WEIGHTS[np.newaxis, np.newaxis, :1]
    module.call = tf.function(
        lambda x: {"scores": tf.reshape(tf.nn.softmax(tf.nn.conv2d(x, kernel, 1, "SAME")), (-1, 6, 4))},
        input_signature=[tf.TensorSpec((None, 2, 3, 1), tf.float32, name="x")],
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    x = np.random.default_rng(0).normal(size=(4, 2, 3, 1)).astype(np.float32)
    model = attribution.load_model(tmp_path, position=(2,), score="probabilities")
    p = tf.nn.softmax(x[:, 0, 2] @ WEIGHTS[:1]).numpy()
    np.testing.assert_allclose(model.scores(x), p, rtol=1e-5)
    expected = np.zeros_like(x)
    expected[:, 0, 2, 0] = p[:, 1] * (WEIGHTS[0, 1] - p @ WEIGHTS[0])
    np.testing.assert_allclose(attribution.explain("gradient", model, x, 1), expected, rtol=1e-4, atol=1e-7)
    logits = attribution.load_model(tmp_path, position=(2,))
    assert logits.score == "logits"
    np.testing.assert_allclose(logits.scores(x), x[:, 0, 2] @ WEIGHTS[:1], rtol=1e-5, atol=1e-6)
    expected[:, 0, 2, 0] = x[:, 0, 2, 0] * WEIGHTS[0, 1]
    np.testing.assert_allclose(attribution.explain("lrp_epsilon", logits, x, 1), expected, rtol=1e-4, atol=1e-6)


def test_one_output_has_probabilities_only_behind_a_sigmoid(from_function):
    plain = from_function(lambda x: tf.matmul(x, WEIGHTS[:, :1]), 3)
    assert plain.num_classes == 1
    with pytest.raises(BadInput, match="no softmax, sigmoid or log-softmax; load it with score='logits'"):
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
    with pytest.raises(BadInput, match=r"shape \(any, 4, 5, 3\).*with position="):
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


def test_a_view_at_another_position_is_the_model_loaded_there(segmentation):
    path, _ = segmentation
    x = np.random.default_rng(0).normal(size=(3, 4, 5, 2)).astype(np.float32)
    model = attribution.load_model(path, position=(1, 2), score="probabilities")
    view, there = model.at(position=(3, 0)), attribution.load_model(path, position=(3, 0), score="probabilities")
    assert view.options == there.options != model.options
    np.testing.assert_array_equal(view.scores(x), there.scores(x))
    assert np.abs(view.scores(x) - model.scores(x)).max() > 0.01
    for method in ("gradient", "lrp_epsilon"):
        maps = attribution.explain(method, view, x, 2)
        np.testing.assert_array_equal(maps, attribution.explain(method, there, x, 2))
    with pytest.raises(BadInput, match="is outside the model's output"):
        model.at(position=(4, 0))


FIRST = (0, 3, 1, 2)
ANOTHER_AXIS = {
    "softmax": lambda z: tf.nn.softmax(tf.transpose(z, FIRST), axis=1),
    "log-softmax": lambda z: tf.transpose(tf.nn.log_softmax(z), FIRST),
    "by hand": lambda z: tf.transpose(tf.exp(z) / tf.reduce_sum(tf.exp(z), axis=3, keepdims=True), FIRST),
}


@pytest.mark.parametrize("end", ANOTHER_AXIS)
def test_classes_are_on_the_last_axis_or_refused(end, tmp_path):
    def save(function, name):
        module = tf.Module()
        module.call = tf.function(lambda x: {"scores": function(x * [1.0, 2, 3])}, autograph=False)
        signature = module.call.get_concrete_function(tf.TensorSpec((None, 4, 5, 1), tf.float32, name="x"))
        tf.saved_model.save(module, str(tmp_path / name), signatures=signature)
        return tmp_path / name

    first = save(ANOTHER_AXIS[end], "first")
    with pytest.raises(BadInput, match=r"softmax .* is over axis 1 of its output of shape \(None, 3, 4, 5\)"):
        attribution.load_model(first, position=(1, 2))
    last = save(lambda x: tf.transpose(ANOTHER_AXIS[end](x), (0, 2, 3, 1)), "last")
    model = attribution.load_model(last, position=(1, 2))
    assert model.score == "logits"
    np.testing.assert_allclose(model.scores(np.ones((1, 4, 5, 1), np.float32)), [[1, 2, 3]], rtol=1e-6)


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ((1,), "at position"),
        ((1, 2, 0), "at position"),
        ((4, 0), "is outside the model's output"),
        ((0, -1), "is outside the model's output"),
        ((0.5, 1), "must be whole numbers"),
        ("per_row", "must be whole numbers"),
    ],
)
def test_positions_that_do_not_exist_are_refused(position, message, segmentation):
    with pytest.raises(BadInput, match=message):
        attribution.load_model(segmentation[0], position=position)


@pytest.mark.parametrize("ending", ["softmax", "relu"])
def test_the_end_of_a_kept_module_is_not_known(ending, from_function, monkeypatch):
    jax = pytest.importorskip("jax")
    from jax.experimental import jax2tf

    def refuse(*_):
        raise Untranslatable("this")

    monkeypatch.setattr(stablehlo, "lower", refuse)
    function = lambda x: getattr(jax.nn, ending)(x @ WEIGHTS)  # noqa: E731
    model = from_function(jax2tf.convert(function, polymorphic_shapes=["batch, ..."], with_gradient=True), 3)
    assert (model.score, model.score_names) == ("output", ("output",))
    np.testing.assert_allclose(model.scores(X), function(X), rtol=1e-5, atol=1e-6)
    with pytest.raises(BadInput, match="load it with score='output'"):
        attribution.load_model(model.path, score="probabilities")


@pytest.mark.parametrize("ending", ["softmax", "linear", "relu", "log_softmax", "sigmoid"])
def test_a_translated_module_of_jax_gives_what_a_file_of_tensorflow_gives(ending, from_function):
    jax = pytest.importorskip("jax")
    from jax.experimental import jax2tf

    endings = {"linear": lambda z: z, "sigmoid": lambda z: z[:, :1]}
    on_jax = {"softmax": jax.nn.softmax, "relu": jax.nn.relu, "log_softmax": jax.nn.log_softmax}
    on_tensorflow = {"softmax": tf.nn.softmax, "relu": tf.nn.relu, "log_softmax": tf.nn.log_softmax}
    ours = (on_jax | endings | {"sigmoid": lambda z: jax.nn.sigmoid(z[:, :1])})[ending]
    theirs = (on_tensorflow | endings | {"sigmoid": lambda z: tf.sigmoid(z[:, :1])})[ending]
    function = jax2tf.convert(lambda x: ours(x @ WEIGHTS), polymorphic_shapes=["batch, ..."], with_gradient=True)
    found, expected = from_function(function, 3), from_function(lambda x: theirs(x @ WEIGHTS), 3)
    assert (found.score, found.score_names) == (expected.score, expected.score_names)
    for score in found.score_names:
        one, other = (attribution.load_model(model.path, score=score).scores(X) for model in (found, expected))
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
