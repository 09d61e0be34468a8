"""Write docs/leaderboard.md: published methods and accepted submissions by metrics, with intervals and marks.

    python -m tools.docs.document_leaderboard

Cost: half a minute.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from attribution.files import atomic_write
from attribution.reading import read_json
from attribution_benchmarks import submissions
from attribution_benchmarks.core.registry import REPORTED
from attribution_benchmarks.report.formatting import cell_interval, cell_score
from attribution_benchmarks.report.placement import Place
from attribution_benchmarks.report.results import ReportData
from tools.docs.document_results import data_of
from tools.docs.page_parts import ROOT

FOLDER = ROOT / "leaderboard"
_HEAD = """# Leaderboard

Scores of the published methods and of accepted submissions, with 95 % intervals. Select a heading to sort. `✓`: beats
every baseline; `†`: does so as measured, on too few networks or inputs to claim it. The published methods are a fixed
family for each release. A submission is tested against it alone, so that it changes no other row.
`CONTRIBUTING.md` of the repository says how to submit a method.

"""
_SCRIPT = """<script>
for (const button of document.querySelectorAll("#board th"))
  button.onclick = () => {
    const body = document.querySelector("#board tbody"), column = button.cellIndex;
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const down = button.ariaSort !== "descending";
    for (const other of button.parentNode.cells) other.ariaSort = null;
    button.ariaSort = down ? "descending" : "ascending";
    const order = (a, b) => column < 2 ? key(b).localeCompare(key(a)) : (key(b) || -1e9) - (key(a) || -1e9);
    body.append(...[...body.rows].sort((a, b) => down ? order(a, b) : order(b, a)));
  };
</script>
"""


def page(data: ReportData, submitted: Mapping[str, tuple[str, Sequence[Place]]]) -> str:
    """Return the page; ``submitted`` is the title of a method -> who submitted it, and its places."""
    columns, found = data.matrix.columns, {}
    for name in data.matrix.methods:
        marks = {column.key: data.tests[column.key].mark(name) for column in columns}
        rows = {column.key: data.matrix.cells.get((name, column.key)) for column in columns}
        found[data.names(name)] = "this project", rows, marks
    for title, (authors, places) in submitted.items():
        marks = {place.column.key: place.tests.mark(place.method) for place in places}
        found[title] = authors, {place.column.key: place.row for place in places}, marks
    labels = [f"{column.label}{'' if column.higher_is_better else ' (less is better)'}" for column in columns]
    head = "".join(f"<th>{html.escape(label)}</th>" for label in ("Method", "Computed by", *labels))
    body = ""
    for title, (authors, rows, marks) in found.items():
        body += f"<tr><td>{html.escape(title)}</td><td>{html.escape(authors)}</td>"
        for column in columns:
            if row := rows.get(column.key):
                value = row["value"] if column.higher_is_better else -row["value"]
                body += f'<td data-value="{value:.6g}">{cell_score(row, column)}{marks.get(column.key, "")} '
                body += f"<small>{cell_interval(row, column)}</small></td>"
            else:
                body += "<td>–</td>"
        body += "</tr>\n"
    table = f'<table id="board"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\n\n'
    return _HEAD + table + _SCRIPT


def main() -> None:
    """Check the submissions, and write the page."""
    submitted = {}
    for folder in sorted(path.parent for path in FOLDER.glob("*/method.json")):
        about = read_json(folder / "method.json")
        submitted[about["title"]] = about["authors"], submissions.check(folder).places
    atomic_write(ROOT / "docs" / "leaderboard.md", page(data_of(REPORTED), submitted))


if __name__ == "__main__":
    main()
