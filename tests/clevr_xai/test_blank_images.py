"""What a network says of blank images: closed forms, and the section of the card."""

import numpy as np
import pytest

from clevr_xai import blank_images
from clevr_xai.blank_images import Facts


def linear(slope, bias):
    """The logit of answer 1 follows the mean brightness and the question's first word; answer 0 is always zero."""

    def logits(images, questions):
        bright = images.reshape(len(images), -1).mean(axis=1)
        return np.stack([np.zeros(len(images)), slope * bright + bias + questions[:, 0]], axis=1)

    return logits


@pytest.fixture
def images():
    return np.full((5, 4, 4, 3), 255, np.uint8) * np.array([1, 1, 0, 0, 0], np.uint8)[:, None, None, None]


def test_the_figures_are_those_of_the_true_answer(images):
    asked, answers = np.array([[0], [1], [0], [1], [2]]), np.array([1, 1, 1, 0, 0])
    found = blank_images.facts(linear(30.0, -20.0), images, asked, answers, batch_size=2)
    # Of answer 1: images 10, 11, -20; black -20, -19, -20; grey -5, -4, -5. Of answer 0 always zero.
    # Leads of 19 and 18 are sure, those of 10 and 11 are not.
    assert found == Facts(5, 4, 11.0, 0.0, 20.0, 5.0, 2)


def test_batches_and_fractions_change_nothing(images):
    asked, answers = np.zeros((5, 1), int), np.ones(5, int)
    one, whole = (blank_images.facts(linear(3.0, 1.0), images, asked, answers, size) for size in (1, 64))
    assert one == whole == blank_images.facts(linear(3.0, 1.0), images.astype(np.float32) / 255, asked, answers)


def test_confident_answers_are_counted_among_the_right_ones(images):
    asked = np.zeros((5, 1), int)
    sure = blank_images.facts(linear(0.0, 12.0), images, asked, np.array([1, 1, 0, 0, 0]))
    assert (sure.right, sure.sure) == (2, 2)  # 1 - 6e-6
    assert blank_images.facts(linear(0.0, 11.0), images, asked, np.array([1, 1, 0, 0, 0])).sure == 0  # 1 - 1.7e-5


def test_the_card_says_which_blanks_are_wild():
    tame, wild = Facts(10, 8, 9.0, 4.0, 3.0, 2.0, 4), Facts(10, 0, 9.0, 4.0, 46.0, 2.0, 0)
    assert "No blank image" in "\n".join(blank_images.card_lines({"simple": tame}))
    text = "\n".join(blank_images.card_lines({"simple": tame, "complex": wild}))
    assert "or further: black for complex questions." in text and "| 50.0 |" in text and "| – |" in text
