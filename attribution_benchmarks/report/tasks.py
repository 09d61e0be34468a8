"""Evaluate the tasks of a report in child processes, the quick ones first.

A task is one evaluation that writes one table. Scores are stored as they are computed, so that a killed run goes on
where it was: what it had finished is made again from the store. A method or a model of the user that does not fit is
refused by its first task, and left out from then on. The directory::

    tables/NAME.txt .md                 the table of a task
    tables/NAME.json .csv               its scores, of each input and in long form
    pictures/NAME/*.png                 its pictures
    work/scores/                        the store of all scores
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tqdm import tqdm

from attribution.errors import BadInput, print_line, print_text, printable
from attribution.files import check_file
from attribution.files import reason as reason_of
from attribution_benchmarks.beam.workers import available_cores
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.evaluation import Evaluation, evaluated, load, prepare
from attribution_benchmarks.core.progress import Progress, Step
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.report_examples import FILE
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.core.settings import RunSettings
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.report.formatting import shown_path
from attribution_benchmarks.report.processes import Answer, Processes, reason
from attribution_benchmarks.report.results import Result

_Found = TypeVar("_Found")
_TABLES = ("txt", "json", "csv", "md")  # suffixes
_MEMORY = 2 << 30  # bytes allowed for one task; the largest takes two thirds


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


@dataclasses.dataclass
class Refusals:
    """What a task refused: the user's model, and methods; each with the reason."""

    model: str = ""
    methods: dict[str, str] = dataclasses.field(default_factory=dict)


def evaluate(
    task: ReportTask,
    values: Mapping[str, Any],
    custom: Sequence[str],
    model: str,
    scores: str | None,
    new: pathlib.Path,
    progress: Progress,
) -> Refusals:
    """Evaluate a task in this process, and write its files into a directory; ``read`` reads them.

    Parameters
    ----------
    task
        Without settings.
    values
        Those of its settings, since a child could not import the class of a custom benchmark's settings.
    custom, model
        Methods that the user added, and a model in place of the benchmark's network, as far as they fit.
    scores
        Directory of the store; None for memory.
    new
        An empty directory.
    progress
        Called with each step.
    """
    benchmark = benchmark_named(task.place)
    settings, refused = benchmark.settings(**values), Refusals()
    with contextlib.closing(ScoreStore(scores)) as store:

        def outcome(settings: RunSettings, names: Sequence[str]) -> tuple[Evaluation, Scores]:
            run = prepare(
                benchmark, names, settings, metrics=task.metrics, store=store, progress=progress, place=task.place
            )
            evaluation = load(run)
            return evaluation, evaluated(evaluation)

        found = None
        if model:
            try:
                of_model = functools.partial(outcome, benchmark.with_model(settings, model))
                found, refused.methods = of_fitting(of_model, task.methods, custom)
            except (Exception, SystemExit) as error:
                refused.model = reason(error)
        if found is None:
            found, refused.methods = of_fitting(functools.partial(outcome, settings), task.methods, custom)
        evaluation, found_scores = found
        for suffix in _TABLES:
            found_scores.save(new / f"table.{suffix}")
        if task.pictures:
            evaluation.write_figures(found_scores, str(new / "pictures"), ("png",))
    return refused


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


def read(directory: pathlib.Path, task: ReportTask) -> Result:
    """Return what ``evaluate`` wrote of a task, from its place in the report's directory."""
    pictures = directory / "pictures" / task.name
    return Result(
        task,
        Scores.load(directory / "tables" / f"{task.name}.json"),
        sorted(pictures.glob("*.png")) if task.pictures else (),
        pictures / FILE if task.pictures and (pictures / FILE).exists() else None,
    )


class Tasks:
    """The tasks of a report.

    Parameters
    ----------
    directory
        Of the report.
    quick, full
        Those that run first, and those that the report ends with. A full one replaces the quick one of its name.
    custom, model
        Methods that the user added, and a model in place of the benchmarks' networks.

    Attributes
    ----------
    reasons
        (method, benchmark) -> why a method has no scores there.
    notes
        What does not fit, in sentences.
    fits
        Whether the model was scored in any task.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        quick: Sequence[ReportTask],
        full: Sequence[ReportTask],
        custom: Sequence[str] = (),
        model: str = "",
    ):
        self._directory, self._custom, self._model = directory, custom, model
        at_once = {(task.name, task.settings, task.methods, task.metrics) for task in quick}
        self._full = {task.name: task for task in full}
        same = [task for task in full if (task.name, task.settings, task.methods, task.metrics) in at_once]
        first = {task.name: task for task in (*quick, *same)}
        # The cheapest begin, so that there is something to see soon; then the longest, so that all end together.
        self._waiting = sorted(first.values(), key=lambda task: task.cost)
        self._waiting += sorted((task for task in full if task not in same), key=lambda task: -task.cost)
        self._results: dict[str, Result] = {}
        self._running: dict[str, _Running] = {}
        self._refused: dict[tuple[str, bool], Refusals] = {}  # benchmark, whether with the model
        self._unfit: dict[str, dict[str, None]] = {}  # why the model is refused -> titles of tasks
        self.reasons: dict[tuple[str, str], str] = {}
        self._notes: dict[str, None] = {}
        self.fits = False
        for name in ("tables", "pictures", "work"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    @property
    def results(self) -> list[Result]:
        """Return the last result of each task that has one, in the order of the tasks."""
        return [self._results[name] for name in self._full if name in self._results]

    @property
    def notes(self) -> list[str]:
        """Return a sentence for each model and method that does not fit."""
        model = shown_path(self._model)
        of_model = [
            f"{model} does not fit {' and '.join(titles)}, whose own network is scored instead: {why}"
            for why, titles in self._unfit.items()
        ]
        return [*of_model, *self._notes]

    def run(self, jobs: int, publish: Callable[[str, bool], object]) -> None:
        """Run all tasks; print the table of each as it is finished.

        Parameters
        ----------
        jobs
            Number of tasks at a time; 0 for as many as cores and memory allow.
        publish
            Called after each table but the last, and after an interrupt, with a sentence on what is still to come and
            whether the run goes on.
        """
        jobs, done = jobs or default_jobs(len(self._waiting)), 0
        bar = tqdm(total=len(self._waiting), unit="table", disable=not sys.stderr.isatty())
        with bar, Processes() as processes:

            def on_step(name: str, step: Step) -> None:
                bar.set_postfix_str(f"{name}: {step.title} {100 * step.done // max(1, step.total)} %")

            try:
                self._start(processes, jobs)
                while self._running:
                    finished = self._take(*processes.answer(on_step))
                    self._start(processes, jobs)  # what follows may take seconds
                    if finished:
                        done += 1
                        bar.update()
                        if self._running:
                            publish(f"{done} of {done + self._left} tables are there.", True)
            except KeyboardInterrupt:
                stopped = f"The run was stopped after {done} of {done + self._left} tables"
                publish(f"{stopped}; the same command goes on.", False)
                raise

    @property
    def _left(self) -> int:
        return len(self._waiting) + len(self._running)

    def _start(self, processes: Processes, jobs: int) -> None:
        """Start waiting tasks; none while another one of its name runs."""
        for task in list(self._waiting):
            if len(processes.running) < jobs and task.name not in processes.running:
                self._waiting.remove(task)
                tqdm.write(printable(task.title), file=sys.stderr)
                processes.start(task.name, self._call(task))

    def _call(self, task: ReportTask) -> Callable[[Progress], Refusals]:
        """Return the call of ``evaluate`` with what the user added, as far as it is not refused."""
        own = self._refusals(task, False)
        of_model = self._refusals(task, True)
        model = self._model if task.own_model and not of_model.model else ""
        left_out = of_model.methods if model else own.methods
        custom = [one for one in self._custom if one not in (*left_out, *task.methods)] if task.methods else []
        task = task.with_methods([name for name in task.methods if name not in left_out])
        self._running[task.name] = _Running(task, custom, model)
        new = self._directory / "work" / f"{task.name}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        scores = str(self._directory / "work" / "scores") if task.scores else None
        sent = dataclasses.replace(task, settings=RunSettings(), networks=())
        return functools.partial(evaluate, sent, vars(task.settings), custom, model, scores, new)

    def _refusals(self, task: ReportTask, with_model: bool) -> Refusals:
        return self._refused.setdefault((task.benchmark, with_model), Refusals())

    def _take(self, name: str, answer: Answer) -> bool:
        """Take the files of a task, and print its table; return False if it runs again without what the user added."""
        running = self._running.pop(name)
        task, refused = running.task, answer.value or Refusals()
        if answer.killed and (running.custom or running.model):
            crashed = dict.fromkeys(running.custom, f"crashed: {answer.failed}")
            self._refuse(running, Refusals(running.model and answer.failed, crashed))
            self._waiting.insert(0, running.task)
            return False
        self._refuse(running, refused)
        if answer.failed:
            result = Result(task, failed=answer.failed)
            self._waiting = [one for one in self._waiting if one.name != name]
        else:
            if running.model and not refused.model:
                self.fits = True
                note = f"{task.note} The network is your own, {shown_path(self._model)}."
                task = dataclasses.replace(task, note=note)
            self._move(task)
            result = read(self._directory, task)
        if not task.network:
            with tqdm.external_write_mode():  # takes the bar away meanwhile
                print_text(f"{task.title}\n{task.note}\n\n{result.scores.text or result.failed}\n\n", flush=True)
        self._results[name] = result
        return True

    def _refuse(self, running: _Running, refused: Refusals) -> None:
        """Remember what a task refused, say it, and note it for the page."""
        task, before = running.task, self.notes
        if refused.model:
            self._refusals(task, True).model = refused.model
            self._unfit.setdefault(refused.model, {})[task.title] = None
        self._refusals(task, bool(running.model and not refused.model)).methods.update(refused.methods)
        for name, why in refused.methods.items():
            self.reasons[name, task.benchmark] = why
            self._notes[f"{shown_path(name)} under {task.title} {why}"] = None
        for note in self.notes:
            if note not in before:
                print_line(note, file=sys.stderr, flush=True)

    def _move(self, task: ReportTask) -> None:
        """Put the files of a task in place of those there are; here, so that a page shows the files of one state."""
        new = self._directory / "work" / f"{task.name}.new"
        for suffix in _TABLES:
            os.replace(new / f"table.{suffix}", self._directory / "tables" / f"{task.name}.{suffix}")
        if task.pictures:
            shutil.rmtree(self._directory / "pictures" / task.name, ignore_errors=True)
            os.replace(new / "pictures", self._directory / "pictures" / task.name)
        shutil.rmtree(new)


class _Running(NamedTuple):
    """A task with what the user added to it."""

    task: ReportTask
    custom: Sequence[str]
    model: str


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
