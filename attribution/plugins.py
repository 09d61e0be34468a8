"""Functions and objects that a user names as ``module:NAME`` or ``path/to/file.py:NAME``."""

from __future__ import annotations

import contextlib
import importlib
import os
import pathlib
import sys
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

from attribution.errors import BadInput, described, did_you_mean
from attribution.files import is_special, similar_paths

_Found = TypeVar("_Found")


def imported(name: str, what: str) -> Callable[..., Any]:
    """Return a user's function; ``what`` is its kind for messages, such as ``"method"``, and see ``loaded_object``."""
    kind: Any = Callable
    function: Callable[..., Any] = loaded_object(name, kind, what)
    return function


def loaded_object(name: str, kind: type[_Found], what: str) -> _Found:
    """Return an object of a user's module.

    Parameters
    ----------
    name
        ``module:NAME``, the working directory being searched too, or ``path/to/file.py:NAME``.
    kind
        Its class; ``Callable`` for any function.
    what
        What it is for messages: ``"method"``, or the flag that names it.

    Raises
    ------
    BadInput
        If the module cannot be imported, or has no such object of this class.
    """
    place, _, attribute = name.rpartition(":")
    if not place.strip(".:") or not attribute.isidentifier() or (place.startswith(".") and "/" not in place):
        raise BadInput(f"{what} '{name}': write module:NAME or path/to/file.py:NAME, with both names")
    is_function = kind.__name__ == "Callable"
    try:
        # Classes may look up their module, as dataclasses do.
        module = _module_at(place, None if is_function else pathlib.Path(place).stem)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's code may raise anything
        raise BadInput(f"{what} '{name}': cannot import '{place}' ({_where(error)})") from error
    found = getattr(module, attribute, None)
    if not isinstance(found, kind):
        word, near = "function" if is_function else kind.__name__, did_you_mean(attribute, vars(module))
        raise BadInput(f"{what} '{name}': '{place}' has no {word} '{attribute}'{near}")
    return found


def _module_at(place: str, known_as: str | None = None) -> ModuleType:
    """Import a user's module; exceptions are raised unchanged.

    Parameters
    ----------
    place
        Dotted name, the working directory being searched too, or path of a ``.py`` file.
    known_as
        Name under which the module of a file is found by what looks it up, as dataclasses do; None for none.
    """
    with user_code():
        if not place.endswith(".py"):
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            return importlib.import_module(place)
        if not os.path.exists(place):
            raise OSError(f"there is no such file{similar_paths(pathlib.Path(place))}")
        if is_special(place):  # a pipe would block
            raise OSError(f"{place} is not a regular file")
        name = known_as or "custom_method"
        module, file = ModuleType(name), os.path.abspath(place)
        module.__file__ = file
        if known_as:
            sys.modules.setdefault(known_as, module)
        # Compiled from the file as it is now, not from cached bytecode.
        exec(compile(pathlib.Path(file).read_bytes(), file, "exec"), vars(module))
        return module


@contextlib.contextmanager
def user_code() -> Iterator[None]:
    """Run a user's code; restore the working directory, so that paths of outputs stay valid, and ``sys.stdout``."""
    output, before = sys.stdout, os.getcwd()
    try:
        yield
    finally:
        sys.stdout = output
        os.chdir(before)


def _where(error: BaseException) -> str:
    """Return the exception of an import, with its line where that is in a user's file."""
    if isinstance(error, (ImportError, OSError, SyntaxError)):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return described(error) + (f", {last.filename} line {last.lineno}" if last.filename != __file__ else "")
