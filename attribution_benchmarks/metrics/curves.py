"""Curves behind scores, such as insertion and deletion curves, as rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.stats import statistics

ALONG = "removed"  # key of a row's position on the curve


def name_of(metric: Metric) -> str:
    """Return the name of a metric's curve in rows, such as ``insertion_curve``."""
    return f"{metric.name}_curve"


def points(
    metric: Metric, curves: np.ndarray, clusters: statistics.Clusters = None, seed: int = 0
) -> list[dict[str, Any]]:
    """Return the mean curve of some inputs with its intervals, one row per point.

    Parameters
    ----------
    metric
        With ``curve``.
    curves
        (N, points) numbers; inputs with NaN are dropped.
    clusters
        (N,) cluster of each input; None for independent inputs.
    seed
        Of the bootstrap.

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
