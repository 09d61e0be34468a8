"""Tables for reading and for files: figures with their intervals as text, Markdown, CSV and JSON.

Scores come in rows, one dictionary per number::

    {"method": "rise", "metric": "drop", "value": 7.9, "low": 6.8, "high": 9.1, "n": 1000, "paper": 7.64,
     "kind": "method"}

``kind`` is "method", "control" or "peer"; ``paper`` is None where the paper has no figure. A benchmark may add keys. A
value that is not a number is None, with the reason in the row's ``reason``. See ``scores.summarised``.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from attribution.errors import printable

COLUMNS = ("method", "metric", "value", "low", "high", "n", "paper", "kind")
_WIDTH = 118  # of a line of text


def paragraphs(lines: Sequence[str], markdown: bool = False) -> str:
    """Return lines, wrapped as text, or as paragraphs of Markdown without HTML and links out of the page."""
    lines = [printable(line) for line in lines]
    if markdown:
        return "".join(f"{_without_markup(line)}\n\n" for line in lines)
    return "".join(textwrap.fill(line, _WIDTH, subsequent_indent="  ") + "\n" for line in lines)


def json_of(document: Any, **options: Any) -> str:
    """Return JSON for people: only characters that cannot be printed or change the direction of text are escaped."""
    text = json.dumps(document, ensure_ascii=False, **options)
    return "\n".join("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line) for line in text.split("\n"))


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return comma-separated values with a header line; missing values are empty, other keys follow ``COLUMNS``."""
    import pandas

    names = dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)])
    lines = [{name: _cell(row.get(name)) for name in names} for row in rows]
    return str(pandas.DataFrame(lines, columns=list(names), dtype=object).to_csv(index=False, lineterminator="\n"))


def _cell(value: Any) -> Any:
    """Return a value for a spreadsheet, which reads text that begins like a formula as text after an apostrophe."""
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    text = printable(value) if isinstance(value, str) else ""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text or value


def markdown_table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; columns of numbers are aligned to the right."""
    rule = ["---:" if right else "---" for right in _numeric_columns(body, len(header))]
    lines = [[_escaped(str(cell)) for cell in line] for line in (header, rule, *body)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escaped(cell: str) -> str:
    """Return a cell without characters that end the cell."""
    return _without_markup(printable(cell)).replace("|", r"\|")


def _without_markup(text: str) -> str:
    """Return text for Markdown without HTML, pictures, and links that lead out of the page."""
    return re.sub(r"\]\((?!#)", r"]\(", text.replace("<", "&lt;"))


def text_table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table aligned with spaces, ruled below the header; an empty line of the body becomes a rule."""
    header, body = [*map(printable, header)], [[printable(cell) for cell in line] for line in body]
    widths = [max(len(line[i]) for line in (header, *body) if line) for i in range(len(header))]
    rule = "  ".join("-" * width for width in widths)
    right = _numeric_columns(body, len(header))

    def aligned(line: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right, strict=True)
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([aligned(header), rule, *(aligned(line) if line else rule for line in body)]) + "\n"


@dataclasses.dataclass(frozen=True)
class Figures:
    """The figures of a metric, a column of a printed table with a line for each source.

    Attributes
    ----------
    heading
        Above our figures.
    rows
        Of ``scores.summarised``, without those of methods under controls and of curves.
    decimals
        Of our figures; the paper's keep theirs where they have more.
    brief
        Whether means alone are shown.
    """

    heading: str
    rows: Sequence[Mapping[str, Any]]
    decimals: int = 3
    brief: bool = False

    def cells(self) -> tuple[list[str], dict[str, list[str]]]:
        """Return the headings, and method -> cells: figure, interval, the paper's figure, those that there are."""
        papers = any(row.get("paper") is not None for row in self.rows)
        spread = any(row.get("paper_std") is not None for row in self.rows)
        header = [self.heading + (" (std) median" if spread else ""), "95 %", "paper"]
        shown = [True, not self.brief, papers and not self.brief]
        return list(itertools.compress(header, shown)), {
            row["method"]: list(itertools.compress(self._figures(row, spread), shown)) for row in self.rows
        }

    def _figures(self, row: Mapping[str, Any], spread: bool) -> list[str]:
        """Return a row's figure, its interval such as "62.3–68.1", and the paper's figure; dashes for missing ones."""
        figure, paper = number(row["value"], self.decimals), _as_published(row.get("paper"), self.decimals)
        networks = [one for one in row.get("networks") or () if one is not None and math.isfinite(one)]
        if len(networks) > 1 and "of" not in row and row["value"] is not None:
            figure += f" ± {number(statistics.stdev(networks), self.decimals)}"
        if spread and row["value"] is not None:
            figure += f" ({number(row['std'], self.decimals)}) {number(row['median'], self.decimals)}"
        if spread and row.get("paper") is not None:
            paper += f" ({number(row['paper_std'])}) {number(row['paper_median'])}"
        low, high = (number(row.get(end), self.decimals) for end in ("low", "high"))
        return [figure, "–" if "–" in (low, high) else f"{low}–{high}", paper]


def laid_out(columns: Sequence[Figures], titles: Mapping[str, str], markdown: bool = False) -> str:
    """Return a table for reading: a line for each source, methods, controls and methods of libraries in groups.

    ``titles`` are the printed names of sources. Figures that do not exist are dashes.
    """
    header, kinds, lines = ["method"], dict[str, Any](), []
    for column in columns:
        kinds |= {row["method"]: row.get("kind") for row in column.rows if row["method"] not in kinds}
    kinds = dict(sorted(kinds.items(), key=lambda one: {"method": 0, "control": 1}.get(str(one[1]), 2)))
    each = [column.cells() for column in columns]
    for headings, _ in each:
        header += headings
    for method in kinds:
        cells = [cell for headings, found in each for cell in found.get(method, ["–"] * len(headings))]
        lines.append([titles.get(method, method), *cells])
    if markdown:
        return markdown_table(header, lines)
    return text_table(header, _ruled(lines, list(kinds.values())))


def _ruled(body: list[list[str]], kinds: Sequence[Any]) -> list[list[str]]:
    """Return lines with an empty one, which becomes a rule, wherever the kind changes."""
    ruled = []
    for place, line in enumerate(body):
        if place and kinds[place - 1] is not None and kinds[place] != kinds[place - 1]:
            ruled.append([])
        ruled.append(line)
    return ruled


def under_controls(
    columns: Sequence[Figures], titles: Mapping[str, str], controls: Mapping[str, str], markdown: bool = False
) -> str:
    """Return a table of the methods' own maps under controls: a line for each method, means; empty without rows.

    Of several random networks it is the mean over them, with the least and the largest in brackets. ``columns`` have
    rows with ``of`` and ``control``, ``controls`` the printed name of each control.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for column in columns:
        for row in column.rows:
            cell = number(row["value"], column.decimals)
            networks = [one for one in row.get("networks") or () if one is not None]
            if len(networks) > 1:
                ends = (number(end(networks), column.decimals) for end in (min, max))
                cell += f" [{', '.join(ends)}]"
            found.setdefault((column.heading, row["control"]), {})[row["of"]] = cell
    if not found:
        return ""
    header = ["own map", *(f"{heading}, {controls.get(name, name)}" for heading, name in found)]
    methods = dict.fromkeys(method for cells in found.values() for method in cells)
    body = [[titles.get(method, method), *(cells.get(method, "–") for cells in found.values())] for method in methods]
    return (markdown_table if markdown else text_table)(header, body)


def number(value: float | None, decimals: int = 2) -> str:
    """Return a number with fixed decimals, a rounded zero without sign; a dash if it is missing or not finite."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _as_published(value: float | None, decimals: int) -> str:
    """Return a paper's figure with all its decimals and at least ``decimals``; a dash if it is missing."""
    own = len(repr(float(value)).partition(".")[2]) if value is not None else 0
    return number(value, max(decimals, own))


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with built-in types, and None with a reason for values that are not finite."""
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


def _not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _numeric_columns(body: Sequence[Sequence[str]], count: int) -> list[bool]:
    """Return for each column whether it holds only numbers with their marks, ranges of numbers and dashes."""

    def numeric(cell: str) -> bool:
        return all(character in "0123456789.+-–±e, ✓†‡" for character in cell)

    return [all(numeric(line[i]) for line in body if line) for i in range(count)]
