"""Draw how many scores of docs/results.md have each margin, docs/pictures/margins.png, and write the table beside it.

    python -m tools.docs.document_margins

A score has a margin where every baseline that it was compared with reaches less than that share of it. The shares and
their intervals are those of the tables in docs/results.md; the table is a part of docs/statistics.md.

Cost: seconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from attribution_benchmarks.core.figures import save_figure
from attribution_benchmarks.core.tables import markdown_table
from tools.docs.page_parts import ROOT, replace_parts

MARGINS = range(60, 101, 10)  # percent
KINDS = ("random weights", "wrong class", "no network")  # of baselines, as the parts of docs/results.md
BENCHMARKS = {"SVEA": ("ROE %", "Drop %", "Incr. %"), "BIM": ("MCS", "IDR")}  # CLEVR-XAI has the other columns
WITHOUT_MARKS = ("IIR",)  # too few inputs to find a score above the margin
_Score = tuple[str, str]  # method and column


def cells(text: str, part: str) -> dict[_Score, str]:
    """Return the cells of a table between its comments, without empty ones."""
    body = re.search(rf"<!-- {part}: [^\n]*-->\n(.*?)<!-- /{part} -->", text, re.DOTALL)
    if body is None:
        raise ValueError(f"docs/results.md has no part '{part}'")
    head, _, *rows = (
        [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body[1].split("\n") if line
    )
    return {
        (row[0], column): cell for row in rows for column, cell in zip(head[1:], row[1:], strict=True) if cell != "–"
    }


def shares(text: str) -> dict[_Score, np.ndarray]:
    """Return the shares that baselines reach of each score, (kinds, 2) percent: the share and its interval's upper end.

    Scores that were not compared with every baseline are skipped, and columns that have no marks.
    """
    tables, found = [cells(text, kind) for kind in KINDS], {}
    for score, cell in cells(text, "method").items():
        shown = "\n".join(table[score] for table in tables if score in table)
        if shown and "n/a" not in cell and score[1] not in WITHOUT_MARKS:
            found[score] = np.array(re.findall(r"(?m)^(\d+) \(\d+–(\d+)\)$", shown)).astype(int)
    return found


def counts(of_scores: Mapping[_Score, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the numbers of scores by margin of each benchmark, (margins, 2): as measured, and of interval ends."""
    found = {name: np.zeros((len(MARGINS), 2), int) for name in (*BENCHMARKS, "CLEVR-XAI")}
    for (_, column), each in of_scores.items():
        name = next((name for name, columns in BENCHMARKS.items() if column in columns), "CLEVR-XAI")
        found[name] += each.max(axis=0) < np.array(MARGINS)[:, np.newaxis]
    return found


def main() -> None:
    """Draw the figure and write the table."""
    from matplotlib.figure import Figure

    of_scores = shares((ROOT / "docs" / "results.md").read_text("utf-8"))
    found = counts(of_scores)
    figure = Figure(figsize=(7, 3), layout="constrained")
    axis = figure.subplots()
    for color, (name, each) in zip(("tab:blue", "tab:orange", "tab:green"), found.items(), strict=True):
        axis.plot(MARGINS, each[:, 0], "o--", color=color, label=f"{name}, as measured")
        axis.plot(MARGINS, each[:, 1], "o-", color=color, label=f"{name}, interval below")
    axis.set(xlabel="margin, %", ylabel="scores", xticks=MARGINS, ylim=(0, None))
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    save_figure(figure, ROOT / "docs" / "pictures", "margins")
    body = [
        [f"{margin} %", *(f"{one[row][1]} of {one[row][0]}" for one in found.values())]
        for row, margin in enumerate(MARGINS)
    ]
    table = markdown_table(["every baseline reaches less than", *found], body)
    replace_parts(ROOT / "docs" / "statistics.md", {"margins": f"{table}\nOf {len(of_scores)} scores."})


if __name__ == "__main__":
    main()
