"""What a page shows of single inputs: that it is what was scored, fits its budget, and says no more than it knows."""

import base64
import copy
import io

import numpy as np
import pytest
from PIL import Image

from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report import cards, formatting, gallery, images, matrix, sections, significance, summary
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
    led = np.array([groups["svea"][0].values[name] for name in built.methods])
    led = led - led.mean(axis=0)
    place = list(built.methods).index("good")
    assert signal.shares["svea roe_test"]["good"] == pytest.approx(np.mean(led[place] < led[place][7]))


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
    whole = gallery.packed(found, pictures)
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


def test_an_outline_is_the_edge_of_the_mask():
    mask = np.zeros((5, 7), bool)
    mask[1:4, 2:6] = True
    assert sorted(images.outline(mask).replace("M", " M").split(" M")[1:]) == ["2 1h4", "2 1v3", "2 4h4", "6 1v3"]
    assert images.outline(np.zeros((3, 3), bool)) == ""


def test_where_a_map_is_zero_the_picture_shows_and_where_it_is_most_its_colour():
    picture = np.full((4, 4, 3), 100, np.uint8)
    over = images.overlay(picture, np.repeat([[0, 0, 255, 255]], 4, axis=0).astype(np.uint8), strength=1.0)
    assert (over[:, 0] == 115).all()
    np.testing.assert_array_equal(over[0, 3], images.coloured(np.array([255]))[0].astype(np.uint8))
    with Image.open(io.BytesIO(base64.b64decode(images.webp(over).partition(",")[2]))) as opened:
        assert opened.size == (4, 4)


def test_the_ramp_of_colours_grows_lighter_all_the_way():
    linear = (images.coloured(np.arange(256)) / 255) ** 2.2
    assert (np.diff(linear @ [0.2126, 0.7152, 0.0722]) > -1e-9).all()


def test_inputs_are_chosen_where_methods_are_at_their_ends():
    values = {"a": np.zeros(30), "b": np.zeros(30), "c": np.zeros(30)}
    values["a"][4], values["b"][11], values["own.py:x"] = 9.0, -9.0, np.zeros(30)
    values["own.py:x"][20], values["own.py:x"][25] = 5.0, -5.0
    group = InputScores({"metric": "m"}, list(map(str, range(30))), values)
    assert set(report_examples.choose([group], [], ["a", "b", "c"], 3)) >= {4, 11}
    with_own = report_examples.choose([group], [], ["a", "b", "c", "own.py:x"], 3)
    assert set(with_own) >= {20, 25}
    assert set(with_own) >= set(report_examples.choose([group], [], ["a", "b", "c"], 3))  # others besides, not instead


def test_without_methods_the_first_inputs_are_shown():
    group = InputScores({"metric": "m"}, ["a", "b", "c"], {"random": [1.0, 2.0, 3.0]})
    assert report_examples.choose([group], [], ["unknown"], 2) == [0, 1]


def test_signed_maps_keep_their_zero_and_their_sign():
    found = report_examples.signed(np.array([[0.0, 2.0, -1.0], [0.0, 0.0, 0.0]]))
    assert found.tolist() == [[127, 254, 64], [127, 127, 127]]
    assert report_examples.unsigned(np.array([0.0, 1.0, 2.0, np.nan])).tolist() == [0, 255, 255, 0]


def test_a_card_says_what_the_tests_found(built, judged, results, groups):
    named = Names({"best": "The Best"}, ["twin"])
    found = cards.cards(built, judged, gallery.examples(built, results, groups), named, {"bim": "BIM"})
    assert found[0]["name"] == "twin"  # the user's own first
    best = next(one for one in found if one["name"] == "best")
    assert [rank["rank"] for rank in best["ranks"]] == ["1"] * 4 and best["mean"] == 100
    assert best["sentences"][0].startswith("Best, or tied with the best, on 4 of 4 metrics that name a best method:")
    bad = next(one for one in found if one["name"] == "bad")
    assert bad["sentences"][1].startswith(
        "Does not beat every baseline on any of 4 metrics; not significantly above: SVEA"
    )
    assert "SVEA ROE test % (“random”)" in bad["sentences"][1]
    assert found[0]["missing"] == [("BIM", "too slow")] and found[0]["path"] == "twin"
    assert best["best"]["share"] >= best["worst"]["share"]


def test_the_headline_is_of_ones_own_method_and_else_of_the_controls(built, judged):
    named = Names({"best": "The Best"}, [])
    (text, more) = summary.headline(built, judged, named, [])
    assert text.endswith("and The Best beat every baseline on 3 of 4 metrics, the most of any method") or (
        text == "The Best and good beat every baseline on all 4 metrics"
    )
    assert more == ""
    said, places = summary.headline(built, judged, named, ["bad"])
    assert said == "bad does not beat every baseline on any of 4 metrics"
    assert places.startswith("Best rank: ") and "too few" not in places
    assert summary.headline(built, {}, named, [])[0].startswith("A first look")


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
    """Give methods a map for another class that keeps a share of each input's score."""
    return with_controls(
        groups, lambda name, column: {f"{name}/wrong_class": kept[name] * column} if name in kept else {}
    )


def test_the_headline_crowns_no_method_that_keeps_its_score_for_another_class(documents, groups, columns):
    """SVEA's ROE test alone, where the scores are positive: 0.98 of the best's score is for a wrong class, too."""
    built = matrix.build(documents[:1], columns[:1])
    named = Names({"best": "The Best"}, [])

    def said(**kept):
        judged = significance.compare_columns(built, with_wrong_class(groups, **kept))
        return summary.headline(built, judged, named, []), cards.sentences("best", judged, named)

    every = {"good": 0.3, "twin": 0.9, "bad": 0.9}
    (text, more), sentences = said(best=0.5, **every)
    assert text == "The Best and good beat every baseline on the one metric"
    assert more == "twin does so too, but keeps 90 % of its score for a wrong class."
    assert sentences[1] == "Beats every baseline on the one metric." and len(sentences) == 2
    (text, more), sentences = said(best=0.98, **every)
    assert text == "good beats every baseline on the one metric"
    assert more == "The Best and twin do so too, but keep 90 to 98 % of their score for a wrong class."
    assert sentences[2].startswith(
        "Keeps 98 % of its score for a wrong class on SVEA ROE test %: it does not pass there"
    )
    (text, more), _ = said(best=0.98, **{**every, "good": 0.97})
    assert text == (
        "The Best, good and twin beat every baseline on the one metric, but keep 90 to 98 % of their score for a wrong "
        "class"
    )
    assert more == "Every method that beats all baselines on a metric keeps more than 80 % on one."
    own = Names({}, ["best"])
    judged = significance.compare_columns(built, with_wrong_class(groups, best=0.98, **every))
    assert summary.headline(built, judged, own, ["best"])[0] == (
        "best beats every baseline on the one metric, but keeps 98 % of its score for a wrong class on 1 metric"
    )


def test_a_method_that_leads_by_keeping_its_score_is_named_with_what_it_keeps(documents, groups, columns):
    built = matrix.build(documents, columns)
    scores = {**with_wrong_class(groups, best=0.98), "svea": groups["svea"]}

    def said():
        by_column = significance.compare_columns(built, scores)
        return summary.headline(built, by_column, Names({}, []), [])

    assert said() == (
        "best beats every baseline on all 4 metrics, but keeps 98 % of its score for a wrong class on 2 metrics",
        "Of the methods that do not, good and twin beat every baseline on 2 of 4 metrics, the most. "
        "Not compared with another class: good and twin.",
    )
    (group,) = scores["clevr_xai"]  # too few inputs for a test show what is kept all the same
    few = {name: column[:4] for name, column in group.values.items()}
    scores["clevr_xai"] = [InputScores(group.where, group.inputs[:4], few)]
    assert said()[0] == (
        "best beats every baseline on all 3 metrics with enough inputs, but keeps 98 % of its score for a wrong class "
        "on 2 metrics"
    )


def test_less_of_a_score_is_kept_the_other_way_round_where_less_is_better(documents, groups, columns):
    """Of a Drop of 10 that is 40 for another class a quarter is kept."""
    lifted = copy.deepcopy(documents[:1])
    for row in lifted[0]["rows"]:
        row["value"] = 10.0 if row["metric"] == "drop" else row["value"]
    built = matrix.build(lifted, columns[1:2])
    (group,) = [one for one in groups["svea"] if one.where["metric"] == "drop"]
    flat = {name: np.full(len(group.inputs), 10.0) for name in group.values}
    group = InputScores(group.where, group.inputs, {**flat, "best/wrong_class": 4 * flat["best"]})
    (verdict,) = significance.compare_columns(built, {"svea": [group]}).values()
    assert verdict.wrong_class_share("best") == pytest.approx(0.25)
    assert verdict.wrong_class_share("good") is None


@pytest.mark.parametrize(
    ("number", "word"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_places_have_their_endings(number, word):
    assert formatting.ordinal(number) == word


def test_a_method_that_escaped_the_controls_of_others_has_a_sign_of_its_own(built, groups):
    tested = with_controls(
        groups, lambda name, column: {f"{name}/wrong_class": column - 1} if name in ("best", "bad") else {}
    )
    judged = significance.compare_columns(built, tested)
    roe = judged["svea roe_test"]
    assert roe.untested_controls("best") == [] and roe.untested_controls("good") == ["wrong_class"]
    assert roe.marks("good") == "°" and "°" not in roe.marks("best")
    assert "†" in roe.marks("bad")


def test_several_random_networks_are_one_kind_and_each_must_be_beaten(built, groups):
    """Above every one of them, or not above the kind; a method that was asked fewer of them is told apart."""
    shifts = {"best": (-1, -2, -3), "bad": (-1, 1, 2), "good": (-1,)}

    def under(name, column):
        numbered = enumerate(shifts.get(name, ()), start=1)
        return {f"{name}/random_weights#{number}": column + shift for number, shift in numbered}

    judged = significance.compare_columns(built, with_controls(groups, under))
    roe = judged["svea roe_test"]
    assert roe.failed_kinds("best") == {} and roe.marks("best") == "*"
    assert roe.failed_kinds("bad")["random_weights"] == (2, 3) and "†" in roe.marks("bad")
    assert roe.untested_kinds("good") == {"random_weights": (2, 3)} and roe.marks("good") == "°"
    assert sorted(roe.scores_under_controls("bad", 1.0)["random_weights"]) == pytest.approx([0, 2, 3])
    named = Names({"random_weights": "random nets"}, [])
    assert significance.quoted_kinds(roe.failed_kinds("bad"), named)[-1] == "“random nets” (2 of 3)"
    told = sections.cell_details(built, judged, named)
    of_bad = " | ".join(told["bad"][0])
    assert "its maps under 3 “random nets”" in of_bad
    assert "not significantly above “random nets” (2 of 3): difference -" in of_bad
    of_good = " | ".join(told["good"][0])
    assert "its map under “random nets”: " in of_good
    assert "not tested against its map under “random nets” (2 of 3): too expensive" in of_good
