"""Where the SavedModels are that come with the project: at the top of a checkout, inside the installed package."""

from __future__ import annotations

import os
import pathlib

from attribution.file_io.remote_files import origin

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
_INSTALLED, _CHECKED_OUT = (folder / "saved_models" for folder in (_PACKAGE, _PACKAGE.parent))


def models_folder() -> pathlib.Path:
    """Return the folder of a folder for each benchmark; in a checkout it may be empty."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKED_OUT


def default_model(name: str) -> pathlib.Path:
    """Return the directory of a model that comes with the project, such as ``svea/baseline``, be it there or not."""
    return models_folder() / name


def shown_model(path: pathlib.Path) -> str:
    """Return a path as the user gave it, and that of a model of the project as ``saved_models/svea/baseline``."""
    folder = models_folder()
    if (address := origin(path)) != os.fspath(path):
        return address
    return path.relative_to(folder.parent).as_posix() if path.is_relative_to(folder) else path.as_posix()
