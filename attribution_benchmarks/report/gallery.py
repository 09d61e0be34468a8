"""The inputs that a page shows, each with the maps of all methods, and the scores of all inputs behind a column."""

from __future__ import annotations

import base64
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report import painting
from attribution_benchmarks.report.matrix import Column, Matrix
from attribution_benchmarks.report.significance import Verdicts

BUDGET = 3_600_000  # characters of pictures and maps; the rest of a page takes under half as much again
_QUALITIES = (70, 50, 35, 22)
_SHEET = 8  # maps or pictures side by side
_NOTHING = 65535  # stands for a value that does not exist


@dataclasses.dataclass(frozen=True)
class ScoredExample:
    """An input that is shown, with its scores.

    Attributes
    ----------
    shown
        Picture and maps.
    unit
        Title of the table that it belongs to.
    columns
        Keys of the columns that score it, the matrix's order.
    values
        Column key -> method or control -> its score on this input.
    places
        Column key -> method -> its share of the inputs on which it does worse against the mean of all methods.
    """

    shown: report_examples.Example
    unit: str
    columns: tuple[str, ...]
    values: Mapping[str, Mapping[str, float]]
    places: Mapping[str, Mapping[str, float]]


def group_of(column: Column, groups: Sequence[InputScores]) -> InputScores | None:
    """Return the scores of a column's inputs; None where there are none, or several."""
    found = [group for group in groups if column.takes(group.where)]
    return found[0] if len(found) == 1 else None


def examples(
    matrix: Matrix, results: Sequence[Any], scores: Mapping[str, Sequence[InputScores]]
) -> list[ScoredExample]:
    """Return the inputs that the units drew, in the order of the units."""
    found = []
    for result in results:
        if result.examples is None:
            continue
        names = {row["metric"] for row in result.document["rows"]}
        columns = [
            column
            for column in matrix.columns
            if column.benchmark == result.benchmark
            and column.metric in names
            and any(column.takes(row) for row in result.document["rows"])
        ]
        for one in report_examples.load(result.examples)[0]:
            values: dict[str, dict] = {}
            places: dict[str, dict] = {}
            for column in columns:
                group = group_of(column, scores.get(column.benchmark, ()))
                if column.metric not in one.metrics or group is None or one.input not in group.inputs:
                    continue
                place = list(group.inputs).index(one.input)
                values[column.key] = {name: float(line[place]) for name, line in group.values.items()}
                places[column.key] = _shares(group, matrix.methods, column.higher_is_better, place)
            found.append(ScoredExample(one, result.title, tuple(values), values, places))
    return found


def _shares(group: InputScores, methods: Sequence[str], higher: bool, place: int) -> dict[str, float]:
    names = [name for name in methods if name in group.values]
    table = np.array([group.values[name] for name in names], float)
    with np.errstate(invalid="ignore"):
        led = (table - np.nanmean(table, axis=0)) * (1 if higher else -1)
    return {
        name: float(np.nanmean(line < line[place]))
        for name, line in zip(names, led, strict=True)
        if line[place] == line[place]
    }


def packed(
    found: Sequence[ScoredExample], pictures: Mapping[str, report_examples.InputPictures], budget: int = BUDGET
) -> dict:
    """Return examples and pictures of inputs as plain JSON with data URLs, within a budget of characters.

    Parameters
    ----------
    found
        From ``examples``.
    pictures
        Column key -> pictures of its inputs.
    budget
        Pictures lose quality, and then examples fall away from the end of each table, until they fit.
    """
    kept = list(found)

    @functools.cache  # an example is encoded once a quality, however many fall away before the rest fits
    def example(place: int, quality: int) -> dict:
        return _example(found[place], quality)

    places = {id(one): place for place, one in enumerate(found)}
    sheets = functools.cache(functools.partial(_pictures, pictures))
    while True:
        best = None
        better, worse = 0, len(_QUALITIES)  # the best that fits lies between, and is found by halving
        while better < worse:
            middle = (better + worse) // 2
            quality = _QUALITIES[middle]
            result = {
                "examples": [example(places[id(one)], quality) for one in kept],
                "pictures": sheets(quality),
            }
            if _size(result) <= budget:
                best, worse = result, middle
            else:
                better = middle + 1
        if best is not None:
            return best
        if not kept:
            return {"examples": [], "pictures": {}}
        counts = {one.unit: sum(other.unit == one.unit for other in kept) for one in kept}
        largest = max(counts, key=lambda unit: counts[unit])
        kept.remove(next(one for one in reversed(kept) if one.unit == largest))


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, (list, tuple)) else 8


def _example(one: ScoredExample, quality: int) -> dict:
    return {
        "unit": one.unit, "title": one.shown.title, "input": one.shown.input, "columns": list(one.columns),
        "values": {key: {name: _plain(value) for name, value in line.items()} for key, line in one.values.items()},
        "views": [_view(view, quality) for view in one.shown.views],
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
        **found, "kind": "image", "picture": painting.webp(view.picture, 88), "width": view.picture.shape[1],
        "height": view.picture.shape[0], "outline": "" if view.truth is None else painting.outline(view.truth),
        "truth_size": [] if view.truth is None else [view.truth.shape[1], view.truth.shape[0]],
        "maps": painting.webp(painting.sheet(maps, _SHEET), quality) if len(maps) else "",
        "map_size": [*maps.shape[:0:-1]] if maps.ndim == 3 else [1, 1], "sheet": _SHEET,
    }  # fmt: skip


def _pictures(pictures: Mapping[str, report_examples.InputPictures], quality: int) -> dict:
    """Return the pictures of inputs, each set once, and which column has which."""
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
                         "data": painting.webp(painting.sheet(one.pictures, _SHEET), quality)})  # fmt: skip
    return {
        "sets": sets,
        "of": {key: seen[id(one.pictures)] for key, one in pictures.items() if id(one.pictures) in seen},
    }


def _unit(values: np.ndarray) -> np.ndarray:
    low, span = values.min(axis=1, keepdims=True), np.ptp(values, axis=1).reshape(-1, 1)
    return np.divide(values - low, span, out=np.zeros(values.shape), where=span > 0)


def pictures_of(matrix: Matrix, results: Sequence[Any], scores: Mapping) -> dict[str, report_examples.InputPictures]:
    """Return the pictures of each column's inputs, in the order of its scores, where a unit kept them."""
    found = {}
    for result in results:
        if result.examples is None:
            continue
        for one in report_examples.load(result.examples)[1]:
            for column in matrix.columns:
                group = group_of(column, scores.get(column.benchmark, ()))
                if (
                    group is not None
                    and column.benchmark == result.benchmark
                    and column.metric in one.metrics
                    and tuple(group.inputs) == one.inputs
                    and any(column.takes(row) for row in result.document["rows"])
                ):
                    found[column.key] = one
    return found


def all_scores(matrix: Matrix, scores: Mapping[str, Sequence[InputScores]], verdicts: Sequence[Verdicts]) -> list[dict]:
    """Return every input's score of every method and control, two bytes a score, for the page to compare.

    A score is ``low + step * number``; 65535 stands for none. Each column names its strongest rival among the controls.
    """
    judged = {verdict.column.key: verdict for verdict in verdicts}
    found = []
    for column in matrix.columns:
        group = group_of(column, scores.get(column.benchmark, ()))
        if group is None or not len(group.inputs):
            continue
        names = [name for name in (*matrix.methods, *matrix.controls) if name in group.values]
        table = np.array([group.values[name] for name in names], float)
        finite = table[np.isfinite(table)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
        step = (high - low) / (_NOTHING - 1) or 1.0
        numbers = np.full(table.shape, _NOTHING, np.uint16)
        numbers[np.isfinite(table)] = np.rint((finite - low) / step).astype(np.uint16)
        rivals = [name for name in names if name in matrix.controls and name not in column.excluded]
        sign = 1 if column.higher_is_better else -1
        found.append(
            {
                "column": column.key, "title": column.label, "names": names, "low": low,
                "step": step, "less": not column.higher_is_better, "digits": 1 if column.percent else 3,
                "inputs": list(group.inputs), "numbers": base64.b64encode(numbers.astype("<u2").tobytes()).decode(),
                "rival": max(rivals, key=lambda name: sign * matrix.cells[name, column.key]["value"])
                if rivals and column.key in judged else "",
            }
        )  # fmt: skip
    return found


def _plain(value: float) -> float | None:
    return round(value, 5) if np.isfinite(value) else None
