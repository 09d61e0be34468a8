"""A family that Keras writes on JAX or PyTorch is the network that it writes on TensorFlow."""

import importlib.util

import numpy as np
import pytest

import attribution
from tools.model_zoo import measure, writers
from tools.model_zoo.families import FAMILIES

PACKAGES = {"jax": "jax", "torch": "torch_xla"}


@pytest.fixture(params=PACKAGES)
def writer(request):
    if not importlib.util.find_spec(PACKAGES[request.param]):  # torch_xla, imported after TensorFlow, ends the process
        pytest.skip(f"needs {PACKAGES[request.param]}")
    return request.param


def test_scores_and_maps_are_those_of_tensorflow(writer, tmp_path):
    family = FAMILIES["residual"]
    methods = ["gradient", "lrp_epsilon_plus", "grad_cam"]

    def written(double):
        return writers.write(family, writer, tmp_path, double)

    found = measure.measure(family, methods, written=written)["methods"]
    assert [cell["status"] for cell in found.values()] == ["exact"] * 3, found
    inputs = family.inputs(4)
    family.write(tmp_path / "tensorflow")
    expected = attribution.load_model(tmp_path / "tensorflow").scores(inputs)
    np.testing.assert_allclose(attribution.load_model(written(False)).scores(inputs), expected, atol=1e-5)
    assert written(False) == tmp_path / writer  # which is there, and not written again


@pytest.mark.parametrize("name", ["two_inputs", "several_outputs"])
def test_names_of_inputs_and_outputs_are_the_writers(name, writer, tmp_path):
    def written(double):
        return writers.write(FAMILIES[name], writer, tmp_path, double)

    (cell,) = measure.measure(FAMILIES[name], ["gradient"], written=written)["methods"].values()
    assert cell["status"] == "exact", cell


def test_what_a_backend_cannot_write_is_named(tmp_path):
    with pytest.raises(writers.NotWritten, match="no_such_backend"):
        writers.write(FAMILIES["residual"], "no_such_backend", tmp_path)


def test_files_that_only_tensorflow_writes():
    assert not any(writers.writable(FAMILIES[name]) for name in ("tensorflow_1", "examples", "static_batch"))
    assert writers.writable(FAMILIES["keras_int8"])
