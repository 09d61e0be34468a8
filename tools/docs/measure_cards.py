"""Measure the evaluation cards of all metrics that are offered: attribution_benchmarks/metrics/cards.json.

    python -m tools.docs.measure_cards                     # all that are missing
    python -m tools.docs.measure_cards deletion
    python -m tools.docs.document_registries               # then writes docs/metrics.md

The metrics of SVEA, BIM and CLEVR-XAI read their networks; here their functions read the known ones. The second
network of BIM's model contrast reads another place: its maps are shifted by half the image. Input dependence is of a
network that relies on the object, replaced by the input's mean. The patch is a slight change of the object.

Cost: 2 CPU minutes. Written after each metric.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import clevr_xai.metrics
import svea.metrics
from attribution.errors import BadInput, print_line
from attribution.files import atomic_write
from attribution.reading import read_json
from attribution_benchmarks.core.batch import Batch, originals
from attribution_benchmarks.core.metric import Metric, PerSampleMetric, mask_of
from attribution_benchmarks.exact import metrics as exact_metrics
from attribution_benchmarks.exact.measure_card import measure_card
from attribution_benchmarks.metrics.cards import FILE, Card, as_json
from attribution_benchmarks.metrics.imputation import probabilities
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from bim import scores as bim_scores


def _images_alone(maps: np.ndarray) -> None:
    if maps.ndim != 3:
        raise BadInput("BIM and CLEVR-XAI read images")


def _of_masks(pooling: str, accuracy: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Return a metric's function from an accuracy of CLEVR-XAI."""

    def of_batch(maps: np.ndarray, batch: Batch, scores: Any) -> np.ndarray:
        _images_alone(maps)
        return np.asarray(accuracy(clevr_xai.metrics.pool(maps, [pooling])[pooling], mask_of(batch)))

    return of_batch


def _objects(maps: np.ndarray, batch: Batch) -> np.ndarray:
    _images_alone(maps)
    return np.asarray(
        bim_scores.object_attribution(bim_scores.two_dimensional(maps.astype(np.float32))[0], mask_of(batch))
    )


def _mcs(maps: np.ndarray, batch: Batch, explain: Any) -> np.ndarray:
    _images_alone(maps)
    other = np.roll(explain(batch), [side // 2 for side in maps.shape[1:]], (1, 2))
    return bim_scores.model_contrast_score(_objects(maps, batch), _objects(other, batch), np.ones(len(maps), bool))


def _with_change(rate: Callable[..., np.ndarray], change: Callable[[Batch], np.ndarray]) -> Callable[..., np.ndarray]:
    """Return a metric's function from a rate of BIM of an input and the input with another masked part."""

    def of_batch(maps: np.ndarray, batch: Batch, explain: Any) -> np.ndarray:
        _images_alone(maps)
        inside = mask_of(batch)[..., np.newaxis]
        changed = np.where(inside, change(batch), batch.pictures).astype(batch.pictures.dtype)
        other = explain(dataclasses.replace(batch, inputs=batch.with_pictures(changed)))
        return rate(_objects(maps, batch), _objects(other, batch), np.ones(len(maps), bool))

    return of_batch


def _fainter(batch: Batch) -> np.ndarray:
    return 0.95 * batch.pictures


def _without(batch: Batch) -> np.ndarray:
    return np.broadcast_to(batch.pictures.mean(axis=(1, 2), keepdims=True), batch.pictures.shape)


def _on_region(value: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """Return a metric's function from one of SVEA; each feature of a vector is three or four of SVEA's 40 points."""

    def of_batch(maps: np.ndarray, batch: Batch, scores: Any) -> np.ndarray:
        if maps.ndim != 2:
            raise BadInput("SVEA reads signals")
        points = np.arange(svea.metrics.LENGTH) * maps.shape[1] // svea.metrics.LENGTH
        starts = svea.metrics.region_of_explanation(maps[:, points])
        kept = svea.metrics.keep_windows(batch.pictures[:, points], starts)
        firsts = np.searchsorted(points, np.arange(maps.shape[1]))
        whole, targets = originals(batch, scores)
        rows = np.arange(len(maps))
        seen = probabilities(np.asarray(scores(batch.with_pictures(kept[:, firsts]))), scores)[rows, targets]
        return np.asarray(value(probabilities(whole, scores)[rows, targets], seen), np.float64)

    return of_batch


def benchmark_metrics() -> dict[str, Metric]:
    """Return the metrics of single benchmarks, "svea:drop", with functions of the known networks' maps."""
    of_maps = {
        "clevr_xai:mass": _of_masks(clevr_xai.metrics.HEADING["mass"], clevr_xai.metrics.relevance_mass_accuracy),
        "clevr_xai:rank": _of_masks(clevr_xai.metrics.HEADING["rank"], clevr_xai.metrics.relevance_rank_accuracy),
        "svea:drop": _on_region(lambda whole, kept: 100 * svea.metrics.confidence_drop(whole, kept)),
        "svea:increase": _on_region(lambda whole, kept: 100 * svea.metrics.confidence_increase(whole, kept)),
    }
    of_explained = {
        "bim:mcs": _mcs,
        "bim:idr": _with_change(
            lambda whole, without, all: bim_scores.input_dependence_rate(without, whole, all), _without
        ),
        "bim:iir": _with_change(bim_scores.input_independence_rate, _fainter),
    }
    known = {**clevr_xai.metrics.ACCURACIES, **svea.metrics.METRICS, **bim_scores.METRICS}
    found = {}
    for name, function in {**of_maps, **of_explained}.items():
        described = known[name.partition(":")[2]]
        measure = PerSampleMetric(name, function, needs_explainer=name in of_explained)
        found[name] = dataclasses.replace(described, measure=measure, masks=described.masks or name in of_explained)
    of_truth = itertools.product(("exact", "xai_units", "xai_tris"), exact_metrics.OVERALL)
    return found | {f"{benchmark}:{metric.name}": metric for benchmark, metric in of_truth}


def offered() -> dict[str, Metric]:
    """Return all metrics that have a card, by name."""
    return {**METRIC_REGISTRY, **benchmark_metrics()}


def main(names: list[str]) -> None:
    """Measure the named cards, or all that are missing; two processes may measure different ones."""
    every = offered()
    for name in names or [name for name in every if name not in _written()]:
        card = measure_card(every[name])
        print_line(f"{name}: {card.phrase}")
        found = _written() | {name: card}
        atomic_write(FILE, as_json({each: found[each] for each in every if each in found}))


def _written() -> dict[str, Card]:
    return {name: Card(**fields) for name, fields in read_json(FILE).items()} if FILE.exists() else {}


if __name__ == "__main__":
    main(sys.argv[1:])
