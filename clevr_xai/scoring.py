"""Every number of a map: its poolings under both metrics and all ground truths, and where its sum should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attribution.methods.completeness import Residuals
from attribution.methods.gradients import path_start
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import PerSampleMetric
from clevr_xai.metrics import METRICS
from clevr_xai.pooling import POOLINGS, pool

HEADING = {"mass": "l2-norm,sq", "rank": "max-norm"}  # the pooling of a metric's table, as reproductions have it
DIGITS = 9  # of a stored number; tables show two


def score_maps(maps: np.ndarray, masks: Mapping[str, np.ndarray]) -> np.ndarray:
    """Score maps in one pass over them.

    Parameters
    ----------
    maps
        (N, H, W, C) or (N, H, W).
    masks
        Ground truth -> (N, H, W) bool; all False where a question has none.

    Returns
    -------
    (N, ground truths, metrics, poolings) float64
        In the order of ``masks``, ``METRICS`` and ``POOLINGS``; NaN where undefined.
    """
    scores = np.full((len(maps), len(masks), len(METRICS), len(POOLINGS)), np.nan)
    for place, pooled in enumerate(pool(maps).values()):
        for truth, mask in enumerate(masks.values()):
            for number, metric in enumerate(METRICS.values()):
                scores[:, truth, number, place] = metric(pooled, mask)
    return scores


def relevance_accuracy(ground_truths: Sequence[str], digits: int | None = DIGITS) -> PerSampleMetric:
    """Return what keeps all of ``score_maps``' numbers of some ground truths, in their order.

    Parameters
    ----------
    ground_truths
        Names of masks.
    digits
        Significant digits of a number; all of them where None.
    """

    def accuracies(maps: np.ndarray, batch: Batch, scores) -> np.ndarray:
        found = score_maps(maps, {name: batch.masks[name] for name in ground_truths})
        return found.reshape(len(found), -1)

    width = len(ground_truths) * len(METRICS) * len(POOLINGS)
    return PerSampleMetric("relevance_accuracy", accuracies, width, digits)


def path_gap(method: str, baseline) -> PerSampleMetric:
    """Return what keeps how far the sum of Integrated Gradients' map misses what it should be.

    |Σ map - (f(image) - f(b))| / |f(image) - f(b)|; NaN where both scores are 0.

    Parameters
    ----------
    method
        Whose maps it is of.
    baseline
        b, where the path begins: see ``attribution.methods.gradients.path_start``.
    """

    def gap(maps: np.ndarray, batch: Batch, scores) -> np.ndarray:
        rows = np.arange(len(batch))
        start = path_start(batch.pictures, baseline)
        begun = batch.with_pictures(np.broadcast_to(start, batch.pictures.shape))
        ends = (scores(inputs)[rows, batch.targets].astype(np.float64) for inputs in (batch.inputs, begun))
        return Residuals.of(maps, *ends).relative

    return PerSampleMetric(f"path_gap {method}", gap, digits=DIGITS, of_controls=False, methods=(method,))
