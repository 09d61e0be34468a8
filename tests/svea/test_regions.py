"""Regions of explanation as a measure of maps."""

import numpy as np
import pytest

from attribution.errors import BadInput
from svea import mnist1d, regions


def test_a_region_begins_six_points_before_the_peak_and_zero_maps_are_marked():
    maps = np.zeros((3, 40, 1))
    maps[0, 20], maps[1, 39] = 1.0, 2.0
    np.testing.assert_array_equal(regions.region(maps, None, None), [[14, 0], [28, 0], [0, 1]])
    np.testing.assert_array_equal(regions.region(maps[..., 0], None, None), regions.region(maps, None, None))


@pytest.mark.parametrize("shape", [(2, 20), (2, 40, 2), (2, 40, 1, 1)])
def test_maps_of_anything_but_one_value_a_point_are_refused(shape):
    with pytest.raises(BadInput, match="one value per point"):
        regions.region(np.zeros(shape), None, None)


def test_blocks_hold_all_signals_in_order_with_their_truth():
    data = mnist1d.load()
    parts = list(regions.batches(data, 1500))
    batches = [part.load() for part in parts]
    assert [len(batch) for batch in batches] == [1500, 1500, 1500, 500]
    np.testing.assert_array_equal(
        np.concatenate([batch.pictures[..., 0] for batch in batches]),
        np.concatenate([data.train.signals, data.test.signals]),
    )
    assert [name for part in parts for name in part.names] == list(map(str, range(5000)))
    assert parts[0].files[0] == "train_0000" and parts[-1].files[-1] == "test_0999"
