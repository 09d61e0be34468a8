"""Fingerprints of the code and files that a stored score depends on.

A stored score is used only while its fingerprint is the same. The fingerprint covers every Python file of
``attribution``, ``attribution_benchmarks`` and the benchmark; of a user's code the file and the files it imports from
the same folder; of an installed library its version.

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
from collections.abc import Iterable, Iterator
from typing import Any

import joblib

from attribution import Method
from attribution_benchmarks.core import manifest
from attribution_benchmarks.core.registry import BENCHMARKS

_FRAMEWORK = ("attribution", "attribution_benchmarks")
PACKAGES = tuple(dict.fromkeys([*_FRAMEWORK, *(name.partition(".")[0] for name in BENCHMARKS.values())]))
_TOP = pathlib.Path(__file__).resolve().parents[2]
_REPORT = _TOP / "attribution_benchmarks" / "report"  # computes no scores


def code_fingerprint(*objects: Any, files: Iterable[str | os.PathLike[str]] = ()) -> str:
    """Return the SHA-256, in hexadecimal digits, of the code behind some objects and of some data files.

    Objects are functions, classes, modules, instances (their class counts), ``"module"`` or ``"module:name"``;
    ``ValueError`` if there is no such module. ``files`` are data that the code reads: files, and folders with all their
    files.
    """
    digest = hashlib.sha256()
    for each in objects:
        for text in _texts(each, frozenset()):
            digest.update(f"{len(text)}\n{text}\n".encode())
    for path in map(pathlib.Path, files):
        digest.update(_hash_of(sorted(path.rglob("*")) if path.is_dir() else [path], path.parent).encode())
    return digest.hexdigest()


def method_fingerprint(method: Method) -> str:
    """Return the fingerprint of a method's code and, for a method of another library, of the library's version."""
    return hashlib.sha256(f"{code_fingerprint(method.function)} {method.library_version()}".encode()).hexdigest()


def code_and_versions(function: Any) -> str:
    """Return the fingerprint of a function's code and the versions of the libraries that numbers depend on, as text."""
    return f"{code_fingerprint(function)} {manifest.versions()}"


def _texts(each: Any, seen: frozenset[int]) -> Iterator[str]:
    """Yield texts that change when the code behind an object does."""
    if isinstance(each, types.ModuleType):
        each = each.__name__
    if isinstance(each, str):
        specification = importlib.util.find_spec(each.partition(":")[0])
        if specification is None:
            raise ValueError(f"no module {each.partition(':')[0]!r}")
        yield f"{each} {_source(_python_file(specification.origin), specification.name)}"
    elif isinstance(each, functools.partial):
        yield from _texts(each.func, seen)
        yield from _value_texts([list(each.keywords), *each.args, *each.keywords.values()], seen)
    elif not hasattr(each, "__qualname__"):  # an instance
        yield from _texts(type(each), seen)
    else:
        each = inspect.unwrap(getattr(each, "__func__", each))
        yield f"{each.__module__}:{each.__qualname__} {_source(_file_of(each), each.__module__)}"
        if "<" in each.__qualname__ and hasattr(each, "__code__"):  # several lambdas or inner functions share a name
            yield from _instructions(each.__code__)
            closure = [cell.cell_contents for cell in each.__closure__ or ()]
            yield from _value_texts([each.__defaults__, each.__kwdefaults__, *closure], seen | {id(each)})


def _value_texts(values: Iterable[Any], seen: frozenset[int]) -> Iterator[str]:
    """Yield texts that change with values that a function holds, such as its closure."""
    for value in values:
        if id(value) in seen:  # a function may hold itself
            continue
        if callable(value):
            yield from _texts(value, seen)
        else:
            try:
                yield joblib.hash(value)
            except (pickle.PicklingError, TypeError, AttributeError):  # cannot be pickled, such as a generator
                yield from _texts(type(value), seen)


def _instructions(code: types.CodeType) -> Iterator[str]:
    """Yield the instructions of a code object, without the addresses in its ``repr``."""
    yield repr((code.co_code, code.co_names, [each for each in code.co_consts if not inspect.iscode(each)]))
    for constant in filter(inspect.iscode, code.co_consts):
        yield from _instructions(constant)


def _file_of(each: Any) -> pathlib.Path | None:
    """Return the file that defines a function or class; None if it was written in C or typed in."""
    try:
        return _python_file(inspect.getsourcefile(each))
    except TypeError:
        return None


def _python_file(path: str | None) -> pathlib.Path | None:
    return pathlib.Path(path).resolve() if path and path.endswith(".py") and os.path.isfile(path) else None


def _source(file: pathlib.Path | None, module: str) -> str:
    """Return a hash or version that covers every file that the numbers of a source file may depend on."""
    framework = [_package(name) for name in _FRAMEWORK]
    top = file.relative_to(_TOP).parts[0] if file and file.is_relative_to(_TOP) else ""
    if top in PACKAGES:
        return " ".join([*framework, _package(top)])
    library = module.partition(".")[0]
    if library in sys.stdlib_module_names:
        return f"python {platform.python_version()}"
    if file is None or {"site-packages", "dist-packages"} & set(file.parts):
        distributions = sorted(importlib.metadata.packages_distributions().get(library, ()))
        return " ".join([library, *(f"{one} {importlib.metadata.version(one)}" for one in distributions)])
    return " ".join([*framework, _user_files(file)])


def _user_files(file: pathlib.Path) -> str:
    """Return the hash of a file and of the files that it imports from its folder or package."""
    root = file.parent
    while (root / "__init__.py").exists():
        root = root.parent
    finder = modulefinder.ModuleFinder(path=[str(root), str(file.parent)], excludes=[*PACKAGES])
    finder.run_script(str(file))
    paths = [getattr(module, "__file__", None) for module in finder.modules.values()]
    return _hash_of(sorted({pathlib.Path(path) for path in paths if path}), root)


@functools.cache
def _package(name: str) -> str:
    files = sorted((_TOP / name).rglob("*.py"))
    return _hash_of([file for file in files if _REPORT not in file.parents], _TOP)


def _hash_of(files: Iterable[pathlib.Path], root: pathlib.Path) -> str:
    """Return the SHA-256 of files and their paths relative to a folder."""
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            content = file.read_bytes()
            digest.update(f"{os.path.relpath(file, root)}\n{len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()
