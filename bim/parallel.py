"""Map a function over many small tasks, in one process or several, with a progress bar."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from collections.abc import Callable, Sequence


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

    if jobs <= 1 or len(tasks) < 64:
        # The function runs inside the bar's iterator, so that an error clears the bar before it is printed.
        return list(tqdm.tqdm(map(function, tasks), title, len(tasks), leave=False))
    context = multiprocessing.get_context("spawn")  # a fork would copy TensorFlow's threads half-way
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        chunk = max(1, min(32, len(tasks) // (4 * jobs)))
        return list(tqdm.tqdm(pool.map(function, tasks, chunksize=chunk), title, len(tasks), leave=False))
