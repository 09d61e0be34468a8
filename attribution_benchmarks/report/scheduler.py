"""Run several tasks at a time, and report their progress."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import pathlib
import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
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


def run_chains(
    work: Callable[[Task], Any],
    chains: Sequence[Sequence[tuple[int, float, Task]]],
    jobs: int,
    stop: Callable[[], None],
) -> Generator[tuple[int, Any], None, None]:
    """Yield (place of its chain, ``work(task)``) of every task as it finishes; run ``jobs`` at a time.

    The tasks of a chain run one after another. Of those that can run, a lower round goes first. In round 0 the cheapest
    begin, so that there is something to see soon; in later ones the longest, so that all end at about the same time.

    Parameters
    ----------
    work
        Called in threads. An exception is raised here as soon as it occurs.
    chains
        For each chain its tasks in order: (round, relative duration, task).
    jobs
        Number of threads.
    stop
        Called after an exception or an interrupt; must make the running calls of ``work`` return.
    """
    left = {place: list(chain) for place, chain in enumerate(chains) if chain}
    running: dict[concurrent.futures.Future, int] = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:

        def fill(held: Collection[int] = ()) -> None:
            """Start tasks; none of a chain whose last result was not taken yet."""
            free = [place for place in left if left[place] and place not in (*running.values(), *held)]
            free.sort(key=lambda place: (left[place][0][0], left[place][0][1] * (-1 if left[place][0][0] else 1)))
            for place in free[: jobs - len(running)]:
                running[pool.submit(work, left[place].pop(0)[2])] = place

        try:
            fill()
            while running:
                finished = concurrent.futures.wait(running, return_when="FIRST_COMPLETED").done
                results = {running.pop(future): future.result() for future in finished}
                fill(results)  # what follows the yield may take seconds
                yield from results.items()
                fill()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


class Progress:
    """Print to standard error which tasks start and finish, and the time to go; threads may call it.

    A single job writes its standard error unchanged. With several jobs, the name of the task precedes each line, and
    on a terminal their progress bars become one status line: ``first 40 %, second 85 %, 12 minutes to go``.
    ``costs`` are rough CPU seconds of each task, ``jobs`` the number of tasks that run at a time.
    """

    def __init__(self, costs: Sequence[float], jobs: int):
        self._tasks, self._jobs, self._cost, self._done = len(costs), jobs, sum(costs), 0.0
        self._begun, self._numbers = time.monotonic(), itertools.count(1)
        self._lock = threading.RLock()
        self._started: dict[str, tuple[float, float]] = {}  # name -> when, cost
        self._partial_line: dict[str, bytes] = {}
        self._percent: dict[str, str] = {}
        hidden = jobs == 1 or not sys.stderr.isatty()
        self._status = tqdm(
            bar_format="{desc}", leave=False, disable=hidden, mininterval=0.2, miniters=0, dynamic_ncols=True
        )

    def start(self, name: str, title: str, cost: float) -> None:
        """Report that a task starts."""
        with self._lock:
            self._started[name] = time.monotonic(), cost
            self._write(f"[{next(self._numbers)}/{self._tasks}] {title}")

    def finish(self, name: str, title: str, outcome: str) -> None:
        """Report how a task finished: "done", "is there already" or "failed"."""
        with self._lock:
            when, cost = self._started.pop(name)
            self._done += cost
            self._percent.pop(name, None)
            if self._jobs > 1:
                self._write(f"  {title} {outcome} after {time.monotonic() - when:.0f} s, {self.to_go()}")
            elif outcome != "done":
                self._write(f"  {outcome}")

    def to_go(self) -> str:
        """Return in words how long all tasks still take."""
        now = time.monotonic()
        with self._lock:
            done = self._done + sum(min(cost, now - when) for when, cost in self._started.values())
        speed = (done + 60 * self._jobs) / (now - self._begun + 60)  # in the first minute, as the costs say
        seconds = max(0.0, self._cost - done) / speed
        return f"{seconds:.0f} s to go" if seconds < 100 else f"{seconds / 60:.0f} minutes to go"

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
            running = [f"{one} {self._percent[one]} %" if one in self._percent else one for one in self._started]
            self._status.set_description_str(", ".join([*running, self.to_go()]), refresh=False)
            self._status.update(0)

    def close(self) -> None:
        """Remove the status line."""
        self._status.close()

    def _write(self, line: str) -> None:
        self._status.write(printable(line), file=sys.stderr)
