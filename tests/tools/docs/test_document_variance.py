"""The page has the shares of variance that were measured, and the numbers of networks that follow from them."""

import json

import numpy as np
import pytest

from attribution_benchmarks.core import input_scores
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report.significance import MARGIN, networks_for_mark
from attribution_benchmarks.stats.variance import components
from svea import methods as svea
from tools.docs import document_variance

ROWS = json.loads(document_variance.FILE.read_text("utf-8"))


def test_the_page_has_the_tables_of_what_was_measured():
    page = document_variance.PAGE.read_text("utf-8")
    for table in (document_variance.share_table(ROWS), document_variance.needed_table()):
        assert table.strip() in page, "run python -m tools.docs.document_variance"


def test_every_benchmark_with_several_networks_was_measured():
    networks = {row["benchmark"]: row["networks"] for row in ROWS}
    assert networks["SVEA"] == 20 and networks["BIM"] >= 5 and networks["CLEVR-XAI"] == 3
    for row in ROWS:
        assert sum(document_variance.shares(row).values()) == pytest.approx(100)


def test_scores_of_a_report_are_stacked_by_network_without_controls_and_incomplete_methods(tmp_path):
    (tmp_path / "work").mkdir()
    with pytest.raises(ValueError, match="no scores of several networks in"):
        document_variance.measured([tmp_path])
    random = np.random.default_rng(0)
    known = random.normal(size=(30, 12, 3))  # more than ten networks: their files are not in the order of numbers
    names = ("gradient", "grad_cam", "rise")
    for number in range(12):
        values = {name: known[:, number, place] for place, name in enumerate(names)}
        values |= {"gradient/random_weights": known[:, number, 0], svea.CONTROLS[0].name: known[:, number, 1]}
        if number:  # a method that only the first network has
            del values["rise"]
        groups = [
            InputScores({"metric": metric}, [str(row) for row in range(30)], values) for metric in ("roe_test", "drop")
        ]
        name = f"svea_network{number}" if number else "svea"
        input_scores.save(tmp_path / "work" / f"{name}.values.json", "svea", groups)
    found = document_variance.measured([tmp_path])
    assert {(row["score"], row["networks"], row["inputs"]) for row in found} == {
        ("SVEA ROE test %", 12, 30),
        ("SVEA Drop %", 12, 30),
    }
    for row in found:
        assert row["methods"] == ["gradient", "grad_cam"]
        assert row["components"] == components(known[..., :2])._asdict()
        assert row["mean"] == pytest.approx(known[..., :2].mean())


def test_new_rows_replace_those_of_their_benchmark_only():
    new = [{"benchmark": "BIM", "score": "new"}]
    rows = document_variance.with_new(ROWS, new)
    assert [row for row in rows if row["benchmark"] == "BIM"] == new
    assert [row for row in rows if row not in new] == [row for row in ROWS if row["benchmark"] != "BIM"]
    assert document_variance.with_new(ROWS, ROWS) == ROWS


def test_more_networks_are_needed_the_more_they_differ_and_the_more_a_baseline_reaches():
    counts = [
        [
            networks_for_mark(document_variance.METHODS, share, MARGIN * spread, 1000)
            for spread in document_variance.SPREADS
        ]
        for share in document_variance.SHARES
    ]
    assert counts[0][0] == 7 and (np.diff(counts, axis=0) >= 0).all() and (np.diff(counts, axis=1) >= 0).all()
    assert document_variance.needed(0.79, 0.3) == "more than 200"
