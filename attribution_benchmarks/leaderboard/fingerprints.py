"""Hashes of what scores depend on: code, models, and a user's own files."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
from collections.abc import Sequence

from attribution_benchmarks.command_line import BadInput

ROOT = pathlib.Path(__file__).resolve().parents[2]


def code_fingerprint(benchmark: str) -> str:
    """Return a hash of the code that a benchmark's scores come from: its room and the floors below.

    How a network was trained is no part of it: the network itself is among what scores depend on.
    """
    rooms = ("attribution", "attribution_benchmarks/command_line", benchmark)
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    files = [path for path in files if path.parent.name != "training"]
    files += [path for path in (ROOT / "attribution_benchmarks" / "leaderboard").glob("*.py")]
    return fingerprint(files)


def fingerprint(paths: Sequence[pathlib.Path]) -> str:
    """Return a hash of the names and bytes of files, and of all files in directories; what is missing adds nothing."""
    found = hashlib.sha256()
    for path in sorted(filter(pathlib.Path.exists, paths)):
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        for file in files:
            name = file.relative_to(path.parent).as_posix()
            found.update(f"{name}\0{file.stat().st_size}\0".encode())
            found.update(file.read_bytes())
    return found.hexdigest()


def source_of(method: str) -> pathlib.Path:
    """Return the file of a method of the user's own, ``module:function`` or ``file.py:function``.

    Raises
    ------
    BadInput
        If it is neither, or there is no such file.
    """
    place, _, function = method.rpartition(":")
    if not place or not function.isidentifier():
        raise BadInput(f"--methods has '{method}'; a method of your own is module:function or file.py:function")
    if place.endswith(".py"):
        path = pathlib.Path(place)
        if not path.is_file():
            raise BadInput(f"--methods={method}: there is no file {place}")
        return path
    try:
        spec = importlib.util.find_spec(place)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin or not os.path.isfile(spec.origin):
        raise BadInput(f"--methods={method}: there is no module '{place}'; write file.py:function for a file")
    return pathlib.Path(spec.origin)
