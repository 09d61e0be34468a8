"""Write files and directories completely or not at all, lock directories, and remove what killed processes left.

An unfinished file or directory has a name that ends in ``UNFINISHED`` and is locked by the process that writes it. The
system releases a lock when its process ends, however it ends, so an unfinished path without a lock is stale.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import secrets
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from typing import IO

from attribution.errors import BadInput, print_line
from attribution.file_io.paths import make_directory, writing

try:
    import fcntl
except ImportError:  # Windows: stale paths are not recognized and stay
    fcntl = None

LOCK = ".lock"  # file in a locked directory; removed afterwards
UNFINISHED = ".unfinished"


class _Stream(io.BufferedWriter):
    """A file without a descriptor: Pillow and NumPy would bypass Python with one, and Pillow misses short writes."""

    def fileno(self):
        raise io.UnsupportedOperation("fileno")


def atomic_write(
    path: str | os.PathLike, content: str | bytes | Callable[[IO[bytes]], object], durable: bool = True
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
        Whether to flush the file to the disk and to remove stale versions of it. Not needed for the members of a data
        directory, for which both are done once.

    Raises
    ------
    BadInput
        If the file cannot be written.
    """
    path = pathlib.Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise BadInput(f"{path} is not a regular file; name another file to write to")
        if durable:
            remove_stale(path.parent, recursive=False, prefix=_prefix(path))
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
def atomic_directory(path: str | os.PathLike, replace: bool = False) -> Iterator[pathlib.Path]:
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
        remove_stale(path.parent, recursive=False)
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
def locked_directory(directory: str | os.PathLike, what: str = "its data") -> Iterator[pathlib.Path]:
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
            remove_stale(directory)
        yield directory
    finally:
        if lock.lock_counter == 1:
            with contextlib.suppress(OSError):  # a process that waits opens a new file
                path.unlink()
        lock.release()


def remove_stale(directory: str | os.PathLike, recursive: bool = True, prefix: str = ".") -> None:
    """Remove unfinished files and directories of processes that have ended.

    Parameters
    ----------
    directory
        Where to search.
    recursive
        Whether to search subdirectories too.
    prefix
        Beginning of the names.
    """
    for above, folders, files in os.walk(os.fspath(directory)):
        stale = [name for name in [*folders, *files] if name.startswith(prefix) and name.endswith(UNFINISHED)]
        folders[:] = [name for name in folders if name not in stale] if recursive else []
        for name in stale:
            path = pathlib.Path(above, name)
            descriptor = _lock(path, exclusive=True)
            if descriptor is not None:
                _remove(path)
                os.close(descriptor)


def temporary_directory(name: str) -> tempfile.TemporaryDirectory:
    """Create a directory in the system's temporary folder that is removed with the returned object.

    Directories of the same ``name`` that killed processes left are removed first.

    Parameters
    ----------
    name
        What it contains, as a part of its name.

    Returns
    -------
    tempfile.TemporaryDirectory
        Its ``name`` is the path.

    Raises
    ------
    BadInput
        If it cannot be created.
    """
    parent, prefix = tempfile.gettempdir(), f"attribution_benchmarks_{name}_"
    remove_stale(parent, recursive=False, prefix=prefix)
    while True:
        with writing(os.path.join(parent, prefix)):
            directory = tempfile.TemporaryDirectory(prefix=prefix, suffix=UNFINISHED)
        descriptor = _lock(pathlib.Path(directory.name))
        if descriptor is not None:
            weakref.finalize(directory, os.close, descriptor)
        if os.path.exists(directory.name):
            return directory


def _prefix(path: pathlib.Path) -> str:
    """Return how the names of unfinished versions of a path begin; names have at most 255 bytes."""
    return f".{path.name[:40]}."


@contextlib.contextmanager
def _unfinished(path: pathlib.Path, create: Callable[[pathlib.Path], object]) -> Iterator[pathlib.Path]:
    """Create a locked file or directory beside a path and remove it at the end, if it was not renamed."""
    while True:
        temporary = path.with_name(f"{_prefix(path)}{secrets.token_hex(6)}{UNFINISHED}")
        create(temporary)
        descriptor = _lock(temporary)
        if temporary.exists():  # else another process took it for stale before it was locked
            break
        if descriptor is not None:
            os.close(descriptor)
    try:
        yield temporary
    finally:
        _remove(temporary)
        if descriptor is not None:
            os.close(descriptor)


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


def _lock(path: pathlib.Path, exclusive: bool = False) -> int | None:
    """Lock a file or directory until the returned descriptor is closed.

    Returns
    -------
    int or None
        None without locks in this file system, or if ``exclusive`` and another process has a lock.
    """
    if fcntl is None:
        return None
    descriptor = None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would block
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
        return descriptor
    except OSError:
        if descriptor is not None:
            os.close(descriptor)
        return None


def _remove(path: pathlib.Path) -> None:
    """Remove a file or directory as far as possible."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
