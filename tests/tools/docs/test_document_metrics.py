"""The page of metrics says what the entries say, for every metric, and ranks by what was measured."""

import json
import pathlib

import pytest

from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from tools.docs import document_metrics

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
POWER = json.loads((DOCS / "metrics_power.json").read_text())


def test_the_page_is_up_to_date():
    assert (DOCS / "metrics.md").read_text() == document_metrics.page(POWER), (
        "run python tools/docs/document_metrics.py"
    )


@pytest.mark.parametrize("metric", METRIC_REGISTRY.values(), ids=lambda metric: metric.name)
def test_every_entry_says_all_that_a_reader_needs(metric):
    for said in (metric.about, metric.source, metric.cost, metric.chance, metric.criticism):
        assert said
    low, high = metric.bounds
    assert low < high and f"{metric.better} is better" in metric.about.lower()


def test_every_metric_of_maps_was_measured_and_the_truth_is_best_where_it_must_be():
    measures = {name: metric.measure for name, metric in METRIC_REGISTRY.items()}
    assert set(POWER["metrics"]) == {
        name for name, one in measures.items() if one.of_controls and not one.needs_explainer
    }
    for name in ("pointing_game", "roc_auc", "average_precision", "iou_at_area"):
        assert POWER["metrics"][name]["means"]["ground_truth"] == 1


def test_power_counts_wins_in_the_metrics_direction_and_ranks_by_the_least():
    values = {
        "roc_auc": {"ground_truth": [1, 1, 1, 1], "random": [0.5, 0.4, 0.6, 0.5], "edge_detector": [0.9, 1, 1, 0.8]},
        "deletion": {"ground_truth": [0.1] * 4, "random": [0.5, 0.5, 0.05, float("nan")], "edge_detector": [0.2] * 4},
    }
    power = document_metrics.summary(values, "four inputs", "command", "example")
    assert power["metrics"]["roc_auc"]["wins"] == {"random": 1, "edge_detector": 0.75}
    assert power["metrics"]["deletion"]["wins"] == {"random": pytest.approx(2 / 3, abs=1e-3), "edge_detector": 1}
    assert document_metrics.ranked(power) == ["roc_auc", "deletion"]
