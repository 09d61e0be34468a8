"""One way to make a directory of data, however many processes begin it and wherever one of them is stopped.

A directory that grows file by file, and goes on where it stood, is ``held`` by one process at a time: another one
waits, says so, and finds what the first has made. A directory that only makes sense as a whole is made under a name of
its own and gets its final name at the end: see ``whole_directory``. What killed processes left behind is swept away by
whoever holds the directory next.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import threading
from collections.abc import Iterator

from attribution.errors import BadInput, print_line
from attribution.file_io.files import is_left_behind, reason, unfinished_name, writing
from attribution.file_io.locks import lock

LOCK = ".lock"  # in a directory that is held; gone afterwards
_held = threading.local()


@contextlib.contextmanager
def held(directory: str | os.PathLike, what: str = "its data") -> Iterator[pathlib.Path]:
    """Hold a directory, made where it is missing, until the block ends or the process does.

    A second process waits. A thread that holds a directory already may hold it again.

    Parameters
    ----------
    directory
        The directory.
    what
        What is made in it, for the line on standard error of a process that waits.

    Raises
    ------
    BadInput
        If the directory cannot be made or written to.
    """
    directory = pathlib.Path(directory)
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        key = directory.resolve()
    mine = _held.__dict__.setdefault("directories", set())
    if key in mine:
        yield directory
        return
    with writing(directory):
        descriptor = _locked(directory / LOCK, f"{what} in {directory}")
    mine.add(key)
    try:
        sweep(directory)
        yield directory
    finally:
        mine.discard(key)
        with contextlib.suppress(OSError):  # its owner is whoever has it open, so a new file may already be there
            (directory / LOCK).unlink()
        os.close(descriptor)


def _locked(file: pathlib.Path, what: str) -> int:
    """Return the descriptor of a lock file that no other process has."""
    said = False
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                lock(descriptor, wait=False)
            except BlockingIOError:
                if not said:
                    print_line(f"waiting for another process that makes {what}", file=sys.stderr, flush=True)
                    said = True
                lock(descriptor)
            except OSError as error:
                print_line(f"no lock on {file} ({reason(error)}): start one process at a time there", file=sys.stderr)
            # The one before may have removed the file while this one waited for it.
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def sweep(directory: str | os.PathLike, below: bool = True) -> None:
    """Remove what processes that no longer live left unfinished in a directory, and below it."""
    for above, folders, files in os.walk(str(directory)):
        for name in [*folders, *files]:
            path = os.path.join(above, name)
            if is_left_behind(path):
                if name in folders:
                    folders.remove(name)
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):
                        os.unlink(path)
        if not below:
            return


@contextlib.contextmanager
def whole_directory(path: str | os.PathLike, replace: bool = False) -> Iterator[pathlib.Path]:
    """Make a directory that is there whole or not at all.

    Parameters
    ----------
    path
        Its name once it is whole.
    replace
        Whether one that exists gives way to it; else it is an error.

    Yields
    ------
    pathlib.Path
        Where to write meanwhile: a new directory beside it, which goes if the block fails.

    Raises
    ------
    BadInput
        If it cannot be written, or ``path`` exists at the end and is not to be replaced.
    """
    path = pathlib.Path(path)
    own, old = (path.with_name(unfinished_name(path.name)) for _ in range(2))
    missing = [above for above in path.absolute().parents if not above.exists()]
    try:
        with writing(path):
            own.mkdir(parents=True)
        sweep(path.parent, below=False)
        yield own
        os.sync()  # so that a loss of power after the renaming loses no file
        if os.path.lexists(path) and not (replace and path.is_dir()):
            raise BadInput(f"{path} was made by another process meanwhile; remove it, or name another directory")
        with writing(path):
            if path.is_dir():
                os.rename(path, old)
            try:
                os.rename(own, path)
            except BaseException:
                if old.exists():
                    os.rename(old, path)
                raise
    finally:
        for left in (own, old):
            shutil.rmtree(left, ignore_errors=True)
        for above in missing:  # made for nothing, if it is empty now
            with contextlib.suppress(OSError):
                above.rmdir()
