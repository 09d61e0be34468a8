"""Rows, rank correlation and findings of made-up scores, whose results are known."""

import numpy as np
import pytest

from attribution_benchmarks.core.batch import MapSource
from svea import table
from svea.definition import BENCHMARK
from svea.metrics import METRICS
from svea.scoring import NetworkScores, Scores


def made_up(means, shift=0.0):
    """Scores whose mean is what is asked for: method or control -> mean of every metric."""

    def scores(mean):
        noise = np.random.default_rng(int(10 * mean)).normal(size=1000)
        return {metric: mean + shift + noise - noise.mean() for metric in METRICS}

    sources = {
        MapSource(name): Scores(scores(mean), zero_maps=50) for name, mean in means.items() if name != "argmax_abs"
    }
    sources[MapSource(control="raw_signal")] = Scores({"roe_test": np.full(1000, 29.7)})
    sources[MapSource(control="argmax_abs")] = Scores(scores(means.get("argmax_abs", 61.4)))
    return NetworkScores(sources, np.eye(10)[np.zeros(1000, int)])


def as_in_the_paper(metric="roe_test"):
    return {name: figures[metric] for name, figures in table.TABLE_1.items() if metric in figures}


@pytest.fixture(scope="module")
def paper_scores():
    means = as_in_the_paper()
    del means["raw_signal"]
    return made_up(means)


def test_a_row_a_number_beside_the_papers(paper_scores):
    rows = table.long_rows([paper_scores], METRICS)
    assert len(rows) == 8 * 3 + 1 + 3
    for row in rows:
        assert row["low"] <= row["value"] <= row["high"] and row["n"] == 1000
        assert row["paper"] == as_in_the_paper(row["metric"]).get(row["method"])
        if row["metric"] == "roe_test" and row["kind"] == "method":
            assert row["value"] == pytest.approx(row["paper"]) and row["zero_maps"] == 1.0
        assert "std" not in row
    assert [row["kind"] for row in rows[-4:]] == ["control"] * 4


def test_several_networks_give_their_mean_and_standard_deviation():
    networks = [made_up({"rise": 60.0}, shift) for shift in (-1.0, 0.0, 4.0)]
    row = table.long_rows(networks, METRICS)[0]
    assert row["value"] == pytest.approx(61.0)
    assert row["networks"] == pytest.approx([59.0, 60.0, 64.0])
    assert row["std"] == pytest.approx(np.std([59, 60, 64], ddof=1))


def test_the_papers_own_order_correlates_perfectly(paper_scores):
    estimate, count = table.rank_correlation([paper_scores], "roe_test", seed=0)
    assert (estimate.value, count) == (pytest.approx(1.0), 8)


def test_leaving_score_cam_out_leaves_seven_methods():
    means = as_in_the_paper()
    del means["raw_signal"]
    network = made_up({**means, "score_cam": 99.0})
    with_it, _ = table.rank_correlation([network], "roe_test", 0)
    without, count = table.rank_correlation([network], "roe_test", 0, ("score_cam",))
    # Score-CAM moves from rank 3 to 8, five others move down by one: 1 - 6 (5² + 5) / (8 · 63).
    assert with_it.value == pytest.approx(1 - 6 * 30 / 504)
    assert (without.value, count) == (pytest.approx(1.0), 7)


def test_a_candidate_is_beside_the_papers_row_and_in_no_comparison(paper_scores):
    means = {source.method: scores.values["roe_test"].mean() for source, scores in paper_scores.sources.items()}
    means = {name: mean for name, mean in means.items() if name}
    network = made_up({**means, "score_cam_constant_masks": 99.0})
    rows = table.long_rows([network], METRICS)
    (row,) = (row for row in rows if (row["method"], row["metric"]) == ("score_cam_constant_masks", "drop"))
    assert row["paper"] == table.TABLE_1["score_cam"]["drop"] and row["value"] == pytest.approx(99.0)
    titles = BENCHMARK.row_titles(network.sources)
    assert titles["score_cam_constant_masks"].endswith("(candidate)")
    own = table.findings([paper_scores], table.long_rows([paper_scores], METRICS), titles, 0, ["net"])
    lines = table.findings([network], rows, titles, 0, ["net"])
    assert [line for line in lines if "zero" not in line] == [line for line in own if "zero" not in line]
    assert table.findings([made_up({"score_cam_constant_masks": 9.0})], rows, titles, 0, ["net"])


def test_two_methods_have_no_order_worth_a_correlation():
    assert table.rank_correlation([made_up({"rise": 60.0, "sise": 50.0})], "drop", 0) is None


def test_titles_are_the_registrys_and_a_users_own_is_its_functions():
    titles = BENCHMARK.row_titles([MapSource("rise"), MapSource("mine:map"), MapSource(control="random_window")])
    assert titles == {"rise": "RISE", "mine:map": "map", "random_window": "Random window"}


def lines(network):
    networks = [network]
    return table.findings(
        networks, table.long_rows(networks, METRICS), BENCHMARK.row_titles(networks[0].sources), 0, ["nets/a"]
    )


def test_what_holds_is_said_to_hold_and_what_does_not_is_not():
    means = as_in_the_paper()
    del means["raw_signal"]
    means["score_cam"] = 60.0  # the paper's Score-CAM is itself below its Grad-CAM
    drops = as_in_the_paper("drop")

    good = made_up(means)
    for name in good.methods:
        good.methods[name].values["drop"][:] = drops[name]
    said = lines(good)
    assert sum(": holds" in line for line in said) == 2
    assert sum(line.startswith("Known divergence") for line in said) == 3
    assert any("Grad-CAM++, ROE test: ours 59.0; the paper's 59.0 lies inside our interval" in line for line in said)

    bad = made_up({**means, "gradient": 70.0})
    for name in bad.methods:
        bad.methods[name].values["drop"][:] = drops[name] if name != "rise" else 99.0
    told = [line for line in lines(bad) if "does not hold" in line]
    assert len(told) == 2
    assert "Vanilla Gradient 70.0, Grad-CAM++ 59.0" in told[0] and "Integrated Gradients 9.8" in told[1]


def test_a_spread_over_networks_is_told_beside_the_papers_row():
    networks = [made_up({"grad_cam_plus_plus": 60.0}, shift) for shift in (-1.0, 0.0, 4.0)]
    rows = table.long_rows(networks, METRICS)
    told = table.findings(networks, rows, BENCHMARK.row_titles(networks[0].sources), 0, ["a", "b", "c"])
    assert any("Grad-CAM++, ROE test: ours 61.0, over networks 59.0 to 64.0; the paper's 59.0" in line for line in told)


def test_methods_above_the_rule_without_a_network_and_differences_from_the_paper_are_named():
    said = lines(made_up({"rise": 80.0, "sise": 40.0, "score_cam": 66.0}))
    (better,) = [line for line in said if line.startswith("Better than the window")]
    assert better.endswith(", on nets/a (p < 0.05 after Holm for 3 methods): RISE, Score-CAM.")
    assert any("ours 66.0; the paper's 42.1 lies outside our interval" in line for line in said)
    (known,) = [line for line in said if "the paper's 66.4" in line]
    assert known.startswith("RISE, ROE test: ours 80.0; ") and "how many masks" in known.lower()
    said = lines(made_up({"sise": 40.0}))
    assert next(line for line in said if line.startswith("Better than the window")).endswith("none.")
    assert not any("Score-CAM" in line for line in said)
