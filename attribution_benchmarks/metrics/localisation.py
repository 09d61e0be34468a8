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

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric, mask_of, of_maps
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
def _pointing_game(values: np.ndarray, mask: np.ndarray, tolerance: float = _TOLERANCE) -> np.ndarray:
    """Return whether the highest position of each map is in its mask, (N,) float64: 1 for a hit, 0 for a miss.

    ``values`` are (N, positions...), more is more important, and ``mask`` (N, positions...) bool. Among several highest
    positions it is the share of hits. ``tolerance`` is the distance from the mask that still counts as a hit, as a
    share of the longest side, rounded to whole positions.
    """
    from scipy.ndimage import distance_transform_edt

    reach = round(tolerance * max(mask.shape[1:]))
    found = np.zeros(len(values))
    for row, (one, truth) in enumerate(zip(values, mask, strict=True)):
        if truth.any():
            near = distance_transform_edt(~truth) <= reach if reach else truth
            found[row] = near[one == one.max()].mean() if np.isfinite(one).all() else np.nan
    return found


@_defined
def _roc_auc(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
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
    name: str,
    function: _Function,
    per_position: Callable[[np.ndarray, Batch], np.ndarray] = magnitude,
    **described: Any,
) -> Metric:
    def of_batch(maps: np.ndarray, batch: Batch, scores: object) -> np.ndarray:
        return function(per_position(maps, batch), mask_of(batch))

    return of_maps(name, of_batch, masks=True, on_request=True, cost="none: maps alone", bounds=(0.0, 1.0), **described)


def pointing_game_metric(share: str = "") -> Metric:
    """Return the pointing game, ``_pointing_game``, or that of another tolerance, ``pointing_game@SHARE``.

    ``share`` is the tolerance as a share of the longest side, from 0 to 1, as text (else ``BadInput``); empty for 0.03.
    """
    name = f"pointing_game@{share}" if share else "pointing_game"
    try:
        tolerance = float(share or _TOLERANCE)
        if not 0 <= tolerance <= 1:
            raise ValueError
    except ValueError as error:
        raise BadInput(f"--metrics={name}: the tolerance is a share of the longest side, from 0 to 1") from error
    percent = f"{100 * tolerance:g} %"
    return _metric(
        name,
        functools.partial(_pointing_game, tolerance=tolerance),
        title=f"Pointing game, {percent}" if share else "Pointing game",
        rate=True,
        about=f"How often the map's highest position lies in the mask, or no farther from it than {percent} of the "
        "longest side. Between 0 and 1; more is better.",
        source="Zhang et al., Top-down Neural Attention by Excitation Backprop, IJCV 2018",
        chance="the share of positions in the mask or within the tolerance of it",
        criticism="One position decides. A spot in the middle of the image wins where objects lie in the middle, so "
        "compare it with the center prior. The tolerance, 4 pixels on a side of 128 and 1 point of 40, makes small "
        "masks several times larger; Quantus's pointing game has none. `pointing_game@0` has none either, and "
        "`pointing_game@0.1` one of 10 %.",
    )


METRICS = (
    pointing_game_metric(),
    _metric(
        "roc_auc",
        _roc_auc,
        title="ROC AUC",
        about="How often a position in the mask has a higher value than one outside, all pairs counted, ties as one "
        "half. Between 0 and 1; more is better, one half is chance.",
        source="Fawcett, An Introduction to ROC Analysis, 2006; Quantus's `AUC?abs=True`, which ranks signed values by "
        "default",
        chance="0.5",
        criticism="Where the mask is small it is lenient: many positions outside may be above the mask while few of "
        "all pairs are lost. It does not see how much higher the mask is.",
    ),
    _metric(
        "average_precision",
        _average_precision,
        title="Average precision",
        about="From the highest position down, the share of the mask among what was passed, averaged over the mask's "
        "positions. Between 0 and 1; more is better.",
        source="Buckley and Voorhees, Evaluating Evaluation Measure Stability, SIGIR 2000",
        chance="little above the mask's share of the image",
        criticism="Its value for a random map is the mask's share, so that masks of different sizes cannot be "
        "compared. A map that marks only the discriminative part of an object scores low.",
    ),
    _metric(
        "iou_at_area",
        _iou_at_area,
        title="IoU at the mask's area",
        about="As many of the map's highest positions as the mask has, against the mask: intersection over union. "
        "Between 0 and 1; more is better.",
        source="after Arras, Osman and Samek, Information Fusion 81, 2022, whose rank accuracy r it is as r / (2 - r)",
        chance="about a / (2 - a), a the mask's share of the image",
        criticism="It knows the mask's size, which nobody who reads a map does. An object's outline alone, or its "
        "discriminative part alone, scores low.",
    ),
    _metric(
        "top_k_intersection",
        _top_k_intersection,
        title="Top-k intersection",
        about="The share of the map's highest twentieth of positions that is in the mask. Between 0 and 1; more is "
        "better.",
        source="Theiner, Müller-Budack and Ewerth, Interpretable Semantic Photo Geolocation, WACV 2022; without ties "
        "it is Quantus's `TopKIntersection?abs=True`; by default that ranks signed values, and its k is 1,000",
        chance="the mask's share of the image",
        criticism="A mask of less than a twentieth of the image cannot be filled, so that 1 is out of reach there.",
    ),
    _metric(
        "attribution_localisation",
        _attribution_localisation,
        title="Attribution localization",
        about="The share of the map's magnitude that is in the mask. Between 0 and 1; more is better.",
        source="Kohlbrenner et al., Towards Best Practice in Explaining Neural Network Decisions with LRP, IJCNN 2020; "
        "the relevance mass accuracy of Arras et al., 2022; Quantus's `AttributionLocalisation`",
        chance="the mask's share of the image",
        criticism="Little noise on a large background outweighs a small object.",
    ),
    _metric(
        "focus",
        _attribution_localisation,
        _positive,
        title="Focus",
        about="The share of the map's positive values that is in the mask. Of a mosaic whose mask is the quadrants of "
        "the explained class it is Focus. Between 0 and 1; more is better.",
        source="Arias-Duart et al., Focus! Rating XAI Methods and Finding Biases, FUZZ-IEEE 2022; on mosaics Quantus's "
        "`Focus`",
        chance="the mask's share of the image",
        criticism="The published metric needs mosaics of images of two classes, which a benchmark provides as inputs "
        "with their masks; no metric builds them, because the value of an input would depend on the inputs beside it. "
        "On other masks it is attribution localization of positive values. A map without positive values counts as the "
        "uniform map.",
    ),
)
