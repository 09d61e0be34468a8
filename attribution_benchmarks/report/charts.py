"""Scales of charts, and small line charts as SVG; the bars of tables are drawn by their template."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.report_text import Trend
from attribution_benchmarks.core.scores import ALONG, curve_name
from attribution_benchmarks.report.formatting import known, number

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
    numbers = [row[key] for row in rows for key in ("value", "low", "high", "paper") if known(row.get(key))]
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    if percent:
        return Scale(-100.0 if low < 0 else 0.0, 100.0)
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)))
    step = next(step / parts for parts in (10, 5, 2, 1) if (high - low) / (step / parts) <= 12)
    high = math.ceil(high / step - 1e-9) * step
    return Scale(math.floor(low / step + 1e-9) * step, high if high > low else low + step)


class Curve(NamedTuple):
    """A curve with its interval."""

    series: str  # method, or another value of the trend's key
    control: bool
    svg: str
    text: str  # its points, for readers who cannot see them


def curves(trend: Trend, rows: Sequence[Mapping]) -> list[Curve]:
    """Return the curves of a trend, all with one scale, controls last; none if no row of a document is of it."""
    rows = [row for row in rows if row["metric"] == trend.metric and row.get("value") is not None]
    places = list(dict.fromkeys(row[trend.along] for row in rows))
    scale = scale_of(rows, percent=False)
    of_series: dict[str, list[Mapping]] = {}
    for row in rows:
        of_series.setdefault(row[trend.series], []).append(row)
    found = []
    for series, line in of_series.items():
        kind = line[0]["kind"]
        points = [
            f"{row[trend.along]}: {number(row['value'])} ({number(row['low'])} to {number(row['high'])})"
            for row in line
        ]
        found.append(
            Curve(series, kind == "control", _panel(line, trend.along, places, scale, kind), "; ".join(points))
        )
    return sorted(found, key=lambda one: one.control)


def curve_trend(metric: Metric, title: str) -> Trend:
    """Return the trend of a metric's curves in a table."""
    return Trend(
        curve_name(metric), f"{metric.title}: curves ({title})",
        f"{metric.about} The score is the area below the curve.", ALONG, "the share of positions removed",
    )  # fmt: skip


def _panel(line: Sequence[Mapping], along: str, places: Sequence, scale: Scale, kind: str) -> str:
    """Return one curve with its interval band as an SVG."""

    def x(place: Any) -> float:
        return _LEFT + (_WIDTH - _LEFT - 10) * (places.index(place) / max(len(places) - 1, 1)) + 2

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - scale.place(value) / 100)

    banded = [row for row in line if known(row["low"]) and known(row["high"])]
    upper = [f"{x(row[along]):.1f},{y(row['high']):.1f}" for row in banded]
    lower = [f"{x(row[along]):.1f},{y(row['low']):.1f}" for row in reversed(banded)]
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
        parts.append(f'<text x="{at}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{html.escape(str(place))}</text>')
    return "".join([*parts, "</svg>"])
