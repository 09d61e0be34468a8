"""The region of explanation and its test: golden positions, an independent solver, the paper's own control."""

import numpy as np
import pytest
from scipy.optimize import minimize

from svea import mnist1d, roe


def peaked(*positions):
    maps = np.zeros((len(positions), 40))
    maps[np.arange(len(positions)), positions] = 1
    return maps


def test_the_window_begins_six_points_before_the_peak_and_stays_inside():
    starts = roe.region_of_explanation(peaked(0, 5, 6, 7, 20, 33, 34, 35, 39))
    assert starts.tolist() == [0, 0, 0, 1, 14, 27, 28, 28, 28]


def test_every_peak_lies_in_its_window():
    starts = roe.window_starts(np.arange(40))
    assert ((starts <= np.arange(40)) & (np.arange(40) < starts + roe.WINDOW)).all()
    assert starts.min() == 0 and starts.max() + roe.WINDOW == 40


def test_a_channel_axis_changes_nothing():
    maps = np.random.default_rng(0).normal(size=(20, 40))
    np.testing.assert_array_equal(roe.region_of_explanation(maps), roe.region_of_explanation(maps[..., None]))


def test_the_sign_counts_and_the_scale_does_not():
    maps = peaked(10) - 5 * peaked(30)
    assert roe.peaks(maps).tolist() == [10]
    assert roe.peaks(3 * maps + 7).tolist() == [10]


def test_the_first_of_equal_peaks_is_taken():
    assert roe.peaks(peaked(30) + peaked(12)).tolist() == [12]
    assert roe.peaks(np.zeros((1, 40))).tolist() == [0]


def test_all_zero_maps_are_found():
    assert roe.all_zero(np.concatenate([np.zeros((1, 40)), peaked(0), -peaked(3)])).tolist() == [True, False, False]


@pytest.mark.parametrize("shape", [(3, 39), (3, 40, 2), (40,), (3, 1, 40)])
def test_maps_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"\(N, 40\) or \(N, 40, 1\) is needed"):
        roe.peaks(np.zeros(shape))


def test_windows_are_cut_where_they_begin():
    signals = np.arange(80).reshape(2, 40)
    assert roe.windows(signals, [0, 28]).tolist() == [list(range(12)), list(range(68, 80))]


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
    found = roe.linear_svm_correct(rows, labels, tests, test_labels)
    assert 0.5 < found.mean() < 1  # neither hopeless nor trivial
    # Solvers stop at slightly different weights; a row on the border may fall either way.
    assert np.mean(found == (predicted == test_labels)) >= 0.99


def test_the_whole_signal_scores_what_the_paper_says():
    data = mnist1d.load()
    correct = roe.linear_svm_correct(data.train.signals, data.train.labels, data.test.signals, data.test.labels)
    assert correct.sum() == 297  # 29.7 %
