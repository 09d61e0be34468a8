"""Commands in copies of this process, in which TensorFlow is imported already: most of a short command's time.

A copy is made by ``fork`` before TensorFlow has computed anything, leads a session of its own and runs the command as
``python`` would. From outside it looks like a ``subprocess.Popen`` whose standard error is read at the end.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence


def import_what_takes_long() -> None:
    """Import TensorFlow and what the commands import besides, but nothing of the project."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import matplotlib.pyplot  # noqa: F401
    import tensorflow  # noqa: F401

    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # as the commands do when they import it


class Forked:
    """A command that runs in a copy of this process.

    Parameters
    ----------
    arguments
        After ``python``: ``-m`` and a module, or a script; and what that is given.
    directory
        Its working directory.
    environment
        Its variables.
    prepare
        Called in the copy, before the command.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        directory: pathlib.Path,
        environment: Mapping[str, str],
        prepare: Callable[[], object] | None = None,
    ):
        self._said, self.returncode = b"", None
        self._pipe, said = os.pipe()  # a file would end where a run may write no more
        os.set_blocking(self._pipe, False)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                os.setsid()
                _forget_what_the_end_would_do()
                os.dup2(os.open(os.devnull, os.O_RDWR), 1)
                os.dup2(said, 2)
                os.chdir(directory)
                os.environ.update(environment)
                tempfile.tempdir = None  # read anew
                if prepare:
                    prepare()
                code = _run(list(arguments))
            finally:
                os._exit(code)
        os.close(said)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._read()  # before it would wait for a reader
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._pipe)
        return self.returncode

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while read := os.read(self._pipe, 1 << 16):
                self._said += read

    def wait(self, timeout: float) -> int:
        """Wait for its end and return the exit code."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a forked command", timeout)
            time.sleep(0.01)
        return self.returncode

    def communicate(self, timeout: float = 60.0) -> tuple[None, str]:
        """Wait for its end and return what it wrote to standard error."""
        self.wait(timeout)
        return None, self._said.decode(errors="replace")

    def send_signal(self, number: int) -> None:
        """Send a signal to it alone."""
        if self.poll() is None:
            os.kill(self.pid, number)


def _forget_what_the_end_would_do() -> None:
    """Leave it to the process that was copied to remove its temporary directories when it ends."""
    atexit._clear()
    weakref.finalize._registry.clear()
    weakref.finalize._registered_with_atexit = False


def _run(arguments: list[str]) -> int:
    """Run a module or a script as the program and return its exit code, after what it does at its end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if arguments[0] == "-m":
            sys.argv, sys.path[0] = arguments[1:], os.getcwd()
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.abspath(arguments[0]))
            runpy.run_path(arguments[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stderr.flush()
    return code
