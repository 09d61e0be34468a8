"""Write docs/leaderboard.json: published methods and accepted submissions by metrics, with intervals and marks.

    python -m tools.docs.document_leaderboard

Cost: half a minute.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attribution.files import atomic_write
from attribution.reading import read_json
from attribution_benchmarks import submissions
from attribution_benchmarks.core.definition import Column
from attribution_benchmarks.report import published
from attribution_benchmarks.report.formatting import cell_interval, cell_score
from tools.docs.document_results import data_of
from tools.docs.page_parts import ROOT

FOLDER = ROOT / "leaderboard"


def _cell(row: Mapping[str, Any], column: Column, mark: str) -> list[Any]:
    """Return a key for sorting, the score with its mark, and its interval."""
    value = row["value"] if column.higher_is_better else -row["value"]
    return [round(value, 6), f"{cell_score(row, column)}{mark}", cell_interval(row, column)]


def board() -> dict[str, Any]:
    """Return the metrics, and the scores of each method by metric."""
    data = data_of(list(dict.fromkeys(one.benchmark for one in published.sets())))
    columns, rows = data.matrix.columns, []
    for name in data.matrix.methods:
        cells = {
            column.label: _cell(row, column, data.tests[column.key].mark(name))
            for column in columns
            if (row := data.matrix.cells.get((name, column.key)))
        }
        rows.append({"method": data.names(name), "by": "this project", "scores": cells})
    for folder in sorted(path.parent for path in FOLDER.glob("*/method.json")):
        about, places = read_json(folder / "method.json"), submissions.check(folder).places
        cells = {one.column.label: _cell(one.row, one.column, one.tests.mark(one.method)) for one in places}
        rows.append({"method": about["title"], "by": about["authors"], "scores": cells})
    return {"metrics": [column.label for column in columns], "rows": rows}


def main() -> None:
    """Check the submissions, and write the file."""
    lines = json.dumps(board(), ensure_ascii=False, indent=None, separators=(",", ":")).replace(
        '{"method"', '\n{"method"'
    )
    atomic_write(ROOT / "docs" / "leaderboard.json", lines + "\n")


if __name__ == "__main__":
    main()
