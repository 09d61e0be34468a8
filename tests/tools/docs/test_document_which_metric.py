"""The page on metrics says what was measured, and its statements follow from the figures."""

import copy
import itertools

import numpy as np
import pytest

from attribution_benchmarks.exact import meta_evaluation
from attribution_benchmarks.exact.sampled_networks import GENERATORS, generator_of, sampled_networks
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from tools.docs import document_which_metric

RECORD, OTHER = document_which_metric.records()
PAGE = document_which_metric.ROOT / "docs" / "which_metric.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == document_which_metric.page(RECORD, OTHER), (
        "run python -m tools.docs.document_which_metric"
    )


def test_enough_networks_and_every_metric_were_measured():
    assert len(RECORD["networks"]) >= 60 and RECORD["seed"] != OTHER["seed"]
    for record in (RECORD, OTHER):
        assert {generator_of(name) for name in record["networks"]} == set(GENERATORS)
    assert set(METRIC_REGISTRY) - set(RECORD["metrics"]) == {"in_domain_deletion"}  # needs a network trained for it
    assert set(meta_evaluation.QUANTUS) <= set(RECORD["metrics"])


@pytest.mark.parametrize("record", [RECORD, OTHER], ids=["first", "other seeds"])
def test_controls_are_as_they_must_be(record):
    for truth in meta_evaluation.TRUTHS:
        values = np.array(record["metrics"]["distance"]["agreement"][f"{truth}, distance"], float)
        assert set(values[np.isfinite(values)]) == {1.0}
    values = meta_evaluation.agreements(record, ["random_score"])[0]
    assert (np.abs(np.nanmean(values, axis=1)) < 0.1).all()


@pytest.mark.parametrize("networks", [1, 3])
def test_a_sample_of_the_record_is_measured_again(networks):
    """On one processor every figure is the same; on others rounding may exchange maps of nearly equal scores."""
    metrics = meta_evaluation.chosen(["insertion", "infidelity", "completeness", "average_precision"])
    sampled = sampled_networks(3, OTHER["inputs"], OTHER["seed"], ("closed_forms",))
    for network in itertools.islice(sampled, networks):
        again = meta_evaluation.summary([meta_evaluation.score(metrics, network)], metrics)["metrics"]
        place = OTHER["networks"].index(network.name)
        for name, row in again.items():
            for cell, (value,) in row["agreement"].items():
                assert value == pytest.approx(OTHER["metrics"][name]["agreement"][cell][place], abs=0.01), (name, cell)


def test_a_metric_whose_card_does_not_see_a_constant_does_not_see_offsets():
    for name in ("sensitivity_n", "faithfulness_correlation", "insertion_deletion"):
        assert RECORD["metrics"][name]["by_kind"]["offset"] == 0


def test_stability_prefers_random_maps():
    for name in ("max_sensitivity", "avg_sensitivity"):
        assert RECORD["metrics"][name]["truth"] < RECORD["metrics"][name]["chance"]


def of_pair(values):
    """Return a record of two metrics, the first of which is above the second by some numbers, (cells, networks)."""
    keys = [", ".join(cell) for cell in meta_evaluation.CELLS]
    networks = [f"{name}/0/{number}" for name in GENERATORS for number in range(2)]
    metrics = {
        name: {"agreement": {key: list(row) for key, row in zip(keys, of_metric, strict=True)}}
        for name, of_metric in (("first", values), ("second", np.zeros_like(values)))
    }
    return {"networks": networks, "metrics": metrics}


def test_a_statement_holds_only_if_it_does_for_every_truth_and_error():
    values = np.random.default_rng(0).uniform(0.2, 0.4, (12, 12))
    found = document_which_metric.statement(of_pair(values), "first", "second")
    assert found.holds and (found.generators, found.of) == (6, 6)
    assert "**`first` above `second`**, by 0.2" in document_which_metric.finding(found, found)
    values[5] *= -1
    found = document_which_metric.statement(of_pair(values), "first", "second")
    assert not found.holds and found.verdicts.tolist() == [1] * 5 + [-1] + [1] * 6
    said = document_which_metric.depends(found, None)
    assert "above by distance, 1 - Pearson (zero, closed form)" in said and "below by 1 - Pearson (mean)" in said
    values[5] = np.tile([0.1, -0.1], 6)
    assert "undecided by 1 - Pearson (mean)" in document_which_metric.depends(
        document_which_metric.statement(of_pair(values), "first", "second"), None
    )


def test_an_order_that_another_run_reverses_is_listed():
    values = np.random.default_rng(0).uniform(0.2, 0.4, (12, 12))
    first, other = of_pair(values), of_pair(values)
    assert "1 are ordered by every truth and error. With other seeds 1 of these" in document_which_metric.replication(
        first, other
    )
    reversed_ = copy.deepcopy(values)
    reversed_[0] *= -1
    said = document_which_metric.replication(first, of_pair(reversed_))
    assert "- `first` above `second`: not by distance (zero); contradicted by distance (zero)" in said


def test_findings_hold_in_both_runs_and_all_other_statements_are_on_the_page():
    text = PAGE.read_text()
    findings = text.split("## What holds")[1].split("## What depends")[0]
    for names in document_which_metric.STATEMENTS:
        both = [document_which_metric.statement(record, *names) for record in (RECORD, OTHER)]
        assert both[0] is not None
        holds = all(one.holds for one in both if one)
        assert (document_which_metric.finding(*both) in findings) == holds
        assert holds or document_which_metric.depends(*both) in text


def test_metrics_that_are_the_same_in_quantus_do_not_differ():
    row = RECORD["metrics"]["quantus:Sparseness"]
    assert row["of_quantus"] == row["of_ours"]
