"""Files that are there whole or not at all, where they may be written, and where what can be made again is kept."""

from __future__ import annotations

import errno
import functools
import hashlib
import io
import os
import pathlib
import re
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from attribution.errors import BadInput

UNFINISHED = ".unfinished"  # what a killed process leaves behind ends so; no reader of data takes it for data
_LEFT_BEHIND = re.compile(
    rf"\..*\.(?P<process>\d+)(-at-(?P<machine>[0-9a-f]+))?-[0-9a-f]+{re.escape(UNFINISHED)}", re.DOTALL
)
_LONGEST_NAME = 255  # bytes
_OLD = 86_400  # seconds after which no machine is at work at a file any more
CACHE_VARIABLE = "ATTRIBUTION_BENCHMARKS_CACHE"


class _Stream(io.BufferedWriter):
    """A file without a descriptor: Pillow and NumPy would write to that past Python, and Pillow misses short writes."""

    def fileno(self):
        raise io.UnsupportedOperation("fileno")


def write_whole(
    path: str | os.PathLike, content: str | bytes | Callable[[IO[bytes]], object], durable: bool = True
) -> None:
    r"""Write a file; one that exists is replaced, and stays as it is if the writing fails.

    Parameters
    ----------
    path
        File to write; its directory is made where it is missing.
    content
        Bytes; text, which is written in UTF-8 with its line ends as they are; or a function that writes to a binary
        file, such as ``lambda file: figure.savefig(file, format="png")``. What UTF-8 cannot hold, as parts of file
        names in another encoding, is written as ``\udcff``.
    durable
        Whether the file is on the disk when this returns, and what killed processes left of the same file is swept
        away. Not needed for the members of a data directory, for which both are done as a whole.

    Raises
    ------
    BadInput
        If the file cannot be written: no directory, no right, no space. Nothing is left behind.
    """
    path = pathlib.Path(path)
    unfinished = path.with_name(unfinished_name(path.name))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise BadInput(f"{path} is no ordinary file; name another file to write to")
        if durable:
            _sweep_beside(path)
        try:
            file = io.FileIO(unfinished, "xb")
            with _Stream(file) as stream:
                if callable(content):
                    content(stream)
                else:
                    stream.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
                stream.flush()
                if durable:
                    os.fsync(file.fileno())
            os.replace(unfinished, path)
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)


def unfinished_name(name: str) -> str:
    """Return a name for what will be called ``name`` when it is whole; it says which process makes it."""
    return f".{name[:40]}.{os.getpid()}-at-{_machine()}-{secrets.token_hex(6)}{UNFINISHED}"


def is_left_behind(path: str | os.PathLike) -> bool:
    """Return whether a file has a name of ``unfinished_name``, and the process that makes it no longer lives.

    Whether a process of another machine does, on a file system of both, is not known: its files are left for a day.
    """
    left = _LEFT_BEHIND.fullmatch(os.path.basename(path))
    if not left:
        return False
    if left["machine"] in (None, _machine()):
        return not lives(int(left["process"]))
    try:
        return time.time() - os.lstat(path).st_mtime > _OLD
    except OSError:
        return False


@functools.cache
def _machine() -> str:
    """Return what tells this machine, or container, from others: numbers of processes are its own."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _sweep_beside(path: pathlib.Path) -> None:
    for entry in os.listdir(path.parent):
        if entry.startswith(f".{path.name[:40]}.") and is_left_behind(path.parent / entry):
            with suppress(OSError):
                os.unlink(path.parent / entry)


def lives(process: int) -> bool:
    """Tell whether a process of this machine is running."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # someone else's
        pass
    return not _awaits_its_parent(process)


def _awaits_its_parent(process: int) -> bool:
    """Return whether a process has ended and only its number is left, for a parent that never asks how it went.

    A killed run's helpers stay so for ever in a container whose first process looks after no orphans. Known on Linux.
    """
    try:
        told = pathlib.Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return False
    return told.rpartition(")")[2].split()[:1] in (["Z"], ["X"])  # the state follows the name, in brackets of any kind


@contextmanager
def writing(path: str | os.PathLike) -> Iterator[None]:
    """Say in one line what the file system refuses while something is written to a place.

    Raises
    ------
    BadInput
        In place of every ``OSError``.
    """
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot write {path}: {reason(error)}; {_remedy(error)}") from error
    except Exception as error:
        # TensorFlow has no OSError: a full disk is a FailedPreconditionError there, or one of these.
        if type(error).__name__ not in _OF_TENSORFLOW or not type(error).__module__.startswith("tensorflow"):
            raise
        said = " ".join(str(getattr(error, "message", error)).split())
        raise BadInput(f"cannot write {path}: {said[-200:]}; make room or name another place") from error


_OF_TENSORFLOW = (
    "FailedPreconditionError", "ResourceExhaustedError", "PermissionDeniedError", "UnknownError", "NotFoundError",
    "UnavailableError", "UnimplementedError", "DataLossError", "InternalError",
)  # fmt: skip


def reason(error: OSError) -> str:
    """Return what the file system said, without Python's numbers."""
    return (error.strerror or str(error) or type(error).__name__).strip()


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "make room or name another place"
    return "name another place"


def check_file(flag: str, path: str | os.PathLike, suffixes: Sequence[str] = ()) -> None:
    """Refuse, before any work is done, a file that could not be written.

    Directories of its path that are missing are no obstacle: see ``check_directory``.

    Parameters
    ----------
    flag
        Name of the flag, for the message.
    path
        The file; empty means none.
    suffixes
        What its name may end in; anything when empty.

    Raises
    ------
    BadInput
        If the suffix is none of these, the path is a directory or something odd, or its directory cannot be written to.
    """
    if not os.fspath(path):
        return
    if "://" in os.fspath(path):
        raise BadInput(f"--{flag}={os.fspath(path)!r} is no path; name a file")
    path = pathlib.Path(path)
    if suffixes and path.suffix not in suffixes:
        quoted = ", ".join(f"'{suffix}'" for suffix in suffixes)
        raise BadInput(f"--{flag}={str(path)!r} ends in none of {quoted}")
    exists = _exists(flag, path)
    if path.is_dir():
        raise BadInput(f"--{flag}={str(path)!r} is a directory; name a file")
    if exists and not path.is_file():
        raise BadInput(f"--{flag}={str(path)!r} is no ordinary file; name another")
    check_directory(flag, path.parent)


def check_directory(flag: str, path: str | os.PathLike) -> None:
    """Refuse, before any work is done, a directory to write to that cannot be used.

    The one rule of all commands: a directory that is missing is made, with those above it, when something is written
    to it. So what counts is the nearest part of the path that exists: it must be a directory that can be written to.

    Parameters
    ----------
    flag
        Name of the flag, for the message.
    path
        The directory; empty means none.

    Raises
    ------
    BadInput
        If the nearest part of the path that exists is no directory, or cannot be written to.
    """
    if not os.fspath(path):
        return
    if "://" in os.fspath(path):
        raise BadInput(f"--{flag}={os.fspath(path)!r} is no path; name a directory, such as one where that is mounted")
    existing = given = pathlib.Path(os.path.abspath(path))
    while not _exists(flag, existing):
        existing = existing.parent
    if not existing.is_dir():
        what = "is a file" if existing.is_file() else "is no directory"
        which = "" if existing == given else f": {str(existing)!r}"
        raise BadInput(f"--{flag}={str(path)!r}{which} {what}; name a directory to write to")
    try:  # what may be written is not told by permissions alone: a file system can be read-only, or no real one
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise BadInput(
            f"--{flag}={str(path)!r}: {str(existing)!r} cannot be written to ({reason(error)}); name another directory"
        ) from error


def _exists(flag: str, path: pathlib.Path) -> bool:
    """Return whether something is there, even a link to nowhere; refuse a name that could not be made."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        if len(os.fsencode(path.name)) > _LONGEST_NAME:  # the file system says so only where the directory exists
            raise BadInput(f"--{flag}={str(path)!r} cannot be used: File name too long; name another place") from None
        return False
    except (OSError, ValueError) as error:
        said = reason(error) if isinstance(error, OSError) else str(error)
        raise BadInput(f"--{flag}={str(path)!r} cannot be used: {said}; name another place") from error
    return True


def make_directory(path: str | os.PathLike) -> pathlib.Path:
    """Return a directory, made with those above it where it is missing.

    Raises
    ------
    BadInput
        If it cannot be made.
    """
    path = pathlib.Path(path)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def cache_directory(name: str) -> pathlib.Path:
    """Return the directory of one kind of things that can be made again, such as drawn data or scores.

    Parameters
    ----------
    name
        Its name in the cache. The cache is what ``--cache_dir`` names, or ``ATTRIBUTION_BENCHMARKS_CACHE``; else
        ``attribution_benchmarks`` below ``XDG_CACHE_HOME``, or below ``~/.cache``.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return pathlib.Path(chosen) / name
    above = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(above) / "attribution_benchmarks" / name


@contextmanager
def cache_at(path: str) -> Iterator[None]:
    """Keep everything cached in another place meanwhile, in this process and in those it starts; empty: as before."""
    before = os.environ.get(CACHE_VARIABLE)
    if path:
        check_directory("cache_dir", path)
        os.environ[CACHE_VARIABLE] = os.path.abspath(path)
    try:
        yield
    finally:
        if path and before is None:
            del os.environ[CACHE_VARIABLE]
        elif path:
            os.environ[CACHE_VARIABLE] = before
