"""Worker processes that ignore Ctrl-C and end with the process that started them."""

from __future__ import annotations

import concurrent.futures.process
import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator

from attribution.errors import BadInput

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def processes(number: int) -> Iterator[Callable[[Callable, Iterable, int], Iterator]]:
    """Yield ``map(function, tasks, chunksize)``, which computes in worker processes and keeps the order of the tasks.

    Workers are spawned, because threads of TensorFlow or of a renderer do not survive a fork. They are killed if the
    block of code fails; ``BadInput`` if the system killed one. With ``number <= 1``, this process computes.
    """
    if number <= 1:
        yield _in_this_process
        return
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(number, context, end_with_parent, (os.getpid(),))
    started = pool._processes

    def parallel_map(function, tasks, chunksize=1):
        with _interrupts_ignored():  # workers are started here and inherit it
            return pool.map(function, tasks, chunksize=chunksize)

    try:
        yield parallel_map
        pool.shutdown()
    except concurrent.futures.process.BrokenProcessPool as error:
        raise BadInput(
            "the system ended a worker process, perhaps for lack of memory; use fewer processes at a time"
        ) from error
    finally:
        for item in list(pool._pending_work_items.values()):  # Python 3.11 fails if a worker of a cancelled one dies
            item.future = concurrent.futures.Future()
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(started.values()):
            process.kill()  # Python would wait at its end, for minutes of a task


def _in_this_process(function: Callable, tasks: Iterable, chunksize: int = 1) -> Iterator:
    return map(function, tasks)


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C during the block, in the main thread; Python sets signal handlers in no other."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_with_parent(parent: int) -> None:
    """Ignore Ctrl-C in this process, and on Linux end it when its parent, a process id, ends, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
