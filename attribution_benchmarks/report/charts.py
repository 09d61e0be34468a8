"""Bars with intervals, one SVG per line of a table, so that they sort and scroll with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Scale(NamedTuple):
    """What the left and the right end of a bar's space stand for."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Return where a value lies, in percent from the left, held inside."""
        return 100 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def __str__(self):
        return f"{self.low:g} to {self.high:g}"


def scale_of(rows: Sequence[Mapping], percent: bool) -> Scale:
    """Return a scale that holds zero and all values, intervals and papers' figures, with round ends.

    Parameters
    ----------
    rows
        With ``value`` and perhaps ``low``, ``high``, ``paper``.
    percent
        Percentages reach to 100, whatever they are.
    """
    numbers = [row[key] for row in rows for key in ("value", "low", "high", "paper") if _known(row.get(key))]
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    if percent:
        return Scale(-100.0 if low < 0 else 0.0, 100.0)
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)))
    step = next(step / parts for parts in (10, 5, 2, 1) if (high - low) / (step / parts) <= 12)
    high = math.ceil(high / step - 1e-9) * step
    return Scale(math.floor(low / step + 1e-9) * step, high if high > low else low + step)


def bar(row: Mapping, scale: Scale, reference: float | None = None) -> str:
    """Return one bar as an SVG that is as wide as its place.

    Parameters
    ----------
    row
        ``value``, ``low``, ``high`` (the interval, a line over the bar), ``paper`` (a diamond), ``kind`` (its class).
    scale
        Of the whole table.
    reference
        Where a dashed line stands, such as the strongest control.

    Returns
    -------
    str
        SVG without text, hidden from readers of the screen: the same figures stand beside it.
    """
    zero, end = scale.place(0.0), scale.place(row["value"])
    parts = [
        f'<rect class="{row["kind"]}" x="{min(zero, end):.2f}%" y="4" width="{abs(end - zero):.2f}%" height="12"/>'
    ]
    if scale.low < 0:
        parts.append(f'<line class="zero" x1="{zero:.2f}%" x2="{zero:.2f}%" y1="0" y2="20"/>')
    if reference is not None:
        at = scale.place(reference)
        parts.append(f'<line class="reference" x1="{at:.2f}%" x2="{at:.2f}%" y1="0" y2="20"/>')
    if _known(row.get("low")) and _known(row.get("high")):
        low, high = scale.place(row["low"]), scale.place(row["high"])
        parts.append(f'<line class="interval" x1="{low:.2f}%" x2="{high:.2f}%" y1="10" y2="10"/>')
        parts += [f'<line class="interval" x1="{at:.2f}%" x2="{at:.2f}%" y1="7" y2="13"/>' for at in (low, high)]
    if _known(row.get("paper")):
        # A nested svg without width of its own moves the diamond by a percentage and leaves its shape alone.
        at = scale.place(row["paper"])
        parts.append(f'<svg x="{at:.2f}%" overflow="visible"><path class="paper" d="M0 5 5 10 0 15 -5 10Z"/></svg>')
    return f'<svg class="bar" width="100%" height="20" aria-hidden="true" focusable="false">{"".join(parts)}</svg>'


def _known(value) -> bool:
    return value is not None and math.isfinite(value)
