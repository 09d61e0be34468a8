"""The matrix for reading: long rows for files, a wide table with ranks for the eye, and the tables of agreement."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from attribution_benchmarks.core import tables
from attribution_benchmarks.report.matrix import Agreement, Column, Matrix
from attribution_benchmarks.report.significance import Verdicts

NO_RIVAL = "‡"  # of a control that is set aside in a column
LEGEND = (
    "* best, or not significantly different from the best (no method has it where a baseline scores higher); † not "
    "significantly above every baseline; ° beats every baseline it was compared with, which are fewer than those of "
    "others (no mark where the inputs are too few); ‡ no method is tested against it: it knows the truth, or its score "
    "is fixed by definition; in brackets: rank"
)


def long_rows(matrix: Matrix, verdicts: Sequence[Verdicts] = ()) -> list[dict]:
    """Return one row per method or control and column, blanks included.

    Keys of ``core.tables``, and ``benchmark``, ``column``, ``rank``; where paired tests were made,
    ``better_than`` (methods beaten), ``level_with_best``, ``not_above`` (controls not beaten) and ``marks``; ``aside``
    of a control that is no rival there; ``reason`` of a blank.
    """
    judged = {verdict.column.key: verdict for verdict in verdicts}
    rows = []
    for name in (*matrix.methods, *matrix.controls):
        for column in matrix.columns:
            place = name, column.key
            if place not in matrix.cells and place not in matrix.blanks:
                continue  # a control that this benchmark does not have
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
            verdict = judged.get(column.key)
            if verdict and name in verdict.tested:
                row["better_than"] = verdict.beaten_by(name)
                row["level_with_best"] = name in verdict.level_with_best(matrix)
                row["not_above"] = verdict.not_above(name)
                row["marks"] = verdict.marks(name, matrix)
                if verdict.untested(name):
                    row["untested"] = verdict.untested(name)
            if name in column.excluded:
                row["aside"] = column.excluded[name]
            if place in matrix.blanks:
                row["reason"] = matrix.blanks[place]
            rows.append(row)
    return rows


def wide(matrix: Matrix, verdicts: Sequence[Verdicts], titles: Mapping[str, str], markdown: bool = False) -> str:
    """Lay the matrix out: a line per method, then per control, and per column the score and the rank in brackets.

    Marks are those of ``Verdicts.marks``; ``‡`` stands at a control that is no rival.

    Returns
    -------
    str
        Aligned text, or Markdown.
    """
    judged = {verdict.column.key: verdict for verdict in verdicts}
    header = ["method", *(column.label for column in matrix.columns)]
    body = []
    for name in matrix.methods:
        line = [titles.get(name, name)]
        for column in matrix.columns:
            row = matrix.cells.get((name, column.key))
            mark = judged[column.key].marks(name, matrix) if row and column.key in judged else ""
            line.append(f"{shown(row, column)} ({_rank(matrix.ranks[name, column.key])}){mark}" if row else "–")
        body.append(line)
    if matrix.controls and not markdown:
        body.append([])
    for name in matrix.controls:
        body.append([titles.get(name, name), *(control_cell(matrix, name, column) for column in matrix.columns)])
    return (tables.markdown_table if markdown else tables.text_table)(header, body)


def pair_rows(verdicts: Sequence[Verdicts]) -> list[dict]:
    """Return every paired test as a row: ``first``, ``second``, difference, interval, p-values, and the better one."""
    return [
        {
            "benchmark": verdict.column.benchmark,
            "column": verdict.column.key,
            "family": family,
            **dict(zip(test._fields, test, strict=True)),
            "better": verdict.better(test),
        }
        for verdict in verdicts
        for family, tests in (("methods", verdict.methods), ("controls", verdict.controls))
        for test in tests
    ]


def power_table(verdicts: Sequence[Verdicts], markdown: bool = False) -> str:
    """Lay out how much each column can tell: its independent inputs, and the smallest differences found in 80 %."""
    header = ["what the inputs can tell", "independent", "between methods", "above controls"]
    body = [
        [
            verdict.column.label,
            f"{verdict.independent_inputs():,}",
            *(
                least(value, verdict.column)
                for value in (verdict.detectable_between_methods(), verdict.detectable_above_controls())
            ),
        ]
        for verdict in verdicts
    ]
    return (tables.markdown_table if markdown else tables.text_table)(header, body)


def least(value: float, column: Column) -> str:
    """Return a smallest difference in the column's unit; "none" where no difference would be found."""
    return "none" if math.isinf(value) else number(value, 1 if column.percent else 3)


def control_cell(matrix: Matrix, name: str, column: Column) -> str:
    """Return a control's value, marked where it is no rival."""
    row = matrix.cells.get((name, column.key))
    return shown(row, column) + (NO_RIVAL if row and name in column.excluded else "")


def agreement_rows(found: Agreement) -> list[dict]:
    """Return Kendall's W over all columns, between the benchmarks, and within each; nothing for a single benchmark.

    ``chance`` is W's expectation where the columns know nothing of each other.
    """
    if len(found.within) < 2:
        return []
    named = {"all columns": found.overall, "between benchmarks": found.between}
    named |= {f"within {group}": within for group, within in found.within.items()}
    return [
        {"over": name, **concordance._asdict(), "chance": concordance.chance} for name, concordance in named.items()
    ]


def correlation_table(matrix: Matrix, found: Agreement, markdown: bool = False) -> str:
    """Lay out Spearman's correlations of every two columns, with the number of methods they share in brackets."""
    header = ["Spearman (methods)", *(column.label for column in matrix.columns)]
    body = []
    for i, column in enumerate(matrix.columns):
        cells = [
            f"{number(found.correlations[i, j])} ({found.counts[i, j]})" if i != j else "–"
            for j in range(len(matrix.columns))
        ]
        body.append([column.label, *cells])
    return (tables.markdown_table if markdown else tables.text_table)(header, body)


def agreement_table(found: Agreement, markdown: bool = False) -> str:
    """Lay out Kendall's W with its intervals and p-values, which are over families of methods.

    The text is empty for a single benchmark.
    """
    if not agreement_rows(found):
        return ""
    header = ["Kendall's W", "W", "95 %", "by chance", "p", "columns", "methods", "families"]
    body = [
        [
            row["over"],
            number(row["w"]),
            span(row["low"], row["high"]),
            number(row["chance"]),
            number(row["p_value"], 4),
            *(str(row[key]) for key in ("judges", "methods", "families")),
        ]
        for row in agreement_rows(found)
    ]
    return (tables.markdown_table if markdown else tables.text_table)(header, body)


def shown(row: Mapping | None, column: Column) -> str:
    """Return a cell's value with the decimals of its unit, or a dash."""
    return number(row["value"], 1 if column.percent else 3) if row else "–"


def span(low: float, high: float) -> str:
    """Return an interval, or a dash where there is none."""
    return f"{number(low)} to {number(high)}" if math.isfinite(low) and math.isfinite(high) else "–"


def counted(count: int, noun: str) -> str:
    """Return "1 metric" or "2 metrics"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def number(value: float, decimals: int = 2) -> str:
    """Return so many decimals, or a dash for what is not a number."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text  # what rounds to zero has no sign


def concordance_document(matrix: Matrix, found: Agreement) -> dict:
    """Return the agreement as plain JSON: W, and correlations with the columns they belong to."""
    return {
        "common_methods": list(matrix.common),
        "columns": [
            {**{key: value for key, value in dataclasses.asdict(column).items() if key != "where"}, **column.where}
            for column in matrix.columns
        ],
        "kendalls_w": [_finite(row) for row in agreement_rows(found)],
        "spearman": [[float(value) if math.isfinite(value) else None for value in line] for line in found.correlations],
        "shared_methods": found.counts.tolist(),
    }


def _finite(row: Mapping) -> dict:
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def _rank(rank: float) -> str:
    return f"{rank:.1f}".removesuffix(".0")
