"""Write the tables of docs/results.md and docs/baseline_shares.csv from a complete report.

    python scripts/reproduce_tables.py --output_dir=report --exhaustive
    python -m tools.docs.document_results report
    python scripts/reproduce_tables.py --output_dir=twenty --benchmarks=svea --networks=20 --quick --random_networks=1
    python -m tools.docs.document_results twenty
    python scripts/reproduce_tables.py --output_dir=ten --benchmarks=bim --networks=10 --exhaustive
    python -m tools.docs.document_results ten
    python scripts/reproduce_tables.py --output_dir=tetrominoes --benchmarks=xai_tris --networks=20
    python -m tools.docs.document_results tetrominoes

The sentences about the tables, and README's extract, are written by hand; tests/docs/test_readme.py compares them with
the tables.

Cost: seconds, and the report.
"""

from __future__ import annotations

import csv
import json
import pathlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence

from attribution_benchmarks.core.registry import REPORTED, benchmark_named
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.report.presets import TRAINED
from attribution_benchmarks.report.reproduce import titles
from tools.docs.page_parts import ROOT, replace_parts

PAGE = ROOT / "docs" / "results.md"
COLUMNS = ("ROE %", "Drop %", "Incr. %", "MCS", "IDR", "IIR", "mass, s.", "rank, s.", "mass, c.", "rank, c.")
MORE = {  # part of the page, and its columns
    "svea": ("twenty networks", COLUMNS[:3]),
    "bim": ("ten pairs", COLUMNS[3:6]),
    "xai_tris": ("tetrominoes", ("distance", "rank", "signs", "mask")),
}
OWN = ("random_weights", "wrong_class", "permuted_question")  # the method's own maps under a control condition
SHARES = ("baseline", "method", "column", "share_percent", "low", "high")
KINDS: dict[str, Callable[[str], bool]] = {  # name of a kind of baseline -> whether it has a baseline
    "random weights": lambda kind: kind == "random_weights",
    "wrong class": lambda kind: kind == "wrong_class",
    "no network": lambda kind: kind not in OWN,
}


def matrix_tables(text: str) -> dict[str, str]:
    """Return the tables of methods and of baselines, without ranks, from a report's ``matrix.md``.

    They have ``COLUMNS``, the first ones of the report, and the rows with a score there.
    """
    tables: dict[str, list[list[str]]] = {"method": [], "baseline": []}
    for title, *cells in _scored(text):
        name = "method" if any("(" in cell for cell in cells) else "baseline"  # methods have ranks
        tables[name].append([title, *(re.sub(r" \([\d.]+\)", "", cell).replace("n/a", " n/a") for cell in cells)])
    return {name: markdown_table([name, *COLUMNS], body) for name, body in tables.items()}


def _scored(text: str) -> list[list[str]]:
    """Return the titles and the cells of ``COLUMNS`` of the rows with a score there."""
    _, _, *lines = text.split("\n\n")[0].splitlines()
    rows = [[cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    return [row[: 1 + len(COLUMNS)] for row in rows if set(row[1 : 1 + len(COLUMNS)]) != {"–"}]


def share_rows(rows: Sequence[Mapping]) -> list[list[str]]:
    """Return ``SHARES`` of each score: what the strongest baseline of each kind reaches, in percent."""
    names = titles(list(map(benchmark_named, REPORTED)))
    labels = dict(zip(dict.fromkeys(row["column"] for row in rows), COLUMNS, strict=False))
    return [
        [baseline, names[row["method"]], labels[row["column"]], *_percent(one)]
        for baseline, is_shown in KINDS.items()
        for row in rows
        if row["column"] in labels and (one := _strongest(row, is_shown))
    ]


def _strongest(row: Mapping, is_shown: Callable[[str], bool]) -> Mapping | None:
    known = [one for one in row.get("baselines", ()) if is_shown(one["kind"]) and one["share"] is not None]
    return max(known, key=lambda each: each["share"], default=None)


def _percent(baseline: Mapping) -> list[str]:
    return [f"{100 * baseline[end]:.0f}" for end in ("share", "low", "high")]


def _largest_share(row: Mapping) -> str:
    if not (strongest := _strongest(row, bool)):
        return ""
    share, low, high = _percent(strongest)
    return f"{share} ({low}–{high})"


def network_table(rows: Sequence[Mapping], labels: Sequence[str]) -> str:
    """Return scores with their marks, the largest share that a baseline reaches, and the share of the headroom.

    ``labels`` are of the benchmark's first columns. A column of no more networks than the matrix has is skipped, and
    the share of the headroom where no oracle is.
    """
    names = titles(list(map(benchmark_named, REPORTED)))
    columns = _many_networks(rows, labels)
    methods: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row["kind"] != "control" and row["value"] is not None and row["column"] in columns:
            methods.setdefault(names[row["method"]], {})[row["column"]] = _score_cells(row, *columns[row["column"]])
    header = [head for label, room in columns.values() for head in (label, "reached", "headroom")[: 2 + room]]
    body = [
        [title, *(cell for column, (_, room) in columns.items() for cell in found.get(column, ["–"] * (2 + room)))]
        for title, found in methods.items()
    ]
    return markdown_table(["method", *header], body)


def _many_networks(rows: Sequence[Mapping], labels: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """Return column of more networks than the matrix has -> its label, and whether it has an oracle."""
    return {
        column: (label, any("headroom_share" in row for row in rows if row["column"] == column))
        for column, label in zip(dict.fromkeys(row["column"] for row in rows), labels, strict=False)
        if any(_networks(row) > TRAINED for row in rows if row["column"] == column)
    }


def _networks(row: Mapping) -> int:
    return len(row.get("networks", ()))


def _score_cells(row: Mapping, label: str, room: bool) -> list[str]:
    share = f"{100 * row['headroom_share']:.0f}" if "headroom_share" in row else "–"
    digits = 1 if label.endswith("%") else 3
    return [f"{row['value']:.{digits}f}{_mark(row)}", _largest_share(row), share][: 2 + room]


def _mark(row: Mapping) -> str:
    return f" {mark}" if len(mark := row.get("mark", "")) > 1 else mark


def main(report: str) -> None:
    """Replace the parts of docs/results.md that are between their comments, and write the shares of a report."""
    tables = pathlib.Path(report, "tables")
    rows = json.loads((tables / "matrix.json").read_text("utf-8"))["rows"]
    if max(map(_networks, rows)) > TRAINED:
        part, labels = MORE[rows[0]["benchmark"]]
        replace_parts(PAGE, {part: network_table(rows, labels)})
        return
    replace_parts(PAGE, matrix_tables((tables / "matrix.md").read_text("utf-8")))
    with open(PAGE.with_name("baseline_shares.csv"), "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([SHARES, *share_rows(rows)])


if __name__ == "__main__":
    main(*sys.argv[1:])
