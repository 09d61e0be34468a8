"""Examples with the maps of all methods, the scores of all inputs of each column, and a card for each method.

A card has the method's ranks, the results of the tests, known properties, and its best and worst example.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attribution.methods.registry import known_method
from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.report import images
from attribution_benchmarks.report.formatting import Names, cell_score, enumeration, percentages, rank, score
from attribution_benchmarks.report.matrix import Column, Matrix
from attribution_benchmarks.report.significance import (
    MARGIN,
    BaselineRecord,
    ColumnTests,
    baseline_record,
    group_of,
    independent_baselines,
)
from attribution_benchmarks.report.summary import describe_record, no_verdict

_QUALITIES = (70, 50, 35, 22)  # of WebP
_SHEET = 8  # maps or pictures side by side
_MISSING = 65535  # instead of a missing score
_PANELS = 7  # methods next to the input at the top of the first page


@dataclasses.dataclass(frozen=True)
class _ScoredExample:
    """An example with its scores."""

    example: report_examples.Example  # picture and maps
    task: str  # title of its table
    columns: tuple[str, ...]  # keys of the columns that score it, in the matrix's order
    values: Mapping[str, Mapping[str, float]]  # column key -> method or control -> its score on this input
    # Column key -> method -> place of its score on this input among its scores on all.
    places: Mapping[str, Mapping[str, _Place]]


class _Place(NamedTuple):
    """Place of a method's score on one input among its scores on all inputs of the column.

    ``order`` is 1/2 for the median, near 1 for its best and near 0 for its worst score, equal scores being in the
    middle of theirs. ``lead`` is the share of the inputs on which its lead over the mean of all methods is smaller,
    ``worse`` that of the inputs on which its score is worse.
    """

    order: float
    lead: float
    worse: float


def examples(
    matrix: Matrix, results: Sequence[Any], scores: Mapping[str, Sequence[InputScores]]
) -> list[_ScoredExample]:
    """Return the examples of all tasks, in the order of the tasks."""
    found = []
    for result, (loaded, _) in _loaded(results):
        columns = _columns_of(result, matrix)
        for one in loaded:
            values: dict[str, dict] = {}
            places: dict[str, dict] = {}
            for column in columns:
                group = group_of(column, scores)
                if column.metric not in one.metrics or group is None or one.input not in group.inputs:
                    continue
                place = list(group.inputs).index(one.input)
                values[column.key] = {name: float(line[place]) for name, line in group.values.items()}
                places[column.key] = _places(group, matrix.methods, column.higher_is_better, place)
            found.append(_ScoredExample(one, result.title, tuple(values), values, places))
    return found


def _loaded(results: Sequence[Any]) -> Iterator[tuple[Any, tuple[list, list]]]:
    """Yield each result that has examples, with its examples and the pictures of its inputs."""
    for result in results:
        if result.examples is not None:
            yield result, report_examples.load(result.examples)


def _columns_of(result: Any, matrix: Matrix) -> list[Column]:
    """Return the columns that take rows of a result's document."""
    return [
        column
        for column in matrix.columns
        if column.benchmark == result.benchmark and any(column.takes(row) for row in result.document["rows"])
    ]


def _places(group: InputScores, methods: Sequence[str], higher: bool, place: int) -> dict[str, _Place]:
    names = [name for name in methods if name in group.values]
    table = np.array([group.values[name] for name in names], float) * (1 if higher else -1)
    with np.errstate(invalid="ignore"):
        led = table - np.nanmean(table, axis=0)

    def of(line: np.ndarray, lead: np.ndarray) -> _Place:
        known = np.isfinite(line)
        worse, better = float(np.mean(line[known] < line[place])), float(np.mean(line[known] > line[place]))
        return _Place((1 + worse - better) / 2, float(np.mean(lead[known] < lead[place])), worse)

    pairs = zip(names, table, led, strict=True)
    return {name: of(line, lead) for name, line, lead in pairs if np.isfinite(line[place])}


def packed(found: Sequence[_ScoredExample], pictures: Mapping[str, report_examples.InputPictures], budget: int) -> dict:
    """Return examples and pictures of inputs as JSON with data URLs, within a budget of characters.

    ``pictures`` are by column key. If they do not fit, they lose quality. If that is not enough, examples are dropped
    from the end of the table that has most.
    """
    encoded = functools.cache(lambda place, quality: _example(found[place], quality))
    sheets = functools.cache(functools.partial(_pictures, pictures))
    kept = list(range(len(found)))
    while True:
        for quality in _QUALITIES:
            result = {"examples": [encoded(place, quality) for place in kept], "pictures": sheets(quality)}
            if _size(result) <= budget:
                return result
        if not kept:
            return {"examples": [], "pictures": {}}
        tasks = [found[place].task for place in kept]
        largest = max(tasks, key=tasks.count)
        kept.remove(next(place for place in reversed(kept) if found[place].task == largest))


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, (list, tuple)) else 8


def _example(one: _ScoredExample, quality: int) -> dict:
    return {
        "unit": one.task, "title": one.example.title, "input": one.example.input, "columns": list(one.columns),
        "values": {key: {name: _plain(value) for name, value in line.items()} for key, line in one.values.items()},
        "views": [_view(view, quality) for view in one.example.views],
    }  # fmt: skip


def _view(view: report_examples.ExampleView, quality: int) -> dict:
    found = {"title": view.title, "facts": view.facts, "methods": list(view.maps)}
    maps = np.stack(list(view.maps.values())) if view.maps else np.zeros((0, 1), np.uint8)
    if view.picture.ndim == 1:
        return {
            **found, "kind": "signal", "signal": [round(float(value), 3) for value in view.picture],
            "truth": [] if view.truth is None else np.flatnonzero(view.truth).tolist(),
            "maps": base64.b64encode(maps.tobytes()).decode(),
        }  # fmt: skip
    return {
        **found, "kind": "image", "picture": images.webp(view.picture, 88), "width": view.picture.shape[1],
        "height": view.picture.shape[0], "outline": "" if view.truth is None else images.outline(view.truth),
        "truth_size": [] if view.truth is None else [view.truth.shape[1], view.truth.shape[0]],
        "maps": images.webp(images.sheet(maps, _SHEET), quality) if len(maps) else "",
        "map_size": [*maps.shape[:0:-1]] if maps.ndim == 3 else [1, 1], "sheet": _SHEET,
    }  # fmt: skip


def _pictures(pictures: Mapping[str, report_examples.InputPictures], quality: int) -> dict:
    """Return each set of pictures once, and which column has which."""
    sets: list[dict] = []
    seen: dict[int, int] = {}
    for one in pictures.values():
        if id(one.pictures) in seen or not len(one.pictures):
            continue
        seen[id(one.pictures)] = len(sets)
        if one.pictures.ndim == 2:
            scaled = np.rint(255 * _unit(one.pictures)).astype(np.uint8)
            sets.append({"kind": "signal", "length": scaled.shape[1],
                         "data": base64.b64encode(scaled.tobytes()).decode()})  # fmt: skip
        else:
            height, width = one.pictures.shape[1:3]
            sets.append({"kind": "image", "width": width, "height": height, "sheet": _SHEET,
                         "data": images.webp(images.sheet(one.pictures, _SHEET), quality)})  # fmt: skip
    return {
        "sets": sets,
        "of": {key: seen[id(one.pictures)] for key, one in pictures.items() if id(one.pictures) in seen},
    }


def _unit(values: np.ndarray) -> np.ndarray:
    low, span = values.min(axis=1, keepdims=True), np.ptp(values, axis=1).reshape(-1, 1)
    return np.divide(values - low, span, out=np.zeros(values.shape), where=span > 0)


def pictures_of(
    matrix: Matrix, results: Sequence[Any], scores: Mapping[str, Sequence[InputScores]]
) -> dict[str, report_examples.InputPictures]:
    """Return the pictures of each column's inputs, in the order of its scores, if its task stored them."""
    found = {}
    for result, (_, loaded) in _loaded(results):
        for column in _columns_of(result, matrix):
            group = group_of(column, scores)
            for one in loaded:
                if group is not None and column.metric in one.metrics and tuple(group.inputs) == one.inputs:
                    found[column.key] = one
    return found


def all_scores(
    matrix: Matrix, scores: Mapping[str, Sequence[InputScores]], tests: Mapping[str, ColumnTests]
) -> list[dict]:
    """Return the scores of all methods and controls on each input, two bytes per score.

    A score is ``low + step * number``; 65535 is a missing score. ``rival`` is the control with the best mean.
    ``leads`` has the places of two names, and the mean of the first minus the second one with its interval.
    """
    groups = [(column, group_of(column, scores)) for column in matrix.columns]
    return [
        _scores(column, group, matrix, tests.get(column.key)) for column, group in groups if group and len(group.inputs)
    ]


def _in_steps(values: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return values as uint16 numbers of steps above the lowest one, ``_MISSING`` if not finite; lowest value; step."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    step = (high - low) / (_MISSING - 1) or 1.0
    numbers = np.full(values.shape, _MISSING, np.uint16)
    numbers[np.isfinite(values)] = np.rint((finite - low) / step).astype(np.uint16)
    return numbers, low, step


def _scores(column: Column, group: InputScores, matrix: Matrix, tests: ColumnTests | None) -> dict:
    names = [name for name in (*matrix.methods, *matrix.controls) if name in group.values]
    table = np.array([group.values[name] for name in names], float)
    numbers, low, step = _in_steps(table)
    best = max if column.higher_is_better else min
    controls = independent_baselines(column, matrix, group) if tests else []
    return {
        "column": column.key, "title": column.label, "names": names, "low": low,
        "step": step, "less": not column.higher_is_better, "digits": 1 if column.percent else 3,
        "inputs": list(group.inputs), "numbers": base64.b64encode(numbers.astype("<u2").tobytes()).decode(),
        "rival": best(controls, key=lambda name: matrix.cells[name, column.key]["value"], default=""),
        "leads": [
            [names.index(test.first), names.index(test.second), *map(_plain, test[2:5])]
            for test in ((*tests.pairs, *tests.leads) if tests else ())
        ],
    }  # fmt: skip


def _plain(value: float) -> float | None:
    return round(value, 5) if np.isfinite(value) else None


def hero(examples: Sequence[_ScoredExample], matrix: Matrix, names: Names) -> dict | None:
    """Return one example with maps of methods from the best to the worst; None if there is no example.

    It is the one whose scores differ most, an image if there is one.
    """
    scored = [one for one in examples if one.columns]
    if not scored:
        return None
    one = max(scored, key=_interest)
    column = next(column for column in matrix.columns if column.key == one.columns[0])
    view, values = one.example.views[0], _values(one)
    sign = -1 if column.higher_is_better else 1
    picked = _spread_out(sorted(values, key=lambda name: (sign * values[name], name)), names)
    first = {"inside": _inside(view, None), "title": "The input", "text": ""}
    if view.truth is not None:
        first["text"] = "truth outlined"
    panels = [
        {"inside": _inside(view, name), "title": names(name), "text": score(values[name], column)} for name in picked
    ]
    return {
        "panels": [first, *panels],
        "caption": f"“{one.example.title}” – {view.facts}. From the best to the worst {column.label} on this input; "
        f"{'more' if column.higher_is_better else 'less'} is better.",
    }


def _values(one: _ScoredExample) -> dict[str, float]:
    """Return the scores of methods with a map, by the example's first column."""
    values = one.values[one.columns[0]]
    return {name: values[name] for name in one.example.views[0].maps if np.isfinite(values.get(name, np.nan))}


def _interest(one: _ScoredExample) -> tuple[bool, bool, float]:
    """Return a sort key: a single image, an image, the spread of the scores."""
    views = one.example.views
    is_image = views[0].picture.ndim == 3
    values = list(_values(one).values())
    return is_image and len(views) == 1, is_image, float(np.std(values)) if values else 0.0


def _spread_out(ordered: Sequence[str], names: Names) -> list[str]:
    """Return ``_PANELS`` methods evenly from the first to the last, custom ones among them."""
    if len(ordered) <= _PANELS:
        return list(ordered)
    places = sorted({round(place) for place in np.linspace(0, len(ordered) - 1, _PANELS)})
    for place, name in enumerate(ordered):
        if names.is_custom(name) and place not in places:
            nearest = min(places[1:-1], key=lambda other: abs(other - place))
            places[places.index(nearest)] = place
    return [ordered[place] for place in sorted(places)]


def _inside(view: Any, method: str | None) -> str:
    """Return a picture as HTML, with a method's map over it if one is given."""
    if view.picture.ndim == 1:
        drawn = images.signal_svg(view.picture, view.truth, None if method is None else view.maps[method])
        return f'<span class="frame">{drawn}</span>'
    height, width = view.picture.shape[:2]
    pixels = view.picture if method is None else images.overlay(view.picture, view.maps[method])
    over = ""
    if view.truth is not None:
        rows, columns = view.truth.shape
        over = (
            f'<svg class="over" viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" aria-hidden="true">'
            f'<path d="{images.outline(view.truth)}"/></svg>'
        )
    source = images.webp(pixels, 88)
    return f'<span class="frame"><img src="{source}" width="{width}" height="{height}" alt="">{over}</span>'


_AT_MOST = 4  # metrics named in one sentence


def cards(
    matrix: Matrix,
    tests: Mapping[str, ColumnTests],
    examples: Sequence[_ScoredExample],
    names: Names,
    benchmarks: Mapping[str, str],
) -> list[dict]:
    """Return a card for each method, custom ones first, then in the order of the matrix.

    ``tests`` are by column key; ``benchmarks`` is name -> title.
    """
    ordered = sorted(matrix.methods, key=lambda name: not names.is_custom(name))
    return [
        {
            "id": f"method-{place}",
            "missing": _missing(name, matrix, benchmarks),
            "sentences": sentences(name, tests, names),
            **_identity(name, names),
            **_ranks(name, matrix, tests),
            **_known_properties(name),
            **_extremes(name, examples, matrix),
        }
        for place, name in enumerate(ordered)
    ]


def _identity(name: str, names: Names) -> dict:
    return {
        "name": name, "title": names(name), "own": names.is_custom(name), "path": names.path(name),
        "family": names.families.get(name, ""),
    }  # fmt: skip


def _ranks(name: str, matrix: Matrix, tests: Mapping[str, ColumnTests]) -> dict:
    counts = matrix.rank_counts()
    ranks: list[dict] = [
        {
            "column": column.label, "rank": rank(value), "count": counts[column.key],
            "text": cell_score(matrix.cells[name, column.key], column),
            "place": round(100 * (value - 1) / max(counts[column.key] - 1, 1)),
            "mark": tests[column.key].mark(name) if column.key in tests else "",
        }
        for column in matrix.columns
        if (value := matrix.ranks.get((name, column.key))) is not None
    ]  # fmt: skip
    places = [one["place"] for one in ranks]
    return {"ranks": ranks, "mean": round(100 - sum(places) / len(places)) if places else None}


def _known_properties(name: str) -> dict:
    method = known_method(name)
    if not (card := method and method.card):
        return {"cost": "", "facts": []}
    facts = [
        ("Needs", card.requirements), ("Cost of an input", card.cost), ("Randomness", card.randomness),
        ("Known weaknesses", card.weaknesses), ("Source", card.citation),
    ]  # fmt: skip
    return {"cost": card.cost, "facts": facts}


def sentences(name: str, tests: Mapping[str, ColumnTests], names: Names) -> list[str]:
    """Return what the tests of all columns found for a method, and how many of them have enough inputs."""
    tested = [one for one in tests.values() if name in one.tested]
    if not tested:
        return ["No paired test: the scores of single inputs are not known."]
    powered = [one for one in tested if one.has_power()]
    if not powered:
        return ["The inputs are too few to compare it with baselines."]
    record = baseline_record(name, powered)
    text = no_verdict(powered) or describe_record(record)
    return [f"{text[0].upper()}{text[1:]}{_failed(name, powered, names)}.", *_kept(record), *_best(name, powered)]


def _best(name: str, powered: Sequence[ColumnTests]) -> list[str]:
    found = [one.column.label for one in powered if len(one.tested) > 1 and one.ranks[name].high == 1]
    return [f"Significantly better than all others on {enumeration(found, _AT_MOST)}."] if found else []


def _failed(name: str, powered: Sequence[ColumnTests], names: Names) -> str:
    """Return which baseline a method does not beat by the margin, by metric."""
    first = {one.column.label: one.failed(name)[:1] for one in powered}
    which = [f"{label} (“{names(found[0].kind)}”)" for label, found in first.items() if found]
    return f"; not on {enumeration(which, _AT_MOST)}" if which else ""


def _kept(record: BaselineRecord) -> list[str]:
    """Return how much of its score a method keeps for a wrong class, if that is too much."""
    kept = {label: share for label, share in record.kept.items() if share > MARGIN}
    if not kept:
        return []
    return [f"Keeps {percentages(kept.values())} of its score for a wrong class on {enumeration(kept, _AT_MOST)}."]


def _extremes(name: str, examples: Sequence[_ScoredExample], matrix: Matrix) -> dict:
    """Return the examples of a method's best and worst score among all its scores; images if there are any.

    None where no example has a score above, or below, the median.
    """
    placed = _placed(name, examples)
    placed = [one for one in placed if examples[one[1]].example.views[0].picture.ndim == 3] or placed
    columns = {column.key: column for column in matrix.columns}

    def end(place: _Place, number: int, key: str) -> dict:
        one, column = examples[number], columns[key]
        view = next(view for view in one.example.views if name in view.maps)
        return {
            "example": number, "column": column.label, "value": score(one.values[key][name], column),
            "share": round(100 * place.worse), "title": one.example.title, "inside": _inside(view, name),
        }  # fmt: skip

    best, worst = (extreme(placed, key=lambda one: one[0], default=None) for extreme in (max, min))
    return {
        "best": end(*best) if best and best[0].order > 0.5 else None,
        "worst": end(*worst) if worst and worst[0].order < 0.5 else None,
    }


def _placed(name: str, examples: Sequence[_ScoredExample]) -> list[tuple[_Place, int, str]]:
    """Return the places of a method's scores with the example's number and the column, of examples with its map."""
    return [
        (place, number, key)
        for number, one in enumerate(examples)
        if any(name in view.maps for view in one.example.views)
        for key in one.columns
        if (place := one.places[key].get(name)) is not None
    ]


def _missing(name: str, matrix: Matrix, benchmarks: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return benchmark -> why a method has no score there, each reason once."""
    found = {}
    for column in matrix.columns:
        reason = matrix.blanks.get((name, column.key))
        if reason:
            found.setdefault((benchmarks.get(column.benchmark, column.group), reason), None)
    return list(found)
