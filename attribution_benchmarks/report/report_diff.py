"""Two reports side by side: what changed between them, tested input by input where both scored the same inputs."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from attribution.errors import BadInput
from attribution.file_io.reading import read_json
from attribution_benchmarks.core import input_scores
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report.gallery import group_of
from attribution_benchmarks.report.matrix import Column, Matrix
from attribution_benchmarks.report.matrix_table import number, shown
from attribution_benchmarks.stats.comparisons import LEVEL, compare_pairs


class Other:
    """A finished report, read from its directory.

    Parameters
    ----------
    directory
        Of the other report.

    Raises
    ------
    BadInput
        If there is no finished report.
    """

    def __init__(self, directory: pathlib.Path):
        path = directory / "tables" / "matrix.json"
        try:
            document = read_json(path)
            self.rows = {(_name(row["method"]), row["column"]): row for row in document["rows"]}
            self.command = document["manifest"]["command"]
        except (BadInput, KeyError, TypeError, AttributeError) as error:
            raise BadInput(
                f"--compare={directory} holds no finished report ({path} cannot be read); name an --output_dir of "
                "scripts/reproduce_tables.py"
            ) from error
        self.directory = directory
        self.groups: dict[str, list[InputScores]] = {}
        for values in sorted((directory / "work").glob("*.values.json")):
            groups = input_scores.load(values)
            self.groups.setdefault(read_json(values)["benchmark"], []).extend(groups)


def difference(
    matrix: Matrix, scores: Mapping[str, Sequence[InputScores]], other: Other, named: Any, seed: int = 0
) -> dict:
    """Return what changed since another report, column by column, as plain values for the page.

    A method of one's own is the same in both if its function has the same name, wherever its file is.
    """
    names = [*matrix.methods, *matrix.controls]
    columns = []
    for column in matrix.columns:
        both = [
            name
            for name in names
            if (name, column.key) in matrix.cells and (_then(other, name, column) or {}).get("value") is not None
        ]
        if not both:
            continue
        tests = _tests(column, both, scores, other, seed)
        lines = []
        for name in both:
            now, then = matrix.cells[name, column.key], _then(other, name, column)
            change = now["value"] - then["value"]
            test = tests.get(name)
            lines.append(
                {
                    "title": named(name), "own": named.own(name), "now": shown(now, column),
                    "then": shown(then, column), "change": _change(change, column),
                    "rank": _ranks(matrix.ranks.get((name, column.key)), then.get("rank")),
                    "p": "" if test is None or math.isnan(test.p_corrected) else number(test.p_corrected, 3),
                    "significant": bool(test and test.p_corrected < LEVEL),
                    "better": change != 0 and (change > 0) == column.higher_is_better,
                }
            )  # fmt: skip
        columns.append(
            {
                "title": column.label, "lines": lines, "tested": bool(tests),
                "changed": sum(line["significant"] for line in lines),
            }
        )  # fmt: skip
    ours = {_name(name) for name in matrix.methods}
    theirs = {name for name, column in other.rows if other.rows[name, column]["kind"] != "control"}
    return {
        "directory": str(other.directory), "command": other.command, "columns": columns,
        "only_here": [named(name) for name in matrix.methods if _name(name) not in theirs],
        "only_there": sorted(map(named, theirs - ours)),
        "changed": sum(column["changed"] for column in columns),
        "tests": sum(len(column["lines"]) for column in columns if column["tested"]),
    }  # fmt: skip


def _name(name: str) -> str:
    """Return a method's name; of one's own its function alone."""
    return name.rpartition(":")[2]


def _then(other: Other, name: str, column: Column) -> Mapping | None:
    return other.rows.get((_name(name), column.key))


def _tests(column, names, scores, other, seed) -> dict:
    """Return the paired tests of now against then, Holm's correction over the column; none where inputs differ."""
    ours = group_of(column, scores.get(column.benchmark, ()))
    theirs = group_of(column, other.groups.get(column.benchmark, ()))
    if ours is None or theirs is None or not ours.inputs:
        return {}
    place = {name: number for number, name in enumerate(theirs.inputs)}
    if set(ours.inputs) != set(place):
        return {}
    order = [place[name] for name in ours.inputs]
    then = {_name(name): [line[one] for one in order] for name, line in theirs.values.items()}
    common = [name for name in names if name in ours.values and _name(name) in then]
    values: dict[str, Any] = {f"now {name}": ours.values[name] for name in common}
    values |= {f"then {name}": then[_name(name)] for name in common}
    pairs = [(f"now {name}", f"then {name}") for name in common]
    return dict(zip(common, compare_pairs(values, pairs, ours.clusters, seed=seed), strict=True))


def _change(change: float, column: Column) -> str:
    text = number(abs(change), 1 if column.percent else 3)
    return "0" if float(text) == 0 else f"{'+' if change > 0 else '−'}{text}"


def _ranks(now: float | None, then: float | None) -> str:
    if now is None or then is None:
        return ""
    return f"{now:g}" if now == then else f"{then:g} → {now:g}"
