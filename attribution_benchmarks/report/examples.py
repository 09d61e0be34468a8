"""Example inputs with the maps of all methods, as the data of a page's script."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.definition import Column
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.report import images
from attribution_benchmarks.report.matrix import group_of
from attribution_benchmarks.report.results import ReportData, Result

_QUALITY, _OF_PICTURES = 70, 88  # of WebP
_SHEET = 8  # maps side by side
_DIGITS = 5


def page_data(data: ReportData) -> dict[str, Any]:
    """Return what the page of examples shows: the examples of all tables in their order, each with its scores."""
    methods = data.matrix.methods
    return {
        "titles": {name: data.names(name) for name in methods},
        "order": list(methods),
        "own": [name for name in methods if data.names.is_custom(name)],
        "ramp": images.RAMP,
        "columns": [
            {"key": column.key, "label": column.label, "title": column.title, "less": not column.higher_is_better,
             "digits": 1 if column.percent else 3}
            for column in data.matrix.columns
        ],
        "gallery": [
            _example(one, result, data)
            for result in data.results if result.examples for one in report_examples.load(result.examples)
        ],
    }  # fmt: skip


def as_json(value: Any) -> str:
    """Return JSON without "<", which could end a script element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _example(one: report_examples.Example, result: Result, data: ReportData) -> dict[str, Any]:
    values = {}
    for column in data.matrix.columns:
        group = group_of(column, data.groups)
        if group is not None and _is_scored(one, result, column, group):
            place = list(group.inputs).index(one.input)
            of_input = {name: float(group.by_network(name)[place, 0]) for name in group.values}  # on its own network
            values[column.key] = {
                name: round(value, _DIGITS) if np.isfinite(value) else None for name, value in of_input.items()
            }
    return {
        "unit": result.task.title, "title": one.title, "values": values, "views": [_view(view) for view in one.views],
    }  # fmt: skip


def _is_scored(one: report_examples.Example, result: Result, column: Column, group: InputScores) -> bool:
    """Return whether a column has scores of an example, and rows of its table."""
    of_table = column.benchmark == result.task.benchmark and any(map(column.takes, result.scores.rows))
    return of_table and column.metric in one.metrics and one.input in group.inputs


def _view(view: report_examples.ExampleView) -> dict[str, Any]:
    found = {"title": view.title, "facts": view.facts, "methods": list(view.maps)}
    maps = np.stack(list(view.maps.values())) if view.maps else np.zeros((0, 1), np.uint8)
    if view.picture.ndim == 1:
        return {
            **found, "kind": "signal", "signal": [round(float(value), 3) for value in view.picture],
            "truth": [] if view.truth is None else np.flatnonzero(view.truth).tolist(),
            "maps": base64.b64encode(maps.tobytes()).decode(),
        }  # fmt: skip
    return {
        **found, "kind": "image", "picture": images.webp(view.picture, _OF_PICTURES), "width": view.picture.shape[1],
        "height": view.picture.shape[0], "outline": "" if view.truth is None else images.outline(view.truth),
        "truth_size": [] if view.truth is None else [view.truth.shape[1], view.truth.shape[0]],
        "maps": images.webp(images.sheet(maps, _SHEET), _QUALITY) if len(maps) else "",
        "map_size": [*maps.shape[:0:-1]] if maps.ndim == 3 else [1, 1], "sheet": _SHEET,
    }  # fmt: skip
