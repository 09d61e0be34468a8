"""Metrics with the definition of another library: ``sparseness@quantus``.

As for methods (``attribution.methods.libraries``): a preset says what a pinned version of a library computes under a
name, in values of named parameters; nothing of the library is run. The presets are data, ``presets/LIBRARY.toml``.
Maps have one value for each position, the sum over channels, and each input is scored alone. Equals are in the order
that NumPy's ``argsort`` leaves them in.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from attribution import batching
from attribution.errors import BadInput
from attribution.methods.libraries import Library, found_preset, read_libraries
from attribution_benchmarks.core.batch import Batch, originals
from attribution_benchmarks.core.metric import Metric, PerSampleMetric, mask_of
from attribution_benchmarks.metrics import localisation
from attribution_benchmarks.metrics.imputation import Scores, changed_scores, check_probabilities, probabilities
from attribution_benchmarks.metrics.map_values import evidence, flat, pearson

_FOLDER = pathlib.Path(__file__).with_name("presets")


@functools.cache
def metric_libraries() -> Mapping[str, Library]:
    """Return the libraries whose definitions of metrics can be used, by name."""
    return read_libraries(_FOLDER)


def library_metric(name: str, known: Mapping[str, Metric]) -> Metric:
    """Return the metric ``metric@library`` as a variant of one of ``known``; ``BadInput`` if it is not defined."""
    library, preset = found_preset(name, metric_libraries())
    base = known[preset.of]
    check = check_probabilities if preset.parameters.get("softmax") else None
    return Metric(
        name,
        f"{base.title} ({library.title})",
        base.better,
        f"{preset.definition} {base.better.capitalize()} is better. {preset.differs}".strip(),
        source=f"{library.title} {library.version}, {preset.call}; {base.source}",
        measure=PerSampleMetric(
            name, functools.partial(_measured, preset.of, **preset.parameters), digits=6, check=check
        ),
        rate=base.rate,
        masks=base.masks,
        on_request=True,
    )


def _measured(
    of: str, maps: np.ndarray, batch: Batch, scores: Scores, *, absolute: bool = False, normalized: bool = False,
    softmax: bool = False, **parameters: Any,
) -> np.ndarray:  # fmt: skip
    """Return a metric of each map, (N,) float64; NaN where the library refuses the map.

    ``normalized`` divides a map by its largest magnitude, and refuses one of equal or negative values alone. With
    ``softmax`` the scores are the model's probabilities.
    """
    if softmax:
        scores = functools.partial(_probabilities, scores)
    values, refused = flat(evidence(maps, batch)), np.zeros(len(maps), bool)
    if normalized:
        refused = (np.ptp(values, axis=1) == 0) | (values < 0).all(axis=1)
        values = np.where(refused[:, np.newaxis], 1.0, values)
        values = values / np.abs(values).max(axis=1, keepdims=True)
    values = np.abs(values) if absolute else values
    if of in _OF_MASKS:
        found = _OF_MASKS[of](values, flat(mask_of(batch)), **parameters)
    elif of in _OF_VALUES:
        found = _OF_VALUES[of](values, **parameters)
    else:
        found = _OF_SCORES[of](values, batch, scores, **parameters)
    return np.where(refused, np.nan, found)


def _probabilities(scores: Scores, inputs: Any) -> np.ndarray:
    return probabilities(np.asarray(scores(inputs)), scores)


def _hits(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return whether any of the highest values is in the mask; an empty mask counts as hit."""
    highest = values == values.max(axis=1, keepdims=True)
    return np.asarray((highest & mask).any(axis=1) | ~mask.any(axis=1))


def _mass(values: np.ndarray, mask: np.ndarray, epsilon: float = 0.0) -> np.ndarray:
    """Return the share of the sum in the mask; NaN for an empty mask, and above 1 with an ``epsilon``."""
    with np.errstate(all="ignore"):
        found = (values * mask).sum(axis=1) / (values.sum(axis=1) + epsilon)
    return np.where(mask.any(axis=1) & ~((epsilon > 0) & (found > 1)), found, np.nan)


def _highest_in_mask(values: np.ndarray, mask: np.ndarray, k: int | None = None) -> np.ndarray:
    """Return the share of the ``k`` highest positions, by default as many as the mask has, that are in the mask."""
    if k and k > values.shape[1]:
        raise BadInput(f"the {k} highest of {values.shape[1]} positions: the library refuses inputs of this size")
    ranked = np.take_along_axis(mask, np.argsort(-values, axis=1), axis=1)
    counts = np.where(mask.any(axis=1), k or mask.sum(axis=1), 1)
    hits = (ranked & (np.arange(values.shape[1]) < counts[:, np.newaxis])).sum(axis=1)
    return np.where(mask.any(axis=1), hits / counts, np.nan)


def _gini(values: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the Gini index with something added to each value."""
    ranked, count = np.sort(values + epsilon, axis=1), values.shape[1]
    ranked = ranked / ranked.sum(axis=1, keepdims=True)
    divisor = count * ranked.sum(axis=1)
    return np.asarray(2 * (ranked * np.arange(1, count + 1)).sum(axis=1) / divisor - (count + 1) / count)


def _entropy(values: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the entropy in nats, with something added to the shares in the logarithm."""
    shares = values / values.sum(axis=1, keepdims=True)
    return -np.asarray((shares * np.log(shares + epsilon)).sum(axis=1))


def _count_above(values: np.ndarray, least: float) -> np.ndarray:
    return np.asarray((values > least).sum(axis=1), np.float64)


def _things(batch: Batch, apart: bool) -> np.ndarray:
    """Return inputs as what is removed, (N, things, numbers): positions, or each number alone, channels first."""
    pictures = batch.pictures if batch.pictures.ndim > 2 else batch.pictures[..., np.newaxis]
    things = pictures.reshape(len(pictures), -1, pictures.shape[-1])
    return things.swapaxes(1, 2).reshape(len(things), -1, 1) if apart else things


def _target_scores(
    batch: Batch, scores: Scores, gone: Callable[[int], Iterable[np.ndarray]], apart: bool
) -> np.ndarray:
    """Return the target's score where each set of things has the input's minimum, (N, sets) float64.

    ``gone(row)`` are the sets of an input, (things,) bool.
    """
    things, channels = _things(batch, apart), batch.pictures.shape[-1] if batch.pictures.ndim > 2 else 1

    def changes() -> Iterable[tuple[int, np.ndarray]]:
        for row, whole in enumerate(things):
            for one in gone(row):
                changed = np.where(one[:, np.newaxis], whole.min(), whole)
                changed = changed.reshape(channels, -1).T if apart else changed
                yield row, changed.reshape(batch.pictures.shape[1:])

    found = np.stack(list(changed_scores(batch, scores, changes())))
    found = found.reshape(len(batch), -1, found.shape[-1])
    return np.take_along_axis(found, np.asarray(batch.targets)[:, np.newaxis, np.newaxis], axis=2)[..., 0]


def _of_numbers(values: np.ndarray, batch: Batch) -> np.ndarray:
    """Return a map's value at each number of the input, channels first, (N, C · positions)."""
    return np.tile(values, _things(batch, True).shape[1] // values.shape[1])


def _removed_one_by_one(values: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the mean score while each number of the input is replaced by its minimum, the most important first."""
    places = np.argsort(np.argsort(-_of_numbers(values, batch), axis=1), axis=1)
    counts = range(1, places.shape[1] + 1)
    found = _target_scores(batch, scores, lambda row: (places[row] < n for n in counts), True)
    return np.asarray(found.mean(axis=1))


def _by_patches(values: np.ndarray, batch: Batch, scores: Scores, *, patch: int) -> np.ndarray:
    """Return the mean score while square patches get the input's minimum, those of the largest sum first.

    Where the side is no multiple of the patch, the outer patches are cut on both ends.
    """
    spatial = batch.pictures.shape[1:-1] if batch.pictures.ndim > 3 else (1, values.shape[1])
    along = [(np.arange(size) + (-size % patch) // 2) // patch for size in spatial]
    cells = (along[0][:, np.newaxis] * (along[1].max() + 1) + along[1]).reshape(-1)
    sums = np.stack([np.bincount(cells, one) for one in values])
    places = np.argsort(np.argsort(-sums, axis=1), axis=1)[:, cells]
    found = _target_scores(batch, scores, lambda row: (places[row] <= n for n in range(sums.shape[1])), False)
    return np.asarray(found.mean(axis=1))


def _correlated_one_by_one(values: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return Pearson's correlation of the map at each number with the drop when it gets the input's minimum."""
    sets = np.eye(_things(batch, True).shape[1], dtype=bool)
    drops = _drops(batch, scores, lambda row: iter(sets))
    return pearson(_of_numbers(values, batch), drops)


def _correlated_subsets(values: np.ndarray, batch: Batch, scores: Scores, *, size: int, runs: int) -> np.ndarray:
    """Return Pearson's correlation of the map's sums over random numbers with the drops when they get the minimum."""
    if size >= values.shape[1]:
        raise BadInput(f"subsets of {size} at {values.shape[1]} positions: the library refuses inputs of this size")
    values = _of_numbers(values, batch)
    sets = np.zeros((len(values), runs, values.shape[1]), bool)
    for row, key in enumerate(batch.seeds):
        generator = batching.generator(0, key, "subsets of numbers")
        for one in sets[row]:
            one[generator.choice(len(one), size, replace=False)] = True
    drops = _drops(batch, scores, lambda row: sets[row])
    return pearson(np.einsum("nsp,np->ns", sets, values), drops)


def _drops(batch: Batch, scores: Scores, gone: Callable[[int], Iterable[np.ndarray]]) -> np.ndarray:
    whole, targets = originals(batch, scores)
    changed = _target_scores(batch, scores, gone, True)
    return np.asarray(np.take_along_axis(whole, targets[:, np.newaxis], axis=1) - changed)


_OF_MASKS: dict[str, Callable[..., np.ndarray]] = {  # metric of this project -> function of values and masks
    "pointing_game": _hits,
    "attribution_localisation": _mass,
    "iou_at_area": _highest_in_mask,
    "top_k_intersection": _highest_in_mask,
    "roc_auc": localisation.roc_auc,
}
_OF_VALUES: dict[str, Callable[..., np.ndarray]] = {
    "sparseness": _gini,
    "complexity": _entropy,
    "effective_complexity": _count_above,
}
_OF_SCORES: dict[str, Callable[..., np.ndarray]] = {
    "deletion": _removed_one_by_one,
    "selectivity": _by_patches,
    "faithfulness_estimate": _correlated_one_by_one,
    "faithfulness_correlation": _correlated_subsets,
}
