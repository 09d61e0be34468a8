"""Small Relation Networks, quick to train."""

import dataclasses

import keras
import numpy as np
import pytest

from clevr_xai import relation_network
from clevr_xai.training.learner import Learner


@pytest.fixture(scope="module")
def small_network():
    keras.utils.set_random_seed(0)
    return relation_network.build((6, 5), (7, 4), channels=3, pair_scale=0.1, dropout=0.0)


@pytest.fixture(scope="session")
def coded_data(training_data):
    """The training data with the number of each row, from 1, as its code, negative where it is mirrored."""
    numbers = np.tile(np.arange(len(training_data.tokens), dtype=np.float32)[:, None] + 1, (1, 128))
    return dataclasses.replace(training_data, codes=np.stack([numbers, -numbers]))


@pytest.fixture
def make_learner():
    """Return a maker of learners of a small network from a seed."""

    def build(seed=0):
        keras.utils.set_random_seed(seed)
        return Learner(relation_network.build((6, 5), channels=3, pair_scale=0.1, dropout=0.0))

    return build
