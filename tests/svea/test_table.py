"""Rows, rank correlation and findings of made-up scores, whose results are known."""

import numpy as np
import pytest

from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.published import rank_correlation
from svea import notes
from svea.definition import BENCHMARK
from svea.metrics import METRICS
from svea.scoring import NetworkScores, SourceScores


def made_up(means, shift=0.0):
    """Scores of a given mean: method or control -> mean of every metric."""

    def scores(mean):
        noise = np.random.default_rng(int(10 * mean)).normal(size=1000)
        return {metric: mean + shift + noise - noise.mean() for metric in METRICS}

    sources = {
        MapSource(name): SourceScores(scores(mean), zero_maps=50)
        for name, mean in means.items()
        if name != "argmax_abs"
    }
    sources[MapSource(control="raw_signal")] = SourceScores({"roe_test": np.full(1000, 29.7)})
    sources[MapSource(control="argmax_abs")] = SourceScores(scores(means.get("argmax_abs", 61.4)))
    return NetworkScores(sources, np.eye(10)[np.zeros(1000, int)])


def as_in_the_paper(metric="roe_test"):
    return {
        one["method"]: one["value"]
        for one in BENCHMARK.paper
        if one["metric"] == metric and "_constant_" not in one["method"]
    }


@pytest.fixture(scope="module")
def paper_scores():
    means = as_in_the_paper()
    del means["raw_signal"]
    return made_up(means)


def test_a_row_a_number_beside_the_papers(paper_scores, table_of):
    rows = table_of([paper_scores]).rows
    assert len(rows) == 8 * 3 + 1 + 3
    for row in rows:
        assert row["low"] <= row["value"] <= row["high"] and row["n"] == 1000
        assert row["paper"] == as_in_the_paper(row["metric"]).get(row["method"])
        if row["metric"] == "roe_test" and row["kind"] == "method":
            assert row["value"] == pytest.approx(row["paper"]) and row["zero_maps"] == 1.0
        assert "networks" not in row
    assert sum(row["kind"] == "control" for row in rows) == 4


def test_several_networks_give_their_mean(table_of):
    row = table_of([made_up({"rise": 60.0}, shift) for shift in (-1.0, 0.0, 4.0)]).rows[0]
    assert row["value"] == pytest.approx(61.0) and row["networks"] == pytest.approx([59.0, 60.0, 64.0])


def correlated(scores, metric, without=()):
    (group,) = [group for group in scores.groups if group.where["metric"] == metric]
    return rank_correlation(group, scores.rows, 0, without)


def test_the_papers_own_order_correlates_perfectly(paper_scores, table_of):
    estimate, count = correlated(table_of([paper_scores]), "roe_test")
    assert (estimate.value, count) == (pytest.approx(1.0), 8)


def test_leaving_score_cam_out_leaves_seven_methods(table_of):
    means = as_in_the_paper()
    del means["raw_signal"]
    scores = table_of([made_up({**means, "score_cam": 99.0})])
    with_it, _ = correlated(scores, "roe_test")
    without, count = correlated(scores, "roe_test", ("score_cam",))
    # Score-CAM moves from rank 3 to 8, five others move down by one: 1 - 6 (5² + 5) / (8 · 63).
    assert with_it.value == pytest.approx(1 - 6 * 30 / 504)
    assert (without.value, count) == (pytest.approx(1.0), 7)


def test_a_candidate_is_beside_the_papers_row_and_in_no_comparison(paper_scores, table_of):
    means = {source.method: scores.values["roe_test"].mean() for source, scores in paper_scores.sources.items()}
    means = {name: mean for name, mean in means.items() if name}
    scores = table_of([made_up({**means, "score_cam_constant_masks": 99.0})])
    (row,) = (row for row in scores.rows if (row["method"], row["metric"]) == ("score_cam_constant_masks", "drop"))
    assert row["paper"] == as_in_the_paper("drop")["score_cam"] and row["value"] == pytest.approx(99.0)
    assert scores.titles["score_cam_constant_masks"].endswith("(candidate)")
    own, said = (notes.notes(one, 1, 0) for one in (table_of([paper_scores]), scores))
    assert [line for line in said if "zero" not in line] == [line for line in own if "zero" not in line]
    assert notes.notes(table_of([made_up({"score_cam_constant_masks": 9.0})]), 1, 0)


def test_two_methods_have_no_order_worth_a_correlation(table_of):
    assert correlated(table_of([made_up({"rise": 60.0, "sise": 50.0})]), "drop") is None


def test_titles_are_the_registrys_and_a_users_own_is_its_functions():
    titles = BENCHMARK.row_titles([MapSource("rise"), MapSource("mine:map"), MapSource(control="random_window")])
    assert titles == {"rise": "RISE", "mine:map": "map", "random_window": "Random window"}


def test_what_holds_is_said_to_hold_and_what_does_not_is_not(table_of):
    means = as_in_the_paper()
    del means["raw_signal"]
    means["score_cam"] = 60.0  # the paper's Score-CAM is itself below its Grad-CAM
    drops = as_in_the_paper("drop")

    good = made_up(means)
    for name in good.methods:
        good.methods[name].values["drop"][:] = drops[name]
    said = notes.notes(table_of([good]), 1, 0)
    assert sum(": holds" in line for line in said) == 2
    assert sum(line.startswith("Known divergence") for line in said) == 3
    assert any("Grad-CAM++, ROE test: ours 59.0; the paper's 59.0 lies inside our interval" in line for line in said)

    bad = made_up({**means, "gradient": 70.0})
    for name in bad.methods:
        bad.methods[name].values["drop"][:] = drops[name] if name != "rise" else 99.0
    told = [line for line in notes.notes(table_of([bad]), 1, 0) if "does not hold" in line]
    assert len(told) == 2
    assert "Vanilla Gradient 70.0, Grad-CAM++ 59.0" in told[0] and "Integrated Gradients 9.8" in told[1]


def test_a_spread_over_networks_is_told_beside_the_papers_row(table_of):
    networks = [made_up({"grad_cam_plus_plus": 60.0}, shift) for shift in (-1.0, 0.0, 4.0)]
    told = notes.notes(table_of(networks), 3, 0)
    assert any("Grad-CAM++, ROE test: ours 61.0, over networks 59.0 to 64.0; the paper's 59.0" in line for line in told)


def test_methods_above_the_rule_without_a_network_and_differences_from_the_paper_are_named(table_of):
    said = notes.notes(table_of([made_up({"rise": 80.0, "sise": 40.0, "score_cam": 66.0})]), 1, 0)
    (better,) = [line for line in said if line.startswith("Better than the window")]
    assert better.endswith("; p < 0.05 after Holm for 3 methods): RISE, Score-CAM.")
    assert any("ours 66.0; the paper's 42.1 lies outside our interval" in line for line in said)
    (known,) = [line for line in said if "the paper's 66.4" in line]
    assert known.startswith("RISE, ROE test: ours 80.0; ") and "how many masks" in known.lower()
    said = notes.notes(table_of([made_up({"sise": 40.0})]), 1, 0)
    assert next(line for line in said if line.startswith("Better than the window")).endswith("none.")
    assert not any("Score-CAM" in line for line in said)
