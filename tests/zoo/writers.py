"""Write families by Keras on JAX or on PyTorch, with the weights that they have on TensorFlow.

    PYTHONPATH=.:tests KERAS_BACKEND=jax python -m zoo.writers FAMILY FOLDER

does it for one whose weights are in ``FOLDER/weights.npz``; ``write`` starts that process, since Keras reads its
backend once. PyTorch's files need torch_xla beside Keras and TensorFlow: ``pip install torch==2.9.1 torch_xla==2.9.0``.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys

import numpy as np

from zoo.family import Exported, Family

WRITERS = {"jax": "JAX", "torch": "PyTorch"}
_ROOT = pathlib.Path(__file__).resolve().parents[2]


class NotWritten(Exception):
    """A backend cannot build or write a family."""


def writable(family: Family) -> bool:
    """Return whether Keras writes the family's file by itself, so that it can do so on each of its backends."""
    return isinstance(family.write, Exported)


def write(family: Family, writer: str, folder: pathlib.Path, python: str = "") -> pathlib.Path:
    """Write a family in a process of its own, unless it is there; return the file's path.

    Parameters
    ----------
    family, writer
        A family that is ``writable``, and a key of ``WRITERS``.
    folder
        Folder of the family's files by its writers; it has the weights, once one was written.
    python
        The interpreter whose packages are used; by default this one.

    Raises
    ------
    NotWritten
        If the process fails; it has the last line that it printed.
    """
    path = folder / writer
    if (path / "saved_model.pb").exists():
        return path
    weights = folder / "weights.npz"
    if not weights.exists():
        np.savez(weights, *family.write.settled().get_weights())
    command = [python or sys.executable, "-m", "zoo.writers", family.name, str(folder)]
    found_in = os.pathsep.join(map(str, (_ROOT, _ROOT / "tests")))
    environment = os.environ | {"PYTHONPATH": found_in, "KERAS_BACKEND": writer, "PJRT_DEVICE": "CPU"}
    done = subprocess.run(command, env=environment, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotWritten(_cause(done.stderr))
    return path


def _cause(stderr: str) -> str:
    """Return the line of a traceback that says what happened."""
    lines = [line.strip() for line in stderr.splitlines()]
    errors = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    return (errors or lines or [""])[-1]


def _write(family: Family, folder: pathlib.Path) -> None:
    """Write a family on the backend of this process."""
    import keras

    writer = keras.backend.backend()
    with np.load(folder / "weights.npz") as file:
        weights = [file[name] for name in file.files]
    model = family.write.settled()
    model.set_weights(weights)
    path = folder / writer
    inputs = family.inputs(4 if family.quick else 2)
    if writer == "torch":
        _write_on_torch(model, inputs, path)
    else:
        model.export(path, verbose=False)


def _write_on_torch(model, inputs, path) -> None:
    """Write a network for a fixed number of rows; Keras 3.15 asks PyTorch for any number in a way that it refuses."""
    import keras
    import torch
    from torch_xla.tf_saved_model_integration import save_torch_module_as_tf_saved_model

    class Positional(torch.nn.Module):
        """The network as a function of its inputs, one after the other."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *arrays):
            return self.model(list(arrays))

    model.eval()
    if isinstance(inputs, dict):  # Keras' own exporter knows networks of one input alone
        arrays = tuple(torch.tensor(array) for array in inputs.values())
        save_torch_module_as_tf_saved_model(Positional(), arrays, str(path))
    else:
        spec = keras.InputSpec(shape=inputs.shape, dtype=inputs.dtype.name)
        model.export(path, verbose=False, input_signature=[spec])


def main() -> None:
    """Write one family."""
    if os.environ.get("KERAS_BACKEND") == "torch":
        import torch_xla  # noqa: F401  (ahead of TensorFlow: the other way round, the process aborts)
    from zoo.families import FAMILIES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("folder", type=pathlib.Path)
    values = parser.parse_args()
    _write(FAMILIES[values.family], values.folder)


if __name__ == "__main__":
    main()
