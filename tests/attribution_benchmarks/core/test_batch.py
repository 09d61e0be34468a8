"""Inputs and masks as users have them: bytes, whole numbers, images of black and white."""

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.examples import Examples

INPUTS = np.zeros((2, 3, 3, 1), np.float32)
MASK = np.arange(18).reshape(2, 3, 3) % 2 == 1


@pytest.mark.parametrize(
    "mask", [MASK, MASK.astype(int), MASK.astype(float), 255 * MASK.astype(np.uint8), 255.0 * MASK]
)
def test_masks_of_two_values_become_bool(mask):
    kept = Examples(INPUTS, masks={"object": mask}).masks["object"]
    assert kept.dtype == bool
    np.testing.assert_array_equal(kept, MASK)


@pytest.mark.parametrize(
    "mask", [0.5 * MASK, 2 * MASK, 255 * MASK + (1 - MASK), np.where(MASK, np.nan, 0), MASK.astype(str)]
)
def test_other_masks_are_refused(mask):
    with pytest.raises(BadInput, match="'object'"):
        Examples(INPUTS, masks={"object": mask})


def test_bytes_are_rounded_and_clipped():
    batch = Batch(np.zeros((1, 4), np.uint8), ["0"])
    changed = batch.with_pictures(np.array([[-3.0, 1.5, 2.7, 300.0]]))
    assert changed.dtype == np.uint8
    np.testing.assert_array_equal(changed, [[0, 2, 3, 255]])
