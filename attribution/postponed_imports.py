"""TensorFlow's import without packages that a command does not use.

TensorFlow and Keras import scikit-learn, JAX and Matplotlib's windows where these happen to be installed, for wrappers,
converters and galleries. These parts are imported at their first use instead; nothing is hidden from a user's code.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_POSTPONED = {
    "keras.wrappers", "keras._tf_keras.keras.wrappers",  # scikit-learn
    "tensorflow._api.v2.lite", "tensorflow._api.v2.compat.v1.lite", "tensorflow._api.v2.compat.v2.lite",  # JAX
    "keras.visualization", "keras._tf_keras.keras.visualization", "keras.src.visualization",  # Matplotlib
}  # fmt: skip
# Keras looks for JAX to repair an old version of it for checkpoints by Orbax.
_UNNEEDED = "jax"


@contextlib.contextmanager
def postponed_imports() -> Iterator[None]:
    """Postpone the import of parts of TensorFlow and Keras during the block until they are first used."""
    finder = _Postponing()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Postponing(importlib.abc.MetaPathFinder):
    """Postpones imports of the thread that made it; those of other threads meanwhile are a user's."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a postponed module with a lazy loader, and None for other modules."""
        if threading.get_ident() != self._thread:
            return None
        if fullname == _UNNEEDED:
            raise ModuleNotFoundError(f"{fullname} is not needed yet", name=fullname)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname in _POSTPONED else None
        if spec and spec.loader:
            if fullname.endswith(".lite"):
                # Its import sets tensorflow.lite, which TensorFlow then sets to the public module: not the reverse.
                importlib.import_module("tensorflow.lite")
            spec.loader = importlib.util.LazyLoader(_Loader(spec.loader))
        return spec


class _Loader(importlib.abc.Loader):
    """Loads a module that may put a wrapper in its own place, which ``LazyLoader`` does not allow."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        sys.modules[module.__name__] = module
