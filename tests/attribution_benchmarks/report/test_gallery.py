"""What a page shows of single inputs: that it is what was scored, fits its budget, and says no more than it knows."""

import base64
import copy
from dataclasses import replace

import numpy as np
import pytest

from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.report import gallery, images, matrix, sections, significance, summary
from attribution_benchmarks.report.formatting import Names
from attribution_benchmarks.report.results import Result


@pytest.fixture(scope="module")
def results(documents, drawn_inputs):
    return [
        Result(one["benchmark"], one["benchmark"], one["benchmark"], "", one, examples=drawn_inputs[one["benchmark"]])
        for one in documents
    ]


def test_what_was_saved_comes_back(drawn_inputs):
    examples, pictures = report_examples.load(drawn_inputs["bim"])
    (one,), (first, second) = examples, examples[0].views
    assert (one.input, one.metrics, first.title, second.facts) == ("input 3", ("mcs",), "network 1", "predicted dog")
    assert list(first.maps) == ["best", "good", "bad"] and not np.array_equal(first.maps["bad"], second.maps["bad"])
    assert first.truth.sum() == 45 and pictures == []


def test_an_example_has_the_scores_of_its_input_and_no_other(built, results, groups):
    found = gallery.examples(built, results, groups)
    assert [one.columns for one in found] == [("svea roe_test", "svea drop"), ("bim mcs",), ("clevr_xai mass simple",)]
    signal = found[0]
    assert signal.values["svea drop"]["bad"] == groups["svea"][1].values["bad"][7]
    scores = groups["svea"][0].values["good"]
    assert signal.places["svea roe_test"]["good"].worse == np.mean(scores < scores[7])
    drops = groups["svea"][1].values["good"]
    assert signal.places["svea drop"]["good"].worse == np.mean(drops > drops[7])


@pytest.fixture
def ends_of(built, results, tmp_path):
    """Return a function: the best and the worst example of "good", whose first inputs are examples."""

    def found(metric, good, others, shown):
        names = [f"input {place}" for place in range(len(good))]
        view = report_examples.load(results[0].examples)[0][0].views[0]
        examples = [report_examples.Example(name, (metric,), name, (view,)) for name in names[:shown]]
        saved = replace(results[0], examples=report_examples.save(str(tmp_path), examples, []))
        values = {"good": np.array(good, float), "best": np.array(others, float), "bad": np.array(others, float)}
        scores = {"svea": [InputScores({"metric": metric}, names, values)]}
        cards = gallery.cards(built, {}, gallery.examples(built, [saved], scores), Names({}, []), {})
        card = next(one for one in cards if one["name"] == "good")
        return [one and (one["title"], float(one["value"]), one["share"]) for one in (card["best"], card["worst"])]

    return found


@pytest.mark.parametrize("metric", ["roe_test", "drop"])
def test_best_and_worst_shown_are_by_the_methods_own_scores(ends_of, metric):
    sign = -1 if metric == "drop" else 1
    best, worst = ends_of(metric, sign * np.array([2, 9, 4, 3, 5, 6]), sign * np.array([1, 90, 80, 0, 0, 0]), 3)
    assert (best, worst) == (("input 1", sign * 9, 83), ("input 0", sign * 2, 0))


@pytest.mark.parametrize("metric", ["roe_test", "drop"])
@pytest.mark.parametrize("value", [0, 1])
def test_equal_scores_have_no_best_and_no_worst(ends_of, metric, value):
    assert ends_of(metric, [value] * 6, [0, 1, 1, 0, 1, 0], 3) == [None, None]


@pytest.mark.parametrize(
    ("hits", "ends"),
    [
        ([1, 1, 1, 0, 1, 1], [("input 2", 1, 17), None]),  # the shown ones are hits: none is a worst
        ([0, 0, 0, 1, 0, 0], [None, ("input 2", 0, 0)]),
        ([1, 0, 1, 0, 1, 0], [("input 2", 1, 50), ("input 1", 0, 0)]),
    ],
)
def test_of_equal_hits_the_one_that_others_miss_is_the_best_shown(ends_of, hits, ends):
    others = [1, 1, 0, 0, 1, 1]
    if ends[0] is None:  # of equal misses the one that others hit
        others = [0, 0, 1, 1, 0, 0]
    assert ends_of("roe_test", hits, others, 3) == ends


def test_every_score_comes_back_from_two_bytes(built, groups, judged):
    found = gallery.all_scores(built, groups, judged)
    assert [one["column"] for one in found] == [column.key for column in built.columns]
    for one in found:
        column = next(column for column in built.columns if column.key == one["column"])
        numbers = np.frombuffer(base64.b64decode(one["numbers"]), "<u2").reshape(len(one["names"]), -1)
        group = significance.group_of(column, groups)
        wanted = np.array([group.values[name] for name in one["names"]])
        np.testing.assert_allclose(one["low"] + one["step"] * numbers, wanted, atol=np.ptp(wanted) / 60000)
        assert one["rival"] == "random"  # the template's position is a bound and no rival
        of_leads = {(one["names"][first], one["names"][second]): rest for first, second, *rest in one["leads"]}
        pairs = [*judged[column.key].pairs, *judged[column.key].leads]
        assert of_leads.keys() == {(test.first, test.second) for test in pairs}
        assert any(second == "random" for _, second in of_leads)
        for test in pairs:
            assert of_leads[test.first, test.second] == pytest.approx([test.difference, test.low, test.high], abs=1e-5)


def test_a_score_that_does_not_exist_is_none_of_the_numbers(built, groups, judged):
    lacking = {name: [np.nan, *column[1:]] for name, column in groups["bim"][0].values.items()}
    changed = {"bim": [InputScores({"metric": "mcs"}, groups["bim"][0].inputs, lacking)]}
    (one,) = gallery.all_scores(built, changed, judged)
    numbers = np.frombuffer(base64.b64decode(one["numbers"]), "<u2").reshape(len(one["names"]), -1)
    assert (numbers[:, 0] == 65535).all() and (numbers[:, 1:] < 65535).all()


def test_pictures_lose_quality_and_then_examples_fall_away_until_they_fit(built, results, groups):
    found = gallery.examples(built, results, groups)
    pictures = gallery.pictures_of(built, results, groups)
    assert set(pictures) == {"svea roe_test", "svea drop", "clevr_xai mass simple"}
    whole = gallery.packed(found, pictures, 10**9)
    assert len(whole["examples"]) == 3 and len(whole["pictures"]["sets"]) == 2
    size = gallery._size(whole)
    for budget in (size - 1, size // 2, 2000):
        assert gallery._size(gallery.packed(found, pictures, budget)) <= budget


def test_maps_of_a_sheet_are_where_the_page_looks_for_them():
    maps = np.arange(11 * 4 * 6, dtype=np.uint8).reshape(11, 4, 6)
    sheet = images.sheet(maps, 8)
    assert sheet.shape == (8, 48)
    for number in range(11):
        row, column = number // 8 * 4, number % 8 * 6
        np.testing.assert_array_equal(sheet[row : row + 4, column : column + 6], maps[number])


def test_inputs_are_chosen_where_methods_are_at_their_ends():
    values = {"a": np.zeros(30), "b": np.zeros(30), "c": np.zeros(30)}
    values["a"][4], values["b"][11], values["own.py:x"] = 9.0, -9.0, np.zeros(30)
    values["own.py:x"][20], values["own.py:x"][25] = 5.0, -5.0
    group = InputScores({"metric": "m"}, list(map(str, range(30))), values)
    assert set(report_examples.choose([group], [], ["a", "b", "c"], 3)) >= {4, 11}
    with_own = report_examples.choose([group], [], ["a", "b", "c", "own.py:x"], 3)
    assert set(with_own) >= {20, 25}
    assert set(with_own) >= set(report_examples.choose([group], [], ["a", "b", "c"], 3))  # others besides, not instead
    of_two = {name: np.stack([column, column], axis=1) for name, column in values.items()}
    two_networks = InputScores(group.where, group.inputs, of_two)
    one, two = (report_examples.choose([each], [], list(values), 3) for each in (group, two_networks))
    assert one == two


def test_without_methods_the_first_inputs_are_shown():
    group = InputScores({"metric": "m"}, ["a", "b", "c"], {"random": [1.0, 2.0, 3.0]})
    assert report_examples.choose([group], [], ["unknown"], 2) == [0, 1]


def test_signed_maps_keep_their_zero_and_their_sign():
    found = report_examples.signed(np.array([[0.0, 2.0, -1.0], [0.0, 0.0, 0.0]]))
    assert found.tolist() == [[127, 254, 64], [127, 127, 127]]
    assert report_examples.unsigned(np.array([0.0, 1.0, 2.0, np.nan])).tolist() == [0, 255, 255, 0]


def with_controls(groups, under):
    """Add the scores of methods' own maps under control conditions: ``under(name, values)`` -> name -> values."""
    found = {}
    for benchmark, members in groups.items():
        found[benchmark] = []
        for group in members:
            added = {}
            for name, column in group.values.items():
                added |= under(name, np.asarray(column))
            found[benchmark].append(InputScores(group.where, group.inputs, {**group.values, **added}, group.clusters))
    return found


def with_wrong_class(groups, **kept):
    """Give methods a map for another class that keeps a share of each input's score, about."""
    noise = np.random.default_rng(0).normal(1, 0.01, 200)
    return with_controls(
        groups, lambda name, column: {f"{name}/wrong_class": kept[name] * column * noise[: len(column)]}
        if name in kept else {},
    )  # fmt: skip


def test_no_method_that_keeps_its_score_for_another_class_passes(documents, groups, columns):
    """SVEA's ROE test alone, where the scores are positive: 0.98 of the best's score is for a wrong class, too."""
    built = matrix.build(documents[:1], columns[:1])
    named = Names({"best": "The Best", "wrong_class": "wrong class"}, [])

    def said(**kept):
        judged = significance.compare_columns(built, with_wrong_class(groups, **kept))
        told = summary.headline(built, judged, named, [])[0], summary.advice(built, judged, named)
        return *told, gallery.sentences("best", judged, named)

    every = {"good": 0.3, "twin": 0.9, "bad": 0.9}
    text, _, sentences = said(best=0.5, **every)
    assert text == "The Best and good beat every baseline (✓) on the one metric"
    assert sentences[0] == "Beats every baseline (✓) on the one metric." and len(sentences) == 2
    text, advice, sentences = said(best=0.98, **every)
    assert text == "good beats every baseline (✓) on the one metric"
    assert sentences[0].endswith("not on SVEA ROE test % (“wrong class”).")
    assert sentences[1] == "Keeps 98 % of its score for a wrong class on SVEA ROE test %."
    assert advice[-1].startswith("The Best, twin and bad keep 90 to 98 % of their score for a wrong class on")
    text, advice, _ = said(best=0.98, **{**every, "good": 0.97})
    assert text == "No method beats every baseline (✓) on any metric"
    first, closest = advice
    assert first == "None of these methods beats every baseline (✓) on any metric."
    assert closest.startswith(
        "The closest is twin on SVEA ROE test %: “wrong class” reaches 90 % of its score (95 % inter"
    )


def test_less_of_a_score_is_kept_the_other_way_round_where_less_is_better(documents, groups, columns):
    """Of a Drop of 10 that is 40 for another class a quarter is kept."""
    lifted = copy.deepcopy(documents[:1])
    for row in lifted[0]["rows"]:
        row["value"] = 10.0 if row["metric"] == "drop" else row["value"]
    built = matrix.build(lifted, columns[1:2])
    (group,) = [one for one in groups["svea"] if one.where["metric"] == "drop"]
    near = 10.0 + np.random.default_rng(0).normal(0, 0.1, len(group.inputs))
    flat = dict.fromkeys(group.values, near)
    group = InputScores(group.where, group.inputs, {**flat, "best/wrong_class": 4 * near[::-1]})
    (tests,) = significance.compare_columns(built, {"svea": [group]}).values()
    wrong = tests.wrong_class("best")
    assert wrong.share == pytest.approx(0.25) and wrong.claim < 0.001
    assert tests.wrong_class("good") is None


def test_several_random_networks_are_one_kind(built, groups):
    shifts = {"best": (-0.7, -0.71, -0.72), "bad": (-0.1, 1, 2)}
    noise = np.random.default_rng(0).normal(0, 0.01, 200)

    def under(name, column):
        numbered = enumerate(shifts.get(name, ()), start=1)
        return {f"{name}/random_weights#{number}": column + shift + noise[: len(column)] for number, shift in numbered}

    judged = significance.compare_columns(built, with_controls(groups, under))
    roe = judged["svea roe_test"]
    assert [one.kind for one in roe.against("best")] == ["random", "random_weights"]
    assert roe.mark("best") == "✓" and roe.mark("bad") == "" and roe.mark("good") == "n/a"
    assert roe.not_compared("good") == ["random_weights"]
    named = Names({"random_weights": "random nets"}, [])
    told = sections.cell_details(built, judged, named)
    of_best, of_bad, of_good = (" | ".join(told[name][0]) for name in ("best", "bad", "good"))
    assert "“random nets” reaches " in of_best and "beats every baseline: each reaches at most 80 %" in of_best
    assert "“random nets” reaches " in of_bad and "not beaten by the margin" in of_bad
    assert "not compared with its map under “random nets”: too expensive" in of_good
    lines = sections.kept_lines(built, judged, named)
    (of_random,) = [line for line in lines if line["title"] == "best" and line["kind"] == "random nets"]
    assert of_random["cells"][0]["text"] == f"{100 * roe.against('best')[1].share:.0f} %"
    assert any(line["kind"] == "best map without a network" for line in lines)
