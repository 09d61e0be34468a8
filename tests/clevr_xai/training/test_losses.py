"""Losses in closed form."""

import numpy as np
import pytest

from clevr_xai.training import batches, losses


def test_cells_that_are_right_and_sure_cost_nothing():
    targets = np.full((1, 3, 5), -1, np.int32)
    targets[0, 1] = [1, 7, 0, 2, batches.CENTRE]
    logits = np.zeros((1, 3, 16), np.float32)
    logits[0, :, 0] = [-40, 40, -40]
    for position in (1 + 1, 3 + 7, 11 + 0, 13 + 2):
        logits[0, 1, position] = 40
    assert float(losses.cell_loss(targets, logits)[0]) == pytest.approx(0, abs=1e-6)
    undecided = losses.cell_loss(targets, np.zeros_like(logits))
    assert float(undecided[0]) == pytest.approx(np.log(2) + np.log(2 * 8 * 2 * 3**losses.SHAPE_LOSS), rel=1e-5)


def test_members_count_where_there_are_an_object_and_a_set():
    targets = np.full((1, 2, 3, 4), -1, np.int32)
    targets[0, 0, 0, 0], targets[0, 1, 2, 3] = 1, 0
    logits = np.zeros((1, 2, 3, 4), np.float32)
    logits[0, 0, 0, 0] = 40  # right and sure; the other one undecided, and the rest does not count
    assert float(losses.member_loss(targets, logits)[0]) == pytest.approx(4 * np.log(2) / 2, rel=1e-5)
    assert float(losses.member_loss(np.full_like(targets, -1), logits)[0]) == 0


def test_cells_that_show_a_part_count_less():
    targets = np.zeros((1, 2, 5), np.int32)
    targets[0, :, 4] = [batches.CENTRE, batches.PART]
    logits = np.zeros((1, 2, 16), np.float32)
    logits[0, :, 0] = 40  # both show an object: right
    logits[0, 0, [1, 3, 11, 13]] = 40  # the centre's attributes are right, the part's undecided
    expected = losses.PART_WEIGHT * np.log(2 * 8 * 2 * 3**losses.SHAPE_LOSS) / (1 + losses.PART_WEIGHT)
    assert float(losses.cell_loss(targets, logits)[0]) == pytest.approx(expected, rel=1e-5)


def test_compared_pairs_weigh_as_much_as_all_the_others_together():
    targets = np.array([[[1, 0, 0, -1]]], np.int32)
    logits = np.zeros((1, 1, 4, 3), np.float32)
    assert float(losses.compared_loss(targets, logits)[0]) == pytest.approx(2 * np.log(3), rel=1e-5)
    logits[0, 0, 0, 1] = 40  # the compared pair is right and sure
    assert float(losses.compared_loss(targets, logits)[0]) == pytest.approx(np.log(3), rel=1e-5)
    assert float(losses.compared_loss(np.full_like(targets, -1), logits)[0]) == 0
