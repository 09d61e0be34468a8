"""The networks: endpoints, folding, training, and the models that come with the repository."""

import os
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.methods import third_party
from attribution_benchmarks.core.bundled_models import given_or_bundled
from bim import classifiers, layout, methods, models
from bim.definition import BENCHMARK, TRANSFORMER

TASK, *_ = TRANSFORMER.report_tasks(False, 0)
TRANSFORMERS = [one.models_dir for one in (TASK.settings, *TASK.networks) if os.path.isdir(one.models_dir)]


def small(normalized=True):
    return models.small_resnet(32, normalized, widths=(4, 4, 6, 6))


def shallow(normalized=True):
    """Two of the four stages: what depends on no depth is tested quickly."""
    return models.small_resnet(32, normalized, widths=(4, 6))


def deep(normalized=True):
    return models.resnet50(32, normalized, width=4, blocks=(2, 1, 1, 1))


def attending(normalized=True):
    return models.small_vit(64, normalized, stem=(4, 4, 6, 8), heads=2)


@pytest.mark.parametrize("build", [small, deep, attending])
def test_folding_the_normalization_changes_nothing(build):
    rng = np.random.default_rng(0)
    network = build()
    for layer in network.layers:  # normalization that does something, or its mistakes stay hidden
        weights = [np.abs(w + 0.3 * rng.standard_normal(w.shape)) + 0.1 for w in layer.get_weights()]
        if layer.name.endswith("_norm"):
            layer.set_weights(weights)
    plain = models.folded(network, lambda: build(normalized=False))
    x = 60 * rng.standard_normal((3, *network.input_shape[1:])).astype(np.float32)
    expected = network(x, training=False).numpy()
    np.testing.assert_allclose(plain(x, training=False), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    assert not [layer for layer in plain.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]


def test_resnet50_has_its_papers_size():
    # He et al.: 25.6 million parameters with 1,000 classes, of which 2.05 million are the last layer's.
    network = models.resnet50()
    assert network.output_shape == (None, 10) and network.input_shape == (None, 224, 224, 3)
    assert sum(int(np.prod(w.shape)) for w in network.trainable_weights) == 25_557_032 - 2_049_000 + 20_490
    assert network.get_layer("block_layer4").output.shape[1:] == (7, 7, 2048)


def test_the_endpoints_are_nodes_of_the_exported_graph(tiny_models):
    model = attribution.load_model(os.path.join(tiny_models, "obj"))
    for name in ("block_layer1", "block_layer2", "block_layer3", "block_layer4"):
        assert model.layer(name).split("/")[-2:] == ["resnet_model", name]
    assert any(name.endswith("resnet_model/final_dense") for name in model.graph.nodes)


def test_both_signatures_say_the_same(tiny_models):
    loaded = tf.saved_model.load(os.path.join(tiny_models, "scene", "1"))
    rgb = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3)).astype(np.uint8)
    raw = loaded.signatures["from_rgb"](rgb=tf.constant(rgb))["final_dense"]
    centred = loaded.signatures["serving_default"](
        rgb_minus_channel_means=tf.constant(rgb - layout.CHANNEL_MEANS, tf.float32)
    )
    np.testing.assert_allclose(raw, centred["final_dense"], rtol=1e-5, atol=1e-5)


def test_a_window_shows_the_image_and_the_means_around_it():
    rng = np.random.default_rng(0)
    image = rng.integers(200, 256, (40, 60, 3)).astype(np.uint8)
    seen = models.through_window(image, rng)
    inside = (seen == image).all(axis=2)
    rows, columns = inside.any(axis=1), inside.any(axis=0)
    np.testing.assert_array_equal(inside, np.outer(rows, columns))
    assert 12 <= rows.sum() <= 32 and 18 <= columns.sum() <= 48
    assert (seen[~inside] == [124, 117, 104]).all()


def train_twice():
    """Train a small network twice with one seed; assert that it learns, and that the weights are the same."""
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 10
    images = np.clip(rng.integers(0, 40, (120, 32, 32, 3)) + 20 * labels[:, None, None, None], 0, 255).astype(np.uint8)
    tf.config.experimental.enable_op_determinism()
    found = []
    for _ in range(2):
        tf.keras.utils.set_random_seed(0)
        network = shallow()
        models.train(network, images, labels, epochs=25, batch_size=20, learning_rate=1e-2)
        found.append(network.get_weights())
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)
    x = classifiers.network_inputs(images, 32)
    assert (np.argmax(network(x, training=False), axis=1) == labels).mean() > 0.5


def run_alone(function, *arguments):
    """Return what a function of this file prints in a process with TensorFlow's default of oneDNN.

    See tests/conftest.py: with oneDNN, training ends some processes.
    """
    load = "import runpy, sys; runpy.run_path(sys.argv[1])[sys.argv[2]](*sys.argv[3:])"
    command = [sys.executable, "-c", load, __file__, function.__name__, *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "TF_ENABLE_ONEDNN_OPTS"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train_two(sets, directory):
    models.ARCHITECTURES["tiny"] = shallow
    tf.config.run_functions_eagerly(True)
    models.train_models(sets, directory, ["obj", "scene2"], "tiny", epochs=0.4, batch_size=20)


def train_all(sets, directory):
    train_twice()
    train_two(sets, directory)


def test_training_learns_repeats_and_leaves_what_is_there(sets, tmp_path, capsys, monkeypatch):
    """The same seed gives the same weights; networks that exist stay."""
    found = re.findall(r"(\w+): validation accuracy [\d.]+ %", run_alone(train_all, sets, tmp_path))
    assert found == ["obj", "scene2"]
    monkeypatch.setitem(models.ARCHITECTURES, "tiny", shallow)
    card = (tmp_path / "scene2" / "MODEL_CARD.md").read_text()
    assert "A dog in the scenes bedroom, bamboo_forest" in card and "seed: 0" in card
    models.train_models(sets, str(tmp_path), ["obj", "scene2"], "tiny", epochs=1, batch_size=20)
    assert not capsys.readouterr().out
    with pytest.raises(BadInput, match="no model 'scen'"):
        models.train_models(sets, str(tmp_path), ["scen"])
    with pytest.raises(BadInput, match="no architecture 'resnet51'"):
        models.train_models(sets, str(tmp_path), ["scene"], "resnet51")


def test_a_vision_transformers_tokens_are_explained_layer_by_layer(tmp_path, monkeypatch):
    network = attending(normalized=False)
    models.export(network, tmp_path / "vit", "")
    model = classifiers.classifier_at(str(tmp_path / "vit"))
    x = 60 * np.random.default_rng(0).standard_normal((2, 64, 64, 3)).astype(np.float32)
    for name, method in methods.BY_LAYER.items():
        maps = attribution.explain(methods.method_named(name), model, x)
        assert maps.shape == (2, 64, 64) and method.defaults["layer"] in name
    # Behind the last normalization there is only a mean and a linear layer, so the parts of the tokens add up.
    parts = attribution.explain("hires_cam", model, x, 3, layer="last_norm", resize=False)
    features = np.asarray(keras.Model(network.inputs, network.get_layer("last_norm").output)([x]))
    kernel, _ = network.get_layer("final_dense").get_weights()
    exact = np.maximum(features @ kernel[:, 3] / 16, 0).reshape(2, 4, 4)
    np.testing.assert_allclose(parts, exact, rtol=1e-3, atol=1e-5)
    monkeypatch.setitem(models.ARCHITECTURES, "small_vit", lambda side, normalized: attending(normalized))
    third_party.matching(model, models.live_network(model))


@pytest.mark.parametrize("number", range(len(TRANSFORMERS)))
def test_the_vision_transformers_of_the_repository_have_a_card_and_fit(number):
    for name, least in {"obj": 97, "scene": 99}.items():
        directory = os.path.join(given_or_bundled(TRANSFORMERS[number]), name)
        with open(os.path.join(directory, "MODEL_CARD.md"), encoding="utf-8") as file:
            card = file.read()
        assert "architecture: small_vit" in card and "reads it from 31 x 31" in card
        assert float(re.search(r"accuracy\.\*\* ([\d.]+) %", card)[1]) >= least
        size = sum(os.path.getsize(os.path.join(path, f)) for path, _, files in os.walk(directory) for f in files)
        assert size <= 1.5e6


@pytest.mark.parametrize("name", layout.MODEL_NAMES)
def test_the_models_of_the_repository_have_a_card_and_fit(name, tmp_path):
    directory = os.path.join(layout.SAVED_MODELS, name)
    with open(os.path.join(directory, "MODEL_CARD.md"), encoding="utf-8") as file:
        card = file.read()
    for word in ("**Data.**", "**Recipe.**", "seed: 0", "**Validation accuracy.**", "channel_means"):
        assert word in card
    chosen = name in layout.CONTRAST_SETS  # by looking at their scores
    assert ("no independent result" in card) == chosen and ("not used for training or selection;" in card) != chosen
    number = float(re.search(r"accuracy\.\*\* ([\d.]+) %", card)[1]) / 100
    recipe = dict(one.split(": ", 1) for one in re.search(r"\*\*Recipe\.\*\* (.*)\.", card)[1].split("; "))
    windows = "share of the images seen through a random window"
    recipe[windows] = float(recipe.get(windows, 0))
    (tmp_path / "corpora").mkdir()
    record = {"seed": 0, "num_train": 200, "num_val": 100}
    written = models._model_card(name, str(tmp_path), record, recipe, number)
    assert (written if chosen else written.replace(f"; {windows}: 0.0.", ".")) == card
    accuracy = float(re.search(r"accuracy\.\*\* ([\d.]+) %", card).group(1))
    assert accuracy >= (90 if name in ("obj", "scene", "scene_only") else 0)
    size = sum(os.path.getsize(os.path.join(folder, f)) for folder, _, files in os.walk(directory) for f in files)
    assert size <= 1.1e6


def test_methods_of_other_libraries_explain_the_exported_networks():
    # Saliency of tf-keras-vis is the largest |gradient| of the channels, each map scaled to [0, 1].
    model = classifiers.load_classifier(layout.SAVED_MODELS, "obj")
    images = np.random.default_rng(5).integers(0, 256, (3, 128, 128, 3), np.uint8)
    inputs = classifiers.network_inputs(images, 128)
    for ours, theirs in (("gradient", "tf_keras_vis.gradient"), ("guided_backprop", "tf_keras_vis.guided_backprop")):
        expected = np.abs(attribution.explain(ours, model, inputs)).max(axis=-1)
        low, high = (limit(expected, axis=(1, 2), keepdims=True) for limit in (np.min, np.max))
        found = attribution.explain(theirs, model, inputs)
        np.testing.assert_allclose(found, (expected - low) / (high - low), atol=2e-3)
    plain, guided = (
        attribution.explain(f"tf_keras_vis.{name}", model, inputs) for name in ("gradient", "guided_backprop")
    )
    assert np.abs(plain - guided).max() > 0.1


def test_an_exported_file_has_a_live_network(tiny_models, monkeypatch):
    def tiny(side, normalized):
        return models.small_resnet(side, normalized, widths=(4, 4, 4, 4))

    monkeypatch.setitem(models.ARCHITECTURES, "small_resnet", tiny)
    path = os.path.join(tiny_models, "obj")
    data = os.path.getsize(os.path.join(path, "1", "variables", "variables.data-00000-of-00001"))
    assert 4 * tiny(32, False).count_params() < data < 2 * 4 * tiny(32, False).count_params()
    model = classifiers.classifier_at(path)
    third_party.matching(model, models.live_network(model))


def test_a_network_of_another_architecture_has_no_live_one(tiny_models, monkeypatch):
    monkeypatch.setitem(models.ARCHITECTURES, "resnet50", lambda side, normalized: deep(normalized))
    model = classifiers.load_classifier(tiny_models, "obj")
    with pytest.raises(BadInput, match="exported from none of 'small_resnet', 'resnet50', 'small_vit'"):
        models.live_network(model)


@pytest.mark.parametrize("side", [32, 48, 128])
def test_images_are_resized_in_training_as_where_they_are_scored(side):
    images = np.random.default_rng(3).integers(0, 256, (2, 128, 128, 3), np.uint8)
    trained = models.network_input(images, side).numpy()
    np.testing.assert_allclose(trained, classifiers.network_inputs(images, side), atol=1.0)  # Pillow rounds twice


def test_a_bundled_network_that_is_not_installed_is_named_with_its_package(monkeypatch, tmp_path):
    monkeypatch.setattr("bim.classifiers.models_folder", lambda: tmp_path)
    (tmp_path / "bim" / "obj").mkdir(parents=True)
    with pytest.raises(BadInput, match=r"no model 'scene1' .* in the package attribution-benchmarks-models"):
        classifiers.load_classifier(tmp_path / "bim", "scene1")
    with pytest.raises(BadInput, match=r"there are none$"):
        classifiers.load_classifier(tmp_path.parent / "other", "scene1")


def test_the_report_leaves_out_networks_that_are_not_installed(monkeypatch, tmp_path):
    every = {task.name: len(task.networks) for task in BENCHMARK.report_tasks(True, 0)}
    assert "bim_rmcs" in every and every["bim"] == 9
    monkeypatch.setattr("bim.definition.default_model", lambda name: tmp_path / name)
    left = {task.name: len(task.networks) for task in BENCHMARK.report_tasks(True, 0)}
    assert "bim_rmcs" not in left and left["bim"] == 0
