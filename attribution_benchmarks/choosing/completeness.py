"""Completeness: by how much the sum of a map misses the sum that its method must give.

Integrated Gradients, for example, distribute f(x) - f(baseline) over the input; see ``attribution.methods.method``.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

import attribution
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric, PerSampleMetric


def _missed(maps: np.ndarray, batch: Batch, explain: Any) -> np.ndarray:
    """Return |sum - required sum| / |required sum| of maps, (N,) float64; NaN where the method requires none.

    The maps are not computed again: at most a pass at each input and one at its baseline.
    """
    method, parameters = explain.explainer.methods[explain.method]
    if method.law(parameters) is None:
        return np.full(len(maps), np.nan)

    @functools.wraps(method.function)
    def known(queries: Any, **_: Any) -> np.ndarray:
        found: np.ndarray = queries.batch_rows(maps, maps.ndim)
        return found

    _, residuals = attribution.explain_many(
        {method.name: (dataclasses.replace(method, function=known), parameters)},
        explain.model, batch.inputs, batch.targets, explain_input=batch.explained or None,
        batch_size=explain.explainer.batch_size, return_residuals=True,
    )  # fmt: skip
    return residuals[method.name].relative


COMPLETENESS = Metric(
    "completeness",
    "Completeness",
    "less",
    measure=PerSampleMetric("completeness", _missed, digits=6, of_controls=False, needs_explainer=True),
)
