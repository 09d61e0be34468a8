"""Several tasks at a time, the longest first, with their results in order; and how many at a time."""

from __future__ import annotations

import concurrent.futures
import contextlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from attribution_benchmarks.cli.workers import available_cores

MEMORY = 2 << 30  # bytes that a unit of the report may take, with room to spare: the largest takes two thirds
Task = TypeVar("Task")


def usable(units: int) -> int:
    """Return how many units to run at a time: as cores and memory allow, and at least one."""
    cores, free = available_cores(), available_memory()
    return max(1, min(cores, units, cores if free is None else free // MEMORY))


def available_memory() -> int | None:
    """Return how many bytes new processes may take without swapping; None where the system does not say."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    with contextlib.suppress(OSError, ValueError):  # a container has less; "max" where it has not
        group = pathlib.Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return max(0, min(found)) if found else None


def in_order(
    work: Callable[[Task], Any],
    tasks: Sequence[Task],
    costs: Sequence[float],
    jobs: int,
    stop: Callable[[], None],
) -> Iterator[Any]:
    """Yield ``work(task)`` of all tasks in their order, so many at a time, begun in the order of their costs.

    All threads last until the last task is done, so that what they started does not end with them.

    Parameters
    ----------
    work
        Called in threads; what it raises is raised here.
    tasks, costs
        What to do, and how long it takes, in any unit.
    jobs
        At a time.
    stop
        Called where one has failed or the keyboard interrupts: ends what the others wait for.
    """
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        begun: dict[int, concurrent.futures.Future] = {}
        try:
            for place in sorted(range(len(tasks)), key=lambda place: -costs[place]):
                begun[place] = pool.submit(work, tasks[place])
            pending, given = set(begun.values()), 0
            while given < len(tasks):
                if pending:
                    done, pending = concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
                    for future in done:
                        future.result()  # what failed is raised at once, whatever its place
                while given < len(tasks) and begun[given].done():
                    yield begun[given].result()
                    given += 1
        except BaseException:
            for future in begun.values():
                future.cancel()
            stop()
            raise
