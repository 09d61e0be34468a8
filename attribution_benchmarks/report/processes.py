"""Call functions in child processes that share one import of TensorFlow, most of the time of a short evaluation.

On Linux, the fork server of ``multiprocessing`` imports it once and forks for each call. Elsewhere each call starts a
new interpreter. A child ends with the process that started it, even if that is killed. A killed child fails alone; in a
``ProcessPoolExecutor`` it would fail all others.
"""

from __future__ import annotations

import contextlib
import functools
import io
import multiprocessing
import operator
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import connection, reduction
from typing import Any

from attribution.errors import BadInput
from attribution.savedmodel import op_allowlist
from attribution.tensorflow_log import list_devices
from attribution_benchmarks.core import fingerprint
from attribution_benchmarks.core.progress import Step

# One thread per child: several run side by side, and sums are bitwise equal whatever the number of cores.
THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_CONTEXT: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
_CONTEXT.set_forkserver_preload(["attribution_benchmarks.report.preload"])
_INTERRUPTED = 130
_GRACE = 5.0  # seconds until a child that has returned is killed
Event = Step | str  # how far a child is, or a line that it printed


class Failed(Exception):
    """A child could not do what was asked. The message is one line.

    Attributes
    ----------
    crashed
        Whether it failed unexpectedly, rather than by refusing its input.
    methods
        Methods that cannot explain the network, with the reason, where others can.
    """

    def __init__(self, message: str, crashed: bool, methods: Mapping[str, str] | None = None):
        super().__init__(message)
        self.crashed, self.methods = crashed, methods or {}


class Processes:
    """Calls functions in child processes; threads may call several at a time.

    Parameters
    ----------
    lock
        File descriptor that every child keeps open.

    Attributes
    ----------
    cpu_seconds
        Used by the children that have finished.
    """

    def __init__(self, lock: int):
        self._lock_descriptor, self._is_trusted = lock, op_allowlist.is_trusted()
        self._running: set[Any] = set()
        self._mutex = threading.Lock()  # starting and joining processes is not safe in several threads at a time
        self._closed = False
        self.cpu_seconds = 0.0

    def call(self, function: Callable[[Callable[[Step], object]], Any], on_event: Callable[[Event], object]) -> Any:
        """Call a function in a child process and return its result.

        Parameters
        ----------
        function
            Of a module, or ``functools.partial`` of one; it gets a function that reports its progress.
        on_event
            Called with each step and each line that the child prints.

        Raises
        ------
        Failed
            If the function raised an error, or the child was killed.
        KeyboardInterrupt
            If the child was interrupted, or ``close`` was called.
        """
        process, received = self._start(function)
        outcome, result = "killed", None
        with received:
            while True:
                try:
                    kind, value = received.recv()
                except (EOFError, OSError):
                    break
                if kind == "event":
                    on_event(value)
                elif kind == "seconds":  # the last
                    with self._mutex:
                        self.cpu_seconds += value
                    break
                else:
                    outcome, result = kind, value
        if not connection.wait([process.sentinel], None if outcome == "killed" else _GRACE):
            process.kill()  # a thread or a process that a method has started may never end
            connection.wait([process.sentinel])
        with self._mutex:
            process.join()
            self._running.discard(process)
        if self._closed or process.exitcode in (_INTERRUPTED, -signal.SIGINT):
            raise KeyboardInterrupt
        if outcome == "killed":
            raise Failed("the system ended it, perhaps for lack of memory; fewer --jobs need less", crashed=True)
        if outcome == "refused":
            raise Failed(result[0], False, result[1])
        if outcome != "done":
            raise Failed(result, crashed=True)
        return result

    def close(self) -> None:
        """Kill all children and start no other."""
        self._closed = True
        for process in list(self._running):
            process.kill()

    def _start(self, function: Callable[..., Any]) -> tuple[Any, Any]:
        """Return the process, and a connection that receives its events and its result."""
        receiver, sender = _CONTEXT.Pipe(duplex=False)
        process = _CONTEXT.Process(
            target=_run, args=(function, self._is_trusted, _Inherited(self._lock_descriptor), sender)
        )
        try:
            with self._mutex, _environment():
                if self._closed:
                    raise KeyboardInterrupt
                process.start()
                self._running.add(process)
        except (EOFError, OSError) as error:
            receiver.close()
            if self._closed:
                raise KeyboardInterrupt from None
            raise BadInput(
                "the system ended the process that starts all others, perhaps for lack of memory; --jobs=1 needs less"
            ) from error
        finally:
            sender.close()
        if self._closed:  # meanwhile
            process.kill()
        return process, receiver


class _Inherited:
    """A file descriptor as an argument of a process: an open descriptor (int) there."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    def __reduce__(self):
        return operator.methodcaller("detach"), (reduction.DupFd(self._descriptor),)


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Set the environment variables with which children start."""
    # Without the last, the first child would reserve all memory of a GPU.
    defaults = {**dict.fromkeys(THREADS, "1"), "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    missing = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


class _Lines(io.TextIOBase):
    """A stream that sends each line that is written."""

    def __init__(self, send: Callable[[str], object]):
        self._send, self._rest = send, ""

    def write(self, text: str) -> int:
        """Send the lines that are complete."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._send(line)
        return len(text)

    def end(self) -> None:
        """Send the last line, which is not complete."""
        if self._rest:
            self.write("\n")

    def writable(self) -> bool:
        """Return True."""
        return True


def _run(function: Callable[..., Any], is_trusted: bool, lock: int, sender: connection.Connection) -> None:
    """Call a function in this child process, and send what it reports and returns."""
    parent = multiprocessing.parent_process()
    if parent is None or not parent.is_alive():
        os._exit(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # The platform's default, as in any other process. With the fork server's, locks of a killed child leak.
    multiprocessing.set_start_method(None, force=True)
    os.dup2(2, 1)  # what C code prints
    fingerprint.STARTED = time.time()  # the fork server has loaded no custom code
    if "tensorflow" in sys.modules:
        list_devices()
    mutex = threading.Lock()

    def send(kind: str, value: Any) -> None:
        with mutex:
            sender.send((kind, value))

    event = functools.partial(send, "event")
    lines = sys.stdout = sys.stderr = _Lines(event)
    _without_bars()
    try:
        with op_allowlist.trusted(is_trusted):
            send("done", function(event))
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)
    except BadInput as error:
        send("refused", (" ".join(str(error).split()), getattr(error, "refused", {})))
    except SystemExit as error:
        send("crashed", f"a method called sys.exit({error.code!r}); it must return its maps")
    except BaseException as error:
        traceback.print_exc()
        send("crashed", " ".join(f"{type(error).__name__}: {error}".split()))
    lines.end()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    send("seconds", sum(one.ru_utime + one.ru_stime for one in used))


def _without_bars() -> None:
    """Show no bars of tqdm: progress is sent."""
    import tqdm

    tqdm.tqdm.__init__ = functools.partialmethod(tqdm.tqdm.__init__, disable=True)


def _end_with(parent: Any) -> None:
    """Kill this process when its parent has ended."""
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)
