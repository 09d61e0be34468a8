"""Run a command in a process of its own: what it prints is kept, what it says goes on, and it ends with its parent."""

from __future__ import annotations

import collections
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence

_BAD_INPUT = 2  # the exit code of a command that refuses what it was given
_PROGRESS = re.compile(r"\d+%\||\bit/s\]|\?it/s|s/it\]")  # of tqdm
_LINES = 200  # of a command's standard error, in which its last error is looked for
ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the house's packages


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


def output_of(line: Sequence[str], lock: int) -> str:
    """Run a command and return what it printed on standard output; its standard error is this process's.

    Parameters
    ----------
    line
        Program and arguments; the repository's packages can be imported there.
    lock
        File descriptor that it keeps open while it runs.

    Raises
    ------
    Refused
        If its exit code is not 0.
    """
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    with subprocess.Popen(
        line, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        pass_fds=[lock] if os.name == "posix" else (), preexec_fn=_end_with_parent,
    ) as process:  # fmt: skip
        printed: list[bytes] = []
        said = collections.deque(_relayed(process, printed), maxlen=_LINES)
        code = process.wait()
    if code == 130 or code == -signal.SIGINT:
        raise KeyboardInterrupt
    if code:
        raise Refused(_reason(said) or f"exit code {code}", code)
    return b"".join(printed).decode()


def _reason(said: Iterable[bytes]) -> str:
    """Return the last error of what a command said; a progress bar redrawn after it is none."""
    lines = [line.decode(errors="replace").strip() for line in said]
    errors = [line for line in lines if line.startswith("error: ")]
    told = errors or [line for line in lines if not _PROGRESS.search(line)]
    return told[-1].removeprefix("error: ") if told else ""


def _relayed(process, printed: list[bytes]) -> Iterator[bytes]:
    """Pass a process's standard error on as it comes, collect its standard output; yield every line of the former."""
    import selectors

    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, printed)
        selector.register(process.stderr, selectors.EVENT_READ)
        pending = b""
        while selector.get_map():
            for key, _ in selector.select():
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.data is not None:
                    printed.append(chunk)
                else:
                    sys.stderr.buffer.write(chunk)
                    sys.stderr.buffer.flush()
                    *lines, pending = (pending + chunk).replace(b"\r", b"\n").split(b"\n")
                    yield from filter(None, map(bytes.strip, lines))
        if pending.strip():
            yield pending


def _end_with_parent() -> None:
    """Have Linux end this process when its parent ends, even by a kill; elsewhere the lock keeps others waiting."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
