"""Write the tables of docs/results.md and docs/baseline_shares.csv from the published scores.

    python -m tools.docs.document_results

The sentences about the tables, and README's extract, are written by hand; tests/docs/test_readme.py compares them with
the tables.

Cost: half a minute.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence

from attribution_benchmarks.core.registry import REPORTED, benchmark_named
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.report import published
from attribution_benchmarks.report.formatting import enumeration
from attribution_benchmarks.report.presets import columns_of
from attribution_benchmarks.report.publish import long_rows, wide_table
from attribution_benchmarks.report.published import with_rows
from attribution_benchmarks.report.reproduce import titles
from attribution_benchmarks.report.results import ReportData, Result
from tools.docs.page_parts import ROOT, replace_parts

PAGE = ROOT / "docs" / "results.md"
COLUMNS = ("ROE %", "Drop %", "Incr. %", "MCS", "IDR", "IIR", "mass, s.", "rank, s.", "mass, c.", "rank, c.")
MORE = {  # part of the page, and its columns
    "svea": ("twenty networks", COLUMNS[:3]),
    "bim": ("ten pairs", COLUMNS[3:6]),
    "xai_tris": ("tetrominoes", ("distance", "rank", "signs", "mask")),
}
OWN = ("random_weights", "wrong_class", "permuted_question")  # the method's own maps under a control condition
TRAINED = 5  # networks from which on a column is in a table of many networks
SHARES = ("baseline", "method", "column", "share_percent", "low", "high")
KINDS: dict[str, Callable[[str], bool]] = {  # name of a kind of baseline -> whether it has a baseline
    "random weights": lambda kind: kind == "random_weights",
    "wrong class": lambda kind: kind == "wrong_class",
    "no network": lambda kind: kind not in OWN,
}


def data_of(benchmarks: Sequence[str]) -> ReportData:
    """Return the published scores of some benchmarks as a report has them."""
    definitions = list(map(benchmark_named, benchmarks))
    columns = [column for one in definitions for column in columns_of(one)]
    results = [Result(one.tasks[0], with_rows(one.scores, one.tasks[0])) for one in published.sets(benchmarks)]
    return ReportData(results, definitions, columns, titles(definitions))


def matrix_tables(body: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the tables of methods and of baselines, without ranks, from the rows of a report's matrix.

    They have ``COLUMNS``, the first ones of the report, and the rows with a score there.
    """
    place = list(body).index([])  # methods come first
    found = {}
    for name, rows in (("method", body[:place]), ("baseline", body[place + 1 :])):
        shown = [row[: 1 + len(COLUMNS)] for row in rows]
        cells = [[title, *map(_without_rank, scores)] for title, *scores in shown if set(scores) != {"–"}]
        found[name] = markdown_table([name, *COLUMNS], cells)
    return found


def _without_rank(cell: str) -> str:
    return re.sub(r" \([\d.]+\)", "", cell).replace("n/a", " n/a")


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

    ``labels`` are of the benchmark's first columns. A column of no more than ``TRAINED`` networks is skipped, and
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
    """Return column of more than ``TRAINED`` networks -> its label, and whether it has an oracle."""
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


def verdicts(data: ReportData) -> str:
    """Return a line for each benchmark: the methods that beat every baseline, by metric."""
    lines = []
    for group in data.matrix.groups():
        columns = [column for column in data.matrix.columns if column.group == group]
        found = {column.title: list(filter(data.tests[column.key].passes, data.matrix.methods)) for column in columns}
        shown = "; ".join(f"{title}: {enumeration(map(data.names, some))}" for title, some in found.items())
        lines.append(f"- **{group}**: {shown}.")
    return "\n".join(lines)


def main() -> None:
    """Replace the parts of docs/results.md that have published scores, and write the shares."""
    parts = {}
    for benchmark, (part, labels) in MORE.items():
        if published.sets([benchmark]):
            of_one = data_of([benchmark])
            parts[part] = network_table(long_rows(of_one.matrix, of_one.tests), labels)
    if {one.benchmark for one in published.sets()} >= {*REPORTED}:
        data = data_of(REPORTED)
        parts |= {**matrix_tables(wide_table(data)[1]), "verdicts": verdicts(data)}
        with open(PAGE.with_name("baseline_shares.csv"), "w", newline="", encoding="utf-8") as file:
            rows = share_rows(long_rows(data.matrix, data.tests))
            csv.writer(file, lineterminator="\n").writerows([SHARES, *rows])
    replace_parts(PAGE, parts)


if __name__ == "__main__":
    main()
