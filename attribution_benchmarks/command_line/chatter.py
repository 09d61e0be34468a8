"""Keep TensorFlow's start-up chatter off standard error, and let everything else through.

While it is imported and looks for a GPU, TensorFlow writes a few lines straight to the process's standard error that
no setting of its own silences: its C++ log is not yet set up. They tell the user of a command nothing. So the first
import of TensorFlow runs with standard error led through a process that leaves out exactly these lines. It is a
process of its own, so that what TensorFlow says before it brings this one down is still seen.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import os
import subprocess
import sys

CHATTER = "|".join(
    [
        r"All log messages before absl::InitializeLog\(\)",
        r"oneDNN custom operations are on",
        r"Could not find cuda drivers on your machine",
        r"failed call to cuInit",
        r"This TensorFlow binary is optimized to use available CPU instructions",
        r"To enable the following instructions: .* rebuild TensorFlow",
    ]
)
_FILTER = """
import re, sys
chatter = re.compile(sys.argv[1].encode())
for line in sys.stdin.buffer:
    if not chatter.search(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""


def import_tensorflow_quietly() -> None:
    """Arrange that the first import of TensorFlow in this process comes without its chatter."""
    # Of the C++ log's levels, "2" leaves out information and warnings. Errors are kept.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _FirstImport())


class _FirstImport(importlib.abc.MetaPathFinder):
    """Find TensorFlow as always, but import it under ``without_chatter``; once."""

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
                    module.config.list_physical_devices()  # looks for GPUs now, not later and aloud

            spec.loader.exec_module = load_quietly
        return spec


@contextlib.contextmanager
def without_chatter():
    """Leave the lines of ``CHATTER`` out of what this process writes to standard error meanwhile."""
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        loud = os.dup(2)
    except OSError:  # closed: nobody listens
        yield
        return
    command = [sys.executable, "-I", "-S", "-c", _FILTER, CHATTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as reader:
        os.dup2(reader.stdin.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(loud, 2)
            os.close(loud)
