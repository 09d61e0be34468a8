"""Counts that the papers give."""

import pytest

from clevr_xai import vocabulary


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
