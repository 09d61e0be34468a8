"""The search against exhaustive enumeration, and the rule of balanced answers."""

import random

import pytest

from clevr_xai.generation import families
from clevr_xai.generation.families import SceneIndex, Search, _overrepresented


@pytest.mark.parametrize(
    ("counts", "refused"),
    [
        ({"a": 0, "b": 0}, set()),
        ({"a": 1, "b": 0}, {"a"}),
        ({"a": 11, "b": 10}, set()),
        ({"a": 12, "b": 10}, {"a"}),
        ({"a": 26, "b": 26, "c": 5, "d": 5, "e": 0}, {"a", "b"}),
        ({"a": 25, "b": 25, "c": 5, "d": 5, "e": 0}, set()),
        ({"a": 31, "b": 31, "c": 6, "d": 5, "e": 0}, {"a", "b"}),
    ],
)
def test_which_answers_were_given_too_often(counts, refused):
    assert {answer for answer in counts if _overrepresented(counts, answer)} == refused


def item(size, color, material, shape):
    return {"size": size, "color": color, "material": material, "shape": shape}


TWINS = {  # two objects that nothing tells apart, and one that differs in colour only
    "objects": [
        item("large", "red", "metal", "cube"),
        item("large", "red", "metal", "cube"),
        item("large", "blue", "metal", "cube"),
    ],
    "relationships": {
        "left": [[], [0], [0, 1]],
        "right": [[1, 2], [2], []],
        "front": [[], [0], [0, 1]],
        "behind": [[1, 2], [2], []],
    },
}


def family(file, index):
    return next(known for known in families.load("complex") if (known.file, known.index) == (file, index))


def search(known, scene=TWINS, seed=0, counts=None):
    return Search(
        known, SceneIndex(scene), counts or dict.fromkeys(known.possible_answers, 0), random.Random(seed)
    ).run()


def test_a_refused_answer_is_not_given():
    counts = {"cube": 12, "sphere": 10, "cylinder": 10}
    assert search(family("zero_hop", 5), counts=counts) is None
    exist = family("zero_hop", 1)
    for seed in range(20):
        for refused, kept in ((True, "small"), (False, "large")):
            counts = {True: 0, False: 0} | {refused: 1}
            _, (_, description) = search(exist, counts=counts, seed=seed)
            fits = all(
                value in (None, *{item[name] for item in TWINS["objects"]})
                for name, value in zip(("size", "color", "material", "shape"), description, strict=True)
            )
            assert fits != refused, kept


@pytest.mark.parametrize("file_and_index", [("single_and", 2), ("single_and", 4), ("one_hop", 3), ("same_relate", 20)])
def test_remembering_failures_changes_nothing(file_and_index, embedded_scenes):
    """With one answer left to give, the search must find a question exactly if the forgetful search does.

    In ``single_and`` a description that makes the question degenerate must not rule out another one that
    selects the same object.
    """
    known = family(*file_and_index)
    found = {True: 0, False: 0}
    for scene in [scene for scene in embedded_scenes if len(scene["objects"]) <= 4]:
        for wanted in known.possible_answers:
            counts = {answer: 100 * (answer != wanted) for answer in known.possible_answers}
            remembering = Search(known, SceneIndex(scene), counts, random.Random(0))
            forgetful = Search(known, SceneIndex(scene), counts, random.Random(1))
            remembering.rejected = forgetful.rejected = set(counts) - {wanted}
            forgetful.failed = _NeverFull()
            answers = [searched.run() is not None for searched in (remembering, forgetful)]
            assert answers[0] == answers[1]
            found[answers[0]] += 1
    assert min(found.values()) > 0


class _NeverFull(set):
    """A memory that keeps nothing."""

    def add(self, state):
        pass
