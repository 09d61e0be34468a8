"""Localization: whether a map is high inside a ground-truth mask.

Positions count by their magnitude, the sum of absolute values over channels, so evidence against the target counts
too, except in Focus. Ties are never broken by position. Every metric is NaN where the mask is empty or full, and where
the map has NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric, mask_of, of_maps
from attribution_benchmarks.metrics.descriptions import DESCRIPTIONS
from attribution_benchmarks.metrics.map_values import flat, magnitude, ratio

_Function = Callable[..., np.ndarray]
_TOLERANCE = 0.03  # of the longest side: the paper's 15 pixels on images of some 500
_HIGHEST = 0.05  # of the positions, for the top-k intersection


def _defined(function: _Function) -> _Function:
    """Return a metric that is NaN where the mask is empty or full or the map is not finite."""

    @functools.wraps(function)
    def defined(values: np.ndarray, mask: np.ndarray, *more: Any, **named: Any) -> np.ndarray:
        inside = flat(mask)
        known = inside.any(axis=1) & ~inside.all(axis=1) & np.isfinite(flat(values)).all(axis=1)
        return np.where(known, function(values, mask, *more, **named), np.nan)

    return defined


@_defined
def _pointing_game(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return whether the highest position of each map is in its mask, (N,) float64: 1 for a hit, 0 for a miss.

    ``values`` are (N, positions...), more is more important, and ``mask`` (N, positions...) bool. Among several highest
    positions it is the share of hits. A position is a hit, too, if it is no farther from the mask than ``_TOLERANCE``,
    rounded to whole positions.
    """
    from scipy.ndimage import distance_transform_edt

    reach = round(_TOLERANCE * max(mask.shape[1:]))
    found = np.zeros(len(values))
    for row, (one, truth) in enumerate(zip(values, mask, strict=True)):
        if truth.any():
            near = distance_transform_edt(~truth) <= reach if reach else truth
            found[row] = near[one == one.max()].mean() if np.isfinite(one).all() else np.nan
    return found


@_defined
def roc_auc(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the area under the ROC curve, (N,) in [0, 1]; arguments as for ``_pointing_game``.

    It is the share of pairs whose position in the mask is higher, ties counting half: Mann and Whitney's U, divided by
    the number of pairs.
    """
    from scipy.stats import rankdata

    values, mask = flat(values), flat(mask)
    inside = mask.sum(axis=1)
    pairs = inside * (mask.shape[1] - inside)
    ranks = rankdata(values, axis=1)
    above = (ranks * mask).sum(axis=1) - inside * (inside + 1) / 2
    return ratio(above, pairs)


@_defined
def _average_precision(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the mean precision at each position of the mask, (N,) in [0, 1]; arguments as for ``_pointing_game``.

    The area below the steps of the curve of precision over recall, as scikit-learn's ``average_precision_score``.
    """
    values, mask = flat(values), flat(mask)
    order = np.argsort(-values, axis=1)
    ranked, hits = np.take_along_axis(values, order, axis=1), np.take_along_axis(mask, order, axis=1)
    count = ranked.shape[1]
    # Equal values share the precision at the last of them.
    last = np.where(np.diff(ranked, axis=1, append=-np.inf) != 0, np.arange(count), count - 1)
    last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
    precision = np.take_along_axis(np.cumsum(hits, axis=1), last, axis=1) / (last + 1)
    inside = mask.sum(axis=1)
    total = (precision * hits).sum(axis=1)
    return ratio(total, inside)


@_defined
def _iou_at_area(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the intersection over union of the mask and as many highest positions as it has, (N,) in [0, 1].

    Where equal values compete for the last positions, the intersection is the mean over the choices. Arguments as for
    ``_pointing_game``.
    """
    inside = flat(mask).sum(axis=1)
    common = shared_with_highest(values, mask, inside)
    return ratio(common, 2 * inside - common)


@_defined
def _top_k_intersection(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the share of the k highest positions that are in the mask (Theiner, Müller-Budack and Ewerth, WACV 2022).

    (N,) in [0, 1]; k is a twentieth of all positions, at least one. Where equal values compete for the last
    positions, the mean over the choices. Without ties it is Quantus's ``TopKIntersection(abs=True)``; by default that
    ranks signed values, and its k is 1,000. Arguments as for ``_pointing_game``.
    """
    count = max(round(_HIGHEST * flat(mask).shape[1]), 1)
    return np.asarray(shared_with_highest(values, mask, np.full(len(mask), count)) / count)


def shared_with_highest(values: np.ndarray, mask: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return how many of each map's highest positions, (N,) int ``counts``, are in its mask, (N,) float64.

    Where equal values compete for the last ones, the mean over the choices counts.
    """
    values, mask = flat(values), flat(mask)
    ranked = -np.sort(-values, axis=1)
    least = np.take_along_axis(ranked, np.maximum(counts - 1, 0)[:, None], axis=1)
    above, equal = values > least, values == least
    left = counts - above.sum(axis=1)
    shared = (equal & mask).sum(axis=1) / np.maximum(equal.sum(axis=1), 1)
    common: np.ndarray = (above & mask).sum(axis=1) + left * shared
    return common


@_defined
def _attribution_localisation(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the share of each map that is in its mask, (N,) in [0, 1]; NaN for zeros.

    Kohlbrenner et al., IJCNN 2020; the relevance mass accuracy of Arras et al. (2022) under another name. Quantus's
    ``AttributionLocalisation`` adds 1e-9 to the divisor. Arguments as for ``_pointing_game``.
    """
    return ratio((flat(values) * flat(mask)).sum(axis=1), flat(values).sum(axis=1))


def _positive(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return the sum of positive values over channels, (N, positions...); ones for a map that is negative alone."""
    values = magnitude(np.maximum(maps, 0), batch)
    axes = tuple(range(1, values.ndim))
    negative = ~values.any(axis=axes, keepdims=True) & magnitude(maps, batch).any(axis=axes, keepdims=True)
    return np.where(negative, 1.0, values)


def _metric(
    name: str, function: _Function, per_position: Callable[[np.ndarray, Batch], np.ndarray] = magnitude
) -> Metric:
    def of_batch(maps: np.ndarray, batch: Batch, scores: object) -> np.ndarray:
        return function(per_position(maps, batch), mask_of(batch))

    return of_maps(name, of_batch, masks=True, on_request=True, rate=name == "pointing_game", **DESCRIPTIONS[name])


METRICS = (
    _metric("pointing_game", _pointing_game),
    _metric("roc_auc", roc_auc),
    _metric("average_precision", _average_precision),
    _metric("iou_at_area", _iou_at_area),
    _metric("top_k_intersection", _top_k_intersection),
    _metric("attribution_localisation", _attribution_localisation),
    _metric("focus", _attribution_localisation, _positive),
)
