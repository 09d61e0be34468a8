"""Scores of metrics for maps whose true error is known: corrupted exact maps, and the maps of attribution methods."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import attribution
from attribution.errors import BadInput
from attribution.files import atomic_write
from attribution.model import batching
from attribution.reading import read_json
from attribution_benchmarks.core.batch import Batch, MapSource
from attribution_benchmarks.core.explainer import Explainer
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.exact.definition import METHODS
from attribution_benchmarks.exact.known_networks import GRADES, KINDS, ROWS, ExactExplain, KnownNetwork, corrupted
from attribution_benchmarks.exact.metrics import distance
from attribution_benchmarks.metrics.localisation import shared_with_highest
from attribution_benchmarks.metrics.map_values import flat, ratio
from attribution_benchmarks.stats import correlation

MAPS = (("noise", 0.0), *((kind, grade) for kind in KINDS for grade in GRADES))  # the first is the truth
REPEATS = 2  # seeds of a metric
_DIGITS = 6  # of a score; a smaller difference is rounding in single precision
_FINE = 100 / np.pi  # parts of the largest value of a map; no simple fraction of it is near the half of one


class _KnownMap(NamedTuple):
    """Maps of a network's inputs, (N, positions...), and what explains other inputs in the same way."""

    values: np.ndarray
    explain: Any


class KnownMaps(NamedTuple):
    """The maps of ``MAPS``, and those of ``METHODS``."""

    of_corruptions: Sequence[_KnownMap]
    of_methods: Sequence[_KnownMap]


class TrueErrors(NamedTuple):
    """Errors of ``KnownMaps`` by each of ``ERRORS``, (errors, N, maps)."""

    of_corruptions: np.ndarray
    of_methods: np.ndarray


@dataclasses.dataclass(frozen=True)
class Measured:
    """The scores of one metric on one network; more is better, NaN is undefined."""

    of_corruptions: np.ndarray  # (repeats, N, maps) float64, each repeat with other random numbers of the metric
    of_methods: np.ndarray  # (N, methods)
    passes: float  # forward passes and explanations that the metric needs for one map alone
    explanations: float


def known_maps(network: KnownNetwork) -> KnownMaps:
    """Return the corrupted exact maps of a network's inputs, and the maps of attribution methods."""
    batch = network.batch
    corruptions = [
        _KnownMap(corrupted(*network.exact(batch), batch, kind, grade), ExactExplain(network, kind, grade))
        for kind, grade in MAPS
    ]
    explainer = _explainer(network.model)
    found = explainer.maps(explainer.sources, batch)
    return KnownMaps(corruptions, [_KnownMap(maps, _MethodExplain(explainer, source.method)) for source, maps in found])


@functools.lru_cache(maxsize=1)
def _explainer(model: Any) -> Explainer:
    """Return what explains the networks of one model, so that its methods are compiled once."""
    return Explainer(model, {name: attribution.METHODS[name] for name in METHODS}, batch_size=ROWS)


class _MethodExplain:
    """Explains by one method and remembers its maps: several metrics explain the same noisy inputs and networks."""

    def __init__(self, explainer: Explainer, method: str):
        self.explain, self.model = explainer.explain_function(MapSource(method)), explainer.model
        self.found: dict[tuple, np.ndarray] = {}

    def scores(self, inputs: Any) -> np.ndarray:
        """Return the scores of all outputs, (N, outputs)."""
        return self.explain.scores(inputs)

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return the maps of a batch, of this model or another."""
        targets = np.asarray(batch.targets).tobytes()
        key = (model, batch.pictures.tobytes(), targets, tuple(batch.seeds))
        if key not in self.found:
            self.found[key] = self.explain(batch, model)
        return self.found[key]


def first_inputs(network: KnownNetwork, maps: KnownMaps, count: int) -> tuple[KnownNetwork, KnownMaps]:
    """Return a network and its maps with the first inputs only."""
    part = dataclasses.replace(network, batch=network.batch.take(range(count)))
    return part, KnownMaps(*([_KnownMap(one.values[:count], one.explain) for one in each] for each in maps))


def _one_minus(correlation_of: Callable[..., Any], maps: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return 1 - correlation of each map with its truth, (N,) in [0, 2]; 1 where one of both is constant."""
    return np.asarray(1 - np.nan_to_num(correlation_of(maps, truth)))


def _pearson(maps: np.ndarray, truth: np.ndarray) -> np.ndarray:
    first, second = (each - each.mean(axis=1, keepdims=True) for each in (maps, truth))
    norm = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    rounding = 1e-9 * np.linalg.norm(maps, axis=1) * np.linalg.norm(truth, axis=1)
    return ratio((first * second).sum(axis=1), np.where(norm > rounding, norm, 0.0))


def _missed(maps: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the share of the truth's highest quarter of magnitudes that is not in the map's, (N,) in [0, 1]."""
    found = np.abs(truth)
    counts = np.minimum((found > 0).sum(axis=1), truth.shape[1] // 4)
    least = np.take_along_axis(-np.sort(-found, axis=1), np.maximum(counts - 1, 0)[:, np.newaxis], axis=1)
    return 1 - ratio(shared_with_highest(np.abs(maps), found >= least, counts), counts)


ERRORS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "distance": distance,
    "1 - Pearson": functools.partial(_one_minus, _pearson),
    "1 - Spearman": functools.partial(_one_minus, correlation.spearman),
    "top-k": _missed,
}


def true_errors(network: KnownNetwork, maps: KnownMaps) -> TrueErrors:
    """Return the errors of all maps: each input's maps against the truth that its corrupted maps were made of.

    NaN for a map of zeros, which some metrics score as a uniform map, and others not at all.
    """
    truth = flat(network.exact(network.batch)[0])

    def errors(maps: np.ndarray) -> list[np.ndarray]:
        return [np.where(maps.any(axis=1), error(maps, truth), np.nan) for error in ERRORS.values()]

    values = ([errors(flat(each.values).astype(np.float64)) for each in part] for part in maps)
    return TrueErrors(
        *(np.stack([_rounded(np.stack(each, axis=1)) for each in zip(*part, strict=True)]) for part in values)
    )


def measure(metrics: Mapping[str, Metric], network: KnownNetwork, maps: KnownMaps) -> dict[str, Measured]:
    """Return the scores of all maps by each metric that is defined on a network."""
    metrics = dict(metrics)
    repeats = [_scores(metrics, network, maps.of_corruptions, repeat) for repeat in range(REPEATS)]
    of_methods = _scores(metrics, network, maps.of_methods, 0)
    return {
        name: Measured(
            sign * np.stack([one[name] for one in repeats]),
            sign * of_methods[name],
            *_cost(metric, network, maps.of_corruptions[0]),
        )
        for name, metric in metrics.items()
        for sign in [1 if metric.better == "more" else -1]
    }


def _scores(
    metrics: dict[str, Metric], network: KnownNetwork, maps: Sequence[_KnownMap], repeat: int
) -> dict[str, np.ndarray]:
    """Return the scores of some maps by each metric, (N, maps) float64, rounded; remove metrics that are not defined.

    One map after the other is measured by all metrics, which share what they compute of it.
    """
    found: dict[str, list[np.ndarray]] = {}
    batches: dict[bool, Batch] = {}
    for one in maps:
        for name, metric in [*metrics.items()]:
            assert metric.measure is not None
            explains = metric.measure.needs_explainer
            batch = batches.setdefault(explains, batch_for(metric, network, repeat))
            try:
                scores = metric.measure.compute(one.values, batch, one.explain if explains else network.scores)[:, 0]
            except BadInput:
                del metrics[name]
            else:
                found.setdefault(name, []).append(scores)
    return {name: _rounded(np.stack(found[name], axis=1)) for name in metrics}


def batch_for(metric: Metric, network: KnownNetwork, repeat: object) -> Batch:
    """Return a network's inputs with names that the metric's random numbers depend on."""
    assert metric.measure is not None
    batch = network.batch if metric.measure.needs_explainer else network.of_classes
    return dataclasses.replace(batch, seeds=[f"{key} {repeat}" for key in batch.truth["key"]])


def _rounded(values: np.ndarray) -> np.ndarray:
    """Return numbers, (N, maps), rounded to a millionth of the largest of each row, so that equal scores are equal."""
    largest = np.nanmax(np.abs(values), axis=1, keepdims=True, initial=0, where=np.isfinite(values))
    unit = 10.0 ** (np.floor(np.log10(np.where(largest > 0, largest, 1.0))) - _DIGITS + 1)
    return np.where(np.isfinite(values), np.round(values / unit) * unit, np.nan)


def _cost(metric: Metric, network: KnownNetwork, one: _KnownMap) -> tuple[float, float]:
    """Return the forward passes and the explanations that one map of an input needs alone."""
    assert metric.measure is not None
    counted, batch = Counted(network, one.explain), batch_for(metric, network, "alone")
    metric.measure.compute(one.values, batch, counted if metric.measure.needs_explainer else counted.passes_of_classes)
    return counted.passes / len(batch), counted.explanations / len(batch)


class Counted:
    """Counts what a metric queries: scores of inputs, and explanations."""

    def __init__(self, network: KnownNetwork, explain: Any):
        self.network, self.explain, self.model = network, explain, network.model
        self.passes, self.explanations = 0, 0

    def passes_of_classes(self, inputs: Any) -> np.ndarray:
        self.passes += len(inputs)
        return self.network.scores(inputs)

    def scores(self, inputs: Any) -> np.ndarray:
        self.passes += len(inputs)
        return np.asarray(self.explain.scores(inputs))

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        self.explanations += len(batch)
        return np.asarray(self.explain(batch, model))


def seed_of(values: np.ndarray) -> int:
    """Return a number of a map: the same on processors that round it in another way."""
    largest = np.abs(values).max() or 1.0
    return zlib.crc32(np.round(values / largest * _FINE).astype(np.int64).tobytes())


def random_score(maps: np.ndarray, batch: Batch, scores: Any) -> np.ndarray:
    """Return a random number for each map, (N,)."""
    keys = zip(map(seed_of, maps), batch.seeds, strict=True)
    return np.array([batching.generator(place, key, "random score").random() for place, key in keys])


def write_measured(path: pathlib.Path, key: str, found: Mapping[str, Measured]) -> None:
    """Write what was measured on a network, by metric, with a key of all that it depends on."""
    measured = {name: list(vars(one).values()) for name, one in found.items()}
    atomic_write(path, json.dumps({"key": key, "measured": measured}, default=np.ndarray.tolist))


def read_measured(path: pathlib.Path, key: str) -> dict[str, Measured] | None:
    """Return what ``write_measured`` wrote; None if there is no such file, or it has another key."""
    if not path.exists():
        return None
    document = read_json(path)
    if document.get("key") != key:
        return None
    return {
        name: Measured(np.array(of_corruptions), np.array(of_methods), *cost)
        for name, (of_corruptions, of_methods, *cost) in document["measured"].items()
    }
