"""CLEVR-XAI, a benchmark with pixel-exact ground truth (Arras, Osman and Samek, Information Fusion 81, 2022)."""

from attribution import __version__

__all__ = ["__version__"]
