"""Curves behind scores: their means and bands, and that every benchmark writes them."""

import json

import numpy as np
import pytest

from attribution import cli
from attribution_benchmarks.core.scores import curve_points
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from attribution_benchmarks.stats import statistics

METRIC = METRIC_REGISTRY["deletion_road"]


def test_a_point_is_the_mean_of_the_inputs_that_have_a_curve():
    drawn = np.random.default_rng(0).uniform(0.2, 0.6, (30, len(METRIC.curve)))
    drawn[3, 2] = np.nan
    found = curve_points(METRIC, drawn)
    kept = np.delete(drawn, 3, axis=0)
    assert [row["removed"] for row in found] == [0.0, 0.2, 0.4, 0.6, 0.8] and {row["n"] for row in found} == {29}
    np.testing.assert_allclose([row["value"] for row in found], kept.mean(axis=0))
    ends = np.clip(statistics.means(kept).intervals(), 0, 1)
    np.testing.assert_allclose([[row["low"] for row in found], [row["high"] for row in found]], ends)
    assert all(0 <= row["low"] < row["value"] < row["high"] <= 1 for row in found)
    assert curve_points(METRIC, drawn[3:4]) == []


def test_the_area_below_a_curve_of_the_table_is_the_score_of_the_table(tmp_path, capsys):
    from svea import benchmark

    file = tmp_path / "scores.json"
    arguments = ["--methods=gradient", "--metrics=deletion_road", f"--output={file}"]
    assert cli.execute(benchmark.main, benchmark.FLAGS, benchmark.__doc__, ["benchmark", *arguments]) == 0
    rows = json.loads(file.read_text())["rows"]
    for name in ("gradient", "random_window"):
        (score,) = (row for row in rows if row["method"] == name and row["metric"] == "deletion_road")
        line = [row for row in rows if row["method"] == name and row["metric"] == "deletion_road_curve"]
        heights, places = [row["value"] for row in line], [row["removed"] for row in line]
        assert tuple(places) == METRIC.curve and line[0]["kind"] == score["kind"]
        assert np.trapezoid(heights, places) / places[-1] == pytest.approx(score["value"], abs=1e-4)
    assert "_curve" not in capsys.readouterr().out
