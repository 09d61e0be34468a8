"""What comparisons compare, against the answers of their questions."""

import numpy as np

from clevr_xai.training import batches, losses, operands
from clevr_xai.training.training_set import NODES
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, INTEGERS

HOLDS = {"equal": lambda one, other: one == other, "less": lambda one, other: one < other}


def test_operands_give_the_answers(training_data):
    """The program computes its first argument first: it stands last here."""
    attributes = training_data.attributes[training_data.image_of]
    found = operands.operands(training_data.programs, training_data.sets, attributes)
    named = np.array([NODES[node] for node in training_data.programs[:, 0]])
    compares = np.isin(named, [name for name in NODES if name.startswith("equal_") or name.endswith("_than")])
    assert ((found >= 0).all(axis=1) == compares).all() and (found[~compares] == -1).all()
    assert len(set(named[compares])) >= 6
    for row in np.flatnonzero(compares):
        second, first = found[row]
        if named[row].startswith("greater"):
            first, second = second, first
        answer = HOLDS[named[row].partition("_")[0].replace("greater", "less")](first, second)
        assert answer == (ANSWERS[training_data.answers[row]] == "yes")


def test_operands_are_of_the_attribute_or_numbers(training_data):
    found = operands.operands(
        training_data.programs, training_data.sets, training_data.attributes[training_data.image_of]
    )
    for row in np.flatnonzero(found[:, 0] >= 0):
        words = [ANSWERS[place] for place in found[row]]
        kind = NODES[training_data.programs[row, 0]]
        numbers = kind.endswith("_than") or kind == "equal_integer"
        assert all((word in map(str, INTEGERS)) == numbers for word in words)
        if not numbers:
            assert set(words) <= set(ATTRIBUTES[kind.removeprefix("equal_")])


def test_a_batch_tells_operands(training_data, monkeypatch):
    codes = np.tile(np.arange(len(training_data.tokens), dtype=np.float32)[:, None], (1, 128))
    monkeypatch.setattr(training_data, "codes", np.stack([codes, codes]))
    inputs, targets = batches.answering_batch(training_data, np.random.default_rng(0), 4, 12, 128)
    rows = inputs["code"][..., 0].astype(int)
    expected = operands.operands(
        training_data.programs[rows], training_data.sets[rows], training_data.attributes[training_data.image_of[rows]]
    )
    assert targets["operands"].tolist() == expected.tolist() and (expected >= 0).any()


def test_sides_that_are_right_and_sure_cost_nothing_and_others_do_not_count():
    targets = np.array([[[3, 4], [-1, -1]]], np.int32)
    logits = np.zeros((1, 2, 2, len(ANSWERS)), np.float32)
    assert float(losses.operand_loss(targets, logits)[0]) == np.float32(np.log(len(ANSWERS)))
    logits[0, 0, 0, 3] = logits[0, 0, 1, 4] = 40
    assert float(losses.operand_loss(targets, logits)[0]) < 1e-6
    assert float(losses.operand_loss(np.full_like(targets, -1), logits)[0]) == 0
