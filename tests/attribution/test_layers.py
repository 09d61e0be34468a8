"""Layers are found by what the graph computes, and by the names users know them by."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution_benchmarks.command_line import BadInput


def test_the_default_layer_is_the_activation_of_the_last_convolution(models):
    for kind, scope in (("signal", "conv1d"), ("image", "activation"), ("two_inputs", "conv2d")):
        wrt = "image" if kind == "two_inputs" else None
        layer = models[kind].layer(wrt=wrt)
        assert models[kind].graph.nodes[layer].op == "Relu" and scope in layer
        # Nothing after it is convolutional.
        after = models[kind].graph.below([layer])
        assert not [name for name in after if models[kind].graph.nodes[name].op == "Conv2D"]


def test_the_last_activation_of_a_residual_network_closes_the_block(models, live):
    x = np.random.default_rng(0).random((2, 16, 16, 3), dtype=np.float32)
    relu = [layer for layer in live["image"].layers if isinstance(layer, keras.layers.Activation)][-1]
    expected = keras.Model(live["image"].inputs, relu.output)(x).numpy()
    model = models["image"]
    values = model.backward({"image": x}, np.zeros(2, np.int32), "image", [model.layer()]).values[model.layer()]
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)


def test_a_layer_is_found_by_node_tensor_or_scope(models):
    model = models["signal"]
    node = model.layer()
    component = node.split("/")[-2]
    assert model.layer(node) == model.layer(node + ":0") == model.layer(component) == node
    assert model.layer(model.layers()[0]) == model.layers()[0] != node


def test_a_missing_layer_is_answered_with_the_list(models):
    with pytest.raises(BadInput, match="no layer 'conv_7'; its layers are '") as refusal:
        models["image"].layer("conv_7")
    for layer in ("conv2d", "conv2d_3", "activation", "activation_2", "add"):
        assert f"'{layer}'" in str(refusal.value)


def test_a_model_without_convolution_has_no_default_layer(from_function):
    model = from_function(lambda x: tf.matmul(x, tf.ones((3, 2))), 3)
    with pytest.raises(BadInput, match="no convolution"):
        attribution.explain("grad_cam", model, np.zeros((1, 3), np.float32))


@pytest.mark.parametrize("ending", ["softmax", "sigmoid", "linear", "log_softmax"])
def test_logits_and_probabilities_whatever_the_file_returns(ending, from_function):
    weights = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    end = {"linear": tf.identity, "softmax": tf.nn.softmax, "sigmoid": tf.sigmoid, "log_softmax": tf.nn.log_softmax}
    model = from_function(lambda x: tf.identity(end[ending](tf.matmul(x, weights))), 3)
    x = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(model.scores(x), x @ weights, rtol=1e-5, atol=1e-6)
    expected = (tf.sigmoid if ending == "sigmoid" else tf.nn.softmax)(x @ weights)
    probabilities = attribution.load_model(model.path, score="probabilities")
    np.testing.assert_allclose(probabilities.scores(x), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(BadInput, match="no score 'logit'; the scores are 'logits', 'probabilities'"):
        attribution.load_model(model.path, score="logit")
