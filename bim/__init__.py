"""BIM: ten objects pasted on ten scenes, so that their relative importance to two models is known."""

import importlib
from typing import Any

from attribution import __version__

__all__ = ["BENCHMARK", "Settings", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the benchmark and its settings when they are first used."""
    if name not in ("BENCHMARK", "Settings"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("bim.definition"), name)
