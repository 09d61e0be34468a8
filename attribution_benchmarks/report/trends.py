"""Scores along something, such as the layers of a network: a small chart a curve, each with its intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attribution_benchmarks.core.definition import Trend
from attribution_benchmarks.report.charts import scale_of
from attribution_benchmarks.report.matrix_table import number

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 220, 120, 30, 8, 22


def charts_of(trend: Trend, rows: Sequence[Mapping], named: Any) -> dict | None:
    """Return a trend's charts, one a curve, all of one scale; None where there is nothing to draw.

    Parameters
    ----------
    trend
        From a benchmark's definition.
    rows
        Of its documents.
    named
        ``sections.Names``.
    """
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
                "title": named(name) if trend.series == "method" else name,
                "control": line[0]["kind"] == "control",
                "own": named.own(name),
                "svg": _panel(line, trend.along, places, scale, line[0]["kind"]),
                "text": "; ".join(
                    f"{row[trend.along]}: {number(row['value'])} ({number(row['low'])} to {number(row['high'])})"
                    for row in line
                ),
            }
            for name, line in ordered
        ],
    }


def _panel(line, along, places, scale, kind) -> str:
    """Return one curve with its band as an SVG; the figures stand in its text."""

    def x(place):
        return _LEFT + (_WIDTH - _LEFT - 10) * (places.index(place) / max(len(places) - 1, 1)) + 2

    def y(value):
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - scale.place(value) / 100)

    known = [row for row in line if all(row[end] is not None and math.isfinite(row[end]) for end in ("low", "high"))]
    upper = [f"{x(row[along]):.1f},{y(row['high']):.1f}" for row in known]
    lower = [f"{x(row[along]):.1f},{y(row['low']):.1f}" for row in reversed(known)]
    points = " ".join(f"{x(row[along]):.1f},{y(row['value']):.1f}" for row in line)
    ends = [places[0], places[-1]] if len(places) > 1 else places
    parts = [f'<svg class="trend {kind}" viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true" focusable="false">']
    for value in dict.fromkeys((scale.low, 0.0, scale.high)):
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(f'<text x="{_LEFT - 4}" y="{y(value) + 3.5:.1f}" text-anchor="end">{value:g}</text>')
    parts.append(f'<polygon class="band" points="{" ".join([*upper, *lower])}"/>')
    parts.append(f'<polyline class="curve" points="{points}"/>')
    parts += [f'<circle cx="{x(row[along]):.1f}" cy="{y(row["value"]):.1f}" r="2.4"/>' for row in line]
    for number_, place in enumerate(ends):
        anchor = "start" if number_ == 0 else "end"
        at = _LEFT if number_ == 0 else _WIDTH
        parts.append(f'<text x="{at}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{_short(place)}</text>')
    return "".join([*parts, "</svg>"])


def _short(place: Any) -> str:
    """Return a place's name without what would be markup."""
    return str(place).replace("&", "&amp;").replace("<", "&lt;")
