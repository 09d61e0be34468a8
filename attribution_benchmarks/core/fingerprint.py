"""Fingerprints of the code and files that a stored score depends on.

A stored score is used only while its fingerprint is the same. The fingerprint covers every Python file of the packages
involved: ``attribution``, ``attribution_benchmarks`` and the benchmark's own. Of a user's code it covers the file
itself and the files that it imports from the same place; of an installed library, the version.

>>> code_fingerprint("my_package.my_metric:sharpness", files=["my_data"])
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import modulefinder
import os
import pathlib
import pickle
import platform
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import joblib

from attribution import Method
from attribution_benchmarks.core import manifest
from attribution_benchmarks.core.registry import BENCHMARKS

PACKAGES = ("attribution", "attribution_benchmarks", *(name.partition(".")[0] for name in BENCHMARKS.values()))
_TOP = pathlib.Path(__file__).resolve().parents[2]
_DRAWING_ONLY = _TOP / "attribution_benchmarks" / "report"


def code_fingerprint(*objects: Any, files: Iterable[str | os.PathLike] = ()) -> str:
    """Return the SHA-256 of the code behind some objects, and of some data files.

    Parameters
    ----------
    *objects
        Functions, classes, modules, instances (their class counts), ``"module"`` or ``"module:name"``.
    files
        Data that the code reads: files, and folders with all they hold.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for each in objects:
        for text in _code_of(each):
            digest.update(f"{len(text)}\n{text}\n".encode())
    for path in map(pathlib.Path, files):
        digest.update(_hash_of(sorted(path.rglob("*")) if path.is_dir() else [path], path.parent).encode())
    return digest.hexdigest()


def method_fingerprint(method: Method) -> str:
    """Return the fingerprint of the code that a method's maps depend on; of another library, its version counts."""
    return hashlib.sha256(f"{code_fingerprint(method.function)} {method.library_version()}".encode()).hexdigest()


def code_and_versions(function: Any) -> str:
    """Return the fingerprint of a function's code and the versions of the libraries that numbers depend on, as text."""
    return f"{code_fingerprint(function)} {manifest.versions()}"


def _code_of(each: Any, seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """Yield texts that change when the code behind an object does."""
    if isinstance(each, types.ModuleType):
        each = each.__name__
    if isinstance(each, str):
        name = each.partition(":")[0]
        specification = importlib.util.find_spec(name)
        if specification is None:
            raise ValueError(f"no module {name!r}")
        yield each
        yield _source(specification.origin, name)
    elif isinstance(each, functools.partial):
        yield from _code_of(each.func, seen)
        yield from _held([*each.args, *each.keywords.items()], seen)
    elif not hasattr(each, "__qualname__"):  # an instance
        yield from _code_of(type(each), seen)
    else:
        each = inspect.unwrap(getattr(each, "__func__", each))
        yield f"{each.__module__}:{each.__qualname__}"
        yield _source(_file_of(each), each.__module__)
        if "<" in each.__qualname__ and hasattr(each, "__code__"):  # several lambdas or inner functions share a name
            yield from _instructions(each.__code__)
            values = [each.__defaults__, each.__kwdefaults__, *map(_content, each.__closure__ or ())]
            yield from _held(values, seen | {id(each)})


def _held(values: Sequence[Any], seen: frozenset[int]) -> Iterator[str]:
    """Yield texts that change with the values that a function holds."""
    for value in values:
        if id(value) in seen:  # a function may hold itself
            continue
        if callable(value):
            yield from _code_of(value, seen)
        else:
            try:
                yield joblib.hash(value)
            except (pickle.PicklingError, TypeError, AttributeError):  # cannot be stored, such as a generator
                yield from _code_of(type(value), seen)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _instructions(code: types.CodeType) -> Iterator[str]:
    """Yield what a code object does, without the addresses that its ``repr`` has."""
    constants = [constant for constant in code.co_consts if not isinstance(constant, types.CodeType)]
    yield repr((code.co_code, code.co_names, constants))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _instructions(constant)


def _source(path: str | None, module: str) -> str:
    """Return a hash or version that covers what a file's numbers may depend on."""
    file = pathlib.Path(path).resolve() if path and path.endswith(".py") else None
    top = file.relative_to(_TOP).parts[0] if file and file.is_relative_to(_TOP) else ""
    shared = [_package(package) for package in ("attribution", "attribution_benchmarks")]
    if top in PACKAGES:
        return " ".join([*shared, _package(top)])
    library = module.partition(".")[0]
    if library in sys.stdlib_module_names:
        return f"python {platform.python_version()}"
    if file is None or {"site-packages", "dist-packages"} & set(file.parts):
        distributions = sorted(importlib.metadata.packages_distributions().get(library, ()))
        return " ".join([library, *(f"{one} {importlib.metadata.version(one)}" for one in distributions)])
    root = file.parent
    while (root / "__init__.py").exists():
        root = root.parent
    finder = modulefinder.ModuleFinder(path=[str(root), str(file.parent)], excludes=[*PACKAGES])
    finder.run_script(str(file))
    paths = [getattr(each, "__file__", None) for each in finder.modules.values()]
    found = {pathlib.Path(path) for path in paths if path}
    return " ".join([*shared, _hash_of(sorted(found), root)])


@functools.cache
def _package(name: str) -> str:
    files = sorted((_TOP / name).rglob("*.py"))
    return _hash_of([file for file in files if _DRAWING_ONLY not in file.parents], _TOP)


def _file_of(each: Any) -> str | None:
    """Return the Python file that defines a function or class; None of one written in C or typed in."""
    try:
        path = inspect.getsourcefile(each)
    except TypeError:
        return None
    return path if path and os.path.isfile(path) else None


def _hash_of(files: Iterable[pathlib.Path], root: pathlib.Path) -> str:
    """Return the SHA-256 of files and their paths relative to a folder."""
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            content = file.read_bytes()
            digest.update(f"{os.path.relpath(file, root)}\n{len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()
