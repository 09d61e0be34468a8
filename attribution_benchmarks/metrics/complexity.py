"""Complexity: how few positions hold a map. No network and no ground truth is used.

Positions count by their magnitude, the sum of absolute values over channels. These metrics describe a map and do not
say whether it is right: any single position has the best value of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric, of_maps
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


def _metric(name: str, function: Callable[[np.ndarray], np.ndarray], **described: Any) -> Metric:
    def of_batch(maps: np.ndarray, batch: Batch, scores: object) -> np.ndarray:
        return function(magnitude(maps, batch))

    return of_maps(name, of_batch, on_request=True, cost="none: maps alone", **described)


METRICS = (
    _metric(
        "sparseness",
        _sparseness,
        title="Sparseness",
        about="The Gini index of the map's magnitudes: 0 if all are equal, near 1 if one position holds the map. "
        "Between 0 and 1; more is better.",
        source="Chalasani et al., Concise Explanations of Neural Networks using Adversarial Training, ICML 2020; "
        "Quantus's `Sparseness`, but for its 1e-7 on each position",
        bounds=(0.0, 1.0),
        chance="1/3 for magnitudes drawn evenly from 0 to 1; 0.41 for those of normal numbers",
        criticism="It does not see where the positions are: a permuted map has the same value. A map of zeros counts "
        "as the uniform map.",
    ),
    _metric(
        "complexity",
        _complexity,
        title="Complexity",
        better="less",
        about="The entropy of the positions' shares of the map's magnitude, in nats: 0 if one position holds the map, "
        "ln(positions) if all are equal. Less is better.",
        source="Bhatt, Weller and Moura, Evaluating and Aggregating Feature-based Model Explanations, IJCAI 2020; "
        "Quantus's `Complexity`, but for its 1e-12 in the logarithm",
        bounds=(0.0, np.inf),
        chance="ln(positions) - 0.19 for magnitudes drawn evenly from 0 to 1",
        criticism="It does not see where the positions are, and it grows with their number, so that inputs of "
        "different sizes cannot be compared. A map of zeros counts as the uniform map.",
    ),
    _metric(
        "effective_complexity",
        _effective_complexity,
        title="Effective complexity",
        better="less",
        about="The number of positions whose magnitude is above 1e-5 of the map's largest. Less is better.",
        source="Nguyen and Rodríguez Martínez, On Quantitative Aspects of Model Interpretability, 2020, as in "
        "Quantus's `EffectiveComplexity`; the paper counts positions until the rest no longer affects the prediction",
        bounds=(0.0, np.inf),
        chance="the number of positions",
        criticism="Nearly every gradient has no exact zeros, so that the number is that of all positions. Only methods "
        "that clip at 0, or networks with dead units, differ. A map of zeros counts as the uniform map.",
    ),
)
