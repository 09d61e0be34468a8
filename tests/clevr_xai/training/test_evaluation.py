"""Accuracies and logits on blank images, compared with direct counts."""

import dataclasses
import os
from types import SimpleNamespace

import numpy as np
import pytest

from attribution.errors import BadInput
from clevr_xai.training import batches, model_card, training_set
from clevr_xai.training.model_card import BlankLogits
from clevr_xai.training.training_set import NODES
from clevr_xai.vocabulary import ANSWERS


def test_accuracies_are_counted_by_kind(training_data, small_network):
    rows = np.arange(len(training_data.answers))
    images = training_data.images[training_data.image_of].astype(np.float32) / 255
    logits = small_network.predict([images, training_data.tokens.astype(np.int32)], verbose=0)
    right = logits.argmax(axis=1) == training_data.answers
    np.testing.assert_array_equal(model_card.correct_answers(small_network, training_data, rows, batch_size=50), right)
    found = model_card.accuracy_by_kind(small_network, training_data, rows)
    kinds = training_data.rows_of_kind()
    for kind in kinds:
        assert found[kind] == pytest.approx(right[kinds[kind]].mean(), abs=1e-4)
    assert found["families"]["simple"] == pytest.approx(found["simple"], abs=1e-3)
    assert set(found) == {*kinds, "families"}
    wordings = np.where(np.arange(len(rows)) % 3, "plain", "official")
    found = model_card.accuracy_by_kind(small_network, dataclasses.replace(training_data, wordings=wordings), rows)
    for kind, chosen in kinds.items():
        for wording in ("plain", "official"):
            expected = right[chosen][wordings[chosen] == wording].mean()
            assert found[f"{kind} {wording}"] == pytest.approx(expected, abs=1e-4)


def test_a_perfect_eye_sees_every_attribute(training_data):
    class Perfect:
        def predict(self, inputs, **_):
            wanted = batches.cell_targets(training_data.centres, training_data.segmentation, training_data.attributes)
            logits = np.zeros((*wanted.shape[:2], 16))
            logits[..., 0] = np.where(wanted[..., 0] >= 0, 1, -1)
            for position, start in enumerate((1, 3, 11, 13)):
                np.put_along_axis(logits, start + np.maximum(wanted[..., position : position + 1], 0), 1, axis=-1)
            return {"cells": logits}

    found = model_card.cell_accuracy(Perfect(), training_data)
    assert found == dict.fromkeys(["presence", "size", "color", "material", "shape"], 1.0)


def test_programs_and_phrases_count_as_read_when_all_of_them_is_right(training_data):
    class Reader:
        def predict(self, inputs, **_):
            row = {tuple(words): number for number, words in enumerate(training_data.tokens)}
            programs = training_data.programs[[row[tuple(words)] for words in inputs["question"]]]
            program = np.eye(len(NODES))[programs]
            program[::4, 2] = 1  # one node of every fourth question undecided, and the first of equals is taken
            wanted = batches.phrase_targets(programs)
            phrases = [np.eye(size)[wanted[..., entry]] for entry, size in enumerate(batches.SLOT_SIZES)]
            return {"program": program, "phrases": np.concatenate(phrases, axis=-1)}

    found = model_card.reading_accuracy(Reader(), training_data)
    assert 0.7 < found["programs"] < 0.8 and found["phrases"] == dict.fromkeys(np.unique(training_data.files), 1.0)


@pytest.fixture(scope="module")
def data(training_dir):
    return training_set.load(training_dir, {"simple": 1, "complex": 1})


def test_the_object_asked_for_is_the_one_the_program_ends_at(data):
    rows = data.rows_of_kind()["simple"]
    pixels = model_card.visible_pixels(data, rows)
    for row, count in zip(rows, pixels, strict=True):
        asked, unique = data.programs[row][:2]
        assert training_set.NODES[asked].startswith("query_") and training_set.NODES[unique] == "unique"
        found = [place for place in range(10) if data.sets[row][1] >> place & 1]
        assert len(found) == 1
        assert count == np.count_nonzero(data.segmentation[data.image_of[row]] == found[0] + 1) > 0


def test_simple_questions_are_split_by_visible_pixels(data):
    rows = data.rows_of_kind()["simple"]
    correct = np.arange(len(rows)) % 3 > 0
    found = model_card.by_visible_pixels(data, rows, correct)
    pixels = model_card.visible_pixels(data, rows)
    bounds = {"0 to 39": (0, 40), "40 to 99": (40, 100), "100 to 199": (100, 200), "200 or more": (200, 1e9)}
    assert list(found) == list(bounds)
    for name, (low, high) in bounds.items():
        np.testing.assert_array_equal(found[name], correct[(pixels >= low) & (pixels < high)])


def test_rows_are_spread_over_all_images(data):
    every = data.rows_of_kind()
    for kind, rows in model_card.spread_rows(data, 5).items():
        assert len(set(rows)) == 5 and rows[0] == every[kind][0] and rows[-1] == every[kind][-1]
        np.testing.assert_array_equal(model_card.spread_rows(data, 10**6)[kind], every[kind])


class Linear:
    """The logit of answer 1 follows the mean brightness and the question's first word; answer 0 is always zero."""

    def __init__(self, slope, bias):
        self.slope, self.bias = slope, bias

    def predict_on_batch(self, inputs):
        images, questions = inputs
        bright = images.reshape(len(images), -1).mean(axis=1)
        return np.stack([np.zeros(len(images)), self.slope * bright + self.bias + questions[:, 0]], axis=1)


def test_logits_on_blank_images_are_those_of_the_correct_answer():
    # Of answer 1: images 10, 11, -20; black -20, -19, -20; gray -5, -4, -5. Of answer 0 always zero.
    # Leads of 19 and 18 are confident, those of 10 and 11 are not.
    images = np.full((5, 4, 4, 3), 255, np.uint8) * np.array([1, 1, 0, 0, 0], np.uint8)[:, None, None, None]
    data = SimpleNamespace(images=images, image_of=np.arange(5))
    data.tokens, data.answers = np.array([0, 1, 0, 1, 2])[:, None], np.array([1, 1, 1, 0, 0])
    for size in (1, 2, 64):
        found = model_card.blank_logits(Linear(30.0, -20.0), data, np.arange(5), size)
        assert found == BlankLogits(5, 4, 11.0, 0.0, 20.0, 5.0, 2)
    data.tokens, data.answers = np.zeros((5, 1), int), np.array([1, 1, 0, 0, 0])
    for bias, confident in ((12.0, 2), (11.0, 0)):  # 1 - 6e-6 and 1 - 1.7e-5
        found = model_card.blank_logits(Linear(0.0, bias), data, np.arange(5))
        assert (found.correct, found.confident) == (2, confident)


def test_the_card_counts_by_kind_family_and_answer():
    answers = np.array([ANSWERS.index(name) for name in ("cube", "red", "cube", "yes")])
    files = np.array(["simple", "simple", "one_hop", "compare_integer"])
    counted = SimpleNamespace(answers=answers, files=files, wordings=np.full(4, "plain"))
    correct = np.array([True, False, True, True])
    card = model_card.model_card(counted, correct, {"seed": 7}, [{"stage": "one", "steps": "10"}], "a command")
    assert "| simple | 50.0 | 2 |" in card
    assert "| one_hop | 100.0 | 1 |" in card
    assert "| shape | 100.0 | 1 | 100.0 | 1 |" in card
    assert "| color | 0.0 | 1 | – | 0 |" in card
    assert "| one | 10 |" in card and "seed: 7." in card


def test_the_section_on_errors():
    true, false = np.ones(9, bool), np.zeros(9, bool)
    by_pixels = {"0 to 39": np.append(true[:1], false[:3]), "40 to 99": true[:0], "100 or more": true[:2]}
    trained = {"simple": np.append(true, False), "complex": np.array([True, False])}
    card = "\n".join(model_card.error_section(by_pixels, trained))
    assert "| 0 to 39 | 25.0 | 4 |" in card and "| 40 to 99 | – | 0 |" in card
    assert "90.0 % of 10 simple ones and 50.0 % of 2 complex ones correctly." in card


def test_the_section_on_blank_images_names_those_out_of_range():
    tame, wild = BlankLogits(10, 8, 9.0, 4.0, 3.0, 2.0, 4), BlankLogits(10, 0, 9.0, 4.0, 46.0, 2.0, 0)
    assert "No blank image" in "\n".join(model_card.blank_section({"simple": tame}))
    text = "\n".join(model_card.blank_section({"simple": tame, "complex": wild}))
    assert "or further: black for complex questions." in text and "| 50.0 |" in text and "| – |" in text


def test_the_card_of_a_network_to_start_from_is_text(tmp_path):
    card = tmp_path / "MODEL_CARD.md"
    card.write_bytes(b"# A\n## Training\n<img src=x onerror=a()> ![p](http://p) \x1b[31m\xff | cell |\n## Limits\nnone")
    text = "\n".join(model_card.earlier_training(tmp_path))
    assert "&lt;img" in text and "!\\[p](http://p)" in text and "\\x1b\\[31m\ufffd | cell |" in text
    assert "<" not in text and "\x1b" not in text and "none" not in text
    card.write_bytes(b"## Training\n" * 100_000)
    with pytest.raises(BadInput, match="more than 1 MiB"):
        model_card.earlier_training(tmp_path)
    card.unlink()
    os.mkfifo(card)
    assert model_card.earlier_training(tmp_path) == []
