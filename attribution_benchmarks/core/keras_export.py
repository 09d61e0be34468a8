"""Export of a trained Keras network as a SavedModel that holds each weight once."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attribution.files import atomic_directory, atomic_write, writing

if TYPE_CHECKING:
    import keras

Functions = Mapping[str, tuple[Callable[..., Any], list[Any]]]


def export(
    network: keras.Model,
    directory: pathlib.Path,
    card: str,
    functions: Functions | None = None,
    add_files: Callable[[pathlib.Path], object] | None = None,
) -> None:
    """Write a network to ``directory/1`` and its card to ``directory/MODEL_CARD.md``, or neither of them.

    The reloaded file lists its weights under ``variables``, in Keras's order. ``keras.Model.export`` stores each twice.

    Parameters
    ----------
    network
        On the TensorFlow backend.
    directory
        Must not hold a version 1; created if missing.
    card
        Text of the model card.
    functions
        Signatures by name, each a function with the specifications of its inputs; ``serving_default`` is the first
        unless one has that name. By default ``serve``, the network itself in inference mode.
    add_files
        Writes further files to the version's directory.

    Raises
    ------
    BadInput
        If the files cannot be written, or there is a version 1 already.
    """
    import keras

    if functions is None:
        functions = {"serve": (lambda *inputs: network(*inputs, training=False), network.inputs)}
    archive = keras.export.ExportArchive()
    for name, (function, inputs) in functions.items():
        archive.add_endpoint(name, function, inputs)
    archive.add_variable_collection("variables", [variable.value for variable in network.variables])
    with writing(directory), atomic_directory(directory / "1") as unfinished:
        archive.write_out(str(unfinished), verbose=False)
        shutil.rmtree(unfinished / "assets", ignore_errors=True)  # always empty here
        if add_files:
            add_files(unfinished)
        atomic_write(directory / "MODEL_CARD.md", card)  # a directory with a version 1 is complete
