"""Write the files above the single tables: matrix, manifest and pages."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from attribution.files import atomic_write
from attribution_benchmarks.core import tables
from attribution_benchmarks.report import matrix as matrices
from attribution_benchmarks.report import page, summary
from attribution_benchmarks.report.formatting import cell_score, rank
from attribution_benchmarks.report.matrix import Matrix
from attribution_benchmarks.report.results import ReportData
from attribution_benchmarks.report.significance import MARGIN, NOT_COMPARED, PASSES, TOO_FEW, ColumnTests

_Table = tuple[list[str], list[list[str]]]  # header, lines; an empty one separates groups
EXCLUDED = "‡"  # mark of an excluded control
LEGEND = (
    f"{PASSES} beats every baseline: each reaches at most {100 * MARGIN:.0f} % of its score; {NOT_COMPARED}: not "
    f"compared with every baseline; {TOO_FEW}: does so as measured, on too few networks or inputs to claim it; "
    f"{EXCLUDED} no method is compared with it: it knows the truth, or its score is fixed by definition; in brackets: "
    "rank"
)


def publish(directory: pathlib.Path, data: ReportData) -> str:
    """Write tables, manifest and pages into the directory of the report, each atomically.

    Returns the matrix as text, and the main result.
    """
    rows = long_rows(data.matrix, data.tests)
    described = {
        "benchmark": "all",
        "command": data.command,
        "seed": data.seed,
        "tables": {
            result.task.name: {"failed": result.failed} if result.failed else dict(result.scores.manifest)
            for result in data.results
        },
    }
    matrix_parts: list[str | _Table] = [wide_table(data), LEGEND + "\n", summary.scope(data.matrix) + "\n"]
    matrix_text = _shown(matrix_parts)
    files = {
        "tables/matrix.txt": matrix_text,
        "tables/matrix.md": _shown(matrix_parts, markdown=True),
        "tables/matrix.csv": tables.to_csv(rows),
        "tables/matrix.json": _json({"benchmark": "all", "rows": list(map(tables.plain, rows)), "manifest": described}),
        "manifest.json": _json(described),
        **page.pages(data),
    }
    for name, text in files.items():
        atomic_write(directory / name, text)
    parts = [matrix_text, *summary.headline(data.matrix, data.tests, data.names, data.custom)]
    return "\n".join(filter(None, parts))


def long_rows(matrix: Matrix, tests: Mapping[str, ColumnTests] | None = None) -> list[dict]:
    """Return one row per method or control and column, blanks included.

    Keys are those of ``core.tables``, and ``benchmark``, ``column``, ``rank``; ``networks``, the score on each of
    several; ``headroom_share``, from the best baseline to an oracle; with paired tests also ``rank_low``,
    ``rank_high``, ``mark`` and ``baselines``; ``aside`` of an excluded control; ``reason`` of a blank.
    """
    return [
        _long_row(name, column, matrix, (tests or {}).get(column.key))
        for name in (*matrix.methods, *matrix.controls)
        for column in matrix.columns
        # A benchmark may lack a control.
        if (name, column.key) in matrix.cells or (name, column.key) in matrix.blanks
    ]


def _long_row(name: str, column: matrices.Column, matrix: Matrix, tests: ColumnTests | None) -> dict:
    place = name, column.key
    source = matrix.cells.get(place, {})
    row = {
        "method": name,
        "metric": column.metric,
        **{key: source.get(key) for key in ("value", "low", "high", "n", "paper")},
        "kind": source.get("kind") or ("control" if name in matrix.controls else "method"),
        "benchmark": column.benchmark,
        "column": column.key,
        "rank": matrix.ranks.get(place),
    }
    if tests and name in tests.tested:
        row["rank_low"], row["rank_high"] = tests.ranks[name]
        row["mark"] = tests.mark(name)
        row["baselines"] = [
            {"kind": one.kind, "share": _finite(one.share), "low": _finite(one.low), "high": _finite(one.high)}
            for one in tests.against(name)
        ]
    more = {
        "headroom_share": _finite(matrix.headroom_share(name, column)),
        "networks": source.get("networks") or None,
        "aside": column.excluded.get(name),
        "reason": matrix.blanks.get(place),
    }
    return row | {key: value for key, value in more.items() if value is not None}


def _shown(parts: Sequence[str | _Table], markdown: bool = False) -> str:
    """Return paragraphs and tables, one below the other; Markdown has no empty lines in tables."""
    return "\n".join(
        part if isinstance(part, str)
        else tables.markdown_table(part[0], list(filter(None, part[1]))) if markdown
        else tables.text_table(*part)
        for part in parts
    )  # fmt: skip


def wide_table(data: ReportData, with_ranks: bool = True) -> _Table:
    """Return a table of methods, then controls, by columns: scores, ranks in brackets, and a mark as of ``LEGEND``."""
    matrix, columns = data.matrix, data.matrix.columns

    def of_method(name: str, column: matrices.Column) -> str:
        text = cell_score(matrix.cells.get((name, column.key)), column)
        if (name, column.key) not in matrix.ranks:
            return text
        tests = data.tests.get(column.key)
        ranked = f" ({rank(matrix.ranks[name, column.key])})" if with_ranks else ""
        return f"{text}{ranked}{tests.mark(name) if tests else ''}"

    def of_control(name: str, column: matrices.Column) -> str:
        row = matrix.cells.get((name, column.key))
        return f"{cell_score(row, column)}{EXCLUDED if row and name in column.excluded else ''}"

    body = [[data.names(name), *(of_method(name, column) for column in columns)] for name in matrix.methods]
    body += [[]] if matrix.controls else []
    body += [[data.names(name), *(of_control(name, column) for column in columns)] for name in matrix.controls]
    return ["method", *(column.label for column in columns)], body


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json(document: Mapping) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
