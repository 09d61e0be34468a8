"""Evaluate the tasks of a report in child processes that share one import of TensorFlow.

A task is one evaluation on one network. Scores are stored as they are computed, so that a run that was stopped resumes.
On Linux, the fork server of ``multiprocessing`` imports TensorFlow once; elsewhere each process does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any, TypeVar

from tqdm import tqdm

from attribution.errors import BadInput
from attribution.files import check_file
from attribution.files import reason as reason_of
from attribution.savedmodel import op_allowlist
from attribution.tensorflow_log import list_devices
from attribution_benchmarks.beam.workers import available_cores
from attribution_benchmarks.core import fingerprint, manifest
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.evaluation import evaluated, load, prepare
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.core.settings import RunSettings
from attribution_benchmarks.core.store import ScoreStore

_Found = TypeVar("_Found")
_MEMORY = 2 << 30  # bytes allowed for one process; the largest takes two thirds
# One thread per process: several run side by side, and sums are bitwise equal whatever the number of cores.
THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Without the first, a process would reserve all memory of a GPU. The parent shows the progress.
_ENVIRONMENT = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "TQDM_DISABLE": "1", **dict.fromkeys(THREADS, "1")}
_CONTEXT: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
_CONTEXT.set_forkserver_preload(["attribution_benchmarks.report.preload"])
_CHILD = contextlib.ExitStack()  # what holds in a child process for all of its tasks
KILLED = (
    "the system ended its process, perhaps for lack of memory or because of a custom method; fewer --jobs need less, "
    "and the same command resumes"
)


@contextlib.contextmanager
def only_run(directory: pathlib.Path) -> Iterator[None]:
    """Lock a directory.

    Raises
    ------
    BadInput
        If another run uses it.
    """
    lock = directory / "work" / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    check_file("output_dir", lock)
    with open(lock, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"another run uses {directory}; wait for it, or choose another --output_dir") from None
        except OSError as error:
            raise BadInput(f"cannot lock {lock.parent} ({reason_of(error)}); choose another --output_dir") from error
        yield


@dataclasses.dataclass(frozen=True)
class Answer:
    """The scores of a task, and why the user's model or methods are not among them; or why it ``failed``."""

    scores: Scores = dataclasses.field(default_factory=Scores)
    model: str = ""
    methods: Mapping[str, str] = dataclasses.field(default_factory=dict)
    failed: str = ""


def run(
    tasks: Sequence[ReportTask], custom: Sequence[str], model: str, directory: pathlib.Path, jobs: int
) -> Iterator[tuple[ReportTask, Answer]]:
    """Evaluate tasks, ``jobs`` at a time, and yield each with its answer as soon as it is there.

    Parameters
    ----------
    tasks
        With the methods to score; the longest begin.
    custom, model
        Methods that the user added, and a model in place of the benchmarks' networks, as far as they fit.
    directory
        Of the report; scores are written into it.
    jobs
        0 for as many as cores and memory allow.
    """
    if not tasks:
        return
    jobs = jobs or default_jobs(len(tasks))
    with _environment(), futures.ProcessPoolExecutor(jobs, _CONTEXT, _begin, (op_allowlist.is_trusted(),)) as pool:
        running = {
            pool.submit(
                evaluate, dataclasses.replace(task, settings=RunSettings(), networks=()), vars(task.settings),
                [name for name in custom if name not in task.methods], model if task.own_model else "", directory,
            ): task
            for task in sorted(tasks, key=lambda one: -one.cost)
        }  # fmt: skip
        try:
            finished = futures.as_completed(running)
            for one in tqdm(finished, total=len(running), unit="task", disable=not sys.stderr.isatty()):
                try:
                    yield running[one], one.result()
                except futures.process.BrokenProcessPool:
                    yield running[one], Answer(failed=KILLED)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.kill()
            raise


def _begin(is_trusted: bool) -> None:
    """Prepare a child process: it ends with its parent, and what is printed goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, too, and ends it
    parent = multiprocessing.parent_process()
    if parent is None or not parent.is_alive():
        os._exit(1)
    threading.Thread(target=lambda: (parent.join(), os.kill(os.getpid(), signal.SIGKILL)), daemon=True).start()
    # The platform's default, as in any other process. With the fork server's, locks of a killed child leak.
    multiprocessing.set_start_method(None, force=True)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    fingerprint.STARTED = time.time()  # the fork server has loaded no custom code
    if "tensorflow" in sys.modules:
        list_devices()
    _CHILD.enter_context(op_allowlist.trusted(is_trusted))


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Set the environment variables with which children start."""
    missing = {name: value for name, value in _ENVIRONMENT.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def evaluate(
    task: ReportTask, values: Mapping[str, Any], custom: Sequence[str], model: str, directory: pathlib.Path
) -> Answer:
    """Evaluate a task in this process; ``values`` are those of its settings, whose class may be of a custom file."""
    try:
        manifest.UNIDENTIFIED.clear()
        return _evaluated(task, values, custom, model, directory)
    except (Exception, SystemExit) as error:
        return Answer(failed=reason(error))


def _evaluated(
    task: ReportTask, values: Mapping[str, Any], custom: Sequence[str], model: str, directory: pathlib.Path
) -> Answer:
    benchmark = benchmark_named(task.place)
    settings, refused = benchmark.settings(**values), ""
    with contextlib.closing(ScoreStore(str(directory / "work" / "scores") if task.scores else None)) as store:

        def outcome(settings: RunSettings, names: Sequence[str]) -> Scores:
            return evaluated(
                load(prepare(benchmark, names, settings, metrics=task.metrics, store=store, place=task.place))
            )

        found = None
        if model:
            try:
                of_model = functools.partial(outcome, benchmark.with_model(settings, model))
                found, left_out = of_fitting(of_model, task.methods, custom)
            except (Exception, SystemExit) as error:
                refused = reason(error)
        try:
            if found is None:
                found, left_out = of_fitting(functools.partial(outcome, settings), task.methods, custom)
        except (Exception, SystemExit) as error:
            if task.methods or not custom:
                raise
            return Answer(methods=dict.fromkeys(custom, f"does not fit: {reason(error)}"))
    return Answer(found, refused, left_out)


def of_fitting(
    outcome: Callable[[Sequence[str]], _Found], methods: Sequence[str], custom: Sequence[str]
) -> tuple[_Found, dict[str, str]]:
    """Return the outcome of the methods that fit, and method -> why it does not.

    If the evaluation of all refuses no method by name, each custom one is tried alone.
    """
    refused: dict[str, str] = {}
    while True:
        try:
            return outcome([name for name in (*methods, *custom) if name not in refused]), refused
        except (Exception, SystemExit) as error:
            named = {name: f"does not fit: {why}" for name, why in getattr(error, "refused", {}).items()}
            named = named or _alone(outcome, [name for name in custom if name not in refused])
            refused |= named
            if not named or {*methods, *custom} <= {*refused}:
                raise


def _alone(outcome: Callable[[Sequence[str]], Any], names: Sequence[str]) -> dict[str, str]:
    """Evaluate methods one by one; return method -> why it fails."""
    failed = {}
    for name in names:
        try:
            outcome([name])
        except (Exception, SystemExit) as error:
            failed[name] = f"{'does not fit' if isinstance(error, BadInput) else 'crashed'}: {reason(error)}"
    return failed


def reason(error: BaseException) -> str:
    """Return in one line why a function failed; an unexpected error's traceback goes to standard error."""
    if isinstance(error, BadInput):
        return " ".join(str(error).split())
    if isinstance(error, SystemExit):
        return f"a method called sys.exit({error.code!r}); it must return its maps"
    traceback.print_exception(error)
    return " ".join(f"{type(error).__name__}: {error}".split())


def default_jobs(tasks: int) -> int:
    """Return how many of some tasks can run at a time, given the cores and the available memory; at least 1."""
    cores, free = available_cores(), available_memory()
    return max(1, min(cores, tasks, cores if free is None else free // _MEMORY))


def available_memory() -> int | None:
    """Return the bytes that new processes can use without swapping; None where the system does not report it."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    with contextlib.suppress(OSError, ValueError):  # the limit of a container; "max" if it has none
        group = pathlib.Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return max(0, min(found)) if found else None
