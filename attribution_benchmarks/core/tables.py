"""Scores as text, CSV, JSON and Markdown.

Every benchmark hands over its scores in long form, one dictionary per number::

    {"method": "rise", "metric": "drop", "value": 7.9, "low": 6.8, "high": 9.1, "n": 1000, "paper": 7.64,
     "kind": "method"}

``kind`` is "method", "control" or "peer"; ``paper`` is None where the paper has no figure. A benchmark may
add keys of its own. A value that is not a number is written as null (JSON) or left empty, with the reason in
the row's ``reason``. ``save`` writes the long form to a file, ``wide`` lays it out for reading.
"""

from __future__ import annotations

import csv
import io
import json
import math
import pathlib
import re
import textwrap
from collections.abc import Mapping, Sequence

from attribution.errors import printable
from attribution.file_io.files import atomic_write
from attribution.file_io.paths import check_file

COLUMNS = ("method", "metric", "value", "low", "high", "n", "paper", "kind")
SUFFIXES = (".json", ".csv", ".md", ".txt")


def check_output(path: str, suffixes: Sequence[str] = SUFFIXES, flag: str = "output") -> None:
    """Refuse, before any work is done, a file that ``save`` could not write.

    Parameters
    ----------
    path
        The user's ``--output``; empty or None means no file.
    suffixes
        What the file may be called.
    flag
        Name of the flag, where it is another.

    Raises
    ------
    BadInput
        If the suffix is none of these, the path is a directory, or its directory cannot be made or written to.
    """
    check_file(flag, path or "", suffixes)


def save(path: str, rows: Sequence[Mapping], manifest: Mapping, text: str, markdown: str | None = None) -> None:
    """Write rows to a file in the format of its suffix, whole or not at all.

    Parameters
    ----------
    path
        File to write; one that exists is replaced. JSON and Markdown hold the manifest too; CSV and text hold
        the rows alone.
    rows
        Scores in long form.
    manifest
        Result of ``manifest.describe_run``.
    text, markdown
        What a ``.txt`` or ``.md`` file holds for reading, for instance the table of ``wide``: what the command printed.
        The long form has thousands of rows; only ``.json`` and ``.csv`` have it. Without ``markdown`` the text stands
        in a block of code.

    Raises
    ------
    BadInput
        As for ``check_output``.
    """
    check_output(path)
    file = pathlib.Path(path)
    content = {
        ".json": lambda: to_json(rows, manifest),
        ".csv": lambda: to_csv(rows),
        ".md": lambda: _with_manifest(_block(text) if markdown is None else markdown, manifest),
        ".txt": lambda: text,
    }[file.suffix]()
    atomic_write(file, content)


def report(heading: Sequence[str], table: str, notes: Sequence[str], width: int | None) -> str:
    """Return heading, table and notes; notes as wrapped text, or as a Markdown list where width is None."""
    if width is None:
        return "\n\n".join(heading) + f"\n\n{table}\n" + "".join(f"- {note}\n" for note in notes)
    wrapped = [textwrap.fill(note, width, subsequent_indent="  ") for note in notes]
    return "\n".join(["\n".join(heading), "", table, *wrapped]) + "\n"


def _block(text: str) -> str:
    """Return text as a block of code in Markdown, which nothing in it can end."""
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


def _with_manifest(markdown: str, manifest: Mapping) -> str:
    """Return Markdown with the manifest below it, as a block of JSON."""
    return f"{markdown}\n```json\n{json.dumps(dict(manifest), indent=1, ensure_ascii=False)}\n```\n"


def to_json(rows: Sequence[Mapping], manifest: Mapping) -> str:
    """Return the JSON document ``{"benchmark", "rows", "manifest"}``, one row a line."""
    manifest = dict(manifest)
    benchmark = manifest.pop("benchmark", None)
    lines = ",\n  ".join(json.dumps(row, allow_nan=False, ensure_ascii=False) for row in map(_plain, rows))
    rows_text = f"[\n  {lines}\n ]" if lines else "[]"
    manifest_text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False).replace("\n", "\n ")
    return f'{{\n "benchmark": {json.dumps(benchmark)},\n "rows": {rows_text},\n "manifest": {manifest_text}\n}}\n'


def to_csv(rows: Sequence[Mapping]) -> str:
    """Return comma-separated values with a header line; what is missing is empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([[_no_formula(cell) for cell in line] for line in _cells(rows)])
    return stream.getvalue()


def _no_formula(cell: str) -> str:
    """Return a cell that a spreadsheet takes for text: one that begins as a formula gets an apostrophe before it."""
    if not cell.startswith(("=", "+", "-", "@")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def markdown_table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; columns of numbers are aligned to the right."""
    rule = ["---:" if right else "---" for right in _numeric_columns(body, len(header))]
    lines = [[_escaped(str(cell)) for cell in line] for line in (header, rule, *body)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escaped(cell: str) -> str:
    """Return a cell in which nothing ends the cell or begins a tag of HTML."""
    return printable(cell).replace("|", r"\|").replace("<", "&lt;")


def text_table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table aligned with spaces, ruled below the header; an empty line of the body becomes a rule."""
    header, body = [*map(printable, header)], [[printable(cell) for cell in line] for line in body]
    widths = [max(len(line[i]) for line in (header, *body) if line) for i in range(len(header))]
    rule = "  ".join("-" * width for width in widths)
    right = _numeric_columns(body, len(header))

    def aligned(line):
        cells = [
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right, strict=True)
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([aligned(header), rule, *(aligned(line) if line else rule for line in body)]) + "\n"


def wide(
    rows: Sequence[Mapping],
    metrics: Mapping[str, str],
    titles: Mapping[str, str] | None = None,
    markdown: bool = False,
    lines: Sequence[str] = ("method",),
    decimals: int | Mapping[str, int] = 1,
) -> str:
    """Lay long rows out for reading: a line per method, and per metric our figure, its interval, the paper's.

    Parameters
    ----------
    rows
        Scores in long form; methods, controls and peers are set apart, each in the order in which they come.
        A row with ``std`` shows it after the figure.
    metrics
        Metric and its heading, in the order of the columns; other metrics are left out.
    titles
        Method and the name to print; the method's own name where it is missing.
    markdown
        Markdown instead of aligned text.
    lines
        Keys whose values tell the table's lines apart, for instance ``("method", "pooling")``; a column each.
    decimals
        Decimals of our figures, for all or by metric. The paper's keep theirs where they have more.

    Returns
    -------
    str
        The table; what does not exist is a dash. Columns without any paper's figure are left out.

    Raises
    ------
    ValueError
        If two rows belong in the same place.
    """
    titles = titles or {}
    shown = [row for row in _by_kind(rows) if row["metric"] in metrics]
    cells = {(*(row[key] for key in lines), row["metric"]): row for row in shown}
    if len(cells) < len(shown):
        raise ValueError(f"several rows have the same metric and {', '.join(lines)}; name more keys in lines")
    with_paper = {row["metric"] for row in shown if row.get("paper") is not None}
    header = [*lines]
    for metric, heading in metrics.items():
        header += [heading, "95 %"] + (["paper"] if metric in with_paper else [])
    body, kind = [], None
    for place, row_kind in {tuple(row[key] for key in lines): row.get("kind") for row in shown}.items():
        if kind not in (None, row_kind) and not markdown:
            body.append([])
        kind = row_kind
        line = [titles.get(value, str(value)) for value in place]
        for metric in metrics:
            row = cells.get((*place, metric), {})
            digits = decimals[metric] if isinstance(decimals, Mapping) else decimals
            figure = _rounded(row.get("value"), digits)
            if row.get("std") is not None:
                figure += f" ± {_rounded(row['std'], digits)}"
            line += [figure, _interval(row, digits)]
            if metric in with_paper:
                line.append(_as_published(row.get("paper"), digits))
        body.append(line)
    return (markdown_table if markdown else text_table)(header, body)


def _by_kind(rows):
    """Return methods first, then controls, then whatever else there is; a stable sort."""
    order = {"method": 0, "control": 1}
    return sorted(rows, key=lambda row: order.get(row.get("kind"), 2))


def _interval(row: Mapping, decimals: int) -> str:
    """Return "62.3–68.1", or a dash."""
    low, high = (_rounded(row.get(end), decimals) for end in ("low", "high"))
    return "–" if "–" in (low, high) else f"{low}–{high}"


def _rounded(value, decimals: int) -> str:
    """Return so many decimals, or a dash for what is missing or not a number."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{decimals}f}"


def _as_published(value, decimals: int) -> str:
    """Return a paper's figure with all its decimals, and at least so many; a dash for what is missing."""
    own = len(repr(float(value)).partition(".")[2]) if value is not None else 0
    return _rounded(value, max(decimals, own))


def _plain(row: Mapping) -> dict:
    """Return the row with Python's own types, and None with a reason for what is not finite."""
    plain = {}
    for name, value in row.items():
        if hasattr(value, "tolist"):
            value = value.tolist()
        if _not_finite(value):
            value = None
            plain.setdefault("reason", row.get("reason") or f"{name} is not a finite number")
        elif isinstance(value, (list, tuple)):
            value = [None if _not_finite(item) else item for item in value]
        plain[name] = value
    return plain


def _not_finite(value) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _cells(rows: Sequence[Mapping]) -> list[list[str]]:
    """Return header and lines as text, in the fixed order of columns and then the benchmark's own."""
    rows = [_plain(row) for row in rows]
    extra = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    columns = [*COLUMNS, *extra]

    def cell(value):
        if value is None:
            return ""
        if isinstance(value, (list, dict)):
            return json.dumps(value)
        return printable(str(value))

    return [columns, *([cell(row.get(name)) for name in columns] for row in rows)]


def _numeric_columns(body: Sequence[Sequence[str]], count: int) -> list[bool]:
    """Tell for each column whether it holds numbers, ranges of numbers and dashes only."""

    def numeric(cell: str) -> bool:
        return all(character in "0123456789.+-–±e, " for character in cell)

    return [all(numeric(line[i]) for line in body if line) for i in range(count)]
