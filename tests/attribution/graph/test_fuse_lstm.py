"""LSTM layers as single operations have the scores and gradients of their loops."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.graph import _fuse_lstm as fuse_lstm
from attribution.graph._loops import LOOPS

STEPS, FEATURES, UNITS = 3, 2, 4
L = keras.layers


def loaded(layer, path, steps=STEPS):
    keras.utils.set_random_seed(1)
    network = keras.Sequential([keras.Input((steps, FEATURES)), layer, L.Dense(2)])
    for variable in network.trainable_variables:
        variable.assign(np.random.default_rng(variable.shape[-1]).normal(0, 0.6, variable.shape))
    network.export(path, verbose=False)
    return attribution.load_model(path)


def scores_and_gradient(graph, model, x):
    @tf.function(autograph=False)
    def run(x):
        (scores,), _ = graph.import_on({model.input_node(): x}, [f"{model.logits.split(':')[0]}:0"])
        return scores, tf.gradients(scores[:, 1], x)[0]

    return [one.numpy() for one in run(tf.constant(x))]


def loops(graph):
    return sum(node.op in LOOPS for node in graph.nodes.values())


@pytest.mark.parametrize(
    ("layer", "steps"),
    [
        (lambda: L.LSTM(UNITS, go_backwards=True), STEPS),
        (lambda: L.LSTM(UNITS, use_bias=False), None),
        (lambda: keras.Sequential([L.Bidirectional(L.LSTM(2, return_sequences=True)), L.LSTM(UNITS)]), STEPS),
    ],
    ids=["backwards", "any length, no bias", "both ways, two layers"],
)
def test_a_fused_layer_has_the_scores_and_gradients_of_its_loop(layer, steps, tmp_path):
    model = loaded(layer(), tmp_path, steps)
    fused = fuse_lstm.fuse_lstm(model.graph)
    assert loops(model.graph) and not loops(fused)
    x = np.random.default_rng(3).normal(size=(2, STEPS, FEATURES)).astype(np.float32)
    for ours, expected in zip(*(scores_and_gradient(one, model, x) for one in (fused, model.graph)), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_two_different_first_states_keep_the_scores(tmp_path):
    keras.utils.set_random_seed(1)
    x = keras.Input((STEPS, FEATURES))
    network = keras.Model(x, L.LSTM(UNITS)(x, initial_state=[L.Dense(UNITS)(x[:, 0]), L.Dense(UNITS)(x[:, 1])]))
    network.export(tmp_path, verbose=False)
    model, inputs = attribution.load_model(tmp_path), np.random.default_rng(3).normal(size=(2, STEPS, FEATURES))
    fused, inputs = fuse_lstm.fuse_lstm(model.graph), inputs.astype(np.float32)
    assert loops(model.graph) and not loops(fused)
    np.testing.assert_allclose(scores_and_gradient(fused, model, inputs)[0], network(inputs), rtol=1e-4, atol=1e-6)


class OtherGates(L.LSTMCell):
    """An LSTM whose first two gates are exchanged."""

    def call(self, inputs, states, training=False):
        hidden, state = states
        gates = tf.nn.bias_add(inputs @ self.kernel + hidden @ self.recurrent_kernel, self.bias)
        f, i, candidate, o = tf.split(gates, 4, axis=1)
        state = tf.sigmoid(f) * state + tf.sigmoid(i) * tf.tanh(candidate)
        hidden = tf.sigmoid(o) * tf.tanh(state)
        return hidden, [hidden, state]


@pytest.mark.parametrize(
    "layer",
    [
        lambda: L.GRU(UNITS),
        lambda: L.LSTM(UNITS, recurrent_activation="hard_sigmoid"),
        lambda: L.RNN(OtherGates(UNITS)),
        lambda: keras.Sequential([L.Masking(), L.LSTM(UNITS)]),
        lambda: L.LSTM(128),
    ],
    ids=["GRU", "hard sigmoid", "other gates", "mask", "large"],
)
def test_other_loops_stay(layer, tmp_path):
    graph = loaded(layer(), tmp_path).graph
    assert loops(graph) == 1
    assert fuse_lstm.fuse_lstm(graph) is graph


def written(path, kind):
    """Return a model of a loop, an LSTM but for what its kind says."""
    generator, module = np.random.default_rng(2), tf.Module()
    module.weights = [
        tf.Variable(generator.normal(0, 0.6, (n, 4 * UNITS)), dtype=tf.float32) for n in (FEATURES, UNITS)
    ]

    @tf.function(input_signature=[tf.TensorSpec([1 if "input" in kind else None, STEPS, FEATURES])], autograph=False)
    def scores(x):
        items = tf.TensorArray(tf.float32, STEPS).unstack(tf.transpose(x, [1, 0, 2]))
        kernel, recurrent = module.weights
        kernel = kernel * x[0, 0, 0] if "input" in kind else tf.identity(kernel)
        start = tf.zeros([1 if kind == "one state for all" else tf.shape(x)[0], UNITS])

        def step(time, outputs, hidden, state, _):
            i, f, c, o = tf.split(items.read(time) @ kernel + hidden @ recurrent, 4, 1)
            state = tf.sigmoid(f) * state + tf.sigmoid(i) * tf.tanh(c)
            hidden = tf.sigmoid(o) * tf.tanh(state)
            return time + 1, outputs.write(time, hidden), hidden, state, time < 1

        def continues(time, *values):
            return tf.logical_and(time < STEPS, values[-1]) if kind == "early exit" else time < STEPS

        values = 0, tf.TensorArray(tf.float32, STEPS, element_shape=(None, UNITS)), start, start, True
        shapes = tuple(map(tf.TensorShape, ([], None, (None, UNITS), (None, UNITS), [])))
        return tf.while_loop(continues, step, values, shapes)[2]

    tf.saved_model.save(module, path, signatures=scores)
    return attribution.load_model(path)


@pytest.mark.parametrize("kind", ["LSTM", "early exit", "one state for all", "weights of the input"])
def test_only_an_lstm_written_by_hand_is_replaced(kind, tmp_path):
    graph = written(tmp_path, kind).graph
    assert loops(graph) == 1
    assert (fuse_lstm.fuse_lstm(graph) is graph) == (kind in ("early exit", "one state for all"))


def test_weights_that_depend_on_the_input_have_a_gradient(tmp_path):
    model, live = written(tmp_path, "weights of the input"), tf.saved_model.load(tmp_path)
    x = tf.constant(np.random.default_rng(3).normal(size=(1, STEPS, FEATURES)), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        (scores,) = live.signatures["serving_default"](x=x).values()
        score = scores[0, 1]
    expected = tape.gradient(score, x).numpy()
    found = attribution.explain("gradient", model, x.numpy(), 1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_steps_from_one_state_for_all_inputs_are_explained(tmp_path):
    model = written(tmp_path, "one state for all")
    x = np.random.default_rng(3).normal(size=(3, STEPS, FEATURES)).astype(np.float32)
    together, *alone = (attribution.explain("deeplift", model, one, 1) for one in (x, x[:1], x[1:2], x[2:]))
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=0, atol=1e-6 * np.abs(together).max())
