"""Blocks of a plan, computed in this process, in processes of this machine, or on a runner of Beam.

Each block is computed by a pure function and written to its own shard. Results are not returned through Beam. A block
that a runner retries, or runs twice at the same time, leaves the same shard.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attribution.errors import BadInput
from attribution.tensorflow_log import quiet_tensorflow
from attribution_benchmarks.beam.workers import processes
from attribution_benchmarks.core import work
from attribution_benchmarks.core.work import Job, Results, Task, Work, digest_of, import_beam

beam = import_beam()
ATTEMPTS = 3  # for a block that fails for another reason than its inputs

_works: dict[Job, Callable[[str], Work]] = {}
_lock = threading.RLock()  # one model per process and one block in memory, however many threads a runner has


@contextlib.contextmanager
def provide_works(job: Job, works: Sequence[Work]) -> Iterator[None]:
    """Make existing works available to workers in this process until the block of code ends."""
    _works[job] = {work.name: work for work in works}.__getitem__
    try:
        yield
    finally:
        _works.pop(job, None)


def _work_named(job: Job, name: str) -> Work:
    """Return a work, which is created once per process."""
    if job not in _works:
        quiet_tensorflow()
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # several workers share a device
        _works[job] = job.factory()
    return _works[job](name)


def _compute_block(job: Job, task: Task) -> None:
    """Compute one block, unless its shard exists."""
    with _lock:
        with contextlib.suppress(work.DamagedShard):
            if work.read_shard(job.directory, task) is not None:
                return
        _compute_and_write(job, task)


def _compute_and_write(job: Job, task: Task) -> None:
    """Compute a block and write its shard, or the reason of its failure after some attempts."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            work.write_shard(job.directory, task, _results(job, task))
            return
        except Exception as error:
            if attempt == ATTEMPTS or isinstance(error, BadInput):
                text = " ".join(str(error).split())[:500]
                reason = text if isinstance(error, BadInput) else f"{type(error).__name__}: {text}"
                work.write_failure(job.directory, task, reason)
                return


def _results(job: Job, task: Task) -> Results:
    """Compute a block; raise BadInput if this worker would compute something else than the plan."""
    chosen = _work_named(job, task.work)
    if chosen.key != task.key:
        raise BadInput("this worker has other code, another model or other versions than the plan")
    computed = chosen.compute(task.items, task.held)
    if digest_of(list(computed.names)) != task.names:
        raise BadInput("this worker has other inputs than the plan")
    return computed.results


def run(job: Job, tasks: Sequence[Task], workers: int, options: Sequence[str], title: str) -> None:
    """Compute blocks.

    Parameters
    ----------
    job, tasks
        What workers need, and the blocks.
    workers
        Number of processes on this machine, if no option names a runner.
    options
        Of Beam.
    title
        Of the progress bar on this machine.

    Raises
    ------
    BadInput
        If the system ended a worker process.
    """
    import tqdm

    compute = functools.partial(_compute_block, job)
    if not options:  # Beam's own processes wait for ever if one of them dies
        with processes(workers) as mapped:
            collections.deque(tqdm.tqdm(mapped(compute, tasks, 1), title, len(tasks), unit="block"), maxlen=0)
        return
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    steps = pipeline_of(options)
    _ = steps | beam.Create(tasks) | beam.Reshuffle() | "Compute blocks" >> beam.Map(compute)
    steps.run().wait_until_finish()


def pipeline_of(options: Sequence[str]) -> Any:
    """Return an empty pipeline of the runner that the options name.

    Raises ``BadInput`` if Beam does not accept the options, or they name no runner.
    """
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    try:
        settings = PipelineOptions(list(options))
        if not settings.view_as(StandardOptions).runner:
            raise ValueError("they name no runner, as --runner=FlinkRunner")
        return beam.Pipeline(options=settings)
    except (ValueError, SystemExit) as error:
        raise BadInput(f"Beam does not accept the options after --: {error}") from error
