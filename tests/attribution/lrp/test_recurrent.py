"""Loops are unrolled without a change of scores; tests/test_zoo.py compares the relevance of LSTM and GRU."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.graph import unroll_rnn
from attribution.graph._loops import LOOPS
from attribution.graph.view import CALLS

STEPS, FEATURES, UNITS = 6, 3, 4


def export(layer, path, steps=STEPS):
    generator = np.random.default_rng(2)
    network = keras.Sequential([keras.Input((steps, FEATURES)), layer, keras.layers.Dense(2)])
    for variable in network.variables:
        if "int" not in str(variable.dtype):
            variable.assign(generator.normal(0, 0.6, variable.shape))
    network.export(path, verbose=False)
    return network, attribution.load_model(path)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.LSTM(UNITS, go_backwards=True),
        lambda: keras.layers.Bidirectional(keras.layers.GRU(UNITS)),
        lambda: keras.Sequential([keras.layers.LSTM(UNITS, return_sequences=True), keras.layers.LSTM(UNITS)]),
        lambda: keras.Sequential([keras.layers.LSTM(UNITS, return_sequences=True), keras.layers.Flatten()]),
    ],
    ids=["backwards", "both ways", "two layers", "all steps"],
)
def test_an_unrolled_graph_has_the_same_scores_and_no_loop(layer, tmp_path):
    _, model = export(layer(), tmp_path)
    source, target = model.input_node(), model.logits.split(":")[0]
    unrolled = unroll_rnn.unroll_loops(model.graph, source, target)
    assert any(node.op in LOOPS for node in model.graph.nodes.values())
    assert not any(node.op in LOOPS or "TensorList" in node.op for node in unrolled.nodes.values())
    x = np.random.default_rng(5).normal(size=(3, STEPS, FEATURES)).astype(np.float32)

    @tf.function
    def scores(x):
        return unrolled.import_on({source: x}, [f"{target}:0"])[0][0]

    np.testing.assert_allclose(scores(x).numpy(), model.scores(x), rtol=1e-5, atol=1e-6)


class Accumulator(keras.layers.SimpleRNNCell):
    """A state to which each step adds."""

    def call(self, sequence, states, training=False):
        hidden = states[0] + tf.tanh(sequence @ self.kernel)
        return hidden, [hidden]


@pytest.mark.parametrize(
    ("layer", "calls"),
    [
        (lambda: keras.layers.Bidirectional(keras.layers.LSTM(2)), 2 * 3),
        (lambda: keras.Sequential([keras.layers.Masking(), keras.layers.GRU(UNITS)]), 3),
        (lambda: keras.layers.RNN(Accumulator(UNITS)), 0),  # its steps are one sum
    ],
    ids=["both ways", "mask", "sum"],
)
def test_maps_do_not_depend_on_whether_steps_are_calls(layer, calls, tmp_path, monkeypatch):
    _, model = export(layer(), tmp_path, steps=3)
    source, target = model.input_node(), model.logits.split(":")[0]
    unrolled = unroll_rnn.unroll_loops(model.graph, source, target, calls=True)
    assert sum(node.op in CALLS for node in unrolled.nodes.values()) == calls
    x = np.random.default_rng(5).normal(size=(2, 3, FEATURES)).astype(np.float32)
    methods = ["lrp_alpha1beta0", *(["deeplift"] if calls != 3 else [])]  # DeepLIFT has no rule for masks
    maps = [attribution.explain(method, model, x, 1) for method in methods]
    monkeypatch.setattr(unroll_rnn, "_ENTRIES", ())  # no step can be a call
    model = attribution.load_model(tmp_path)
    for method, expected in zip(methods, maps, strict=True):
        again = attribution.explain(method, model, x, 1)
        np.testing.assert_allclose(again, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_steps_of_equal_names_that_compute_something_else_are_told_apart(tmp_path, monkeypatch):
    x, found = np.random.default_rng(5).normal(size=(2, 3, FEATURES)).astype(np.float32), []
    for entries in (unroll_rnn._ENTRIES, ()):  # as calls, and not
        monkeypatch.setattr(unroll_rnn, "_ENTRIES", entries)
        for activation in ("tanh", "relu"):
            keras.utils.clear_session()  # layers are numbered from here
            path = tmp_path / f"{activation}_{len(entries)}"
            _, model = export(keras.layers.LSTM(2, activation=activation), path, steps=3)
            found.append(attribution.explain("lrp_alpha1beta0", model, x, 1))
    np.testing.assert_allclose(found[:2], found[2:], rtol=0, atol=1e-6)


def test_a_graph_without_loops_is_unchanged(models):
    graph = models["image"].graph
    assert unroll_rnn.unroll_loops(graph, models["image"].input_node(), models["image"].logits.split(":")[0]) is graph


def step(hidden, x):
    kernel = np.random.default_rng(7).normal(0, 0.6, (FEATURES + UNITS, UNITS)).astype(np.float32)
    return tf.tanh(tf.matmul(tf.concat([x, hidden], axis=1), kernel))


def by_hand(x):
    hidden = tf.zeros((tf.shape(x)[0], UNITS))
    for time in range(STEPS):
        hidden = step(hidden, x[:, time])
    return hidden


def keras_2(x):
    """The number of steps is read from the shape of what the loop reads; the list it writes has one item."""
    steps = tf.transpose(x, (1, 0, 2))
    read = tf.TensorArray(tf.float32, tf.shape(steps)[0]).unstack(steps)
    _, written, _ = tf.while_loop(
        lambda time, *_: time < tf.shape(steps)[0],
        lambda time, written, hidden: (
            time + 1,
            written.write(0, step(hidden, read.read(time))),
            step(hidden, read.read(time)),
        ),
        (0, tf.TensorArray(tf.float32, 1, element_shape=(None, UNITS)), tf.zeros((tf.shape(x)[0], UNITS))),
    )
    return written.stack()[-1]


def dynamic_rnn(x):
    """The number of steps is a minimum of sizes, as of ``tf.compat.v1.nn.dynamic_rnn``."""
    steps = tf.transpose(x, (1, 0, 2))
    count = tf.shape(steps)[0]
    read = tf.TensorArray(tf.float32, count).unstack(steps)
    return tf.while_loop(
        lambda time, _: time < tf.minimum(count, tf.maximum(1, count)),
        lambda time, hidden: (time + 1, step(hidden, read.read(time))),
        (0, tf.zeros((tf.shape(x)[0], UNITS))),
        maximum_iterations=count,
    )[1]


def growing(x):
    """The list grows with every step."""
    read = tf.TensorArray(tf.float32, STEPS).unstack(tf.transpose(x, (1, 0, 2)))
    _, written, _ = tf.while_loop(
        lambda time, *_: time < STEPS,
        lambda time, written, hidden: (
            time + 1,
            written.write(time, step(hidden, read.read(time))),
            step(hidden, read.read(time)),
        ),
        (
            0,
            tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=(None, UNITS)),
            tf.zeros((tf.shape(x)[0], UNITS)),
        ),
    )
    return written.stack()[-1]


def scan(x):
    return tf.scan(step, tf.transpose(x, (1, 0, 2)), tf.zeros((tf.shape(x)[0], UNITS)))[-1]


@pytest.fixture(scope="module")
def network(from_function):
    """Return a function that makes the network of a function of a sequence, once."""
    return functools.cache(lambda scores: from_function(scores, STEPS, FEATURES))


def with_head(hidden):
    head = np.random.default_rng(8).normal(size=(UNITS, 2)).astype(np.float32)
    return lambda x: tf.matmul(hidden(x), head)


BY_HAND = with_head(by_hand)


@pytest.mark.parametrize("loop", [keras_2, dynamic_rnn, growing, scan])
def test_loops_of_declared_length_are_unrolled(loop, network):
    x = np.random.default_rng(5).normal(size=(3, STEPS, FEATURES)).astype(np.float32)
    by_loop, alone = network(with_head(loop)), network(BY_HAND)
    np.testing.assert_allclose(by_loop.scores(x), alone.scores(x), rtol=1e-5)
    for method in ("lrp_epsilon", "deeplift"):
        expected = attribution.explain(method, alone, x, 1)
        np.testing.assert_allclose(attribution.explain(method, by_loop, x, 1), expected, rtol=1e-4, atol=1e-6)


def many_steps(x):
    read = tf.transpose(x, (1, 0, 2))
    return tf.while_loop(
        lambda time, _: time < 3000,
        lambda time, hidden: (time + 1, step(hidden, read[0])),
        (0, step(read[1] @ np.eye(3, 4, dtype=np.float32), read[0])),
    )[1]


def by_input(x):
    return tf.map_fn(lambda one: tf.reduce_max(tf.nn.relu(one), axis=0), x)


@pytest.mark.parametrize(
    ("loop", "reason"),
    [(many_steps, "a loop of more than 2000 steps"), (by_input, "a loop whose number of steps is not in the file")],
)
def test_the_error_for_a_remaining_loop_gives_the_reason(loop, reason, from_function):
    model = from_function(loop, STEPS, FEATURES)
    with pytest.raises(BadInput, match=reason):
        attribution.explain("lrp_epsilon", model, np.ones((2, STEPS, FEATURES), np.float32), 0)


def sums(x):
    """Return the running sums over time; the loop writes its first step before it begins."""
    return tf.scan(lambda total, one: tf.tanh(total + one), tf.transpose(x, (1, 0, 2)))


def sums_by_hand(x):
    totals = [x[:, 0]]
    for time in range(1, STEPS):
        totals.append(tf.tanh(totals[-1] + x[:, time]))
    return tf.stack(totals)


def relu_of_features(x):
    return tf.transpose(tf.map_fn(tf.nn.relu, tf.transpose(x)))


def layer_of_open_length(x):
    """Return all states of a layer that reads its number of steps from its input, as Keras of TensorFlow 2.4 did."""
    steps = tf.shape(x)[0]
    items, states = tf.TensorArray(tf.float32, steps).unstack(x), tf.TensorArray(tf.float32, steps)

    def step(time, total, states):
        total = tf.tanh(total + items.read(time))
        return time + 1, total, states.write(time, total)

    return tf.while_loop(lambda time, *_: time < steps, step, (0, tf.zeros_like(x[0]), states))[2].stack()


def states_by_hand(x):
    states = [tf.tanh(x[0])]
    for time in range(1, STEPS):
        states.append(tf.tanh(states[-1] + x[time]))
    return tf.stack(states)


def two_layers(x, layer):
    return layer(layer(tf.transpose(x, (1, 0, 2))))[-1]


SEVERAL = {
    "a layer over the states of another": (
        lambda x: two_layers(x, layer_of_open_length),
        lambda x: two_layers(x, states_by_hand),
    ),
    "scan, then scan": (lambda x: tf.scan(tf.add, sums(x))[-1], lambda x: tf.reduce_sum(sums_by_hand(x), 0)),
    "scan, then map": (lambda x: relu_of_features(sums(x)[-1]), lambda x: tf.nn.relu(sums_by_hand(x)[-1])),
    "map, then scan": (lambda x: sums(tf.stack([relu_of_features(x[:, time]) for time in range(STEPS)], 1))[-1],
                       lambda x: sums_by_hand(tf.nn.relu(x))[-1]),
    "map in scan": (lambda x: tf.scan(lambda a, b: a + tf.map_fn(tf.tanh, tf.stack([a, b]))[1],
                                      tf.transpose(x, (1, 0, 2)))[-1],
                    lambda x: x[:, 0] + tf.reduce_sum(tf.tanh(x[:, 1:]), 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", SEVERAL)
def test_several_loops_are_unrolled(name, from_function):
    x = np.random.default_rng(5).normal(size=(3, STEPS, FEATURES)).astype(np.float32)
    by_loop, alone = (from_function(scores, STEPS, FEATURES) for scores in SEVERAL[name])
    np.testing.assert_allclose(by_loop.scores(x), alone.scores(x), rtol=1e-5, atol=1e-6)
    for method in ("lrp_epsilon", "deeplift"):
        expected = attribution.explain(method, alone, x, 1)
        np.testing.assert_allclose(attribution.explain(method, by_loop, x, 1), expected, rtol=1e-3, atol=1e-5)


DENSE = {
    "LSTM": lambda: keras.layers.LSTM(UNITS),
    "GRU": lambda: keras.layers.GRU(UNITS),
    "SimpleRNN": lambda: keras.layers.SimpleRNN(UNITS),
    "Bidirectional": lambda: keras.layers.Bidirectional(keras.layers.LSTM(UNITS)),
    "Dense between": lambda: keras.Sequential(
        [keras.layers.GRU(UNITS, return_sequences=True), keras.layers.Dense(3), keras.layers.LSTM(UNITS)]
    ),
}


@pytest.mark.parametrize("name", DENSE)
def test_a_dense_layer_over_time_keeps_the_number_of_steps(name, tmp_path):
    layer = keras.Sequential([keras.layers.Dense(5), keras.layers.Dense(3, "relu"), DENSE[name]()])
    network, model = export(layer, tmp_path)
    x = np.random.default_rng(5).normal(size=(3, STEPS, FEATURES)).astype(np.float32)
    difference = np.asarray(network(x) - network(0 * x))[:, 1]
    np.testing.assert_allclose(attribution.explain("deeplift", model, x, 1).sum(axis=(1, 2)), difference, atol=1e-4)
    assert np.isfinite(attribution.explain("lrp_epsilon", model, x, 1)).all()


KEPT = {
    "scan, then map over inputs": lambda x: tf.map_fn(tf.nn.relu, sums(x)[-1]),
    "a loop, then map over inputs": lambda x: tf.map_fn(
        tf.nn.relu, tf.while_loop(lambda time, _: time < 3, lambda time, y: (time + 1, tf.tanh(y)), (0, x[:, 0]))[1]
    ),
    "scan in scan": lambda x: tf.scan(
        lambda a, b: tf.scan(lambda c, d: c + tf.tanh(d), tf.stack([a, b]))[-1], tf.transpose(x, (1, 0, 2))
    )[-1],
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("method", ["lrp_epsilon", "deeplift", "full_grad"])
def test_loops_that_cannot_be_unrolled_are_refused_by_name(method, name, network):
    model = network(KEPT[name])
    with pytest.raises(BadInput, match=r"TensorList|While|loop \("):
        attribution.explain(method, model, np.ones((2, STEPS, FEATURES), np.float32), 0)


def test_a_map_behind_an_lstm_is_refused_by_name(tmp_path):
    layers = keras.layers
    mapped = layers.Lambda(lambda x: tf.map_fn(tf.nn.relu, x), output_shape=(UNITS,))
    network = keras.Sequential([keras.Input((STEPS, FEATURES)), layers.LSTM(UNITS), mapped, layers.Dense(2)])
    with pytest.raises(BadInput, match="number of steps is not in the file"):
        attribution.explain("lrp_epsilon", attribution.load_model(network), np.ones((2, STEPS, FEATURES), np.float32))


def test_the_error_for_a_loop_of_unknown_length_says_what_to_do(tmp_path):
    _, model = export(keras.layers.LSTM(UNITS), tmp_path, steps=None)
    x = np.zeros((1, STEPS, FEATURES), np.float32)
    with pytest.raises(BadInput, match="number of steps is not in the file; export the model for a fixed number"):
        attribution.explain("lrp_epsilon", model, x)
