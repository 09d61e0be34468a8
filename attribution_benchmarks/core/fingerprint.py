"""Fingerprints of code: the bytes of Python files, and the values that a function holds.

A stored score is used only while its fingerprint is the same.

- The project counts by the bytes of its packages and by the values that its functions hold; a library by its version.
- Custom code is a function or class of another module. It counts by the bytes of its file, of the Python files of its
  package and of every other custom module that is loaded, and by the versions of all libraries.
- All other code has no fingerprint (``Unidentified``), and its scores stay in memory: functions of notebooks and
  scripts, lambdas, closures, objects with a state, and custom files that may read other files or keep state.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import pathlib
import re
import sys
import time
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from attribution_benchmarks.core.places import BENCHMARKS

_FRAMEWORK = ("attribution", "attribution_benchmarks")
PACKAGES = tuple(dict.fromkeys([*_FRAMEWORK, *(name.partition(".")[0] for name in BENCHMARKS.values())]))
_TOP = pathlib.Path(__file__).resolve().parents[2]
_PYTHON = pathlib.Path(os.__file__).parent
STARTED = time.time()  # custom files that changed later may differ from the imported code
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...), range)
# Lines of custom code that may read files, the environment or the clock, keep state, or import a module later.
_OPEN_ENDED = re.compile(
    r"^[ \t]+(?!\w+ (attribution|attribution_benchmarks|captum|lxt|numpy|pytorch_grad_cam|scipy|tensorflow|torch|"
    r"zennit)\b)(import|from \S+ import) |"
    r"^(from|import) .*\b(sys|io|time|datetime|shutil|pickle|importlib|inspect|subprocess|socket|sqlite3|ctypes|h5py|"
    r"absl|argparse|urllib|requests|__main__)\b|\b(global|nonlocal|globals|(?<!\.)eval|exec|__import__|\w*cache\w*|\w+Dataset)\b|"
    r"(\.|import.*\b)((load|open|read|environ|getenv)\w*|io|gfile|memmap|listdir|scandir|iterdir|walk|exists|is_?file|"
    r"is_?dir|r?glob|l?stat|getsize|expanduser|(get)?cwd)\b|\b(im|re)?(open|load|read|get_file|fromfile|genfromtxt)\w*\s*\("
)


class Unidentified(ValueError):
    """Code without a fingerprint; the message says why."""


def code_fingerprint(*objects: Any, files: Iterable[str | os.PathLike[str]] = (), reads_data: bool = False) -> str:
    """Return the SHA-256, in hexadecimal digits, of the code behind some objects and of some data files.

    Objects are functions, classes, plain values and instances of this project's classes. ``files`` are data that the
    code reads: files, and folders with all their files. ``reads_data`` says that the code may read any, because its
    results are stored by their content. Raises ``Unidentified`` for code without a fingerprint, and ``OSError``.
    """
    digest = hashlib.sha256(repr(_described(objects, reads_data)).encode(errors="surrogatepass"))
    for path in map(pathlib.Path, files):
        digest.update(_hash_of(sorted(path.rglob("*")) if path.is_dir() else [path], path.parent).encode())
    return digest.hexdigest()


class Code(NamedTuple):
    """The fingerprint of a method, metric, control or benchmark, or else why numbers of its code are not stored."""

    name: str
    digest: str = ""
    why_not_stored: str = ""

    @classmethod
    def of(cls, name: str, *objects: Any, reads_data: bool = False) -> Code:
        """Return the code of some functions and of the values that they depend on, see ``code_fingerprint``."""
        try:
            return cls(name, digest=code_fingerprint(*objects, reads_data=reads_data))
        except (Unidentified, OSError, RecursionError) as error:
            return cls(name, why_not_stored=str(error))


def definition_of(function: Any) -> Any:
    """Return a function; instead of one that this project has made, its name, without the values that it holds.

    For functions that come with a description of these values, such as a data set.
    """
    module = getattr(function, "__globals__", {}).get("__name__", "")
    return f"{project_code(module)} {module}:{function.__qualname__}" if project_code(module) else function


def _described(value: Any, reads_data: bool) -> Any:
    """Return what identifies a value, as nested tuples of text."""

    def all_of(values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(_described(each, reads_data) for each in values)

    kind = type(value)
    if kind in _PLAIN or isinstance(value, pathlib.PurePath):
        return kind.__name__, repr(value)
    if kind in (list, tuple):
        return kind.__name__, all_of(value)
    if kind in (dict, types.MappingProxyType):
        return "dict", all_of(value), all_of(value.values())
    if kind in (set, frozenset):
        return "set", tuple(sorted(all_of(value), key=repr))
    if isinstance(value, np.generic) or (kind is np.ndarray and not value.dtype.hasobject):
        return "array", str(value.dtype.descr), np.shape(value), hashlib.sha256(value.tobytes()).hexdigest()
    if kind is functools.partial:
        return "partial", all_of([value.func, value.args, value.keywords])
    if kind is types.MethodType:
        return "method", all_of([value.__func__, value.__self__])
    if callable(value) and (name := getattr(value, "__qualname__", getattr(value, "__name__", ""))):
        return _code(value, name, all_of, reads_data)
    if project_code(kind.__module__) and hasattr(value, "__dict__"):
        return "instance", all_of([kind, vars(value)])
    raise Unidentified(f"it holds an object of the type {kind.__qualname__}")


def _code(value: Any, name: str, all_of: Callable[..., Any], reads_data: bool) -> Any:
    """Return what identifies a function, a class or another object of code with a name."""
    module = str(getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__)
    space = getattr(value, "__globals__", getattr(sys.modules.get(module), "__dict__", {}))
    module = str(space.get("__name__", module))
    origin = _origin(module, space.get("__file__"))
    first, *further = name.split(".")
    found = functools.reduce(lambda each, part: getattr(each, part, None), further, space.get(first))
    if origin and found is value:
        return module, name, origin, origin == "library" and _versions().get(module.partition(".")[0])
    if origin.startswith("project") and hasattr(value, "__wrapped__"):  # such as one that remembers its last result
        return origin, all_of([value.__wrapped__])
    closure = getattr(value, "__closure__", None) or ()
    cells = [cell.cell_contents for cell in closure if cell.cell_contents is not value]
    defaults = [getattr(value, each, None) for each in ("__defaults__", "__kwdefaults__")]
    if origin.startswith("project") and isinstance(value, types.FunctionType):
        return origin, module, name, value.__code__.co_firstlineno, all_of([defaults, cells])
    if module == "__main__" or hasattr(sys, "ps1"):
        raise Unidentified(f"{name} is of a script, or of a notebook, which may change it")
    if origin or cells or found is not value or not isinstance(value, (types.FunctionType, type)):
        raise Unidentified(f"{name} is not a function or class at the top of a file")
    return module, name, _custom_files(space, reads_data), all_of(defaults)


def _custom_files(space: Mapping[str, Any], reads_data: bool) -> tuple[Any, ...]:
    """Return what identifies the files that custom code of a module may use, without TensorFlow's translations."""
    own, package = pathlib.Path(str(space.get("__file__"))), str(space.get("__package__") or "").partition(".")[0]
    folders = [pathlib.Path(each) for each in getattr(sys.modules.get(package), "__path__", ())]
    loaded = {own}
    for name, module in list(sys.modules.items()):  # the program itself, ``__main__``, is not imported by others
        path = str(getattr(module, "__dict__", {}).get("__file__"))
        if os.path.isabs(path) and path.endswith(".py") and not (name.startswith("__") or _origin(name, path)):
            loaded.add(pathlib.Path(path))
    digests = set()
    for file in sorted(loaded.union(file for folder in folders for file in folder.rglob("*.py"))):
        content = file.read_bytes()
        if max(file.stat().st_mtime, file.stat().st_ctime) >= STARTED:
            raise Unidentified(f"{file} has changed since this process started")
        lines = [] if reads_data or file not in loaded else content.decode(errors="replace").splitlines()
        for line in filter(_OPEN_ENDED.search, lines):
            raise Unidentified(f"{file.name} may read files or keep state: {line.strip():.60}")
        digests.add((file.name, hashlib.sha256(content).hexdigest()))
    return own.name, tuple(sorted(digests)), *map(_package, PACKAGES), sorted(_versions().items())


@functools.cache
def _origin(module: str, file: str | None) -> str:
    """Return what identifies a module of the project, of a library or of Python; empty for custom code."""
    if not file:  # a part of Python itself
        return "python" if module in sys.stdlib_module_names else ""
    package = os.path.relpath(os.path.realpath(file), _TOP).partition(os.sep)[0]
    if package in PACKAGES:
        return project_code(package)
    if {"site-packages", "dist-packages"} & set(pathlib.Path(file).parts):
        return "library"
    return "python" if pathlib.Path(file).is_relative_to(_PYTHON) else ""


@functools.cache
def _versions() -> dict[str, list[str]]:
    """Return the versions of the installed packages by their top-level modules."""
    found = importlib.metadata.packages_distributions().items()
    return {module: sorted(map(importlib.metadata.version, set(names))) for module, names in found}


def project_code(module: str) -> str:
    """Return the hash of this project's files that a module of it depends on; empty for another module."""
    package = module.partition(".")[0]
    packages = dict.fromkeys([*_FRAMEWORK, package]) if package in PACKAGES else ()
    return " ".join(["project", *map(_package, packages)]) if packages else ""


@functools.cache
def _package(name: str) -> str:
    files = sorted(file for ending in ("py", "toml") for file in (_TOP / name).rglob(f"*.{ending}"))
    return _hash_of([file for file in files if "report" not in file.relative_to(_TOP).parts], _TOP)


def _hash_of(files: Iterable[pathlib.Path], root: pathlib.Path) -> str:
    """Return the SHA-256 of files and their paths relative to a folder."""
    digest = hashlib.sha256()
    for file in filter(pathlib.Path.is_file, files):
        content = file.read_bytes()
        digest.update(f"{os.path.relpath(file, root)}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()
