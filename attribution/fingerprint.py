"""A fingerprint of the code behind a map, so that stored scores are found again only if the code is the same."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import inspect
import pathlib

# Modules that no map depends on: texts about methods, and methods as files for servers.
_APART = ("methods", "resolve", "fact_sheets", "fingerprint", "peers")


def fingerprint(function, library: str | None = None) -> str:
    """Return the SHA-256 of the code that a method's maps depend on, as 64 hexadecimal digits.

    That is this package's code without comments, docstrings and layout; the module of a method of one's own, read the
    same way; and the version of the library whose method it is. What a module of one's own imports is not followed.

    Parameters
    ----------
    function
        The method's function.
    library
        See ``attribution.Method``.
    """
    digest = hashlib.sha256(_package().encode())
    function = inspect.unwrap(function)
    module = inspect.getmodule(function)
    if library:
        digest.update(f"{library} {importlib.metadata.version(library)}".encode())
    if module is None or (module.__name__.split(".")[0] != __package__ or library):
        digest.update(_code(_source(function)).encode())
    return digest.hexdigest()


@functools.cache
def _package() -> str:
    """Return the code of this package's modules that maps depend on."""
    paths = sorted(pathlib.Path(__file__).parent.rglob("*.py"))
    wanted = [path for path in paths if path.stem not in _APART and not path.stem.startswith("export")]
    return "\n".join(f"{path.stem}\n{_code(path.read_text(encoding='utf-8'))}" for path in wanted)


def _source(function) -> str:
    """Return the source of a function's module, or what else tells it from others."""
    try:
        return pathlib.Path(inspect.getsourcefile(function)).read_text(encoding="utf-8")
    except (OSError, TypeError):  # typed in, or not written in Python
        return repr(getattr(getattr(function, "__code__", None), "co_code", function))


def _code(source: str) -> str:
    """Return source without what changes no result: comments, docstrings, layout."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
