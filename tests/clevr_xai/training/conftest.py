"""Small Relation Networks, quick to train."""

import keras
import pytest

from clevr_xai import relation_network
from clevr_xai.training.learner import Learner


@pytest.fixture(scope="module")
def small_network():
    keras.utils.set_random_seed(0)
    return relation_network.build((6, 5), (7, 4), channels=3, pair_scale=0.1, dropout=0.0)


@pytest.fixture
def learner():
    """Return a maker of learners of a small network from a seed."""

    def build(seed=0):
        keras.utils.set_random_seed(seed)
        return Learner(relation_network.build((6, 5), channels=3, pair_scale=0.1, dropout=0.0))

    return build
