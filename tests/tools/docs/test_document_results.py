"""The tables of docs/results.md are those of the published scores; a share is that of the strongest baseline."""

import csv
import re

from attribution_benchmarks.core.registry import REPORTED
from tools.docs import document_results


def test_the_page_has_the_tables_of_the_published_scores():
    page = document_results.PAGE.read_text("utf-8")
    for name, table in document_results.matrix_tables(document_results.data_of(REPORTED)).items():
        assert len(table.splitlines()) > 8 and f"{table.strip()}\n\n<!-- /{name} -->" in page


def test_the_share_is_that_of_the_strongest_baseline_of_its_kind():
    def baseline(kind, share):
        return {"kind": kind, "share": share, "low": share - 0.1, "high": share + 0.1}

    compared = [baseline("random_weights", 0.9), baseline("random", 0.2), baseline("edge_detector", 0.4)]
    rows = [
        {"method": "grad_cam", "column": "first", "baselines": compared},
        {"method": "grad_cam", "column": "second"},
        {"method": "rise", "column": "second", "baselines": [{"kind": "random", "share": None}]},
    ]
    assert document_results.share_rows(rows) == [
        ["random weights", "Grad-CAM", "ROE %", "90.000", "80.000", "100.000"],
        ["no network", "Grad-CAM", "ROE %", "40.000", "30.000", "50.000"],
    ]


def test_scores_of_more_networks_have_the_mark_the_strongest_baseline_and_the_headroom():
    baselines = [{"kind": kind, "share": share, "low": share - 0.1, "high": share + 0.1} for kind, share in
                 (("random_weights", 0.5), ("largest", 0.7))]  # fmt: skip
    row = {"method": "grad_cam", "kind": "method", "value": 62.34, "mark": "✓", "baselines": baselines}
    row |= {"networks": list(range(20)), "benchmark": "svea"}
    rows = [
        row | {"column": "svea roe_test", "headroom_share": 0.314},
        row | {"column": "svea drop", "mark": "n/a", "baselines": []},
        {"method": "largest", "kind": "control", "benchmark": "svea", "column": "svea drop", "value": 61.4},
    ]
    labels = ("ROE %", "Drop", "Incr. %")
    found = document_results.network_rows(rows, labels)
    assert found == [
        ["svea", "Grad-CAM", "ROE %", "20", "62.3", "✓", "70.000", "60.000", "80.000", "31"],
        ["svea", "Grad-CAM", "Drop", "20", "62.340", "n/a", "", "", "", ""],
    ]
    head, _, *body = document_results.network_table(found, labels).splitlines()
    assert head == "| method | ROE % | Drop | Incr. % |" and body == ["| Grad-CAM | 62.3✓ | 62.340 n/a | – |"]


def more(benchmark):
    with open(document_results.PAGE.with_name("more_networks.csv"), newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["benchmark"] == benchmark]


def test_the_text_counts_marks_as_the_data_do():
    text = " ".join(document_results.PAGE.read_text("utf-8").split())
    matrix = document_results.PAGE.read_text("utf-8").split("<!-- method")[1].split("<!-- /method")[0]
    drops = re.findall(r"^\| ([^|]+) \| [\d.]+ \| ([\d.]+)† \|", matrix, re.MULTILINE)
    lowest = min(drops, key=lambda found: float(found[1]))
    with open(document_results.PAGE.with_name("baseline_shares.csv"), newline="", encoding="utf-8") as file:
        shares = [row for row in csv.DictReader(file) if (row["method"], row["column"]) == (lowest[0], "Drop %")]
    best = max(shares, key=lambda row: float(row["share_percent"]))
    reached = "{} % of it ({} to {})".format(*(round(float(best[key])) for key in ("share_percent", "low", "high")))
    assert f"{lowest[0]} has the lowest Drop of SVEA, {lowest[1]} %; the best baseline reaches {reached}" in text
    tetrominoes = more("xai_tris")
    marked = {(row["method"], row["column"]) for row in tetrominoes if row["mark"] == "✓"}
    assert f"{len(marked)} of {len(tetrominoes)} scores have the mark" in text
    methods = {row["method"] for row in tetrominoes}
    seven = {method for method in methods if {(method, "distance"), (method, "rank"), (method, "mask")} <= marked}
    assert seven == {"Integrated Gradients", "Guided Integrated Gradients", "Expected Gradients", "DeepLIFT (rescale)",
                     "LRP-ε", "Gradient x Input", "Occlusion"}  # fmt: skip
    assert {(method, "mask") for method in methods} <= marked and len(methods) == 13
    for benchmark, column in (("exact", "distance"), ("xai_units", "distance"), ("exact", "rank")):
        assert seven <= {row["method"] for row in more(benchmark) if (row["column"], row["mark"]) == (column, "✓")}
