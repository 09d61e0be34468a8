"""Rank correlations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> Any:
    """Return Spearman's rank correlation along the last axis, with average ranks for ties, (...) float64 in [-1, 1].

    NaN for fewer than two pairs, or where one side is constant or has NaN. Both sides are (..., N) numbers whose shapes
    broadcast.
    """
    from scipy.stats import rankdata

    sides = np.asarray(first, np.float64), np.asarray(second, np.float64)
    ranks, other = (rankdata(side, axis=-1) - (side.shape[-1] + 1) / 2 for side in sides)
    norm = np.sqrt((ranks**2).sum(axis=-1) * (other**2).sum(axis=-1))
    product = (ranks * other).sum(axis=-1)
    return np.divide(product, norm, out=np.full(np.shape(norm), np.nan), where=norm > 0)[()]
