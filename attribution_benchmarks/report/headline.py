"""The first screen: what the run found in one sentence, its size, and one input with what methods make of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attribution_benchmarks.report import painting
from attribution_benchmarks.report.cards import in_short
from attribution_benchmarks.report.gallery import ScoredExample
from attribution_benchmarks.report.matrix import Matrix
from attribution_benchmarks.report.matrix_table import shown
from attribution_benchmarks.report.significance import (
    KEPT,
    Record,
    Verdicts,
    count_in_words,
    percentages,
    record,
    record_in_words,
)

_PANELS = 7  # methods beside the input itself


def headline(matrix: Matrix, judged: Mapping[str, Verdicts], named: Any, own: Sequence[str]) -> tuple[str, str]:
    """Return the run's result, and a sentence more that qualifies it, empty where there is none.

    Of the user's own method where there is one; otherwise of the methods that beat every baseline most often.
    """
    if not matrix.methods:
        return "Nothing has been scored", ""
    if own:
        return in_short(own[0], matrix, judged, named)
    return _against_baselines(matrix, judged, named)


def _against_baselines(matrix: Matrix, judged: Mapping[str, Verdicts], named: Any) -> tuple[str, str]:
    """Return which methods beat every baseline most often; one that keeps its score for another class is no winner."""
    if not any(verdict.tells_controls() for verdict in judged.values()):
        return "A first look: the inputs are too few to compare methods with the baselines", ""
    records = {name: record(name, judged.values(), matrix) for name in matrix.methods}
    most = max(one.beats for one in records.values())
    top = [name for name, one in records.items() if one.beats == most]
    if most == 0:
        return f"No method beats every baseline on {count_in_words(records[top[0]], 'any of ')}", ""
    passing = [name for name in top if not records[name].kept]
    shown = passing or top
    said = f"{_listed(shown, named)} {record_in_words([records[name] for name in shown])}"
    if not passing:
        return said, _others(records, named)
    qualified = [*_keeping([name for name in top if name not in passing], records, named)]
    if any(one.known for one in records.values()):
        qualified += _untested([name for name in passing if not records[name].known], named)
    return said + ("" if most == records[top[0]].metrics else ", the most of any method"), " ".join(qualified)


def _keeping(names: Sequence[str], records: Mapping[str, Record], named: Any) -> list[str]:
    """Say of methods that beat the baselines as often as the best what they keep of their score for another class."""
    if not names:
        return []
    shares = percentages(share for name in names for share in records[name].kept.values())
    verbs = ("does", "keeps", "its") if len(names) == 1 else ("do", "keep", "their")
    return [
        f"{_listed(names, named)} {verbs[0]} so too, but {verbs[1]} {shares} of {verbs[2]} score for a wrong class."
    ]


def _untested(names: Sequence[str], named: Any) -> list[str]:
    return [f"Not compared with another class: {_listed(names, named)}."] if names else []


def _others(records: Mapping[str, Record], named: Any) -> str:
    """Say which methods come first among those that are not known to keep their score for another class."""
    passing = {name: one for name, one in records.items() if not one.kept}
    most = max((one.beats for one in passing.values()), default=0)
    if most == 0:
        return f"Every method that beats all baselines on a metric keeps more than {100 * KEPT:.0f} % on one."
    first = [name for name, one in passing.items() if one.beats == most]
    others = f"{_listed(first, named)} {record_in_words([passing[name] for name in first])}"
    return " ".join(
        [
            f"Of the methods that do not, {others}, the most.",
            *_untested([n for n in first if not records[n].known], named),
        ]
    )


def _listed(names: Sequence[str], named: Any) -> str:
    """Return "a, b and c"; how many there are where they are more than three."""
    if len(names) > 3:
        return f"{len(names)} methods"
    shown = [named(name) for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def facts(matrix: Matrix) -> list[tuple[str, str]]:
    """Return how much was scored: figures, each with what it counts."""
    groups = {column.group for column in matrix.columns}
    inputs = [row["n"] for row in matrix.cells.values()]
    least, most = (f"{end(inputs):,}" if inputs else "" for end in (min, max))
    sizes = {"method": len(matrix.methods), "control": len(matrix.controls), "metric": len(matrix.columns)}
    sizes["benchmark"] = len(groups)
    found = [(str(count), noun if count == 1 else f"{noun}s") for noun, count in sizes.items()]
    return [*found, (least if least == most else f"{least}–{most}", "inputs behind a figure")]


@dataclasses.dataclass(frozen=True)
class Panel:
    """A picture with its words; ``inside`` is HTML of ours alone."""

    inside: str
    title: str
    text: str


def hero(examples: Sequence[ScoredExample], matrix: Matrix, named: Any) -> dict | None:
    """Return one input and what methods from the best to the worst make of it; None where no input is shown.

    It is the input on which scores differ most, an image where there is one.
    """
    columns = {column.key: column for column in matrix.columns}
    rated = [
        (one.shown.views[0].picture.ndim == 3 and len(one.shown.views) == 1, one.shown.views[0].picture.ndim == 3,
         _spread(one, key, columns[key]), -place, key, one)
        for place, one in enumerate(examples)
        for key in one.columns[:1]
    ]  # fmt: skip
    if not rated:
        return None
    *_, key, one = max(rated, key=lambda rating: rating[:4])
    column, view = columns[key], one.shown.views[0]
    sign = 1 if column.higher_is_better else -1
    values = {name: one.values[key].get(name, np.nan) for name in view.maps}
    ordered = sorted(
        (name for name in values if np.isfinite(values[name])), key=lambda name: (-sign * values[name], name)
    )
    picked = _spread_out(ordered, named)
    panels = [Panel(_inside(view, None), "The input", "truth outlined" if view.truth is not None else "")]
    panels += [Panel(_inside(view, name), named(name), shown({"value": values[name]}, column)) for name in picked]
    return {
        "panels": panels,
        "caption": f"“{one.shown.title}” – {view.facts}. From the best to the worst {column.label} on this input; "
        f"{'more' if column.higher_is_better else 'less'} is better.",
    }


def _spread(one: ScoredExample, key: str, column: Any) -> float:
    values = [value for name, value in one.values[key].items() if name in one.shown.views[0].maps and value == value]
    return float(np.std(values)) if values else 0.0


def _spread_out(ordered: Sequence[str], named: Any) -> list[str]:
    """Return so many methods, evenly from the first to the last, those of the user's own among them."""
    if len(ordered) <= _PANELS:
        return list(ordered)
    places = sorted({round(place) for place in np.linspace(0, len(ordered) - 1, _PANELS)})
    for place, name in enumerate(ordered):
        if named.own(name) and place not in places:
            nearest = min(places[1:-1], key=lambda other: abs(other - place))
            places[places.index(nearest)] = place
    return [ordered[place] for place in sorted(places)]


def _inside(view: Any, method: str | None) -> str:
    """Return a picture, with a method's map over it, as HTML."""
    if view.picture.ndim == 1:
        drawn = painting.signal_svg(view.picture, view.truth, None if method is None else view.maps[method])
        return f'<span class="frame">{drawn}</span>'
    height, width = view.picture.shape[:2]
    pixels = view.picture if method is None else painting.laid_over(view.picture, view.maps[method])
    over = ""
    if view.truth is not None:
        rows, columns = view.truth.shape
        over = (
            f'<svg class="over" viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" aria-hidden="true">'
            f'<path d="{painting.outline(view.truth)}"/></svg>'
        )
    source = painting.webp(pixels, 88)
    return f'<span class="frame"><img src="{source}" width="{width}" height="{height}" alt="">{over}</span>'
