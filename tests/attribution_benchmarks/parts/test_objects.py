"""Classes, and drawings whose parts can be left out."""

import numpy as np
import pytest

from attribution_benchmarks.parts import objects
from attribution_benchmarks.parts.classes import CLASSES, PARTS, allowed, minimal, shared_pair, sufficient_sets
from attribution_benchmarks.stats.coalitions import coalitions


def names(sets):
    """Return rows of coalitions as sets of the parts' names."""
    return {frozenset(np.array(PARTS)[one]) for one in coalitions(5)[sets]}


def test_whole_objects_have_one_class():
    for label, combinations in enumerate(CLASSES.values()):
        found = allowed(np.array(combinations), np.ones((len(combinations), 5), bool))
        np.testing.assert_array_equal(found, np.broadcast_to(np.arange(len(CLASSES)) == label, found.shape))


def test_without_parts_every_class_is_allowed():
    assert allowed(np.zeros((1, 5), int), np.zeros((1, 5), bool)).all()


@pytest.mark.parametrize(
    ("variants", "expected"),
    [
        ([2, 0, 0, 0, 0], [{"crest"}]),
        ([0, 0, 2, 0, 2], [{"feet"}, {"wing"}]),  # either is enough
        ([0, 2, 1, 0, 0], [{"eye", "feet", "wing"}]),  # wing and feet decide jointly
        ([0, 0, 0, 0, 0], [set(PARTS)]),
    ],
)
def test_minimal_sufficient_sets(variants, expected):
    assert names(sufficient_sets(np.array([variants]))[0]) == set(map(frozenset, expected))


def test_two_parts_identify_a_prototype_unless_another_has_both():
    (combination,) = CLASSES["prototype_1"]
    sets = names(sufficient_sets(np.array([combination]))[0])
    assert {len(each) for each in sets} == {2} and len(sets) == 8
    assert not {frozenset(["crest", "eye"]), frozenset(["tail", "wing"])} & sets
    pair, (parts, others) = shared_pair(np.array(combination), 5)
    assert pair == [6, 7] and not (parts & others).any() and parts.sum() == others.sum() == 2


def test_a_set_with_a_sufficient_subset_is_not_minimal():
    np.testing.assert_array_equal(minimal(np.array([[False, True, True, True]])), [[False, True, True, False]])


def test_a_drawing_is_the_same_whatever_the_others_and_differs_between_splits():
    first, again, other = (objects.draw(split, 13) for split in ("test", "test", "train"))
    np.testing.assert_array_equal(first.layers, again.layers)
    assert (first.ground != other.ground).any()
    assert first.busy and first.label == 3 and not objects.draw("test", 3).busy


def test_a_part_changes_its_own_pixels_alone():
    drawing = objects.draw("test", 15)
    images, masks = objects.interventions(drawing), objects.masks_of(drawing)
    assert images.shape == (36, 48, 48, 3) and images.dtype == np.float32 and 0 <= images.min() <= images.max() <= 1
    for number, part in enumerate(PARTS):
        changed = (images[31] != images[31 - 2**number]).any(axis=2)
        np.testing.assert_array_equal(changed, masks[objects.LAYERS.index(part)])
        assert changed.sum() > 12
    for number in range(objects.BACKGROUND_OBJECTS):
        np.testing.assert_array_equal((images[31] != images[32 + number]).any(axis=2), masks[number])
    assert not (masks[objects.LAYERS.index("body")] & masks[objects.LAYERS.index("wing")]).any()


def test_composing_draws_front_over_back():
    ground = np.full((1, 1, 1, 3), 100, np.float32)
    half = np.array([50, 0, 0, 127.5], np.uint8)  # half covered, in color times coverage
    full = np.array([10, 20, 30, 255], np.uint8)
    layers = np.stack([full, half])[np.newaxis, :, np.newaxis, np.newaxis]
    kept = np.array([[False, False], [True, False], [True, True]])
    found = objects.compose(ground, layers, kept)[:, 0, 0] * 255
    np.testing.assert_allclose(found, [[100, 100, 100], [10, 20, 30], [55, 10, 15]], atol=1e-4)
