"""How far a run is, told from the block files alone, whatever computes them and wherever."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from attribution.errors import printable
from attribution_benchmarks.beam import shards
from attribution_benchmarks.beam.file_systems import is_elsewhere, there
from attribution_benchmarks.beam.work import Task


@contextlib.contextmanager
def watched(directory: str, tasks: Sequence[Task], shown: str, seconds: float = 0) -> Iterator[None]:
    """Show a bar over blocks, with the time that is left, until the block of code ends.

    Parameters
    ----------
    directory, tasks
        Where the files are, and which are waited for.
    shown
        What the bar is called.
    seconds
        Between two looks; 0 for one second here and ten where the files are elsewhere.
    """
    import tqdm

    wanted = {task.file for task in tasks} | {task.file + shards.FAILED for task in tasks}
    ended = threading.Event()
    pause = seconds or (10.0 if is_elsewhere(directory) else 1.0)
    with tqdm.tqdm(total=len(tasks), desc=printable(shown), unit="block") as bar:

        def look() -> None:
            done = len(wanted & there(directory))
            if done > bar.n:
                bar.update(done - bar.n)

        def watch() -> None:
            while not ended.wait(pause):
                look()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            look()
