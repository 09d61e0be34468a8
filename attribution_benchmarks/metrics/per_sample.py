"""What is kept of a map: a few numbers, computed when the map is made, from which all metrics follow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from attribution_benchmarks.core.batch import Batch, MapSource

Scores = Callable[[object], np.ndarray]


@dataclasses.dataclass(frozen=True)
class PerSampleMetric:
    """A function of maps whose numbers are kept.

    Attributes
    ----------
    name
        In the keys of the store.
    function
        ``function(maps, batch, scores)`` returns (N, width) numbers, NaN where undefined. ``maps`` are
        (N, positions...) or (N, positions..., channels); ``scores(inputs)`` asks the model about
        (M, ...) other inputs and returns (M, classes). A measure that asks no model ignores it.
    width
        Numbers of a map.
    digits
        Significant digits that are kept; all of them where None.
    of_controls
        Whether maps under a control are measured too, and those of controls.
    methods
        Methods whose maps are measured; all where None.
    degenerate_maps
        What becomes of a map that is zero everywhere and for which a number is undefined: ``"uniform"`` counts it as
        the map that is the same everywhere, ``"drop"`` leaves the number NaN. See ``degenerate_maps.measured``.
    again
        Whether it needs maps of other inputs, targets or networks: ``function(maps, batch, again)``, where
        ``again(batch, model=None)`` explains by the same method, and ``again.scores`` asks the model.
    check
        ``check(model)`` raises ``BadInput`` for a model that it is not of, before anything is explained; None where it
        is of all.
    """

    name: str
    function: Callable[[np.ndarray, Batch, Any], np.ndarray]
    width: int = 1
    digits: int | None = None
    of_controls: bool = True
    methods: tuple[str, ...] | None = None
    degenerate_maps: Literal["uniform", "drop"] = "drop"
    again: bool = False
    check: Callable[[Any], object] | None = None

    def applies_to(self, source: MapSource) -> bool:
        """Tell whether a source's maps are measured."""
        if source.control and not self.of_controls:
            return False
        return self.methods is None or source.method in self.methods

    def to_records(self, numbers: np.ndarray) -> list[str]:
        """Return each map's numbers as one line of text: a tenth of the memory of as many Python numbers."""
        numbers = np.asarray(numbers, np.float64)
        numbers = numbers.reshape(len(numbers), -1)
        if numbers.shape[1] != self.width:
            raise ValueError(f"measure '{self.name}' gave {numbers.shape[1]} numbers a map, not {self.width}")
        return [" ".join(map(self._text, line.tolist())) for line in numbers]

    def from_record(self, record: str) -> np.ndarray:
        """Return the (width,) float64 numbers of a record.

        Raises
        ------
        ValueError, AttributeError
            If it is none of this measure's.
        """
        numbers = np.array(record.split(), np.float64)
        if numbers.shape != (self.width,):
            raise ValueError(f"{len(numbers)} numbers in place of {self.width}")
        return numbers

    def _text(self, number: float) -> str:
        return f"{number:.{self.digits}g}" if self.digits else repr(number)
