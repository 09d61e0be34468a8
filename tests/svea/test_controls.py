"""Controls know the template, a rule, or nothing."""

import dataclasses

import numpy as np
import pytest

from svea import controls, mnist1d, roe


@pytest.fixture(scope="module")
def data():
    return mnist1d.load()


def score(data, control, seed=0):
    starts = [roe.window_starts(control(data.train, seed, 0)), roe.window_starts(control(data.test, seed, 4000))]
    cut = [roe.windows(split.signals, start) for split, start in zip((data.train, data.test), starts, strict=True)]
    return 100 * roe.linear_svm_correct(cut[0], data.train.labels, cut[1], data.test.labels).mean()


def test_the_window_at_the_true_template_holds_all_of_it_but_an_edge(data):
    split = data.test
    starts = roe.window_starts(controls.template_position(split, 0, 0))
    assert (starts <= split.template_first + 1).all()
    assert (starts + roe.WINDOW - 1 >= split.template_last - 1).all()


def test_what_they_score(data):
    scores = {name: round(float(score(data, control)), 1) for name, control in controls.CONTROLS.items()}
    assert scores["template_position"] == 90.2
    assert scores["argmax_abs"] == 61.4
    assert scores["fixed_centre"] == 18.2
    assert 14.5 <= scores["random_window"] <= 19.5  # 17 within two standard errors


def test_the_sign_of_a_signal_does_not_move_its_largest_point(data):
    turned = dataclasses.replace(data.test, signals=-data.test.signals)
    np.testing.assert_array_equal(controls.argmax_abs(turned, 0, 0), controls.argmax_abs(data.test, 0, 0))


def test_every_window_is_equally_likely(data):
    starts = roe.window_starts(controls.random_window(data.train, 0, 0))
    counts = np.bincount(starts, minlength=29)
    chi_square = ((counts - 4000 / 29) ** 2 / (4000 / 29)).sum()
    assert len(counts) == 29 and chi_square < 56.9  # the 99.9th percentile at 28 degrees of freedom


def test_a_signal_keeps_its_random_window_whatever_comes_with_it(data):
    whole = controls.random_window(data.train, 3, 0)
    part = dataclasses.replace(data.train, signals=data.train.signals[100:110])
    np.testing.assert_array_equal(controls.random_window(part, 3, 100), whole[100:110])
    assert (controls.random_window(part, 4, 100) != whole[100:110]).any()


def test_each_has_a_title():
    assert set(controls.TITLES) == {controls.RAW_SIGNAL, *controls.CONTROLS}
