"""What goes into a table comes out of it, in every format."""

import csv
import io
import json
import math

import numpy as np
import pytest

from attribution.errors import printable
from attribution_benchmarks.core import tables
from attribution_benchmarks.core.tables import Figures, laid_out, under_controls

ROE = [
    {"method": "rise", "metric": "roe", "value": 64.94, "low": 62.0, "high": 67.5, "n": 1000, "paper": 66.4,
     "kind": "method", "networks": [64.0, 65.88]},
    {"method": "chance", "metric": "roe", "value": None, "low": None, "high": None, "n": 0, "paper": None,
     "kind": "control", "reason": "no map"},
    {"method": "a|b", "metric": "roe", "value": 10.0, "low": 9.0, "high": 11.0, "n": 1000, "paper": None,
     "kind": "method"},
]  # fmt: skip
DROP = [{"method": "rise", "metric": "drop", "value": 7.9, "low": 7.0, "high": 9.0, "paper": None, "kind": "method"}]
COLUMNS = [Figures("ROE %", ROE, 1), Figures("Drop %", DROP, 1)]


def test_what_is_not_finite_is_null_with_a_reason():
    row = {"value": np.float32("inf"), "n": np.int64(3), "flag": np.bool_(True), "networks": np.array([1.0, np.nan])}
    found = tables.plain(row)
    assert found == {
        "value": None, "reason": "value is not a finite number", "n": 3, "flag": True, "networks": [1.0, None]
    }  # fmt: skip
    assert tables.plain({"value": float("nan"), "reason": "no map"})["reason"] == "no map"


def test_csv_comes_back_with_every_digit():
    rows = [{**ROE[0], "value": 1 / 3}, *ROE[1:]]
    read = list(csv.DictReader(io.StringIO(tables.to_csv(rows))))
    assert [row["method"] for row in read] == ["rise", "chance", "a|b"]
    assert float(read[0]["value"]) == 1 / 3 and json.loads(read[0]["networks"]) == [64.0, 65.88]
    assert read[2]["paper"] == "" and read[1]["value"] == "" and read[1]["reason"] == "no map"
    assert list(read[0])[:8] == list(tables.COLUMNS)


def test_text_is_aligned():
    header, rule, *body = tables.text_table(["name", "value"], [["a", "64.94"], ["longer", "7.9"], []]).splitlines()
    assert [header, *body] == ["name    value", "a       64.94", "longer    7.9", rule]
    assert rule == "------  -----"


def test_a_table_has_a_line_a_method_and_sets_kinds_apart():
    lines = laid_out(COLUMNS, {"rise": "RISE"}).splitlines()
    assert lines[0].split() == ["method", "ROE", "%", "95", "%", "paper", "Drop", "%", "95", "%"]
    assert lines[2].split() == ["RISE", "64.9", "±", "1.3", "62.0–67.5", "66.4", "7.9", "7.0–9.0"]
    assert lines[3].split() == ["a|b", "10.0", "9.0–11.0", "–", "–", "–"]
    assert set(lines[4]) == {"-", " "}
    assert lines[5].split() == ["chance", "–", "–", "–", "–", "–"]


def test_markdown_has_the_same_cells_in_every_line():
    lines = laid_out(COLUMNS, {}, markdown=True).splitlines()
    assert len(lines) == 2 + 3 and len({line.replace(r"\|", "").count("|") for line in lines}) == 1
    assert r"a\|b" in lines[3]


@pytest.mark.parametrize(("paper", "printed"), [(9.85, "9.85"), (59.0, "59.0"), (7, "7.0"), (66.4, "66.4")])
def test_a_papers_figure_is_not_rounded(paper, printed):
    row = {"method": "a", "metric": "drop", "value": -1e-9, "paper": paper, "kind": "method"}
    assert laid_out([Figures("Drop %", [row], 1)], {}).splitlines()[-1].split() == ["a", "0.0", "–", printed]


def test_a_papers_spread_is_beside_ours():
    row = {"method": "a", "value": 0.5, "low": 0.4, "high": 0.6, "std": 0.1, "median": 0.55, "kind": "method"}
    row |= {"paper": 0.71, "paper_std": 0.27, "paper_median": 0.81}
    assert "0.50 (0.10) 0.55   0.40–0.60  0.71 (0.27) 0.81" in laid_out([Figures("Mass", [row], 2)], {})


def test_the_deviation_is_over_the_networks_that_have_a_score():
    row = {"method": "a", "value": 0.5, "kind": "method", "networks": [0.4, None, math.nan, 0.6]}
    assert "0.50 ± 0.14" in laid_out([Figures("Mass", [row], 2)], {})
    assert "±" not in laid_out([Figures("Mass", [row | {"networks": [0.5, None]}], 2)], {})


def test_means_alone_where_a_column_is_brief():
    assert laid_out([Figures("ROE %", ROE[2:], 1, brief=True)], {}).splitlines()[-1].split() == ["a|b", "10.0"]


def test_own_maps_under_controls_are_told_with_the_least_and_the_largest():
    rows = [
        {"of": "a", "control": "net", "value": 0.5, "networks": [0.25, 0.75]},
        {"of": "b", "control": "net", "value": 0.125, "networks": [0.125]},
        {"of": "b", "control": "class", "value": None},
    ]
    lines = under_controls([Figures("Mass", rows, 2)], {"a": "A"}, {"net": "random nets"}).splitlines()
    assert lines[0].split("  ")[1].strip() == "Mass, random nets" and lines[0].endswith("Mass, class")
    assert lines[2].split() == ["A", "0.50", "[0.25,", "0.75]", "–"] and lines[3].split() == ["b", "0.12", "–"]
    assert under_controls([], {}, {}) == ""


HOSTILE = [
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "@SUM(A1)",
    "-1+1",
    "a|b",
    "a\nb",
    "\x1b[2J",
    "\u202e",
    "\t=1",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_text(name):
    """A name ends no cell, begins no tag or formula, and moves no cursor."""
    rows = [{**DROP[0], "method": name}]
    (_, line) = csv.reader(io.StringIO(tables.to_csv(rows)))
    assert not line[0].startswith(("=", "+", "-", "@", "\t", "\r")) and line[0].isprintable()
    assert line[0].removeprefix("'") == printable(name) and float(line[2]) == 7.9
    for markdown in (True, False):
        table = laid_out([Figures("Drop %", rows, 1)], {}, markdown)
        assert all(text.isprintable() for text in table.splitlines()) and len(table.splitlines()) == 3
        text = tables.paragraphs([name, f"{name} is your method"], markdown)
        assert all(line.isprintable() for line in text.splitlines()) and (not markdown or "<" not in text)
    markdown = tables.markdown_table([name], [[name]])
    assert "<" not in markdown and markdown.replace(r"\|", "").count("|") == 6
    assert json.loads(tables.json_of(name)) == name and tables.json_of(name).isprintable()


def test_links_and_pictures_of_names_are_text_in_markdown():
    named = "![a](http://a) [b](javascript:b)"
    table = tables.markdown_table(["method", "[`c`](#c)"], [[named, "1"]])
    text = table + tables.paragraphs([named, named], markdown=True)
    assert text.count("](") == 1 and "[`c`](#c)" in text and text.count(r"![a]\(http://a)") == 3
