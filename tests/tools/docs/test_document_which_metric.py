"""The page on metrics says what was measured, and its findings follow from the figures."""

import json

from attribution_benchmarks.exact import meta_evaluation
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from tools.docs import document_which_metric

RECORD = json.loads(document_which_metric.FIGURES.read_text())
IMAGES, VECTORS = (RECORD["groups"][group] for group in ("images", "vectors"))
PAGE = document_which_metric.ROOT / "docs" / "which_metric.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == document_which_metric.page(RECORD), "run python tools/docs/document_which_metric.py"


def test_enough_inputs_and_every_metric_were_measured():
    inputs, networks = (sum(rows["distance"]["correlation"][place] for rows in (IMAGES, VECTORS)) for place in (3, 4))
    assert inputs >= 150 and networks == 24
    assert set(METRIC_REGISTRY) - {*IMAGES, *VECTORS} == {"in_domain_deletion"}  # needs a network trained for it
    assert all(set(meta_evaluation.QUANTUS) <= set(rows) for rows in (IMAGES, VECTORS))


def test_controls_are_as_they_must_be():
    for rows in (IMAGES, VECTORS):
        assert rows["distance"]["correlation"][:3] == rows["distance"]["methods"][:3] == [1, 1, 1]
        _, low, high, *_ = rows["random_score"]["correlation"]
        assert low < 0 < high


def test_the_first_metrics_are_those_of_random_sets():
    assert document_which_metric.best(RECORD["groups"]) == ["sensitivity_n", "faithfulness_correlation"]


def test_findings_follow_from_the_figures():
    difference = document_which_metric.difference
    assert difference(IMAGES, "faithfulness_correlation", "insertion_deletion")[1] > 0
    assert difference(IMAGES, "faithfulness_correlation", "insertion_deletion_road")[1] > 0
    assert difference(IMAGES, "sensitivity_n", "deletion")[1] > 0
    assert IMAGES["deletion"]["retest"][0] >= IMAGES["sensitivity_n"]["retest"][0]
    assert all(rows["avg_sensitivity"]["methods"][2] < 0 for rows in (IMAGES, VECTORS))
    assert all(rows["max_sensitivity"]["correlation"][2] < 0 for rows in (IMAGES, VECTORS))
    assert difference(VECTORS, "sparseness", "randomisation")[1] > 0
    assert VECTORS["randomisation"]["methods"][1] < 0 < VECTORS["randomisation"]["methods"][2]
    low, high = IMAGES["completeness"]["methods"][1:3]
    assert low < IMAGES["faithfulness_correlation"]["methods"][0] < high
    assert IMAGES["pointing_game"]["correlation"][1] < 0 and IMAGES["pointing_game"]["truth"] < 0.7
    black, mean = "quantus:FaithfulnessCorrelation", "quantus:FaithfulnessCorrelation?perturb_baseline=mean"
    for rows in (IMAGES, VECTORS):
        assert rows[black]["difference"][2] < 0
        assert abs(rows[mean]["difference"][0]) < 0.1


def test_metrics_that_are_the_same_in_quantus_do_not_differ():
    """Both are compared on maps that both score, so what one of them does with a map of zeros does not count."""
    for rows in (IMAGES, VECTORS):
        assert rows["quantus:Sparseness"]["difference"][:3] == [0, 0, 0]
        for name in meta_evaluation.QUANTUS:
            difference = rows[name]["of_quantus"][0] - rows[name]["of_ours"][0]
            assert abs(rows[name]["difference"][0] - difference) < 2e-4


def test_the_recommendation_says_what_the_recommended_metrics_do_not_see():
    short, limits = PAGE.read_text().split("**In short:**")[1].split("\n\n")[0], PAGE.read_text().split("## Limits")[1]
    assert "constant" in short and all(name in limits for name in document_which_metric.best(RECORD["groups"]))
    for name in (*document_which_metric.best(RECORD["groups"]), "mu_fidelity"):
        assert "onstant added to the map" in METRIC_REGISTRY[name].criticism


def test_the_numbers_of_random_sets_give_a_reliable_order():
    for rows in (IMAGES, VECTORS):
        for name in ("sensitivity_n", "infidelity"):
            assert rows[name]["retest"][1] > 0.8
