"""Commands in copies of one process that has imported TensorFlow, which is most of what a short command takes.

    python -m attribution_benchmarks.report.forkserver DESCRIPTOR

The process behind it reads requests from a socket and makes a copy of itself by ``fork`` for each, before TensorFlow
has computed anything or asked for a GPU. A copy runs one module as ``python -m`` would and ends as any program does.
Copies end with the process copied, and that ends when nobody holds the other end of its socket, whatever way that came
about. Only Linux has both a fork that is safe here and the means to end a process with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import TextIO

from attribution.cli.tf_logging import import_without_devices, list_devices
from attribution.errors import BadInput

POSSIBLE = sys.platform == "linux"
_LONGEST = 1 << 17  # bytes of a request: a command line
_PRCTL = ctypes.CDLL(None).prctl if POSSIBLE else None  # looked up here: after a fork, other threads' locks stay locked


def end_with_parent(parent: int) -> None:
    """Have Linux end this process when the thread that started it ends, even by a kill.

    Parameters
    ----------
    parent
        Number of the process that started this one. If it has ended already, this process ends at once.
    """
    if _PRCTL is not None:
        _PRCTL(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


class Copies:
    """Asks for copies; the process that is copied is started with the first of them.

    Threads may ask at the same time. The first one's must last as long as this is in use.

    Parameters
    ----------
    environment
        Of all copies.
    """

    def __init__(self, environment: Mapping[str, str]):
        self._environment = dict(environment)
        self._starting = threading.Lock()
        self._original: subprocess.Popen | None = None
        self._requests: socket.socket | None = None

    def start(self, arguments: Sequence[str], printed: int, said: int, lock: int) -> int:
        """Start ``python -m`` with some arguments in a copy, and return without waiting for it.

        Parameters
        ----------
        arguments
            After ``-m``.
        printed, said
            Descriptors of its standard output and standard error.
        lock
            Descriptor that it keeps open while it runs.

        Returns
        -------
        int
            Descriptor from which the exit code can be read when it has ended, as text; the caller's to close.

        Raises
        ------
        BadInput
            If the process that is copied is no longer there.
        """
        with self._starting:
            if self._requests is None:
                self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    self._original = subprocess.Popen(
                        [sys.executable, "-m", __name__, str(theirs.fileno())],
                        env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                        pass_fds=[theirs.fileno()],
                        preexec_fn=functools.partial(end_with_parent, os.getpid()),
                    )  # fmt: skip
            ended, ending = os.pipe()
            try:
                socket.send_fds(self._requests, [json.dumps(list(arguments)).encode()], [printed, said, ending, lock])
            except OSError as error:
                os.close(ended)
                raise BadInput(GONE) from error
            finally:
                os.close(ending)
        return ended

    def end(self) -> None:
        """End the process that is copied, and with it all copies that still run."""
        with self._starting:
            if self._requests is not None and self._original is not None:
                self._requests.shutdown(socket.SHUT_RDWR)  # closing alone would not do: another thread may send
                self._original.wait()


GONE = "the system ended the process that starts all commands, perhaps for lack of memory; --jobs=1 needs less"


def main(descriptor: int) -> None:
    """Serve requests; in a copy, run what was asked for, and end with its exit code."""
    interruption = signal.signal(signal.SIGINT, signal.SIG_IGN)
    import_without_devices()
    importlib.import_module("attribution_benchmarks.core.explainer")  # the modules that every command imports
    # Nothing of these is touched again, so that all copies share their memory.
    gc.collect()
    gc.freeze()
    arguments = _copied(socket.socket(fileno=descriptor))
    signal.signal(signal.SIGINT, interruption)
    list_devices()
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def _copied(requests: socket.socket) -> list[str]:
    """Make copies as long as some are asked for; return in a copy alone, with what it was asked."""
    original = os.getpid()
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # else it would be ignored and not written there
    running: dict[int, int] = {}
    while True:
        ready = select.select([requests.fileno(), woken], [], [])[0]
        if woken in ready:
            os.read(woken, 1 << 12)
            _tell_who_ended(running)
        if requests.fileno() not in ready:
            continue
        request, descriptors, _, _ = socket.recv_fds(requests, _LONGEST, 4)
        if not request:
            os._exit(0)
        printed, said, ending, _ = descriptors
        with warnings.catch_warnings():
            # Python 3.12 warns of forks beside threads; the one there is jemalloc's, which knows of forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            copy = os.fork()
        if copy:
            running[copy] = ending
            for descriptor in set(descriptors) - {ending}:
                os.close(descriptor)
            continue
        end_with_parent(original)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(printed, 1)
        os.dup2(said, 2)
        # The lock alone stays open, and is not passed on to what the command starts.
        for descriptor in (printed, said, ending, woken, waking, *running.values()):
            os.close(descriptor)
        requests.close()
        # They were a device's and a terminal's, and are pipes now.
        sys.stdout, sys.stderr = _text(1, sys.stdout), _text(2, sys.stderr, buffering=1)
        return json.loads(request)


def _text(descriptor: int, like: TextIO, buffering: int = -1) -> TextIO:
    """Return a descriptor as a file with another one's encoding."""
    return open(descriptor, "w", encoding=like.encoding, errors=like.errors, buffering=buffering, closefd=False)


def _tell_who_ended(running: dict[int, int]) -> None:
    """Write the exit codes of copies that have ended where those who asked for them read."""
    for copy in list(running):
        ended, status = os.waitpid(copy, os.WNOHANG)
        if ended:
            with contextlib.suppress(BrokenPipeError), open(running.pop(copy), "w") as asked:
                asked.write(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
