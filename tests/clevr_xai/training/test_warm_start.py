"""Networks that start from others: widened ones, and exported ones whose encoders are trained further."""

import numpy as np
import pytest

from clevr_xai import relation_network, vocabulary
from clevr_xai.generation import questions, scenes
from clevr_xai.training import loop, warm_start
from clevr_xai.training.learner import by_length, encode
from clevr_xai.vocabulary import QUESTION_WORDS


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
def sentences():
    """Questions about eight scenes in both wordings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "BLOCK", 8)
        return warm_start.sample_sentences(("plain", "official"), 5, range(1), 2)


def test_sentences_ask_the_same_in_every_wording(sentences):
    assert sentences.tokens.shape == (2, len(sentences.files), warm_start.MAX_WORDS)
    words = np.array(["", "", *QUESTION_WORDS])
    plain, official = ([" ".join(words[row[row > 0]]) for row in part] for part in sentences.tokens)
    assert plain != official and 1 not in sentences.tokens  # 1 would be an unknown word
    found = [scenes.sample_scene(5, index) for index in range(8)]
    for wording, asked in (("plain", plain), ("official", official)):
        simple = questions.generate_block(found, "simple", 5, wording)
        assert asked[: len(simple)] == [" ".join(vocabulary.words_of(one["question"])) for one in simple]
        assert set(sentences.files[: len(simple)]) == {"simple"}


def test_a_network_learns_another_wording_of_what_it_reads(make_learner, sentences, tmp_path):
    learner = make_learner()
    network = learner.network
    others = {name: network.get_layer(name).get_weights() for name in ("convolutions", "f")}
    rewording = warm_start.Rewording(network, sentences, 32)
    before = rewording.unexplained(network)
    assert before["wording 0"] == 0 and before["wording 1"] > 0.05 and set(before["families"]) == set(sentences.files)
    inputs, targets = rewording.batch(np.random.default_rng(0))
    given = targets["given"] * rewording.scale
    nearest = np.abs(given[:, None] - rewording.wanted).max(axis=2).argmin(axis=1)
    asked = [{tuple(row[row > 0]) for row in sentences.tokens[:, place]} for place in nearest]
    assert all(tuple(row[row > 0]) in both for row, both in zip(inputs["question"], asked, strict=True))
    plain = learner.rewording(rewording.scale).predict(sentences.tokens[0].astype(np.int32), verbose=0)["given"]
    np.testing.assert_allclose(plain * rewording.scale, rewording.wanted, atol=1e-5)  # the loss of what it reads is 0
    stage = loop.Stage("rewording", 3e-3, 0.5, steps=60)
    loop.run(learner.rewording(rewording.scale), stage, rewording.batch, tmp_path, 0)
    assert rewording.unexplained(network)["wording 1"] < 0.7 * before["wording 1"]
    for name, weights in others.items():
        assert all(map(np.array_equal, weights, network.get_layer(name).get_weights()))


def test_codes_do_not_depend_on_padding(small_network, sentences):
    encoder, words = small_network.get_layer("question_encoder"), sentences.tokens[1, :40]
    found = encode(encoder, words)
    np.testing.assert_allclose(found, encoder.predict(words.astype(np.int32), verbose=0), atol=1e-6)
    assert sum(map(len, by_length(words).values())) == 40


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
