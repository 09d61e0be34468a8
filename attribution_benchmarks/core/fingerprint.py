"""Fingerprints of the code and files that a stored score depends on.

A stored score is used only while its fingerprint is the same. The fingerprint covers every Python file of
``attribution``, ``attribution_benchmarks`` and the benchmark; of an installed library its version; and of custom code
what it is made of: its file, instructions, closures, defaults, attributes, and what it names in its module, as they
are in this process. Custom code that is not known by these is refused with ``Unidentified``.

>>> code_fingerprint("my_package.my_metric:sharpness", files=["my_data"])
"""

from __future__ import annotations

import builtins
import contextlib
import copyreg
import dis
import functools
import hashlib
import importlib.metadata
import importlib.util
import itertools
import os
import pathlib
import pickle
import platform
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from attribution import Method
from attribution.plugins import user_code
from attribution_benchmarks.core import manifest
from attribution_benchmarks.core.places import BENCHMARKS

_FRAMEWORK = ("attribution", "attribution_benchmarks")
PACKAGES = tuple(dict.fromkeys([*_FRAMEWORK, *(name.partition(".")[0] for name in BENCHMARKS.values())]))
_TOP = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = tuple(_TOP / name for name in PACKAGES)
_REPORT = _TOP / "attribution_benchmarks" / "report"  # computes no scores
_STANDARD = pathlib.Path(sysconfig.get_path("stdlib")).resolve()
_PROJECT, _LIBRARY = "project", "library"  # first words of what identifies code of this project and of libraries
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...), range)
# What code with these names does cannot be known before it runs, and is not noticed when it does: it looks names up,
# reads the environment, or reads files in C.
_OPEN_ENDED = frozenset(
    "eval exec globals __globals__ f_globals currentframe resolve_name __import__ import_module modules environ "
    "environb getenv getenvb expandvars expanduser exists lexists isfile isdir getsize getmtime stat lstat pread gfile "
    "GFile read_file ReadFile TFRecordDataset TextLineDataset FixedLengthRecordDataset imread h5py load_model "
    "load_weights load_variable saved_model SharedMemory FLAGS getcontext rcParams ctypes cffi cdll CDLL".split()
)


class Unidentified(ValueError):
    """Custom code whose changes no fingerprint shows; the message says why."""


def code_fingerprint(*objects: Any, files: Iterable[str | os.PathLike[str]] = ()) -> str:
    """Return the SHA-256, in hexadecimal digits, of the code behind some objects and of some data files.

    Objects are functions, classes, instances, modules, ``"module"`` or ``"module:name"``; ``ValueError`` if there is
    no such module, ``Unidentified`` if no fingerprint shows a change of custom code. ``files`` are data that the code
    reads: files, and folders with all their files.
    """
    named = [_module_named(each) if isinstance(each, str) else each for each in objects]
    digest = hashlib.sha256(identify(named)[0].encode())
    for path in map(pathlib.Path, files):
        digest.update(_hash_of(sorted(path.rglob("*")) if path.is_dir() else [path], path.parent).encode())
    return digest.hexdigest()


def identify(value: Any) -> tuple[str, bool]:
    """Return the SHA-256 of an object and of the code behind it, and whether a part of that is a user's.

    Raises ``Unidentified`` if no fingerprint shows a change of custom code.
    """
    identity = _Identity()
    try:
        identity.add(value)
    except RecursionError:
        raise Unidentified("what it holds is nested too deeply") from None
    return identity.digest.hexdigest(), identity.custom


def method_fingerprint(method: Method) -> str:
    """Return the fingerprint of a method's code and, for a method of another library, of the library's version."""
    return hashlib.sha256(f"{code_fingerprint(method.function)} {method.library_version()}".encode()).hexdigest()


def definition_of(function: Any) -> Any:
    """Return a function, one that this project has made without what it holds, such as a data set.

    For functions that come with a description of that.
    """
    if (_maker(function) or "").startswith(_PROJECT):
        return _module_named(f"{function.__globals__['__name__']}:{function.__qualname__}")
    return function


def code_and_versions(function: Any) -> str:
    """Return the fingerprint of a function's code and the versions of the libraries that numbers depend on, as text."""
    return f"{code_fingerprint(function)} {manifest.versions()}"


class _Identity:
    """A digest of objects by what they are made of.

    Attributes
    ----------
    digest
        The hash.
    custom : bool
        Whether a user's code is among it, or a library's that this project does not call itself.
    """

    def __init__(self) -> None:
        self.digest, self.custom = hashlib.sha256(), False
        # Number by ``id``, and the object itself, which keeps its ``id`` from being another's.
        self._seen: dict[int, tuple[int, Any]] = {}

    def add(self, value: Any) -> None:
        """Add an object and everything that it holds."""
        if type(value) in _PLAIN:
            self._text(value if isinstance(value, bytes) else f"{type(value).__name__} {value!r}")
        elif id(value) in self._seen:
            self._text(f"seen {self._seen[id(value)][0]}")
        else:
            self._seen[id(value)] = len(self._seen), value
            if known := _reference(value):
                self.custom = self.custom or f" {_LIBRARY} " in known
                self._text(known)
                return
            self._text(type(value).__qualname__)
            parts = (parts for kind, parts in _PARTS.items() if isinstance(value, kind))
            for part in (_EXACT.get(type(value)) or next(parts, _Identity._instance))(self, value):
                self.add(part)

    def _text(self, text: str | bytes) -> None:
        content = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
        self.digest.update(f"{type(text).__name__} {len(content)}\n".encode())
        self.digest.update(content)

    def _function(self, function: types.FunctionType) -> Iterator[Any]:
        """Yield the parts of a function; of one that a library or the project has made, no globals."""
        if origin := _maker(function):
            yield origin
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is not None and origin.startswith(_PROJECT):
                yield wrapped  # such as a memory of the last result, which changes nothing
                return
        yield function.__code__
        yield [function.__defaults__, function.__kwdefaults__, function.__dict__]
        yield from function.__closure__ or ()
        if not origin:
            self.custom = True
            yield from _files(function.__code__.co_filename)
            yield from _named(function)

    def _code(self, code: types.CodeType) -> Iterator[Any]:
        yield [code.co_code, getattr(code, "co_exceptiontable", b""), code.co_flags]
        yield [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount]
        yield [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_consts]

    def _class(self, kind: type) -> Iterator[Any]:
        self.custom = True
        yield [type(kind), kind.__qualname__, kind.__bases__]
        yield from _files(getattr(sys.modules.get(kind.__module__), "__file__", None))
        # Python 3.13 writes the last one from a set.
        made = "__dict__ __weakref__ __module__ __firstlineno__ __slotnames__ _abc_impl __static_attributes__".split()
        yield {name: value for name, value in sorted(vars(kind).items()) if name not in made}

    def _module(self, module: types.ModuleType) -> Iterator[Any]:
        self.custom = True
        yield module.__name__
        yield from _files(getattr(module, "__file__", None))
        yield {name: value for name, value in sorted(vars(module).items()) if not name.startswith("__")}

    def _array(self, array: np.ndarray) -> Iterator[Any]:
        yield [str(array.dtype.descr), array.shape, getattr(array, "__dict__", {})]
        if type(array) is not np.ndarray:
            yield type(array)
        yield array.tolist() if array.dtype.hasobject else array.tobytes()

    def _set(self, values: Set[Any]) -> Iterator[Any]:
        found = [identify(value) for value in values]
        self.custom = self.custom or any(custom for _, custom in found)
        yield sorted(digest for digest, _ in found)

    def _cell(self, cell: types.CellType) -> Iterator[Any]:
        with contextlib.suppress(ValueError):  # it is empty
            yield cell.cell_contents

    def _cached(self, function: Any) -> Iterator[Any]:
        if function.cache_info().currsize:
            raise Unidentified(f"{function.__qualname__} holds cached results")
        yield function.__wrapped__

    def _instance(self, value: Any) -> Iterator[Any]:
        """Yield the state of an object, by what pickles would hold, and of a custom class by its attributes too."""
        kind = type(value)
        if _is_opaque(value):
            raise Unidentified(f"it holds a {kind.__qualname__} of {kind.__module__.partition('.')[0]}")
        yield kind
        yield [list(part) if isinstance(part, Iterator) else part for part in _reduced(value)]
        if not _reference(kind):
            yield getattr(value, "__dict__", {})
            slots = (slot for each in kind.__mro__ for slot in vars(each).values() if isinstance(slot, _SLOT))
            yield [slot.__get__(value) for slot in slots if hasattr(value, slot.__name__)]


def _is_opaque(value: Any) -> bool:
    """Return whether what an object does is not in its attributes, such as a library's that can be called."""
    kind = type(value)
    if kind.__module__ in ("ctypes", "_ctypes") or value is os.environ:
        return True
    return callable(value) and any((_origin(each.__module__) or "").startswith(_LIBRARY) for each in kind.__mro__)


def _reduced(value: Any) -> Sequence[Any]:
    """Return what a pickle of an object holds."""
    try:
        registered: Any = copyreg.dispatch_table.get(type(value))
        reduced = registered(value) if registered else value.__reduce_ex__(4)
        return (pickle.dumps(value),) if isinstance(reduced, str) else reduced  # a text is the name of a global
    except Exception:
        raise Unidentified(f"it holds a {type(value).__qualname__}, whose state cannot be read") from None


_SLOT = types.MemberDescriptorType
_Parts = Callable[[_Identity, Any], Iterable[Any]]
_EXACT: dict[type, _Parts] = {
    list: lambda _, values: [len(values), *values],
    tuple: lambda _, values: [len(values), *values],
    dict: lambda _, values: [len(values), *itertools.chain.from_iterable(values.items())],
    set: _Identity._set,
    frozenset: _Identity._set,
}
_PARTS: dict[Any, _Parts] = {
    types.ModuleType: _Identity._module,
    types.FunctionType: _Identity._function,
    types.CodeType: _Identity._code,
    type: _Identity._class,
    np.ndarray: _Identity._array,
    types.MethodType: lambda _, method: [method.__func__, method.__self__],
    # A function of a module has that as ``__self__``.
    (types.BuiltinFunctionType, types.MethodWrapperType): lambda _, each: [each.__name__, each.__self__],
    types.CellType: _Identity._cell,
    np.ufunc: lambda _, function: _reduced(function),
    types.MappingProxyType: lambda _, values: [dict(values)],
    functools.partial: lambda _, call: [call.func, call.args, call.keywords, call.__dict__],
    functools.cached_property: lambda _, each: [each.func],
    functools._lru_cache_wrapper: _Identity._cached,
    property: lambda _, each: [each.fget, each.fset, each.fdel],
    (staticmethod, classmethod): lambda _, each: [each.__func__],
    (_SLOT, types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
     types.ClassMethodDescriptorType): lambda _, each: [each.__qualname__],
}  # fmt: skip


def _named(function: types.FunctionType) -> Iterator[Any]:
    """Yield what a custom function names: globals, what it imports, and what others have put into libraries."""
    codes = _codes_in(function.__code__)
    names = {name for code in codes for name in (*code.co_names, *code.co_consts) if isinstance(name, str)}
    _check_known(function, names)
    for name in _operands(codes, "GLOBAL|LOAD_NAME"):
        value = function.__globals__.get(name, vars(builtins).get(name))
        _check_known(function, {str(getattr(value, "__name__", ""))})
        yield [name, value]
        if isinstance(value, types.ModuleType) and _origin(value.__name__):
            yield from _put_into(value, names, set())
    # A relative import has no leading dots here; it names a module of the function's package.
    package = function.__globals__.get("__package__") or ""
    parents = dict.fromkeys(["", *itertools.accumulate(package.split("."), "{}.{}".format)])
    imports = itertools.product(_operands(codes, "IMPORT_NAME"), parents)
    # All are imported before one is looked into, since a package holds its modules then.
    yield [module for name, parent in imports for module in _imported(f"{parent}.{name}".strip("."), names)]


def _codes_in(code: types.CodeType) -> list[types.CodeType]:
    """Return the code of a function and of all that it defines."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return [code, *itertools.chain.from_iterable(map(_codes_in, inner))]


def _operands(codes: Iterable[types.CodeType], operation: str) -> list[str]:
    """Return the names on which code applies the operations that a pattern matches."""
    steps = itertools.chain.from_iterable(map(dis.get_instructions, codes))
    return sorted({step.argval for step in steps if re.search(operation, step.opname)})


def _check_known(function: types.FunctionType, names: Set[str]) -> None:
    if found := names & _OPEN_ENDED:
        raise Unidentified(f"{function.__qualname__} uses {min(found)}")


def _put_into(module: types.ModuleType, names: Set[str], seen: set[int]) -> Iterator[Any]:
    """Yield custom functions, constants and lists under some names in a library's module, such as a replaced one."""
    seen.add(id(module))
    for name in sorted(names & vars(module).keys()):
        value = vars(module)[name]
        if isinstance(value, types.ModuleType):
            if id(value) not in seen:
                yield from _put_into(value, names, seen)
        elif isinstance(value, types.FunctionType):
            if not _maker(value):
                yield value
        elif isinstance(value, (list, *_PLAIN)) or (isinstance(value, type) and not _origin(value.__module__)):
            yield value


def _imported(name: str, names: Iterable[str]) -> list[types.ModuleType]:
    """Return a custom module that a function imports when it runs, and its modules under some names."""
    try:
        found = importlib.util.find_spec(name)
        if found is None or _origin_of(found.origin or "", name):
            return []
        with user_code():
            module = importlib.import_module(name)
    except (ImportError, ValueError):  # there is none of this name, and code may try
        return []
    except BaseException as error:
        raise Unidentified(f"{name} cannot be imported ({type(error).__name__})") from error
    parts = sorted(filter(str.isidentifier, names)) if found.submodule_search_locations else []
    return [module, *(one for part in parts for one in _imported(f"{name}.{part}", ()))]


def _reference(value: Any) -> str | None:
    """Return the name and the origin of an object that a library or the project defines; None for another object."""
    try:
        if isinstance(value, types.ModuleType):
            module, name = value.__name__, ""
        elif callable(value):
            module, name = value.__module__, getattr(value, "__qualname__", None) or value.__name__
            if functools.reduce(getattr, name.split("."), sys.modules[module]) is not value:
                return None
            if isinstance(value, types.FunctionType) and not _maker(value):
                return None  # a user's, put in the place of a library's
        else:
            return None
        origin = _origin(module)
    except (AttributeError, KeyError, TypeError):
        return None
    return f"{module}:{name} {origin}" if origin else None


def _maker(function: Any) -> str | None:
    """Return what identifies the module of the project or a library that has made a function; None if a user has."""
    space = getattr(function, "__globals__", {})
    name = space.get("__name__", "")
    return _origin(name) if getattr(sys.modules.get(name), "__dict__", None) is space else None


@functools.cache
def _origin(module: str) -> str | None:
    """Return what identifies an imported module of the project or a library; None for a user's."""
    found = sys.modules.get(module)
    folders = getattr(found, "__path__", None)
    file = getattr(found, "__file__", None) or next(iter(folders or ()), "")
    return _origin_of(file, module) if found else None


def _origin_of(file: str, module: str) -> str | None:
    """Return what identifies a file of the project or a library, such as its version; None for a user's."""
    path, library = pathlib.Path(file).resolve(), module.partition(".")[0]
    if file and (package := next((folder.name for folder in FOLDERS if path.is_relative_to(folder)), None)):
        return " ".join([_PROJECT, *map(_package, dict.fromkeys([*_FRAMEWORK, package]))])
    if {"site-packages", "dist-packages"} & set(path.parts):
        distributions = sorted(_distributions().get(library, ()))
        versions = [f"{one} {importlib.metadata.version(one)} {_installed(one)}" for one in distributions]
        return " ".join([_LIBRARY, library, *versions]) if versions else None
    is_there = file in ("", "built-in", "frozen") or path.is_relative_to(_STANDARD)
    return f"python {platform.python_version()}" if is_there and library in sys.stdlib_module_names else None


@functools.cache
def _installed(distribution: str) -> str:
    """Return a hash of the hashes of a distribution's Python files; another may be installed under the same version."""
    lines = (importlib.metadata.distribution(distribution).read_text("RECORD") or "").splitlines()
    return hashlib.sha256("\n".join(sorted(line for line in lines if ".py,sha256" in line)).encode()).hexdigest()


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _module_named(name: str) -> list[Any]:
    """Return ``"module:name"`` and the module, or its origin where that is enough; ``ValueError`` if there is none."""
    module = name.partition(":")[0]
    specification = importlib.util.find_spec(module)
    if specification is None:
        raise ValueError(f"no module {module!r}")
    return [name, _origin_of(specification.origin or "", module) or importlib.import_module(module)]


SOURCES = set[str]()  # files of custom code that fingerprints cover


def _files(path: str | None) -> list[bytes]:
    """Return the content of a custom source file, as a list."""
    if not path or not os.path.isfile(path):
        return []
    SOURCES.add(os.path.realpath(path))
    return [pathlib.Path(path).read_bytes()]


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
