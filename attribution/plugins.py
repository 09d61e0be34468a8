"""Functions and objects that a user names as ``module:NAME`` or ``path/to/file.py:NAME``."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.machinery
import importlib.util
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
    """Return the function of that name.

    Parameters
    ----------
    name
        ``module:function``, the working directory being searched too, or ``path/to/file.py:function``.
    what
        Kind of the function for messages, such as ``"method"``.

    Raises
    ------
    BadInput
        If the module cannot be imported or has no such function.
    """
    module_name, _, function_name = name.rpartition(":")
    if not module_name.strip(".:") or not function_name or (module_name.startswith(".") and "/" not in module_name):
        raise BadInput(f"{what} '{name}': write module:function or path/to/file.py:function, with both names")
    try:
        module = _module_at(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's code may raise anything
        raise BadInput(f"{what} '{name}': cannot import '{module_name}' ({_where(error)})") from error
    function: Callable[..., Any] | None = getattr(module, function_name, None)
    if not callable(function):
        near = did_you_mean(function_name, vars(module))
        raise BadInput(f"{what} '{name}': '{module_name}' has no function '{function_name}'{near}")
    return function


def loaded_object(name: str, kind: type[_Found], what: str) -> _Found:
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
    path = pathlib.Path(place)
    if place.endswith(".py") and not path.is_file():
        raise BadInput(f"{what}={name}: there is no file {path}{similar_paths(path)}")
    try:
        module = _module_at(str(path.resolve()), path.stem) if place.endswith(".py") else _module_at(place)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise BadInput(f"{what}={name}: cannot import '{place}' ({described(error)})") from error
    found = getattr(module, attribute, None)
    if not isinstance(found, kind):
        near = did_you_mean(attribute, vars(module))
        raise BadInput(f"{what}={name}: '{place}' has no {kind.__name__} called '{attribute}'{near}")
    return found


def refuse_file_alone(name: str, what: str, functions: bool = True) -> None:
    """Refuse the name of a Python file without the name of an object in it; the file is read, not run.

    Parameters
    ----------
    name
        What the user wrote; anything that does not end in ``.py`` is accepted.
    what
        Kind of the object for messages, such as ``"method"``.
    functions
        Whether a function is needed; otherwise an object that the file makes by a call, such as a metric.

    Raises
    ------
    BadInput
        With what the file defines and what to write.
    """
    if not name.endswith(".py"):
        return
    if not pathlib.Path(name).is_file():
        raise BadInput(f"{what} '{name}': there is no such file{similar_paths(pathlib.Path(name))}")
    try:
        body = ast.parse(pathlib.Path(name).read_bytes()).body
    except (SyntaxError, ValueError) as error:
        raise BadInput(f"{what} '{name}': this file is not valid Python ({error})") from error
    kind = "function" if functions else "object of this kind"
    public = [each for each in _defined_in(body, functions) if not each.startswith("_")]
    if not public:
        raise BadInput(f"{what} '{name}': this file defines no {kind}; write file.py:NAME")
    raise BadInput(f"{what} '{name}': this file defines {', '.join(public)}; write {name}:{public[-1]}")


def _defined_in(body: list[ast.stmt], functions: bool) -> list[str]:
    """Return the names of a module's functions, or of the objects that it makes by a call."""
    if functions:
        return [node.name for node in body if isinstance(node, ast.FunctionDef)]
    made = [node for node in body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    return [target.id for node in made for target in node.targets if isinstance(target, ast.Name)]


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
        specification = importlib.util.spec_from_file_location(name, place, loader=_SourceLoader(name, place))
        assert specification is not None and specification.loader is not None  # the name ends in .py
        module = importlib.util.module_from_spec(specification)
        if known_as:
            sys.modules.setdefault(known_as, module)
        specification.loader.exec_module(module)
        return module


class _SourceLoader(importlib.machinery.SourceFileLoader):
    """Compile a file as it is now, not from cached bytecode."""

    def get_code(self, fullname: str) -> Any:
        """Return the code of the file."""
        return self.source_to_code(self.get_data(self.path), self.path)


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
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    line = f", {own[-1].filename} line {own[-1].lineno}" if own and own[-1].filename != __file__ else ""
    return f"{described(error)}{line}"
