"""A map's numbers and how they are kept."""

import numpy as np
import pytest

from attribution_benchmarks.core.batch import Batch, MapSource
from clevr_xai.metrics import ACCURACIES, HEADING, METRICS, POOLINGS, path_gap, relevance_accuracy, score_maps


def test_every_pooling_under_every_metric_and_mask():
    generator = np.random.default_rng(0)
    maps = generator.normal(size=(4, 9, 8, 3))
    masks = {"first": generator.random((4, 9, 8)) < 0.3, "second": np.zeros((4, 9, 8), bool)}
    scores = score_maps(maps, masks)
    assert scores.shape == (4, 2, 2, 10) and np.isnan(scores[:, 1]).all()
    for place, pooling in enumerate(POOLINGS.values()):
        for number, metric in enumerate(METRICS.values()):
            np.testing.assert_array_equal(scores[:, 0, number, place], metric(pooling(maps), masks["first"]))
    assert set(HEADING) == set(METRICS) == set(ACCURACIES) and set(HEADING.values()) <= set(POOLINGS)
    # The order of the numbers does not depend on the order of the batch.
    batch = Batch(maps, range(4), masks=dict(reversed(masks.items())))
    measure = relevance_accuracy(["first", "second"])
    np.testing.assert_array_equal(measure.function(maps, batch, None), scores.reshape(4, -1))


def test_a_record_keeps_nine_digits_and_what_is_undefined():
    numbers = np.array([np.nan, 1 / 3, 2 / 3, 1e-7 / 3, *range(16)])
    measure, whole = relevance_accuracy(["one"]), relevance_accuracy(["one"], digits=None)
    (record,) = measure.to_records(numbers[None])
    found = measure.from_record(record)
    np.testing.assert_allclose(found, numbers, rtol=5e-9)
    assert measure.to_records(found[None]) == [record]
    with pytest.raises(ValueError, match="20 numbers in place of 40"):
        relevance_accuracy(["one", "two"]).from_record(record)
    np.testing.assert_array_equal(whole.from_record(whole.to_records(numbers[None])[0]), numbers)


def test_the_gap_of_a_path_in_closed_form():
    """A linear score, of which the map is exact for the path from black and misses for any other."""
    generator = np.random.default_rng(1)
    images, weights = generator.random((3, 4, 5, 3)), generator.normal(size=(4, 5, 3))
    batch = Batch({"image": images, "question": np.zeros((3, 2))}, range(3), np.array([1, 1, 0]), explained="image")

    def scores(inputs):
        return np.stack([np.zeros(3), (inputs["image"] * weights).sum(axis=(1, 2, 3))], axis=1)

    found = path_gap("integrated_gradients", 0.0).function(images * weights, batch, scores)
    np.testing.assert_allclose(found[:2], 0, atol=1e-6)
    assert np.isnan(found[2])  # a score that does not change has no share to miss
    twice = path_gap("integrated_gradients", 0.0).function(2 * images * weights, batch, scores)
    np.testing.assert_allclose(twice[:2], 1, rtol=1e-6)
    assert (path_gap("integrated_gradients", "median").function(images * weights, batch, scores)[:2] > 0.01).all()


def test_the_gap_is_of_integrated_gradients_as_asked_alone():
    measure = path_gap("integrated_gradients", 0.0)
    assert measure.applies_to(MapSource("integrated_gradients"))
    for other in (
        MapSource("gradient"),
        MapSource("integrated_gradients_gray"),
        MapSource("integrated_gradients", "wrong_class"),
        MapSource(control="uniform"),
    ):
        assert not measure.applies_to(other)
