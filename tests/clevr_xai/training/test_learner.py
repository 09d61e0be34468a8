"""Sampled sums are those over all pairs when all are drawn."""

import dataclasses

import numpy as np

from clevr_xai import relation_network
from clevr_xai.training import batches
from clevr_xai.training.learner import SampledRelations


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


def test_a_step_on_all_pairs_answers_as_the_network_does(learner, training_data):
    """From codes of mirrored questions, too: the network that reads them itself gives the same logits."""
    aided = learner()
    training_data = dataclasses.replace(training_data, codes=aided.codes(training_data))
    rng = np.random.default_rng(0)
    inputs, _ = batches.answering_batch(training_data, rng, 3, 4, 49 * 49, mirror=1.0)
    found = aided.answering(4, 49 * 49)(inputs)["answer"]
    words = {
        tuple(code): row
        for code, row in zip(
            training_data.codes[1].round(5), batches.MIRRORED_TOKENS[training_data.tokens], strict=True
        )
    }
    for image in range(3):
        tokens = np.stack([words[tuple(code)] for code in inputs["code"][image].round(5)]).astype(np.int32)
        images = np.tile(inputs["image"][image] / np.float32(255), (4, 1, 1, 1))
        np.testing.assert_allclose(found[image], aided.network([images, tokens]), rtol=1e-3, atol=1e-4)
