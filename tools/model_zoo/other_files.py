"""Files that Keras on TensorFlow did not write, or wrote in a way of its own."""

from __future__ import annotations

import functools

import keras
import numpy as np
import tensorflow as tf

from tools.model_zoo.convolutional import residual_network
from tools.model_zoo.family import Exported, Family, keras_family, pictures, run_python
from tools.model_zoo.random_weights import settle
from tools.model_zoo.transformers import vision_transformer

_IMAGE = (16, 16, 3)


def write_tensorflow_1(path, use_resource=False):
    """Write a residual network as TensorFlow 1 did: a session's graph, fused batch normalization, a signature."""
    generator = np.random.default_rng(3)
    v1 = tf.compat.v1

    def variable(name, value):
        return v1.get_variable(name, initializer=np.asarray(value, np.float32))

    def convolution(x, width, stride, name):
        with v1.variable_scope(name):
            channels = x.shape[-1]
            kernel = generator.normal(0, np.sqrt(2 / (9 * channels)), (3, 3, channels, width))
            y = tf.nn.conv2d(x, variable("kernel", kernel), stride, "SAME")
            statistics = (
                variable("gamma", generator.uniform(0.5, 1.5, width)),
                variable("beta", generator.normal(0, 0.1, width)),
                variable("mean", generator.normal(0, 0.1, width)),
                variable("variance", generator.uniform(0.3, 0.8, width)),
            )
            return v1.nn.fused_batch_norm(y, *statistics, is_training=False)[0]

    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None, *_IMAGE), name="input_tensor")
        with v1.variable_scope("resnet_model", use_resource=use_resource):
            y = tf.nn.relu(convolution(x, 8, 1, "initial"))
            for number, width in enumerate((8, 12)):
                short = convolution(y, width, 2, f"shortcut{number}")
                long = tf.nn.relu(convolution(y, width, 2, f"first{number}"))
                y = tf.nn.relu(short + convolution(long, width, 1, f"second{number}"))
                y = tf.identity(y, name=f"block_layer{number + 1}")
            y = tf.reduce_mean(y, [1, 2])
            kernel = variable("dense", generator.normal(0, 0.3, (12, 5)))
            scores = tf.identity(tf.matmul(y, kernel) + variable("bias", generator.normal(0, 0.1, 5)), "final_dense")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(path))
        signature = v1.saved_model.predict_signature_def({"pixels": x}, {"logits": scores})
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={"serving_default": signature})
        builder.save()


def write_on_jax(path):
    """Write a residual network that runs on JAX: its graph is one compiled module (``jax2tf``)."""
    code = (
        "import sys; from tools.model_zoo import convolutional, family, random_weights; "
        "pictures = family.pictures(16, 16, 3); "
        "family.Exported(convolutional.residual_network, random_weights.settle, pictures)(sys.argv[1])"
    )
    run_python(["-c", code, str(path)], KERAS_BACKEND="jax")


def _settle_and_quantise(model, inputs):
    settle(model, inputs)
    model.quantize("int8")


def live_randomness():
    """Dropout that stays on: each call gives other scores."""
    inputs = keras.Input(_IMAGE)
    x = keras.layers.Conv2D(8, 3, activation="relu")(inputs)
    x = keras.layers.Dropout(0.5)(x, training=True)
    return keras.Model(inputs, keras.layers.Dense(5)(keras.layers.GlobalAveragePooling2D()(x)))


def augmented():
    """Augmentation in front of the network, which Keras leaves on in the file."""
    inputs = keras.Input(_IMAGE)
    x = keras.layers.RandomContrast(0.2)(keras.layers.RandomFlip()(inputs))
    body = residual_network()
    return keras.Model(inputs, body(x))


_PICTURES = pictures(*_IMAGE)
FAMILIES = (
    Family("tensorflow_1", "TensorFlow 1 ResNet, reference variables, FusedBatchNorm", write_tensorflow_1, _PICTURES,
           piecewise_linear=True),
    Family("tensorflow_1_resource", "the same with resource variables",
           functools.partial(write_tensorflow_1, use_resource=True), _PICTURES, piecewise_linear=True),
    Family("keras_on_jax", "Keras on JAX", write_on_jax, _PICTURES, piecewise_linear=True),
    Family("keras_int8", "Keras int8 (ViT)", Exported(vision_transformer, _settle_and_quantise, _PICTURES), _PICTURES),
    keras_family("live_dropout", "dropout that stays on", live_randomness),
    keras_family("augmentation", "random flips inside the file", augmented),
)  # fmt: skip
