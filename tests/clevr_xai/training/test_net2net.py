"""A network that has grown computes the same."""

import numpy as np
import pytest

from clevr_xai.training import net2net


def inputs():
    rng = np.random.default_rng(0)
    return [rng.random((2, 128, 128, 3), np.float32), rng.integers(2, 82, (2, 6)).astype(np.int32)]


@pytest.mark.parametrize("widths", [(6, 5), (9, 8), (9, 8, 7, 6)])
def test_a_grown_network_computes_the_same(small_network, widths):
    large = net2net.grown(small_network, widths)
    np.testing.assert_allclose(large(inputs()), small_network(inputs()), rtol=1e-4, atol=1e-5)
    assert large.get_layer("relations").widths == widths


def test_new_units_learn(small_network):
    """They reach the logits by weights of zero, so the first step is theirs."""
    large = net2net.grown(small_network, (9, 8, 7, 30))
    import tensorflow as tf

    with tf.GradientTape() as tape:
        logits = large(inputs())
    gradient = tape.gradient(logits, large.get_layer("f").layers[0].kernel)
    assert np.abs(gradient[5:]).max() > 0


@pytest.mark.parametrize("widths", [(6,), (5, 5), (6, 4)])
def test_a_network_does_not_shrink(small_network, widths):
    with pytest.raises(ValueError, match="cannot grow"):
        net2net.grown(small_network, widths)
