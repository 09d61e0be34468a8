"""Compute what a command lacks by Beam, before the command goes its own way and finds all numbers in its store."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from attribution.errors import BadInput, print_line
from attribution.file_io.files import remove_stale
from attribution.file_io.paths import cache_directory
from attribution.file_io.remote_files import origin
from attribution_benchmarks.beam import shards
from attribution_benchmarks.beam.file_systems import is_elsewhere, join, put, remove, there
from attribution_benchmarks.beam.flags import arguments_of, check_scale_flags
from attribution_benchmarks.beam.plan import fingerprint, tasks_of
from attribution_benchmarks.beam.progress import watched
from attribution_benchmarks.beam.shards import Damaged
from attribution_benchmarks.beam.work import Job, Maker, Task, Work, digest_of
from attribution_benchmarks.beam.worker_factory import Door

MANIFEST = "manifest.json"
_COUNTED = ("inputs", "passes", "retries", "halvings", "seconds", "cpu_seconds")
Launch = Callable[[str, Job, int, Sequence[str]], None]


@dataclasses.dataclass(frozen=True)
class Ahead:
    """What computes a command's blocks.

    Attributes
    ----------
    maker
        Of the works, for workers.
    directory
        Where block files go, in a folder named by the plan's fingerprint.
    workers, block_size, allow_failures, options
        Of the run; ``options`` are Beam's.
    resumes
        Whether block files are kept, so that another run need not compute them; else they only carry results.
    """

    maker: Maker
    directory: str
    workers: int = 1
    block_size: int = 0
    allow_failures: int = 0
    options: tuple[str, ...] = ()
    resumes: bool = True

    def __call__(self, works: Sequence[Work], launched: Launch | None = None) -> dict[str, list]:
        """Plan, compute what has no whole file, and keep all results in the works' own stores.

        Parameters
        ----------
        works
            Of the command.
        launched
            Runs the pipeline; ``launch.launch`` where None.

        Returns
        -------
        dict
            Work's name -> those of its items whose block failed; empty where all is there.

        Raises
        ------
        BadInput
            If more blocks failed than may, or a worker died. What is computed is kept, and another run goes on.
        """
        folder = fingerprint(self.maker.name, works, self.block_size)
        job = Job(self.maker, join(self.directory, folder))
        tasks = list(tasks_of(works, self.block_size))
        if not tasks:
            return {}
        from attribution_benchmarks.beam import pipeline

        if not self.resumes:
            remove(job.directory, sorted(there(job.directory)))
        open_tasks = _without_whole_files(job.directory, tasks)
        if open_tasks:
            text = "".join(f"{task.to_line()}\n" for task in open_tasks)
            plan = join(job.directory, f"plan-{digest_of(text)[:24]}.jsonl")
            _make_directory(job.directory)
            put(plan, text.encode())
            pipeline.at_hand(job, works)
            try:
                shown = f"blocks of {works[0].name}" if len(works) == 1 else "blocks"
                with watched(job.directory, open_tasks, shown):
                    (launched or _launch())(plan, job, self.workers, self.options)
            finally:
                pipeline.forget(job)
        failed = merge(job.directory, tasks, works)
        for task, told in failed:
            inputs = told["inputs"]
            print_line(
                f"block {task.place} of {task.work} failed: inputs {inputs[0]!s:.60} to {inputs[-1]!s:.60} "
                f"({len(inputs)}): "
                f"{told['reason']}",
                file=sys.stderr,
            )
        if len(failed) > self.allow_failures:
            allowed = f", and --allow_failures={self.allow_failures}" if self.resumes else ""
            raise BadInput(
                f"{len(failed)} of {len(tasks)} blocks failed{allowed}; what is computed is kept, and the same command "
                "tries these again"
            )
        if not self.resumes:
            remove(job.directory, sorted(there(job.directory) - {MANIFEST}))
        left_out: dict[str, list] = {}
        for task, _ in failed:
            left_out.setdefault(task.work, []).extend(task.items)
        return left_out


def asked_ahead(flag_values: flags.FlagValues, door: str, scores_dir: str = "") -> Ahead | None:
    """Return what computes a command's blocks by its flags; None where the command's own process does.

    Parameters
    ----------
    flag_values
        Of the command.
    door
        Its module.
    scores_dir
        Where it keeps scores; empty for nowhere.

    Raises
    ------
    BadInput
        As ``flags.check_scale_flags``.
    """
    if not check_scale_flags(flag_values):
        return None
    from attribution_benchmarks.beam.launch import pipeline_of

    pipeline_of(flag_values.workers, flag_values.runner_options)  # refuses options that are none
    directory = flag_values.blocks_dir
    if not directory:
        directory = join(origin(scores_dir), "blocks") if scores_dir else str(cache_directory("blocks"))
    return Ahead(
        Door(door, arguments_of(flag_values)), directory, flag_values.workers, flag_values.block_size,
        flag_values.allow_failures, tuple(flag_values.runner_options),
    )  # fmt: skip


def merge(directory: str, tasks: Sequence[Task], works: Sequence[Work]) -> list[tuple[Task, Mapping[str, Any]]]:
    """Keep the results of all blocks, in their order, and write the manifest; return those that failed, and why."""
    named = {work.name: work for work in works}
    failed: list[tuple[Task, Mapping[str, Any]]] = []
    counted, devices = dict.fromkeys(_COUNTED, 0.0), {}
    for task in tasks:
        try:
            block = shards.read_block(directory, task)
        except Damaged as error:
            raise BadInput(f"block {task.place} in {directory} is damaged ({error}); run the command again") from error
        if block is None:
            told = shards.read_failure(directory, task) or {"reason": "no file was left", "inputs": task.items}
            failed.append((task, told))
            continue
        named[task.work].keep(block.results)
        for name in _COUNTED:
            counted[name] += block.told[name]
        devices[block.told["device"]] = devices.get(block.told["device"], 0) + 1
    content = {
        "blocks": len(tasks),
        "failed": len(failed),
        "devices": devices,
        **{name: round(number, 3) if "seconds" in name else int(number) for name, number in counted.items()},
        "works": {work.name: {"key": work.key, "inputs": len(work.items)} for work in works},
    }
    put(join(directory, MANIFEST), (json.dumps(content, indent=1) + "\n").encode())
    if len(devices) > 1:
        print_line(f"blocks come from several kinds of device, whose last digits differ: {devices}", file=sys.stderr)
    if counted["halvings"]:
        print_line(
            "batches were halved for lack of memory; last digits may differ from those of whole ones", file=sys.stderr
        )
    return failed


def _without_whole_files(directory: str, tasks: Sequence[Task]) -> list[Task]:
    """Return the blocks that have no whole file; files that are none, and those of failures, are removed."""
    if not is_elsewhere(directory):
        remove_stale(directory)  # of what killed processes have left unfinished
    found = there(directory)
    left, gone = [], []
    for task in tasks:
        if task.file + shards.FAILED in found:
            gone.append(task.file + shards.FAILED)
        if task.file in found:
            try:
                shards.read_block(directory, task)
                continue
            except Damaged as error:
                print_line(
                    f"block {task.place} of {task.work} is damaged ({error}) and computed again", file=sys.stderr
                )
                gone.append(task.file)
        left.append(task)
    remove(directory, gone)
    return left


def _make_directory(directory: str) -> None:
    from apache_beam.io.filesystems import FileSystems

    if not FileSystems.exists(directory):
        try:
            FileSystems.mkdirs(directory)
        except OSError as error:
            if not FileSystems.exists(directory):  # else another process was first
                raise BadInput(f"--blocks_dir={directory} cannot be made ({error}); name another place") from error


def _launch() -> Launch:
    from attribution_benchmarks.beam.launch import launch

    return launch
