"""The Beam pipeline: each task of a plan is computed by a pure function and written to its own shard.

Results are not returned through Beam. A task that a runner retries, or runs twice at the same time, leaves the same
shard.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from attribution.cli.tf_logging import quiet_tensorflow
from attribution.errors import BadInput
from attribution_benchmarks.beam import shards
from attribution_benchmarks.beam.work import Computed, Job, Task, Work, digest_of

ATTEMPTS = 3  # for a block that fails for another reason than its inputs
HALVINGS = 5  # of a batch that does not fit into the memory of a device

_works: dict[Job, Callable[[str], Work]] = {}
_lock = threading.RLock()  # one model per process and one block in memory, however many threads a runner has


def provide_works(job: Job, works: Sequence[Work]) -> None:
    """Make existing works available to workers in this process."""
    _works[job] = {work.name: work for work in works}.__getitem__


def release_works(job: Job) -> None:
    """Drop the references to the works of a job."""
    _works.pop(job, None)


def _work_named(job: Job, name: str) -> Work:
    """Return a work, which is created once per process."""
    if job not in _works:
        quiet_tensorflow()
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # several workers share a device
        _works[job] = job.factory()
    return _works[job](name)


class _ComputeBlocks(beam.DoFn):
    """Compute blocks and write their shards."""

    def __init__(self, job: Job):
        self.job = job
        self._counters = {
            name: Metrics.counter("attribution_benchmarks", name) for name in ("inputs", "passes", "retries", "failed")
        }

    def setup(self) -> None:
        """Silence Beam's messages below errors."""
        logging.getLogger("apache_beam").setLevel(logging.ERROR)

    def process(self, line: str) -> None:
        """Compute one block, unless its shard exists."""
        task = Task.from_line(line)
        with _lock:
            try:
                if shards.read_shard(self.job.directory, task):
                    return
            except shards.DamagedShard:
                pass
            for name, number in _compute_and_write(self.job, task).items():
                if name in self._counters:
                    self._counters[name].inc(int(number))


def _compute_and_write(job: Job, task: Task) -> dict[str, Any]:
    """Compute a block and write its shard, or the reason of its failure; return statistics of the computation."""
    retries = halvings = 0
    while True:
        try:
            work = _work_named(job, task.work)
            began, cpu = time.monotonic(), time.process_time()  # without loading, which every worker does once
            computed = _compute(work, task, halvings)
            break
        except Exception as error:
            if _is_out_of_memory(error) and halvings < HALVINGS and work.rows >> halvings > 1:
                halvings += 1
            elif retries + 1 < ATTEMPTS and not isinstance(error, BadInput):
                retries += 1
            else:
                shards.write_failure(job.directory, task, _one_line(error), [str(item)[:200] for item in task.items])
                return {"failed": 1, "retries": retries}
    statistics = {
        "inputs": len(task.items), "passes": computed.passes, "retries": retries, "halvings": halvings,
        "seconds": round(time.monotonic() - began, 3), "cpu_seconds": round(time.process_time() - cpu, 3),
        "device": _device_kind(),
    }  # fmt: skip
    shards.write_shard(job.directory, task, shards.Shard(computed.results, statistics))
    return statistics


def _compute(work: Work, task: Task, halvings: int) -> Computed:
    """Compute a block; raise BadInput if this worker would compute something else than the plan."""
    if work.key != task.key:
        raise BadInput("this worker has other code, another model or other versions than the plan")
    computed = work.compute(task.items, task.held, halvings)
    if digest_of(list(computed.names)) != task.names:
        raise BadInput("this worker has other inputs than the plan")
    return computed


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())[:500]
    return text if isinstance(error, BadInput) else f"{type(error).__name__}: {text}"


def _device_kind() -> str:
    """Return the kind of the first GPU that TensorFlow sees, else of the processor. TensorFlow is not imported."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        for device in tensorflow.config.list_physical_devices("GPU"):
            details = tensorflow.config.experimental.get_device_details(device)
            return f"GPU {details.get('device_name', 'of unknown name')}"
    return f"CPU {platform.machine()}"


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error or one of its causes says that a device's memory is full."""
    while error is not None:
        if type(error).__name__ == "ResourceExhaustedError":  # of TensorFlow, which need not be imported here
            return True
        error = error.__cause__ or error.__context__
    return False


def build(pipeline: beam.Pipeline, plan: str, job: Job) -> None:
    """Add the steps to a pipeline.

    Parameters
    ----------
    pipeline
        Of any runner.
    plan
        File with one task per line, on a file system that all workers can reach.
    job
        The factory of the works and the directory of the shards.
    """
    (
        pipeline
        | "Plan" >> beam.io.ReadFromText(plan)
        | "Spread" >> beam.Reshuffle()
        | "Compute blocks" >> beam.ParDo(_ComputeBlocks(job))
    )
