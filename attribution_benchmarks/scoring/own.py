"""What a user wrote in a file elsewhere: ``file.py:NAME`` or ``module:NAME``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib
import sys
from types import ModuleType
from typing import TypeVar

from attribution_benchmarks.command_line import BadInput

Found = TypeVar("Found")


def loaded(name: str, kind: type[Found], what: str) -> Found:
    """Return an object of a kind by its place.

    Parameters
    ----------
    name
        ``module:NAME`` or ``path/to/file.py:NAME``.
    kind
        What it must be.
    what
        The flag that named it, for messages.

    Raises
    ------
    BadInput
        If there is none.
    """
    place, _, attribute = name.rpartition(":")
    if not place or not attribute.isidentifier():
        raise BadInput(f"{what} has '{name}'; your own is written file.py:NAME or module:NAME")
    found = getattr(_module(place, f"{what}={name}"), attribute, None)
    if not isinstance(found, kind):
        raise BadInput(f"{what}={name}: '{place}' has no {kind.__name__} called '{attribute}'")
    return found


def _module(place: str, what: str) -> ModuleType:
    if not place.endswith(".py"):
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(place)
        except ImportError as error:
            raise BadInput(f"{what}: cannot import '{place}' ({error})") from error
    path = pathlib.Path(place)
    if not path.is_file():
        raise BadInput(f"{what}: there is no file {path}")
    specification = importlib.util.spec_from_file_location(path.stem, path.resolve())
    module = importlib.util.module_from_spec(specification)
    sys.modules.setdefault(path.stem, module)  # dataclasses and fingerprints look a function's module up there
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"{what}: {path} cannot be run ({type(error).__name__}: {error})") from error
    return module
