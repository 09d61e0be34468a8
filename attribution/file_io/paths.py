"""Check paths before any work, describe errors of the file system in one line, and find the cache."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import tempfile
from collections.abc import Iterator, Sequence

from attribution.errors import BadInput, listed

CACHE_VARIABLE = "ATTRIBUTION_BENCHMARKS_CACHE"
_LONGEST_NAME = 255  # bytes
_TENSORFLOW_ERRORS = (
    "FailedPreconditionError", "ResourceExhaustedError", "PermissionDeniedError", "UnknownError", "NotFoundError",
    "UnavailableError", "UnimplementedError", "DataLossError", "InternalError",
)  # fmt: skip


def is_remote(path: str | os.PathLike) -> bool:
    """Return whether a path is an address such as ``gs://bucket/folder``."""
    return "://" in os.fspath(path)


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[None]:
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


def check_file(flag: str, path: str | os.PathLike, suffixes: Sequence[str] = ()) -> None:
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
    if is_remote(path):
        raise BadInput(f"--{flag}={os.fspath(path)!r} is not a path; name a file")
    path = pathlib.Path(path)
    if suffixes and path.suffix not in suffixes:
        raise BadInput(f"--{flag}={str(path)!r} ends in none of {listed(suffixes)}")
    exists = _exists(flag, path)
    if path.is_dir():
        raise BadInput(f"--{flag}={str(path)!r} is a directory; name a file")
    if exists and not path.is_file():
        raise BadInput(f"--{flag}={str(path)!r} is not a regular file; name another")
    check_directory(flag, path.parent)


def find_saved_model(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the directory that holds ``saved_model.pb``.

    Parameters
    ----------
    path
        That directory itself, or a parent with numbered versions (``.../1/``), of which the highest is taken.

    Raises
    ------
    BadInput
        If there is no SavedModel.
    """
    directory = pathlib.Path(path)
    if (directory / "saved_model.pb").is_file():
        return directory
    if directory.is_dir():
        versions = [
            child for child in directory.iterdir() if child.name.isdecimal() and (child / "saved_model.pb").is_file()
        ]
        if versions:
            return max(versions, key=lambda child: int(child.name))
        raise BadInput(
            f"'{path}' is not a SavedModel: no saved_model.pb in it or in a numbered version directory below it"
        )
    if directory.is_file():
        raise BadInput(
            f"'{path}' is a file; a SavedModel is a directory, which keras.Model.export or tf.saved_model.save writes"
        )
    raise BadInput(f"'{path}' does not exist; a directory with saved_model.pb is needed")


def check_directory(flag: str, path: str | os.PathLike) -> None:
    """Check, before any work, that a directory can be written to; it and its parents may be missing.

    Parameters
    ----------
    flag
        Name of the flag, for the message.
    path
        The directory; nothing is checked if empty.

    Raises
    ------
    BadInput
        If the nearest existing part of the path is not a directory, or cannot be written to.
    """
    if not os.fspath(path):
        return
    if is_remote(path):
        raise BadInput(f"--{flag}={os.fspath(path)!r} is not a path; name a directory, such as where it is mounted")
    existing = given = pathlib.Path(os.path.abspath(path))
    while not _exists(flag, existing):
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


def _exists(flag: str, path: pathlib.Path) -> bool:
    """Return whether a path exists, even as a broken link; raise BadInput for a name that cannot be used."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        if len(os.fsencode(path.name)) > _LONGEST_NAME:  # reported by the file system only in an existing directory
            raise BadInput(f"--{flag}={str(path)!r} cannot be used: File name too long; name another place") from None
        return False
    except (OSError, ValueError) as error:
        message = reason(error) if isinstance(error, OSError) else str(error)
        raise BadInput(f"--{flag}={str(path)!r} cannot be used: {message}; name another place") from error
    return True


def make_directory(path: str | os.PathLike) -> pathlib.Path:
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
    with environment(CACHE_VARIABLE, path and os.path.abspath(path)):
        yield


@contextlib.contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment during the block, also for child processes; no change if it is empty."""
    if not value:
        yield
        return
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
