"""What a metric is: a name, a direction, how to read it, and, where it needs only a map and the truth, its function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np

from attribution_benchmarks.command_line import BadInput, listed
from attribution_benchmarks.scoring.block import Block
from attribution_benchmarks.scoring.measure import Measure
from attribution_benchmarks.scoring.own import loaded


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
    """

    name: str
    title: str
    better: Literal["more", "less"] = "more"
    about: str = ""
    percent: bool = False
    rate: bool = False
    source: str = ""
    measure: Measure | None = None
    masks: bool = False

    @property
    def hit(self) -> float | None:
        """Return what a hit counts under a rate, 1 or 100; None for another metric."""
        return (100.0 if self.percent else 1.0) if self.rate else None


SHARED: dict[str, Metric] = {}  # metrics of every benchmark; see ``share``


def share(metric: Metric) -> Metric:
    """Register a metric of every benchmark, and return it.

    Raises
    ------
    ValueError
        If it has no function, or another one of its name is registered.
    """
    if metric.measure is None:
        raise ValueError(f"the metric '{metric.name}' has no measure, so no benchmark but its own could compute it")
    if SHARED.setdefault(metric.name, metric) is not metric:
        raise ValueError(f"another metric is called '{metric.name}'")
    return metric


def of_maps(name: str, function: Callable, **described: Any) -> Metric:
    """Return a metric from a function of maps.

    Parameters
    ----------
    name
        Of the metric.
    function
        ``function(maps, block, scores)`` returns (N,) values, NaN where undefined; see ``measure.Measure``. Where it
        is undefined for a map that is zero everywhere, the uniform map's value counts.
    **described
        Other attributes of ``Metric``.
    """
    return Metric(
        name,
        described.pop("title", name.replace("_", " ")),
        measure=Measure(name, function, zero_maps="uniform"),
        **described,
    )


def chosen(names: Iterable[str], own: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return metrics by name: a benchmark's own, those of all benchmarks, and the user's own, each once.

    Raises
    ------
    BadInput
        For a name that is none, or no name at all.
    """
    known = {**own, **SHARED}
    found: dict[str, Metric] = {}
    for name in dict.fromkeys(names):
        metric = known.get(name) or _of_ones_own(name, known)
        if metric.name in found:
            raise BadInput(f"--metrics has two metrics called '{metric.name}'")
        found[metric.name] = metric
    if not found:
        raise BadInput(f"--metrics is empty; choose of {listed(known)}")
    return found


def _of_ones_own(name: str, known: Mapping[str, Metric]) -> Metric:
    """Return the user's own metric, ``module:NAME`` or ``file.py:NAME``."""
    if ":" not in name:
        raise BadInput(f"--metrics has no '{name}'; choose of {listed(known)}, or name your own as file.py:NAME")
    metric = loaded(name, Metric, "--metrics")
    if metric.name in known:
        raise BadInput(f"--metrics={name}: there is a metric called '{metric.name}' already; give yours another name")
    if metric.measure is None:
        raise BadInput(f"--metrics={name} has no measure; make it with attribution_benchmarks.scoring.metric.of_maps")
    return metric


def mask_of(block: Block) -> np.ndarray:
    """Return a block's one ground truth, (N, positions...) bool; the first where there are several."""
    return next(iter(block.masks.values()))
