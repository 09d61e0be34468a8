"""Auxiliary targets, compared with the programs and the scenes that they are of."""

import numpy as np
import pytest

from clevr_xai.training import batches
from clevr_xai.training.training_set import MAX_NODES, NODES, cell_of
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES


def test_compared_objects_are_those_whose_attributes_agree_or_not(training_data):
    objects = batches.compared_objects(training_data.programs, training_data.sets)
    named = np.array([NODES[node] for node in training_data.programs[:, 0]])
    compares = np.char.startswith(named, "equal_") & (named != "equal_integer")
    assert ((objects >= 0).all(axis=1) == compares).all() and compares.sum() > 10
    for row in np.flatnonzero(compares):
        position = list(ATTRIBUTES).index(named[row].removeprefix("equal_"))
        first, second = training_data.attributes[training_data.image_of[row], objects[row], position]
        assert (first == second) == (ANSWERS[training_data.answers[row]] == "yes")


def test_only_the_two_pairs_of_the_compared_objects_carry_the_answer():
    objects = np.array([[[0, 2], [-1, -1], [1, 3]]])
    answers = np.array([[ANSWERS.index("yes"), ANSWERS.index("red"), ANSWERS.index("no")]])
    cells = np.array([[5, 6, 9, 6, -1]])  # objects 1 and 3 share a cell: what it shows cannot be told
    pairs = np.array([[[5, 9], [9, 5], [5, 5], [5, 6], [1, 2]]])
    counted = np.array([[True, True, True, True, False]])
    found = batches.comparison_targets(objects, answers, cells, pairs, counted)[0]
    assert found[0].tolist() == [batches.EQUAL, batches.EQUAL, batches.OTHER, batches.OTHER, -1]
    assert (found[1:] == -1).all()
    unlike = batches.comparison_targets(objects[:, :1], answers[:, 2:], cells, pairs, counted)[0, 0]
    assert unlike.tolist() == [batches.DIFFERENT, batches.DIFFERENT, batches.OTHER, batches.OTHER, -1]


def test_batches_have_operands_and_the_pairs_of_their_comparisons(training_data, coded_data, monkeypatch):
    monkeypatch.setattr(batches, "SHIFT", 0)
    number = 0
    for seed in range(6):
        inputs, wanted = batches.answering_batch(coded_data, np.random.default_rng(seed), 4, 12, 128)
        rows = np.abs(inputs["code"][..., 0]).astype(int) - 1
        asked = training_data.programs[rows], training_data.sets[rows]
        operands = batches.operand_targets(*asked, training_data.attributes[training_data.image_of[rows]])
        assert (wanted["operands"] == operands).all() and (operands >= 0).any()
        for image, question in np.argwhere((wanted["compared"] > 0).any(axis=2)):
            row = rows[image, question]
            objects = batches.compared_objects(training_data.programs[row], training_data.sets[row])
            cells = cell_of(training_data.centres[training_data.image_of[row], objects])
            these = inputs["pairs"][image][wanted["compared"][image, question] > 0]
            mirrored = cells // 7 * 7 + 6 - cells % 7
            assert sorted(map(tuple, these)) in [sorted([tuple(each), tuple(each[::-1])]) for each in (cells, mirrored)]
            number += 1
    assert number > 5


def test_operands_give_the_answers(training_data):
    """The program computes its first argument first: it stands last here."""
    attributes = training_data.attributes[training_data.image_of]
    found = batches.operand_targets(training_data.programs, training_data.sets, attributes)
    named = np.array([NODES[node] for node in training_data.programs[:, 0]])
    compares = np.isin(named, [name for name in NODES if name.startswith("equal_") or name.endswith("_than")])
    assert ((found >= 0).all(axis=1) == compares).all() and (found[~compares] == -1).all()
    assert len(set(named[compares])) >= 6
    for row in np.flatnonzero(compares):
        second, first = found[row]
        kind = named[row].partition("_")[0]
        answer = {"equal": first == second, "less": first < second, "greater": first > second}[kind]
        assert answer == (ANSWERS[training_data.answers[row]] == "yes")


def placed(*names):
    nodes = [NODES.index(name) for name in names]
    (found,) = batches.phrase_targets(np.array([nodes + [0] * (MAX_NODES - len(nodes))]))
    return {place: tuple(map(int, found[place])) for place in range(batches.SLOTS) if found[place].any()}


def value(name, word):
    return ATTRIBUTES[name].index(word) + 1


RED_CUBE = ("filter_shape cube", "filter_color red")
RED_CUBE_ENTRIES = (0, value("color", "red"), 0, value("shape", "cube"), 0)
SMALL = ("filter_size small",)
SMALL_ENTRIES = (value("size", "small"), 0, 0, 0, 0)


def test_a_chain_goes_from_the_described_objects_to_those_that_describe_them():
    found = placed("query_size", "unique", *RED_CUBE, "relate left", "unique", *SMALL, "same_color", "unique", "scene")
    assert found == {1: (*RED_CUBE_ENTRIES[:4], 1), 2: (*SMALL_ENTRIES[:4], 6)}


@pytest.mark.parametrize("later", [SMALL, (*SMALL, "filter_color red"), (*SMALL, "relate front", "unique", *RED_CUBE)])
def test_a_phrase_has_its_slot_whatever_follows(later):
    found = placed("equal_size", "query_size", "unique", *later, "scene", "query_size", "unique", *RED_CUBE, "scene")
    assert found[1 + batches.CHAIN] == RED_CUBE_ENTRIES


def test_phrases_before_a_join_are_the_trunk():
    found = placed("count", *SMALL, "union", *RED_CUBE, "scene", "relate right", "unique", *RED_CUBE, "scene")
    assert found == {0: SMALL_ENTRIES, 1: RED_CUBE_ENTRIES, 5: (0, 0, 0, 0, 2), 6: RED_CUBE_ENTRIES}


def test_every_filter_and_relation_of_real_programs_has_a_slot(training_data):
    named = np.array(NODES)[training_data.programs]
    words = np.any([np.char.startswith(named, word) for word in ("filter", "relate", "same")], axis=0)
    found = batches.phrase_targets(training_data.programs)
    assert ((found > 0).sum(axis=(1, 2)) == words.sum(axis=1)).all()
    assert (found.max(axis=(0, 1)) < batches.SLOT_SIZES).all()


def square(row, column, side, item=1):
    """(1, 128, 128), one object's pixels."""
    segmentation = np.zeros((1, 128, 128), np.uint8)
    segmentation[0, row : row + side, column : column + side] = item
    return segmentation


def test_a_cell_shows_the_object_with_most_of_its_pixels():
    segmentation = square(7, 7, 16)  # all of the first cell's square
    segmentation[0, 7:23, 23:33] = 2
    segmentation[0, 7:23, 33:39] = 3  # less of the second cell's than object 2
    segmentation[0, 39:44, 7:12] = 4  # 25 pixels are too few
    segmentation[0, 71:76, 7:12] = 5
    segmentation[0, 76, 7] = 5
    segmentation[0, 120:127, 121:128] = 6  # at the border: of the cell next to it
    found = batches.dominant_objects(segmentation)[0].reshape(7, 7)
    assert found[0, :3].tolist() == [0, 1, -1]
    assert found[2, 0] == -1 and found[4, 0] == 4 and found[6, 6] == 5
    assert (found >= 0).sum() == 4


def test_a_centre_counts_more_than_pixels():
    segmentation = square(7, 7, 32)
    centres = np.full((1, 3, 2), np.nan)
    centres[0, 0] = 22.9, 22.9  # the first object's, in cell 0
    centres[0, 1] = 32, 15  # the second's, in cell 1, of which it has no pixel left
    centres[0, 2] = 31, 16  # comes later in the list
    attributes = np.arange(12).reshape(1, 3, 4)
    found = batches.cell_targets(centres, segmentation, attributes)[0]
    assert found[0].tolist() == [0, 1, 2, 3, batches.CENTRE]
    assert found[1].tolist() == [4, 5, 6, 7, batches.CENTRE]
    assert found[7].tolist() == found[8].tolist() == [0, 1, 2, 3, batches.PART]
    assert (found[[2, 9, 14, 48]] == -1).all()
