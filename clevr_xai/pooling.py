"""From C relevances a pixel to one non-negative number: the ten poolings of CLEVR-XAI.

Arras, Osman and Samek, Information Fusion 81 (2022). With R the relevances of one pixel and R+ = max(R, 0):

===============  =================    ===================  ==================
``sum,abs``      |Σ R|                ``pos,sum``          Σ R+
``sum,pos``      max(0, Σ R)          ``pos,max-norm``     max R+
``l1-norm``      Σ |R|                ``pos,l2-norm``      sqrt(Σ R+²)
``max-norm``     max |R|              ``pos,l2-norm,sq``   Σ R+²
``l2-norm``      sqrt(Σ R²)
``l2-norm,sq``   Σ R²
===============  =================    ===================  ==================

A map without channels has one: its poolings are |R|, R+, R² and R+².
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from attribution.errors import BadInput, listed


class _Relevance:
    """Maps with the channels in front, and what several poolings are made of; each part is computed once."""

    def __init__(self, maps):
        maps = np.asarray(maps)
        if maps.ndim not in (3, 4) or maps.dtype.kind not in "fiub":
            raise BadInput(
                f"maps are {maps.dtype} of shape {maps.shape}; numbers of shape (N, H, W, C) or (N, H, W) are needed"
            )
        planes = [maps] if maps.ndim == 3 else np.moveaxis(maps, -1, 0)
        # Sums over a last axis of three are slow; over planes they run along the memory.
        self.planes = [np.ascontiguousarray(plane, np.float64) for plane in planes]

    @functools.cached_property
    def sum(self):
        return sum(self.planes)

    @functools.cached_property
    def magnitudes(self):
        return [np.abs(plane) for plane in self.planes]

    @functools.cached_property
    def squares(self):
        return sum(np.square(plane) for plane in self.planes)

    @functools.cached_property
    def positive(self):
        return [np.maximum(plane, 0) for plane in self.planes]

    @functools.cached_property
    def positive_squares(self):
        return sum(np.square(plane) for plane in self.positive)


def _largest(planes):
    return functools.reduce(np.maximum, planes)


_FORMULAS: dict[str, Callable[[_Relevance], np.ndarray]] = {
    "sum,abs": lambda r: np.abs(r.sum),
    "sum,pos": lambda r: np.maximum(r.sum, 0),
    "l1-norm": lambda r: sum(r.magnitudes),
    "max-norm": lambda r: _largest(r.magnitudes),
    "l2-norm": lambda r: np.sqrt(r.squares),
    "l2-norm,sq": lambda r: r.squares,
    "pos,sum": lambda r: sum(r.positive),
    "pos,max-norm": lambda r: _largest(r.positive),
    "pos,l2-norm": lambda r: np.sqrt(r.positive_squares),
    "pos,l2-norm,sq": lambda r: r.positive_squares,
}


def pool(maps: npt.ArrayLike, poolings: Iterable[str] | None = None) -> dict[str, np.ndarray]:
    """Return several poolings of maps in one pass over them.

    Parameters
    ----------
    maps
        (N, H, W, C) numbers, or (N, H, W) for maps without channels.
    poolings
        Names of ``POOLINGS``; all ten by default.

    Returns
    -------
    dict of (N, H, W) float64
        By name, in the given order; non-negative.

    Raises
    ------
    BadInput
        If a pooling does not exist or the maps have another shape.
    """
    names = list(_FORMULAS if poolings is None else poolings)
    unknown = [name for name in names if name not in _FORMULAS]
    if unknown:
        raise BadInput(f"no pooling {unknown[0]!r}; the poolings are {listed(_FORMULAS)}")
    relevance = _Relevance(maps)
    # A formula may return a part that other poolings share or the maps themselves: nobody may write to it.
    found = {name: _FORMULAS[name](relevance).view() for name in names}
    for pooled in found.values():
        pooled.flags.writeable = False
    return found


def _pooling(name: str) -> Callable:
    def pooling(maps) -> np.ndarray:
        return pool(maps, [name])[name]

    pooling.__name__ = name
    pooling.__doc__ = f"Return the pooling ``{name}`` of (N, H, W, C) maps as (N, H, W) float64."
    return pooling


POOLINGS: Mapping[str, Callable] = MappingProxyType({name: _pooling(name) for name in _FORMULAS})
