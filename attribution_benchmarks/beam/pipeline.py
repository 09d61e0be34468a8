"""The pipeline: blocks of a plan, each computed by the same pure function and put into a file of its own.

Nothing comes back through Beam: what a runner retries, or runs twice at the same time, leaves the same file.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from attribution.cli.tf_logging import quiet_tensorflow
from attribution.errors import BadInput
from attribution_benchmarks.beam import shards
from attribution_benchmarks.beam.device import device_kind, is_out_of_memory
from attribution_benchmarks.beam.shards import BlockFile, Damaged
from attribution_benchmarks.beam.work import Computed, Job, Task, Work, WorksMaker, digest_of

ATTEMPTS = 3  # at a block that fails for no reason that lies in its inputs
HALVINGS = 5  # of a batch that does not fit the memory of a device

_works: dict[Job, WorksMaker] = {}
_one_at_a_time = threading.RLock()  # one model a process, and one block in its memory, whatever threads a runner has


def at_hand(job: Job, works: Sequence[Work]) -> None:
    """Let workers in this process take works that are made already."""
    _works[job] = {work.name: work for work in works}.__getitem__


def forget(job: Job) -> None:
    """Let go of the works of a job."""
    _works.pop(job, None)


def work_named(job: Job, name: str) -> Work:
    """Return a work, made in this process once."""
    if job not in _works:
        quiet_tensorflow()
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # several workers share a device
        _works[job] = job.maker()
    return _works[job](name)


class ComputeBlocks(beam.DoFn):
    """Computes blocks and leaves a file of each; its model is loaded once a process."""

    def __init__(self, job: Job):
        self.job = job
        self._counters = {
            name: Metrics.counter("attribution_benchmarks", name) for name in ("inputs", "passes", "retries", "failed")
        }

    def setup(self) -> None:
        """Have Beam's own lines alone said that tell of something wrong."""
        logging.getLogger("apache_beam").setLevel(logging.ERROR)

    def process(self, line: str) -> None:
        """Compute one block, unless its file is there."""
        task = Task.from_line(line)
        with _one_at_a_time:
            try:
                if shards.read_block(self.job.directory, task):
                    return
            except Damaged:
                pass
            for name, number in computed_and_kept(self.job, task).items():
                if name in self._counters:
                    self._counters[name].inc(int(number))


def computed_and_kept(job: Job, task: Task) -> dict[str, Any]:
    """Compute a block and write its file, or why there is none; return what is known of the computing."""
    retries = halvings = 0
    while True:
        try:
            work = work_named(job, task.work)
            began, cpu = time.monotonic(), time.process_time()  # without the loading, which every worker does once
            if work.key != task.key:
                raise BadInput("this worker has other code, another model or other versions than where it was planned")
            found = work.compute(task.items, task.held, halvings)
            if digest_of(list(found.names)) != task.names:
                raise BadInput("the inputs are others here than where it was planned")
            break
        except Exception as error:
            if is_out_of_memory(error) and halvings < HALVINGS and work.rows >> halvings > 1:
                halvings += 1
            elif retries + 1 < ATTEMPTS and not isinstance(error, BadInput):
                retries += 1
            else:
                shards.write_failure(job.directory, task, _said(error), [str(item)[:200] for item in task.items])
                return {"failed": 1, "retries": retries}
    told = {
        "inputs": len(task.items), "passes": found.passes, "retries": retries, "halvings": halvings,
        "seconds": round(time.monotonic() - began, 3), "cpu_seconds": round(time.process_time() - cpu, 3),
        "device": device_kind(),
    }  # fmt: skip
    shards.write_block(job.directory, task, BlockFile(_results(found), told))
    return told


def _results(found: Computed) -> dict[str, dict[str, Any]]:
    return {series: dict(records) for series, records in found.results.items()}


def _said(error: Exception) -> str:
    """Return what went wrong in one line."""
    text = " ".join(str(error).split())[:500]
    return text if isinstance(error, BadInput) else f"{type(error).__name__}: {text}"


def build(pipeline: beam.Pipeline, plan: str, job: Job) -> None:
    """Put the steps into a pipeline.

    Parameters
    ----------
    pipeline
        Of any runner.
    plan
        File with a task a line, on a file system that all workers reach.
    job
        What they make the works from.
    """
    (
        pipeline
        | "Plan" >> beam.io.ReadFromText(plan)
        | "Spread" >> beam.Reshuffle()
        | "Compute blocks" >> beam.ParDo(ComputeBlocks(job))
    )
