"""Run commands in processes of their own: what they print is kept, what they say goes on, they end with this one."""

from __future__ import annotations

import collections
import functools
import os
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from attribution.errors import BadInput
from attribution_benchmarks.report.forkserver import GONE, POSSIBLE, Copies, end_with_parent

_BAD_INPUT = 2  # the exit code of a command that refuses what it was given
PROGRESS = re.compile(r"\d+%\||\bit/s\]|\?it/s|s/it\]")  # of tqdm
_LINES = 200  # of a command's standard error, in which its last error is looked for
ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the house's packages
# One thread a command: several run side by side, and sums have the same last digits however many cores there are.
THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Refused(Exception):
    """A command did not end well; the message is its own last error line.

    Attributes
    ----------
    crashed
        Whether it ended in a way that it did not foresee, rather than by refusing what it was given.
    """

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code
        self.crashed = code != _BAD_INPUT


def pass_on(said: bytes) -> None:
    """Write what a command says to this process's standard error."""
    sys.stderr.buffer.write(said)
    sys.stderr.buffer.flush()


class Commands:
    """Runs commands, from several threads at a time where wanted, each in a process of its own.

    Threads that run commands must last until ``close``.

    Parameters
    ----------
    lock
        File descriptor that every command keeps open while it runs.
    """

    def __init__(self, lock: int):
        self.lock = lock
        self.environment = dict(os.environ)
        path = filter(None, [str(ROOT), self.environment.get("PYTHONPATH")])
        self.environment["PYTHONPATH"] = os.pathsep.join(path)
        for name in THREADS:
            self.environment.setdefault(name, "1")
        # The first command would take all of a GPU's memory, and none be left for one beside it.
        self.environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
        self._copies = Copies(self.environment)
        self._running: set[subprocess.Popen] = set()
        self._ended = threading.Event()

    def output_of(self, arguments: Sequence[str], hear: Callable[[bytes], None] = pass_on) -> str:
        """Run ``python`` with some arguments and return what it printed on standard output.

        Parameters
        ----------
        arguments
            ``-m`` and a module, or a file, and what that is given; the repository's packages can be imported there.
        hear
            Called with what it writes to standard error, as it comes.

        Raises
        ------
        Refused
            If its exit code is not 0.
        KeyboardInterrupt
            If the keyboard interrupted it, or ``close`` was called meanwhile.
        """
        if self._ended.is_set():
            raise KeyboardInterrupt
        run = self._in_a_copy if POSSIBLE and arguments[0] == "-m" else self._alone
        code, printed, said = run(arguments, hear)
        if self._ended.is_set() or code in (130, -signal.SIGINT):
            raise KeyboardInterrupt
        if code is None:
            raise BadInput(GONE)
        if code:
            killed = "the system ended it, perhaps for lack of memory; fewer --jobs need less"
            told = killed if code == -signal.SIGKILL else _reason(said) or f"exit code {code}"
            raise Refused(told, code)
        return printed.decode()

    def close(self) -> None:
        """End all commands that still run, and begin no other."""
        self._ended.set()
        for process in list(self._running):
            process.kill()
        self._copies.end()

    def _in_a_copy(self, arguments: Sequence[str], hear) -> tuple[int | None, bytes, Iterable[bytes]]:
        output, printing = os.pipe()
        errors, saying = os.pipe()
        with open(output, "rb", 0) as output_file, open(errors, "rb", 0) as errors_file:
            try:
                ended = self._copies.start(arguments[1:], printing, saying, self.lock)
            finally:
                os.close(printing)
                os.close(saying)
            with open(ended) as end:
                printed: list[bytes] = []
                said = collections.deque(_heard(output_file, errors_file, printed, hear), maxlen=_LINES)
                code = end.read()
        return int(code) if code else None, b"".join(printed), said

    def _alone(self, arguments: Sequence[str], hear) -> tuple[int | None, bytes, Iterable[bytes]]:
        with subprocess.Popen(
            [sys.executable, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, pass_fds=[self.lock] if os.name == "posix" else (),
            preexec_fn=functools.partial(end_with_parent, os.getpid()),
        ) as process:  # fmt: skip
            self._running.add(process)
            try:
                printed: list[bytes] = []
                said = collections.deque(_heard(process.stdout, process.stderr, printed, hear), maxlen=_LINES)
                return process.wait(), b"".join(printed), said
            finally:
                self._running.discard(process)


def _reason(said: Iterable[bytes]) -> str:
    """Return the last error of what a command said; a progress bar redrawn after it is none."""
    lines = [line.decode(errors="replace").strip() for line in said]
    errors = [line for line in lines if line.startswith("error: ")]
    told = errors or [line for line in lines if not PROGRESS.search(line)]
    return told[-1].removeprefix("error: ") if told else ""


def _heard(output, errors, printed: list[bytes], hear: Callable[[bytes], None]) -> Iterator[bytes]:
    """Pass a command's standard error on as it comes, collect its standard output; yield every line of the former."""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ, printed)
        selector.register(errors, selectors.EVENT_READ)
        pending = b""
        while selector.get_map():
            for key, _ in selector.select():
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.data is not None:
                    printed.append(chunk)
                else:
                    hear(chunk)
                    *lines, pending = (pending + chunk).replace(b"\r", b"\n").split(b"\n")
                    yield from filter(None, map(bytes.strip, lines))
        if pending.strip():
            yield pending
