"""BIM: ten objects pasted on ten scenes, so that their relative importance to two models is known."""

from attribution import __version__

__all__ = ["__version__"]
