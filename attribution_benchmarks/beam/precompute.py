"""Compute the missing scores of a command in blocks on Apache Beam; the command then reads them from its store."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence

from attribution.errors import BadInput, print_line, printable
from attribution.files import make_directory, remove_stale
from attribution_benchmarks.core import work
from attribution_benchmarks.core.work import Job, Task, Work, WorkFactory


@dataclasses.dataclass(frozen=True)
class Precompute:
    """Computes works in blocks on Beam."""

    factory: WorkFactory
    directory: str  # shards go into a subdirectory that is named by the plan's fingerprint
    workers: int = 1
    block_size: int = 0
    options: tuple[str, ...] = ()  # Beam's

    def __call__(self, works: Sequence[Work]) -> None:
        """Plan, compute the blocks without a shard, and save all results to the works.

        Raises ``BadInput`` if a block failed, or a worker died. Shards remain, so that another run resumes.
        """
        fingerprint = work.plan_fingerprint(self.factory.name, works, self.block_size)
        directory = os.path.join(self.directory, fingerprint)
        tasks = list(work.plan_tasks(works, self.block_size))
        if not tasks:
            return
        if missing := _tasks_without_shard(directory, tasks):
            from attribution_benchmarks.beam import pipeline

            make_directory(directory)
            job = Job(self.factory, directory)
            title = printable(f"blocks of {works[0].name}" if len(works) == 1 else "blocks")
            with pipeline.provide_works(job, works):
                pipeline.run(job, missing, self.workers, self.options, title)
        failed = _merge(directory, tasks, works)
        for task, reason in failed:
            first, last, count = task.items[0], task.items[-1], len(task.items)
            words = f"inputs {first!s:.60} to {last!s:.60} ({count}): {reason}"
            print_line(f"block {task.place} of {task.work} failed: {words}", file=sys.stderr)
        if failed:
            raise BadInput(
                f"{len(failed)} of {len(tasks)} blocks failed; computed results remain, and the same command tries "
                "these blocks again"
            )


def _merge(directory: str, tasks: Sequence[Task], works: Sequence[Work]) -> list[tuple[Task, str]]:
    """Save the results of all shards in order; return failed tasks and why."""
    by_name = {one.name: one for one in works}
    failed = []
    for task in tasks:
        try:
            results = work.read_shard(directory, task)
        except work.DamagedShard as error:
            raise BadInput(f"block {task.place} in {directory} is damaged ({error}); run the command again") from error
        if results is None:
            failed.append((task, work.read_failure(directory, task) or "it left no file"))
        else:
            by_name[task.work].save(results)
    return failed


def _tasks_without_shard(directory: str, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks without a complete shard; remove damaged shards and the files of failures."""
    remove_stale(directory)
    missing = []
    for task in tasks:
        path = pathlib.Path(directory, task.file)
        path.with_name(task.file + work.FAILED).unlink(missing_ok=True)
        try:
            if work.read_shard(directory, task) is not None:
                continue
        except work.DamagedShard as error:
            print_line(f"block {task.place} of {task.work} is damaged ({error}) and is computed again", file=sys.stderr)
            path.unlink()
        missing.append(task)
    return missing
