"""The official wording: its agreement, its use of "other". tests/clevr_xai/test_embedded.py has its sentences."""

import collections
import json
import re

import pytest

from clevr_xai import vocabulary
from clevr_xai.generation import families, questions

NOUNS = [word for value in ("thing", *vocabulary.SHAPES) for word in vocabulary.SYNONYMS[value]]
ADJECTIVES = [
    word
    for name in ("size", "color", "material")
    for value in vocabulary.ATTRIBUTES[name]
    for word in vocabulary.SYNONYMS.get(value, (value,))
]
PHRASE = re.compile(rf"\b((?:(?:{'|'.join(ADJECTIVES)}) )*)({'|'.join(NOUNS)})(s?)\b")
RELATION = re.compile(
    "|".join(text for value in vocabulary.RELATIONS for text in sorted(vocabulary.SYNONYMS[value], key=len)[::-1])
)


@pytest.fixture(scope="module")
def official(embedded_scenes):
    """Questions of both kinds, several of every family in each of its frames."""
    return {
        kind: [question for seed in range(rounds) for question in questions.generate(embedded_scenes, kind, seed)]
        for kind, rounds in (("simple", 1), ("complex", 3))
    }


def skeleton(sentence):
    """Return a sentence with N for each noun phrase, R for each relation, and "a" for "an"."""
    text = PHRASE.sub(lambda match: f"N{match[3]}", sentence.lower().removesuffix("?"))
    return re.sub(r"\ban N", "a N", RELATION.sub("R", text))


def test_nouns_verbs_and_articles_agree(official):
    for question in [*official["simple"], *official["complex"]]:
        text = question["question"]
        assert re.fullmatch(r"[A-Z][a-z]*( [a-z]+;?)* [a-z]+\?", text)
        for article, word in re.findall(r"\b([Aa]n?) (\w+)", text):
            assert (article.lower() == "an") == (word[0] in "aeiou"), text
        text = skeleton(text)
        assert not re.search(r"\b(the|a|another)( other)? Ns", text), text
        assert not re.search(r"\b(any|many|of|more|fewer|either|or) N\b", text), text
        assert not re.search(r"Ns that (is|has)\b|\bN that (are|have)\b|Ns (is|has)\b", text), text


def description(program, end):
    """Return what the filters of a phrase say, from its last node on."""
    found = {}
    while program[end]["type"].startswith("filter_"):
        found[program[end]["type"].removeprefix("filter_")] = program[end]["value_inputs"][0]
        (end,) = program[end]["inputs"]
    return found, end


def test_other_is_said_where_the_nouns_agree_and_never_where_the_sets_cannot_overlap(official):
    said = collections.Counter()
    for question in official["complex"]:
        program = question["program"]
        same = [position for position, node in enumerate(program) if node["type"].startswith("same_")]
        other = re.search(r"\b(an)?other\b", question["question"]) is not None
        if not same:
            assert not other
        elif question["question_family_index"] >= 8:
            (position,) = same
            anchor, _ = description(program, program[position]["inputs"][0] - 1)
            last = len(program) - 2 - (program[-1]["type"] not in ("count", "exist"))
            things, start = description(program, last)
            assert start == position
            overlap = all(anchor[name] == value for name, value in things.items() if name in anchor)
            assert other == (overlap and anchor.get("shape") == things.get("shape")), question["question"]
            said[other] += 1
    assert min(said.values()) > 200


@pytest.mark.parametrize("kind", ["simple", "complex"])
def test_programs_and_answers_do_not_depend_on_the_wording(kind, asked, asked_plainly, embedded_scenes):
    reworded = asked_plainly[kind]
    assert len(reworded) == len(asked[kind])
    differ = 0
    for one, other in zip(asked[kind], reworded, strict=True):
        differ += one["question"] != other["question"]
        assert {**one, "question": ""} == {**other, "question": ""}
    assert differ > 0.9 * len(reworded)
    again, other = (questions.generate(embedded_scenes[:20], kind, seed) for seed in (7, 8))
    assert json.dumps(again) == json.dumps(asked[kind][: len(again)])
    assert again != other


def test_every_sentence_is_read_without_an_unknown_word(official):
    for kind in official.values():
        sentences = [question["question"] for question in kind]
        numbers = vocabulary.encode(sentences, vocabulary.QUESTION_WORDS)
        assert not (numbers == vocabulary.UNKNOWN).any()
    assert numbers.max() == len(vocabulary.QUESTION_WORDS) + 1


def test_frames_are_drawn_equally_often_and_one_listed_twice_twice_as_often(embedded_scenes):
    many = [
        skeleton(question["question"])
        for seed in range(5)
        for question in questions.generate(embedded_scenes, "simple", seed)
    ]
    for family in families.load("simple"):
        attribute = family.steps[-1].kind.removeprefix("query_")
        listed = collections.Counter(
            text.lower().removesuffix("?").replace("{1}", "N").replace("{a1}", "a N")
            for text in questions.texts(family)
        )
        counts = {text: many.count(text) for text in listed}
        total = sum(counts.values())
        assert total > 900
        assert (attribute == "shape") == (max(listed.values()) == 2)
        for text, times in listed.items():
            assert counts[text] / total == pytest.approx(times / sum(listed.values()), abs=0.05)
