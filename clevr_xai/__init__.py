"""CLEVR-XAI, a benchmark with pixel-exact ground truth (Arras, Osman and Samek, Information Fusion 81, 2022)."""

import importlib
from typing import Any

from attribution import __version__

__all__ = ["BENCHMARK", "Settings", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the benchmark and its settings when they are first used."""
    if name not in ("BENCHMARK", "Settings"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("clevr_xai.definition"), name)
