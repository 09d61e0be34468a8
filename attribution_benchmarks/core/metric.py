"""What a metric is: a name, a direction, how to read it, and, where it needs only a map and the truth, its function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.metrics.per_sample import PerSampleMetric


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric of a benchmark, or of all of them.

    Attributes
    ----------
    name
        As typed with ``--metrics`` and written in files.
    title
        As printed above a column.
    better
        Whether "more" or "less" is better.
    about
        How to read it, in plain sentences for the report.
    percent
        Whether values are percentages.
    rate
        Whether an input is a hit or a miss, and the figure the share of hits; it has another interval than a mean.
    source
        Where it was published.
    measure
        What it needs to know of a map; its first number is an input's value, NaN where undefined. None for a metric
        that a benchmark computes in a way of its own.
    masks
        Whether it needs to know where a map should be.
    on_request
        Whether a report shows it only where it is asked for by name, as what asks the network many times.
    bounds
        Least and most it can be; intervals end there.
    curve
        What the numbers after the first run along, such as shares of what is removed; empty where there are none.
    cost, chance, criticism
        For docs/metrics.md: what it asks of the network; what a random map gets; what is known against it.
    """

    name: str
    title: str
    better: Literal["more", "less"] = "more"
    about: str = ""
    percent: bool = False
    rate: bool = False
    source: str = ""
    measure: PerSampleMetric | None = None
    masks: bool = False
    on_request: bool = False
    bounds: tuple[float, float] | None = None
    curve: tuple[float, ...] = ()
    cost: str = ""
    chance: str = ""
    criticism: str = ""

    @property
    def hit(self) -> float | None:
        """Return what a hit counts under a rate, 1 or 100; None for another metric."""
        return (100.0 if self.percent else 1.0) if self.rate else None


def of_maps(name: str, function: Callable, **described: Any) -> Metric:
    """Return a metric from a function of maps.

    Parameters
    ----------
    name
        Of the metric.
    function
        ``function(maps, batch, scores)`` returns (N,) values, NaN where undefined; see ``PerSampleMetric``. Where it
        is undefined for a map that is zero everywhere, the uniform map's value counts.
    **described
        Other attributes of ``Metric``.
    """
    return Metric(
        name,
        described.pop("title", name.replace("_", " ")),
        measure=PerSampleMetric(name, function, degenerate_maps="uniform"),
        **described,
    )


def mask_of(batch: Batch) -> np.ndarray:
    """Return a batch's one ground truth, (N, positions...) bool; the first where there are several."""
    return next(iter(batch.masks.values()))
