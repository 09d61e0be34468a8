"""The two objects that a question compares, from its program, against the program's own nodes."""

import numpy as np

from clevr_xai.training import batches, compared
from clevr_xai.training.training_set import NODES, cell_of
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES


def test_compared_objects_are_those_whose_attributes_agree_or_not(training_data):
    """What a program says of the two is what their attributes say, for every question that compares."""
    objects = compared.compared_objects(training_data.programs, training_data.sets)
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
    found = compared.pair_targets(objects, answers, cells, pairs, counted)[0]
    assert found[0].tolist() == [compared.ALIKE, compared.ALIKE, compared.OTHER, compared.OTHER, -1]
    assert (found[1:] == -1).all()
    unlike = compared.pair_targets(objects[:, :1], answers[:, 2:], cells, pairs, counted)[0, 0]
    assert unlike.tolist() == [compared.UNLIKE, compared.UNLIKE, compared.OTHER, compared.OTHER, -1]


def test_a_batch_tells_the_pairs_of_its_comparisons(training_data, monkeypatch):
    codes = np.tile(np.arange(len(training_data.tokens), dtype=np.float32)[:, None], (1, 128))
    monkeypatch.setattr(training_data, "codes", np.stack([codes, codes]))
    told = 0
    for seed in range(6):
        inputs, targets = batches.answering_batch(training_data, np.random.default_rng(seed), 4, 12, 128, shift=0)
        rows = inputs["code"][..., 0].astype(int)
        for image, question in np.argwhere((targets["compared"] > 0).any(axis=2)):
            row = rows[image, question]
            objects = compared.compared_objects(training_data.programs[row], training_data.sets[row])
            cells = cell_of(training_data.centres[training_data.image_of[row], objects])
            these = inputs["pairs"][image][targets["compared"][image, question] > 0]
            mirrored = cells // 7 * 7 + 6 - cells % 7
            assert sorted(map(tuple, these)) in [sorted([tuple(each), tuple(each[::-1])]) for each in (cells, mirrored)]
            told += 1
    assert told > 5
