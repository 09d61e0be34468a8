"""A network with shuffled weights: the same values, other places, the same for the same seed."""

import numpy as np
import pytest
import tensorflow as tf

from attribution_benchmarks.command_line import BadInput
from clevr_xai.answering import Answering
from clevr_xai.random_weights import with_shuffled_weights


@pytest.fixture(scope="module")
def asked(small_network):
    network = Answering(small_network)
    images = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3)).astype(np.uint8)
    return network, network.inputs(images, ["What color is the big cube?", "What size is the ball?", "What is it?"])


def test_other_scores_the_same_for_the_same_seed_and_the_file_as_it_was(asked):
    network, inputs = asked
    before = network.model.fingerprint
    scores = [with_shuffled_weights(network.model.path, seed).scores(inputs) for seed in (0, 0, 1)]
    assert all(np.isfinite(one).all() for one in scores)
    np.testing.assert_array_equal(scores[0], scores[1])
    assert np.abs(scores[0] - network.model.scores(inputs)).max() > 0.1
    assert np.abs(scores[0] - scores[2]).max() > 0.1
    assert network.model.fingerprint == before


def test_what_no_order_can_change_stays(tmp_path):
    """A variable of one value many times, and constants that are no variables."""

    class Constant(tf.Module):
        def __init__(self):
            self.kernel = tf.Variable(tf.fill((4, 2), 0.5))

        @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="x")])
        def __call__(self, x):
            return {"scores": tf.matmul(x + [[1.0, 2.0, 3.0, 4.0]], self.kernel)}

    module = Constant()
    tf.saved_model.save(module, str(tmp_path), signatures=module.__call__)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    expected = (x + [1, 2, 3, 4]).sum(axis=1, keepdims=True) * [0.5, 0.5]
    np.testing.assert_allclose(with_shuffled_weights(tmp_path, 0).scores(x), expected)


def test_a_model_without_variables_is_refused(tmp_path):
    module = tf.Module()
    module.call = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec((None, 2), tf.float32, name="x")])
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    with pytest.raises(BadInput, match="has no variables that could be shuffled; leave random_weights out"):
        with_shuffled_weights(tmp_path, 0)
