"""Rank correlations, their intervals, and Kendall's W, with SciPy as the oracle."""

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.stats import correlation


@pytest.mark.parametrize("seed", range(5))
def test_spearman_agrees_with_scipy_ties_included(seed):
    first, second = np.random.default_rng(seed).integers(0, 6, size=(2, 25))
    assert correlation.spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)


@pytest.mark.parametrize("first", [[], [1.0], [2.0, 2.0, 2.0]])
def test_spearman_of_nothing_to_order_is_nan(first):
    assert np.isnan(correlation.spearman(first, range(len(first))))


def test_spearman_of_many_rows_is_that_of_each():
    rows = np.random.default_rng(0).integers(0, 5, (50, 7)).astype(float)  # with ties
    rows[3] = 1.0
    values = [3, 1, 4, 1, 5, 9, 2]
    expected = [correlation.spearman(row, values) for row in rows]
    np.testing.assert_array_equal(correlation.spearman(rows, values), expected)
    assert np.isnan(expected[3]) and np.isnan(correlation.spearman(rows, np.ones(7))).all()


@pytest.mark.parametrize(("n", "rho", "of_cluster"), [(20, 0.0, 1), (60, 0.5, 1), (60, 0.9, 1), (120, 0.6, 4)])
def test_intervals_hold_the_truth_nineteen_times_in_twenty(n, rho, of_cluster):
    """Normal pairs, whose Spearman correlation is 6 / pi arcsin(rho / 2); half of a cluster's variance is common."""
    generator, held, trials = np.random.default_rng(1), 0, 300
    true = 6 / np.pi * np.arcsin(rho / 2)
    clusters = np.arange(n) // of_cluster
    for _ in range(trials):
        own, common = generator.standard_normal((2, n, 2))
        pair = np.sqrt(0.5) * (own + common[clusters * of_cluster])
        second = rho * pair[:, 0] + np.sqrt(1 - rho**2) * pair[:, 1]
        one = correlation.spearman_interval(pair[:, 0], second, clusters=clusters)
        held += one.low <= true <= one.high
    assert 0.92 <= held / trials <= 0.98  # two standard errors and a half


def test_clusters_of_copies_count_once():
    generator = np.random.default_rng(2)
    first, second = generator.standard_normal((2, 40))
    alone = correlation.spearman_interval(first, second)
    copied = correlation.spearman_interval(
        np.repeat(first, 5), np.repeat(second, 5), clusters=np.repeat(np.arange(40), 5)
    )
    np.testing.assert_allclose(copied[:3], alone[:3])
    assert (alone.n, copied.n) == (40, 200)


def test_few_inputs_perfect_orders_and_constants_have_no_width_to_tell():
    line = np.arange(9.0)
    assert correlation.spearman_interval(line, line**2)[1:3] == (-1.0, 1.0)  # too few for a bootstrap
    line = np.arange(30.0)
    assert correlation.spearman_interval(line, -line)[:3] == (-1.0, -1.0, -1.0)
    assert np.isnan(correlation.spearman_interval(line, np.ones(30))[:3]).all()
    for alone in (np.where(line == 3, -5, line), 1.0 * (line == 3)):  # without it a perfect order, or a constant
        assert correlation.spearman_interval(line, alone)[1:3] == (-1.0, 1.0)


@pytest.mark.parametrize(("second", "message"), [([1.0, np.nan], "not finite"), ([1.0], "2 values against 1")])
def test_numbers_that_do_not_pair_are_refused(second, message):
    with pytest.raises(ValueError, match=message):
        correlation.spearman_interval([1.0, 2.0], second)
