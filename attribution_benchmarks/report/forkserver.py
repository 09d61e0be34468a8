"""Run commands in child processes that share one import of TensorFlow, most of the time of a short command.

On Linux, the fork server of ``multiprocessing`` imports it once and forks for each command. Elsewhere each command
starts a new interpreter. A command ends with the process that started it, even if that is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pathlib
import re
import resource
import runpy
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, reduction
from typing import Any

from attribution.cli import list_devices
from attribution.errors import BadInput

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRESS_BAR = re.compile(r"\d+%\||\[(\d+:)+\d\d[<,].*\]$")  # of tqdm, with a total or without one
_ESCAPE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")  # of a terminal: nested bars move the cursor
# One thread per command: several run side by side, and sums are bitwise equal whatever the number of cores.
THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_CONTEXT: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
_CONTEXT.set_forkserver_preload(["attribution_benchmarks.report.preload"])
_BAD_INPUT = 2  # exit code of a command that rejects its input
_TAIL = 1 << 16  # bytes of a command's standard error in which its last error is searched


class CommandFailed(Exception):
    """A command had an exit code other than 0. The message is its last error line.

    Attributes
    ----------
    crashed
        Whether it failed unexpectedly, rather than by rejecting its input.
    """

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.crashed = code != _BAD_INPUT


def text_lines(written: bytes) -> list[str]:
    """Return the lines of what a command wrote to standard error, without escape codes."""
    return [_ESCAPE.sub("", line).rstrip() for line in re.split(r"[\r\n]", written.decode(errors="replace"))]


def write_stderr(written: bytes) -> None:
    """Write bytes to this process's standard error."""
    sys.stderr.buffer.write(written)
    sys.stderr.buffer.flush()


class Commands:
    """Runs commands in child processes; threads may run several at a time.

    Parameters
    ----------
    lock
        File descriptor that every command keeps open while it runs.

    Attributes
    ----------
    cpu_seconds
        Used by the commands that have finished.
    """

    def __init__(self, lock: int):
        self._lock_descriptor = lock
        self._running: set[Any] = set()
        self._mutex = threading.Lock()  # starting and joining processes is not safe in several threads at a time
        self._closed = False
        self.cpu_seconds = 0.0

    def run(self, arguments: Sequence[str], on_stderr: Callable[[bytes], None] = write_stderr) -> str:
        """Run ``python`` with arguments and return its standard output.

        Parameters
        ----------
        arguments
            ``-m`` and a module, or a file, and their arguments.
        on_stderr
            Called with each chunk that the command writes to standard error.

        Raises
        ------
        CommandFailed
            If the exit code is not 0.
        KeyboardInterrupt
            If the command was interrupted, or ``close`` was called.
        """
        tail = b""
        with tempfile.TemporaryFile() as printed:
            process, errors, cpu_seconds = self._start(arguments, printed.fileno())
            with errors:
                while chunk := errors.read(_TAIL):
                    on_stderr(chunk)
                    tail = (tail + chunk)[-_TAIL:]
            connection.wait([process.sentinel])
            with self._mutex:
                process.join()
                self._running.discard(process)
                with contextlib.suppress(EOFError):  # killed
                    self.cpu_seconds += cpu_seconds.recv()
            code = process.exitcode
            if self._closed or code in (130, -signal.SIGINT):
                raise KeyboardInterrupt
            if code == -signal.SIGKILL:
                raise CommandFailed("the system ended it, perhaps for lack of memory; fewer --jobs need less", code)
            if code:
                raise CommandFailed(_last_error(tail) or f"exit code {code}", code)
            printed.seek(0)
            return printed.read().decode()

    def close(self) -> None:
        """Kill all running commands and start no other."""
        self._closed = True
        for process in list(self._running):
            process.kill()

    def _start(self, arguments: Sequence[str], printed: int) -> tuple[Any, Any, Any]:
        """Return the process, its standard error as a file, and a connection that receives its CPU seconds."""
        reading, writing = os.pipe()
        errors = open(reading, "rb", 0)
        receiver, sender = _CONTEXT.Pipe(duplex=False)
        descriptors = [_Inherited(one) for one in (printed, writing, self._lock_descriptor)]
        process = _CONTEXT.Process(target=_run, args=(list(arguments), *descriptors, sender))
        try:
            with self._mutex, _environment():
                if self._closed:
                    raise KeyboardInterrupt
                process.start()
                self._running.add(process)
        except (EOFError, OSError) as error:
            errors.close()
            if self._closed:
                raise KeyboardInterrupt from None
            raise BadInput(
                "the system ended the process that starts all commands, perhaps for lack of memory; --jobs=1 needs less"
            ) from error
        finally:
            os.close(writing)
            sender.close()
        if self._closed:  # meanwhile
            process.kill()
        return process, errors, receiver


class _Inherited:
    """A file descriptor as an argument of a process: an open descriptor (int) there."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    def __reduce__(self):
        return _detach, (reduction.DupFd(self._descriptor),)


def _detach(duplicate: Any) -> int:
    return duplicate.detach()


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Set the environment variables with which commands start."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    # Without the last, the first command would reserve all memory of a GPU.
    changes = {"PYTHONPATH": path, **{
        name: os.environ.get(name, default)
        for name, default in (*((thread, "1") for thread in THREADS), ("TF_FORCE_GPU_ALLOW_GROWTH", "true"))
    }}  # fmt: skip
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _run(arguments: list[str], printed: int, errors: int, lock: int, cpu_seconds: connection.Connection) -> None:
    """Run a module or a file in this child process as ``python`` does."""
    parent = multiprocessing.parent_process()
    if parent is None or not parent.is_alive():
        os._exit(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    for descriptor, standard in ((printed, 1), (errors, 2)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    # The platform's default, as in any other command. With the fork server's, locks of a killed command leak.
    multiprocessing.set_start_method(None, force=True)
    if "tensorflow" in sys.modules:
        list_devices()
    try:
        if arguments[0] == "-m":
            sys.path.insert(0, os.getcwd())
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(pathlib.Path(arguments[0]).resolve().parent))
            sys.argv = arguments
            runpy.run_path(arguments[0], run_name="__main__")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        atexit._run_exitfuncs()  # multiprocessing runs none
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        cpu_seconds.send(sum(one.ru_utime + one.ru_stime for one in used))


def _end_with(parent: Any) -> None:
    """Kill this process when its parent has ended."""
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)


def _last_error(written: bytes) -> str:
    """Return the last error line of a command's standard error, or else its last line that is no progress bar."""
    lines = list(filter(None, map(str.strip, text_lines(written))))
    errors = [line for line in lines if line.startswith("error: ")]
    candidates = errors or [line for line in lines if not PROGRESS_BAR.search(line)]
    return candidates[-1].removeprefix("error: ") if candidates else ""
