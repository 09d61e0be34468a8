"""Metrics that are available in every benchmark, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attribution.errors import BadInput, did_you_mean, listed
from attribution.methods.libraries import is_preset
from attribution.plugins import loaded_object
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.metrics import (
    complexity,
    faithfulness,
    in_domain,
    like,
    localisation,
    regions,
    sanity,
)

_PARTS = (localisation, complexity, faithfulness, regions, in_domain, sanity)
METRIC_REGISTRY: dict[str, Metric] = {metric.name: metric for part in _PARTS for metric in part.METRICS}


def select_metrics(names: Iterable[str], own: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return metrics by name: a benchmark's, registered ones, and custom ones, ``module:NAME`` or ``file.py:NAME``.

    Raises ``BadInput`` if a name is unknown or used twice, or there is no name.
    """
    known = {**own, **METRIC_REGISTRY}
    found: dict[str, Metric] = {}
    for name in dict.fromkeys(names):
        metric = known.get(name) or _custom_metric(name, known)
        if metric.name in found:
            raise BadInput(f"--metrics has two metrics called '{metric.name}'")
        found[metric.name] = metric
    if not found:
        raise BadInput(f"--metrics is empty; choose of {listed(known)}")
    return found


def _custom_metric(name: str, known: Mapping[str, Metric]) -> Metric:
    """Return a custom metric, ``module:NAME`` or ``NAME@LIBRARY``."""
    if is_preset(name):
        return like.library_metric(name, METRIC_REGISTRY)
    if ":" not in name:
        hint = did_you_mean(name, known) or f"; choose of {listed(known)}"
        raise BadInput(f"--metrics has no '{name}'{hint}, or name your own as file.py:NAME")
    metric = loaded_object(name, Metric, "--metrics")
    if metric.name in known:
        raise BadInput(f"--metrics={name}: there is a metric called '{metric.name}' already; give yours another name")
    if metric.measure is None:
        raise BadInput(f"--metrics={name} has no measure; make it with attribution_benchmarks.core.metric.of_maps")
    return metric
