"""The page of metrics and the table of cards say what the entries say, for every metric."""

import csv

import pytest

from attribution_benchmarks.metrics import cards
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from tools.docs import document_registries

DOCS = document_registries.ROOT / "docs"


def test_the_page_and_the_table_are_up_to_date():
    stale = "run python -m tools.docs.document_registries"
    assert (DOCS / "metrics.md").read_text("utf-8") == document_registries.metrics_page(), stale
    assert (DOCS / "metrics.csv").read_text("utf-8") == document_registries.table_of_cards(), stale


@pytest.mark.parametrize("metric", METRIC_REGISTRY.values(), ids=lambda metric: metric.name)
def test_every_entry_says_all_that_a_reader_needs(metric):
    for said in (metric.about, metric.source, metric.cost, metric.chance, metric.criticism):
        assert said
    low, high = metric.bounds
    assert low < high and f"{metric.better} is better" in metric.about.lower()


def test_the_table_has_the_cards_of_every_metric():
    rows = {row["metric"]: row for row in csv.DictReader(document_registries.table_of_cards().splitlines())}
    assert rows.keys() >= METRIC_REGISTRY.keys() | {"svea:drop", "bim:mcs", "clevr_xai:mass", "exact:distance"}
    row, card = rows["attribution_localisation"], cards.cards()["attribution_localisation"]
    assert row["do not conclude"] == " ".join(card.cautions()) and row["card"] == card.phrase
    assert (row["offset"], row["scale"]) == ("changed", "same")
