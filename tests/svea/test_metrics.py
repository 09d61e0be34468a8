"""The region of explanation, its test, Drop and Increase: golden values and an independent solver."""

import numpy as np
import pytest
from scipy.optimize import minimize

from attribution.errors import BadInput
from svea import metrics


def peaked(*positions):
    maps = np.zeros((len(positions), 40))
    maps[np.arange(len(positions)), positions] = 1
    return maps


def test_the_window_begins_six_points_before_the_peak_and_stays_inside():
    starts = metrics.region_of_explanation(peaked(0, 5, 6, 7, 20, 33, 34, 35, 39))
    assert starts.tolist() == [0, 0, 0, 1, 14, 27, 28, 28, 28]


def test_every_peak_lies_in_its_window():
    starts = metrics.region_of_explanation(np.eye(40))
    assert ((starts <= np.arange(40)) & (np.arange(40) < starts + metrics.WINDOW)).all()
    assert starts.min() == 0 and starts.max() + metrics.WINDOW == 40


def test_a_channel_axis_changes_nothing():
    maps = np.random.default_rng(0).normal(size=(20, 40))
    np.testing.assert_array_equal(metrics.region_of_explanation(maps), metrics.region_of_explanation(maps[..., None]))


def test_the_sign_counts_and_the_scale_does_not():
    maps = peaked(10) - 5 * peaked(30)
    assert metrics.region_of_explanation(maps).tolist() == metrics.region_of_explanation(3 * maps + 7).tolist() == [4]


def test_the_first_of_equal_peaks_is_taken():
    assert metrics.region_of_explanation(peaked(30) + peaked(12)).tolist() == [6]
    assert metrics.region_of_explanation(np.zeros((1, 40))).tolist() == [0]


def test_all_zero_maps_are_found():
    assert metrics.all_zero(np.concatenate([np.zeros((1, 40)), peaked(0), -peaked(3)])).tolist() == [True, False, False]


@pytest.mark.parametrize("shape", [(3, 39), (3, 40, 2), (40,), (3, 1, 40), (2, 40, 1, 1)])
def test_maps_of_another_shape_are_refused(shape):
    with pytest.raises(BadInput, match=r"one value per point, shape \(40,\) or \(40, 1\)"):
        metrics.region_of_explanation(np.zeros(shape))


def test_windows_are_cut_where_they_begin():
    signals = np.arange(80).reshape(2, 40)
    assert metrics.windows(signals, [0, 28]).tolist() == [list(range(12)), list(range(68, 80))]


def test_the_machines_agree_with_another_solver_of_the_same_problem():
    generator = np.random.default_rng(1)
    centres = generator.normal(size=(3, 12))
    labels = np.repeat(np.arange(3), 40)
    rows = centres[labels] + generator.normal(size=(120, 12))
    test_labels = np.repeat(np.arange(3), 100)
    tests = centres[test_labels] + generator.normal(size=(300, 12))

    def with_one(features):
        return np.concatenate([features, np.ones((len(features), 1))], axis=1)

    def decision(wanted):
        sign = np.where(labels == wanted, 1.0, -1.0)

        def loss(weights):
            slack = np.maximum(0, 1 - sign * (with_one(rows) @ weights))
            return 0.5 * weights @ weights + slack @ slack, weights - 2 * with_one(rows).T @ (sign * slack)

        return with_one(tests) @ minimize(loss, np.zeros(13), jac=True, method="BFGS", options={"gtol": 1e-8}).x

    predicted = np.argmax([decision(wanted) for wanted in range(3)], axis=0)
    found = metrics.linear_svm_correct(rows, labels, tests, test_labels)
    assert 0.5 < found.mean() < 1  # neither hopeless nor trivial
    # Solvers stop at slightly different weights; a row on the border may fall either way.
    assert np.mean(found == (predicted == test_labels)) >= 0.99


def test_what_lies_in_the_window_stays_and_the_rest_is_zero():
    signals = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)
    starts = np.array([0, 10, 28])
    kept = metrics.keep_windows(signals, starts)
    assert kept.dtype == np.float32
    for row, start in enumerate(starts):
        np.testing.assert_array_equal(kept[row, start : start + 12], signals[row, start : start + 12])
        assert np.count_nonzero(kept[row]) == 12
    np.testing.assert_array_equal(metrics.keep_windows(kept, starts), kept)


@pytest.mark.parametrize(
    ("whole", "kept", "drop", "increase"),
    [(0.8, 0.2, 0.75, False), (0.5, 0.5, 0.0, False), (0.4, 0.9, 0.0, True), (0.9, 0.0, 1.0, False)],
)
def test_drop_and_increase_of_one_signal(whole, kept, drop, increase):
    assert metrics.confidence_drop([whole], [kept]) == pytest.approx([drop])
    assert metrics.confidence_increase([whole], [kept]).tolist() == [increase]


def test_a_signal_either_drops_or_increases_or_stays():
    generator = np.random.default_rng(1)
    whole, kept = generator.uniform(0.1, 1, 500), generator.random(500)
    drops, increases = metrics.confidence_drop(whole, kept), metrics.confidence_increase(whole, kept)
    assert ((drops > 0) ^ increases).all()
    assert (0 <= drops).all() and (drops <= 1).all()
