"""Small models, exported once, whose weights and BatchNorm statistics are random so that mistakes show."""

import functools
import logging
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution

logging.getLogger("tensorflow").setLevel(logging.ERROR)  # as in commands: retracing is no news here


def randomise(model, seed=0):
    """Give every weight a random value; variances stay positive."""
    generator = np.random.default_rng(seed)
    for variable in model.variables:
        if "int" in str(variable.dtype):  # seed states of random layers
            continue
        values = generator.normal(0, 0.3, variable.shape)
        variable.assign(np.abs(values) + 0.5 if "variance" in variable.path or "gamma" in variable.path else values)
    return model


def residual_block(x, channels, stride, relu):
    layers = keras.layers
    shortcut = layers.BatchNormalization()(layers.Conv2D(channels, 1, strides=stride, use_bias=False)(x))
    y = layers.Conv2D(channels, 3, strides=stride, padding="same", use_bias=False)(x)
    y = layers.Activation(relu)(layers.BatchNormalization()(y))
    y = layers.BatchNormalization()(layers.Conv2D(channels, 3, padding="same", use_bias=False)(y))
    return layers.Activation(relu)(layers.Add()([y, shortcut]))


def build_signal(relu):
    return keras.Sequential(
        [
            keras.Input((20, 2)),
            keras.layers.Conv1D(6, 5, padding="same", activation=relu),
            keras.layers.Conv1D(5, 3, padding="same", activation=relu),
            keras.layers.Flatten(),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )


def build_image(relu):
    inputs = keras.Input((16, 16, 3), name="image")
    x = keras.layers.Conv2D(8, 3, padding="same")(inputs)
    x = keras.layers.Activation(relu)(keras.layers.BatchNormalization()(x))
    x = residual_block(x, 8, 2, relu)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, keras.layers.Dense(5)(x))


def build_two_inputs(relu):
    image = keras.Input((16, 16, 3), name="image")
    question = keras.Input((6,), dtype="int32", name="question")
    x = keras.layers.Conv2D(6, 3, strides=2, activation=relu)(image)
    x = keras.layers.Dense(8, activation=relu)(keras.layers.Reshape((-1, 6))(x))
    words = keras.layers.LSTM(4)(keras.layers.Embedding(9, 3)(question))
    x = keras.layers.Concatenate()([keras.ops.sum(x, axis=1), words])
    return keras.Model([image, question], keras.layers.Dense(5)(keras.layers.Dense(7, activation=relu)(x)))


BUILDERS = {"signal": build_signal, "image": build_image, "two_inputs": build_two_inputs}


@pytest.fixture(scope="session")
def live():
    """Live Keras models by kind."""
    keras.utils.clear_session()  # layers are numbered from here, whatever other tests have built before
    return {kind: randomise(build("relu")) for kind, build in BUILDERS.items()}


@pytest.fixture(scope="session")
def with_relu(live):
    """Return a maker of the same live model with another ReLU."""

    def build(kind, relu):
        model = BUILDERS[kind](relu)
        model.set_weights(live[kind].get_weights())
        return model

    return build


@pytest.fixture(scope="session")
def exported(live, tmp_path_factory):
    """Directories of the same models as SavedModels."""
    root = tmp_path_factory.mktemp("saved_models")
    for kind, model in live.items():
        model.export(root / kind, verbose=False)
    return {kind: root / kind for kind in live}


@pytest.fixture(scope="session")
def models(exported):
    """The SavedModels, loaded to explain logits."""
    return {kind: attribution.load_model(path) for kind, path in exported.items()}


@pytest.fixture(scope="session")
def by_score(models, exported):
    """The SavedModels by score and kind: ``by_score["probabilities", "signal"]``."""
    probabilities = {
        kind: attribution.load_model(exported[kind], score="probabilities") for kind in ("signal", "image")
    }
    return {("logits", kind): model for kind, model in models.items()} | {
        ("probabilities", kind): model for kind, model in probabilities.items()
    }


@pytest.fixture(scope="session")
def inputs():
    """Seven inputs for each kind of model."""
    generator = np.random.default_rng(1)
    image = generator.random((7, 16, 16, 3), dtype=np.float32)
    return {
        "signal": generator.normal(size=(7, 20, 2)).astype(np.float32),
        "image": image,
        "two_inputs": {"image": image, "question": generator.integers(0, 9, (7, 6)).astype(np.int32)},
    }


def export_function(function, spec, path):
    """Write a plain TensorFlow function of one input as a SavedModel; return it loaded."""
    module = tf.Module()
    module.call = tf.function(function, input_signature=[spec], autograph=False)
    tf.saved_model.save(module, str(path), signatures=module.call)
    return attribution.load_model(path)


@pytest.fixture(scope="session")
def from_function(tmp_path_factory):
    """Return a maker of models from TensorFlow functions of one input."""
    return lambda function, *shape, dtype=tf.float32: export_function(
        lambda x: {"scores": function(x)},
        tf.TensorSpec((None, *shape), dtype, name="x"),
        tmp_path_factory.mktemp("function"),
    )


def write_tf1(path, use_resource, with_signature):
    """Write a TensorFlow 1 SavedModel with BIM's kind of tensor names; return its weights."""
    generator = np.random.default_rng(2)
    weights = {
        "kernel": generator.normal(0, 0.3, (3, 3, 3, 4)),
        "gamma": generator.uniform(0.5, 1.5, 4),
        "beta": generator.normal(size=4),
        "mean": generator.normal(size=4),
        "variance": generator.uniform(0.5, 1.5, 4),
        "dense": generator.normal(size=(4, 5)),
    }
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None, 16, 16, 3), name="input_tensor")
        with v1.variable_scope("resnet_model", use_resource=use_resource):
            v = {name: v1.get_variable(name, initializer=value) for name, value in weights.items()}
            y = tf.nn.conv2d(x, v["kernel"], 2, "SAME")
            y = v1.nn.fused_batch_norm(y, v["gamma"], v["beta"], v["mean"], v["variance"], is_training=False)[0]
            y = tf.identity(tf.nn.relu(y), name="block_layer1")
            y = tf.reduce_mean(y, [1, 2])
            scores = tf.identity(tf.matmul(y, v["dense"]), name="final_dense")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(path))
        signature = v1.saved_model.predict_signature_def({"pixels": x}, {"logits": scores})
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={"serving_default": signature} if with_signature else {}
        )
        builder.save()
    return weights


def tf1_twin(weights, relu=tf.nn.relu):
    """Return the same network as a function of eager TensorFlow 2."""

    def scores(x):
        y = tf.nn.conv2d(x, weights["kernel"], 2, "SAME")
        y = (y - weights["mean"]) / np.sqrt(weights["variance"] + 1e-3) * weights["gamma"] + weights["beta"]
        return tf.matmul(tf.reduce_mean(relu(y), [1, 2]), weights["dense"])

    return scores


@pytest.fixture(scope="session", params=["reference", "resource"])
def tf1(request, tmp_path_factory):
    """Directory of a TensorFlow 1 SavedModel without signature, and a maker of its twin as a function."""
    path = tmp_path_factory.mktemp("tf1") / request.param
    return path, functools.partial(tf1_twin, write_tf1(path, request.param == "resource", with_signature=False))


@pytest.fixture(scope="session")
def tf1_with_signature(tmp_path_factory):
    path = tmp_path_factory.mktemp("tf1") / "signature"
    return path, functools.partial(tf1_twin, write_tf1(path, use_resource=False, with_signature=True))


def tape_gradients(scores, x, targets):
    """Gradient of each row's target score, straightforwardly.

    Compiled, because an eager tape also computes the gradients of the kernels, where some builds of TensorFlow crash.
    """

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            chosen = tf.gather(scores(x), targets, batch_dims=1)
        return tape.gradient(chosen, x)

    return gradient(tf.constant(x)).numpy()


@pytest.fixture(scope="session")
def oracle():
    return tape_gradients
