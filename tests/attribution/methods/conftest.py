"""Fixtures of the tests of methods."""

import pytest
import tensorflow as tf


@pytest.fixture(scope="session")
def closed_form(from_function):
    """A model with the scores f = 5 x + y² + sin z and -f."""

    def scores(v):
        f = 5 * v[:, 0] + v[:, 1] ** 2 + tf.sin(v[:, 2])
        return tf.stack([f, -f], axis=1)

    return from_function(scores, 3)
