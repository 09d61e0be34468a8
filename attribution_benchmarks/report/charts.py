"""SVG charts: a bar with interval per table row, which sorts and scrolls with the table, and small line charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attribution_benchmarks.core.report_text import Trend
from attribution_benchmarks.report.formatting import Names, number

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 220, 120, 30, 8, 22  # of a line chart


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
    numbers = [row[key] for row in rows for key in ("value", "low", "high", "paper") if _known(row.get(key))]
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    if percent:
        return Scale(-100.0 if low < 0 else 0.0, 100.0)
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)))
    step = next(step / parts for parts in (10, 5, 2, 1) if (high - low) / (step / parts) <= 12)
    high = math.ceil(high / step - 1e-9) * step
    return Scale(math.floor(low / step + 1e-9) * step, high if high > low else low + step)


def bar(row: Mapping, scale: Scale, reference: float | None = None) -> str:
    """Return one bar as an SVG without text, hidden from screen readers, because the table has the same numbers.

    ``row`` has ``value``, ``low`` and ``high`` (a line over the bar), ``paper`` (a diamond), ``kind`` (CSS class).
    ``reference`` is the value of a dashed line, such as the strongest control.
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
    parts += _interval(row, scale)
    if _known(row.get("paper")):
        # A nested svg without a width moves the diamond by a percentage and keeps its shape.
        at = scale.place(row["paper"])
        parts.append(f'<svg x="{at:.2f}%" overflow="visible"><path class="paper" d="M0 5 5 10 0 15 -5 10Z"/></svg>')
    return _wide(parts)


def difference(row: Mapping, scale: Scale) -> str:
    """Return a line of a forest plot as an SVG: a point with its interval, and a line at zero.

    ``row`` has ``value``, ``low``, ``high``; and ``kind``, the CSS class of the point. See ``bar``.
    """
    zero, at = scale.place(0.0), scale.place(row["value"])
    point = f'<svg x="{at:.2f}%" overflow="visible"><circle class="{row["kind"]}" cy="10" r="4.5"/></svg>'
    return _wide(
        [f'<line class="zero" x1="{zero:.2f}%" x2="{zero:.2f}%" y1="0" y2="20"/>', *_interval(row, scale), point]
    )


def _interval(row: Mapping, scale: Scale) -> list[str]:
    if not (_known(row.get("low")) and _known(row.get("high"))):
        return []
    low, high = scale.place(row["low"]), scale.place(row["high"])
    ends = [f'<line class="interval" x1="{at:.2f}%" x2="{at:.2f}%" y1="7" y2="13"/>' for at in (low, high)]
    return [f'<line class="interval" x1="{low:.2f}%" x2="{high:.2f}%" y1="10" y2="10"/>', *ends]


def _wide(parts: Sequence[str]) -> str:
    return f'<svg class="bar" width="100%" height="20" aria-hidden="true" focusable="false">{"".join(parts)}</svg>'


def line_charts(trend: Trend, rows: Sequence[Mapping], names: Names) -> dict | None:
    """Return one chart for each curve of a trend, all with one scale; None if no row of a document is of it."""
    rows = [row for row in rows if row["metric"] == trend.metric and row.get("value") is not None]
    if not rows:
        return None
    places = list(dict.fromkeys(row[trend.along] for row in rows))
    scale = scale_of(rows, percent=False)
    curves: dict[str, list[Mapping]] = {}
    for row in rows:
        curves.setdefault(row[trend.series], []).append(row)
    ordered = sorted(curves.items(), key=lambda item: item[1][0]["kind"] == "control")
    return {
        "title": trend.title,
        "about": trend.about,
        "along": trend.along_title,
        "panels": [
            {
                "title": names(name) if trend.series == "method" else name,
                "control": line[0]["kind"] == "control",
                "own": names.is_custom(name),
                "svg": _panel(line, trend.along, places, scale, line[0]["kind"]),
                "text": "; ".join(
                    f"{row[trend.along]}: {number(row['value'])} ({number(row['low'])} to {number(row['high'])})"
                    for row in line
                ),
            }
            for name, line in ordered
        ],
    }


def _panel(line: Sequence[Mapping], along: str, places: Sequence, scale: Scale, kind: str) -> str:
    """Return one curve with its interval band as an SVG."""

    def x(place: Any) -> float:
        return _LEFT + (_WIDTH - _LEFT - 10) * (places.index(place) / max(len(places) - 1, 1)) + 2

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - scale.place(value) / 100)

    known = [row for row in line if _known(row["low"]) and _known(row["high"])]
    upper = [f"{x(row[along]):.1f},{y(row['high']):.1f}" for row in known]
    lower = [f"{x(row[along]):.1f},{y(row['low']):.1f}" for row in reversed(known)]
    points = " ".join(f"{x(row[along]):.1f},{y(row['value']):.1f}" for row in line)
    ends = dict.fromkeys((places[0], places[-1]))
    parts = [f'<svg class="trend {kind}" viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true" focusable="false">']
    for value in dict.fromkeys((scale.low, 0.0, scale.high)):
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(f'<text x="{_LEFT - 4}" y="{y(value) + 3.5:.1f}" text-anchor="end">{value:g}</text>')
    parts.append(f'<polygon class="band" points="{" ".join([*upper, *lower])}"/>')
    parts.append(f'<polyline class="curve" points="{points}"/>')
    parts += [f'<circle cx="{x(row[along]):.1f}" cy="{y(row["value"]):.1f}" r="2.4"/>' for row in line]
    for place, anchor, at in zip(ends, ("start", "end"), (_LEFT, _WIDTH), strict=False):
        parts.append(f'<text x="{at}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{_escaped(place)}</text>')
    return "".join([*parts, "</svg>"])


def _escaped(place: Any) -> str:
    """Return a label with markup escaped."""
    return str(place).replace("&", "&amp;").replace("<", "&lt;")


def _known(value) -> bool:
    return value is not None and math.isfinite(value)
