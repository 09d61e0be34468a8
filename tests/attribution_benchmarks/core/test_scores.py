"""Scores: rows are means of the values behind them, and files come back as they were."""

import csv
import io
import json

import numpy as np
import pandas
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core import scores
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.scores import InputScores, Scores, stack, summarised
from attribution_benchmarks.stats import statistics

MASS = Metric("mass", "Mass", bounds=(0.0, 1.0))
OWN = MapSource("a/b", "random_weights")
INPUTS = list("uvwxyz")


def group_of(values, clusters=None, **options):
    """A group of sources by name; a method's own control is named by its source."""
    sources = [name if isinstance(name, MapSource) else MapSource(name) for name in values]
    named = {source.name: column for source, column in zip(sources, values.values(), strict=True)}
    count = len(next(iter(named.values())))
    return InputScores({"metric": "mass"}, INPUTS[:count], named, clusters, sources=sources, **options)


def test_a_row_is_the_mean_of_the_defined_inputs_with_its_interval():
    values = np.array([0.1, 0.5, np.nan, 0.4, 0.9, 0.2])
    clusters = list("aabbcc")
    (row,) = summarised(group_of({"rise": values}, clusters), MASS, lambda row: {"paper": 0.5})
    known = np.isfinite(values)
    expected = statistics.mean_interval(values[known], clusters=np.array(clusters)[known], bounds=MASS.bounds)
    assert {name: row[name] for name in ("value", "low", "high", "n")} == expected._asdict()
    assert (row["method"], row["kind"], row["undefined"], row["paper"]) == ("rise", "method", 1, 0.5)
    assert row["median"] == np.median(values[known]) and row["std"] == np.std(values[known])
    assert row["p20"], row["p80"] == np.percentile(values[known], [20, 80])


def test_several_networks_are_a_second_factor():
    values = np.random.default_rng(0).uniform(size=(6, 4))
    (row,) = summarised(group_of({"rise": values}), MASS)
    assert {name: row[name] for name in ("value", "low", "high", "n")} == statistics.mean_interval(values)._asdict()
    assert row["networks"] == pytest.approx(values.mean(axis=0).tolist())


def test_random_networks_of_a_method_are_one_row_of_each_inputs_mean():
    values = np.array([[0.0, 1.0, 0.5, 0.5], [1.0, 1.0, 0.0, 0.0]])
    sources = [MapSource("a/b", f"random_weights#{number}") for number in (1, 2)]
    (row,) = summarised(group_of(dict(zip(sources, values, strict=True))), MASS)
    of_means = statistics.mean_interval(values.T, bounds=MASS.bounds)
    assert {name: row[name] for name in ("value", "low", "high", "n")} == of_means._asdict()
    assert (row["method"], row["of"], row["control"]) == (OWN.name, "a/b", "random_weights")
    assert row["networks"] == [0.5, 0.5] and row["kind"] == "control"


def test_a_rate_has_the_interval_of_hits_and_misses():
    hits = np.array([1.0, 0.0, 1.0, 1.0])
    rate = Metric("mass", "Hits", rate=True)
    (row,) = summarised(group_of({OWN: hits}), rate)
    assert row["value"] == 0.75 and row["high"] == statistics.mean_interval(hits, rate=1.0).high


def test_without_values_there_are_no_figures_but_a_reason():
    for source in ("rise", OWN):
        (row,) = summarised(group_of({source: [np.nan] * 3}, facts={"rise": {"reason": "flat"}}), MASS)
        assert row["value"] is row["low"] is row["std"] is None and row["n"] == 0 and row["undefined"] == 3
        assert row["reason"] == ("flat" if source == "rise" else "undefined for every input")


def scored():
    values = np.random.default_rng(0).normal(size=(2, 6))
    values[0, 2] = np.nan
    group = group_of({"rise": values[0], "a/b": values[1], OWN: values[1] / 2}, list("xxyyzz"))
    rows = summarised(group, MASS)
    return Scores(rows, [group], {"rise": "RISE"}, "a table\n", "| a |\n", {"benchmark": "toy", "seed": 0})


def test_the_frame_has_a_row_for_each_value():
    frame = scored().frame
    assert len(frame) == 3 * 6 and set(frame["metric"]) == {"mass"}
    own = frame[(frame.method == "a/b") & (frame.control == "random_weights") & (frame.input == "v")]
    assert own.value.item() == scored().groups[0].values[OWN.name][1] and own.cluster.item() == "x"
    means = frame[frame.control == ""].groupby("method").value.mean()
    assert means["rise"] == pytest.approx(scored().rows[0]["value"])


def test_everything_comes_back_from_a_file(tmp_path):
    first = scored()
    first.save(tmp_path / "a.json")
    found = Scores.load(tmp_path / "a.json")
    assert found.rows == first.rows and found.sources == first.sources and found.titles == first.titles
    assert (found.text, found.markdown, found.manifest) == (first.text, first.markdown, first.manifest)
    pandas.testing.assert_frame_equal(found.frame, first.frame)
    found.save(tmp_path / "b.json")
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text())["benchmark"] == "toy"


def test_other_files_are_for_reading(tmp_path):
    for suffix in (".csv", ".md", ".txt"):
        scored().save(tmp_path / f"a{suffix}")
    assert (tmp_path / "a.txt").read_text() == "a table\n"
    assert (tmp_path / "a.md").read_text().startswith("| a |\n\n```json\n")
    read = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    assert [row["method"] for row in read] == ["rise", "a/b", OWN.name]
    assert float(read[1]["value"]) == scored().rows[1]["value"]
    assert "<table" in scored()._repr_html_() and str(scored()) == "a table\n"


def test_compare_is_the_mean_difference_over_common_inputs():
    found = scored().compare("RISE", "a/b").iloc[0]
    first, second = (np.asarray(scored().groups[0].values[name]) for name in ("rise", "a/b"))
    assert found["difference"] == pytest.approx(np.nanmean(first - second)) and found["n"] == 5
    assert found["low"] < found["difference"] < found["high"]
    assert scored().compare("rise")["method"].tolist() == ["a/b"]  # every other one minus it
    with pytest.raises(BadInput, match="nothing to compare with 'sise'"):
        scored().compare("sise")


def test_inputs_and_values_must_be_as_many():
    with pytest.raises(ValueError, match="'rise' has 1 values for 2 inputs"):
        InputScores({"metric": "drop"}, ["a", "b"], {"rise": [1.0]})


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"groups": [{"where": {}}]}', '{"groups": 1}'])
def test_a_damaged_file_is_named(content, tmp_path):
    (tmp_path / "scores.json").write_text(content)
    with pytest.raises(BadInput, match=r"scores\.json holds no scores"):
        Scores.load(tmp_path / "scores.json")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "scores.json"
    scored().save(path)
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(BadInput, match="no space"):
        Scores().save(path)
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["scores.json"]


def test_networks_are_stacked_by_input():
    first = InputScores({"metric": "mass"}, ["a", "b"], {"rise": [1.0, 2.0], "sise": [3.0, 4.0]}, ["x", "y"])
    other = InputScores({"metric": "mass"}, ["b", "c"], {"rise": [5.0, 6.0]}, ["y", "x"])
    found = stack([first, other])
    assert found.inputs == ["a", "b", "c"] and found.clusters == ["x", "y", "x"]
    np.testing.assert_array_equal(found.values["rise"], [[1, np.nan], [2, 5], [np.nan, 6]])
    np.testing.assert_array_equal(found.values["sise"], [[3, np.nan], [4, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(stack([first]).by_network("rise"), first.by_network("rise"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scores.xlsx", "ends in none of '.json', '.csv', '.md', '.txt', '.parquet'"),
        ("scores", "ends in none of"),
        ("folder.json/scores.csv/below.json", "is a file"),
        ("folder.json", "is a directory"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_any_work(tmp_path, name, message):
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "folder.json" / "scores.csv").touch()
    scores.check_output("")
    with pytest.raises(BadInput, match=message):
        scores.check_output(str(tmp_path / name))
