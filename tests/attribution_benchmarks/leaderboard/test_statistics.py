"""Laws of the statistics, with SciPy as the independent oracle."""

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.leaderboard import statistics


def bernoulli(n, p, seed=0):
    return np.random.default_rng(seed).random(n) < p


def test_the_value_is_the_mean_and_lies_in_its_interval():
    values = np.random.default_rng(1).exponential(size=300)
    estimate = statistics.mean_interval(values)
    assert estimate.value == pytest.approx(values.mean(), rel=1e-12)
    assert estimate.low < estimate.value < estimate.high
    assert estimate.n == 300


def test_the_interval_of_an_accuracy_is_the_binomial_one():
    values = bernoulli(1000, 0.6)
    estimate = statistics.mean_interval(values, resamples=10000)
    error = np.sqrt(values.mean() * (1 - values.mean()) / 1000)
    assert estimate.low == pytest.approx(values.mean() - 1.96 * error, abs=0.05 * error + 0.5 / 1000)
    assert estimate.high == pytest.approx(values.mean() + 1.96 * error, abs=0.05 * error + 0.5 / 1000)


def test_ninety_five_percent_intervals_cover_the_truth_that_often():
    generator = np.random.default_rng(2)
    covered = 0
    for _ in range(400):
        estimate = statistics.mean_interval(generator.normal(3.0, 2.0, 100), resamples=400)
        covered += estimate.low <= 3.0 <= estimate.high
    # Three standard errors of a share of 0.95 in 400 are 0.033; a percentile bootstrap covers a little less.
    assert 0.91 <= covered / 400 <= 0.985


def test_shift_and_scale_carry_over():
    values = np.random.default_rng(3).normal(size=50)
    plain, moved = statistics.mean_interval(values), statistics.mean_interval(10 * values + 5)
    np.testing.assert_allclose(moved[:3], 10 * np.array(plain[:3]) + 5, rtol=1e-12)


def test_equal_values_leave_no_doubt():
    assert statistics.mean_interval(np.full(20, 7.0)) == (7.0, 7.0, 7.0, 20)


def test_a_wider_confidence_gives_a_wider_interval():
    values = bernoulli(200, 0.3)
    narrow, wide = (statistics.mean_interval(values, confidence=c) for c in (0.8, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_same_seed_same_interval_and_another_seed_another():
    values = np.random.default_rng(4).normal(size=80)
    assert statistics.mean_interval(values, seed=5) == statistics.mean_interval(values, seed=5)
    assert statistics.mean_interval(values, seed=5) != statistics.mean_interval(values, seed=6)


def test_more_inputs_than_fit_into_memory_at_once(monkeypatch):
    monkeypatch.setattr(statistics, "_DRAWS_AT_ONCE", 64)
    values = np.arange(100.0)
    estimate = statistics.mean_interval(values)
    error = values.std() / 10
    assert estimate.low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert estimate.high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)


def test_no_values_give_nan_and_n_zero():
    estimate = statistics.mean_interval([])
    assert estimate.n == 0 and np.isnan(estimate[:3]).all()


def test_a_ratio_of_equal_denominators_is_a_mean():
    values = np.random.default_rng(6).random(60)
    ratio, mean = statistics.ratio_interval(3 * values, np.full(60, 3.0)), statistics.mean_interval(values)
    np.testing.assert_allclose(ratio, mean, rtol=1e-12)


def test_a_ratio_weighs_by_denominator():
    assert statistics.ratio_interval([1, 9], [10, 10]).value == 0.5
    assert statistics.ratio_interval([1, 0], [1, 99]).value == 0.01


def test_clusters_widen_the_interval_where_their_members_agree():
    clusters = bernoulli(50, 0.5, seed=7)
    members = np.repeat(clusters, 20)
    naive = statistics.mean_interval(members)
    honest = statistics.ratio_interval(20 * clusters, np.full(50, 20))
    assert honest.value == pytest.approx(naive.value)
    assert (honest.high - honest.low) / (naive.high - naive.low) == pytest.approx(np.sqrt(20), rel=0.1)


def test_draws_without_denominator_are_left_out():
    estimate = statistics.ratio_interval([1.0, 0.0], [1.0, 0.0])
    assert estimate == (1.0, 1.0, 1.0, 2)
    assert np.isnan(statistics.ratio_interval([0.0], [0.0]).value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.mean_interval([1.0, np.nan]), "1 of values are not finite"),
        (lambda: statistics.mean_interval([[1.0]]), "one number per input"),
        (lambda: statistics.mean_interval([1.0], confidence=95), "between 0 and 1"),
        (lambda: statistics.ratio_interval([1.0], [1.0, 2.0]), "1 numerators, but 2 denominators"),
        (lambda: statistics.ratio_interval([1.0], [-1.0]), "negative"),
        (lambda: statistics.paired_bootstrap([1.0], [1.0, 2.0]), "the same inputs"),
        (lambda: statistics.paired_bootstrap([], []), "no values"),
        (lambda: statistics.spearman([1.0], [1.0, 2.0]), "1 values against 2"),
        (lambda: statistics.mean_interval([1.0], resamples=0), "0 draws of 1 inputs"),
        (lambda: statistics.resampled_means(np.zeros((0, 2))), "draws of 0 inputs"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_method_does_not_differ_from_itself():
    values = bernoulli(100, 0.5)
    assert statistics.paired_bootstrap(values, values) == (0.0, 0.0, 0.0, 1.0, 100)


def test_swapping_the_methods_swaps_the_sign():
    first, second = bernoulli(200, 0.6, 1), bernoulli(200, 0.5, 2)
    there, back = statistics.paired_bootstrap(first, second), statistics.paired_bootstrap(second, first)
    assert there.difference == -back.difference
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p_value == back.p_value


def test_a_plain_difference_has_the_smallest_p_value_there_is():
    values = np.random.default_rng(8).normal(size=100)
    assert statistics.paired_bootstrap(values + 5, values + 0.1 * values, resamples=999).p_value == 1 / 1000


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.1, 0.2])
def test_p_values_agree_with_the_paired_t_test(shift):
    generator = np.random.default_rng(9)
    first = generator.normal(size=300)
    second = first + generator.normal(shift, 1.0, size=300)
    ours = statistics.paired_bootstrap(first, second, resamples=10000).p_value
    assert ours == pytest.approx(stats.ttest_rel(first, second).pvalue, abs=0.02)


def test_pairing_finds_what_the_intervals_hide():
    hard = np.random.default_rng(10).normal(size=200)  # inputs differ far more than the methods do
    better = hard + 0.1 + 0.01 * np.random.default_rng(11).normal(size=200)
    alone = statistics.mean_interval(better), statistics.mean_interval(hard)
    assert alone[0].low < alone[1].high
    assert statistics.paired_bootstrap(better, hard).p_value < 0.01


def test_resampled_means_use_the_draws_of_the_intervals():
    values = np.random.default_rng(12).normal(size=(90, 3))
    means = statistics.resampled_means(values, seed=3)
    assert means.shape == (statistics.RESAMPLES, 3)
    for column in range(3):
        estimate = statistics.mean_interval(values[:, column], seed=3)
        np.testing.assert_allclose(np.quantile(means[:, column], [0.025, 0.975]), estimate[1:3], rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_spearman_and_ranks_agree_with_scipy_ties_included(seed):
    first, second = np.random.default_rng(seed).integers(0, 6, size=(2, 25))
    assert statistics.spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)
    np.testing.assert_array_equal(statistics.average_ranks(first), stats.rankdata(first))


def test_spearman_sees_order_alone():
    values = np.random.default_rng(13).normal(size=30)
    assert statistics.spearman(values, np.exp(values)) == pytest.approx(1.0)
    assert statistics.spearman(values, -(values**3)) == pytest.approx(-1.0)


@pytest.mark.parametrize("first", [[], [1.0], [2.0, 2.0, 2.0]])
def test_spearman_of_nothing_to_order_is_nan(first):
    assert np.isnan(statistics.spearman(first, range(len(first))))
