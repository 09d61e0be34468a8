"""Curves behind scores, such as those of insertion and deletion: rows of a table, a point of a curve each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.stats import statistics

ALONG = "removed"  # the rows' key that a curve runs along


def name_of(metric: Metric) -> str:
    """Return what the rows of a metric's curve are called, ``insertion_curve``."""
    return f"{metric.name}_curve"


def points(
    metric: Metric, curves: np.ndarray, clusters: Sequence | np.ndarray | None = None, seed: int = 0
) -> list[dict]:
    """Return the mean curve of some inputs with its intervals, a row a point.

    Parameters
    ----------
    metric
        With ``curve``.
    curves
        (N, points) numbers, NaN where undefined; such inputs are left out.
    clusters
        (N,) names of what inputs belong to; None where each stands for itself.
    seed
        Of the intervals' draws.

    Returns
    -------
    list of dict
        ``metric``, ``value``, ``low``, ``high``, ``n``, ``paper`` and ``removed``; none without inputs.
    """
    curves = np.asarray(curves, np.float64)
    known = np.isfinite(curves).all(axis=1)
    curves = curves[known]
    if not len(curves):
        return []
    kept = None if clusters is None else np.asarray(clusters)[known]
    low, high = statistics.column_intervals(curves, kept, seed=seed)
    least, most = metric.bounds or (-np.inf, np.inf)
    means = curves.mean(axis=0)
    return [
        {
            "metric": name_of(metric), "value": float(mean), "low": float(np.clip(min(a, mean), least, most)),
            "high": float(np.clip(max(b, mean), least, most)), "n": len(curves), "paper": None, ALONG: share,
        }
        for mean, a, b, share in zip(means, low, high, metric.curve, strict=True)
    ]  # fmt: skip
