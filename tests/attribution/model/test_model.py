"""What a model accepts, refuses and counts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput


def test_scores_and_gradients_do_not_depend_on_the_batch(models, inputs):
    for kind in ("signal", "image"):
        model, x = models[kind], inputs[kind]
        targets = model.predict(x)
        for batch_size in (1, 3):
            np.testing.assert_allclose(model.scores(x, batch_size), model.scores(x), atol=1e-6)
            np.testing.assert_allclose(
                attribution.explain("gradient", model, x, targets, batch_size=batch_size),
                attribution.explain("gradient", model, x, targets),
                atol=1e-6,
            )


def test_a_pass_has_the_rows_whose_values_are_16_million_and_of_a_tensor_2_million(from_function):
    def dense(x):
        for _ in range(10):
            x = tf.nn.relu(x)
        return tf.linalg.matmul(x, tf.ones((x.shape[-1], 3)))

    def values(function, *shape):  # of a row
        return 16 * 2**20 / from_function(function, *shape).batch_size()

    few, more = values(dense, 1000), values(dense, 2000)
    assert more == pytest.approx(2 * few, rel=0.01) and 10_000 < few < 13_000
    sums = [from_function(lambda x: tf.reduce_sum(x, 1, keepdims=True), size) for size in (60, 600_000, None)]
    assert [model.batch_size() for model in sums] == [2048, 3, 32]
    # Positions that are folded into the batch count, and so does each step of a loop.
    folded = values(lambda x: dense(tf.reshape(tf.exp(tf.reshape(x, (-1, 10))), (-1, 1000))), 1000)
    assert folded - few == pytest.approx(3 * 1000, rel=0.01)
    recurrent = (keras.Sequential([keras.Input((50, 8)), keras.layers.LSTM(64, unroll=one)]) for one in (False, True))
    in_loop, unrolled = (attribution.load_model(network).batch_size() for network in recurrent)
    assert 32 < in_loop == pytest.approx(unrolled, rel=0.5) and in_loop < 2048  # an estimate


def test_rows_and_passes_are_counted_with_their_padding(models, inputs):
    model, x = models["signal"], inputs["signal"]
    model.counts.clear()
    model.scores(x, batch_size=3)  # 7 rows in 3 passes of 3
    assert model.counts == {"forward": 9, "forward_passes": 3}
    model.counts.clear()
    attribution.explain("gradient", model, x, 0, batch_size=32)
    assert model.counts == {"backward": 7, "backward_passes": 1}


def test_one_target_for_all_or_one_each(models, inputs):
    model, x = models["signal"], inputs["signal"]
    np.testing.assert_array_equal(
        attribution.explain("gradient", model, x, 2), attribution.explain("gradient", model, x, [2] * 7)
    )


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (4, "target 4 is outside the model's classes 0 to 3"),
        ([0, 1, 2, 3, -1, 0, 0], "target -1 is outside the model's classes 0 to 3"),
        ([0, 1], "targets must be 7 whole numbers"),
        ([0.5] * 7, "targets must be 7 whole numbers"),
    ],
)
def test_targets_outside_the_classes_are_refused(targets, message, models, inputs):
    with pytest.raises(BadInput, match=message):
        attribution.explain("gradient", models["signal"], inputs["signal"], targets)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            np.zeros((2, 21, 2), np.float32),
            r"input 'keras_tensor.*' has shape \(2, 21, 2\), the model takes \(any, 20, 2\)",
        ),
        (np.zeros((20, 2), np.float32), r"has shape \(20, 2\), the model takes \(any, 20, 2\)"),
        (np.full((2, 20, 2), [[np.nan, 1]], np.float32), "has NaN or infinite values, first in row 0"),
        (np.full((2, 20, 2), [[[1, 1]], [[1, 1e39]]]), "has values too large for float32, first in row 1"),
        ({"x": np.zeros((1, 20, 2))}, "inputs 'x' were given, the model takes 'keras_tensor"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(x, message, models):
    with pytest.raises(BadInput, match=message):
        models["signal"].scores(x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"word": [[0.5]]}, "input 'word' has values of type float64, the model takes text"),
        ({"word": [[None]]}, "input 'word' has values of type object, the model takes text"),
        ({"member": [[2]]}, "input 'member' has numbers other than 0 and 1, outside bool"),
        ({"rooms": [[2**40]]}, "input 'rooms' has fractions or numbers outside int32"),
    ],
)
def test_values_that_would_change_in_the_type_of_an_input_are_refused(change, message, tmp_path):
    def scores(x, word, member, rooms):
        return {
            "scores": x * tf.cast(tf.cast(tf.strings.length(word) + rooms, tf.float32) > 3, tf.float32)
            + tf.cast(member, tf.float32) * [[1.0, 2.0]]
        }

    module, types = tf.Module(), {"x": tf.float32, "word": tf.string, "member": tf.bool, "rooms": tf.int32}
    module.call = tf.function(scores, autograph=False)
    signature = {name: tf.TensorSpec((None, 1), dtype, name) for name, dtype in types.items()}
    tf.saved_model.save(module, str(tmp_path), signatures=module.call.get_concrete_function(**signature))
    model = attribution.load_model(tmp_path)
    feed = {"x": [[1.0]], "word": [["four"]], "member": [[1]], "rooms": [[2]]}
    np.testing.assert_array_equal(model.scores(feed), [[2, 3]])
    with pytest.raises(BadInput, match=message):
        model.scores(feed | change)


def test_several_inputs_are_given_by_name(models, inputs):
    model, x = models["two_inputs"], inputs["two_inputs"]
    with pytest.raises(BadInput, match="give a mapping from name to array"):
        model.scores(x["image"])
    with pytest.raises(BadInput, match="inputs differ in length"):
        model.scores({"image": x["image"], "question": x["question"][:3]})
    with pytest.raises(BadInput, match="no input 'picture'; its inputs are"):
        attribution.explain("gradient", model, x, explain_input="picture")
    with pytest.raises(BadInput, match="'question' is of type int32 and has no gradient"):
        attribution.explain("gradient", model, x, explain_input="question")


def test_nan_scores_are_refused(from_function):
    model = from_function(lambda x: tf.math.log(x), 3)
    with pytest.raises(BadInput, match="scores are NaN or infinite"):
        model.scores(-np.ones((1, 3), np.float32))
    with pytest.raises(BadInput, match="scores are NaN or infinite"):
        attribution.explain("gradient", model, -np.ones((1, 3), np.float32))


def test_a_fixed_batch_in_the_signature_is_kept_to(tmp_path):
    module = tf.Module()
    module.call = tf.function(
        lambda x: x * [1.0, 2.0, 3.0], input_signature=[tf.TensorSpec((4, 3), tf.float32, name="x")]
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    model = attribution.load_model(tmp_path)
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    np.testing.assert_allclose(model.scores(x, batch_size=32), x * [1, 2, 3], rtol=1e-6)
    assert model.counts["forward"] == 8
    expected = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1, 2]] * [1, 2, 3]
    np.testing.assert_allclose(attribution.explain("gradient", model, x, [0, 1, 2, 0, 1, 2]), expected)
    np.testing.assert_allclose(
        attribution.explain("integrated_gradients", model, x, [0, 1, 2, 0, 1, 2]), x * expected, rtol=1e-5
    )


def test_outputs_that_are_no_scores_are_refused(from_function):
    with pytest.raises(BadInput, match=r"shape \(any, 2, 3\); scores of shape \(batch, classes\) are needed"):
        from_function(lambda x: x, 2, 3)


def test_a_single_score_per_input_is_one_class(from_function):
    model = from_function(lambda x: tf.reduce_sum(x * [1.0, -2.0], axis=1), 2)
    assert model.num_classes == 1
    np.testing.assert_array_equal(attribution.explain("gradient", model, np.ones((3, 2), np.float32)), [[1, -2]] * 3)


def test_a_switch_between_training_and_inference_is_off(tmp_path):
    kernel = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None, 3), name="x")
        training = v1.placeholder(tf.bool, (), name="training")
        scores = tf.where(training, tf.matmul(100 * x, kernel), tf.matmul(x, kernel), name="scores")
        builder = v1.saved_model.Builder(str(tmp_path / "tf1"))
        signature = v1.saved_model.predict_signature_def({"x": x, "training": training}, {"scores": scores})
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={"serving_default": signature})
        builder.save()
    x = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    by_name = {"inputs": ["x:0", "training:0"], "output": "scores:0"}
    with pytest.raises(BadInput, match=r"placeholder.*'training'.* its placeholders are 'x:0', 'training:0'"):
        attribution.load_model(tmp_path / "tf1", inputs=["x:0"], output="scores:0")
    for options in ({}, by_name):
        model = attribution.load_model(tmp_path / "tf1", **options)
        np.testing.assert_allclose(model.scores(x, batch_size=2), x @ kernel, rtol=1e-5)
        gradient = attribution.explain("gradient", model, x, 1, batch_size=2)
        np.testing.assert_allclose(gradient, np.tile(kernel[:, 1], (5, 1)), rtol=1e-5)
        maps = attribution.explain("integrated_gradients", model, x, 1, batch_size=2)
        np.testing.assert_allclose(maps, x * kernel[:, 1], rtol=1e-4, atol=1e-6)
    on = {"x" if name.startswith("x") else name: name for name in model.inputs}
    given = {name: (x if name == on["x"] else True) for name in model.inputs}
    np.testing.assert_allclose(model.scores(given), 100 * x @ kernel, rtol=1e-5)


def test_a_network_of_one_input_at_a_time_asks_for_batches_of_one(from_function):
    model = from_function(lambda x: tf.tanh(tf.reshape(x, (1, 4))) @ tf.eye(4, 2), 2, 2)
    x = np.ones((3, 2, 2), np.float32)
    with pytest.raises(BadInput, match="one input at a time, choose batch_size=1"):
        attribution.explain("integrated_gradients", model, x)
    assert attribution.explain("integrated_gradients", model, x, batch_size=1).shape == x.shape


@pytest.mark.parametrize("method", ["gradient", "smoothgrad", "lrp_epsilon"])
def test_an_operation_that_fails_is_named_in_one_line(method, from_function):
    def scores(x):
        weights = tf.constant(np.eye(3, 2), tf.float32)
        rows = tf.cast(tf.reduce_max(x, axis=1), tf.int32)  # outside the table for inputs from 3 on
        return tf.matmul(x, weights) + tf.gather(tf.constant([[0.0], [1.0], [2.0]]), rows, name="table")

    model = from_function(scores, 3)
    assert attribution.explain("gradient", model, np.ones((2, 3), np.float32)).shape == (2, 3)
    with pytest.raises(BadInput) as caught:
        attribution.explain(method, model, np.full((2, 3), 7, np.float32))
    message = str(caught.value)
    assert message.startswith("the model cannot be computed on these inputs: operation '") and "table" in message
    assert "indices[" in message and "= 7 is not in [0, 3)" in message and len(message) < 400
