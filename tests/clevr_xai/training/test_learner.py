"""Sums over sampled pairs, compared with those over all, and losses in closed form."""

import dataclasses

import numpy as np
import pytest

from clevr_xai import relation_network
from clevr_xai.training import batches, learner
from clevr_xai.training.batches import CENTRE, PART, SLOT_SIZES, SLOTS
from clevr_xai.training.learner import SampledRelations
from clevr_xai.vocabulary import ANSWERS


def test_a_sum_over_sampled_pairs_is_that_over_all_when_all_are_drawn():
    relations = relation_network.Relations((5, 4), pair_scale=0.3)
    rng = np.random.default_rng(3)
    cells, questions = rng.normal(size=(2, 6, 3)).astype(np.float32), rng.normal(size=(2, 3, 4)).astype(np.float32)
    expected = [relations(cells, questions[:, number]) for number in range(3)]
    pairs = np.stack(np.divmod(rng.permutation(36), 6), axis=-1).astype(np.int32)
    some = ((pairs < 4).all(axis=-1)).astype(np.float32)
    of_two = np.stack([some, pairs[:, 0] == 2]).astype(np.float32)  # of "objects": four cells', and cell 2's

    def sums(weights):
        arguments = [np.tile(each, (2, *[1] * each.ndim)) for each in (pairs, weights, of_two)]
        return SampledRelations(relations)(cells, questions, *arguments)

    every, of_objects, values = sums(np.ones(36, np.float32))
    np.testing.assert_allclose(values.numpy().sum(axis=2) * 0.3, every, rtol=1e-4, atol=1e-5)
    for number in range(3):
        np.testing.assert_allclose(every[:, number], expected[number], rtol=1e-4, atol=1e-5)
    first_four = relations(cells[:, :4], questions[:, 1])
    np.testing.assert_allclose(sums(some)[0][:, 1], first_four, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_objects[:, 1, 0] * 0.3, first_four, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        of_objects[:, 2, 1] * 0.3, sums((pairs[:, 0] == 2).astype(np.float32))[0][:, 2], rtol=1e-4, atol=1e-5
    )


def test_a_step_on_all_pairs_answers_as_the_network_does(make_learner, training_data, monkeypatch):
    """From codes of mirrored questions, too: the network that reads them itself gives the same logits."""
    monkeypatch.setattr(batches, "MIRRORED", 1.0)
    aided = make_learner()
    training_data = dataclasses.replace(training_data, codes=aided.codes(training_data))
    rng = np.random.default_rng(0)
    inputs, _ = batches.answering_batch(training_data, rng, 3, 4, 49 * 49)
    found = aided.answering(4, 49 * 49)(inputs)["answer"]
    mirrored = batches.MIRRORED_TOKENS[training_data.tokens]
    words = dict(zip(map(tuple, training_data.codes[1].round(5)), mirrored, strict=True))
    for image in range(3):
        tokens = np.stack([words[tuple(code)] for code in inputs["code"][image].round(5)]).astype(np.int32)
        images = np.tile(inputs["image"][image] / np.float32(255), (4, 1, 1, 1))
        np.testing.assert_allclose(found[image], aided.network([images, tokens]), rtol=1e-3, atol=1e-4)


def loss(output, targets, logits):
    """Return the loss of one image or question."""
    (value,) = learner.LOSSES[output][0](targets, logits)
    return float(value)


def test_cells_that_are_right_and_sure_cost_nothing_and_parts_count_less():
    targets = np.full((1, 3, 5), -1, np.int32)
    targets[0, 1] = [1, 7, 0, 2, CENTRE]
    logits = np.zeros((1, 3, 16), np.float32)
    logits[0, :, 0] = [-40, 40, -40]
    logits[0, 1, [1 + 1, 3 + 7, 11 + 0, 13 + 2]] = 40
    assert loss("cells", targets, logits) == pytest.approx(0, abs=1e-6)
    attributes = np.log(2 * 8 * 2 * 3**learner.SHAPE_WEIGHT)  # undecided
    assert loss("cells", targets, 0 * logits) == pytest.approx(np.log(2) + attributes, rel=1e-5)
    targets[0, 2], logits[0, 2, 0] = [0, 0, 0, 0, PART], 40  # seen, but nothing is known of it
    expected = learner.PART_WEIGHT * attributes / (1 + learner.PART_WEIGHT)
    assert loss("cells", targets, logits) == pytest.approx(expected, rel=1e-5)


def test_members_count_where_there_are_an_object_and_a_set():
    targets = np.full((1, 2, 3, 4), -1, np.int32)
    targets[0, 0, 0, 0], targets[0, 1, 2, 3] = 1, 0
    logits = np.zeros((1, 2, 3, 4), np.float32)
    logits[0, 0, 0, 0] = 40  # right and sure; the other one undecided, and the rest does not count
    assert loss("members", targets, logits) == pytest.approx(4 * np.log(2) / 2, rel=1e-5)
    assert loss("members", np.full_like(targets, -1), logits) == 0


def test_compared_pairs_weigh_as_much_as_all_the_others_together():
    targets = np.array([[[1, 0, 0, -1]]], np.int32)
    logits = np.zeros((1, 1, 4, 3), np.float32)
    assert loss("compared", targets, logits) == pytest.approx(2 * np.log(3), rel=1e-5)
    logits[0, 0, 0, 1] = 40  # the compared pair is right and sure
    assert loss("compared", targets, logits) == pytest.approx(np.log(3), rel=1e-5)
    assert loss("compared", np.full_like(targets, -1), logits) == 0


def test_operands_that_are_right_and_sure_cost_nothing_and_others_do_not_count():
    targets = np.array([[[3, 4], [-1, -1]]], np.int32)
    logits = np.zeros((1, 2, 2, len(ANSWERS)), np.float32)
    assert loss("operands", targets, logits) == np.float32(np.log(len(ANSWERS)))
    logits[0, 0, 0, 3] = logits[0, 0, 1, 4] = 40
    assert loss("operands", targets, logits) < 1e-6
    assert loss("operands", np.full_like(targets, -1), logits) == 0


def test_the_loss_is_that_of_each_entry_together():
    wanted = np.zeros((1, SLOTS, len(SLOT_SIZES)), np.int32)
    logits = np.zeros((1, SLOTS, sum(SLOT_SIZES)), np.float32)
    undecided = 4 * np.log(SLOT_SIZES).sum()
    assert loss("phrases", wanted, logits) == pytest.approx(undecided, rel=1e-5)
    starts = np.cumsum([0, *SLOT_SIZES[:-1]])
    logits[..., starts] = 40
    assert loss("phrases", wanted, logits) == pytest.approx(0, abs=1e-5)
