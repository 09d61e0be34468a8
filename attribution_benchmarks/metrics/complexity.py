"""Complexity: how few positions hold a map. No network and no ground truth is used.

Positions count by their magnitude, the sum of absolute values over channels. These metrics describe a map and do not
say whether it is right: any single position has the best value of each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric, of_maps
from attribution_benchmarks.metrics.descriptions import DESCRIPTIONS
from attribution_benchmarks.metrics.map_values import flat, magnitude, ratio

_LEAST = 1e-5  # of a map's largest magnitude: what counts in effective complexity


def _sparseness(values: np.ndarray) -> np.ndarray:
    """Return the Gini index of each map's values, (N,) in [0, 1 - 1 / positions]; NaN for zeros.

    0 for equal values, 1 - 1 / positions for a single one (Chalasani et al., ICML 2020). Quantus's ``Sparseness`` adds
    1e-7 to each value of a map whose largest is 1, and differs by less than positions · 1e-7 / the sum of that map.
    Values are (N, positions...), not negative.
    """
    ranked = np.sort(flat(values), axis=1)
    count = ranked.shape[1]
    weights = 2 * np.arange(1, count + 1) - count - 1
    return ratio((weights * ranked).sum(axis=1), count * ranked.sum(axis=1))


def _complexity(values: np.ndarray) -> np.ndarray:
    """Return the entropy of each map's shares, (N,) in nats in [0, ln(positions)]; NaN for zeros.

    -Σ p ln p, where p is a position's share of the sum (Bhatt, Weller and Moura, IJCAI 2020). Quantus's ``Complexity``
    adds 1e-12 to p in the logarithm, and is smaller by less than positions · 1e-12. Values are as for ``_sparseness``.
    """
    from scipy.special import entr

    rows = flat(values)
    total = np.broadcast_to(rows.sum(axis=1, keepdims=True), rows.shape)
    entropy: np.ndarray = entr(ratio(rows, total)).sum(axis=1)
    return entropy


def _effective_complexity(values: np.ndarray) -> np.ndarray:
    """Return the number of positions above 1e-5 of each map's largest value, (N,) float64; NaN for zeros.

    Equal to Quantus's ``EffectiveComplexity``. In its source (Nguyen and Rodríguez Martínez, 2020) positions count
    until the rest no longer affects the prediction. Values are as for ``_sparseness``.
    """
    rows = flat(values)
    top = rows.max(axis=1, keepdims=True)
    return np.where(top[:, 0] > 0, (rows > _LEAST * top).sum(axis=1), np.nan)


def _metric(name: str, function: Callable[[np.ndarray], np.ndarray]) -> Metric:
    def of_batch(maps: np.ndarray, batch: Batch, scores: object) -> np.ndarray:
        return function(magnitude(maps, batch))

    return of_maps(name, of_batch, on_request=True, **DESCRIPTIONS[name])


METRICS = (
    _metric("sparseness", _sparseness),
    _metric("complexity", _complexity),
    _metric("effective_complexity", _effective_complexity),
)
