"""Map a function over many small tasks, in one process or several, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attribution_benchmarks.command_line.workers import processes


def each(function: Callable, tasks: Sequence, jobs: int, title: str) -> list:
    """Return ``[function(task) for task in tasks]``.

    Parameters
    ----------
    function
        A function of a module, so that a new process can import it.
    tasks
        What to map over; picklable where ``jobs`` is above 1.
    jobs
        Number of processes; 1 works in this one.
    title
        What the progress bar says, on standard error.
    """
    import tqdm

    with processes(jobs if len(tasks) >= 64 else 1) as mapped:
        chunk = max(1, min(32, len(tasks) // (4 * max(1, jobs))))
        return list(tqdm.tqdm(mapped(function, tasks, chunk), title, len(tasks), leave=False))
