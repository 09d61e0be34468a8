"""A live Keras model is explained like its exported SavedModel."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput


class Subclassed(keras.Model):
    """A convolutional network written as a subclass."""

    def __init__(self):
        super().__init__()
        self.convolution = keras.layers.Conv2D(4, 3, activation="relu")
        self.dense = keras.layers.Dense(3)

    def call(self, x):
        return self.dense(keras.ops.mean(self.convolution(x), axis=(1, 2)))


@pytest.mark.parametrize("kind", ["signal", "image", "two_inputs"])
def test_maps_equal_those_of_the_exported_saved_model(kind, live, models, inputs):
    model = attribution.load_model(live[kind])
    methods = ["gradient", "integrated_gradients", "guided_backprop", "grad_cam", "lrp_epsilon"]
    options = {"explain_input": "image"} if kind == "two_inputs" else {}
    found = attribution.explain_many(methods, model, inputs[kind], 1, **options)
    expected = attribution.explain_many(methods, models[kind], inputs[kind], 1, **options)
    for method in methods:
        np.testing.assert_array_equal(found[method], expected[method])


def test_a_subclassed_model_that_was_called_is_explained(inputs, oracle, tmp_path):
    network = Subclassed()
    network(inputs["image"])
    model = attribution.load_model(network, score="logits")
    targets = np.arange(7) % 3
    maps = attribution.explain("gradient", model, inputs["image"], targets)
    np.testing.assert_allclose(maps, oracle(network, inputs["image"], targets), atol=1e-7)
    network.export(tmp_path, verbose=False)
    expected = attribution.explain("gradient", attribution.load_model(tmp_path), inputs["image"], targets)
    np.testing.assert_array_equal(maps, expected)


class Negated(keras.layers.Layer):
    """Computes other values in training, which is its default."""

    def call(self, x, training=True):
        return -x if training else x


class Augmented(Subclassed):
    """A subclassed model whose call has no ``training``."""

    def __init__(self):
        super().__init__()
        self.flip = keras.layers.RandomFlip()

    def call(self, x):
        return super().call(self.flip(x))


def augmented(kind):
    """Return a model that is another in training, and its inputs by name, of seven rows, in its own structure."""
    generator = np.random.default_rng(0)
    image = generator.random((7, 8, 8, 3), dtype=np.float32)
    layers, first, second = keras.layers, keras.Input((8, 8, 3), name="image"), keras.Input((4,), name="extra")
    steps = [
        layers.RandomFlip(),
        layers.RandomRotation(0.2),
        layers.RandomContrast(0.5),
        Negated(),
        layers.Dropout(0.5),
    ]
    head = [layers.Conv2D(4, 3, activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(3)]
    if kind == "sequential":
        return keras.Sequential([first, *steps, *head]), image
    if kind == "nested":
        inner = keras.Sequential([keras.Input((8, 8, 3)), *steps, head[0]])
        return keras.Model(first, head[2](layers.Flatten()(inner(first)))), image
    if kind == "subclassed":
        network = Augmented()
        network(image)
        return network, image
    joined = layers.Concatenate()([layers.Flatten()(steps[1](first)), layers.GaussianNoise(1.0)(second)])
    inputs = [first, second] if kind == "list" else {"image": first, "extra": second}
    given = {"image": image, "extra": generator.random((7, 4), dtype=np.float32)}
    return keras.Model(inputs, {"scores": head[2](joined)}), list(given.values()) if kind == "list" else given


@pytest.mark.parametrize("kind", ["sequential", "nested", "subclassed", "list", "dict"])
def test_a_model_with_augmentation_is_explained_as_it_predicts(kind, tmp_path):
    network, given = augmented(kind)
    model = attribution.load_model(network)
    feed = dict(zip(("image", "extra"), given, strict=True)) if isinstance(given, list) else given
    tensors = keras.tree.map_structure(tf.constant, given)
    (image,) = (tensor for tensor in keras.tree.flatten(tensors) if tensor.shape.rank == 4)
    with tf.GradientTape() as tape:
        tape.watch(image)
        outputs = network(tensors, training=False)
        scores = outputs["scores"] if isinstance(outputs, dict) else outputs
        target = scores[:, 1]
    np.testing.assert_allclose(model.scores(model.feed(feed)), scores, atol=1e-5)
    name = "image" if isinstance(feed, dict) else None
    maps = attribution.explain("gradient", model, feed, 1, explain_input=name)
    np.testing.assert_allclose(maps, tape.gradient(target, image), atol=1e-6)
    network.export(tmp_path, verbose=False)  # which is another function with the same names
    exported = tf.saved_model.load(tmp_path).signatures["serving_default"]
    assert set(model.inputs) == set(exported.structured_input_signature[1])


def in_training(layer):
    inputs = keras.Input((8, 8, 3))
    return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(layer(inputs, training=True))))


ALWAYS_TRAINED = {
    "normalization": lambda: in_training(keras.layers.BatchNormalization(name="always")),
    "dropout": lambda: in_training(keras.layers.Dropout(0.5, name="always")),
    "a network inside": lambda: in_training(
        keras.Sequential([keras.Input((8, 8, 3)), keras.layers.RandomFlip()], name="always")
    ),
    "inside a network": lambda: keras.Sequential([in_training(keras.layers.GaussianNoise(0.1, name="always"))]),
}


@pytest.mark.parametrize("kind", ALWAYS_TRAINED)
def test_a_layer_called_with_training_is_explained_as_it_predicts(kind):
    network = ALWAYS_TRAINED[kind]()
    network.build((None, 8, 8, 3))
    x = np.random.default_rng(0).normal(2, 3, (32, 8, 8, 3)).astype(np.float32)  # one of them is flipped
    predicted, model = network.predict(x, verbose=0), attribution.load_model(network)
    np.testing.assert_allclose(model.scores(x), predicted, rtol=1e-5, atol=1e-5)
    assert np.abs(predicted - network(x)).max() > 0.1  # which may change moving means


class Doubled(keras.Model):
    def predict_step(self, data):
        return 2 * super().predict_step(data)


def test_a_step_of_prediction_of_its_own_is_refused():
    inputs = keras.Input((4,))
    with pytest.raises(BadInput, match="has its own predict_step"):
        attribution.load_model(Doubled(inputs, keras.layers.Dense(3)(inputs)))


@pytest.mark.parametrize(
    "nest",
    [lambda a, b: {"x": {"a": a}, "b": [b]}, lambda a, b: [[b], [a]], lambda a, b: ((a,), {"b": b}), lambda *ab: ab],
)
def test_nested_inputs_have_the_names_of_their_tensors(nest):
    first, second, dense = keras.Input((3,), name="a"), keras.Input((2,), name="b"), keras.layers.Dense(2)
    network = keras.Model(nest(first, second), dense(keras.layers.concatenate([first, second])))
    inputs = {"a": np.ones((1, 3), np.float32), "b": np.ones((1, 2), np.float32)}
    maps = attribution.explain("gradient", attribution.load_model(network), inputs, targets=1, explain_input="all")
    np.testing.assert_allclose(np.hstack([maps["a"], maps["b"]])[0], dense.kernel.numpy()[:, 1])


def test_inputs_whose_keys_are_other_names_are_refused():
    """Keras warns of these and feeds them crosswise."""
    first, second = keras.Input((3,), name="b"), keras.Input((3,), name="a")
    network = keras.Model({"a": first, "b": second}, keras.layers.Dense(2)(first - 2 * second))
    with pytest.raises(BadInput, match="takes 'a' for its input named 'b'; give both the same name"):
        attribution.load_model(network)


def test_third_party_methods_get_the_live_network(live, inputs):
    def from_keras(passes):
        return np.full(passes.inputs.shape, float(passes.keras_model(passes.inputs)[0, 0]))

    network = keras.models.clone_model(live["image"])
    network.set_weights(live["image"].get_weights())
    model = attribution.load_model(network)
    maps = attribution.explain(from_keras, model, inputs["image"])
    np.testing.assert_allclose(maps[0, 0, 0, 0], model.scores(inputs["image"])[0, 0], rtol=1e-5)
    subclassed = Subclassed()
    subclassed(inputs["image"])
    maps = attribution.explain("tf_keras_vis.gradient", attribution.load_model(subclassed), inputs["image"])
    assert maps.shape == (7, 16, 16)


def test_changed_weights_have_no_effect_and_are_reported(live, inputs):
    network = keras.models.clone_model(live["image"])
    network.set_weights(live["image"].get_weights())
    model = attribution.load_model(network)
    before = attribution.explain("gradient", model, inputs["image"])
    network.set_weights([2 * weight for weight in network.get_weights()])
    np.testing.assert_array_equal(attribution.explain("gradient", model, inputs["image"]), before)
    with pytest.raises(BadInput, match="the network does not compute the logits of"):
        attribution.explain("tf_explain.gradient", model, inputs["image"])


def test_the_temporary_directory_is_deleted_with_the_model(live):
    model = attribution.load_model(live["signal"])
    directory = model.path
    assert directory.is_dir()
    del model
    gc.collect()
    assert not directory.exists()


def test_a_model_that_keras_cannot_export_is_refused_in_one_line():
    class TwoArguments(keras.Model):
        def call(self, left, right):
            return left + right

    network = TwoArguments()
    network(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(BadInput, match="Keras cannot export the model 'two_arguments': "):
        attribution.load_model(network)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Subclassed(), "the Keras model 'subclassed' is not built; call it on inputs"),
        (keras.Sequential([keras.layers.Dense(2)], name="dense"), "the Keras model 'dense' is not built"),
        (np.zeros(3), "expected a SavedModel, a Keras file or a keras.Model, not ndarray"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(network, message):
    with pytest.raises(BadInput, match=message):
        attribution.load_model(network)
