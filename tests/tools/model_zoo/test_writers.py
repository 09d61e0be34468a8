"""A family that Keras writes on JAX or PyTorch is the network that it writes on TensorFlow."""

import importlib.util

import pytest

from tools.model_zoo import comparison, writers
from tools.model_zoo.families import FAMILIES

PACKAGES = {"jax": "jax", "torch": "torch_xla"}


@pytest.fixture(params=PACKAGES)
def writer(request):
    if not importlib.util.find_spec(PACKAGES[request.param]):  # torch_xla, imported after TensorFlow, ends the process
        pytest.skip(f"needs {PACKAGES[request.param]}")
    return request.param


def compared(name, writer, folder, methods):
    paths = [writers.write(FAMILIES[name], one, folder) for one in ("tensorflow", writer)]
    reference = comparison.Explained(FAMILIES[name], paths[0])
    reference.find_layers()
    return comparison.compare(reference, paths[1], methods)


def test_maps_are_those_of_tensorflow(writer, tmp_path):
    found = compared("residual", writer, tmp_path, ["gradient", "lrp_epsilon_plus", "grad_cam"])
    assert [cell["status"] for cell in found["methods"].values()] == ["exact"] * 3, found
    assert (found["layer"], found["kept"]) == ("", "")
    assert writers.write(FAMILIES["residual"], writer, tmp_path) == tmp_path / writer  # which is not written again


@pytest.mark.exhaustive  # each writes two files in processes of their own
@pytest.mark.parametrize("name", ["two_inputs", "several_outputs"])
def test_names_of_inputs_and_outputs_are_the_writers(name, writer, tmp_path):
    (cell,) = compared(name, writer, tmp_path, ["gradient"])["methods"].values()
    assert cell["status"] == "exact", cell


def test_another_network_differs_and_a_damaged_file_is_refused(tmp_path):
    path = writers.write(FAMILIES["residual"], "tensorflow", tmp_path)
    reference = comparison.Explained(FAMILIES["residual"], path)
    reference.find_layers()
    (tmp_path / "other").mkdir()
    other = writers.write(FAMILIES["bias_free"], "tensorflow", tmp_path / "other")
    (cell,) = comparison.compare(reference, other, ["gradient"])["methods"].values()
    assert cell["status"] == "differs" and cell["difference"] > 0.01
    (other / "saved_model.pb").write_bytes(b"damaged")
    (cell,) = comparison.compare(reference, other, ["gradient"])["methods"].values()
    assert cell["status"] == "refused", cell


def test_what_a_backend_cannot_write_is_named(tmp_path):
    with pytest.raises(writers.NotWritten, match="no_such_backend"):
        writers.write(FAMILIES["residual"], "no_such_backend", tmp_path)


def test_files_that_only_tensorflow_writes():
    assert not any(writers.writable(FAMILIES[name]) for name in ("tensorflow_1", "examples", "static_batch"))
    assert writers.writable(FAMILIES["keras_int8"])
