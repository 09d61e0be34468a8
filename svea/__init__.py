"""SVEA, a small-scale benchmark of explanation methods on MNIST-1D (Sattarzadeh et al., ICCVW 2021)."""

from attribution import __version__

__all__ = ["__version__"]
