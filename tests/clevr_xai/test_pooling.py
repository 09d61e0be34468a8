"""The ten poolings against their closed forms, and what must hold between them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attribution.errors import BadInput
from clevr_xai.metrics import POOLINGS, pool

# One pixel of three relevances, by hand: sum -1, positive part 2 + 1.
BY_HAND = {
    "sum,abs": 1.0,
    "sum,pos": 0.0,
    "l1-norm": 7.0,
    "max-norm": 4.0,
    "l2-norm": 21**0.5,
    "l2-norm,sq": 21.0,
    "pos,sum": 3.0,
    "pos,max-norm": 2.0,
    "pos,l2-norm": 5**0.5,
    "pos,l2-norm,sq": 5.0,
}
MAPS = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    elements=st.floats(-1000, 1000, width=32),
)


def test_one_pixel_by_hand():
    assert list(POOLINGS) == list(BY_HAND)
    for name, pooling in POOLINGS.items():
        pooled = pooling(np.array([2.0, -4.0, 1.0], np.float32).reshape(1, 1, 1, 3))
        assert pooled.shape == (1, 1, 1) and pooled.dtype == np.float64
        assert pooled[0, 0, 0] == BY_HAND[name], name


@given(MAPS)
def test_the_laws_between_poolings(maps):
    pooled = pool(maps)
    assert all((values >= 0).all() for values in pooled.values())
    magnitude = pool(np.abs(maps))
    for name in ("l1-norm", "max-norm", "l2-norm", "l2-norm,sq"):  # blind to signs
        np.testing.assert_array_equal(pooled[name], magnitude[name])
    positive = pool(np.maximum(maps, 0))
    for name in ("pos,sum", "pos,max-norm", "pos,l2-norm", "pos,l2-norm,sq"):  # blind to what is negative
        np.testing.assert_array_equal(pooled[name], positive[name])
        np.testing.assert_array_equal(pooled[name], positive[{"pos,sum": "l1-norm"}.get(name, name[4:])])
    np.testing.assert_allclose(pooled["l2-norm"] ** 2, pooled["l2-norm,sq"], rtol=1e-12)
    slack = 1e-9 * pooled["l1-norm"]
    assert (pooled["max-norm"] <= pooled["l2-norm"] + slack).all()
    assert (pooled["l2-norm"] <= pooled["l1-norm"] + slack).all()
    assert (pooled["sum,pos"] <= pooled["sum,abs"]).all()
    assert (pooled["sum,pos"] <= pooled["pos,sum"] + slack).all()
    for name, pooling in POOLINGS.items():
        np.testing.assert_array_equal(pooling(maps), pooled[name])


def test_a_map_without_channels_has_one():
    maps = np.random.default_rng(0).normal(size=(2, 5, 4))
    for name, pooled in pool(maps).items():
        np.testing.assert_array_equal(pooled, POOLINGS[name](maps[..., None]))


def test_what_is_returned_cannot_be_written_to():
    maps = np.ones((1, 2, 2))
    for pooled in pool(maps).values():
        with pytest.raises(ValueError, match="read-only"):
            pooled[0] = 7
    assert (maps == 1).all()


def test_bad_maps_and_names_are_refused():
    with pytest.raises(BadInput, match="no pooling 'l3-norm'; the poolings are 'sum,abs', 'sum,pos'"):
        pool(np.zeros((1, 2, 2, 3)), ["l3-norm"])
    with pytest.raises(BadInput, match=r"float64 of shape \(2, 2\); numbers of shape \(N, H, W, C\)"):
        pool(np.zeros((2, 2)))
    with pytest.raises(BadInput, match="maps are <U1"):
        pool(np.full((1, 2, 2), "x"))
