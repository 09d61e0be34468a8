"""Run several tasks at a time, the longest first, and report their progress."""

from __future__ import annotations

import concurrent.futures
import contextlib
import pathlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tqdm import tqdm

from attribution.errors import printable
from attribution_benchmarks.cli.workers import available_cores
from attribution_benchmarks.report.forkserver import PROGRESS_BAR, write_stderr

_MEMORY = 2 << 30  # bytes allowed for one task; the largest takes two thirds
_PERCENT = re.compile(r"(\d+)%\|")
Task = TypeVar("Task")


def default_jobs(tasks: int) -> int:
    """Return how many of some tasks can run at a time, given the cores and the available memory; at least 1."""
    cores, free = available_cores(), available_memory()
    return max(1, min(cores, tasks, cores if free is None else free // _MEMORY))


def available_memory() -> int | None:
    """Return the bytes that new processes can use without swapping; None where the system does not report it."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    with contextlib.suppress(OSError, ValueError):  # the limit of a container; "max" if it has none
        group = pathlib.Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return max(0, min(found)) if found else None


def run_in_order(
    work: Callable[[Task], Any], tasks: Sequence[Task], costs: Sequence[float], jobs: int, stop: Callable[[], None]
) -> Iterator[Any]:
    """Yield ``work(task)`` of each task in order; run ``jobs`` at a time, started by decreasing cost.

    Parameters
    ----------
    work
        Called in threads. An exception is raised here as soon as it occurs, whatever the order.
    tasks, costs
        Tasks and their relative durations.
    jobs
        Number of threads.
    stop
        Called after an exception or an interrupt; must make the running calls of ``work`` return.
    """
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            order = sorted(range(len(tasks)), key=lambda place: -costs[place])
            futures = {place: pool.submit(work, tasks[place]) for place in order}
            yielded = 0
            for finished in concurrent.futures.as_completed(futures.values()):
                finished.result()
                while yielded < len(tasks) and futures[yielded].done():
                    yield futures[yielded].result()
                    yielded += 1
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


class Progress:
    """Print to standard error which tasks start and finish; tasks may call it from their threads.

    A single job writes its standard error unchanged. With several jobs, the name of the task precedes each line, and
    on a terminal their progress bars become one status line: ``first 40 %, second 85 %``.

    Parameters
    ----------
    tasks, jobs
        Number of tasks, and of those that run at a time.
    """

    def __init__(self, tasks: int, jobs: int):
        self._tasks, self._jobs = tasks, jobs
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}
        self._partial_line: dict[str, bytes] = {}
        self._percent: dict[str, str] = {}
        hidden = jobs == 1 or not sys.stderr.isatty()
        self._status = tqdm(
            bar_format="{desc}", leave=False, disable=hidden, mininterval=0.2, miniters=0, dynamic_ncols=True
        )

    def start(self, number: int, name: str, title: str) -> None:
        """Report that a task starts."""
        with self._lock:
            self._started[name] = time.monotonic()
            self._write(f"[{number}/{self._tasks}] {title}")

    def finish(self, number: int, name: str, title: str, outcome: str) -> None:
        """Report how a task finished: "done", "is there already" or "failed"."""
        with self._lock:
            seconds = time.monotonic() - self._started.pop(name)
            self._percent.pop(name, None)
            if self._jobs > 1:
                self._write(f"[{number}/{self._tasks}] {title} {outcome} after {seconds:.0f} s")
            elif outcome != "done":
                self._write(f"  {outcome}")

    def on_stderr(self, name: str, written: bytes) -> None:
        """Take what a task's command writes to standard error."""
        if self._jobs == 1:
            write_stderr(written)
            return
        with self._lock:
            *lines, rest = re.split(rb"[\r\n]", self._partial_line.pop(name, b"") + written)
            if PROGRESS_BAR.search(rest.decode(errors="replace")):  # a bar has no line end, and is written at once
                lines.append(rest)
            else:
                self._partial_line[name] = rest
            for line in (line.decode(errors="replace").rstrip() for line in lines):
                if not PROGRESS_BAR.search(line):
                    if line:
                        self._write(f"{name}: {line}")
                elif found := _PERCENT.search(line):
                    self._percent[name] = found[1]
            running = (f"{one} {self._percent[one]} %" if one in self._percent else one for one in self._started)
            self._status.set_description_str(", ".join(running), refresh=False)
            self._status.update(0)

    def close(self) -> None:
        """Remove the status line."""
        self._status.close()

    def _write(self, line: str) -> None:
        self._status.write(printable(line), file=sys.stderr)
