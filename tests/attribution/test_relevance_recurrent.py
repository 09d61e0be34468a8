"""LSTM and GRU against relevance propagated step by step in NumPy, as Arras et al. 2017 write it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution import unroll
from attribution_benchmarks.command_line import BadInput

STEPS, FEATURES, UNITS = 6, 3, 4
EPSILON = 1e-3


def export(layer, path, steps=STEPS):
    generator = np.random.default_rng(2)
    network = keras.Sequential([keras.Input((steps, FEATURES)), layer, keras.layers.Dense(2)])
    for variable in network.variables:
        if "int" not in str(variable.dtype):
            variable.assign(generator.normal(0, 0.6, variable.shape))
    network.export(path, verbose=False)
    return network, attribution.load_model(path)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def share(contributions, total, relevance):
    """Share the relevance of ``total`` (units,) out by contributions (inputs, units), with ε."""
    return contributions @ (relevance / (total + np.where(total >= 0, EPSILON, -EPSILON)))


def lstm_relevance(weights, x, target):
    kernel, recurrent, bias, end, end_bias = (weight.astype(float) for weight in weights)
    x = x.astype(float)
    hidden, cell, kept = np.zeros(UNITS), np.zeros(UNITS), []
    for t in range(STEPS):
        z = x[t] @ kernel + hidden @ recurrent + bias
        i, f, candidate, o = np.split(z, 4)
        i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(candidate)
        following = f * cell + i * g
        kept.append((hidden, cell, f * cell, i * g, following, candidate))
        hidden, cell = o * np.tanh(following), following
    score = hidden @ end + end_bias
    at_hidden = share(hidden[:, None] * end[:, [target]], score[[target]], score[[target]])
    at_cell = np.zeros(UNITS)
    relevance = np.zeros((STEPS, FEATURES))
    columns = slice(2 * UNITS, 3 * UNITS)  # of the candidate; the gates take nothing
    for t in reversed(range(STEPS)):
        hidden, _, remembered, added, following, candidate = kept[t]
        at_cell = at_cell + at_hidden  # the output gate's signal is the cell
        ratio = at_cell / (following + np.where(following >= 0, EPSILON, -EPSILON))
        at_candidate, at_cell = added * ratio, remembered * ratio
        relevance[t] = share(x[t][:, None] * kernel[:, columns], candidate, at_candidate)
        at_hidden = share(hidden[:, None] * recurrent[:, columns], candidate, at_candidate)
    return relevance


def gru_relevance(weights, x, target):
    kernel, recurrent, biases, end, end_bias = (weight.astype(float) for weight in weights)
    x = x.astype(float)
    hidden, kept = np.zeros(UNITS), []
    for t in range(STEPS):
        of_x, of_h = x[t] @ kernel + biases[0], hidden @ recurrent + biases[1]
        z, r = (sigmoid(of_x[k * UNITS : (k + 1) * UNITS] + of_h[k * UNITS : (k + 1) * UNITS]) for k in (0, 1))
        reset = r * of_h[2 * UNITS :]
        candidate = of_x[2 * UNITS :] + reset
        following = z * hidden + (1 - z) * np.tanh(candidate)
        values = z * hidden, (1 - z) * np.tanh(candidate), following
        kept.append((hidden, *values, of_x[2 * UNITS :], of_h[2 * UNITS :], reset, candidate))
        hidden = following
    score = hidden @ end + end_bias
    at_hidden = share(hidden[:, None] * end[:, [target]], score[[target]], score[[target]])
    relevance = np.zeros((STEPS, FEATURES))
    columns = slice(2 * UNITS, 3 * UNITS)
    for t in reversed(range(STEPS)):
        hidden, remembered, added, following, of_x, of_h, reset, candidate = kept[t]
        ratio = at_hidden / (following + np.where(following >= 0, EPSILON, -EPSILON))
        at_candidate, at_hidden = added * ratio, remembered * ratio
        # x W + b and r (h U + c) share the candidate by value; the reset gate's signal is h U + c.
        ratio = at_candidate / (candidate + np.where(candidate >= 0, EPSILON, -EPSILON))
        at_x, at_reset = of_x * ratio, reset * ratio
        relevance[t] = share(x[t][:, None] * kernel[:, columns], of_x, at_x)
        at_hidden = at_hidden + share(hidden[:, None] * recurrent[:, columns], of_h, at_reset)
    return relevance


CELLS = {
    "LSTM": (keras.layers.LSTM, lstm_relevance),
    "GRU": (keras.layers.GRU, gru_relevance),
}


@pytest.mark.parametrize("unrolled", [False, True], ids=["loop", "unrolled by Keras"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_recurrent_layer_equals_its_propagation_written_out(cell, unrolled, tmp_path):
    make, expected_relevance = CELLS[cell]
    network, model = export(make(UNITS, unroll=unrolled), tmp_path)
    x = np.random.default_rng(5).normal(size=(3, STEPS, FEATURES)).astype(np.float32)
    maps = attribution.explain("lrp_epsilon", model, x, 1, epsilon=EPSILON)
    for row in range(3):
        expected = expected_relevance(network.get_weights(), x[row], 1)
        np.testing.assert_allclose(maps[row], expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


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
    unrolled = unroll.unroll_loops(model.graph, source, target)
    assert any(node.op in unroll.LOOPS for node in model.graph.nodes.values())
    assert not any(node.op in unroll.LOOPS or "TensorList" in node.op for node in unrolled.nodes.values())
    x = np.random.default_rng(5).normal(size=(3, STEPS, FEATURES)).astype(np.float32)

    @tf.function
    def scores(x):
        return unrolled.import_on({source: x}, [f"{target}:0"])[0][0]

    np.testing.assert_allclose(scores(x).numpy(), model.scores(x), rtol=1e-5, atol=1e-6)


def test_a_graph_without_loops_is_left_as_it_is(models):
    graph = models["image"].graph
    assert unroll.unroll_loops(graph, models["image"].input_node(), models["image"].logits.split(":")[0]) is graph


def test_a_loop_of_unknown_length_is_refused_with_what_to_do(tmp_path):
    _, model = export(keras.layers.LSTM(UNITS), tmp_path, steps=None)
    x = np.zeros((1, STEPS, FEATURES), np.float32)
    with pytest.raises(BadInput, match="number of steps is not in the file; export the model for a fixed number"):
        attribution.explain("lrp_epsilon", model, x)
