"""The page of metrics says what the entries say, for every metric, with its retest reliability."""

import json

import pytest

from attribution_benchmarks.metrics import cards
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from tools.docs import document_registries

MEASURED = json.loads(document_registries.RELIABILITY.read_text())["metrics"]
PAGE = document_registries.ROOT / "docs" / "metrics.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == document_registries.metrics_page(MEASURED), (
        "run python -m tools.docs.document_registries"
    )


@pytest.mark.parametrize("metric", METRIC_REGISTRY.values(), ids=lambda metric: metric.name)
def test_every_entry_says_all_that_a_reader_needs(metric):
    for said in (metric.about, metric.source, metric.cost, metric.chance, metric.criticism):
        assert said
    low, high = metric.bounds
    assert low < high and f"{metric.better} is better" in metric.about.lower()


def test_the_cards_are_in_two_tables_and_in_each_sheet():
    page = document_registries.metrics_page(MEASURED)
    tables = page.split("## Evaluation cards")[1].split("## Localization")[0]
    for name in cards.cards():
        shown = not name.startswith(("xai_units:", "xai_tris:"))
        assert tables.count(f"`{name}`") == (2 if shown else 0), name
    card = cards.cards()["attribution_localisation"]
    assert f"- **Card.** {card.phrase.capitalize()}. {card.cautions()[0]}" in page
    assert "(#attribution_localisation) |  | = | = |  |  | = |  |  | no effect |" in tables


def test_the_table_has_each_metrics_retest_reliability():
    lines = {
        line.split("`")[1]: line
        for line in document_registries.metrics_page(MEASURED).split("## Evaluation cards")[0].splitlines()
        if line.startswith("| [`")
    }
    assert lines.keys() == METRIC_REGISTRY.keys()
    assert lines["infidelity"].endswith(f"| {MEASURED['infidelity']['retest']:.2f} |")
    assert lines["completeness"].endswith("| 1 |") and lines["in_domain_deletion"].endswith("|  |")
