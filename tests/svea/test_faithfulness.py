"""Drop and Increase: closed forms."""

import numpy as np
import pytest

from svea import faithfulness


def test_what_lies_in_the_window_stays_and_the_rest_is_zero():
    signals = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)
    starts = np.array([0, 10, 28])
    kept = faithfulness.keep_windows(signals, starts)
    assert kept.dtype == np.float32
    for row, start in enumerate(starts):
        np.testing.assert_array_equal(kept[row, start : start + 12], signals[row, start : start + 12])
        assert np.count_nonzero(kept[row]) == 12
    np.testing.assert_array_equal(faithfulness.keep_windows(kept, starts), kept)


@pytest.mark.parametrize(
    ("whole", "kept", "drop", "increase"),
    [(0.8, 0.2, 0.75, False), (0.5, 0.5, 0.0, False), (0.4, 0.9, 0.0, True), (0.9, 0.0, 1.0, False)],
)
def test_drop_and_increase_of_one_signal(whole, kept, drop, increase):
    assert faithfulness.confidence_drop([whole], [kept]) == pytest.approx([drop])
    assert faithfulness.confidence_increase([whole], [kept]).tolist() == [increase]


def test_a_signal_either_drops_or_increases_or_stays():
    generator = np.random.default_rng(1)
    whole, kept = generator.uniform(0.1, 1, 500), generator.random(500)
    drops, increases = faithfulness.confidence_drop(whole, kept), faithfulness.confidence_increase(whole, kept)
    assert ((drops > 0) ^ increases).all()
    assert (0 <= drops).all() and (drops <= 1).all()
