"""Networks that learn on: what an exported one's g is told and shown after the reading and the seeing went on."""

import numpy as np
import pytest

from clevr_xai import relation_network
from clevr_xai.training import warm_start


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
    before, logits = warm_start.told(network, questions), network.predict_on_batch([images, questions[:4]])
    assert before.shape == (len(questions), relation_network.WIDTHS[0])
    exchanged(network.get_layer("question_encoder"), np.random.default_rng(2).permutation(relation_network.QUESTION))
    assert np.abs(warm_start.told(network, questions) - before).max() > 0.1
    assert warm_start.retell(network, questions, before) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(warm_start.told(network, questions), before, atol=1e-4)
    np.testing.assert_allclose(network.predict_on_batch([images, questions[:4]]), logits, rtol=1e-3, atol=1e-3)


def test_what_a_code_has_forgotten_cannot_be_told(questions):
    network = relation_network.build(dropout=0.0)
    before = warm_start.told(network, questions)
    encoder = network.get_layer("question_encoder")
    encoder.set_weights([np.zeros_like(weight) for weight in encoder.get_weights()])
    assert warm_start.retell(network, questions, before) == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(warm_start.told(network, questions[:1])[0], before.mean(axis=0), atol=1e-4)


def test_g_is_shown_the_same_by_convolutions_whose_channels_changed_places_and_scales():
    network = relation_network.build(dropout=0.0)
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (6, 128, 128, 3), np.uint8)
    inputs = [images.astype(np.float32) / 255, rng.integers(2, 82, (6, 12)).astype(np.int32)]
    before, logits = warm_start.shown(network, images), network.predict_on_batch(inputs)
    assert before.shape == (6 * relation_network.CELLS**2, 2 * relation_network.WIDTHS[0])
    norm = network.get_layer("convolutions").layers[-1]
    scale = rng.uniform(0.5, 2, relation_network.CHANNELS).astype(np.float32)
    gamma, beta, mean, variance = norm.get_weights()
    norm.set_weights([gamma * scale, beta + 1, mean, variance])  # another zero, too: the question's bias takes it up
    assert np.abs(warm_start.shown(network, images) - before).max() > 0.1
    assert warm_start.show_again(network, images, before) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(network.predict_on_batch(inputs), logits, rtol=1e-3, atol=1e-3)
