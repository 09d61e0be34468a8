"""Where the phrases of a program stand, against the program's own nodes."""

import keras
import numpy as np
import pytest

from clevr_xai.training import losses, phrases
from clevr_xai.training.training_set import MOST_NODES, NODES
from clevr_xai.vocabulary import ATTRIBUTES


def placed(*names):
    nodes = [NODES.index(name) for name in names]
    (found,) = phrases.phrases(np.array([nodes + [0] * (MOST_NODES - len(nodes))]))
    return {place: tuple(map(int, found[place])) for place in range(phrases.PLACES) if found[place].any()}


def value(name, word):
    return ATTRIBUTES[name].index(word) + 1


RED_CUBE = ("filter_shape cube", "filter_color red")
RED_CUBE_SAYS = (0, value("color", "red"), 0, value("shape", "cube"), 0)
SMALL = ("filter_size small",)
SMALL_SAYS = (value("size", "small"), 0, 0, 0, 0)


def test_a_chain_goes_from_what_is_told_of_to_what_it_is_found_by():
    found = placed("query_size", "unique", *RED_CUBE, "relate left", "unique", *SMALL, "same_color", "unique", "scene")
    assert found == {1: (*RED_CUBE_SAYS[:4], 1), 2: (*SMALL_SAYS[:4], 6)}


@pytest.mark.parametrize("later", [SMALL, (*SMALL, "filter_color red"), (*SMALL, "relate front", "unique", *RED_CUBE)])
def test_a_phrase_stands_in_its_place_however_long_those_after_it_are(later):
    found = placed("equal_size", "query_size", "unique", *later, "scene", "query_size", "unique", *RED_CUBE, "scene")
    assert found[1 + phrases.STEPS] == RED_CUBE_SAYS


def test_what_is_said_of_objects_that_two_branches_find_is_the_trunk():
    found = placed("count", *SMALL, "union", *RED_CUBE, "scene", "relate right", "unique", *RED_CUBE, "scene")
    assert found == {0: SMALL_SAYS, 1: RED_CUBE_SAYS, 5: (0, 0, 0, 0, 2), 6: RED_CUBE_SAYS}


def test_every_filter_and_relation_of_real_programs_has_a_place(training_data):
    named = np.array(NODES)[training_data.programs]
    words = np.any([np.char.startswith(named, word) for word in ("filter", "relate", "same")], axis=0)
    found = phrases.phrases(training_data.programs)
    assert ((found > 0).sum(axis=(1, 2)) == words.sum(axis=1)).all()
    assert (found.max(axis=(0, 1)) < phrases.SIZES).all()


def test_the_loss_is_that_of_each_entry_together():
    targets = np.zeros((1, phrases.PLACES, len(phrases.SIZES)), np.int32)
    logits = np.zeros((1, phrases.PLACES, sum(phrases.SIZES)), np.float32)
    undecided = 4 * np.log(phrases.SIZES).sum()
    assert float(losses.phrase_loss(targets, logits)[0]) == pytest.approx(undecided, rel=1e-5)
    starts = np.cumsum([0, *phrases.SIZES[:-1]])
    logits[..., starts] = 40
    assert float(losses.phrase_loss(targets, logits)[0]) == pytest.approx(0, abs=1e-5)
    assert keras.ops.shape(losses.phrase_loss(targets, logits)) == (1,)
