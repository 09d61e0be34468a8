"""A map that is zero everywhere counts as the map that is the same everywhere, in every benchmark."""

import numpy as np
import pytest

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import PerSampleMetric, of_maps
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY

N = 4


@pytest.fixture
def batch():
    mask = np.zeros((N, 6, 5), bool)
    mask[:, 1:3, 1:4] = True
    pictures = np.random.default_rng(0).random((N, 6, 5, 3)).astype(np.float32)
    return Batch(
        pictures, list(range(N)), np.zeros(N, int), masks={"object": mask}, truth={"weight": np.arange(N) + 1.0}
    )


@pytest.fixture
def maps():
    found = np.random.default_rng(1).normal(size=(N, 6, 5, 3))
    found[[1, 3]] = 0
    return found


def share(maps, batch, scores):
    values = np.abs(maps).sum(axis=3)
    with np.errstate(invalid="ignore"):
        return batch.truth["weight"] * (values * batch.masks["object"]).sum(axis=(1, 2)) / values.sum(axis=(1, 2))


def test_a_metric_that_is_undefined_there_takes_the_uniform_map(batch, maps):
    found = of_maps("share", share).measure.compute(maps, batch, None)[:, 0]
    area = 6 / 30
    np.testing.assert_allclose(found[[1, 3]], [2 * area, 4 * area])  # each with its own truth
    np.testing.assert_array_equal(found[[0, 2]], share(maps, batch, None)[[0, 2]])
    left_out = PerSampleMetric("share", share).compute(maps, batch, None)[:, 0]
    assert np.isnan(left_out).tolist() == [False, True, False, True]


def test_a_metric_that_has_a_value_of_zeros_keeps_it(batch, maps):
    size = of_maps("size", lambda maps, batch, scores: np.abs(maps).sum((1, 2, 3)))
    found = size.measure.compute(maps, batch, None)
    assert found[[1, 3], 0].tolist() == [0, 0] and (found[[0, 2], 0] > 0).all()


def test_nan_for_another_reason_stays(batch, maps):
    nothing = of_maps("nothing", lambda maps, batch, scores: np.full(len(maps), np.nan))
    assert np.isnan(nothing.measure.compute(maps, batch, None)).all()


@pytest.mark.parametrize("name", [name for name, metric in METRIC_REGISTRY.items() if metric.masks])
def test_metrics_of_all_benchmarks_that_look_at_masks(name, batch, maps):
    zeros, ones = (
        METRIC_REGISTRY[name].measure.compute(level(maps), batch, None) for level in (np.zeros_like, np.ones_like)
    )
    np.testing.assert_array_equal(zeros, ones)
    assert np.isfinite(zeros).all()


def test_the_attribution_of_objects(batch, maps):
    from bim.members import OBJECT

    zeros, ones = (OBJECT.function(level(maps), batch, None) for level in (np.zeros_like, np.ones_like))
    np.testing.assert_array_equal(zeros, ones)
