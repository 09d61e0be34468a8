"""Networks of Keras on PyTorch: their ``.keras`` file and their exported one.

Release 0.4.0 has the program that wrote both. ``exported`` is what ``keras.Model.export`` writes: torchax 0.0.13
lowered the network to StableHLO in place of torch_xla, which does not import with today's PyTorch.
"""

import pathlib

import keras
import numpy as np
import pytest

import attribution
from attribution import cli
from attribution.inspect import __main__ as inspection

FOLDER = pathlib.Path(__file__).with_name("keras_on_torch")
IMAGES = np.random.default_rng(1).normal(size=(5, 8, 8, 3)).astype(np.float32)
TARGETS = np.arange(5) % 3


@pytest.fixture(scope="module")
def network():
    """The same network on TensorFlow, from its definition and not from a file; its weights are always the same."""
    image = keras.Input((8, 8, 3), name="image")
    x = keras.layers.Conv2D(4, 3, activation="relu", name="convolution")(image)
    x = keras.layers.BatchNormalization(name="normalization")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pooling")(x)
    model = keras.Model(image, keras.layers.Dense(3, name="classes")(x), name="network")
    generator = np.random.default_rng(0)
    model.set_weights([generator.uniform(0.2, 1, weight.shape) * _sign(weight, generator) for weight in model.weights])
    return model


def _sign(weight, generator):
    """Return random signs; of normalization's scale and variance, ones."""
    positive = weight.path.rsplit("/", 1)[-1] in ("gamma", "moving_variance")
    return 1 if positive else generator.choice([-1, 1], weight.shape)


@pytest.fixture(scope="module")
def exported():
    return attribution.load_model(FOLDER / "exported")


def test_its_keras_file_is_explained_on_tensorflow(network):
    methods = ["gradient", "integrated_gradients", "guided_backprop", "grad_cam", "lrp_epsilon", "deeplift"]
    loaded = attribution.load_model(keras.saving.load_model(FOLDER / "network.keras"))
    found = attribution.explain_many(methods, loaded, IMAGES, TARGETS)
    expected = attribution.explain_many(methods, attribution.load_model(network), IMAGES, TARGETS)
    for method in methods:
        np.testing.assert_array_equal(found[method], expected[method])


def test_its_exported_file_answers_with_scores(network, exported):
    np.testing.assert_allclose(exported.scores(IMAGES), network(IMAGES), rtol=1e-5, atol=1e-5)
    live = attribution.load_model(network)
    for method in ("occlusion", "rise", "kernel_shap"):
        found = attribution.explain(method, exported, IMAGES, TARGETS)
        expected = attribution.explain(method, live, IMAGES, TARGETS)
        np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


METHODS = ["gradient", "integrated_gradients", "guided_backprop", "grad_cam", "lrp_epsilon", "deeplift", "full_grad"]


@pytest.mark.parametrize("method", METHODS)
def test_its_exported_file_has_the_maps_of_its_live_network(method, network, exported):
    found = attribution.explain(method, exported, IMAGES[:2], TARGETS[:2])
    expected = attribution.explain(method, attribution.load_model(network), IMAGES[:2], TARGETS[:2])
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_inspection_says_that_it_was_translated(capsys):
    command = ["inspect", f"--model={FOLDER / 'exported'}"]
    assert cli.execute(inspection.main, inspection.FLAGS, inspection.__doc__, command) == 0
    printed = capsys.readouterr().out
    assert "are those of the file; the file has no gradient" in printed
    (apply,) = (line for line in printed.splitlines() if line.startswith("methods that apply:"))
    assert {"occlusion", *METHODS} <= set(apply.partition(": ")[2].split(", "))
