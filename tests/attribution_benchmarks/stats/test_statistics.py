"""Laws of the statistics, with SciPy as the independent oracle."""

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.stats import resampling, statistics


def bernoulli(n, p, seed=0):
    return np.random.default_rng(seed).random(n) < p


def test_the_value_is_the_mean_and_lies_in_its_interval():
    values = np.random.default_rng(1).exponential(size=300)
    estimate = statistics.mean_interval(values)
    assert estimate.value == pytest.approx(values.mean(), rel=1e-12)
    assert estimate.low < estimate.value < estimate.high
    assert estimate.n == 300


def test_the_interval_of_a_rate_is_wilsons():
    for hits, n in ((0, 1), (0, 20), (5, 8), (59, 60), (60, 60), (613, 1000)):
        values = np.arange(n) < hits
        expected = stats.binomtest(hits, n).proportion_ci(method="wilson")
        found = statistics.mean_interval(values)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
        percent = statistics.mean_interval(100.0 * values, rate=100.0)
        np.testing.assert_allclose(percent[:3], 100 * np.array(found[:3]), rtol=1e-12, atol=1e-12)


def test_a_rate_averaged_over_networks_is_a_mean_within_the_rates_bounds():
    values = np.array([100.0] * 28 + [200 / 3, 100 / 3])
    found = statistics.mean_interval(values, rate=100.0)
    assert found[:3] == statistics.mean_interval(values, bounds=(0, 100))[:3] and found.high <= 100


def test_clusters_of_equal_members_are_worth_one_input_each():
    clusters = np.arange(30) < 24
    alone = statistics.mean_interval(clusters)
    honest = statistics.mean_interval(np.repeat(clusters, 9), clusters=np.repeat(np.arange(30), 9))
    assert honest.value == alone.value and honest.n == 270
    # As wide, but for Student's quantile in place of the normal one.
    assert 1 < (honest.high - honest.low) / (alone.high - alone.low) < 1.1
    for rate in (True, False):
        agreed = statistics.mean_interval(np.full(40, rate), clusters=np.repeat(np.arange(10), 4))
        assert agreed.high - agreed.low >= 0.27  # no better than 10 of 10


def test_clusters_of_one_and_of_all_inputs():
    values = bernoulli(50, 0.7)
    assert statistics.mean_interval(values, clusters=np.arange(50)) == statistics.mean_interval(values)
    assert statistics.mean_interval(values, clusters=np.zeros(50))[1:3] == (0, 1)
    assert statistics.mean_interval(1.0 * values, clusters=np.arange(50)) == statistics.mean_interval(1.0 * values)


def test_a_mean_of_normal_values_has_students_interval():
    values = np.random.default_rng(2).normal(3.0, 2.0, 40)
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    found = statistics.mean_interval(values, resamples=20_000)
    width = expected.high - expected.low
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.05 * width)


def test_the_interval_of_a_skewed_mean_reaches_further_where_the_tail_is():
    values = np.random.default_rng(3).lognormal(size=60)
    right, left = statistics.mean_interval(values), statistics.mean_interval(-values)
    assert right.high - right.value > 1.2 * (right.value - right.low)
    assert (left.low, left.high) == pytest.approx((-right.high, -right.low), rel=0.02)


@pytest.mark.parametrize("value", [29.7, 0.1, -1e-7, 1e9 / 3])
@pytest.mark.parametrize("n", [2, 7, 1000])
def test_the_interval_of_a_constant_is_the_constant_in_any_order_of_summation(value, n):
    for values, clusters in ((np.full(n, value), None), (np.full(n, value), np.arange(n) // 3)):
        assert statistics.mean_interval(values, clusters=clusters) == (value, value, value, n)


def test_an_interval_holds_its_value_at_the_end_of_its_bounds():
    found = statistics.mean_interval([0.2, 0.9, 1.0, 1.0, 1.0], bounds=(0.0, 1.0))
    assert found.low < found.value < found.high == 1.0
    assert statistics.mean_interval([1.5, 1.5], bounds=(0.0, 1.0)) == (1.5, 1.5, 1.5, 2)


def test_shift_and_scale_carry_over():
    values = np.random.default_rng(3).normal(size=50)
    plain, moved = statistics.mean_interval(values), statistics.mean_interval(10 * values + 5)
    np.testing.assert_allclose(moved[:3], 10 * np.array(plain[:3]) + 5, rtol=1e-12)


def test_equal_values_leave_no_doubt():
    assert statistics.mean_interval(np.full(20, 7.0)) == (7.0, 7.0, 7.0, 20)


def test_same_seed_same_interval_and_another_seed_another():
    values = np.random.default_rng(4).normal(size=80)
    assert statistics.mean_interval(values, seed=5) == statistics.mean_interval(values, seed=5)
    assert statistics.mean_interval(values, seed=5) != statistics.mean_interval(values, seed=6)


def test_more_inputs_than_fit_into_memory_at_once(monkeypatch):
    values = np.random.default_rng(5).normal(size=97)
    whole = statistics.mean_interval(values)
    monkeypatch.setattr(resampling, "_NUMBERS_AT_ONCE", 640)
    in_parts = statistics.mean_interval(values)
    assert in_parts.value == whole.value
    assert in_parts[1:3] == pytest.approx(whole[1:3], abs=0.02)


def test_no_values_give_nan_and_n_zero():
    estimate = statistics.mean_interval([])
    assert estimate.n == 0 and np.isnan(estimate[:3]).all()


def test_clusters_widen_the_interval_where_their_members_agree():
    members = np.repeat(1.0 * bernoulli(50, 0.5, seed=7), 20) + 1e-9 * np.arange(1000)
    naive = statistics.mean_interval(members)
    honest = statistics.mean_interval(members, clusters=np.repeat(np.arange(50), 20))
    assert honest.value == naive.value
    assert (honest.high - honest.low) / (naive.high - naive.low) == pytest.approx(np.sqrt(20), rel=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.mean_interval([1.0, np.nan]), "1 of values are not finite"),
        (lambda: statistics.mean_interval([[1.0]]), "one number per input"),
        (lambda: statistics.mean_interval([1.0, 2.0], clusters=["a"]), "2 values, but 1 clusters"),
        (lambda: statistics.mean_interval([1.0], resamples=0), "0 draws of 1 inputs"),
        (lambda: statistics.bootstrap_means(np.zeros((0, 2))), "draws of 0 inputs"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_resampled_means_are_means_of_the_same_draws_for_all_columns():
    values = np.random.default_rng(12).normal(size=(90, 3))
    values[:, 2] = values[:, 0] + 5
    means = statistics.bootstrap_means(values, seed=3)
    assert means.shape == (statistics.RESAMPLES, 3)
    np.testing.assert_allclose(means[:, 2], means[:, 0] + 5, rtol=1e-12)
    assert means[:, 1].std() == pytest.approx(values[:, 1].std() / np.sqrt(90), rel=0.06)


def test_columns_with_holes_have_the_intervals_of_their_own_values():
    generator = np.random.default_rng(14)
    values = generator.exponential(size=(60, 3))
    values[20:, 1] = np.nan
    values[:, 2] = np.nan
    ends = statistics.column_intervals(values)
    assert np.isnan(ends[:, 2]).all()
    assert ends[:, 0] == pytest.approx(statistics.mean_interval(values[:, 0])[1:3], rel=1e-12)
    # A draw of all inputs has more or fewer of the 20 known ones.
    assert ends[:, 1] == pytest.approx(statistics.mean_interval(values[:20, 1])[1:3], rel=0.1)
