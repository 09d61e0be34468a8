"""Worker processes that leave the keyboard to their parent and end when it ends, however it does."""

from __future__ import annotations

import concurrent.futures.process
import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from attribution.errors import BadInput

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def processes(number: int) -> Iterator[Callable[[Callable, Iterable, int], Iterator]]:
    """Yield ``mapped(function, tasks, chunk)``: results in the order of the tasks, computed in so many processes.

    Processes are fresh ones: a forked copy would inherit the threads of TensorFlow or of the renderer half-way. With
    one process or less, this one does the work. Functions are those of a module, tasks can be pickled, and results come
    as they are asked for.

    Raises
    ------
    BadInput
        If the system ended one of the processes.
    """
    if number <= 1:
        yield _here
        return
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(number, context, end_with_the_parent, (os.getpid(),))

    def mapped(function, tasks, chunk=1):
        with _interrupts_ignored():  # the processes start with the tasks
            return pool.map(function, tasks, chunksize=chunk)

    try:
        yield mapped
        pool.shutdown()
    except concurrent.futures.process.BrokenProcessPool as error:
        raise BadInput(
            "the system ended a worker process, perhaps for lack of memory; fewer processes at a time may help"
        ) from error
    finally:  # after a failure, what has not begun is dropped, and what has ends by itself
        pool.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Start processes that ignore the keyboard from their first moment on, where they would only print a traceback."""
    if threading.current_thread() is not threading.main_thread():  # Python lets no other thread say so
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_with_the_parent(parent: int) -> None:
    """Arrange that this process ends when its parent does: else it would go on writing while the next run does.

    Parameters
    ----------
    parent
        Number of the process that started this one; it may have ended already.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        # The kernel's own way, at once. Its "parent" is the thread that started this process, here the main one.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)

    def watch():
        above = multiprocessing.parent_process()
        if above is not None:
            above.join()
        while above is None and os.getppid() == parent:  # started by other means than multiprocessing
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _here(function: Callable, tasks: Iterable, chunk: int = 1) -> Iterator:
    """Run tasks one after another in this process."""
    return map(function, tasks)
