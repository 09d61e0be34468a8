import numpy as np
import pytest

from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.scores import InputScores, summarised
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from bim import layout
from bim.scores import METRICS

MINE = Metric("mine", "Share of hits", rate=True)


def row_of(metric, values, control="", clusters=None):
    source = MapSource("mine", control)
    names = list(map(str, range(len(values))))
    (row,) = summarised(
        InputScores({"metric": metric.name}, names, {source.name: values}, clusters, sources=[source]), metric
    )
    return row


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
        row = row_of(METRICS["mcs"], values, clusters=clusters)
        widths.append(row["high"] - row["low"])
    # Of the mean's variance 1/200 + 1/200 + 1/2000, clusters see all and single images 3/2000.
    assert widths[1] / widths[0] == pytest.approx(np.sqrt(7), rel=0.3)


def test_interval_of_a_rate_ends_at_its_bound():
    row = row_of(METRICS["idr"], np.ones(60))
    assert (row["value"], row["high"]) == (1.0, 1.0) and row["low"] == pytest.approx(0.925, abs=0.001)


@pytest.mark.parametrize("metric", [*METRICS.values(), *METRIC_REGISTRY.values(), MINE], ids=lambda metric: metric.name)
@pytest.mark.parametrize("control", ["", "random_weights#1"])
def test_intervals_stay_in_the_range_of_their_metric(metric, control):
    """One input at the end of the range, nine at the other end, where an interval of the mean alone leaves it."""
    low, high = metric.bounds or (0.0, 1.0)
    for rare, usual in ((low, high), (high, low)):
        values = np.nan_to_num(np.array([rare, *[usual] * 9]), posinf=5.0, neginf=-5.0)
        row = row_of(metric, values, control)
        assert low <= row["low"] <= row["value"] <= row["high"] <= high


def test_no_hit_at_all_may_be_some_of_all_images_but_not_fewer_than_none():
    for name in ("idr", "iir"):
        row = row_of(METRICS[name], np.zeros(10))
        assert row["value"] == row["low"] == 0 < row["high"] < 0.5
