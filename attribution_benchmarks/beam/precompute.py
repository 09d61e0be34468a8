"""Compute the missing scores of a command in blocks on Apache Beam; the command then reads them from its store.

The flags of commands whose work can be distributed over processes and machines are defined and checked here.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from attribution.cli import apply_settings
from attribution.errors import BadInput, print_line, printable
from attribution.files import cache_directory, check_directory, is_remote, remove_stale
from attribution.remote_files import origin, with_addresses
from attribution_benchmarks.beam import work
from attribution_benchmarks.beam.work import (
    Job,
    Task,
    Work,
    WorkFactory,
    digest_of,
    import_beam,
    join,
    names_in,
    plan_fingerprint,
    plan_tasks,
    remove,
    write,
)
from attribution_benchmarks.core.manifest import HOW_RUN

_LOCAL, _BEAM = "local", "beam"
_PRECOMPUTED = ("precomputed_maps", "from_maps", "server")  # flags of commands that load no model


def define_precompute_flags(flag_values: flags.FlagValues) -> None:
    """Define ``--runner`` and its options for a command that computes scores."""
    define_beam_flags(
        flag_values, "scores",
        "inputs per block with --runner=beam, a multiple of --batch_size; eight batches if 0",
        "below --scores_dir or the cache",
    )  # fmt: skip
    flags.DEFINE_integer(
        "allow_failures", 0, "number of blocks that may fail; their inputs are dropped from the tables",
        lower_bound=0, flag_values=flag_values,
    )  # fmt: skip


def define_beam_flags(
    flag_values: flags.FlagValues,
    what: str = "files",
    block_size: str = "files per block with --runner=beam; 64 if 0",
    blocks_dir: str = "in the cache",
) -> None:
    """Define ``--runner`` and its options.

    ``what`` are the results of the command, which do not depend on the runner; ``block_size`` is the help of this flag,
    and ``blocks_dir`` says where blocks are by default.
    """
    flags.DEFINE_enum(
        "runner", _LOCAL, [_LOCAL, _BEAM],
        "processes of this machine, or Apache Beam: in --workers processes here, or on the runner that the options "
        f"after -- name, as in -- --runner=FlinkRunner; the {what} are the same bytes (docs/scale.md)",
        flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_integer(
        "workers", 1, "processes on this machine with --runner=beam", lower_bound=1, flag_values=flag_values
    )
    flags.DEFINE_integer("block_size", 0, block_size, lower_bound=0, flag_values=flag_values)
    flags.DEFINE_string(
        "blocks_dir", "",
        "directory of the blocks' results, which all workers must reach: a path, or gs://, s3://, hdfs://; "
        f"{blocks_dir} if empty", flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_multi_string("runner_options", [], "options of Beam, written after --", flag_values=flag_values)


def check_precompute_flags(flag_values: flags.FlagValues) -> bool:
    """Check, before any work, that the flags fit together; return whether Beam computes.

    Raises ``BadInput`` if Beam's options are invalid or given without it, it is not installed, or the directory of
    blocks cannot be used.
    """
    if flag_values.runner == _BEAM:
        for name in _PRECOMPUTED:
            if name in flag_values and flag_values[name].value:
                raise BadInput(f"--{name} computes nothing with a local model; omit --runner=beam")
    return check_beam_flags(flag_values)


def check_beam_flags(flag_values: flags.FlagValues, processes_flag: str = "") -> bool:
    """Check the flags of ``define_beam_flags``, as ``check_precompute_flags``; return whether Beam computes.

    ``processes_flag`` is the command's flag for the number of processes with ``--runner=local``; empty if there is
    none.
    """
    if flag_values.runner == _LOCAL:
        for name in HOW_RUN:
            if name != "runner" and name in flag_values and flag_values[name].present:
                option = "options after --" if name == "runner_options" else f"--{name}"
                raise BadInput(f"{option}: only with --runner=beam; add that, or omit them")
        return False
    if processes_flag and flag_values[processes_flag].present:
        raise BadInput(f"--{processes_flag}: only with --runner=local; use --workers with --runner=beam")
    import_beam()  # with the line of an installation without it
    from attribution_benchmarks.beam import pipeline

    pipeline.pipeline_of(flag_values.runner_options)
    if not is_remote(flag_values.blocks_dir):
        check_directory("blocks_dir", flag_values.blocks_dir)
    return True


MANIFEST = "manifest.json"
_SUMMED = ("inputs", "passes", "retries", "halvings", "seconds", "cpu_seconds")


@dataclasses.dataclass(frozen=True)
class _CommandFactory:
    """A ``work.WorkFactory`` that creates the works of a command from its flags."""

    name: (
        str  # module with ``FLAGS`` and ``works(flag_values)``, which returns a function from a work's name to the work
    )
    arguments: tuple[str, ...]  # serialized flags of the command

    def __call__(self) -> Callable[[str], Work]:
        """Return the function from names to works."""
        module = importlib.import_module(self.name)
        flag_values = copy.deepcopy(module.FLAGS)
        flag_values.unparse_flags()
        flag_values([self.name, *self.arguments])
        apply_settings(flag_values)
        return module.works(flag_values)


@dataclasses.dataclass(frozen=True)
class Precompute:
    """Computes works in blocks on Beam."""

    factory: WorkFactory
    directory: str  # shards go into a subdirectory that is named by the plan's fingerprint
    workers: int = 1
    block_size: int = 0
    allow_failures: int = 0
    options: tuple[str, ...] = ()  # Beam's
    resumes: bool = True  # whether shards remain, so that another run does not compute them again

    def __call__(self, works: Sequence[Work]) -> dict[str, list]:
        """Plan, compute the blocks without a shard, and save all results to the works.

        Returns work's name -> items of its failed blocks; empty if none failed. Raises ``BadInput`` if more blocks
        failed than allowed, or a worker died. Shards remain, so that another run resumes.
        """
        fingerprint = plan_fingerprint(self.factory.name, works, self.block_size)
        directory = join(self.directory, fingerprint)
        tasks = list(plan_tasks(works, self.block_size))
        if not tasks:
            return {}
        if not self.resumes:
            remove(directory, sorted(names_in(directory)))
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
            allowed = f", and --allow_failures={self.allow_failures}" if self.resumes else ""
            raise BadInput(
                f"{len(failed)} of {len(tasks)} blocks failed{allowed}; computed results remain, and the same command "
                "tries these blocks again"
            )
        if not self.resumes:
            remove(directory, sorted(names_in(directory) - {MANIFEST}))
        dropped: dict[str, list] = {}
        for task, _ in failed:
            dropped.setdefault(task.work, []).extend(task.items)
        return dropped

    def _compute(self, directory: str, tasks: Sequence[Task], works: Sequence[Work]) -> None:
        """Write the plan and compute its blocks."""
        from attribution_benchmarks.beam import pipeline

        text = "".join(f"{task.to_line()}\n" for task in tasks)
        job = Job(self.factory, directory, join(directory, f"plan-{digest_of(text)[:24]}.jsonl"))
        _make_directory(directory)
        write(job.plan, text.encode())
        title = f"blocks of {works[0].name}" if len(works) == 1 else "blocks"
        with pipeline.provide_works(job, works), _progress_bar(directory, tasks, title):
            pipeline.run(job, len(tasks), self.workers, self.options)


def precompute_from_flags(flag_values: flags.FlagValues, module: str, scores_dir: str = "") -> Precompute:
    """Return what computes the blocks of a command, of some module, with ``--runner=beam``.

    Its flags are checked by ``check_precompute_flags``; ``scores_dir`` is its store of scores, empty for none.
    """
    directory = flag_values.blocks_dir
    if not directory:
        directory = join(origin(scores_dir), "blocks") if scores_dir else str(cache_directory("blocks"))
    return Precompute(
        _CommandFactory(module, _arguments_of(flag_values)), directory, flag_values.workers, flag_values.block_size,
        flag_values.allow_failures, tuple(flag_values.runner_options),
    )  # fmt: skip


def _arguments_of(flag_values: flags.FlagValues) -> tuple[str, ...]:
    """Return the serialized flags of a command, without aliases and without those that only say how it is run."""
    chosen = [flag_values[name] for name in flag_values if name not in HOW_RUN]
    return tuple(
        with_addresses(flag.serialize())
        for flag in chosen
        if flag.value not in (None, "") and not (flag.help or "").startswith("Alias for ")
    )


def _merge(directory: str, tasks: Sequence[Task], works: Sequence[Work]) -> list[tuple[Task, Mapping[str, Any]]]:
    """Save the results of all shards in order and write the manifest; return failed tasks with inputs and reason."""
    by_name = {work.name: work for work in works}
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
        "works": {work.name: {"key": work.key, "inputs": len(work.items)} for work in works},
    }
    write(join(directory, MANIFEST), (json.dumps(content, indent=1) + "\n").encode())
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
    existing = names_in(directory)
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
    remove(directory, removed)
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
            bar.update(max(0, len(expected & names_in(directory)) - bar.n))

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
