"""Counts that the papers give, and sentences as tokens."""

import numpy as np
import pytest

from attribution.errors import BadInput
from clevr_xai import vocabulary
from clevr_xai.data import Dataset
from clevr_xai.vocabulary import ANSWERS, QUESTION_WORDS


def test_the_sizes_of_the_vocabularies():
    assert len(vocabulary.ANSWERS) == len(set(vocabulary.ANSWERS)) == 28
    assert len(vocabulary.QUESTION_WORDS) == len(set(vocabulary.QUESTION_WORDS)) == 80


@pytest.mark.parametrize(
    ("answer", "text"), [(True, "yes"), (False, "no"), (0, "0"), (1, "1"), (10, "10"), ("cyan", "cyan")]
)
def test_raw_answers_become_words(answer, text):
    assert vocabulary.answer_text(answer) == text


@pytest.mark.parametrize("answer", ["pink", 11, "Yes", None])
def test_other_answers_are_refused(answer):
    with pytest.raises(ValueError, match="is no answer of CLEVR"):
        vocabulary.answer_text(answer)


def test_words_are_numbered_behind_padding_and_unknown():
    words = ["is", "there", "a", "ball"]
    encoded = vocabulary.encode(["Is there a ball?", "IS there; a dog"], words, length=6)
    assert encoded.tolist() == [[2, 3, 4, 5, 0, 0], [2, 3, 4, 1, 0, 0]]
    assert encoded.dtype == np.int32


def test_a_long_sentence_is_refused():
    with pytest.raises(ValueError, match="3 words does not fit into 2"):
        vocabulary.encode(["a a a"], ["a"], length=2)


@pytest.mark.parametrize("kind", ["simple", "complex"])
def test_every_word_of_the_embedded_questions_is_known(kind):
    encoded = vocabulary.encode([question["question"] for question in Dataset(kind).questions], QUESTION_WORDS)
    assert not (encoded == vocabulary.UNKNOWN).any()
    assert encoded.max() < len(QUESTION_WORDS) + vocabulary.FIRST_WORD


def test_lists_are_read_from_the_highest_version(tmp_path):
    for version, words in ((1, "old"), (10, "new"), (9, "older")):
        assets = tmp_path / str(version) / "assets"
        assets.mkdir(parents=True)
        (assets.parent / "saved_model.pb").touch()
        (assets / vocabulary.WORDS_FILE).write_text(f"{words}\nword\n")
        (assets / vocabulary.ANSWERS_FILE).write_text("".join(f"{answer}\n" for answer in ANSWERS))
    assert vocabulary.read_assets(tmp_path) == (["new", "word"], list(ANSWERS))
    assert vocabulary.read_assets(tmp_path / "9")[0] == ["older", "word"]


def test_a_model_without_lists_is_refused(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(BadInput, match=r"question_words\.txt"):
        vocabulary.read_assets(tmp_path)
