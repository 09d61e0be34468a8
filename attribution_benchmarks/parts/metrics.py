"""Metrics of maps that are summed over parts: agreement with the exact values, and the protocol of FunnyBirds.

Hesse, Schaub-Meyer and Roth, "FunnyBirds: A Synthetic Vision Dataset for a Part-Based Analysis of Explainable AI
Methods", ICCV 2023. A part's importance is the sum of the signed map over its pixels, which their protocol dilates by
5 x 5. A part is important at a threshold t if its importance exceeds t times the sum of the whole map.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attribution_benchmarks.core.batch import Batch, memoize_last
from attribution_benchmarks.core.metric import Metric, PerSampleMetric, of_maps
from attribution_benchmarks.metrics.descriptions import read_descriptions
from attribution_benchmarks.metrics.map_values import correlation_of_drops, evidence, flat, rank_of_drops, ratio
from attribution_benchmarks.parts.truth import (
    INFLUENCE,
    SETS,
    exact_values,
    is_correct,
    set_number,
    single_drops,
    without_influence,
)

THRESHOLDS = np.linspace(0.01, 0.50, 80)
_PARTS = SETS.shape[1]
_DILATION = 5
DESCRIPTIONS = read_descriptions(pathlib.Path(__file__).with_name("metrics.toml"))


@memoize_last
def _regions(batch: Batch, dilated: bool) -> np.ndarray:
    """Return the pixels of parts and background objects, (N, regions, H, W) bool."""
    regions = np.asarray(batch.truth["regions"])
    if not dilated:
        return regions
    from scipy.ndimage import maximum_filter

    return maximum_filter(regions, (1, 1, _DILATION, _DILATION))


def region_sums(maps: np.ndarray, batch: Batch, dilated: bool) -> np.ndarray:
    """Return the sums of signed maps over parts and background objects, (N, regions) float64."""
    return np.asarray(np.einsum("nhw,nrhw->nr", evidence(maps, batch), _regions(batch, dilated)))


def sign_agreement(sums: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the share of the parts of influence whose sign is that of the exact value, (N,).

    Parts count whose exact value is at least five per cent of the largest.
    """
    counts = np.abs(exact) >= INFLUENCE * np.abs(exact).max(axis=1, keepdims=True)
    return ratio((counts & (np.sign(sums) == np.sign(exact))).sum(axis=1), counts.sum(axis=1))


def top_part(sums: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return whether a map has its largest sum on the part of the largest exact value, (N,); ties count in part."""
    highest = sums == sums.max(axis=1, keepdims=True)
    hit = np.take_along_axis(highest, exact.argmax(axis=1)[:, np.newaxis], axis=1)[:, 0]
    return hit / highest.sum(axis=1)


def _agreement(
    maps: np.ndarray, batch: Batch, scores: Any, compare: Callable, dilated: bool, probability: bool = False
):
    return compare(region_sums(maps, batch, dilated)[:, :_PARTS], exact_values(batch, probability))


def share_outside(maps: np.ndarray, batch: Batch, scores: Any, dilated: bool) -> np.ndarray:
    """Return the share of a map's magnitude outside of all parts, (N,)."""
    values = np.abs(evidence(maps, batch))
    outside = ~_regions(batch, dilated)[:, :_PARTS].any(axis=1)
    return ratio(flat(values * outside).sum(axis=1), flat(values).sum(axis=1))


def important_regions(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return which parts and background objects are important at each of ``THRESHOLDS``, (N, 80, regions) bool."""
    total = flat(evidence(maps, batch)).sum(axis=1)
    return region_sums(maps, batch, True)[:, np.newaxis] > (total[:, np.newaxis] * THRESHOLDS)[..., np.newaxis]


def data_check(important: np.ndarray, batch: Batch) -> np.ndarray:
    """Return the largest share of a minimal sufficient set that is important, (N, thresholds); NaN if misclassified."""
    found = np.einsum("ntp,sp->nts", important[..., :_PARTS].astype(float), SETS) / np.maximum(SETS.sum(axis=1), 1)
    found = np.where(np.asarray(batch.truth["sufficient"])[:, np.newaxis], found, 0.0).max(axis=2)
    return _of_correct(found, batch)


def preservation_check(important: np.ndarray, batch: Batch) -> np.ndarray:
    """Return whether the important parts alone have the same prediction, (N, thresholds); NaN if misclassified."""
    return _of_correct(_prediction(important[..., :_PARTS], batch) == _targets(batch), batch)


def deletion_check(important: np.ndarray, batch: Batch) -> np.ndarray:
    """Return whether the prediction changes without the important parts, (N, thresholds); NaN if misclassified."""
    return _of_correct(_prediction(~important[..., :_PARTS], batch) != _targets(batch), batch)


def distractibility(important: np.ndarray, batch: Batch) -> np.ndarray:
    """Return 1 minus the share of regions without influence that are important, (N, thresholds); NaN without such."""
    irrelevant = without_influence(batch)[:, np.newaxis]
    count = np.broadcast_to(irrelevant.sum(axis=2), important.shape[:2])
    return 1 - ratio((important & irrelevant).sum(axis=2), count)


def _prediction(present: np.ndarray, batch: Batch) -> np.ndarray:
    predicted = np.asarray(batch.truth["worth"]).argmax(axis=2)
    return np.take_along_axis(predicted, set_number(present), axis=1)


def _targets(batch: Batch) -> np.ndarray:
    return np.asarray(batch.targets)[:, np.newaxis]


def _of_correct(found: np.ndarray, batch: Batch) -> np.ndarray:
    return np.where(is_correct(batch)[:, np.newaxis], found, np.nan)


CHECKS: dict[str, Callable[[np.ndarray, Batch], np.ndarray]] = {
    "data_check": data_check,
    "preservation_check": preservation_check,
    "deletion_check": deletion_check,
    "distractibility": distractibility,
}


def _at_thresholds(maps: np.ndarray, batch: Batch, scores: Any, check: Callable) -> np.ndarray:
    """Return the mean over the thresholds, then the value at each, (N, 81)."""
    found = check(important_regions(maps, batch), batch)
    return np.concatenate([found.mean(axis=1, keepdims=True), found], axis=1)


def mean_over_inputs(curve: np.ndarray) -> np.ndarray:
    """Return the mean over the inputs that have a value, (thresholds,), of (N, thresholds); NaN without such."""
    return ratio(np.nansum(curve, axis=0), np.isfinite(curve).sum(axis=0))


def _sum_of_checks(curves: Mapping[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Return what the published protocol maximizes over thresholds, (thresholds,)."""
    means = {name: np.nan_to_num(mean_over_inputs(curve[rows])) for name, curve in curves.items()}
    distracted = means.pop("distractibility")
    return np.asarray(sum(means.values()) / 3 + distracted)


def cross_fitted(curves: Mapping[str, np.ndarray], seed: int = 0) -> dict[str, np.ndarray]:
    """Return each input's value at the threshold that is best on the other half of the inputs, (N,) by check."""
    count = len(curves["distractibility"])
    half = np.random.default_rng(seed).permutation(count) % 2 == 1
    chosen = np.where(half, _sum_of_checks(curves, ~half).argmax(), _sum_of_checks(curves, half).argmax())
    return {name: curve[np.arange(count), chosen] for name, curve in curves.items()}


def mean_scores(checks: Mapping[str, float], single_deletion: float, target_sensitivity: float) -> dict[str, float]:
    """Return the published summary: completeness, correctness, contrastivity and their mean.

    Completeness is the mean of two numbers: the mean of the three checks, and distractibility.
    """
    three = (checks["data_check"] + checks["preservation_check"] + checks["deletion_check"]) / 3
    found = {
        "completeness": (three + checks["distractibility"]) / 2,
        "correctness": single_deletion,
        "contrastivity": target_sensitivity,
    }
    return {**found, "mean_score": sum(found.values()) / 3}


def single_deletion(maps: np.ndarray, batch: Batch, scores: Any) -> np.ndarray:
    """Return Spearman's correlation of a map's sums with the drops without each part, mapped to 0 to 1, (N,)."""
    return (1 + rank_of_drops(region_sums(maps, batch, True)[:, :_PARTS], single_drops(batch))) / 2


def target_sensitivity(maps: np.ndarray, batch: Batch, explain: Any) -> np.ndarray:
    """Return how often a class's shared parts get more in its own map than in another class's, (N,) of 0, 0.5 or 1.

    NaN for images without two classes that share two parts each, and where removing a class's shared parts does not
    lower its score more than removing the other's.
    """
    found = np.full(len(batch), np.nan)
    rows = np.flatnonzero(_behaves(batch))
    if not len(rows):
        return found
    some = batch.take(rows)
    classes, shared = np.asarray(some.truth["pair"]), np.asarray(some.truth["pair_parts"])
    sums = []
    for place in range(2):
        changed = Batch(some.inputs, some.seeds, classes[:, place], masks=some.masks, truth=some.truth)
        sums.append(region_sums(explain(changed), some, True)[:, :_PARTS])
    more = [(shared[:, place] * (sums[place] - sums[1 - place])).sum(axis=1) > 0 for place in range(2)]
    found[rows] = np.mean(more, axis=0)
    return found


def _behaves(batch: Batch) -> np.ndarray:
    """Return whether the network's scores of the two other classes depend on their shared parts, (N,) bool."""
    pair, shared = np.asarray(batch.truth["pair"]), np.asarray(batch.truth["pair_parts"])
    known = pair[:, 0] >= 0
    worth = np.asarray(batch.truth["worth"])
    rows = np.arange(len(worth))
    without = [set_number(~shared[:, place]) for place in range(2)]
    first, second = ([worth[rows, sets, pair[:, place]] for sets in without] for place in range(2))
    return known & (first[0] < first[1]) & (second[1] < second[0])


def _of_parts(name: str, function: Callable) -> Metric:
    return of_maps(name, function, masks=True, **DESCRIPTIONS[name])


def _with_and_without_dilation(name: str, function: Callable) -> list[Metric]:
    """Return a metric of maps, ``function(maps, batch, scores, dilated)``, without and with dilation."""
    plain = _of_parts(name, functools.partial(function, dilated=False))
    measure = PerSampleMetric(f"{name}_dilated", functools.partial(function, dilated=True), degenerate_maps="uniform")
    why = "The parts' pixels are dilated by 5 x 5, because thin parts lose mass at their edges."
    dilated = dataclasses.replace(
        plain, name=measure.name, title=f"{plain.title}, dilated", about=f"{plain.about} {why}", measure=measure
    )
    return [plain, dilated]


def _protocol(name: str, function: Callable, **measure: Any) -> Metric:
    return Metric(name, measure=PerSampleMetric(name, function, **measure), masks=True, **DESCRIPTIONS[name])


METRICS = (
    *_with_and_without_dilation("shapley_correlation", functools.partial(_agreement, compare=correlation_of_drops)),
    *_with_and_without_dilation("sign_agreement", functools.partial(_agreement, compare=sign_agreement)),
    *_with_and_without_dilation("top_part", functools.partial(_agreement, compare=top_part)),
    _of_parts(
        "probability_correlation",
        functools.partial(_agreement, compare=correlation_of_drops, dilated=False, probability=True),
    ),
    *_with_and_without_dilation("share_outside", share_outside),
    # The checks are their mean over the thresholds, and their curve over these.
    *(
        _protocol(name, functools.partial(_at_thresholds, check=check), width=1 + len(THRESHOLDS), digits=6)
        for name, check in CHECKS.items()
    ),
    _of_parts("single_deletion", single_deletion),
    _protocol("target_sensitivity", target_sensitivity, of_controls=False, needs_explainer=True),
)
