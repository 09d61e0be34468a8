"""Fingerprints of code: what a result depends on is hashed, so that a stored one is found only while it is the same."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import inspect
import pathlib
import platform
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attribution.reached_code import Part, ReachedCode, SourceTree


@functools.cache
def loaded_code() -> SourceTree:
    """Return the code of this process: every file is read once, when first asked for."""
    return SourceTree()


def code_fingerprint(*objects: Any, files: Sequence[pathlib.Path] = (), tree: SourceTree | None = None) -> str:
    """Return the SHA-256 of the code that is reached from some objects, as 64 hexadecimal digits.

    The code is that of this distribution and of a user's own files, without comments, docstrings, layout and types of
    arguments; see ``attribution.reached_code`` for what is followed. Other libraries count by what is imported of
    them, not by their version; see ``library_versions``.

    Parameters
    ----------
    *objects
        Functions, classes, modules, instances (their class counts), ``"module"`` or ``"module:name"``.
    files
        Data that the code reads: files, and folders with all they hold.
    tree
        Where modules are looked for; the code of this process by default.
    """
    reader = _Roots(tree or loaded_code())
    for each in objects:
        reader.add(each)
    digest = hashlib.sha256()
    for text in (*reader.texts, *ReachedCode(reader.tree, reader.parts).texts()):
        digest.update(f"{len(text)}\n{text}\n".encode())
    for path in map(pathlib.Path, files):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                content = file.read_bytes()
                digest.update(f"{file.relative_to(path.parent).as_posix()}\n{len(content)}\n".encode())
                digest.update(content)
    return digest.hexdigest()


def library_versions(*objects: Any, tree: SourceTree | None = None) -> dict[str, str]:
    """Return the installed distributions that are imported by the code reached, name -> version, and Python's own.

    Parameters
    ----------
    *objects, tree
        See ``code_fingerprint``.
    """
    reader = _Roots(tree or loaded_code())
    for each in objects:
        reader.add(each)
    modules = ReachedCode(reader.tree, reader.parts).libraries | reader.libraries
    distributions = {name for module in modules for name in _distributions().get(module, ())}
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in sorted(distributions)
    }


class _Roots:
    """The definitions behind objects, and text for what has no file."""

    def __init__(self, tree: SourceTree):
        self.tree = tree
        self.parts: list[Part] = []
        self.texts: list[str] = []
        self.libraries: set[str] = set()
        self._added: dict[int, object] = {}

    def add(self, each) -> None:
        if id(each) in self._added:  # a function may hold itself
            return
        self._added[id(each)] = each
        if isinstance(each, str):
            self._add_name(each)
        elif isinstance(each, types.ModuleType):
            self._add_file(getattr(each, "__file__", None), each.__name__, lambda file: self.tree.whole(file))
        elif isinstance(each, functools.partial):
            self.add(each.func)
            self._add_values([*each.args, *each.keywords.items()])
        elif isinstance(each, type):
            self._add_file(_file_of(each), f"{each.__module__}.{each.__qualname__}", lambda file: _of(file, each))
        elif callable(each) and isinstance(function := _unwrapped(each), types.FunctionType):
            self._add_function(function)
        elif isinstance(each, (types.BuiltinFunctionType, types.BuiltinMethodType)):
            self._add_file(None, f"{each.__module__}.{each.__qualname__}", None)
        else:
            self.add(type(each))

    def _add_name(self, name: str) -> None:
        module, _, attribute = name.partition(":")
        file = self.tree.find(module)
        if file is None:
            raise ValueError(f"there is no module '{module}' of this distribution")
        if attribute and attribute not in file.definitions:
            raise ValueError(f"'{module}' defines no '{attribute}'")
        self.parts += [(file, attribute)] if attribute else self.tree.whole(file)

    def _add_function(self, function: types.FunctionType) -> None:
        path = _file_of(function)
        name = f"{function.__module__}.{function.__qualname__}"
        if path is None or function.__name__ == "<lambda>":  # typed in, or one of several on its line
            self.texts.append("\n".join(_instructions(function.__code__)))
        if path is not None:
            self._add_file(path, name, lambda file: _of(file, function))
        if "<" in function.__qualname__:  # made by code, which may make several: they differ in what they hold
            held = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
            self._add_values([*held, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()])

    def _add_file(self, path, name: str, parts_of) -> None:
        file = self.tree.file_at(pathlib.Path(path)) if path else None
        if file is not None:
            self.parts += parts_of(file)
            return
        library = name.split(".")[0]
        self.libraries.add(library)
        versions = [f"{each} {importlib.metadata.version(each)}" for each in sorted(_distributions().get(library, ()))]
        self.texts.append(" ".join([name, *versions]))

    def _add_values(self, values) -> None:
        for value in values:
            if isinstance(value, (tuple, list)):
                self._add_values(value)
            elif isinstance(value, Mapping):
                self._add_values(value.items())
            elif isinstance(value, (set, frozenset)):
                self._add_values(sorted(value, key=repr))
            elif isinstance(value, (int, float, str, bytes, bool, type(None))):
                self.texts.append(repr(value))
            elif hasattr(value, "tobytes"):
                self.texts.append(hashlib.sha256(value.tobytes()).hexdigest())
            elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
                self.add(type(value))
                self._add_values([getattr(value, field) for field in value.__dataclass_fields__])
            else:
                self.add(value)


def _of(file, each) -> list[Part]:
    """Return the definitions of a file that hold a function or class."""
    name = each.__qualname__.split(".")[0]
    if name in file.definitions:
        return [(file, name)]
    code = getattr(each, "__code__", None)
    names = file.at_line(code.co_firstlineno) if code else []
    return [(file, name) for name in names or file.definitions]


def _unwrapped(function):
    function = inspect.unwrap(getattr(function, "__func__", function))
    return inspect.unwrap(getattr(function, "python_function", function))  # of tf.function


def _file_of(each) -> str | None:
    try:
        path = inspect.getsourcefile(each)
    except TypeError:  # not written in Python
        return None
    return path if path and pathlib.Path(path).is_file() else None


def _instructions(code: types.CodeType) -> Iterator[str]:
    yield repr((code.co_code, code.co_names, [each for each in code.co_consts if not isinstance(each, types.CodeType)]))
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _instructions(each)


def _is_filled(cell) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


@functools.cache
def _distributions():
    return importlib.metadata.packages_distributions()
