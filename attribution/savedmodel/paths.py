"""Find the SavedModel at a path; a Keras file is converted to one."""

from __future__ import annotations

import hashlib
import os
import pathlib
from typing import Any

import numpy as np

from attribution.errors import BadInput, shortened
from attribution.files import reason, refuse_address, similar_paths
from attribution.savedmodel import keras_files


def is_keras_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a file with an ending of Keras's formats: ``.keras``, ``.h5`` or ``.hdf5``."""
    return pathlib.Path(path).suffix.lower() in (*keras_files.ZIP, *keras_files.HDF5) and os.path.isfile(path)


def find_saved_model(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the directory that holds ``saved_model.pb``.

    Parameters
    ----------
    path
        That directory itself, or a parent with numbered versions (``.../1/``), of which the highest is taken; or a
        file of Keras, which is converted in the cache (``keras_files.converted``).

    Raises
    ------
    BadInput
        If there is no SavedModel, or the file cannot be converted.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise BadInput(f"the path of a SavedModel must be text, not {path!r}")
    directory = pathlib.Path(path)
    if is_keras_file(directory):
        return keras_files.converted(directory)
    try:
        if (directory / "saved_model.pb").is_file():
            return directory
        children = directory.iterdir() if directory.is_dir() else ()
        versions = [child for child in children if child.name.isdecimal() and (child / "saved_model.pb").is_file()]
        if versions:
            return max(versions, key=lambda child: int(child.name))
    except (OSError, ValueError) as error:
        message = reason(error) if isinstance(error, OSError) else str(error)
        raise BadInput(f"'{shortened(path)}' cannot be read: {message}; name the directory of a SavedModel") from error
    refuse_address(path)
    if directory.is_dir():
        raise BadInput(
            f"'{path}' is not a SavedModel: no saved_model.pb in it or in a numbered version directory below it"
        )
    if directory.is_file():
        raise BadInput(
            f"'{path}' is a file; a SavedModel is the directory that holds saved_model.pb, as keras.Model.export or "
            "tf.saved_model.save writes it (of a frozen graph: docs/own_models.md, under 'Frozen graphs')"
        )
    raise BadInput(
        f"'{path}' does not exist; a directory with saved_model.pb, or a .keras or .h5 file, is needed"
        f"{similar_paths(directory)}"
    )


def fingerprint(directory: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a SavedModel's graph, variables and assets as 64 hexadecimal digits.

    Of a Keras file, that of the file.
    """
    directory = find_saved_model(directory)
    return keras_files.content_of(directory) or content_of(directory)


def file_states(directory: pathlib.Path) -> list[tuple[int, int, int]]:
    """Return inode, size and time of the last change of all files in a directory, which differ after a change."""
    found = [path.stat() for path in sorted(directory.rglob("*")) if path.is_file()]
    return [(one.st_ino, one.st_size, one.st_ctime_ns) for one in found]


def content_of_array(value: Any) -> str:
    """Return the type, the shape and the SHA-256 of an array, as text."""
    array = np.asarray(value)
    return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"


def content_of(directory: pathlib.Path) -> str:
    """Return the SHA-256 of the files of a SavedModel's directory as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in ("assets", "saved_model.pb", "variables"):
        top = (directory / part).resolve()  # which may be a link
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file():
                digest.update((part / path.relative_to(top)).as_posix().encode() + b"\0")
                with path.open("rb") as file:
                    while block := file.read(1 << 18):
                        digest.update(block)
    return digest.hexdigest()
