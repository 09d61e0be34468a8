"""Compute the missing scores of a command in blocks on Apache Beam; the command then reads them from its store."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attribution.errors import BadInput, print_line, printable
from attribution.files import is_remote, remove_stale
from attribution_benchmarks.beam import work
from attribution_benchmarks.beam.work import Job, Task, Work, WorkFactory

MANIFEST = "manifest.json"
_SUMMED = ("inputs", "passes", "retries", "halvings", "seconds", "cpu_seconds")


@dataclasses.dataclass(frozen=True)
class Precompute:
    """Computes works in blocks on Beam."""

    factory: WorkFactory
    directory: str  # shards go into a subdirectory that is named by the plan's fingerprint
    workers: int = 1
    block_size: int = 0
    allow_failures: int = 0
    options: tuple[str, ...] = ()  # Beam's

    def __call__(self, works: Sequence[Work]) -> dict[str, list]:
        """Plan, compute the blocks without a shard, and save all results to the works.

        Returns work's name -> items of its failed blocks; empty if none failed. Raises ``BadInput`` if more blocks
        failed than allowed, or a worker died. Shards remain, so that another run resumes.
        """
        fingerprint = work.plan_fingerprint(self.factory.name, works, self.block_size)
        directory = work.join(self.directory, fingerprint)
        tasks = list(work.plan_tasks(works, self.block_size))
        if not tasks:
            return {}
        missing = _tasks_without_shard(directory, tasks)
        if missing:
            self._compute(directory, missing, works)
        failed = _merge(directory, tasks, works)
        for task, failure in failed:
            inputs = failure["inputs"]
            print_line(
                f"block {task.place} of {task.work} failed: inputs {inputs[0]!s:.60} to {inputs[-1]!s:.60} "
                f"({len(inputs)}): {failure['reason']}",
                file=sys.stderr,
            )
        if len(failed) > self.allow_failures:
            raise BadInput(
                f"{len(failed)} of {len(tasks)} blocks failed, and --allow_failures={self.allow_failures}; computed "
                "results remain, and the same command tries these blocks again"
            )
        dropped: dict[str, list] = {}
        for task, _ in failed:
            dropped.setdefault(task.work, []).extend(task.items)
        return dropped

    def _compute(self, directory: str, tasks: Sequence[Task], works: Sequence[Work]) -> None:
        """Write the plan and compute its blocks."""
        from attribution_benchmarks.beam import pipeline

        text = "".join(f"{task.to_line()}\n" for task in tasks)
        job = Job(self.factory, directory, work.join(directory, f"plan-{work.digest_of(text)[:24]}.jsonl"))
        _make_directory(directory)
        work.write(job.plan, text.encode())
        title = f"blocks of {works[0].name}" if len(works) == 1 else "blocks"
        with pipeline.provide_works(job, works), _progress_bar(directory, tasks, title):
            pipeline.run(job, len(tasks), self.workers, self.options)


def _merge(directory: str, tasks: Sequence[Task], works: Sequence[Work]) -> list[tuple[Task, Mapping[str, Any]]]:
    """Save the results of all shards in order and write the manifest; return failed tasks with inputs and reason."""
    by_name = {one.name: one for one in works}
    failed: list[tuple[Task, Mapping[str, Any]]] = []
    statistics = []
    for task in tasks:
        try:
            shard = work.read_shard(directory, task)
        except work.DamagedShard as error:
            raise BadInput(f"block {task.place} in {directory} is damaged ({error}); run the command again") from error
        if shard is None:
            failure = work.read_failure(directory, task) or {"reason": "it left no file", "inputs": task.items}
            failed.append((task, failure))
            continue
        by_name[task.work].save(shard.results)
        statistics.append(shard.statistics)
    _write_manifest(directory, statistics, len(failed), works)
    return failed


def _write_manifest(
    directory: str, statistics: Sequence[Mapping[str, Any]], failed: int, works: Sequence[Work]
) -> None:
    """Write the summary of all blocks, and report what may change last digits."""
    devices = dict(collections.Counter(block["device"] for block in statistics))
    sums = {name: sum(block[name] for block in statistics) for name in _SUMMED}
    content = {
        "blocks": len(statistics) + failed,
        "failed": failed,
        "devices": devices,
        **{name: round(number, 3) if "seconds" in name else int(number) for name, number in sums.items()},
        "works": {one.name: {"key": one.key, "inputs": len(one.items)} for one in works},
    }
    work.write(work.join(directory, MANIFEST), (json.dumps(content, indent=1) + "\n").encode())
    if len(devices) > 1:
        print_line(
            f"blocks were computed on several kinds of devices, so last digits may differ: {devices}", file=sys.stderr
        )
    if sums["halvings"]:
        print_line(
            "batches were halved for lack of memory; last digits may differ from those of full batches", file=sys.stderr
        )


def _tasks_without_shard(directory: str, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks without a complete shard; remove damaged shards and the files of failures."""
    if not is_remote(directory):
        remove_stale(directory)
    existing = work.names_in(directory)
    missing, removed = [], []
    for task in tasks:
        if task.file + work.FAILED in existing:
            removed.append(task.file + work.FAILED)
        if task.file in existing:
            try:
                work.read_shard(directory, task)
                continue
            except work.DamagedShard as error:
                print_line(
                    f"block {task.place} of {task.work} is damaged ({error}) and is computed again", file=sys.stderr
                )
                removed.append(task.file)
        missing.append(task)
    work.remove(directory, removed)
    return missing


def _make_directory(directory: str) -> None:
    from apache_beam.io.filesystems import FileSystems

    if not FileSystems.exists(directory):
        try:
            FileSystems.mkdirs(directory)
        except OSError as error:
            if not FileSystems.exists(directory):  # else another process created it meanwhile
                raise BadInput(f"--blocks_dir={directory} cannot be created ({error}); name another place") from error


@contextlib.contextmanager
def _progress_bar(directory: str, tasks: Sequence[Task], title: str) -> Iterator[None]:
    """Show how many tasks have left a file, whoever computes them, until the block of code ends."""
    import tqdm

    expected = {task.file for task in tasks} | {task.file + work.FAILED for task in tasks}
    ended = threading.Event()
    with tqdm.tqdm(total=len(tasks), desc=printable(title), unit="block") as bar:

        def update() -> None:
            bar.update(max(0, len(expected & work.names_in(directory)) - bar.n))

        def watch() -> None:
            while not ended.wait(10.0 if is_remote(directory) else 1.0):
                update()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            update()
