"""Differences between two reports, tested input by input if both scored the same inputs."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.reading import read_json
from attribution_benchmarks.core import input_scores
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report.formatting import Names, cell_score, number, signed
from attribution_benchmarks.report.matrix import Column, Matrix
from attribution_benchmarks.report.significance import group_of
from attribution_benchmarks.stats.statistics import LEVEL, PairComparison, compare_pairs


class OtherReport:
    """A finished report, by its output directory; raises ``BadInput`` if there is none."""

    def __init__(self, directory: pathlib.Path):
        path = directory / "tables" / "matrix.json"
        try:
            document = read_json(path)
            for row in document["rows"]:
                _check_row(row)
            self.rows = {(_function(row["method"]), row["column"]): row for row in document["rows"]}
            self.command = document["manifest"]["command"]
        except (BadInput, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise BadInput(
                f"--compare={directory} holds no finished report ({path} cannot be read); name an --output_dir of "
                "scripts/reproduce_tables.py"
            ) from error
        self.directory = directory
        self.scores: dict[str, list[InputScores]] = {}
        for values in sorted((directory / "work").glob("*.values.json")):
            groups = input_scores.load(values)
            self.scores.setdefault(read_json(values)["benchmark"], []).extend(groups)

    def row(self, name: str, column: Column) -> Mapping | None:
        """Return the row of a method or control; None if it has no score."""
        row = self.rows.get((_function(name), column.key))
        return row if row and row.get("value") is not None else None

    def methods(self) -> set[str]:
        """Return the names of the methods, of custom ones the function's."""
        return {name for (name, _), row in self.rows.items() if row["kind"] != "control"}


def _check_row(row: Mapping) -> None:
    """Raise ``TypeError`` for a row whose names are not text, or whose score or rank is not a finite number."""
    numbers = [row[key] for key in ("value", "rank") if row.get(key) is not None]
    if not all(isinstance(row[key], str) for key in ("method", "column", "kind")) or not all(
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) for value in numbers
    ):
        raise TypeError(row)


def difference(matrix: Matrix, scores: Mapping[str, Sequence[InputScores]], other: OtherReport, names: Names) -> dict:
    """Return what changed since another report, by column, as plain data for the page.

    Custom methods are the same if their functions have the same name.
    """
    compared = [_column(column, matrix, scores, other, names) for column in matrix.columns]
    columns = [column for column in compared if column["lines"]]
    ours, theirs = set(map(_function, matrix.methods)), other.methods()
    return {
        "directory": _printed(other.directory), "command": other.command, "columns": columns,
        "not_compared": _not_compared(matrix, compared, other),
        "only_here": [names(name) for name in matrix.methods if _function(name) not in theirs],
        "only_there": sorted(map(names, theirs - ours)),
        "changed": sum(column["changed"] for column in columns),
        "tests": sum(len(column["lines"]) for column in columns if column["tested"]),
    }  # fmt: skip


def as_text(found: Mapping[str, Any]) -> str:
    """Return what ``difference`` returned as lines of text: the number of changes, and metrics without comparison."""
    changed = f"{found['changed']} of {found['tests']} scores differ significantly" if found["tests"] else "not tested"
    missing = [f"{reason}: {', '.join(titles)}" for reason, titles in found["not_compared"].items()]
    return "\n".join([f"Compared with {found['directory']}: {changed}", *missing])


def _printed(directory: pathlib.Path) -> str:
    """Return a directory relative to the working directory, or its name: a page has no absolute path."""
    path, here = directory.resolve(), pathlib.Path.cwd().resolve()
    return path.relative_to(here).as_posix() if here in path.parents else path.name


def _not_compared(matrix: Matrix, compared: Sequence[Mapping], other: OtherReport) -> dict[str, list[str]]:
    """Return reason -> metrics of either run that were not compared; those of the other run by their column's key."""
    theirs, ours = [key for _, key in other.rows], [column.key for column in matrix.columns]
    reasons: dict[str, list[str]] = {}
    for column, found in zip(matrix.columns, compared, strict=True):
        if found["lines"]:
            continue
        both = column.key in theirs
        reason = "Metrics without a method that both runs scored" if both else "Metrics only in this run"
        reasons.setdefault(reason, []).append(column.label)
    only_there = [key for key in dict.fromkeys(theirs) if key not in ours]
    return {**reasons, "Metrics only in the other run": only_there} if only_there else reasons


def _column(
    column: Column,
    matrix: Matrix,
    scores: Mapping[str, Sequence[InputScores]],
    other: OtherReport,
    names: Names,
) -> dict:
    both = [
        name
        for name in (*matrix.methods, *matrix.controls)
        if (name, column.key) in matrix.cells and other.row(name, column)
    ]
    tests = _tests(column, both, scores, other)
    lines = [_line(name, column, matrix, other, tests.get(name), names) for name in both]
    changed = sum(line["significant"] for line in lines)
    return {"title": column.label, "lines": lines, "tested": bool(tests), "changed": changed}


def _line(
    name: str, column: Column, matrix: Matrix, other: OtherReport, test: PairComparison | None, names: Names
) -> dict:
    now, then = matrix.cells[name, column.key], other.row(name, column) or {}
    change = now["value"] - then["value"]
    return {
        "title": names(name), "own": names.is_custom(name), "now": cell_score(now, column),
        "then": cell_score(then, column), "change": signed(change, column),
        "rank": _ranks(matrix.ranks.get((name, column.key)), then.get("rank")),
        "p": "" if test is None or math.isnan(test.p_corrected) else number(test.p_corrected, 3),
        "significant": bool(test and test.p_corrected < LEVEL),
        "better": change != 0 and (change > 0) == column.higher_is_better,
    }  # fmt: skip


def _function(name: str) -> str:
    """Return a method's name, of a custom one the function's."""
    return name.rpartition(":")[2]


def _tests(
    column: Column,
    names: Sequence[str],
    scores: Mapping[str, Sequence[InputScores]],
    other: OtherReport,
) -> dict[str, PairComparison]:
    """Return Holm-corrected paired tests of now against then; none if the inputs differ."""
    ours, theirs = group_of(column, scores), group_of(column, other.scores)
    if not ours or not theirs or set(ours.inputs) != set(theirs.inputs):
        return {}
    place = dict(zip(theirs.inputs, range(len(theirs.inputs)), strict=True))
    order = list(map(place.__getitem__, ours.inputs))
    then = {f"then {_function(name)}": np.asarray(line)[order] for name, line in theirs.values.items()}
    common = [name for name in names if name in ours.values and f"then {_function(name)}" in then]
    values = {**ours.values, **then}
    pairs = [(name, f"then {_function(name)}") for name in common]
    return dict(zip(common, compare_pairs(values, pairs, ours.clusters), strict=True))


def _ranks(now: float | None, then: float | None) -> str:
    if now is None or then is None:
        return ""
    return f"{now:g}" if now == then else f"{then:g} → {now:g}"
