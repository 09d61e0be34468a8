"""An exported Keras network stores each weight once, and so does every bundled SavedModel."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core import keras_export
from attribution_benchmarks.core.bundled_models import models_folder


def stored_variables(version):
    """Return the arrays in a SavedModel's checkpoint by their keys."""
    file = str(version / "variables" / "variables")
    return {name: tf.train.load_variable(file, name) for name, shape in tf.train.list_variables(file) if shape}


@pytest.fixture
def network():
    layers = [keras.Input((3,), name="signal"), keras.layers.Dense(4), keras.layers.Dense(2, "softmax")]
    return keras.Sequential(layers)


def test_the_exported_file_computes_the_same_and_stores_each_weight_once(network, tmp_path):
    def add_files(version):
        (version / "more.txt").write_text("more")

    keras_export.export(network, tmp_path / "net", "a card\n", add_files=add_files)
    assert sorted(path.name for path in (tmp_path / "net").iterdir()) == ["1", "MODEL_CARD.md"]
    assert (tmp_path / "net/1/more.txt").exists() and not (tmp_path / "net/1/assets").exists()
    model = attribution.load_model(tmp_path / "net", score="probabilities")
    signals = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    assert list(model.inputs) == ["signal"]
    np.testing.assert_allclose(model.scores(signals), network(signals), rtol=1e-6)
    stored = stored_variables(tmp_path / "net/1")
    assert sorted(map(np.size, stored.values())) == sorted(map(np.size, network.get_weights()))
    listed = tf.saved_model.load(tmp_path / "net/1").variables
    for one, weights in zip(listed, network.get_weights(), strict=True):
        np.testing.assert_array_equal(one.numpy(), weights)
    with pytest.raises(BadInput, match="made by another process"):
        keras_export.export(network, tmp_path / "net", "another card\n")


def test_a_failed_export_leaves_nothing_half_written(network, tmp_path):
    def full_disk(_):
        raise OSError("no space left")

    with pytest.raises(BadInput, match="no space"):
        keras_export.export(network, tmp_path / "net", "a card\n", add_files=full_disk)
    assert list(tmp_path.iterdir()) == []


VERSIONS = sorted(path.parent for path in models_folder().rglob("1/saved_model.pb"))  # with those made for servers


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.relative_to(models_folder()).as_posix())
def test_no_bundled_network_stores_a_variable_twice(version: pathlib.Path):
    # Two shifts whose outputs are added stay equal in training; kernels do not.
    kernels = [value for value in stored_variables(version).values() if value.ndim > 1 and np.ptp(value) > 0]
    assert kernels and len({(value.shape, value.tobytes()) for value in kernels}) == len(kernels)
