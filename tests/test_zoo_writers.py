"""A family that Keras writes on JAX or PyTorch is the network that it writes on TensorFlow."""

import functools
import importlib.util

import pytest

from zoo import comparison, writers
from zoo.families import FAMILIES

PACKAGES = {"jax": "jax", "torch": "torch_xla"}


@pytest.fixture(params=PACKAGES)
def writer(request):
    if not importlib.util.find_spec(PACKAGES[request.param]):  # torch_xla, imported after TensorFlow, ends the process
        pytest.skip(f"needs {PACKAGES[request.param]}")
    return request.param


@pytest.fixture(scope="module")
def reference_of(tmp_path_factory, quick_python):
    """Return a function from a family's name to its file by TensorFlow, written once, and the folder of its files."""

    @functools.cache
    def written(name):
        folder = tmp_path_factory.mktemp(name)
        path = writers.write(FAMILIES[name], "tensorflow", folder, str(quick_python))
        reference = comparison.Explained(FAMILIES[name], path)
        reference.find_layers()
        return reference, folder

    return written


def compared(reference_of, name, writer, methods):
    reference, folder = reference_of(name)
    return comparison.compare(reference, writers.write(FAMILIES[name], writer, folder), methods)


def test_maps_are_those_of_tensorflow(writer, reference_of):
    found = compared(reference_of, "residual", writer, ["gradient", "lrp_epsilon_plus", "grad_cam"])
    assert [cell["status"] for cell in found["methods"].values()] == ["exact"] * 3, found
    assert (found["layer"], found["kept"]) == ("", "")
    folder = reference_of("residual")[1]
    assert writers.write(FAMILIES["residual"], writer, folder) == folder / writer  # which is not written again


@pytest.mark.parametrize("name", ["two_inputs", "several_outputs"])
def test_names_of_inputs_and_outputs_are_the_writers(name, writer, reference_of):
    (cell,) = compared(reference_of, name, writer, ["gradient"])["methods"].values()
    assert cell["status"] == "exact", cell


def test_another_network_differs_and_a_damaged_file_is_refused(reference_of, tmp_path):
    reference, other = reference_of("residual")[0], tmp_path / "other"
    FAMILIES["bias_free"].write(other)
    (cell,) = comparison.compare(reference, other, ["gradient"])["methods"].values()
    assert cell["status"] == "differs" and cell["difference"] > 0.01
    (other / "saved_model.pb").write_bytes(b"damaged")
    (cell,) = comparison.compare(reference, other, ["gradient"])["methods"].values()
    assert cell["status"] == "refused", cell


def test_what_a_backend_cannot_write_is_named(reference_of):
    with pytest.raises(writers.NotWritten, match="no_such_backend"):
        writers.write(FAMILIES["residual"], "no_such_backend", reference_of("residual")[1])


def test_files_that_only_tensorflow_writes():
    assert not any(writers.writable(FAMILIES[name]) for name in ("tensorflow_1", "examples", "static_batch"))
    assert writers.writable(FAMILIES["keras_int8"])
