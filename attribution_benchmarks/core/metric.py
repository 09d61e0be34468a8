"""What a metric is: a name, a direction, how to read it, and the function that computes its numbers of each map.

A ``PerSampleMetric`` is such a function: its numbers are computed when a map is made, and stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, MapSource

_Array = npt.NDArray[np.float64]
UNIFORM: Literal["uniform"] = "uniform"
DROP: Literal["drop"] = "drop"


@dataclasses.dataclass(frozen=True)
class PerSampleMetric:
    """A function of maps whose numbers are stored.

    Attributes
    ----------
    name
        In the keys of the store.
    function
        ``function(maps, batch, scores)`` returns (N, width) numbers, NaN where undefined. ``maps`` are
        (N, positions...) or (N, positions..., channels); ``scores(inputs)`` returns the model's scores of (M, ...)
        other inputs, (M, classes).
    width
        Numbers of a map.
    digits
        Significant digits that are stored; all of them where None.
    of_controls
        Whether it is computed of maps under a control and of model-independent baselines, too.
    methods
        Methods whose maps are measured; all where None.
    degenerate_maps
        Treatment of a map that is zero everywhere and has an undefined number. ``"uniform"`` scores it as the uniform
        map, which says as little; ``"drop"`` leaves NaN. Methods with dropped maps are scored on other inputs than the
        rest, mostly on easier ones, so their ranks are not comparable.
    needs_explainer
        Whether it needs maps of other inputs, targets or networks: ``function(maps, batch, explain)``, where
        ``explain(batch, model=None)`` uses the same method, and ``explain.scores`` returns the model's scores.
    check
        ``check(model)`` raises ``BadInput`` for a model that the metric does not support, before anything is explained.
    """

    name: str
    function: Callable[[npt.NDArray[Any], Batch, Any], npt.NDArray[Any]]
    width: int = 1
    digits: int | None = None
    of_controls: bool = True
    methods: tuple[str, ...] | None = None
    degenerate_maps: Literal["uniform", "drop"] = DROP
    needs_explainer: bool = False
    check: Callable[[Any], object] | None = None

    @property
    def described(self) -> list[Any]:
        """What its numbers depend on besides its function."""
        return [type(self), self.width, self.digits, self.degenerate_maps, self.needs_explainer]

    def applies_to(self, source: MapSource) -> bool:
        """Return whether a source's maps are measured."""
        if source.control and not self.of_controls:
            return False
        return self.methods is None or source.method in self.methods

    def compute(self, maps: npt.NDArray[Any], batch: Batch, scores: Any) -> _Array:
        """Return the numbers of maps, (N, width) float64, NaN where undefined.

        Parameters
        ----------
        maps, batch, scores
            Arguments of ``function``.
        """
        numbers = self._numbers(maps, batch, scores)
        if self.degenerate_maps == DROP:
            return numbers
        zero = ~maps.reshape(len(maps), -1).any(axis=1)
        undefined = np.flatnonzero(np.isnan(numbers).any(axis=1) & zero)
        if len(undefined):
            uniform = np.ones_like(maps[undefined])
            numbers = numbers.copy()
            numbers[undefined] = self._numbers(uniform, batch.take(undefined.tolist()), scores)
        return numbers

    def _numbers(self, maps: npt.NDArray[Any], batch: Batch, scores: Any) -> _Array:
        """Return what the function returns as (N, width) float64; raise ``BadInput`` if it is not that."""
        returned = self.function(maps, batch, scores)
        shape = (len(maps),) if self.width == 1 else (len(maps), self.width)
        expected = f"the metric '{self.name}' must return numbers of the shape {shape} for {len(maps)} maps, not"
        try:
            numbers = np.asarray(returned, np.float64)
        except (TypeError, ValueError) as error:
            raise BadInput(f"{expected} {type(returned).__name__}") from error
        if numbers.shape not in (shape, (len(maps), self.width)):
            raise BadInput(f"{expected} {numbers.shape}")
        return numbers.reshape(len(maps), self.width)

    def to_records(self, numbers: npt.ArrayLike) -> list[str]:
        """Return each map's numbers as one line of text: a tenth of the memory of Python numbers."""
        numbers = np.asarray(numbers, np.float64).reshape(-1, self.width)
        return [" ".join(map(self._text, line)) for line in numbers.tolist()]

    def from_record(self, record: str) -> _Array:
        """Return the (width,) float64 numbers of a record.

        Raises
        ------
        ValueError, AttributeError
            If it is not a record of this metric.
        """
        numbers = np.array(record.split(), np.float64)
        if numbers.shape != (self.width,):
            raise ValueError(f"{len(numbers)} numbers in place of {self.width}")
        return numbers

    def _text(self, number: float) -> str:
        return f"{number:.{self.digits}g}" if self.digits else repr(number)


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
        Whether it is computed only on request, because it needs many forward passes.
    bounds
        Least and most it can be; intervals end there.
    curve
        What the numbers after the first run along, such as shares of what is removed; empty where there are none.
    cost, chance, criticism
        For docs/metrics.md: what it needs of the network; what a random map gets; what is known against it.
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


def of_maps(name: str, function: Callable[..., Any], **described: Any) -> Metric:
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
