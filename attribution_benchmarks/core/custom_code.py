"""Code that scores depend on: what identifies it, and whether a user's does more than its fingerprint says.

Scores of a user's method or metric are stored as long as nothing but code, inputs and network can have changed them. It
is run under watch: what it reads and what it changes of itself is noticed, and its scores stay in memory then.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

from attribution.errors import print_line
from attribution_benchmarks.core import fingerprint, manifest

_INSTALLED = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
_CODE = tuple(
    f"{os.path.realpath(folder)}{os.sep}" for folder in [*_INSTALLED, *map(str, fingerprint.FOLDERS), "/proc", "/sys"]
)
_DEVICES = re.compile("/dev/(null|zero|full|random|urandom|tty|pts/.*)")
_ELSEWHERE = set(
    "os.system os.exec os.fork os.posix_spawn os.listdir os.scandir subprocess.Popen socket.connect "
    "sqlite3.connect".split()
)
_OF_LIBRARIES = re.compile(r"/(site|dist)-packages/|/__autograph_generated_file")  # installed, or written by TensorFlow
# What users' code has read in this process. It may have kept that for later, so it counts for all that follows.
_read: list[str] = []
_running = 0


class Code:
    """A function, or several, and what identifies it.

    Parameters
    ----------
    name
        Of the method, metric, control or benchmark.
    function
        What is called.
    *others
        Whatever else belongs to it.

    Attributes
    ----------
    name
        As given.
    function
        The function; one that is a user's is watched.
    digest : str
        Its fingerprint; empty where there is none.
    """

    def __init__(self, name: str, function: Any, *others: Any):
        self.name, self._objects, self._why = name, (function, others), ""
        self._ran = self._is_compared = False
        try:
            self.digest, self._is_custom = fingerprint.identify(self._objects)
        except fingerprint.Unidentified as error:
            self.digest, self._is_custom, self._why = "", True, str(error)
        self.function = self._watched(function) if self._is_custom and callable(function) else function

    def why_not_stored(self) -> str:
        """Return why numbers of this code are not stored; empty where they are."""
        if self._is_custom and not self._why:
            if _read:
                self._why = f"it may depend on {_read[0]}, which a method or metric of yours has read"
            elif self._ran and not self._is_compared:  # after its first batch alone
                self._is_compared, self._why = True, self._change()
        return self._why

    def _change(self) -> str:
        try:
            same = fingerprint.identify(self._objects)[0] == self.digest
        except fingerprint.Unidentified as error:
            return str(error)
        return "" if same else "what it holds changes while it runs"

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _install()

        @functools.wraps(function)
        def noticing(*arguments: Any, **named: Any) -> Any:
            global _running
            _running += 1
            try:
                return function(*arguments, **named)
            finally:
                _running -= 1
                self._ran = True

        return noticing


def say_not_stored(name: str, why: str, aloud: bool) -> None:
    """Note in the manifest that numbers cannot be found again; print so, once, where they would be stored."""
    manifest.UNIDENTIFIED[name] = why
    if aloud:
        _say(f"scores of '{name}' are not stored: {why}")


@functools.cache
def _say(line: str) -> None:
    print_line(line, file=sys.stderr)


@functools.cache
def _install() -> None:
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what users' code reads; called by Python for everything that it does."""
    if not _running:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, (str, bytes, os.PathLike)) and flags & os.O_ACCMODE != os.O_WRONLY:
            path = os.path.realpath(os.fsdecode(path))
            if not (
                path.startswith(_CODE)
                or path in fingerprint.SOURCES
                or _DEVICES.fullmatch(path)
                or _OF_LIBRARIES.search(path)
            ):
                _read.append(path)
    elif event in _ELSEWHERE:
        _read.append(event)
