"""Two reports beside each other, and rows that are drawn as curves."""

import json

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core import input_scores
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.report_text import Trend
from attribution_benchmarks.report import charts, matrix, publish, report_diff
from attribution_benchmarks.report.formatting import Names
from attribution_benchmarks.report.page import pages as render_pages
from attribution_benchmarks.report.results import ReportData


@pytest.fixture
def other(tmp_path, built, groups):
    """A report in which the method "bad" was better by 0.1 on SVEA's inputs, and all else alike."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "work").mkdir()
    rows = publish.long_rows(built)
    for row in rows:
        if (row["method"], row["column"]) == ("bad", "svea roe_test"):
            row["value"] += 0.1
    document = {"manifest": {"command": "python scripts/reproduce_tables.py"}, "rows": rows}
    (tmp_path / "tables" / "matrix.json").write_text(json.dumps(document))
    drawn = np.random.default_rng(0).normal(0.1, 0.02, len(groups["svea"][0].inputs))
    lifted = [
        InputScores(group.where, group.inputs[::-1], {
            name: (np.asarray(column) + drawn * (name == "bad" and group.where["metric"] == "roe_test"))[::-1]
            for name, column in group.values.items()
        }) for group in groups["svea"]
    ]  # fmt: skip
    input_scores.save(tmp_path / "work" / "svea.values.json", "svea", lifted)
    return tmp_path


def test_what_changed_is_found_input_by_input_whatever_their_order(other, built, groups):
    found = report_diff.difference(built, groups, report_diff.OtherReport(other), Names({}, []))
    first = found["columns"][0]
    changed = {line["title"]: line for line in first["lines"]}
    assert first["tested"] and first["changed"] == found["changed"] == 1
    assert changed["bad"]["significant"] and not changed["bad"]["better"] and changed["bad"]["change"] == "−0.1"
    assert changed["best"]["change"] == "0" and not changed["best"]["significant"]
    bim = next(column for column in found["columns"] if column["title"] == "BIM MCS")
    assert not bim["tested"] and all(line["p"] == "" for line in bim["lines"])
    assert found["only_here"] == found["only_there"] == []


def test_a_method_of_ones_own_is_found_again_wherever_its_file_is(other, documents, columns, groups):
    renamed = json.loads(json.dumps(documents).replace('"bad"', '"elsewhere/my.py:bad"'))
    moved = {
        "svea": [
            InputScores(group.where, group.inputs, {
                name.replace("bad", "elsewhere/my.py:bad"): column for name, column in group.values.items()
            }) for group in groups["svea"]
        ]
    }  # fmt: skip
    built = matrix.build(renamed, columns)
    found = report_diff.difference(built, moved, report_diff.OtherReport(other), Names({}, ["elsewhere/my.py:bad"]))
    assert found["only_here"] == found["only_there"] == [] and found["changed"] == 1


def test_metrics_that_are_not_compared_are_listed_with_the_reason(other, built, judged, groups, definitions):
    path = other / "tables" / "matrix.json"
    document = json.loads(path.read_text())
    for row in document["rows"]:
        if row["column"] == "svea roe_test":  # as if the metric had another name then
            row["column"] = "svea <b>old</b>"
        elif row["column"] == "bim mcs":
            row["method"] = f"another_{row['method']}"
    path.write_text(json.dumps(document))
    found = report_diff.difference(built, groups, report_diff.OtherReport(other), Names({}, []))
    assert found["not_compared"] == {
        "Metrics only in this run": ["SVEA ROE test %"],
        "Metrics only in the other run": ["svea <b>old</b>"],
        "Metrics without a method that both runs scored": ["BIM MCS"],
    }
    assert {column["title"] for column in found["columns"]}.isdisjoint({"SVEA ROE test %", "BIM MCS"})
    first, *missing = report_diff.as_text(found).splitlines()
    assert first == f"Compared with {other.name}: 0 of {found['tests']} scores differ significantly"
    assert missing[0] == "Metrics only in this run: SVEA ROE test %" and len(missing) == 3
    data = ReportData([], groups, definitions, built.columns, {}, {"command": "", "lead": "", "footer": ""})
    text = render_pages(built, matrix.agreement(built), judged, data, found)["tables.html"]
    assert "<li>Metrics only in the other run: svea &lt;b&gt;old&lt;/b&gt;.</li>" in text


def test_the_other_report_is_named_without_an_absolute_path(other, built, groups, monkeypatch):
    def named(directory):
        found = report_diff.difference(built, groups, report_diff.OtherReport(directory), Names({}, []))
        return found["directory"]

    monkeypatch.chdir(other.parent)
    assert named(other) == named(other / "tables" / "..") == other.name
    monkeypatch.chdir(other.parent.parent)
    assert named(other) == f"{other.parent.name}/{other.name}"
    monkeypatch.chdir(other / "work")
    assert named(other) == other.name
    monkeypatch.chdir(other)
    assert named(other.relative_to(other)) == other.name


def test_a_folder_that_holds_no_report_is_refused_in_one_line(tmp_path):
    with pytest.raises(BadInput, match=r"--compare=.* holds no finished report .*; name an --output_dir of"):
        report_diff.OtherReport(tmp_path)


def test_the_page_shows_the_comparison(other, built, judged, groups, definitions):
    found = report_diff.difference(built, groups, report_diff.OtherReport(other), Names({}, []))
    settings = {"command": "", "lead": "", "footer": ""}
    data = ReportData([], groups, definitions, built.columns, {}, settings)
    text = render_pages(built, matrix.agreement(built), judged, data, found)["tables.html"]
    assert 'id="compared"' in text and "−0.1 worse" in text


def test_curves_have_bands_where_there_are_intervals_and_say_their_figures():
    rows = [
        {"metric": "m", "method": name, "value": 0.1 * place, "low": low, "high": 0.5, "step": place, "kind": kind}
        for name, kind, low in (("zero", "control", None), ("own<i>", "method", 0.0))
        for place in (1, 2, 3)
    ]
    trend = Trend("m", "A trend", "How to read it.", "step", "steps")
    found = charts.line_charts(trend, [*rows, {"metric": "other"}], Names({}, ["own<i>"]))
    first, second = found["panels"]  # controls come last
    assert (first["title"], first["own"], second["control"]) == ("own<i>", True, True)
    assert "1: 0.10 (0.00 to 0.50)" in first["text"] and "1: 0.10 (– to 0.50)" in second["text"]
    assert first["svg"].count("<circle") == 3 and 'class="band" points=""' in second["svg"]
    assert charts.line_charts(trend, [{"metric": "other"}], Names({}, [])) is None
