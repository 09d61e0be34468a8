"""Locks on files that go with the process that has them, however it ends."""

from __future__ import annotations

import os
from typing import IO


def lock(file: IO | int, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file, or a directory, until it is closed.

    Parameters
    ----------
    file
        The file, or its descriptor.
    shared
        Whether others may have a shared lock at the same time.
    wait
        Whether to wait for other processes.

    Returns
    -------
    bool
        False where the system knows no such locks, as Windows: there, two processes must not write to one place.

    Raises
    ------
    BlockingIOError
        If another process has the lock and this one is not to wait.
    OSError
        If the file system has no locks.
    """
    if os.name != "posix":
        return False
    import fcntl

    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    return True
