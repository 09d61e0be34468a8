"""Complexity of maps in closed form."""

import numpy as np
import pytest

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY


@pytest.mark.parametrize(
    ("name", "of_equal", "of_one", "of_two"),
    [
        ("sparseness", 0, 15 / 16, (15 * 3 + 13) / 64),
        ("complexity", np.log(16), 0, np.log(4) - 0.75 * np.log(3)),
        ("effective_complexity", 16, 1, 2),
    ],
)
def test_of_equal_values_and_of_one_or_two_that_are_not_0(name, of_equal, of_one, of_two):
    two = np.array([-3.0, 1] + 14 * [0]).reshape(1, 4, 4)
    maps = np.concatenate([np.full((1, 4, 4), 2.0), np.eye(16).reshape(16, 4, 4), two])
    batch = Batch(np.zeros((18, 4, 4, 1)), [*map(str, range(18))])
    found = METRIC_REGISTRY[name].measure.compute(maps, batch, None)[:, 0]
    np.testing.assert_allclose(found, [of_equal] + [of_one] * 16 + [of_two], atol=1e-12)
