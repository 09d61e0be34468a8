"""Files of users: check paths before any work, write completely or not at all, lock, and find the cache.

An unfinished file or directory has a name that ends in ``UNFINISHED``. A killed process leaves it; it is stale in a
directory that another process has locked, and after a day in any other.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pathlib
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from attribution.errors import BadInput, did_you_mean, listed, print_line

CACHE_VARIABLE = "ATTRIBUTION_BENCHMARKS_CACHE"
LOCK = ".lock"  # file in a locked directory; removed afterwards
UNFINISHED = ".unfinished"
_STALE = 24 * 3600  # seconds
_TENSORFLOW_ERRORS = (
    "FailedPreconditionError", "ResourceExhaustedError", "PermissionDeniedError", "UnknownError", "NotFoundError",
    "UnavailableError", "UnimplementedError", "DataLossError", "InternalError",
)  # fmt: skip


_shown: dict[str, str] = {}  # a path in the cache -> the file that it was made from


def remember(made: str | os.PathLike[str], source: str | os.PathLike[str]) -> None:
    """Print ``source`` in place of a path in the cache from now on."""
    _shown[os.fspath(made)] = os.fspath(source)


def origin(path: str | os.PathLike[str]) -> str:
    """Return the file that a path in the cache was made from; any other path unchanged."""
    return _shown.get(os.fspath(path), os.fspath(path))


def refuse_address(path: str | os.PathLike[str], flag: str = "") -> None:
    """Raise BadInput for an address such as ``gs://bucket/folder``; ``flag`` is the flag that names it, if any."""
    if "://" in os.fspath(path):
        given = f"--{flag}={os.fspath(path)!r}" if flag else repr(os.fspath(path))
        raise BadInput(f"{given} is an address, not a path; mount it, as with gcsfuse or s3fs, and name that directory")


def is_special(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a directory, pipe or device; not if it is a regular file or, at this moment, nothing."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)  # one look: another process may remove it between two
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of the file system, while something is written to ``path``, into one line.

    Raises
    ------
    BadInput
        In place of every ``OSError``, and of TensorFlow's errors for files.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "make room or name another place" if full else "name another place"
        raise BadInput(f"cannot write {path}: {reason(error)}; {remedy}") from error
    except Exception as error:
        # TensorFlow is not imported for this. It raises no OSError: a full disk is a FailedPreconditionError there.
        if type(error).__name__ not in _TENSORFLOW_ERRORS or not type(error).__module__.startswith("tensorflow"):
            raise
        message = " ".join(str(getattr(error, "message", error)).split())
        raise BadInput(f"cannot write {path}: {message[-200:]}; make room or name another place") from error


def reason(error: OSError) -> str:
    """Return the file system's message without Python's error number."""
    return (error.strerror or str(error) or type(error).__name__).strip()


def similar_paths(path: pathlib.Path) -> str:
    """Return what in a missing path's directory is spelled like it, as the end of a sentence; empty for nothing."""
    try:
        return did_you_mean(str(path), [str(child) for child in path.parent.iterdir()])
    except (OSError, ValueError):
        return ""


def check_file(flag: str, path: str | os.PathLike[str], suffixes: Sequence[str] = ()) -> None:
    """Check, before any work, that a file can be written; missing directories are allowed.

    Parameters
    ----------
    flag
        Name of the flag, for the message.
    path
        The file; nothing is checked if empty.
    suffixes
        Allowed endings of its name; any if empty.

    Raises
    ------
    BadInput
        If the suffix is not allowed, the path exists and is not a regular file, or its directory cannot be written to.
    """
    if not os.fspath(path):
        return
    refuse_address(path, flag)
    path = pathlib.Path(path)
    if suffixes and path.suffix.lower() not in suffixes:
        raise BadInput(f"--{flag}={str(path)!r} ends in none of {listed(suffixes)}")
    if path.is_dir():
        raise BadInput(f"--{flag}={str(path)!r} is a directory; name a file")
    if os.path.lexists(path) and not path.is_file():
        raise BadInput(f"--{flag}={str(path)!r} is not a regular file; name another")
    check_directory(flag, path.parent)


def check_directory(flag: str, path: str | os.PathLike[str]) -> None:
    """Check, as ``check_file``, that a directory can be written to; it and its parents may be missing.

    Raises
    ------
    BadInput
        If the nearest existing part of the path is not a directory, or cannot be written to.
    """
    if not os.fspath(path):
        return
    refuse_address(path, flag)
    existing = given = pathlib.Path(os.path.abspath(path))
    while not os.path.lexists(existing):
        existing = existing.parent
    if not existing.is_dir():
        what = "is a file" if existing.is_file() else "is not a directory"
        which = "" if existing == given else f": {str(existing)!r}"
        raise BadInput(f"--{flag}={str(path)!r}{which} {what}; name a directory to write to")
    try:  # permissions are not enough: a file system can be read-only, or virtual
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise BadInput(
            f"--{flag}={str(path)!r}: {str(existing)!r} cannot be written to ({reason(error)}); name another directory"
        ) from error


def make_directory(path: str | os.PathLike[str]) -> pathlib.Path:
    """Create a directory and its parents where they are missing.

    Raises
    ------
    BadInput
        If it cannot be created.
    """
    path = pathlib.Path(path)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def cache_directory(name: str) -> pathlib.Path:
    """Return the directory ``name`` in the cache, which holds only data that can be regenerated.

    The cache is ``--cache_dir``, or ``ATTRIBUTION_BENCHMARKS_CACHE``, or ``attribution_benchmarks`` in
    ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return pathlib.Path(chosen) / name
    above = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(above) / "attribution_benchmarks" / name


@contextlib.contextmanager
def cache_at(path: str) -> Iterator[None]:
    """Use another cache during the block, also in child processes; no change if ``path`` is empty."""
    check_directory("cache_dir", path)
    before = os.environ.get(CACHE_VARIABLE)
    if path:
        os.environ[CACHE_VARIABLE] = os.path.abspath(path)
    try:
        yield
    finally:
        os.environ.pop(CACHE_VARIABLE, None)
        if before is not None:
            os.environ[CACHE_VARIABLE] = before


class _Stream(io.BufferedWriter):
    """A file without a descriptor: Pillow and NumPy would bypass Python with one, and Pillow misses short writes."""

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


def atomic_write(
    path: str | os.PathLike[str], content: str | bytes | Callable[[IO[bytes]], object], durable: bool = True
) -> None:
    r"""Write a file completely or not at all; a failure leaves an existing file unchanged.

    Parameters
    ----------
    path
        File to write. Missing directories are created.
    content
        Bytes; text, encoded in UTF-8 without newline conversion, characters outside UTF-8 as ``\udcff``; or a function
        that writes to a binary file, such as ``lambda file: figure.savefig(file, format="png")``.
    durable
        Whether to flush the file to the disk. Not needed for the members of a data directory, which is flushed once.

    Raises
    ------
    BadInput
        If the file cannot be written.
    """
    path = pathlib.Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_special(path):
            raise BadInput(f"{path} is not a regular file; name another file to write to")
        with _unfinished(path, lambda new: new.touch(exist_ok=False)) as temporary:
            file = io.FileIO(temporary, "r+b")
            with _Stream(file) as stream:
                if callable(content):
                    content(stream)
                else:
                    stream.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
                stream.flush()
                if durable:
                    os.fsync(file.fileno())
            os.replace(temporary, path)


@contextlib.contextmanager
def atomic_directory(path: str | os.PathLike[str], replace: bool = False) -> Iterator[pathlib.Path]:
    """Create a directory completely or not at all.

    Parameters
    ----------
    path
        The final path.
    replace
        Whether to replace an existing directory.

    Yields
    ------
    pathlib.Path
        A new directory beside ``path`` to write to. It is renamed at the end, and removed if the block fails.

    Raises
    ------
    BadInput
        If it cannot be written, or ``path`` exists at the end and ``replace`` is false.
    """
    path = pathlib.Path(path)
    missing = [above for above in path.absolute().parents if not above.exists()]
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            with writing(path):
                temporary = stack.enter_context(_unfinished(path, pathlib.Path.mkdir))
            yield temporary
            os.sync()  # a loss of power after the renaming must not lose files
            if os.path.lexists(path) and not (replace and path.is_dir()):
                raise BadInput(f"{path} was made by another process meanwhile; remove it, or name another directory")
            with writing(path):
                _rename_directory(temporary, path)
    finally:
        for above in missing:
            with contextlib.suppress(OSError):  # not empty
                above.rmdir()


@contextlib.contextmanager
def locked_directory(directory: str | os.PathLike[str], what: str = "its data") -> Iterator[pathlib.Path]:
    """Create a directory if it is missing, lock it until the block ends, and remove stale paths in it.

    Another process or thread waits. The same thread may lock it again.

    Parameters
    ----------
    directory
        The directory.
    what
        What is written to it, for the message of a process that waits.

    Raises
    ------
    BadInput
        If the directory cannot be created or written to.
    """
    import filelock

    directory = make_directory(directory)
    path = directory.resolve() / LOCK
    lock = filelock.FileLock(path, is_singleton=True)  # counts how often a thread has it
    with writing(directory):
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            print_line(f"waiting for another process that makes {what} in {directory}", file=sys.stderr, flush=True)
            lock.acquire()
    try:
        if lock.lock_counter == 1:
            remove_stale(directory, age=0)
        yield directory
    finally:
        if lock.lock_counter == 1:
            with contextlib.suppress(OSError):  # a process that waits opens a new file
                path.unlink()
        lock.release()


def remove_stale(directory: str | os.PathLike[str], age: float = _STALE) -> None:
    """Remove what is unfinished in a directory and those below it, and was not changed for ``age`` seconds."""
    for above, folders, files in os.walk(os.fspath(directory)):
        stale = [name for name in [*folders, *files] if name.startswith(".") and name.endswith(UNFINISHED)]
        folders[:] = [name for name in folders if name not in stale]
        for path in (pathlib.Path(above, name) for name in stale):
            with contextlib.suppress(OSError):  # its writer has just ended
                if time.time() - path.lstat().st_mtime >= age:
                    _remove(path)


@contextlib.contextmanager
def _unfinished(path: pathlib.Path, create: Callable[[pathlib.Path], object]) -> Iterator[pathlib.Path]:
    """Create a file or directory beside a path and remove it at the end, if it was not renamed."""
    # Names have at most 255 bytes.
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}{UNFINISHED}")
    create(temporary)
    try:
        yield temporary
    finally:
        _remove(temporary)


def _rename_directory(new: pathlib.Path, path: pathlib.Path) -> None:
    """Rename a directory. One that has the name is replaced, and stays if that fails."""
    if not path.is_dir():
        os.rename(new, path)
        return
    with _unfinished(path, pathlib.Path.mkdir) as old:
        os.rename(path, old)
        try:
            os.rename(new, path)
        except BaseException:
            os.rename(old, path)
            raise


def _remove(path: pathlib.Path) -> None:
    """Remove a file or directory as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
