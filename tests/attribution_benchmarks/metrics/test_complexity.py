"""Complexity of maps in closed form."""

import numpy as np
import pytest

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY


@pytest.mark.parametrize(
    ("name", "of_equal", "of_one"),
    [("sparseness", 0, 15 / 16), ("complexity", np.log(16), 0), ("effective_complexity", 16, 1)],
)
def test_of_equal_values_and_of_a_single_one(name, of_equal, of_one):
    maps = np.concatenate([np.full((1, 4, 4), 2.0), np.eye(16).reshape(16, 4, 4)])
    batch = Batch(np.zeros((17, 4, 4, 1)), [*map(str, range(17))])
    found = METRIC_REGISTRY[name].measure.compute(maps, batch, None)[:, 0]
    np.testing.assert_allclose(found, [of_equal] + [of_one] * 16, atol=1e-12)
