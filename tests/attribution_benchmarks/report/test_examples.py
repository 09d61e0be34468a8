"""What a page shows of single inputs is what was scored."""

import base64
from dataclasses import replace

import numpy as np

from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.scores import InputScores, Scores
from attribution_benchmarks.report import examples, images


def test_what_was_saved_comes_back(drawn_inputs):
    (one,) = found = report_examples.load(drawn_inputs["bim"])
    first, second = found[0].views
    assert (one.input, one.metrics, first.title, second.facts) == ("input 3", ("mcs",), "network 1", "predicted dog")
    assert list(first.maps) == ["best", "good", "bad"] and not np.array_equal(first.maps["bad"], second.maps["bad"])
    assert first.truth.sum() == 45


def test_an_example_has_its_maps_and_the_scores_of_its_input_and_no_other(report, groups, drawn_inputs):
    found = examples.page_data(report())["gallery"]
    assert [list(one["values"]) for one in found] == [
        ["svea roe_test", "svea drop"], ["bim mcs"], ["clevr_xai mass simple"]
    ]  # fmt: skip
    for key, group in zip(("svea roe_test", "svea drop"), groups["svea"], strict=True):
        scores = {name: round(float(column[7]), 5) for name, column in group.values.items()}
        assert found[0]["values"][key] == scores
    (view,), maps = found[0]["views"], report_examples.load(drawn_inputs["svea"])[0].views[0].maps
    assert base64.b64decode(view["maps"]) == b"".join(maps[name].tobytes() for name in view["methods"])


def test_a_missing_score_is_none(results, report, groups):
    lacking = {name: [np.nan] * len(column) for name, column in groups["bim"][0].values.items()}
    changed = replace(
        results[1],
        scores=Scores(results[1].scores.rows, [InputScores({"metric": "mcs"}, groups["bim"][0].inputs, lacking)]),
    )
    (one,) = examples.page_data(report([changed]))["gallery"]
    assert set(one["values"]["bim mcs"].values()) == {None}


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
