"""Objects of custom modules: ``file.py:NAME`` or ``module:NAME``."""

from __future__ import annotations

import pathlib
from types import ModuleType
from typing import TypeVar

from attribution.errors import BadInput
from attribution.plugins import module_at

_Found = TypeVar("_Found")


def loaded(name: str, kind: type[_Found], what: str) -> _Found:
    """Return an object of a custom module.

    Parameters
    ----------
    name
        ``module:NAME`` or ``path/to/file.py:NAME``.
    kind
        Its class.
    what
        The flag that names it, for messages.

    Raises
    ------
    BadInput
        If it does not exist or is of another class.
    """
    place, _, attribute = name.rpartition(":")
    if not place or not attribute.isidentifier():
        raise BadInput(f"{what} has '{name}'; your own is written file.py:NAME or module:NAME")
    found = getattr(_module(place, f"{what}={name}"), attribute, None)
    if not isinstance(found, kind):
        raise BadInput(f"{what}={name}: '{place}' has no {kind.__name__} called '{attribute}'")
    return found


def _module(place: str, what: str) -> ModuleType:
    path = pathlib.Path(place)
    if place.endswith(".py") and not path.is_file():
        raise BadInput(f"{what}: there is no file {path}")
    try:
        return module_at(str(path.resolve()), path.stem) if place.endswith(".py") else module_at(place)
    except (Exception, SystemExit) as error:  # a user's own code may raise whatever it likes
        raise BadInput(f"{what}: cannot import '{place}' ({type(error).__name__}: {error})") from error
