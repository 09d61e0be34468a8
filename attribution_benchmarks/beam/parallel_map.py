"""Apply a function to many items in processes of this machine.

The function writes its files itself, completely and only if they are missing, and returns plain JSON. After a kill only
the missing files are made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attribution_benchmarks.beam.workers import processes

# From a title of the progress bar, a function of a module that takes an item, and distinct items of plain JSON, to the
# function's return values in the items' order.
ParallelMap = Callable[[str, Callable[[Any], Any], Sequence], Iterable[Any]]


@contextlib.contextmanager
def local_map(number: int = 1, chunk: int = 1) -> Iterator[ParallelMap]:
    """Yield a ``ParallelMap`` over ``number`` processes of this machine; 1 is this process.

    A process takes at most ``chunk`` items at a time. Fewer than two chunks are computed in this process.
    """
    import tqdm

    with processes(number) as mapped:

        def parallel_map(title: str, function: Callable[[Any], Any], items: Sequence) -> Iterable[Any]:
            taken = max(1, min(chunk, len(items) // (4 * max(1, number))))
            returned = mapped(function, items, taken) if len(items) >= 2 * chunk else map(function, items)
            return tqdm.tqdm(returned, title, len(items), mininterval=1.0, delay=1.0, leave=False)

        yield parallel_map


def serial_map(title: str, function: Callable[[Any], Any], items: Sequence) -> Iterable[Any]:
    """Apply a function in this process, without a progress bar; a ``ParallelMap``."""
    return map(function, items)
