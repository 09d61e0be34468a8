"""The matrix shows what the documents say, ranks it, and says why a place is blank."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from attribution_benchmarks.core import registry
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.definition import ORACLE, TRIVIAL_MAX, Benchmark, Column
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.scores import InputScores, stack
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from attribution_benchmarks.report import matrix, presets, publish, significance, summary
from attribution_benchmarks.report.formatting import Names

KEYS = ["svea roe_test", "svea drop", "bim mcs", "clevr_xai mass simple"]


def test_every_value_is_that_of_its_document(built, documents):
    assert [column.key for column in built.columns] == KEYS
    by_benchmark = {document["benchmark"]: document["rows"] for document in documents}
    for column in built.columns:
        for row in filter(column.takes, by_benchmark[column.benchmark]):
            assert built.cells[row["method"], column.key] == row
    assert len(built.cells) == sum(map(len, by_benchmark.values()))


def test_ranks_follow_the_metrics_direction_and_leave_controls_out(built):
    for column in built.columns:
        order = sorted((built.ranks[place], place[0]) for place in built.ranks if place[1] == column.key)
        assert order[0][1] == "best" and order[-1][1] == "bad"
        scores = [built.cells[name, column.key]["value"] for _, name in order]
        assert scores == sorted(scores, reverse=column.higher_is_better)
    assert {name for name, _ in built.ranks} == {"best", "good", "twin", "bad"}
    assert set(built.controls) == {"random", "template_position"}


def test_methods_of_all_columns_come_first_from_best_to_worst(built):
    assert built.common == ("best", "good", "bad")
    assert built.methods == ("best", "good", "bad", "twin")


def test_blanks_have_their_reason(built, documents, columns):
    assert built.blanks == {("twin", "bim mcs"): "too slow"}
    assert matrix.build(documents, columns).blanks == {("twin", "bim mcs"): matrix.NOT_SCORED}
    undefined = copy.deepcopy(documents)
    undefined[1]["rows"][0].update(value=None, reason="no image counts")
    found = matrix.build(undefined, columns)
    assert found.blanks["best", "bim mcs"] == "no image counts"
    assert "best" not in found.common and ("best", "bim mcs") not in found.ranks


def test_what_has_fewer_inputs_than_the_others_is_not_ranked_among_them(documents, columns):
    fewer = copy.deepcopy(documents[:1])
    row = next(row for row in fewer[0]["rows"] if row["method"] == "good" and row["metric"] == "roe_test")
    most = row["n"]
    row["n"] -= 1
    found = matrix.build(fewer, columns)
    assert found.blanks == {("good", KEYS[0]): f"has a value for {most - 1:,} of {most:,} inputs alone"}
    ranked = {name: rank for (name, key), rank in found.ranks.items() if key == KEYS[0]}
    assert sorted(ranked.values()) == [1, 2, 3] and "good" not in ranked and "good" not in found.common


def test_two_rows_of_one_place_are_refused(documents, columns):
    with pytest.raises(ValueError, match="two rows of 'best' belong"):
        matrix.build([*documents, documents[0]], columns)


def test_tests_know_shares_ranks_and_what_passes(judged, groups):
    tests = judged["svea roe_test"]
    assert tests.tied_with_best() == ["best"] and tests.tested[0] == "best" and tests.networks == 1
    values = groups["svea"][0].values
    (baseline,) = tests.against("best")  # the template's position is an oracle, not a baseline
    share = values["random"].mean() / values["best"].mean()
    assert (baseline.kind, baseline.own, baseline.share) == ("random", False, pytest.approx(share))
    assert baseline.low < share < baseline.high < significance.MARGIN
    assert tests.passes("best") and tests.mark("best") == "✓" and tests.failed("best") == []
    assert tests.mark("bad") == "" and [one.kind for one in tests.failed("bad")] == ["random"]
    assert tests.ranks["best"] == (1, 1) and tests.ranks["bad"] == (4, 4)
    assert tests.ranks["good"].low == 2 and tests.ranks["good"].high == 3


def of_methods(own, higher=True, bounds=None, **baselines):
    """Return the tests of one method, "own", against baselines; ``own_x`` is its map under the condition "x"."""
    values = {"own": own, **{name.replace("own_", "own/"): column for name, column in baselines.items()}}
    rows = [
        {"method": name, "metric": "m", "value": float(np.mean(column)), "low": 0, "high": 1, "n": len(own),
         "paper": None, "kind": "method" if name == "own" else "control"}
        for name, column in values.items() if "/" not in name
    ]  # fmt: skip
    built = matrix.build(
        [{"benchmark": "mine", "rows": rows}], [Column("mine", "m", "M", "Mine", higher, bounds=bounds)]
    )
    group = InputScores({"metric": "m"}, [str(place) for place in range(len(own))], values)
    return significance.compare_columns(built, {"mine": [group]})["mine m"]


def test_margin_decides_what_passes():
    """A difference that is certain but small is no claim."""
    generator = np.random.default_rng(0)
    own = generator.normal(1.0, 0.1, 100)
    for share, mark in ((0.5, "✓"), (0.75, "†"), (0.9, ""), (0.99, ""), (1.1, "")):
        tests = of_methods(own, edges=share * own + generator.normal(0, 0.01, 100))
        (found,) = tests.against("own")
        assert found.share == pytest.approx(share, abs=0.01) and tests.mark("own") == mark
        assert (found.low > significance.MARGIN) == (share >= 0.9)  # equivalence is shown
    few = of_methods(own[:9], edges=0.1 * own[:9])
    assert few.mark("own") == "" and not few.has_power()


def of_networks(*arguments, **further):
    """Return the tests of methods that score near 1 on several networks, against a baseline that reaches a share."""
    return scored_on_networks(*arguments, **further)[1]["mine m"]


def scored_on_networks(share, networks, methods=16, spread=0.02, inputs=60, **further):
    generator = np.random.default_rng(networks)
    values = {f"m{n}": generator.normal(1.0, 0.1, (inputs, networks)) + generator.normal(0, spread, networks)
              for n in range(methods)}  # fmt: skip
    values |= {"baseline": share + generator.normal(0, 0.1, (inputs, networks)), **further}
    rows = [
        {"method": name, "metric": "m", "value": float(np.mean(column)), "low": 0, "high": 1, "n": inputs,
         "paper": None, "kind": "control" if name == "baseline" else "method"}
        for name, column in values.items() if "/" not in name
    ]  # fmt: skip
    built = matrix.build([{"benchmark": "mine", "rows": rows}], [Column("mine", "m", "M", "Mine")])
    group = InputScores({"metric": "m"}, [str(place) for place in range(inputs)], values)
    return built, significance.compare_columns(built, {"mine": [group]})


def test_the_lead_that_a_mark_takes_shrinks_with_the_number_of_networks():
    """Where networks hardly differ, K of them show a baseline of 0.8 (0.05 / 16) ** (1 / K) of the score."""
    for networks in (5, 10, 20):
        limit = 0.8 * (0.05 / 16) ** (1 / networks)
        for share, mark in ((limit - 0.06, "✓"), (limit + 0.04, "†"), (0.9, "")):
            tests = of_networks(share, networks, spread=0.001, inputs=400)
            assert {tests.mark(name) for name in tests.tested} == {mark}
    assert {of_networks(0.0, 3).mark(f"m{n}") for n in range(16)} == {"†"}
    tests = of_networks(0.2, 1, m0=np.where(np.arange(60)[:, None] < 20, 1.0, np.nan))
    assert tests.against("m0")[0].inputs == 20 and tests.mark("m0") == "✓"


@pytest.mark.parametrize(("bounds", "mark"), [((0.0, 1.0), "✓"), ((0.0, 100.0), "†"), ((-np.inf, np.inf), "†")])
def test_a_mark_takes_a_bound_of_how_bad_a_score_can_be(bounds, mark):
    """Of a score of which less is better, 0.1 to 0.9: on a network that the sample lacks it could be the greatest."""
    own = 0.1 + np.random.default_rng(0).normal(0, 0.01, (60, 10))
    assert of_methods(own, higher=False, bounds=bounds, edges=own + 0.8).mark("own") == mark


def test_the_range_of_a_rank_is_what_tests_against_all_others_leave():
    tests = of_networks(
        0.2, 5, methods=4, inputs=40, m1=np.full((40, 5), 3.0) + np.random.default_rng(0).normal(size=(40, 5)) / 9
    )
    assert tests.ranks["m1"] == (1, 1) and {tests.ranks[name].low for name in ("m0", "m2", "m3")} == {2}
    assert {tests.ranks[name].high for name in ("m0", "m2", "m3")} == {4}


def test_of_random_networks_of_one_trained_network_the_hardest_to_beat_counts():
    generator = np.random.default_rng(1)
    own = generator.normal(1.0, 0.05, 200)

    def network(level):
        return level + generator.normal(0, 0.05, 200)

    alike = {f"own_random_weights#{place}": network(level) for place, level in enumerate((0.30, 0.35, 0.32, 0.33), 1)}
    unlike = {f"own_random_weights#{place}": network(level) for place, level in enumerate((0.0, 1.3, 0.1, 0.4), 1)}
    tests = of_methods(own, **alike)
    assert tests.mark("own") == "✓" and [one.kind for one in tests.against("own")] == ["random_weights"]
    tests = of_methods(own, **unlike)
    assert tests.mark("own") == "" and tests.against("own")[0].share == pytest.approx(1.3, abs=0.02)


def test_score_that_is_not_positive_passes_nothing():
    generator = np.random.default_rng(2)
    tests = of_methods(generator.normal(-1, 0.1, 50), edges=generator.normal(-3, 0.1, 50))
    assert np.isnan(tests.against("own")[0].share) and tests.mark("own") == ""


def test_method_without_a_comparison_that_others_have_is_not_praised(built, groups):
    group = groups["svea"][0]
    more = replace(group, values={**group.values, "best/wrong_class": 0.1 * group.values["best"]})
    tests = significance.compare_columns(built, {"svea": [more]})["svea roe_test"]
    assert tests.mark("best") == "✓" and tests.strongest("best", "wrong_class").share == pytest.approx(0.1)
    assert tests.not_compared("good") == ["wrong_class"] and tests.mark("good") == "n/a"
    assert tests.mark("bad") == ""  # it fails another baseline


def test_networks_are_averaged_and_widen_the_interval(built, groups):
    further = [
        replace(group, values={name: column + level for name, column in group.values.items()})
        for level in (0.1, -0.2, 0.15)
        for group in groups["svea"][:1]
    ]
    stacked = {"svea": [stack([groups["svea"][0], *further])]}
    found = matrix.over_networks(built, stacked)
    alone, several = (one.cells["best", "svea roe_test"] for one in (built, found))
    assert several["value"] == pytest.approx(alone["value"] + 0.0125)
    assert several["networks"] == pytest.approx([alone["value"] + level for level in (0, 0.1, -0.2, 0.15)])
    assert several["high"] - several["low"] > 3 * (alone["high"] - alone["low"])
    assert found.cells["best", "bim mcs"] == built.cells["best", "bim mcs"]
    tests = significance.compare_columns(found, stacked)["svea roe_test"]
    assert tests.networks == 4 and tests.tied_with_best() == ["best"]  # paired: all methods move together


@pytest.mark.parametrize("name", registry.BENCHMARKS)
def test_means_over_networks_stay_in_the_range_of_their_metric(name):
    for column in presets.columns_of(registry.benchmark_named(name), list(METRIC_REGISTRY.values())):
        low, high = np.nan_to_num(column.bounds, posinf=5.0, neginf=-5.0)
        for rare, usual in ((low, high), (high, low)):
            values = np.full((12, 3), usual)
            values[0] = (rare + usual) / 2, rare, rare
            row = {"method": "mine", "metric": column.metric, **column.where, "value": 0.0, "kind": "method"}
            built = matrix.build([{"benchmark": name, "rows": [row]}], [column])
            group = InputScores({"metric": column.metric, **column.where}, list("abcdefghijkl"), {"mine": values})
            cell = matrix.over_networks(built, {name: [group]}).cells["mine", column.key]
            assert column.bounds[0] <= cell["low"] <= cell["value"] <= cell["high"] <= column.bounds[1]


@pytest.mark.filterwarnings("error")
def test_network_without_a_score_is_missing_from_the_mean(built, groups):
    (group, *_) = groups["svea"]
    nothing = replace(group, values={name: np.full(len(group.inputs), np.nan) for name in group.values})
    found = matrix.over_networks(built, {"svea": [stack([group, nothing])]}).cells["best", "svea roe_test"]
    assert found["value"] == pytest.approx(built.cells["best", "svea roe_test"]["value"])
    assert found["networks"] == pytest.approx([found["value"], np.nan], nan_ok=True)


def test_method_scored_on_fewer_networks_than_others_is_a_blank_of_the_column(built, groups):
    (group, *_) = groups["svea"]
    without_best = replace(group, values={name: column for name, column in group.values.items() if name != "best"})
    stacked = {"svea": [stack([group, without_best])]}
    found = matrix.over_networks(built, stacked)
    place = "best", "svea roe_test"
    assert found.blanks == {**built.blanks, place: "has a value for 1 of 2 networks alone"}
    assert place not in found.cells and place not in found.ranks and "best" in {name for name, _ in found.ranks}
    tested = significance.compare_columns(found, stacked)["svea roe_test"].tested
    assert "best" not in tested and "good" in tested


def test_column_in_which_no_method_has_a_score_makes_no_claims(documents, groups, columns):
    (document,) = [one for one in documents if one["benchmark"] == "svea"]
    rows = [row if row["kind"] == "control" else {**row, "value": None} for row in document["rows"]]
    built = matrix.build([{**document, "rows": rows}], columns)
    tests = significance.compare_columns(built, groups)["svea roe_test"]
    assert not tests.tested and not tests.pairs and not tests.baselines


def test_a_control_set_aside_is_shown_and_tested_by_nobody(documents, groups, columns):
    aside = [replace(column, excluded={"random": TRIVIAL_MAX}) for column in columns]
    found = matrix.build(documents, aside)
    assert ("random", "bim mcs") in found.cells
    by_key = significance.compare_columns(found, groups)
    assert by_key["bim mcs"].against("bad") == by_key["bim mcs"].against("best") == []
    assert by_key["bim mcs"].mark("best") == ""
    rows = [row for row in publish.long_rows(found) if row["method"] == "random"]
    assert {row["aside"] for row in rows} == {"ceiling"}


def test_bounds_and_ceilings_come_from_the_controls_of_a_definition():
    controls = (
        Control("truth", "Truth", oracle=True),
        Control("still", "Still", trivial_max_of=("change",)),
        Control("noise", "Noise"),
    )
    toy = Benchmark("toy", "Toy", metrics=(Metric("change", "Change"), Metric("place", "Place")), controls=controls)
    change, place = toy.matrix_columns()
    assert change.excluded == {"truth": ORACLE, "still": TRIVIAL_MAX} and place.excluded == {"truth": ORACLE}
    chosen = replace(toy, columns=(Column("toy", "change", "Change", "Toy", excluded={"noise": TRIVIAL_MAX}),))
    assert chosen.matrix_columns()[0].excluded == {**change.excluded, "noise": TRIVIAL_MAX}
    aside = {"random": TRIVIAL_MAX, "centre_prior": TRIVIAL_MAX, "ground_truth": ORACLE}
    assert registry.benchmark_named("bim").excluded("iir") == aside


def test_the_share_of_the_headroom_is_0_at_the_best_baseline_and_1_at_the_oracle():
    values = {"mine": 0.7, "edges": 0.5, "random": 0.1, "truth": 0.9, "still": 1.0}
    for better in (True, False):
        rows = [
            {"method": name, "metric": "m", "value": value if better else -value, "low": 0, "high": 1, "n": 9,
             "paper": None, "kind": "method" if name == "mine" else "control"}
            for name, value in values.items()
        ]  # fmt: skip
        column = Column("b", "m", "M", "B", higher_is_better=better, excluded={"truth": ORACLE, "still": TRIVIAL_MAX})
        built = matrix.build([{"benchmark": "b", "rows": rows}], [column])
        shares = {name: built.headroom_share(name, column) for name in values}
        assert shares == pytest.approx({"mine": 0.5, "edges": 0, "random": -1, "truth": 1, "still": 1.25})
        (row,) = [row for row in publish.long_rows(built) if row["method"] == "mine"]
        assert row["headroom_share"] == pytest.approx(0.5)
        told = " ".join(summary.of_score("mine", column, built, None, Names({})))
        assert "50 % of the way from the best baseline to the truth as a map" in told
        without = replace(column, excluded={})
        assert np.isnan(matrix.build([{"benchmark": "b", "rows": rows}], [without]).headroom_share("mine", without))


def test_tests_follow_the_metrics_direction(judged):
    assert list(judged) == KEYS
    for tests in judged.values():
        assert tests.tested[0] == "best" and tests.tested[-1] == "bad"
        assert tests.ranks["best"] == (1, 1)
    drop = judged["svea drop"]
    (baseline,) = drop.against("bad")
    assert np.isnan(baseline.share) and baseline.claim == 1  # of negative scores there is no share


def test_clusters_make_the_tests_of_questions_more_careful(built, groups):
    alone = {"clevr_xai": [replace(group, clusters=None) for group in groups["clevr_xai"]]}
    naive = significance.compare_columns(built, alone)[KEYS[3]]
    honest = significance.compare_columns(built, {"clevr_xai": groups["clevr_xai"]})[KEYS[3]]
    assert [test.difference for test in naive.pairs] == pytest.approx([test.difference for test in honest.pairs])
    assert [test.low for test in naive.pairs] != [test.low for test in honest.pairs]


@pytest.mark.parametrize("share", [0.5, 0.98])
def test_no_method_that_keeps_its_score_for_another_class_passes(share):
    own = np.random.default_rng(100).normal(1.0, 0.1, (60, 1))
    of_wrong_class = {"m0": own, "m0/wrong_class": share * own, "m1/wrong_class": 0.95 * own}
    built, tests = scored_on_networks(0.2, 1, methods=2, **of_wrong_class)
    names = Names({"m0": "The Best", "wrong_class": "wrong class"})
    (one,) = tests.values()
    told, advice = summary.of_method("m0", tests, names), summary.advice(built, tests, names)
    assert one.strongest("m0", "wrong_class").share == pytest.approx(share)
    if share < significance.MARGIN:
        assert one.mark("m0") == "✓" and told[0] == "Beats every baseline (✓) on the one metric."
        assert advice[0] == "The Best beats every baseline (✓) on Mine M."
    else:
        assert one.mark("m0") == "" and told[0].endswith("not on Mine M (“wrong class”).")
        assert told[1] == "Keeps 98 % of its score for a wrong class on Mine M."
        assert advice[0] == "None of these methods beats every baseline (✓) on any metric."
        assert advice[1].startswith(
            "The closest is The Best on Mine M: “wrong class” reaches 98 % of its score (95 % in"
        )


def test_less_of_a_score_is_kept_the_other_way_round_where_less_is_better():
    """Of a score of 10 that is 40 for another class a quarter is kept."""
    near = 10.0 + np.random.default_rng(0).normal(0, 0.1, 100)
    (wrong,) = of_methods(near, higher=False, bounds=(0, 60), own_wrong_class=4 * near[::-1]).against("own")
    assert wrong.share == pytest.approx(0.25) and wrong.claim < 0.001
