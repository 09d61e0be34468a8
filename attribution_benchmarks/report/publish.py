"""Write the files above the single tables: matrix, paired tests, agreement, manifest and pages."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attribution.files import atomic_write
from attribution_benchmarks.core import tables
from attribution_benchmarks.report import matrix as matrices
from attribution_benchmarks.report import page, summary
from attribution_benchmarks.report.formatting import cell_score, interval, number, rank
from attribution_benchmarks.report.matrix import Agreement, Matrix
from attribution_benchmarks.report.results import ReportData
from attribution_benchmarks.report.significance import MARGIN, NOT_COMPARED, PASSES, TOO_FEW, ColumnTests
from attribution_benchmarks.stats.statistics import LEVEL, PairComparison

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

    Returns matrix and agreement as text, and the main result of a finished run.
    """
    rows = long_rows(data.matrix, data.tests)
    described = {
        "benchmark": "all",
        "command": data.command,
        "seed": data.seed,
        "tables": {
            result.task.name: {"failed": result.failed} if result.failed else dict(result.scores.manifest)
            for result in data.shown
        },
    }
    matrix_parts: list[str | _Table] = [_wide_table(data), LEGEND + "\n", summary.scope(data.matrix) + "\n"]
    agreement_parts: list[str | _Table] = [_agreement_table(data.agreement)] if data.agreement.rows else []
    agreement_parts += [_correlation_table(data.matrix, data.agreement)]
    matrix_text, agreement_text = _shown(matrix_parts), _shown(agreement_parts)
    files = {
        "tables/matrix.txt": matrix_text,
        "tables/matrix.md": _shown(matrix_parts, markdown=True),
        "tables/matrix.csv": tables.to_csv(rows),
        "tables/matrix.json": _json({"benchmark": "all", "rows": list(map(tables.plain, rows)), "manifest": described}),
        "tables/pairs.csv": _pairs_csv(list(data.tests.values())),
        "tables/agreement.txt": agreement_text,
        "tables/agreement.json": _json(_agreement_document(data.matrix, data.agreement)),
        "manifest.json": _json(described),
        **page.pages(data),
    }
    for name, text in files.items():
        atomic_write(directory / name, text)
    parts = [matrix_text, agreement_text]
    if not data.to_come:
        parts += summary.headline(data.matrix, data.tests, data.names, data.custom)
        parts += [f"A full run has more: {data.full_command}" if data.full_command else ""]
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


def _wide_table(data: ReportData) -> _Table:
    """Return a table of methods, then controls, by columns: scores, ranks in brackets, and a mark as of ``LEGEND``."""
    matrix, columns = data.matrix, data.matrix.columns

    def of_method(name: str, column: matrices.Column) -> str:
        text = cell_score(matrix.cells.get((name, column.key)), column)
        if (name, column.key) not in matrix.ranks:
            return text
        tests = data.tests.get(column.key)
        return f"{text} ({rank(matrix.ranks[name, column.key])}){tests.mark(name) if tests else ''}"

    def of_control(name: str, column: matrices.Column) -> str:
        row = matrix.cells.get((name, column.key))
        return f"{cell_score(row, column)}{EXCLUDED if row and name in column.excluded else ''}"

    body = [[data.names(name), *(of_method(name, column) for column in columns)] for name in matrix.methods]
    body += [[]] if matrix.controls else []
    body += [[data.names(name), *(of_control(name, column) for column in columns)] for name in matrix.controls]
    return ["method", *(column.label for column in columns)], body


def _pairs_csv(tests: Sequence[ColumnTests]) -> str:
    """Return all paired tests as comma-separated values; missing values are empty."""
    rows = [
        {
            "benchmark": one.column.benchmark,
            "column": one.column.key,
            "family": family,
            "factor": factor,
            **dict(zip(test._fields, test, strict=True)),
            "better": better,
        }
        for one in tests
        for family, factor, test, better in _tests_of(one)
    ]
    known = [{name: None if value != value else value for name, value in row.items()} for row in rows]
    return tables.to_csv(known, list(rows[0]) if rows else ["benchmark", "column", "family", "first", "second"])


def _tests_of(one: ColumnTests) -> Iterator[tuple[str, float, PairComparison, str | None]]:
    """Yield family, factor of the first score, test, and who is better, of a column's tests.

    A method is better than a baseline where it passes; a baseline is never said to be better.
    """
    for test in one.pairs:
        yield "methods", 1.0, test, one.better(test)
    for test in one.leads:
        yield "controls", 1.0, test, one.better(test)
    for baseline in one.baselines:
        yield "baselines", MARGIN, baseline.test, baseline.method if baseline.claim < LEVEL else None


def _agreement_table(agreement: Agreement) -> _Table:
    """Return a table of Kendall's W with intervals and p-values, which are over families of methods."""
    header = ["Kendall's W", "W", "95 %", "by chance", "p", "columns", "methods", "families"]
    body = [
        [
            over, number(row.w), interval(row.low, row.high), number(row.chance), number(row.p_value, 4),
            str(row.judges), str(row.methods), str(row.families),
        ]
        for over, row in agreement.rows.items()
    ]  # fmt: skip
    return header, body


def _correlation_table(matrix: Matrix, agreement: Agreement) -> _Table:
    """Return a table of Spearman's correlations of every two columns, with the number of common methods in brackets."""
    found = [
        [f"{number(float(value))} ({count})" for value, count in zip(*lines, strict=True)]
        for lines in zip(agreement.correlations, agreement.counts, strict=True)
    ]
    body = [
        [column.label, *(cell if place != own else "–" for place, cell in enumerate(found[own]))]
        for own, column in enumerate(matrix.columns)
    ]
    return ["Spearman (methods)", *(column.label for column in matrix.columns)], body


def _agreement_document(matrix: Matrix, agreement: Agreement) -> dict:
    """Return W and the correlations as JSON; None for what is not finite."""
    return {
        "common_methods": list(matrix.common),
        "columns": [
            {
                **{key: value for key, value in dataclasses.asdict(column).items() if key not in ("where", "bounds")},
                **column.where,
            }
            for column in matrix.columns
        ],
        "kendalls_w": [{"over": over, **_fields(row)} for over, row in agreement.rows.items()],
        "kendalls_tau": [{"benchmarks": pair, **_fields(tau)} for pair, tau in agreement.pairs.items()],
        "by_chance": _fields(agreement.chance),
        "spearman": [[_finite(float(value)) for value in line] for line in agreement.correlations],
        "shared_methods": agreement.counts.tolist(),
    }


def _fields(row: Any) -> dict[str, Any]:
    """Return the fields of a named tuple; None for what is not finite."""
    return {key: _finite(value) for key, value in row._asdict().items()}


def _finite(value):
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json(document: Mapping) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
