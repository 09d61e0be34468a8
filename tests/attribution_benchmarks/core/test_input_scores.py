"""Values per input come back as they were, and a damaged file says so."""

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core import input_scores
from attribution_benchmarks.core.input_scores import InputScores


def test_values_come_back_bit_by_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=5)
    values[2] = np.nan
    group = InputScores(
        {"metric": "mass", "questions": "simple"}, ["a", "b", "c", "d", "e"], {"rise": values}, list("xxyyz")
    )
    input_scores.save(tmp_path / "scores.json", "clevr_xai", [group])
    (found,) = input_scores.load(tmp_path / "scores.json")
    assert found.where == group.where and found.inputs == group.inputs and found.clusters == group.clusters
    np.testing.assert_array_equal(found.values["rise"], values)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]


def test_inputs_and_values_must_be_as_many():
    with pytest.raises(ValueError, match="'rise' has 1 values for 2 inputs"):
        InputScores({"metric": "drop"}, ["a", "b"], {"rise": [1.0]})


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"groups": [{"where": {}}]}', '{"groups": 1}'])
def test_a_damaged_file_is_named(content, tmp_path):
    (tmp_path / "scores.json").write_text(content)
    with pytest.raises(BadInput, match=r"scores\.json holds no scores"):
        input_scores.load(tmp_path / "scores.json")


def test_scores_of_several_networks_come_back_and_are_stacked_by_input(tmp_path):
    first = InputScores({"metric": "mass"}, ["a", "b"], {"rise": [1.0, 2.0], "sise": [3.0, 4.0]}, ["x", "y"])
    other = InputScores({"metric": "mass"}, ["b", "c"], {"rise": [5.0, 6.0]}, ["y", "x"])
    found = input_scores.stack([first, other])
    assert found.inputs == ["a", "b", "c"] and found.clusters == ["x", "y", "x"]
    np.testing.assert_array_equal(found.values["rise"], [[1, np.nan], [2, 5], [np.nan, 6]])
    np.testing.assert_array_equal(found.values["sise"], [[3, np.nan], [4, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(input_scores.stack([first]).by_network("rise"), first.by_network("rise"))
    input_scores.save(tmp_path / "scores.json", "clevr_xai", [found])
    (loaded,) = input_scores.load(tmp_path / "scores.json")
    np.testing.assert_array_equal(loaded.by_network("rise"), found.values["rise"])
