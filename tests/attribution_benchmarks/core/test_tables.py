"""What goes into a table comes out of it, in every format, or nothing is written."""

import csv
import io
import json

import numpy as np
import pytest

from attribution.errors import BadInput, printable
from attribution_benchmarks.core import tables
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.tables import control_row, format_controls
from attribution_benchmarks.stats import statistics

ROWS = [
    {"method": "rise", "metric": "roe", "value": 64.94, "low": 62.0, "high": 67.5, "n": 1000, "paper": 66.4,
     "kind": "method", "std": 1.25},
    {"method": "rise", "metric": "drop", "value": 7.9, "low": 7.0, "high": 9.0, "n": 1000, "paper": None,
     "kind": "method"},
    {"method": "a|b", "metric": "roe", "value": 10.0, "low": 9.0, "high": 11.0, "n": 1000, "paper": None,
     "kind": "method"},
    {"method": "chance", "metric": "roe", "value": np.nan, "low": None, "high": None, "n": 0, "paper": None,
     "kind": "control", "reason": "no map"},
]  # fmt: skip
MANIFEST = {"benchmark": "svea", "versions": {}, "models": {"a": "1"}, "data": {}, "seed": 0, "command": "é"}


def test_json_holds_the_rows_and_the_manifest():
    document = json.loads(tables.to_json(ROWS, MANIFEST))
    assert list(document) == ["benchmark", "rows", "manifest"]
    assert document["benchmark"] == "svea"
    assert document["manifest"] == {key: value for key, value in MANIFEST.items() if key != "benchmark"}
    assert document["rows"][:3] == ROWS[:3]


def test_json_writes_nan_as_null_and_keeps_the_reason():
    text = tables.to_json(ROWS, MANIFEST)
    assert "NaN" not in text
    assert json.loads(text)["rows"][3] == {**ROWS[3], "value": None}


def test_a_missing_reason_is_said_to_be_missing():
    row = json.loads(tables.to_json([{"method": "a", "value": float("inf")}], MANIFEST))["rows"][0]
    assert row["value"] is None and row["reason"] == "value is not a finite number"


def test_numbers_of_numpy_become_plain_numbers():
    row = {"value": np.float32(0.5), "n": np.int64(3), "flag": np.bool_(True), "several": np.array([1.0, 2.0])}
    written = json.loads(tables.to_json([row], MANIFEST))["rows"][0]
    assert written == {"value": 0.5, "n": 3, "flag": True, "several": [1.0, 2.0]}


def test_what_is_not_finite_within_a_list_is_null_too():
    row = {"method": "a", "value": 1.0, "networks": np.array([1.0, np.nan])}
    assert json.loads(tables.to_json([row], MANIFEST))["rows"][0]["networks"] == [1.0, None]
    assert next(csv.DictReader(io.StringIO(tables.to_csv([row]))))["networks"] == "[1.0, null]"


@pytest.mark.parametrize(("paper", "printed"), [(9.85, "9.85"), (59.0, "59.0"), (7, "7.0"), (66.4, "66.4")])
def test_a_papers_figure_is_not_rounded(paper, printed):
    row = {"method": "a", "metric": "drop", "value": 11.234, "paper": paper, "kind": "method"}
    assert tables.wide([row], {"drop": "Drop %"}).splitlines()[-1].split() == ["a", "11.2", "–", printed]


def test_a_rounded_zero_has_no_sign():
    row = {"method": "a", "metric": "drop", "value": -1e-9, "low": -1e-9, "high": 0.04, "kind": "method"}
    assert tables.wide([row], {"drop": "Drop %"}).splitlines()[-1].split() == ["a", "0.0", "0.0–0.0"]


def test_no_rows_are_still_a_document():
    assert json.loads(tables.to_json([], MANIFEST))["rows"] == []


def test_csv_comes_back_with_every_digit():
    rows = [{**ROWS[0], "value": 1 / 3}, *ROWS[1:]]
    read = list(csv.DictReader(io.StringIO(tables.to_csv(rows))))
    assert [row["method"] for row in read] == ["rise", "rise", "a|b", "chance"]
    assert float(read[0]["value"]) == 1 / 3
    assert read[1]["paper"] == "" and read[3]["value"] == "" and read[3]["reason"] == "no map"
    assert list(read[0])[:8] == list(tables.COLUMNS)


def test_markdown_has_the_same_cells_in_every_line():
    lines = tables.wide(ROWS, {"roe": "ROE %", "drop": "Drop %"}, markdown=True).splitlines()
    cells = {line.replace(r"\|", "").count("|") for line in lines}
    assert len(lines) == 2 + len({row["method"] for row in ROWS}) and len(cells) == 1
    assert r"a\|b" in lines[3]


def test_text_is_aligned():
    header, rule, *body = tables.text_table(["name", "value"], [["a", "64.94"], ["longer", "7.9"], []]).splitlines()
    assert [header, *body] == ["name    value", "a       64.94", "longer    7.9", rule]
    assert rule == "------  -----"


def test_the_wide_table_has_a_line_a_method_and_sets_kinds_apart():
    text = tables.wide(ROWS, {"roe": "ROE %", "drop": "Drop %"}, {"rise": "RISE"})
    lines = text.splitlines()
    assert lines[0].split() == ["method", "ROE", "%", "95", "%", "paper", "Drop", "%", "95", "%"]
    assert lines[2].split() == ["RISE", "64.9", "±", "1.2", "62.0–67.5", "66.4", "7.9", "7.0–9.0"]
    assert lines[3].split() == ["a|b", "10.0", "9.0–11.0", "–", "–", "–"]
    assert set(lines[4]) == {"-", " "}
    assert lines[5].split() == ["chance", "–", "–", "–", "–", "–"]


def test_the_wide_table_in_markdown_is_one_table():
    lines = tables.wide(ROWS, {"roe": "ROE %"}, markdown=True).splitlines()
    assert len(lines) == 2 + 3
    assert {line.replace(r"\|", "").count("|") for line in lines} == {5}


def test_two_rows_of_one_cell_are_refused():
    with pytest.raises(ValueError, match="the same metric and method"):
        tables.wide([ROWS[1], ROWS[1]], {"drop": "Drop"})


@pytest.mark.parametrize("suffix", tables.SUFFIXES)
def test_save_writes_by_suffix_and_twice_the_same_bytes(tmp_path, suffix):
    path = tmp_path / f"scores{suffix}"
    tables.save(str(path), ROWS, MANIFEST, "what was printed\n")
    first = path.read_bytes()
    tables.save(str(path), ROWS, MANIFEST, "what was printed\n")
    assert path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    expected = {
        ".json": tables.to_json(ROWS, MANIFEST),
        ".csv": tables.to_csv(ROWS),
        ".txt": "what was printed\n",
        ".md": "```text\nwhat was printed\n```\n\n```json\n",
    }[suffix]
    assert first.decode().startswith(expected)


def test_text_in_markdown_stays_in_its_block(tmp_path):
    tables.save(str(tmp_path / "a.md"), ROWS, MANIFEST, "a `name`\n```\n<b>\n")
    block = (tmp_path / "a.md").read_text().split("\n\n")[0].splitlines()
    assert block == ["````text", "a `name`", "```", "<b>", "````"]


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
    rows = [{**ROWS[0], "method": name}, {**ROWS[1], "method": name}]
    (_, line, _) = csv.reader(io.StringIO(tables.to_csv(rows)))
    assert not line[0].startswith(("=", "+", "-", "@", "\t", "\r")) and line[0].isprintable()
    assert line[0].removeprefix("'") == printable(name) and float(line[2]) == 64.94
    for markdown in (True, False):
        table = tables.wide(rows, {"roe": "ROE %"}, markdown=markdown)
        assert all(text.isprintable() for text in table.splitlines()) and len(table.splitlines()) == 3
    markdown = tables.markdown_table([name], [[name]])
    assert "<" not in markdown and markdown.replace(r"\|", "").count("|") == 6
    assert json.loads(tables.to_json(rows, MANIFEST))["rows"][0]["method"] == name
    for width in (118, None):
        text = tables.report([name], "a table", [f"{name} is your method"], width)
        assert all(line.isprintable() for line in text.splitlines()) and (width or "<" not in text)


def test_markdown_of_ones_own_replaces_the_block(tmp_path):
    for suffix in tables.SUFFIXES:
        tables.save(str(tmp_path / f"a{suffix}"), ROWS, MANIFEST, text="my text\n", markdown="my table\n")
    assert (tmp_path / "a.txt").read_text() == "my text\n"
    assert (tmp_path / "a.md").read_text().startswith("my table\n\n```json\n")
    assert (tmp_path / "a.csv").read_text() == tables.to_csv(ROWS)


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "scores.json"
    tables.save(str(path), ROWS, MANIFEST, "")
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(BadInput, match="no space"):
        tables.save(str(path), ROWS[:1], MANIFEST, "")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["scores.json"]


def test_no_output_is_fine():
    tables.check_output("")
    tables.check_output(None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scores.xlsx", "ends in none of '.json', '.csv', '.md', '.txt'"),
        ("scores", "ends in none of"),
        ("folder.json/scores.csv/below.json", "is a file"),
        ("folder.json", "is a directory"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_any_work(tmp_path, name, message):
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "folder.json" / "scores.csv").touch()
    with pytest.raises(BadInput, match=message):
        tables.check_output(str(tmp_path / name))


def test_links_and_pictures_of_names_are_text_in_markdown():
    named = "![a](http://a) [b](javascript:b)"
    table = tables.markdown_table(["method", "[`c`](#c)"], [[named, "1"]])
    text = tables.report([named], table, [named], width=None)
    assert text.count("](") == 1 and "[`c`](#c)" in text and text.count(r"![a]\(http://a)") == 3


LABEL = MapSource("gradient", "random_weights")


def test_row_is_of_the_mean_over_inputs_and_controls():
    values = np.array([[0.0, 1.0, 0.5, 0.5], [1.0, 1.0, 0.0, 0.0]])
    row = control_row(LABEL, "mass", values)
    of_means = statistics.mean_interval(values.T)
    assert {name: row[name] for name in ("value", "low", "high", "n")} == of_means._asdict()
    assert row["networks"] == [0.5, 0.5]
    assert (row["method"], row["of"], row["control"]) == ("gradient/random_weights", "gradient", "random_weights")


def test_several_controls_have_the_mean_of_each():
    hits = np.array([[1.0, 0.0, 1.0, 1.0]])
    alone = control_row(LABEL, "pointing", hits, 1.0, bounds=(0.0, 1.0))
    assert "networks" not in alone
    several = control_row(LABEL, "pointing", np.tile(hits, (2, 1)), 1.0, bounds=(0.0, 1.0))
    assert several["value"] == alone["value"] and several["networks"] == [0.75, 0.75]


def test_without_values_there_are_no_figures():
    row = control_row(LABEL, "mass", np.empty((2, 0)))
    assert np.isnan([row["value"], *row["networks"]]).all() and row["n"] == 0


def test_rows_are_told_with_the_least_and_the_largest():
    rows = [{"of": "a", "value": 0.5, "networks": [0.25, 0.75]}, {"of": "b", "value": 0.125}]
    told = format_controls(rows, {"a": "A", "b": "B"}, "{:.2f}".format)
    assert told == ("A 0.50 [0.25, 0.75], B 0.12", 2)
    assert format_controls([], {}, str) == ("", 0)
