"""Call functions in child processes that share one import of TensorFlow, most of the time of a short evaluation.

On Linux, the fork server of ``multiprocessing`` imports it once and forks for each call. Elsewhere each call starts a
new interpreter. A child ends with the process that started it, even if that is killed. A killed child fails alone; in a
``ProcessPoolExecutor`` it would fail all others.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import connection
from typing import Any, NamedTuple

from attribution.errors import BadInput
from attribution.savedmodel import op_allowlist
from attribution.tensorflow_log import list_devices
from attribution_benchmarks.core import fingerprint
from attribution_benchmarks.core.progress import Step

# One thread per child: several run side by side, and sums are bitwise equal whatever the number of cores.
THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Without the first, a child would reserve all memory of a GPU. Progress is sent, and shown by the parent.
_ENVIRONMENT = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "TQDM_DISABLE": "1", **dict.fromkeys(THREADS, "1")}
_CONTEXT: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
_CONTEXT.set_forkserver_preload(["attribution_benchmarks.report.preload"])
_GRACE = 5.0  # seconds until a child that has returned is killed
KILLED = "the system ended it, perhaps for lack of memory; fewer --jobs need less"


class Answer(NamedTuple):
    """What a function gave: its ``value``, or what failed in one line."""

    value: Any = None
    failed: str = ""
    killed: bool = False  # whether the system ended the process


class Processes:
    """Calls functions, each in a child process; at the end of ``with`` those that still run are killed."""

    def __init__(self) -> None:
        self._children: dict[str, tuple[Any, connection.Connection]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        for process, _ in self._children.values():
            process.kill()
        for name in list(self._children):
            self._end(name)

    @property
    def running(self) -> tuple[str, ...]:
        """Return the names of the calls that have not ended."""
        return tuple(self._children)

    def start(self, name: str, function: Callable[[Callable[[Step], object]], Any]) -> None:
        """Call a function of a module, or ``functools.partial`` of one; it gets a function that takes its progress.

        Raises
        ------
        BadInput
            If no process can be started.
        """
        receiver, sender = _CONTEXT.Pipe(duplex=False)
        process = _CONTEXT.Process(target=_run, args=(function, op_allowlist.is_trusted(), sender))
        try:
            with _environment():
                process.start()
        except (EOFError, OSError) as error:
            receiver.close()
            raise BadInput(
                "the system ended the process that starts all others, perhaps for lack of memory; --jobs=1 needs less"
            ) from error
        finally:
            sender.close()
        self._children[name] = process, receiver

    def answer(self, on_step: Callable[[str, Step], object]) -> tuple[str, Answer]:
        """Wait until one of the calls ends; return its name and its answer.

        ``on_step`` is called with the name of a call and each step that it reports.
        """
        while True:
            ends = {end: name for name, (process, receiver) in self._children.items()
                    for end in (receiver, process.sentinel)}  # fmt: skip
            for name in dict.fromkeys(ends[end] for end in connection.wait(list(ends))):
                received = _received(self._children[name][1])
                if isinstance(received, Step):
                    on_step(name, received)
                else:
                    self._end(name)
                    return name, received

    def _end(self, name: str) -> None:
        process, receiver = self._children.pop(name)
        receiver.close()
        process.join(_GRACE)
        process.kill()  # a thread or a process that a method has started may never end
        process.join()


def _received(receiver: connection.Connection) -> Step | Answer:
    """Return what a child sent; of one that has ended without an answer that it was killed."""
    with contextlib.suppress(EOFError, OSError):
        if receiver.poll():
            received: Step | Answer = receiver.recv()
            return received
    return Answer(failed=KILLED, killed=True)


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Set the environment variables with which children start."""
    missing = {name: value for name, value in _ENVIRONMENT.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def reason(error: BaseException) -> str:
    """Return in one line why a function failed; an unexpected error's traceback goes to standard error."""
    if isinstance(error, BadInput):
        return " ".join(str(error).split())
    if isinstance(error, SystemExit):
        return f"a method called sys.exit({error.code!r}); it must return its maps"
    traceback.print_exception(error)
    return " ".join(f"{type(error).__name__}: {error}".split())


def _run(function: Callable[..., Any], is_trusted: bool, sender: connection.Connection) -> None:
    """Call a function in this child process, and send what it reports and returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent is interrupted, too, and ends it
    parent = multiprocessing.parent_process()
    if parent is None or not parent.is_alive():
        os._exit(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # The platform's default, as in any other process. With the fork server's, locks of a killed child leak.
    multiprocessing.set_start_method(None, force=True)
    os.dup2(2, 1)  # what is printed goes to standard error
    sys.stdout = sys.stderr
    fingerprint.STARTED = time.time()  # the fork server has loaded no custom code
    if "tensorflow" in sys.modules:
        list_devices()
    try:
        with op_allowlist.trusted(is_trusted):
            answer = Answer(function(sender.send))
    except BaseException as error:
        answer = Answer(failed=reason(error))
    sender.send(answer)


def _end_with(parent: Any) -> None:
    """Kill this process when its parent has ended."""
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)
