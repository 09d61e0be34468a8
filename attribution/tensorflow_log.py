"""TensorFlow's import without parts that few programs need, and in commands its log without uninformative lines.

TensorFlow and Keras import JAX and Matplotlib where they happen to be installed, for converters and galleries. IPython,
pandas and parts of Keras that import it, scikit-learn and OpenCV are loaded at their first use. Imports no TensorFlow
until a function is called.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from attribution.errors import MissedSum

# Lines of TensorFlow's log without information.
_DROPPED = "|".join(
    [
        r"All log messages before absl::InitializeLog\(\)",
        r"oneDNN custom operations are on",
        r"oneDNN supports DT_\w+ only on platforms with",
        r"Could not find cuda drivers on your machine",
        r"failed call to cuInit",
        r"This TensorFlow binary is optimized to use available CPU instructions",
        r"remapper failed: INVALID_ARGUMENT: Mutation::Apply error",  # a graph that runs as it was
        r"To enable the following instructions: .* rebuild TensorFlow",
    ]
)
_FILTER = """
import re, sys
dropped = re.compile(sys.argv[1].encode())
for line in sys.stdin.buffer:
    if not dropped.search(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""


def quiet_tensorflow() -> None:
    """Drop uninformative log lines of TensorFlow from standard error, from its first import in this process on.

    TensorFlow's C++ code writes them to file descriptor 2 whatever the log level: during its import, while it looks for
    GPUs, and when oneDNN meets an unsupported type. A small process filters the descriptor, so that messages before a
    crash are not lost. ``sys.stderr`` keeps the original descriptor, so progress bars still see a terminal.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only
    _FIRST_IMPORT.is_quiet = True


class _FirstImport(importlib.abc.MetaPathFinder):
    """Wraps the loader of TensorFlow, once; refuses ``_UNNEEDED`` modules, postpones names that end as ``_LATE``."""

    is_quiet = False
    thread: int | None = None  # of the import; other threads may import what they need

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return TensorFlow's spec with another loader, and None for other modules."""
        is_within = self.thread == threading.get_ident()
        if is_within and fullname in _UNNEEDED and _JAX_BACKEND not in sys.modules:
            raise ModuleNotFoundError(f"TensorFlow is imported without {fullname}", name=fullname)
        is_wanted = fullname.endswith(_LATE) if is_within else fullname == "tensorflow" and self.thread is None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if is_wanted else None
        if spec and spec.loader and is_within:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        elif spec and spec.loader:
            loader: Any = spec.loader
            load = loader.exec_module

            def load_filtered(module: object) -> None:
                self.thread = threading.get_ident()
                try:
                    with _filtered_stderr() if self.is_quiet else contextlib.nullcontext():
                        load(module)
                finally:
                    sys.meta_path.remove(self)
                if self.is_quiet:
                    _silence_python_warnings()
                    list_devices()

            loader.exec_module = load_filtered
        return spec


_UNNEEDED, _JAX_BACKEND = ("jax", "matplotlib"), "keras.src.backend.jax"
_LATE = ("IPython", "pandas", "keras.visualization", "keras.src.visualization", "keras.wrappers", ".array_slicing")
_FIRST_IMPORT = _FirstImport()
if "tensorflow" not in sys.modules:
    sys.meta_path.insert(0, _FIRST_IMPORT)


def import_without_devices() -> None:
    """Import TensorFlow in a process that only forks; a GPU opened here could not be used in its children."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with _filtered_stderr():
        importlib.import_module("tensorflow")
    _silence_python_warnings()


def list_devices() -> None:
    """Look for GPUs now, not between progress bars, and filter standard error until this process ends."""
    with _filtered_stderr():
        sys.modules["tensorflow"].config.list_physical_devices()
    original, _ = _start_filter()
    with contextlib.suppress(AttributeError, OSError, ValueError):  # sys.stderr has no descriptor
        if original is not None and sys.stderr.fileno() == 2:
            sys.stderr = open(
                original, "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors, buffering=1, closefd=False
            )


@contextlib.contextmanager
def _filtered_stderr() -> Iterator[None]:
    """Drop the lines that match ``_DROPPED`` from file descriptor 2 during the block."""
    original, process = _start_filter()
    try:
        yield
    finally:
        if original is not None and process is not None:
            os.dup2(original, 2)
            os.close(original)
            process.wait()


def _start_filter() -> tuple[int | None, subprocess.Popen[bytes] | None]:
    """Redirect descriptor 2 to a filter; return a copy of the original, None if it is closed, and the process."""
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        original = os.dup(2)
    except OSError:
        return None, None
    command = [sys.executable, "-I", "-S", "-c", _FILTER, _DROPPED]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin  # a pipe
    os.dup2(process.stdin.fileno(), 2)
    process.stdin.close()
    return original, process


def _silence_python_warnings() -> None:
    """Keep only errors of TensorFlow's Python loggers: no deprecations, no retracing. Commands print missed sums."""
    warnings.simplefilter("ignore", MissedSum)
    for name in ("tensorflow", "absl"):  # the second warns that gradients of a JAX file will fail; they do not
        logging.getLogger(name).setLevel(logging.ERROR)
