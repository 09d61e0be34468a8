"""Run the benchmarks' own commands, and never anything twice.

A *task* is one command that gives one table. Its scores go to a store as they are computed, so a run that was killed
goes on where it stood; its finished table has a record of all it depends on (command, code, models, methods of one's
own, versions), so a task is run again only when one of these has changed. The directory::

    tables/NAME.txt .md                 what the command printed
    tables/NAME.json .csv               its scores in long form
    pictures/NAME/*.png                 what it drew
    work/scores/                        the store of all scores
    work/NAME.values.json               every input's scores
    work/NAME.done.json                 the record
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

from attribution.errors import BadInput, print_line
from attribution.file_io.files import atomic_write
from attribution.file_io.paths import reason
from attribution_benchmarks.cli.bundled_models import default_model
from attribution_benchmarks.core import manifest, tables
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.fingerprint import code_fingerprint
from attribution_benchmarks.report.processes import Commands, Refused, pass_on


@contextlib.contextmanager
def only_run(directory: pathlib.Path) -> Iterator[int]:
    """Keep a directory for one run at a time, and yield the lock for its commands to hold.

    The operating system frees the lock when the run and all its commands have ended. The commands of a killed run end
    shortly after it, later on a busy machine or disk; the next run waits for them.

    Raises
    ------
    BadInput
        If another run is at work there.
    """
    (directory / "work").mkdir(parents=True, exist_ok=True)
    with open(directory / "work" / "lock", "a+") as file:
        waiting = False
        while not _is_locked(file):
            file.seek(0)
            run = file.read()  # empty for a moment, until the run that has the lock has written its number
            if run.isdecimal() and _is_running(int(run)):
                raise BadInput(f"another run is at work in {directory}; wait for it, or choose another --output_dir")
            if run and not waiting:
                print_line(f"waiting for commands of a stopped run in {directory} to end", file=sys.stderr, flush=True)
                waiting = True
            time.sleep(0.02)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield file.fileno()


def _is_locked(file: IO) -> bool:
    """Lock a file unless another process has locked it, and tell whether that worked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise BadInput(f"no lock on {file.name} ({reason(error)}); choose another --output_dir") from error
    return True


def _is_running(process: int) -> bool:
    """Return whether a process of this machine is running; one that only waits for its parent has ended."""
    try:
        os.kill(process, 0)
        state = pathlib.Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's, or a system without /proc
        return True
    return state not in ("Z", "X")


class Runner:
    """Runs tasks in a directory, from several threads at a time where wanted.

    Parameters
    ----------
    directory
        Where everything goes.
    lock
        From ``only_run``.
    own
        What results depend on beside the house: name of a method, metric, benchmark or model of the user's own ->
        its fingerprint.
    hear
        Called with a task's name and what its command writes to standard error, as it comes; this process's standard
        error where None.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        lock: int,
        own: Mapping[str, str] | None = None,
        hear: Callable[[str, bytes], None] | None = None,
    ):
        self.directory, self.commands = directory, Commands(lock)
        self.own = dict(own or {})
        # Asked for once a task and once for each method of the user's own under it; a run has one answer.
        self._code_of = functools.cache(_code_of)
        self._models_of = functools.cache(lambda benchmark: code_fingerprint(files=[default_model(benchmark)]))
        self.hear = hear or (lambda name, said: pass_on(said))
        for name in ("tables", "pictures", "work"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    def run(self, task: ReportTask) -> bool:
        """Give a task's table, unless it is there already.

        Returns
        -------
        bool
            Whether anything had to be run.

        Raises
        ------
        Refused
            If the command failed; nothing but its stored scores is left.
        """
        record = self._record(task)
        done = self.directory / "work" / f"{task.name}.done.json"
        if self._is_done(task, done, record):
            return False
        done.unlink(missing_ok=True)
        new = self.directory / "work" / f"{task.name}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        flags = [f"--output={new / 'table.json'}"]
        if task.pictures:
            flags.append(f"--plot_dir={new / 'pictures'}")
        if task.input_scores:
            flags.append(f"--input_scores={new / 'values.json'}")
        printed = self.execute(task, task.command, flags)
        document = json.loads((new / "table.json").read_text(encoding="utf-8"))
        (new / "table.txt").write_text(printed, encoding="utf-8")
        for suffix in ("csv", "md"):
            run = {"benchmark": document["benchmark"], **document["manifest"]}
            tables.save(str(new / f"table.{suffix}"), document["rows"], run, text=printed)
        # A kill from here on leaves a task without a record, which is run again from its stored scores.
        for suffix in ("txt", "json", "csv", "md"):
            os.replace(new / f"table.{suffix}", self.directory / "tables" / f"{task.name}.{suffix}")
        if task.input_scores:
            os.replace(new / "values.json", self.values_file(task))
        if task.pictures:
            shutil.rmtree(self.directory / "pictures" / task.name, ignore_errors=True)
            os.replace(new / "pictures", self.directory / "pictures" / task.name)
        shutil.rmtree(new)
        atomic_write(done, json.dumps(record, indent=1) + "\n")
        return True

    def execute(self, task: ReportTask, command: Sequence[str], flags: Sequence[str] = ()) -> str:
        """Run a command with the task's methods and store, and return what it printed.

        It ends when this process does.

        Raises
        ------
        Refused
            If its exit code is not 0.
        """
        line = [*command, *flags]
        if task.methods:
            line.append(f"--methods={','.join(task.methods)}")
        if task.metrics:
            line.append(f"--metrics={','.join(task.metrics)}")
        if task.scores:
            line.append(f"--scores_dir={self.store(task)}")
        return self.commands.output_of(line, lambda said: self.hear(task.name, said))

    def attempt(self, task: ReportTask, methods: Sequence[str]) -> str | None:
        """Score methods alone under a task; their scores are kept, so that the task finds them.

        Returns
        -------
        str or None
            Why there are no scores, "does not fit: ..." or "crashed: ..."; None where there are.
        """
        path = self._attempt_file(task, methods)
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))["refused"]
        try:
            self.execute(task.with_methods(methods), task.trial or task.command)
            refused = None
        except Refused as error:
            refused = f"{'crashed' if error.crashed else 'does not fit'}: {error}"
        atomic_write(path, json.dumps({"refused": refused}) + "\n")
        return refused

    def known_refusal(self, task: ReportTask, methods: Sequence[str]) -> str | None:
        """Return why an earlier attempt gave no scores; None where there was none, or it gave some."""
        path = self._attempt_file(task, methods)
        return json.loads(path.read_text(encoding="utf-8"))["refused"] if path.exists() else None

    def _attempt_file(self, task: ReportTask, methods: Sequence[str]) -> pathlib.Path:
        record = {**self._record(task.with_methods(methods)), "trial": list(task.trial or task.command)}
        name = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]
        return self.directory / "work" / f"attempt-{name}.json"

    def store(self, task: ReportTask) -> pathlib.Path:
        """Return where a task's scores are kept; their keys hold all that they depend on."""
        return self.directory / "work" / "scores"

    def values_file(self, task: ReportTask) -> pathlib.Path:
        """Return the file of a task's input scores."""
        return self.directory / "work" / f"{task.name}.values.json"

    def document(self, task: ReportTask) -> dict:
        """Return what a task's command wrote with ``--output``."""
        path = self.directory / "tables" / f"{task.name}.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} cannot be read ({error}); remove it to make it anew") from error

    def _record(self, task: ReportTask) -> dict:
        """Return all that a task's table depends on."""
        return {
            "command": list(task.command),
            "methods": list(task.methods),
            "metrics": list(task.metrics),
            "code": self._code_of(tuple(task.command[:2])),
            "models": self._models_of(task.benchmark),
            "own": {name: value for name, value in self.own.items() if _names(task, name)},
            "versions": manifest.versions(),
        }

    def _is_done(self, task: ReportTask, done: pathlib.Path, record: dict) -> bool:
        """Tell whether a task's table was made under the same record and all its files are there."""
        files = [self.directory / "tables" / f"{task.name}.{suffix}" for suffix in ("txt", "json", "csv", "md")]
        files += [self.values_file(task)] if task.input_scores else []
        files += [self.directory / "pictures" / task.name] if task.pictures else []
        try:
            return json.loads(done.read_text(encoding="utf-8")) == record and all(path.exists() for path in files)
        except (OSError, ValueError):
            return False


def _names(task: ReportTask, name: str) -> bool:
    """Tell whether a task has to do with something of the user's own; what has not is not run again for its sake."""
    return name in (*task.methods, *task.metrics) or any(part.endswith(f"={name}") for part in task.command)


def _code_of(command: tuple[str, ...]) -> str:
    """Return the fingerprint of the code that a command runs, by its first two words, and of what is under that."""
    if command[0] == "-m":
        return code_fingerprint(command[1])
    return code_fingerprint(files=[path for path in map(pathlib.Path, command[:1]) if path.is_file()])
