"""Paths of the SavedModels that come with the project, in a checkout or in the installed package."""

from __future__ import annotations

import os
import pathlib

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
_INSTALLED, _CHECKED_OUT = (folder / "saved_models" for folder in (_PACKAGE, _PACKAGE.parent))


def models_folder() -> pathlib.Path:
    """Return the folder that has one folder for each benchmark."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKED_OUT


def default_model(name: str) -> pathlib.Path:
    """Return the directory of a bundled model, such as ``exact/problems``; it may not exist."""
    return models_folder() / name


def given_or_bundled(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return a given directory, or the bundled model of that name, as in ``saved_models/exact/problems``."""
    path = pathlib.Path(path)
    bundled = path.parts[:1] == (models_folder().name,) and not path.exists()
    return models_folder().parent / path if bundled else path


def shown_model(path: pathlib.Path) -> str:
    """Return a path as given by the user, or ``saved_models/exact/problems`` for a bundled model."""
    from attribution.files import origin

    folder = models_folder()
    if (address := origin(path)) != os.fspath(path):
        return address
    return path.relative_to(folder.parent).as_posix() if path.is_relative_to(folder) else path.as_posix()
