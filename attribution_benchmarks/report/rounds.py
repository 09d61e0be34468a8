"""Run the tasks of a report in rounds of more and more inputs, with the user's methods and model as far as they fit.

A round reuses every score of the round before. A stopped run goes on in the round where it was, and ends with the bytes
of a run that was not stopped.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import itertools
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any, TypeVar

from tqdm import tqdm

from attribution.errors import print_line, print_text, printable
from attribution_benchmarks.beam.workers import available_cores
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.progress import Bars
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.report_examples import FILE
from attribution_benchmarks.report.formatting import shown_path
from attribution_benchmarks.report.processes import Event, Failed
from attribution_benchmarks.report.results import Result
from attribution_benchmarks.report.task_runner import TaskRunner


@dataclasses.dataclass
class Outcome:
    """What a task gave.

    Attributes
    ----------
    task
        As it was run.
    result
        For the page; without a table until the files of the task are taken.
    notes
        What did not fit, in sentences.
    reasons
        (method, benchmark) -> why a method has no scores there.
    model_refused
        Start and end of a sentence that says why the user's model is not scored; the task's title goes between.
    state
        "done", "is there already" or "failed".
    last
        Whether it is of the last round.
    """

    task: ReportTask
    result: Result
    notes: list[str] = dataclasses.field(default_factory=list)
    reasons: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    model_refused: tuple[str, str] | None = None
    state: str = "done"
    last: bool = False


class Rounds:
    """The tasks of a report, each a chain of evaluations with more and more inputs.

    Parameters
    ----------
    runner
        Evaluates them.
    rounds
        For each round, the same tasks in the same order.
    methods, model
        Those that the user added: names, and a directory or nothing.
    """

    def __init__(self, runner: TaskRunner, rounds: Sequence[Sequence[ReportTask]], methods: Sequence[str], model: str):
        self._runner, self._methods, self._model = runner, methods, model
        self._rounds = len(rounds)
        # A task with the same settings in all rounds runs in the first, on a further network in the last.
        distinct = [list({task.settings: task for task in tasks}.values()) for tasks in zip(*rounds, strict=True)]
        self._finished: list[tuple[int, ReportTask]] = []  # the last of each task that is
        self._last = [tasks[-1] for tasks in distinct]
        self._chains = [self._chain(place, tasks) for place, tasks in enumerate(distinct)]
        self._outcomes: dict[int, Outcome] = {}

    @property
    def outcomes(self) -> list[Outcome]:
        """Return the last outcome of each task that has one, in the order of the tasks."""
        return [self._outcomes[place] for place in sorted(self._outcomes)]

    def run(self, jobs: int, publish: Callable[[str, bool], Any]) -> None:
        """Run all tasks; print the first and the last table of each as it is finished.

        ``jobs`` of them run at a time; 0 for as many as cores and memory allow.

        Parameters
        ----------
        publish
            Called at the start of a resumed run, after each table but the last, and after an interrupt, with a
            sentence on what is still to come and whether the run goes on.
        """
        jobs = jobs or default_jobs(len(self._chains))
        costs = {task: cost for chain in self._chains for _, cost, (_, task) in chain}
        costs |= {task: 0.0 for _, task in self._finished}
        with contextlib.closing(Progress(list(costs.values()), jobs)) as progress:
            self._runner.on_event = progress.on_event

            def work(item: tuple[int, ReportTask]) -> Outcome:
                place, task = item
                progress.start(task.name, task.title, costs[task])
                outcome = self._run(place, task)
                progress.finish(task.name, task.title, outcome.state)
                return outcome

            finished = 0
            try:
                for place, task in self._finished:
                    self._take(place, work((place, task)))
                    finished += 1
                running = run_chains(work, self._chains, jobs, self._runner.processes.close)
                with contextlib.closing(running):
                    while finished < len(costs):
                        publish(f"{finished} of {len(costs)} tables are there, {progress.to_go()}.", True)
                        self._take(*next(running))
                        finished += 1
            except KeyboardInterrupt:
                stopped = f"The run was stopped after {finished} of {len(costs)} tables"
                publish(f"{stopped}; the same command goes on.", False)
                raise

    def _chain(self, place: int, tasks: Sequence[ReportTask]) -> list[tuple[int, float, tuple[int, ReportTask]]]:
        """Return the tasks after the last finished one, each with its round and its cost after the one before."""
        done = [number for number, task in enumerate(tasks) if self._runner.is_done(self._fitting(task, tasks[0]))]
        self._finished += [(place, tasks[number]) for number in done[-1:]]
        before = [0.0, *(task.cost for task in tasks)]
        return [
            (
                self._rounds - 1 if tasks[number].network else number,
                tasks[number].cost - before[number],
                (place, tasks[number]),
            )
            for number in range(done[-1] + 1 if done else 0, len(tasks))
        ]

    def _fitting(self, task: ReportTask, first: ReportTask) -> ReportTask:
        """Return a task with those of the user's methods and model that the first of its chain did not refuse."""
        known = self._runner.known_refusal
        new = [name for name in self._new_methods(task) if not known(first, [name])]
        task = task.with_methods([*task.methods, *new])
        of_model = self._with_model(first) if self._model and task.own_model else None
        if of_model is None or known(of_model, ()):
            return task
        return self._with_model(task.with_methods([name for name in task.methods if not known(of_model, [name])]))

    def _with_model(self, task: ReportTask) -> ReportTask:
        """Return a task with the user's model."""
        changed = benchmark_named(task.place).with_model(task.settings, self._model)
        return dataclasses.replace(task, settings=changed)

    def _new_methods(self, task: ReportTask) -> list[str]:
        return [name for name in self._methods if name not in task.methods] if task.methods else []

    def _run(self, place: int, task: ReportTask) -> Outcome:
        """Run a task with the methods and the model that the user added, as far as they fit."""
        outcome = Outcome(task, Result(task.name, task.benchmark, task.title, task.note, None))
        outcome.last = task is self._last[place]
        before = self._outcomes.get(place, outcome)
        if before.result.failed:
            return before
        outcome.notes, outcome.reasons = before.notes, before.reasons
        new = [name for name in self._new_methods(task) if (name, task.benchmark) not in outcome.reasons]
        if not self._model and self._run_together(outcome, task, new):
            return outcome
        wanted = task.with_methods([*task.methods, *self._attempt(outcome, task, new)])
        if not (self._model and task.own_model and self._run_model(outcome, task, wanted)):
            try:
                self._compute(outcome, wanted)
            except Failed as error:
                outcome.state, outcome.result = "failed", dataclasses.replace(outcome.result, failed=str(error))
        return outcome

    def _run_together(self, outcome: Outcome, task: ReportTask, new: Sequence[str]) -> bool:
        """Run a task with all new methods in one process, which loads and checks everything once.

        Return False if a method does not fit, or if there is none.
        """
        fitting = [name for name in new if not self._runner.known_refusal(task, [name])]
        try:
            if fitting:
                self._compute(outcome, task.with_methods([*task.methods, *fitting]))
                self._attempt(outcome, task, [name for name in new if name not in fitting])
        except Failed:
            return False
        return bool(fitting)

    def _run_model(self, outcome: Outcome, task: ReportTask, wanted: ReportTask) -> bool:
        """Run a task with the user's model; return whether it fits."""
        model = shown_path(self._model)
        wanted = wanted.with_methods(self._explaining_model(outcome, task, wanted.methods))
        try:
            self._compute(outcome, self._with_model(wanted))
        except Failed as error:
            if error.methods and {*wanted.methods} - {*error.methods}:
                for name, reason in error.methods.items():
                    refused = f"does not fit {model}: {reason}"
                    self._runner.remember_refusal(self._with_model(task), [name], refused)
                return self._run_model(outcome, task, wanted)
            why = "crashed under" if error.crashed else "does not fit"
            outcome.model_refused = f"{model} {why}", f"whose own network is scored instead: {error}"
            print_line(f"{model} {why} {task.title}, {outcome.model_refused[1]}", file=sys.stderr, flush=True)
            self._runner.remember_refusal(self._with_model(task), (), str(error))
            return False
        outcome.result = dataclasses.replace(outcome.result, note=f"{task.note} The network is your own, {model}.")
        return True

    def _explaining_model(self, outcome: Outcome, task: ReportTask, names: Sequence[str]) -> list[str]:
        """Return the methods that are not known to refuse the user's model; record why others do."""
        for name in names:
            reason = self._runner.known_refusal(self._with_model(task), [name])
            if reason and (name, task.benchmark) not in outcome.reasons:
                self._refuse(outcome, task, name, reason)
        return [name for name in names if (name, task.benchmark) not in outcome.reasons]

    def _attempt(self, outcome: Outcome, task: ReportTask, names: Sequence[str]) -> list[str]:
        """Try methods one by one, record why some do not fit, and return those that do."""
        accepted = []
        for name in names:
            refused = self._runner.attempt(task, [name])
            if refused is None:
                accepted.append(name)
            else:
                self._refuse(outcome, task, name, refused)
        return accepted

    def _refuse(self, outcome: Outcome, task: ReportTask, name: str, reason: str) -> None:
        """Record why a method has no scores in a task."""
        outcome.reasons[name, task.benchmark] = reason
        outcome.notes.append(f"{shown_path(name)} under {task.title} {reason}")

    def _compute(self, outcome: Outcome, wanted: ReportTask) -> None:
        outcome.task, outcome.state = wanted, "done" if self._runner.compute(wanted) else "is there already"

    def _take(self, place: int, outcome: Outcome) -> None:
        """Take a task's files, read what the page shows of it, and print its first and its last table.

        One thread takes them and publishes, so that a page shows the files of one state.
        """
        task, result = outcome.task, outcome.result
        if not result.failed:
            if outcome.state == "done":
                self._runner.take(task)
            pictures = self._runner.pictures(task)
            examples = pictures / FILE
            result = outcome.result = dataclasses.replace(
                result,
                document=self._runner.document(task),
                printed=self._runner.printed(task),
                pictures=sorted(pictures.glob("*.png")) if task.pictures else (),
                examples=examples if task.pictures and examples.exists() else None,
            )
        if not task.network and (place not in self._outcomes or outcome.last):
            text = result.printed or result.failed
            print_text(f"{result.title}\n{result.note}\n\n{text}\n\n", flush=True)
        self._outcomes[place] = outcome


_MEMORY = 2 << 30  # bytes allowed for one task; the largest takes two thirds
Task = TypeVar("Task")


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


def run_chains(
    work: Callable[[Task], Any],
    chains: Sequence[Sequence[tuple[int, float, Task]]],
    jobs: int,
    stop: Callable[[], None],
) -> Generator[tuple[int, Any], None, None]:
    """Yield (place of its chain, ``work(task)``) of every task as it finishes; run ``jobs`` at a time.

    The tasks of a chain run one after another. Of those that can run, a lower round goes first. In round 0 the cheapest
    begin, so that there is something to see soon; in later ones the longest, so that all end at about the same time.

    Parameters
    ----------
    work
        Called in threads. An exception is raised here as soon as it occurs.
    chains
        For each chain its tasks in order: (round, relative duration, task).
    jobs
        Number of threads.
    stop
        Called after an exception or an interrupt; must make the running calls of ``work`` return.
    """
    left = {place: list(chain) for place, chain in enumerate(chains) if chain}
    running: dict[concurrent.futures.Future, int] = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:

        def fill(held: Collection[int] = ()) -> None:
            """Start tasks; none of a chain whose last result was not taken yet."""
            free = [place for place in left if left[place] and place not in (*running.values(), *held)]
            free.sort(key=lambda place: (left[place][0][0], left[place][0][1] * (-1 if left[place][0][0] else 1)))
            for place in free[: jobs - len(running)]:
                running[pool.submit(work, left[place].pop(0)[2])] = place

        try:
            fill()
            while running:
                finished = concurrent.futures.wait(running, return_when="FIRST_COMPLETED").done
                results = {running.pop(future): future.result() for future in finished}
                fill(results)  # what follows the yield may take seconds
                yield from results.items()
                fill()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


class Progress:
    """Print to standard error which tasks start and finish, and the time to go; threads may call it.

    A single job shows a bar. With several jobs, the name of the task precedes each line that it prints, and on a
    terminal one status line has them all: ``first 40 %, second 85 %, 12 minutes to go``. ``costs`` are rough CPU
    seconds of each task, ``jobs`` the number of tasks that run at a time.
    """

    def __init__(self, costs: Sequence[float], jobs: int):
        self._tasks, self._jobs, self._cost, self._done = len(costs), jobs, sum(costs), 0.0
        self._begun, self._numbers = time.monotonic(), itertools.count(1)
        self._lock = threading.RLock()
        self._started: dict[str, tuple[float, float]] = {}  # name -> when, cost
        self._percent: dict[str, int] = {}
        self._bars = Bars()
        hidden = jobs == 1 or not sys.stderr.isatty()
        self._status = tqdm(
            bar_format="{desc}", leave=False, disable=hidden, mininterval=0.2, miniters=0, dynamic_ncols=True
        )

    def start(self, name: str, title: str, cost: float) -> None:
        """Report that a task starts."""
        with self._lock:
            self._started[name] = time.monotonic(), cost
            self._write(f"[{next(self._numbers)}/{self._tasks}] {title}")

    def finish(self, name: str, title: str, outcome: str) -> None:
        """Report how a task finished: "done", "is there already" or "failed"."""
        with self._lock:
            when, cost = self._started.pop(name)
            self._done += cost
            self._percent.pop(name, None)
            self._bars.close()
            if self._jobs > 1:
                self._write(f"  {title} {outcome} after {time.monotonic() - when:.0f} s, {self.to_go()}")
            elif outcome != "done":
                self._write(f"  {outcome}")

    def to_go(self) -> str:
        """Return in words how long all tasks still take."""
        now = time.monotonic()
        with self._lock:
            done = self._done + sum(min(cost, now - when) for when, cost in self._started.values())
        speed = (done + 60 * self._jobs) / (now - self._begun + 60)  # in the first minute, as the costs say
        seconds = max(0.0, self._cost - done) / speed
        return f"{seconds:.0f} s to go" if seconds < 100 else f"{seconds / 60:.0f} minutes to go"

    def on_event(self, name: str, event: Event) -> None:
        """Take a step of a task, or a line that it prints."""
        with self._lock:
            if isinstance(event, str):
                self._write(f"{name}: {event}" if self._jobs > 1 else event)
            elif self._jobs == 1:
                self._bars(event)
            else:
                self._percent[name] = 100 * event.done // max(1, event.total)
            running = [f"{one} {self._percent[one]} %" if one in self._percent else one for one in self._started]
            self._status.set_description_str(", ".join([*running, self.to_go()]), refresh=False)
            self._status.update(0)

    def close(self) -> None:
        """Remove the status line, and end the bar."""
        self._bars.close()
        self._status.close()

    def _write(self, line: str) -> None:
        self._status.write(printable(line), file=sys.stderr)
