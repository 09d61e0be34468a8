import numpy as np
import pytest

from attribution_benchmarks.core import input_scores
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from attribution_benchmarks.stats.statistics import compare_pairs
from bim import layout
from bim._table import image_scores, score_rows
from bim.members import Comparison
from bim.scores import METRICS

MINE = Metric("mine", "Share of hits", rate=True)


def compared(metric, number, name):
    return Comparison(metric, number, MapSource(name), np.array([0.25, -0.5]) * (number or 3), np.array([1, 4]), 5, 0)


def test_scores_of_images_are_those_of_the_comparisons(tmp_path):
    comparisons = [compared("mcs", None, name) for name in ("gradient", "mine")]
    comparisons += [compared("rmcs", number, name) for number in (1, 2) for name in ("gradient", "mine")]
    path = tmp_path / "scores.json"
    input_scores.save(path, "bim", image_scores(comparisons))
    groups = input_scores.load(path)
    assert [group.where for group in groups] == [
        {"metric": "mcs"}, {"metric": "rmcs", "scene_model": 1}, {"metric": "rmcs", "scene_model": 2}
    ]  # fmt: skip
    assert groups[0].values == {"gradient": [0.75, -1.5], "mine": [0.75, -1.5]}
    assert groups[2].values["mine"] == [0.5, -1.0] and groups[0].inputs == ["image 1", "image 4"]


def test_images_of_one_number_are_made_of_the_same_objects_and_scenes():
    names = [layout.pair_name(*pair, number) for pair in (("dog", "track"), ("bird", "bedroom")) for number in (901, 9)]
    assert [layout.cluster(f"{name}.jpg") for name in names] == ["0901", "0009", "0901", "0009"]
    assert layout.cluster("holiday.png") == "holiday" and layout.cluster("my-dog.png") == "my-dog"


def test_objects_that_recur_make_the_interval_wider():
    """Twenty numbers, ten objects each on ten scenes: what an object or a scene adds, it adds to ten images."""
    generator = np.random.default_rng(0)
    objects, scenes = generator.normal(size=(2, 20, 10))
    values = 0.1 * (objects[:, :, None] + scenes[:, None, :] + generator.normal(size=(20, 10, 10))).reshape(-1)
    numbers = tuple(f"{number:04d}" for number in np.repeat(np.arange(20), 100))
    widths = []
    for clusters in (None, numbers):
        (row,) = score_rows([Comparison("mcs", None, MapSource("mine"), values, np.arange(2000), 2000, 0, clusters)])
        widths.append(row["high"] - row["low"])
    # Of the mean's variance 1/200 + 1/200 + 1/2000, clusters see all and single images 3/2000.
    assert widths[1] / widths[0] == pytest.approx(np.sqrt(7), rel=0.3)


def test_a_comparison_has_one_p_value_in_the_table_and_among_all_pairs():
    generator = np.random.default_rng(1)
    values = {name: generator.normal(shift, 1, 30) for name, shift in (("random", 0.0), ("a", 0.4), ("b", 0.1))}
    clusters = tuple(f"{number:04d}" for number in generator.integers(20, size=30))
    comparisons = [
        Comparison("mcs", None, MapSource(name), column, np.arange(30), 30, 0, clusters)
        for name, column in values.items()
    ]
    printed = {row["method"]: row.get("p_value") for row in score_rows(comparisons, "random")}
    (group,) = image_scores(comparisons)
    pairs = compare_pairs(group.values, [("a", "b"), ("a", "random"), ("b", "random")], group.clusters)
    assert [printed["a"], printed["b"]] == [pairs[1].p_value, pairs[2].p_value]


def test_interval_of_a_rate_ends_at_its_bound():
    (row,) = score_rows([Comparison("idr", None, MapSource("mine"), np.ones(60), np.arange(60), 60, 0)])
    assert (row["value"], row["high"]) == (1.0, 1.0) and row["low"] == pytest.approx(0.925, abs=0.001)


@pytest.mark.parametrize("metric", [*METRICS.values(), *METRIC_REGISTRY.values(), MINE], ids=lambda metric: metric.name)
@pytest.mark.parametrize("control", ["", "random_weights#1"])
def test_intervals_stay_in_the_range_of_their_metric(metric, control):
    """One input at the end of the range, nine at the other end, where an interval of the mean alone leaves it."""
    low, high = metric.bounds or (0.0, 1.0)
    for rare, usual in ((low, high), (high, low)):
        values = np.nan_to_num(np.array([rare, *[usual] * 9]), posinf=5.0, neginf=-5.0)
        compared = Comparison(metric.name, None, MapSource("mine", control), values, np.arange(10), 10, 0)
        (row,) = score_rows([compared], metrics={metric.name: metric})
        assert low <= row["low"] <= row["value"] <= row["high"] <= high


def test_no_hit_at_all_may_be_some_of_all_images_but_not_fewer_than_none():
    compared = [Comparison(name, None, MapSource("m"), np.zeros(10), np.arange(10), 10, 0) for name in ("idr", "iir")]
    for row in score_rows(compared):
        assert row["value"] == row["low"] == 0 < row["high"] < 0.5
