"""Sanity: how much a map depends on the learnt weights and on the explained class, and how little on noise.

Weights are randomized from the output towards the input (Adebayo et al., "Sanity Checks for Saliency Maps", NeurIPS
2018) by shuffling the values of each variable, in the order of use in the graph. Positions count by their magnitude, so
a map that only changes sign stays the same; each map is divided by its largest value.

All maps of an input explain ``batch.targets``, whatever the prediction for the random network or the noisy copy.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attribution import batching
from attribution_benchmarks.core.batch import Batch, memoize_last
from attribution_benchmarks.core.controls import runner_up
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
from attribution_benchmarks.core.random_weights import graph_order, with_shuffled_weights
from attribution_benchmarks.metrics.descriptions import DESCRIPTIONS
from attribution_benchmarks.metrics.imputation import Explain, as_floats
from attribution_benchmarks.metrics.map_values import flat, magnitude, ratio, spearman

_Similarity = Callable[[np.ndarray, np.ndarray], np.ndarray]
STAGES = 4  # groups of variables, from the output to the input
_COPIES = 8  # noisy inputs that sMPRT averages over
NOISE = 0.05  # standard deviation as a share of an input's range, of sMPRT's copies and of Max-Sensitivity
_DRAWS = 10  # noisy inputs of Max-Sensitivity, as captum's ``sensitivity_max`` has by default
_RADIUS = 3  # of a window of structural similarity
_BINS = 100  # of the histogram whose entropy is a map's complexity


def ssim(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the mean structural similarity of two maps of each input, (N,) in [-1, 1].

    Wang et al., "Image Quality Assessment", IEEE TIP 2004, with uniform windows of 7 positions a side and maps, (N,
    positions...), in [0, 1], as scikit-image's ``structural_similarity(..., data_range=1)``, without windows that cross
    the border. On shorter axes the windows are smaller.
    """
    from scipy.ndimage import uniform_filter1d

    axes = range(1, first.ndim)
    radii = {axis: min(_RADIUS, (first.shape[axis] - 1) // 2) for axis in axes}
    count = int(np.prod([2 * each + 1 for each in radii.values()]))

    def local(values: np.ndarray) -> np.ndarray:
        for axis, reach in radii.items():
            values = uniform_filter1d(values, 2 * reach + 1, axis=axis)
        return values

    mean, other = local(first), local(second)
    unbiased = count / max(count - 1, 1)
    spreads = unbiased * (local(first**2) - mean**2), unbiased * (local(second**2) - other**2)
    both = unbiased * (local(first * second) - mean * other)
    small, smaller = 0.01**2, 0.03**2
    found = (
        (2 * mean * other + small) * (2 * both + smaller) / ((mean**2 + other**2 + small) * (sum(spreads) + smaller))
    )
    inner = (slice(None), *(slice(reach, found.shape[axis] - reach) for axis, reach in radii.items()))
    similarity: np.ndarray = flat(found[inner]).mean(axis=1)
    return similarity


def complexity(values: np.ndarray) -> np.ndarray:
    """Return the entropy of the histogram of each map's values, (N,) in nats."""
    found = []
    for one in flat(values):
        share = np.histogram(one, _BINS)[0] / one.size
        found.append(float(-(share[share > 0] * np.log(share[share > 0])).sum()))
    return np.array(found)


@functools.lru_cache(maxsize=4)
def _groups(model: Any) -> tuple[tuple[int, ...], ...]:
    order = graph_order(model)[::-1]
    return tuple(tuple(map(int, part)) for part in np.array_split(order, min(STAGES, len(order))))


@functools.lru_cache(maxsize=2 * STAGES)
def randomised(model: Any, stage: int, independent: bool = False, seed: int = 0) -> Any:
    """Return a model of a file with the variables of its first ``stage`` groups, from the output on, shuffled.

    With ``independent`` only the last of these groups is shuffled. ``seed`` is that of the orders.
    """
    groups = _groups(model)[stage - 1 if independent else 0 : stage]
    return with_shuffled_weights(model.path, seed, model.score, {each for group in groups for each in group})


def _stages(model: Any) -> range:
    return range(1, len(_groups(model)) + 1)


def _scaled(maps: np.ndarray, batch: Batch) -> np.ndarray:
    values = magnitude(maps, batch)
    top = flat(values).max(axis=1).reshape((-1,) + (1,) * (values.ndim - 1))
    return ratio(values, np.broadcast_to(top, values.shape), 0.0)


@memoize_last
def _cascade(maps: np.ndarray, batch: Batch, explain: Explain) -> list[np.ndarray]:
    return [explain(batch, randomised(explain.model, stage)) for stage in _stages(explain.model)]


def _similarities(compare: _Similarity, maps: np.ndarray, changed: list[np.ndarray], batch: Batch) -> np.ndarray:
    """Return the mean similarity over stages, then that of each stage, padded to ``STAGES`` with NaN."""
    each = [compare(_scaled(maps, batch), _scaled(other, batch)) for other in changed]
    each += [np.full(len(batch), np.nan)] * (STAGES - len(each))
    return np.stack([np.nanmean(each, axis=0), *each], axis=1)


def _cascading(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return Spearman's correlation with the maps of increasingly random networks, (N, 1 + STAGES), the mean first."""
    return _similarities(spearman, maps, _cascade(maps, batch, explain), batch)


def _cascading_ssim(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return structural similarity with the maps of ever more random networks, (N, 1 + STAGES), the mean first."""
    return _similarities(ssim, maps, _cascade(maps, batch, explain), batch)


def _independent(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return Spearman's correlation with the maps of networks with one random group, (N, 1 + STAGES), mean first."""
    models = (randomised(explain.model, stage, True) for stage in _stages(explain.model))
    return _similarities(spearman, maps, [explain(batch, model) for model in models], batch)


def _efficient(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return the increase in complexity of the map of the fully random network, as a share of the map's, (N,)."""
    before, after = complexity(_scaled(maps, batch)), complexity(_scaled(_cascade(maps, batch, explain)[-1], batch))
    return ratio(after - before, before)


def _smooth(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return ``_cascading`` of maps averaged over noisy copies of each input, (N, 1 + STAGES)."""
    copies = list(_noisy(batch, _COPIES, "sMPRT"))

    def averaged(model: Any) -> np.ndarray:
        mean: np.ndarray = np.mean([_scaled(explain(copy, model), batch) for copy in copies], axis=0)
        return mean

    randomised_maps = [averaged(randomised(explain.model, stage)) for stage in _stages(explain.model)]
    return _similarities(spearman, averaged(explain.model), randomised_maps, batch)


def _other_class(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return Spearman's correlation with the map of the runner-up class, (N,)."""
    other = dataclasses.replace(batch, targets=runner_up(explain.scores(batch.inputs), np.asarray(batch.targets)))
    return spearman(_scaled(maps, batch), _scaled(explain(other), batch))


def _max_sensitivity(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return the largest distance of a map to those of noisy inputs, all scaled to norm 1, (N,) in [0, 2].

    max over ``_DRAWS`` of ‖a / ‖a‖ - a' / ‖a'‖‖₂, for the map a of the input, the map a' of a noisy copy and the same
    class. This is Max-Sensitivity (Yeh et al., NeurIPS 2019) as Quantus computes it with ``normalise=True`` and
    ``normalise_by_average_second_moment_estimate`` over the axes of each map. By default Quantus does not normalise;
    then it has no upper bound and exceeds 10⁷ for gradients of saturated probabilities. A map a' of zeros has
    distance 1; NaN for a map a of zeros.
    """
    return _where_any(maps, _distances(maps, batch, explain)[0].max(axis=1))


def _avg_sensitivity(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return the mean of the distances of ``_max_sensitivity``, (N,) in [0, 2]; NaN for a map of zeros."""
    return _where_any(maps, _distances(maps, batch, explain)[0].mean(axis=1))


def _local_lipschitz(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return the largest distance of a map to those of noisy inputs, divided by that of the inputs, (N,) from 0.

    max over the copies x' of ‖a / ‖a‖ - a' / ‖a'‖‖₂ / ‖x - x'‖₂ (Alvarez-Melis and Jaakkola, 2018), per unit of the
    input. Quantus's ``LocalLipschitzEstimate`` has Manhattan distance above the line and maps of a largest value of 1
    by default. NaN for a map a of zeros.
    """
    return _where_any(maps, ratio(*_distances(maps, batch, explain)).max(axis=1))


def _where_any(maps: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(flat(maps).any(axis=1), values, np.nan)


@memoize_last
def _distances(maps: np.ndarray, batch: Batch, explain: Explain) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances of the maps of noisy inputs, of norm 1, and of the inputs themselves, (N, copies) each."""
    scaled, moved, lengths = _of_norm_1(maps), [], []
    for copy in _noisy(batch, _DRAWS, "max_sensitivity"):
        moved.append(np.linalg.norm(_of_norm_1(explain(copy)) - scaled, axis=1))
        noise = flat(np.asarray(copy.pictures, np.float64) - batch.pictures)
        lengths.append(np.linalg.norm(noise, axis=1))
    return np.stack(moved, axis=1), np.stack(lengths, axis=1)


def _of_norm_1(maps: np.ndarray) -> np.ndarray:
    """Return maps divided by their Euclidean norms, (N, values) float64; zeros stay."""
    maps = flat(np.asarray(maps, np.float64))
    return ratio(maps, np.broadcast_to(np.linalg.norm(maps, axis=1, keepdims=True), maps.shape), 0.0)


def _noisy(batch: Batch, count: int, purpose: str) -> Iterator[Batch]:
    """Yield copies of a batch with noise on the explained input, the same for every method."""
    pictures = as_floats(batch.pictures)
    span = np.ptp(flat(pictures), axis=1).reshape((-1,) + (1,) * (pictures.ndim - 1))
    for number in range(count):
        noise = [batching.generator(number, key, purpose).standard_normal(pictures.shape[1:]) for key in batch.seeds]
        noisy = pictures + NOISE * span * np.stack(noise)
        yield dataclasses.replace(batch, inputs=batch.with_pictures(noisy))


def _metric(name: str, function: Callable[..., np.ndarray], width: int = 1) -> Metric:
    measure = PerSampleMetric(name, function, width=width, digits=6, of_controls=False, needs_explainer=True)
    return Metric(name, measure=measure, on_request=True, **DESCRIPTIONS[name])


METRICS = (
    _metric("randomisation", _cascading, 1 + STAGES),
    _metric("randomisation_ssim", _cascading_ssim, 1 + STAGES),
    _metric("randomisation_independent", _independent, 1 + STAGES),
    _metric("emprt", _efficient),
    _metric("smprt", _smooth, 1 + STAGES),
    _metric("other_class", _other_class),
    _metric("max_sensitivity", _max_sensitivity),
    _metric("avg_sensitivity", _avg_sensitivity),
    _metric("local_lipschitz", _local_lipschitz),
)
