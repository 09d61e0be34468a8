"""Networks that start from others: widened ones, and exported ones whose encoders are trained further."""

import numpy as np
import pytest

from clevr_xai import relation_network
from clevr_xai.training import warm_start


def inputs():
    rng = np.random.default_rng(0)
    return [rng.random((2, 128, 128, 3), np.float32), rng.integers(2, 82, (2, 6)).astype(np.int32)]


@pytest.mark.parametrize("widths", [(6, 5), (9, 8), (9, 8, 7, 6)])
def test_a_grown_network_computes_the_same(small_network, widths):
    large = warm_start.net2net(small_network, widths)
    np.testing.assert_allclose(large(inputs()), small_network(inputs()), rtol=1e-4, atol=1e-5)
    assert large.get_layer("relations").widths == widths


def test_new_units_learn(small_network):
    """They reach the logits by weights of zero, so the first step is theirs."""
    large = warm_start.net2net(small_network, (9, 8, 7, 30))
    import tensorflow as tf

    with tf.GradientTape() as tape:
        logits = large(inputs())
    gradient = tape.gradient(logits, large.get_layer("f").layers[0].kernel)
    assert np.abs(gradient[5:]).max() > 0


@pytest.mark.parametrize("widths", [(6,), (5, 5), (6, 4)])
def test_a_network_does_not_shrink(small_network, widths):
    with pytest.raises(ValueError, match="cannot grow"):
        warm_start.net2net(small_network, widths)


@pytest.fixture(scope="module")
def questions():
    return np.random.default_rng(0).integers(2, 82, (400, 12)).astype(np.int32)


def exchanged(encoder, order):
    """Put the units of an encoder's LSTM in another order: the same memory, another code."""
    embedding, gates, gates_bias, recurrent, recurrent_bias = encoder.get_weights()
    of_gates = np.concatenate([part * len(order) + order for part in range(4)])
    encoder.set_weights(
        [embedding, gates[:, of_gates], gates_bias[of_gates], recurrent[order][:, of_gates], recurrent_bias[of_gates]]
    )


def test_g_is_told_the_same_by_another_code_that_knows_as_much(questions):
    network = relation_network.build(dropout=0.0)
    images = np.random.default_rng(1).random((4, 128, 128, 3), np.float32)
    before, logits = warm_start.encode_questions(network, questions), network.predict_on_batch([images, questions[:4]])
    assert before.shape == (len(questions), relation_network.WIDTHS[0])
    exchanged(network.get_layer("question_encoder"), np.random.default_rng(2).permutation(relation_network.QUESTION))
    assert np.abs(warm_start.encode_questions(network, questions) - before).max() > 0.1
    assert warm_start.refit_questions(network, questions, before) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(warm_start.encode_questions(network, questions), before, atol=1e-4)
    np.testing.assert_allclose(network.predict_on_batch([images, questions[:4]]), logits, rtol=1e-3, atol=1e-3)


def test_what_a_code_has_forgotten_cannot_be_told(questions):
    network = relation_network.build(dropout=0.0)
    before = warm_start.encode_questions(network, questions)
    encoder = network.get_layer("question_encoder")
    encoder.set_weights([np.zeros_like(weight) for weight in encoder.get_weights()])
    assert warm_start.refit_questions(network, questions, before) == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(warm_start.encode_questions(network, questions[:1])[0], before.mean(axis=0), atol=1e-4)


def test_g_is_shown_the_same_by_convolutions_whose_channels_changed_places_and_scales():
    network = relation_network.build(dropout=0.0)
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (6, 128, 128, 3), np.uint8)
    inputs = [images.astype(np.float32) / 255, rng.integers(2, 82, (6, 12)).astype(np.int32)]
    before, logits = warm_start.encode_cells(network, images), network.predict_on_batch(inputs)
    assert before.shape == (6 * relation_network.CELLS**2, 2 * relation_network.WIDTHS[0])
    norm = network.get_layer("convolutions").layers[-1]
    scale = rng.uniform(0.5, 2, relation_network.CHANNELS).astype(np.float32)
    gamma, beta, mean, variance = norm.get_weights()
    norm.set_weights([gamma * scale, beta + 1, mean, variance])  # another zero, too: the question's bias takes it up
    assert np.abs(warm_start.encode_cells(network, images) - before).max() > 0.1
    assert warm_start.refit_cells(network, images, before) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(network.predict_on_batch(inputs), logits, rtol=1e-3, atol=1e-3)
