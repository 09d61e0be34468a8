"""Scales of charts; the bars of tables are drawn by their template."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from attribution_benchmarks.report.formatting import known


class Scale(NamedTuple):
    """Values at the left and the right end of a chart."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Return the position of a value in percent from the left, clipped to [0, 100]."""
        return 100 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def __str__(self):
        return f"{self.low:g} to {self.high:g}"


def scale_of(rows: Sequence[Mapping], percent: bool) -> Scale:
    """Return a scale with round ends that includes zero and all values, intervals and published values.

    ``rows`` have ``value`` and optionally ``low``, ``high``, ``paper``. With ``percent`` the scale ends at 100 %.
    """
    numbers = [row[key] for row in rows for key in ("value", "low", "high", "paper") if known(row.get(key))]
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    if percent:
        return Scale(-100.0 if low < 0 else 0.0, 100.0)
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)))
    step = next(step / parts for parts in (10, 5, 2, 1) if (high - low) / (step / parts) <= 12)
    high = math.ceil(high / step - 1e-9) * step
    return Scale(math.floor(low / step + 1e-9) * step, high if high > low else low + step)
