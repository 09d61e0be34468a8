"""How slots become words."""

import random

import pytest

from clevr_xai.generation import sentences

RED_CUBE = (None, "red", None, "cube")
SMALL = ("small", None, None, None)


def said(text, choices, seeds=60):
    return {sentences.put(text, choices, random.Random(seed)) for seed in range(seeds)}


def test_descriptions_relations_and_plurals():
    assert said("How many {1s}?", {1: (None, RED_CUBE)}) == {"How many red cubes?", "How many red blocks?"}
    assert said("{R2} {1}", {1: (None, SMALL), 2: ("behind", None)}) == {
        f"behind {size} {noun}" for size in ("small", "tiny") for noun in ("thing", "object")
    }


def test_an_article_fits_what_follows():
    assert said("Is {a1} visible?", {1: (None, (None,) * 4)}) == {"Is a thing visible?", "Is an object visible?"}


@pytest.mark.parametrize(
    ("description", "expected"),
    [((None, "red", None, None), {"other red", "another red"}), ((None, "blue", None, None), {"blue", "a blue"})],
)
def test_other_is_said_only_of_what_could_be_the_first_object(description, expected):
    choices = {1: (None, RED_CUBE), 2: (None, description)}
    found = {text.rsplit(" ", 1)[0] for text in said("{other2}", choices) | said("{another2}", choices)}
    assert found == expected


def test_words_in_brackets_are_left_out_half_of_the_time():
    texts = [sentences.put("that [that is] x", {}, random.Random(seed)) for seed in range(400)]
    assert set(texts) == {"that x", "that that is x"}
    assert 150 < texts.count("that x") < 250
