"""Accuracies count what is right."""

import dataclasses

import numpy as np
import pytest

from clevr_xai.training import accuracy, batches
from clevr_xai.training.training_set import NODES


def test_accuracies_are_counted_by_kind(training_data, small_network):
    rows = np.arange(len(training_data.answers))
    images = training_data.images[training_data.image_of].astype(np.float32) / 255
    logits = small_network.predict([images, training_data.tokens.astype(np.int32)], verbose=0)
    right = logits.argmax(axis=1) == training_data.answers
    np.testing.assert_array_equal(accuracy.accuracy(small_network, training_data, rows, batch_size=50), right)
    found = accuracy.accuracy_by_kind(small_network, training_data, rows)
    kinds = training_data.rows_of_kind()
    for kind in kinds:
        assert found[kind] == pytest.approx(right[kinds[kind]].mean(), abs=1e-4)
    assert found["families"]["simple"] == pytest.approx(found["simple"], abs=1e-3)
    assert set(found) == {*kinds, "families"}
    wordings = np.where(np.arange(len(rows)) % 3, "plain", "official")
    found = accuracy.accuracy_by_kind(small_network, dataclasses.replace(training_data, wordings=wordings), rows)
    for kind, chosen in kinds.items():
        for wording in ("plain", "official"):
            expected = right[chosen][wordings[chosen] == wording].mean()
            assert found[f"{kind} {wording}"] == pytest.approx(expected, abs=1e-4)


def test_a_perfect_eye_sees_every_attribute(training_data):
    class Perfect:
        def predict(self, inputs, **_):
            targets = batches.cell_targets(training_data.centres, training_data.owners, training_data.attributes)
            logits = np.zeros((*targets.shape[:2], 16))
            logits[..., 0] = np.where(targets[..., 0] >= 0, 1, -1)
            for position, start in enumerate((1, 3, 11, 13)):
                np.put_along_axis(logits, start + np.maximum(targets[..., position : position + 1], 0), 1, axis=-1)
            return {"cells": logits}

    found = accuracy.cell_accuracy(Perfect(), training_data)
    assert found == dict.fromkeys(["presence", "size", "color", "material", "shape"], 1.0)


def test_programs_count_as_read_when_every_node_is_right(training_data):
    class Reader:
        def predict(self, inputs, **_):
            row = {tuple(words): number for number, words in enumerate(training_data.tokens)}
            found = [training_data.programs[row[tuple(words)]] for words in inputs["question"]]
            logits = np.eye(len(NODES))[np.array(found)]
            logits[::4, 2] = 1  # one node of every fourth question undecided, and the first of equals is taken
            return {"program": logits}

    read = accuracy.program_accuracy(Reader(), training_data)
    assert 0.7 < read < 0.8
