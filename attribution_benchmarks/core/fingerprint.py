"""Fingerprints of code: the bytes of Python files, and the values that a function holds.

A stored score is used only while its fingerprint is the same. This project counts by its files, a library by its
version. Custom code counts by the file of the function, the folder of its package, and the files that these import.
Custom code that reads files or keeps state has no fingerprint (``Unidentified``), and its scores stay in memory.

>>> code_fingerprint("my_package.my_metric:sharpness", files=["my_data"])
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import re
import sys
import time
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from attribution.errors import print_line
from attribution_benchmarks.core import manifest
from attribution_benchmarks.core.places import BENCHMARKS

_FRAMEWORK = ("attribution", "attribution_benchmarks")
PACKAGES = tuple(dict.fromkeys([*_FRAMEWORK, *(name.partition(".")[0] for name in BENCHMARKS.values())]))
_TOP = pathlib.Path(__file__).resolve().parents[2]
_STARTED = time.time()  # files of custom code that changed later may differ from the imported code
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...), range)
# Code with these names may depend on more than its files: it reads files, the environment or the clock, or keeps state.
_OPEN_ENDED = re.compile(
    r"(open|load|read|imread)(_\w+|text|lines?|all)?|genfromtxt|fromfile|memmap|h5py|\w+(Dataset|ReadFile)|GFile|gfile|"
    r"saved_model|exists|lexists|is_?file|is_?dir|getsize|getmtime|l?stat|glob|iterdir|listdir|scandir|expand(vars|user)|"
    r"eval|exec|globals|__globals__|f_globals|currentframe|__import__|import_module|resolve_name|modules|environb?|"
    r"getenvb?|argv|FLAGS|getcontext|rcParams|subprocess|system|popen|socket|urlopen|sqlite3|ctypes|cffi|[cC][dD][lL]{2}|"
    r"SharedMemory|lru_cache|cache|cached_property|perf_counter|monotonic|time|now|today"
)


class Unidentified(ValueError):
    """Custom code without a fingerprint; the message says why."""


def code_fingerprint(*objects: Any, files: Iterable[str | os.PathLike[str]] = ()) -> str:
    """Return the SHA-256, in hexadecimal digits, of the code behind some objects and of some data files.

    Objects are functions, classes, plain values, instances of this project's classes, ``"module"`` or
    ``"module:name"`` of this project; ``ValueError`` if there is no such module, ``Unidentified`` for custom code
    without a fingerprint. ``files`` are data that the code reads: files, and folders with all their files.
    """
    digest = hashlib.sha256(repr([_described(_named(each), {}) for each in objects]).encode())
    for path in map(pathlib.Path, files):
        digest.update(_hash_of(sorted(path.rglob("*")) if path.is_dir() else [path], path.parent).encode())
    return digest.hexdigest()


def definition_of(function: Any) -> Any:
    """Return a function; instead of one that this project has made, its name, without the values that it holds.

    For functions that come with a description of these values, such as a data set.
    """
    module = getattr(function, "__globals__", {}).get("__name__", "")
    return f"{_project(module)} {module}:{function.__qualname__}" if _project(module) else function


class Code:
    """The code of a method, metric, control or benchmark, and its fingerprint.

    Parameters
    ----------
    name
        Of the method, metric, control or benchmark.
    *objects
        Its functions, and the values that they depend on.
    reads_data
        Whether it may read files, because its inputs are stored by their content.

    Attributes
    ----------
    name
        As given.
    digest : str
        The fingerprint; empty where there is none.
    """

    def __init__(self, name: str, *objects: Any, reads_data: bool = False):
        self.name, self._objects, self._reads_data, self._why = name, objects, reads_data, ""
        self._is_custom, self._is_compared = True, False
        self.digest = self._fingerprint()

    def why_not_stored(self, has_run: bool = False) -> str:
        """Return why numbers of this code are not stored; empty where they are.

        ``has_run`` says that the code has run. Values that it changes are found after its first batch.
        """
        if has_run and self._is_custom and not (self._why or self._is_compared):
            self._is_compared = True
            if self._fingerprint() != self.digest:
                self._why = self._why or "it changes its own values"
        return self._why

    def _fingerprint(self) -> str:
        try:
            files: dict[str, str] = {}
            described = repr(_described(self._objects, files, self._reads_data))
            self._is_custom = bool(files)
            return hashlib.sha256(described.encode(errors="surrogatepass")).hexdigest()
        except Unidentified as error:
            self._why = str(error)
        except RecursionError:
            self._why = "its values are nested too deeply"
        return ""


def report_not_stored(name: str, why: str, aloud: bool) -> None:
    """Note in the manifest that numbers are not stored, and print it once if ``aloud``."""
    manifest.UNIDENTIFIED[name] = why
    if aloud:
        _print(f"scores of '{name}' are not stored: {why}")


@functools.cache
def _print(line: str) -> None:
    print_line(line, file=sys.stderr)


def _described(value: Any, files: dict[str, str], reads_data: bool = False) -> Any:
    """Return what identifies a value, as nested tuples of text; add custom files and their hashes to ``files``."""

    def all_of(values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(_described(each, files, reads_data) for each in values)

    kind = type(value)
    if kind in _PLAIN:
        return kind.__name__, repr(value)
    if kind in (list, tuple):
        return kind.__name__, all_of(value)
    if kind in (dict, types.MappingProxyType):
        return "dict", all_of(value), all_of(value.values())
    if kind in (set, frozenset):
        return "set", tuple(sorted(all_of(value), key=repr))
    if isinstance(value, np.generic) or (kind is np.ndarray and not value.dtype.hasobject):
        return "array", str(value.dtype.descr), np.shape(value), hashlib.sha256(value.tobytes()).hexdigest()
    if isinstance(value, pathlib.PurePath):
        return "path", str(value)
    if kind is functools.partial:
        return "partial", all_of([value.func, value.args, value.keywords])
    if known := _reference(value):
        return known
    if kind is types.MethodType:
        return "method", all_of([value.__func__, value.__self__])
    if kind is types.FunctionType:
        return _function(value, files, all_of, reads_data)
    if isinstance(value, type):
        module = sys.modules.get(value.__module__)
        _add_files(vars(module) if module else {}, value.__qualname__, files, reads_data)
        return value.__module__, value.__qualname__, _contents(files), all_of(value.__bases__)
    if _project(kind.__module__) and hasattr(value, "__wrapped__"):  # a cached result changes nothing
        return all_of([value.__wrapped__])
    if _project(kind.__module__) and isinstance(value, tuple):
        return "tuple", all_of([kind, *value])
    if _project(kind.__module__) and hasattr(value, "__dict__"):
        return "instance", all_of([kind, vars(value)])
    raise Unidentified(f"it holds an object of the type {kind.__qualname__}")


def _function(function: types.FunctionType, files: dict[str, str], all_of: Any, reads_data: bool) -> Any:
    """Return what identifies a function that is not found under its name, or a custom one."""
    module = function.__globals__.get("__name__", "")
    origin = _project(module)
    if origin and hasattr(function, "__wrapped__"):  # such as one that remembers its last result
        return origin, all_of([function.__wrapped__])
    constants = {}
    if not origin:
        if module == "__main__" or "<lambda>" in function.__qualname__:
            raise Unidentified(f"{function.__qualname__} is a lambda, or defined in a notebook or script")
        _add_files(function.__globals__, function.__qualname__, files, reads_data)
        kinds = (*_PLAIN, list, dict, set, np.ndarray)
        public = {name: each for name, each in function.__globals__.items() if not name.startswith("_")}
        constants = {name: each for name, each in public.items() if type(each) in kinds}
    code = function.__code__
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or () if cell.cell_contents is not function]
    except ValueError:
        raise Unidentified(f"{function.__qualname__} uses a name that is not defined yet") from None
    attributes = {name: str(each) if name == "__signature__" else each for name, each in vars(function).items()}
    held = [constants, function.__defaults__, function.__kwdefaults__, attributes, cells]
    return origin, module, function.__qualname__, code.co_firstlineno, _contents(files), all_of(held)


def _contents(files: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return names and hashes of files, which are the same wherever the files are."""
    return tuple(sorted((os.path.basename(path), digest) for path, digest in files.items()))


def _named(each: Any) -> Any:
    """Return an object, and of ``"module"`` or ``"module:name"`` of this project what identifies it."""
    if not isinstance(each, str):
        return each
    module = each.partition(":")[0]
    if importlib.util.find_spec(module) is None:
        raise ValueError(f"no module {module!r}")
    return f"{_project(module)} {each}"


def _reference(value: Any) -> Any:
    """Return what identifies a function or class that the project or a library defines; None for another object."""
    if isinstance(value, types.ModuleType):
        return (value.__name__, origin) if (origin := _origin(value.__name__)) else None
    module = str(getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__)
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    if not (callable(value) and isinstance(name, str) and (origin := _origin(module))):
        return None
    try:
        found = functools.reduce(getattr, name.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        return None
    return (module, name, origin) if found is value and not _is_replaced(value) else None


def _is_replaced(value: Any) -> bool:
    """Return whether a function under a library's name is custom code."""
    return isinstance(value, types.FunctionType) and not _origin(value.__globals__.get("__name__", ""))


def _origin(module: str) -> str:
    """Return what identifies a module of the project, of a library or of Python; empty for custom code."""
    return _project(module) or _library(module.partition(".")[0])


@functools.cache
def _project(module: str) -> str:
    """Return the hash of the project's files that a module depends on; empty for another module."""
    package = module.partition(".")[0]
    if package not in PACKAGES:
        return ""
    return " ".join(["project", *map(_package, dict.fromkeys([*_FRAMEWORK, package]))])


@functools.cache
def _package(name: str) -> str:
    files = sorted(file for ending in ("py", "toml") for file in (_TOP / name).rglob(f"*.{ending}"))
    return _hash_of([file for file in files if "report" not in file.relative_to(_TOP).parts], _TOP)


@functools.cache
def _library(name: str) -> str:
    """Return the version of an installed library or of Python, by the name of its package; empty for another."""
    if name in sys.stdlib_module_names:
        return f"python {platform.python_version()}"
    if not any({"site-packages", "dist-packages"} & set(place.parts) for place in _places(name)):
        return ""
    return " ".join(f"{one} {importlib.metadata.version(one)}" for one in sorted(_distributions().get(name, [])))


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _places(name: str) -> list[pathlib.Path]:
    """Return the file of a top-level module, or the folders of a package; none where there is none."""
    try:
        specification: Any = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a module without a specification
        specification = None
    places = [*(getattr(specification, "submodule_search_locations", None) or [getattr(specification, "origin", "")])]
    return [pathlib.Path(place) for place in places if place and os.path.exists(place)]


def _add_files(space: Mapping[str, Any], name: str, files: dict[str, str], reads_data: bool) -> None:
    """Add the file of a name in a custom module, by its globals, the folder of its package, and what these import."""
    path, package = pathlib.Path(space.get("__file__") or "none"), space.get("__package__") or ""
    if not path.is_file():
        raise Unidentified(f"{space.get('__name__', 'its module')} has no file")
    loaded = {path: getattr(space.get("__loader__"), "source", b"")}  # see ``attribution.plugins.SourceLoader``
    files.pop(str(path), None)  # it is read again, from another name on
    waiting, top = [(path, package)], name.partition(".")[0]
    while waiting:
        path, package = waiting.pop()
        if str(path) not in files:
            content = loaded.get(path) or _unchanged(path)
            files[str(path)] = hashlib.sha256(content).hexdigest()
            nodes = _reached(ast.parse(content), top if path in loaded else "")
            waiting += [file for name in _imports(path.name, nodes, package, reads_data) for file in _files_of(name)]
    for place in _places(package.partition(".")[0]) if package else ():
        for path in place.rglob("*.py"):
            files.setdefault(str(path), hashlib.sha256(_unchanged(path)).hexdigest())


def _files_of(name: str) -> Iterator[tuple[pathlib.Path, str]]:
    """Yield the files that the import of a dotted name runs, with their packages; none of the project or a library."""
    top, *parts = name.split(".")
    for place in () if _origin(top) else _places(top):
        if place.is_file():
            yield place, ""
        for count in range(len(parts) + 1 if place.is_dir() else 0):
            path, package = place.joinpath(*parts[:count]), ".".join([top, *parts[:count]])
            yield from ((file, package) for file in [path / "__init__.py"] if file.is_file())
            yield from ((file, package.rpartition(".")[0]) for file in [path.with_suffix(".py")] if file.is_file())


def _reached(tree: ast.Module, start: str) -> list[ast.AST]:
    """Return all nodes of a module's statements that a name of the module uses; of all where it has no such name."""
    defining: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        bound = [statement] if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else ast.walk(statement)
        for node in bound:
            name = str(getattr(node, "asname", None) or getattr(node, "name", None) or getattr(node, "id", ""))
            defining.setdefault(name.partition(".")[0], []).append(statement)
    if start not in defining:
        return list(ast.walk(tree))
    waiting, found = [start], []
    while waiting:
        for statement in defining.pop(waiting.pop(), []):
            found += ast.walk(statement)
            waiting += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return found


def _imports(file: str, nodes: Iterable[ast.AST], package: str, reads_data: bool) -> Iterator[str]:
    """Yield the modules that custom code may import; refuse code that may depend on more than its files."""
    for node in nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            raise Unidentified(f"{file} changes its own values (line {node.lineno})")
        texts = (getattr(node, field, None) for field in ("id", "attr", "name", "module", "value"))
        names = [name for text in texts if isinstance(text, str) for name in text.split(".")]
        if not reads_data and (found := next(filter(_OPEN_ENDED.fullmatch, names), "")):
            raise Unidentified(f"{file} uses {found}")
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and (package or not node.level):
            relative = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(relative, package) if node.level else relative
            yield from (f"{base}.{each.name}" for each in node.names)


def _unchanged(path: pathlib.Path) -> bytes:
    """Return the bytes of a file that has not changed since this module was imported."""
    try:
        found, content = path.stat(), path.read_bytes()
    except OSError as error:
        raise Unidentified(f"{path} cannot be read ({error.strerror})") from None
    if max(found.st_mtime, found.st_ctime) >= _STARTED:
        raise Unidentified(f"{path} has changed since this process started")
    return content


def _hash_of(files: Iterable[pathlib.Path], root: pathlib.Path) -> str:
    """Return the SHA-256 of files and their paths relative to a folder."""
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            content = file.read_bytes()
            digest.update(f"{os.path.relpath(file, root)}\n{len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()
