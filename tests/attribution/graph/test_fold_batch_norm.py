"""Folding batch normalization changes no score."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.graph import fold_batch_norm


def scores_of(graph, model, feed):
    arrays = {model.input_node(name): tf.constant(array) for name, array in model.feed(feed).items()}

    @tf.function
    def scores(arrays):
        (scores,), _ = graph.import_on(arrays, [f"{model.logits.split(':')[0]}:0"])
        return scores

    return scores(arrays).numpy()


def normalizing(graph, explain_input, target):
    """Return the nodes that still scale by a constant or normalize."""
    return [
        name
        for name in graph.between(explain_input, target)
        if graph.nodes[name].op in ("Mul", "FusedBatchNormV3", "RealDiv")
    ]


def check(model, feed, own, remaining):
    """Check the folded graph against the network's ``own`` scores: those of ``model`` are of a folded graph, too."""
    folded = fold_batch_norm.fold_batch_norm(model.graph)
    np.testing.assert_allclose(scores_of(folded, model, feed), own, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.scores(feed), own, rtol=1e-4, atol=1e-5)
    node, target = model.input_node(), model.logits.split(":")[0]
    before, after = normalizing(model.graph, node, target), normalizing(folded, node, target)
    assert before and len(after) == remaining, (before, after)
    inputs = [model.input_node(name) for name in model.inputs]
    assert model.graph.below(inputs) <= set(folded.nodes)
    assert folded.above(folded.below(inputs)) == set(folded.nodes)  # what normalization was computed from is gone


def test_after_convolutions_of_a_residual_network(models, live, inputs):
    check(models["image"], inputs["image"], live["image"](inputs["image"]), remaining=0)


def test_fused_normalization_of_tensorflow_1(tf1, inputs):
    model = attribution.load_model(tf1[0], inputs=["input_tensor:0"], output="resnet_model/final_dense:0")
    check(model, inputs["image"], tf1[1]()(inputs["image"]), remaining=0)


def randomised(model):
    generator = np.random.default_rng(3)
    for variable in model.variables:
        values = generator.normal(0, 0.4, variable.shape)
        variable.assign(np.abs(values) + 0.5 if "variance" in variable.path else values)
    return model


def head():
    return [keras.layers.Flatten(), keras.layers.Dense(2)]


CONV = keras.layers.Conv2D
BN = keras.layers.BatchNormalization


@pytest.mark.parametrize(
    ("layers", "remaining"),
    [
        # A Relation Network's order: the normalization goes into the next convolution, which has no padding ...
        (lambda: [CONV(4, 3, strides=2, activation="relu"), BN(), CONV(5, 3, activation="relu"), *head()], 0),
        # ... with padding it could not, exactly, and stays.
        (lambda: [CONV(4, 3, activation="relu"), BN(), CONV(5, 3, padding="same", activation="relu"), *head()], 1),
        (lambda: [keras.layers.DepthwiseConv2D(3, depth_multiplier=2), BN(), keras.layers.ReLU(), *head()], 0),
        (lambda: [keras.layers.Flatten(), keras.layers.Dense(6), BN(), keras.layers.ReLU(), BN(), head()[1]], 0),
        # One normalization before a layer, another after it.
        (lambda: [CONV(4, 3, activation="relu"), BN(), CONV(5, 3), BN(), keras.layers.ReLU(), *head()], 0),
        (lambda: [keras.layers.Reshape((12, 12, 3, 1)), keras.layers.Conv3D(4, 3), BN(), keras.layers.ReLU(),
                  keras.layers.Reshape((10, 10, 1, 4)), BN(), keras.layers.Conv3D(2, (3, 3, 1)), *head()], 0),
        (lambda: [CONV(4, 3, padding="same", data_format="channels_first"), BN(axis=1), *head()], 0),
        # The last axis is not that of the channels.
        (lambda: [CONV(4, 3, padding="same", data_format="channels_first"), BN(axis=-1), *head()], 1),
        # Before pooling it stays.
        (lambda: [CONV(4, 3, activation="relu"), BN(), keras.layers.MaxPool2D(), *head()], 1),
    ],
    ids=["before valid", "before same", "depthwise", "dense", "on both sides", "3-D", "channels first",
         "of the last axis", "before pooling"],
)  # fmt: skip
def test_where_folding_is_exact_it_is_done(layers, remaining, tmp_path):
    model = randomised(keras.Sequential([keras.Input((12, 12, 3)), *layers()]))
    model.export(tmp_path, verbose=False)
    x = np.random.default_rng(0).random((3, 12, 12, 3), dtype=np.float32)
    check(attribution.load_model(tmp_path), x, model(x), remaining)


def test_two_normalizations_are_folded_into_one_layer_through_nested_concatenations(tmp_path):
    inputs, join = keras.Input((6,)), keras.layers.Concatenate()
    first, second = (BN()(keras.layers.Dense(4, "relu")(inputs)) for _ in range(2))
    model = randomised(keras.Model(inputs, keras.layers.Dense(2)(join([inputs, join([inputs, first]), second]))))
    model.export(tmp_path, verbose=False)
    x = np.random.default_rng(0).random((3, 6), dtype=np.float32)
    check(attribution.load_model(tmp_path), x, model(x), remaining=0)


def test_a_difference_from_a_constant_keeps_its_sign(from_function):
    first, second = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32)

    def scores(x):
        return tf.matmul(1.0 - 2.0 * tf.nn.relu(x @ first) / np.float32([1, 2, 3]), second)

    x = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    check(from_function(scores, 3), x, scores(x), remaining=0)


def test_channels_that_are_first_behind_a_transpose_as_pytorch_writes_them(from_function):
    random = np.random.default_rng(0)
    kernels = random.normal(size=(3, 3, 3, 4)), random.normal(size=(1, 3, 4, 5))
    first, second = (one.astype(np.float32) for one in kernels)
    scale, head = np.float32([1, 2, 3, 4]), np.eye(5, 3, dtype=np.float32)

    def scores(x):
        y = tf.transpose(tf.nn.conv2d(x, first, 1, "SAME"), (0, 3, 1, 2)) + scale.reshape(4, 1, 1)
        y = tf.nn.relu(y * scale.reshape(1, 4, 1, 1) - 1.0)
        y = tf.nn.conv2d(tf.transpose(y, (0, 2, 3, 1)), second, 1, "SAME")
        return tf.matmul(tf.reduce_mean(tf.nn.relu(y), (1, 2)), head)

    x = random.normal(size=(2, 6, 6, 3)).astype(np.float32)
    check(from_function(scores, 6, 6, 3), x, scores(x), remaining=0)


def test_a_layer_with_two_uses_is_left_alone(from_function):
    kernel = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)

    def scores(x):
        y = tf.matmul(x, kernel)
        return tf.nn.relu(y * 2.0) + y

    model = from_function(scores, 3)
    assert fold_batch_norm.fold_batch_norm(model.graph).graph_def == model.graph.graph_def


def test_the_original_graph_is_not_written_to(models):
    before = models["image"].graph.graph_def.SerializeToString(deterministic=True)
    fold_batch_norm.fold_batch_norm(models["image"].graph)
    assert models["image"].graph.graph_def.SerializeToString(deterministic=True) == before
