"""Regions of explanation of all 5,000 signals: where the window around each map's peak begins."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, LazyBatch, MapSource
from attribution_benchmarks.core.evaluator import Results
from attribution_benchmarks.metrics.per_sample import PerSampleMetric
from svea import roe
from svea.mnist1d import LENGTH, TEST_SIGNALS, TRAIN_SIGNALS, Mnist1D

SIGNALS = TRAIN_SIGNALS + TEST_SIGNALS


@dataclass(frozen=True)
class Regions:
    """Where one method's regions begin, (N,) int64 in 0 to 28, and which maps are zero everywhere, (N,) bool."""

    starts: np.ndarray
    zero: np.ndarray


def region(maps: np.ndarray, batch: Batch, scores: Callable) -> np.ndarray:
    """Return where each map's region begins and whether the map is zero everywhere, (N, 2) int64.

    Raises
    ------
    BadInput
        If the maps are not of one value a point.
    """
    maps = np.asarray(maps)
    if maps.shape[1:] not in ((LENGTH,), (LENGTH, 1)):
        raise BadInput(
            f"maps of shape {maps.shape[1:]}; SVEA reads one value per point, shape ({LENGTH},) or ({LENGTH}, 1)"
        )
    return np.stack([roe.region_of_explanation(maps), roe.all_zero(maps)], axis=1)


REGION = PerSampleMetric("region", region, width=2)


def signals_of(data: Mnist1D) -> np.ndarray:
    """Return all signals, the training signals first, (5000, 40) float32."""
    return np.concatenate([data.train.signals, data.test.signals])


def batches(data: Mnist1D, size: int, chosen: Sequence[int] = range(SIGNALS)) -> Iterator[LazyBatch]:
    """Yield signals, by default all 5,000, so many at a time; their place is name and key of their random numbers."""
    signals = signals_of(data)
    centres, templates = (
        np.concatenate([getattr(split, name) for split in (data.train, data.test)])
        for name in ("template_centre", "template")
    )

    def batch(rows: list[int]) -> Batch:
        return Batch(
            signals[rows][:, :, None],
            rows,
            masks={"template": templates[rows]},
            truth={"template_centre": centres[rows], "file": list(map(file_of, rows))},
        )

    for start in range(0, len(chosen), size):
        rows = list(chosen[start : start + size])
        yield LazyBatch(list(map(str, rows)), list(map(file_of, rows)), functools.partial(batch, rows))


def file_of(row: int) -> str:
    """Return the name of a signal's saved map, "train_0000" or "test_0000"."""
    return f"train_{row:04d}" if row < TRAIN_SIGNALS else f"test_{row - TRAIN_SIGNALS:04d}"


def regions_of(scored: Results, source: MapSource) -> Regions:
    """Return what a run found of one method or control."""
    numbers = scored.numbers(source, REGION)
    return Regions(numbers[:, 0].astype(np.int64), numbers[:, 1].astype(bool))
