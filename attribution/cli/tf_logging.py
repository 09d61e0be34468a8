"""Keep TensorFlow's chatter off standard error, and let everything else through.

TensorFlow's C++ parts write a few lines straight to the process's standard error that no setting of their own
silences: while it is imported and looks for a GPU, and once more where oneDNN meets a type it does not know. They tell
the user of a command nothing, and they tear its progress bars apart. So the first import of TensorFlow runs with
standard error led through a process that leaves out exactly these lines, and from then on what is written to it past
Python is. It is a process of its own, so that what TensorFlow says before it brings this one down is still seen.
Python's own ``sys.stderr``, and with it every progress bar, stays the terminal it was. TensorFlow's Python warnings
(deprecations, retracing) are turned off by the level of its logger; errors are kept everywhere.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

CHATTER = "|".join(
    [
        r"All log messages before absl::InitializeLog\(\)",
        r"oneDNN custom operations are on",
        r"oneDNN supports DT_\w+ only on platforms with",
        r"Could not find cuda drivers on your machine",
        r"failed call to cuInit",
        r"This TensorFlow binary is optimized to use available CPU instructions",
        r"To enable the following instructions: .* rebuild TensorFlow",
    ]
)
_FILTER = """
import os, re, sys
chatter = re.compile(sys.argv[1].encode())
rest = b""
while True:
    read = os.read(0, 1 << 16)
    *lines, rest = re.split(rb"(?<=[\\n\\r])", rest + read)
    if not read and rest:
        lines, rest = [rest], b""
    kept = b"".join(line for line in lines if not chatter.search(line))
    while kept:
        kept = kept[os.write(2, kept):]
    if not read:
        break
"""


def import_tensorflow_quietly() -> None:
    """Arrange that TensorFlow is imported, and computes in this process from then on, without its chatter."""
    # Of the C++ log's levels, "2" leaves out information and warnings. Errors are kept.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _FirstImport())


class _FirstImport(importlib.abc.MetaPathFinder):
    """Find TensorFlow as always, but leave chatter out before it is imported; once."""

    def find_spec(self, fullname, path=None, target=None):
        """Return TensorFlow's own spec with a loader that is quiet, and None for all other modules."""
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec and spec.loader:
            load = spec.loader.exec_module

            def load_quietly(module):
                with without_chatter():
                    load(module)
                    module.config.list_physical_devices()  # looks for GPUs now, not between progress bars
                leave_chatter_out()
                logging.getLogger("tensorflow").setLevel(logging.ERROR)  # created with a level of its own by the import

            spec.loader.exec_module = load_quietly
        return spec


def import_without_devices() -> None:
    """Import TensorFlow in a process that is only copied: it asks for no GPU, which no copy could use after it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with without_chatter():
        importlib.import_module("tensorflow")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


def go_on_quietly() -> None:
    """Do in a copy of such a process what its import of TensorFlow has left."""
    with without_chatter():
        sys.modules["tensorflow"].config.list_physical_devices()
    leave_chatter_out()


@contextlib.contextmanager
def without_chatter() -> Iterator[None]:
    """Leave the lines of ``CHATTER`` out of what this process writes to standard error meanwhile."""
    with contextlib.ExitStack() as ending:
        leave_chatter_out(ending.callback, patience=None)
        yield


def leave_chatter_out(at_end: Callable = atexit.register, patience: float | None = 2.0) -> None:
    """Lead what is written to standard error past Python through a filter.

    Parameters
    ----------
    at_end
        Takes the function that ends it; by default it is called when this process ends.
    patience
        Seconds to wait at the end for the filter, which children of this process may hold open; None for as long as it
        takes.
    """
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        loud = os.dup(2)
    except OSError:  # closed: nobody listens
        return
    command = [sys.executable, "-I", "-S", "-c", _FILTER, CHATTER]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    with contextlib.suppress(AttributeError, OSError, ValueError):  # replaced by something without a descriptor
        if sys.stderr.fileno() == 2:
            sys.stderr = open(
                loud, "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors, buffering=1, closefd=False
            )
    os.dup2(reader.stdin.fileno(), 2)
    reader.stdin.close()
    at_end(_speak_up, loud, reader, os.getpid(), patience)


def _speak_up(loud: int, reader: subprocess.Popen, owner: int, patience: float | None) -> None:
    """Let everything through again, after what the filter still holds."""
    if os.getpid() != owner:  # a child that was forked; the filter is not its own
        return
    os.dup2(loud, 2)
    with contextlib.suppress(subprocess.TimeoutExpired):
        reader.wait(timeout=patience)
