"""Rank correlations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> Any:
    """Return Spearman's rank correlation along the last axis, with average ranks for ties, (...) float64 in [-1, 1].

    NaN for fewer than two pairs, or where one side is constant. Both sides are (..., N) finite numbers whose shapes
    broadcast; else ``ValueError``.
    """
    from scipy.stats import rankdata

    sides = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if sides[0].shape[-1] != sides[1].shape[-1]:
        raise ValueError(f"{sides[0].shape[-1]} values against {sides[1].shape[-1]}")
    if not all(np.isfinite(side).all() for side in sides):
        raise ValueError("values are not finite")
    ranks, other = (rankdata(side, axis=-1) - (side.shape[-1] + 1) / 2 for side in sides)
    norm = np.sqrt((ranks**2).sum(axis=-1) * (other**2).sum(axis=-1))
    product = (ranks * other).sum(axis=-1)
    return np.divide(product, norm, out=np.full(np.shape(norm), np.nan), where=norm > 0)[()]
