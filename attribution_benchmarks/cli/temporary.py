"""Temporary directories that a killed process leaves behind only until the next one asks for one of the same kind."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
import time
import weakref

from attribution.file_io.files import writing
from attribution.file_io.locks import lock

_YOUNG = 60  # seconds in which a new directory surely gets its lock


def temporary_directory(name: str) -> tempfile.TemporaryDirectory:
    """Make a directory in the system's temporary folder that goes with the object returned, or with the process.

    What killed processes left there under the same name is swept away: a lock goes with the process that has it, so a
    directory that nobody has locked is nobody's. Where a system has no such locks, nothing is swept.

    Parameters
    ----------
    name
        What is in it, as a part of its name.

    Returns
    -------
    tempfile.TemporaryDirectory
        Its ``name`` is the path.

    Raises
    ------
    BadInput
        If it cannot be made.
    """
    prefix = f"attribution_benchmarks_{name}_"
    with writing(pathlib.Path(tempfile.gettempdir()) / prefix):
        directory = tempfile.TemporaryDirectory(prefix=prefix)
    with contextlib.suppress(OSError):
        _sweep(pathlib.Path(directory.name).parent, prefix)
        descriptor = os.open(directory.name, os.O_RDONLY)
        weakref.finalize(directory, os.close, descriptor)
        lock(descriptor, shared=True, wait=False)
    return directory


def _sweep(parent: pathlib.Path, prefix: str) -> None:
    """Remove directories that begin so, are no longer young, and are locked by nobody; other users' stay."""
    for left in parent.glob(prefix + "*"):
        with contextlib.suppress(OSError):
            if left.is_symlink() or time.time() - left.stat().st_mtime < _YOUNG:
                continue
            descriptor = os.open(left, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if lock(descriptor, wait=False):
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
