"""Run the tasks of a report in rounds of more and more inputs, with the user's methods and model as far as they fit.

A round reuses every score of the round before. A stopped run goes on in the round where it was, and ends with the bytes
of a run that was not stopped.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from attribution.errors import print_text
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.report_examples import FILE
from attribution_benchmarks.report import scheduler
from attribution_benchmarks.report.forkserver import CommandFailed
from attribution_benchmarks.report.formatting import shown_path
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
    """The tasks of a report, each a chain of commands with more and more inputs.

    Parameters
    ----------
    runner
        Of the commands.
    rounds
        For each round, the same tasks in the same order.
    methods, model
        Those that the user added: names, and a directory or nothing.
    """

    def __init__(self, runner: TaskRunner, rounds: Sequence[Sequence[ReportTask]], methods: Sequence[str], model: str):
        self._runner, self._methods, self._model = runner, methods, model
        self._rounds = len(rounds)
        # A task whose command is the same in all rounds runs in the first, on a further network in the last.
        distinct = [list({task.command: task for task in tasks}.values()) for tasks in zip(*rounds, strict=True)]
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

        ``jobs`` commands run at a time; 0 for as many as cores and memory allow.

        Parameters
        ----------
        publish
            Called at the start of a resumed run, after each table but the last, and after an interrupt, with a
            sentence on what is still to come and whether the run goes on.
        """
        jobs = jobs or scheduler.default_jobs(len(self._chains))
        costs = {task: cost for chain in self._chains for _, cost, (_, task) in chain}
        costs |= {task: 0.0 for _, task in self._finished}
        with contextlib.closing(scheduler.Progress(list(costs.values()), jobs)) as progress:
            self._runner.on_stderr = progress.on_stderr

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
                running = scheduler.run_chains(work, self._chains, jobs, self._runner.commands.close)
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
        if not (self._model and task.model_flag) or known(first.with_model(self._model), ()):
            return task
        return task.with_model(self._model)

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
        if not (self._model and task.model_flag and self._run_model(outcome, task, wanted)):
            try:
                self._compute(outcome, wanted)
            except CommandFailed as error:
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
        except CommandFailed:
            return False
        return bool(fitting)

    def _run_model(self, outcome: Outcome, task: ReportTask, wanted: ReportTask) -> bool:
        """Run a task with the user's model; return whether it fits."""
        model = shown_path(self._model)
        try:
            self._compute(outcome, wanted.with_model(self._model))
        except CommandFailed as error:
            why = "crashed under" if error.crashed else "does not fit"
            outcome.model_refused = f"{model} {why}", f"whose own network is scored instead: {error}"
            self._runner.remember_refusal(task.with_model(self._model), (), str(error))
            return False
        outcome.result = dataclasses.replace(outcome.result, note=f"{task.note} The network is your own, {model}.")
        return True

    def _attempt(self, outcome: Outcome, task: ReportTask, names: Sequence[str]) -> list[str]:
        """Try methods one by one, record why some do not fit, and return those that do."""
        accepted = []
        for name in names:
            refused = self._runner.attempt(task, [name])
            if refused is None:
                accepted.append(name)
            else:
                outcome.reasons[name, task.benchmark] = refused
                outcome.notes.append(f"{shown_path(name)} under {task.title} {refused}")
        return accepted

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
