"""Networks with special inputs, outputs or number formats, and files that Keras on TensorFlow did not write."""

from __future__ import annotations

import functools

import keras
import numpy as np
import tensorflow as tf

from zoo.convolutional import classifier, normalized, residual, residual_network
from zoo.family import (
    Exported,
    Family,
    keras_family,
    linear_family,
    number_format,
    pictures,
    settle,
    tokens,
    write_halves,
)
from zoo.transformers import vision_transformer

layers = keras.layers
_IMAGE = (16, 16, 3)
_PICTURE = tf.TensorSpec((None, *_IMAGE), tf.float32, "image")


def two_inputs():
    """A picture and a question."""
    image, question = keras.Input(_IMAGE, name="image"), keras.Input((6,), dtype="int32", name="question")
    x = layers.Conv2D(6, 3, strides=2, activation="relu")(image)
    x = layers.GlobalAveragePooling2D()(residual(x, 8, 2))
    words = layers.LSTM(4)(layers.Embedding(9, 3)(question))
    x = layers.Dense(7, activation="relu")(layers.Concatenate()([x, words]))
    return keras.Model([image, question], layers.Dense(5)(x))


def picture_and_question(rows):
    """Inputs of ``two_inputs``."""
    return {"image": pictures(*_IMAGE)(rows), "question": tokens(6, 9)(rows)}


def channels_first():
    """Channels ahead of positions."""
    inputs = keras.Input((3, 16, 16))
    x = inputs
    for width in (8, 12):
        x = layers.Conv2D(width, 3, 2, padding="same", use_bias=False, data_format="channels_first")(x)
        x = layers.ReLU()(layers.BatchNormalization(axis=1)(x))
    x = layers.GlobalAveragePooling2D(data_format="channels_first")(x)
    return keras.Model(inputs, layers.Dense(5)(x))


def in_format(policy):
    """Return the builder of a residual network that computes in a format of numbers."""

    def build():
        with number_format(policy):
            inputs = keras.Input(_IMAGE)
            x = layers.ReLU()(normalized(inputs, 8))
            return classifier(inputs, residual(x, 12, 2))

    return build


def several_outputs():
    """Two heads."""
    inputs = keras.Input(_IMAGE)
    x = layers.GlobalAveragePooling2D()(residual(layers.ReLU()(normalized(inputs, 8)), 12, 2))
    return keras.Model(inputs, {"colour": layers.Dense(3, name="colour")(x), "kind": layers.Dense(5, name="kind")(x)})


def regression():
    """One number."""
    inputs = keras.Input(_IMAGE)
    return classifier(inputs, residual(layers.ReLU()(normalized(inputs, 8)), 12, 2), classes=1)


def segmentation():
    """A class at each position."""
    inputs = keras.Input(_IMAGE)
    x = layers.ReLU()(normalized(layers.ReLU()(normalized(inputs, 8, strides=2)), 12))
    x = layers.UpSampling2D(2, interpolation="bilinear")(x)
    return keras.Model(inputs, layers.Conv2D(5, 1)(x))


def _static_batch(model, path):
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", model.call, [tf.TensorSpec((4, *_IMAGE), tf.float32, name="image")])
    archive.write_out(str(path), verbose=False)


def _save(model, path, spec, **functions):
    """Write functions of one input as signatures of their names."""
    module = tf.Module()
    module.model = model
    signatures = {name: tf.function(each, input_signature=[spec], autograph=False) for name, each in functions.items()}
    for name, function in signatures.items():
        setattr(module, name, function)
    tf.saved_model.save(module, str(path), signatures=signatures)


def _bytes(model, path):
    def serve(image):
        return {"scores": model(tf.cast(image, tf.float32) / 127.5 - 1.0, training=False)}

    _save(model, path, tf.TensorSpec((None, *_IMAGE), tf.uint8, name="image"), serving_default=serve)
    before, middle = keras.KerasTensor((None, *_IMAGE), "uint8"), keras.KerasTensor((None, *_IMAGE), "float32")
    write_halves(path, model, lambda x: tf.cast(x, tf.float32), before, lambda v: model(v / 127.5 - 1.0), middle)


def _examples(model, path):
    def parsed(examples):
        return tf.io.parse_example(examples, {"image": tf.io.FixedLenFeature(_IMAGE, tf.float32)})["image"]

    def serve(examples):
        return {"scores": model(parsed(examples), training=False)}

    _save(model, path, tf.TensorSpec((None,), tf.string, name="examples"), serving_default=serve)
    before, middle = tf.TensorSpec((None,), tf.string), tf.TensorSpec((None, *_IMAGE), tf.float32)
    write_halves(path, model, parsed, before, lambda v: model(v, training=False), middle)


def _compiled(model, path):
    compiled = tf.function(lambda x: model(x, training=False), jit_compile=True, autograph=False)
    _save(model, path, _PICTURE, serving_default=lambda image: {"scores": compiled(image)})


def _two_signatures(model, path):
    _save(
        model, path, _PICTURE,
        scores=lambda image: {"scores": model(image, training=False)},
        doubled=lambda image: {"scores": 2 * model(image, training=False)},
    )  # fmt: skip


def _channels_first(rows):
    return np.moveaxis(pictures(*_IMAGE)(rows), -1, 1)


def _as_bytes(rows):
    return (pictures(*_IMAGE, low=0.0, high=255.0)(rows)).astype(np.uint8)


def _serialised(rows):
    return np.array([
        tf.train.Example(features=tf.train.Features(feature={
            "image": tf.train.Feature(float_list=tf.train.FloatList(value=picture.ravel()))
        })).SerializeToString()
        for picture in pictures(*_IMAGE)(rows)
    ])  # fmt: skip


def _file(name, about, make, inputs=None, before=None, after=None, **options):
    """Return the family of a settled residual network that ``make(model, path)`` writes in a way of its own.

    ``before`` and ``after`` are layers that the file has around it.
    """
    exported = Exported(residual_network, settle, pictures(*_IMAGE))

    def write(path):
        make(exported.settled(), path)

    def network():
        with number_format("float64"):
            parts = [make_layer() for make_layer in (before, exported.network, after) if make_layer]
            return keras.Sequential([keras.Input(_IMAGE), *parts])

    write.network = network
    return Family(name, about, write, inputs or pictures(*_IMAGE), **options)


_linear_file = functools.partial(_file, piecewise_linear=True)
FAMILIES = (
    linear_family("two_inputs", "picture and question", two_inputs, picture_and_question, explain_input="image"),
    linear_family("channels_first", "channels first", channels_first, _channels_first, channels_first=True),
    linear_family("float64", "float64", in_format("float64")),
    _linear_file("static_batch", "batch size fixed in the file", _static_batch),
    _linear_file("bytes", "uint8 pictures, preprocessing inside", _bytes, _as_bytes, inner=True,
                 before=lambda: layers.Rescaling(1 / 127.5, -1.0)),
    _file("examples", "serialised tf.train.Example", _examples, _serialised),
    _linear_file(
        "examples_named", "the same, the parsed picture named with `explain_input=`", _examples, _serialised,
        explain_input="StatefulPartitionedCall/ParseExample/ParseExampleV2", inner=True,
    ),
    _linear_file("compiled_inside", "a part is compiled with XLA in the file", _compiled),
    _linear_file("two_signatures", "two signatures", _two_signatures, load={"signature": "doubled"},
                 after=lambda: layers.Rescaling(2.0)),
    linear_family("several_outputs", "several outputs", several_outputs, load={"output": "kind"}),
    linear_family("regression", "regression with one output", regression),
    linear_family("segmentation", "a class at each position", segmentation, load={"position": (4, 9)}),
)  # fmt: skip


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
OTHER_FILES = (
    Family("tensorflow_1", "TensorFlow 1 ResNet, reference variables, FusedBatchNorm", write_tensorflow_1, _PICTURES,
           piecewise_linear=True),
    Family("tensorflow_1_resource", "the same with resource variables",
           functools.partial(write_tensorflow_1, use_resource=True), _PICTURES, piecewise_linear=True),
    Family("keras_int8", "Keras int8 (ViT)", Exported(vision_transformer, _settle_and_quantise, _PICTURES), _PICTURES),
    keras_family("live_dropout", "dropout that stays on", live_randomness),
    keras_family("augmentation", "random flips inside the file", augmented),
)  # fmt: skip
