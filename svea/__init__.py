"""SVEA, a small-scale benchmark of explanation methods on MNIST-1D (Sattarzadeh et al., ICCVW 2021)."""

import importlib
from typing import Any

from attribution import __version__

__all__ = ["BENCHMARK", "Settings", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the benchmark and its settings when they are first used."""
    if name not in ("BENCHMARK", "Settings"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("svea.definition"), name)
