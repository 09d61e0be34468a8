"""Evaluate the tasks of a report, each once.

A task is one evaluation that writes one table. Its scores are stored as they are computed, so that a killed run
resumes. A finished table has a record of everything it depends on (settings, code, models, custom methods, versions);
the task runs again only if one of these changed. The directory::

    tables/NAME.txt .md                 its table
    tables/NAME.json .csv               its scores in long form
    pictures/NAME/*.png                 its pictures
    work/scores/                        the store of all scores
    work/NAME.values.json               the scores of each input
    work/NAME.done.json                 the record
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from attribution.errors import BadInput, print_line
from attribution.files import atomic_write, check_file, reason
from attribution.reading import read_json
from attribution_benchmarks.core import manifest, tables
from attribution_benchmarks.core.bundled_models import default_model
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.evaluation import evaluated, load, prepare
from attribution_benchmarks.core.fingerprint import code_fingerprint, project_code
from attribution_benchmarks.core.progress import Progress
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.settings import RunSettings
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.report.processes import Event, Failed, Processes

_TABLES = ("txt", "json", "csv", "md")  # suffixes


@contextlib.contextmanager
def only_run(directory: pathlib.Path) -> Iterator[int]:
    """Lock a directory; yield the descriptor of a second lock, which the child processes keep open.

    The children of a killed run end shortly after it. The next run waits for them.

    Raises
    ------
    BadInput
        If another run uses the directory.
    """
    work = directory / "work"
    work.mkdir(parents=True, exist_ok=True)
    for name in ("lock", "children.lock"):
        check_file("output_dir", work / name)
    with open(work / "lock", "a") as run, open(work / "children.lock", "a") as children:
        try:
            if not _locked(run):
                raise BadInput(f"another run uses {directory}; wait for it, or choose another --output_dir")
            if not _locked(children):
                print_line(f"waiting for processes of a stopped run in {directory} to end", file=sys.stderr, flush=True)
                fcntl.flock(children, fcntl.LOCK_EX)
        except OSError as error:
            raise BadInput(f"cannot lock {work} ({reason(error)}); choose another --output_dir") from error
        yield children.fileno()


def _locked(file: IO) -> bool:
    """Lock a file unless another process has locked it; return whether that succeeded."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class TaskRunner:
    """Runs tasks in a directory; threads may run several at a time.

    Parameters
    ----------
    directory
        Output directory of the report.
    lock
        From ``only_run``.
    custom
        Custom method, metric, benchmark or model -> its fingerprint.
    on_event
        Also an attribute. Called with a task's name and each step or line of its evaluation.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        lock: int,
        custom: Mapping[str, str] | None = None,
        on_event: Callable[[str, Event], object] = lambda name, event: None,
    ):
        self.directory, self.processes, self.on_event = directory, Processes(lock), on_event
        self._custom = dict(custom or {})
        self._report = secrets.token_hex(16)  # in records of custom code that may change unnoticed
        self._code_of = functools.cache(_code_of)
        self._models_of = functools.cache(lambda benchmark: code_fingerprint(files=[default_model(benchmark)]))
        for name in ("tables", "pictures", "work"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    def is_done(self, task: ReportTask) -> bool:
        """Return whether all files of a task exist and its table was written under the same record."""
        files = [self._table(task, suffix) for suffix in _TABLES]
        files += [self.values_file(task)] if task.input_scores else []
        files += [self.pictures(task)] if task.pictures else []
        try:
            record = read_json(self._done_file(task))
        except BadInput:
            return False
        same = record == self._record(task) | {"report": self._report} or record == self._record(task)
        return same and all(path.exists() for path in files)

    def compute(self, task: ReportTask) -> bool:
        """Evaluate a task unless its files are up to date; return whether it was. ``take`` takes its files.

        Raises
        ------
        Failed
            If it could not be evaluated. Only its stored scores remain.
        """
        if self.is_done(task):
            return False
        new = self.directory / "work" / f"{task.name}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        printed = self._evaluate(task, task.settings, new)
        document = json.loads((new / "table.json").read_text(encoding="utf-8"))
        (new / "table.txt").write_text(printed, encoding="utf-8")
        for suffix in ("csv", "md"):
            described = {"benchmark": document["benchmark"], **document["manifest"]}
            tables.save(str(new / f"table.{suffix}"), document["rows"], described, text=printed)
        return True

    def take(self, task: ReportTask) -> None:
        """Put the files that ``compute`` wrote in place of those there are."""
        new, done = self.directory / "work" / f"{task.name}.new", self._done_file(task)
        # A run killed from here on leaves a task without a record, which runs again from its stored scores.
        done.unlink(missing_ok=True)
        for suffix in _TABLES:
            os.replace(new / f"table.{suffix}", self._table(task, suffix))
        if task.input_scores:
            os.replace(new / "values.json", self.values_file(task))
        if task.pictures:
            shutil.rmtree(self.pictures(task), ignore_errors=True)
            os.replace(new / "pictures", self.pictures(task))
        shutil.rmtree(new)
        record = self._record(task)
        if "unidentified" in self.document(task)["manifest"]:
            record["report"] = self._report
        atomic_write(done, json.dumps(record, indent=1) + "\n")

    def attempt(self, task: ReportTask, methods: Sequence[str]) -> str | None:
        """Score only some methods; their scores are stored, so that ``run`` does not compute them again.

        Returns
        -------
        str or None
            Why there are no scores, "does not fit: ..." or "crashed: ..."; None if there are.
        """
        if self._attempt_file(task, methods).exists():
            return self.known_refusal(task, methods)
        try:
            self._evaluate(task.with_methods(methods), task.trial or task.settings)
            refused = None
        except Failed as error:
            refused = f"{'crashed' if error.crashed else 'does not fit'}: {error}"
        self.remember_refusal(task, methods, refused)
        return refused

    def remember_refusal(self, task: ReportTask, methods: Sequence[str], refused: str | None) -> None:
        """Keep what ``known_refusal`` returns from now on."""
        atomic_write(self._attempt_file(task, methods), json.dumps({"refused": refused}) + "\n")

    def known_refusal(self, task: ReportTask, methods: Sequence[str]) -> str | None:
        """Return what an earlier ``attempt`` returned; None if there was none."""
        path = self._attempt_file(task, methods)
        return read_json(path)["refused"] if path.exists() else None

    def values_file(self, task: ReportTask) -> pathlib.Path:
        """Return the file of a task's input scores."""
        return self.directory / "work" / f"{task.name}.values.json"

    def pictures(self, task: ReportTask) -> pathlib.Path:
        """Return the directory of a task's pictures."""
        return self.directory / "pictures" / task.name

    def printed(self, task: ReportTask) -> str:
        """Return a task's table as text."""
        return self._table(task, "txt").read_text(encoding="utf-8")

    def document(self, task: ReportTask) -> dict:
        """Return a task's scores with their provenance, as ``--output`` writes them.

        Raises
        ------
        BadInput
            If the file is damaged.
        """
        path = self._table(task, "json")
        try:
            return read_json(path)
        except BadInput as error:
            raise BadInput(f"{error}; remove it to compute it again") from error

    def _done_file(self, task: ReportTask) -> pathlib.Path:
        return self.directory / "work" / f"{task.name}.done.json"

    def _table(self, task: ReportTask, suffix: str) -> pathlib.Path:
        return self.directory / "tables" / f"{task.name}.{suffix}"

    def _evaluate(self, task: ReportTask, settings: RunSettings, new: pathlib.Path | None = None) -> str:
        """Evaluate a task with some settings in a child process; write its files into ``new``; return its table."""
        scores = str(self.directory / "work" / "scores") if task.scores else None
        # Values, since a child could not import the class of a custom benchmark's settings.
        task = dataclasses.replace(task, settings=RunSettings(), trial=None, networks=())
        function = functools.partial(_evaluated, task, vars(settings), scores, new)
        return self.processes.call(function, functools.partial(self.on_event, task.name))

    def _attempt_file(self, task: ReportTask, methods: Sequence[str]) -> pathlib.Path:
        record = {**self._record(task.with_methods(methods)), "trial": _plain(task.trial or task.settings)}
        name = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]
        return self.directory / "work" / f"attempt-{name}.json"

    def _record(self, task: ReportTask) -> dict:
        """Return everything that a task's table depends on."""
        return {
            "place": task.place,
            "settings": _plain(task.settings),
            "methods": list(task.methods),
            "metrics": list(task.metrics),
            "code": self._code_of(task.place),
            "models": self._models_of(task.benchmark),
            "own": {name: value for name, value in self._custom.items() if _uses(task, name)},
            "versions": manifest.versions(),
        }


def _uses(task: ReportTask, name: str) -> bool:
    """Return whether a task names a custom method, metric, benchmark or model."""
    values = [str(value) for value in _plain(task.settings).values()]
    return name in (*task.methods, *task.metrics, task.place, *values) or f"obj={name}" in str(values)


def _plain(settings: RunSettings) -> dict[str, Any]:
    """Return settings as JSON has them."""
    found: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(settings)))
    return found


def _code_of(place: str) -> str:
    """Return the fingerprint of the code of a benchmark; a custom one has its own fingerprint besides."""
    command = "" if ":" in place else benchmark_named(place).command
    return project_code(command or "attribution_benchmarks.core.evaluate")


def _evaluated(
    task: ReportTask, values: Mapping[str, Any], scores: str | None, new: pathlib.Path | None, progress: Progress
) -> str:
    """Evaluate a task with the values of its settings in this process, and write its files; return its table."""
    benchmark = benchmark_named(task.place)
    run = prepare(
        benchmark, task.methods, benchmark.settings(**values), metrics=task.metrics, store=ScoreStore(scores),
        progress=progress, place=task.place,
    )  # fmt: skip
    with contextlib.closing(run.store):
        found = evaluated(load(run))
        if new:
            found.write(
                str(new / "table.json"), str(new / "values.json") if task.input_scores else "",
                str(new / "pictures") if task.pictures else "",
            )  # fmt: skip
    return found.section.text
