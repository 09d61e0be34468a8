"""The totals of docs/reliability.md are those of its table."""

import pathlib
import re

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "reliability.md").read_text("utf-8")


def test_the_totals_are_the_sums_of_the_columns():
    lines = PAGE.split("| seed | what ran |")[1].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    def total(column):
        return sum(int(re.match(r"\d+", row[column])[0]) for row in rows if row[column] != "-")

    assert len(rows) > 5
    assert f"Together {total(2)} kills or killed runs and {total(3)} races" in PAGE
