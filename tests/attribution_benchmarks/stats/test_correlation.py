"""Rank correlations, their intervals, and Kendall's W, with SciPy as the oracle."""

import itertools

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.stats import correlation


@pytest.mark.parametrize("seed", range(5))
def test_spearman_agrees_with_scipy_ties_included(seed):
    first, second = np.random.default_rng(seed).integers(0, 6, size=(2, 25))
    assert correlation.spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_kendall_counts_pairs_and_a_tie_on_neither_side(seed):
    first, second = np.random.default_rng(seed).integers(0, 6, (2, 12)).astype(float)
    pairs = list(itertools.combinations(range(12), 2))
    signs = np.array([[np.sign(side[i] - side[j]) for i, j in pairs] for side in (first, second)])
    by_hand = (signs[0] * signs[1]).sum() / np.sqrt(np.abs(signs[0]).sum() * np.abs(signs[1]).sum())
    assert correlation.kendall_tau(first, second) == pytest.approx(by_hand, abs=1e-12)
    assert correlation.kendall_tau(first, -first) == pytest.approx(-1.0)
    assert np.isnan(correlation.kendall_tau(first, np.ones(12)))
    with pytest.raises(ValueError, match="12 values against 2"):
        correlation.kendall_tau(first, [1.0, 2.0])


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


def test_the_interval_of_tau_leaves_out_one_family_at_a_time():
    first, noise = np.random.default_rng(5).normal(size=(2, 30))
    second, families = first + noise, np.arange(30) % 10
    kept = [families != one for one in range(10)]
    others = np.array([stats.kendalltau(first[some], second[some]).statistic for some in kept])
    half = stats.t.ppf(0.975, 9) * np.sqrt(0.9 * np.square(others - others.mean()).sum())
    tau = stats.kendalltau(first, second).statistic
    found = correlation.kendall_interval(first, second, families.tolist())
    assert found == pytest.approx((tau, tau - half, tau + half, 30))
    assert correlation.kendall_interval(first, second, (families % 4).tolist())[1:3] == (-1, 1)


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


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("levels", [3, 1000])
def test_w_is_friedmans_statistic_by_judges_and_methods_ties_included(seed, levels):
    scores = np.random.default_rng(seed).integers(0, levels, size=(8, 5)).astype(float)
    friedman = stats.friedmanchisquare(*scores).statistic  # its treatments are the methods
    assert correlation.kendalls_w(scores).w == pytest.approx(friedman / (5 * 7))


def test_the_p_value_is_that_of_all_permutations():
    scores = np.array([[1.0, 1, 2], [2, 3, 1], [3, 2, 3], [4, 4, 4]])
    ranks = np.stack([stats.rankdata(column) for column in scores.T], axis=1)
    observed = (ranks.sum(axis=1) ** 2).sum()
    as_large = [
        ((ranks[:, 0] + ranks[list(second), 1] + ranks[list(third), 2]) ** 2).sum() >= observed - 1e-9
        for second in itertools.permutations(range(4))
        for third in itertools.permutations(range(4))
    ]
    found = correlation.kendalls_w(scores, permutations=20_000)
    exact = np.mean(as_large)
    assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))


def test_p_values_of_rankings_at_random_are_uniform():
    generator = np.random.default_rng(1)
    found = [correlation.kendalls_w(generator.random((6, 3)), permutations=200, seed=i).p_value for i in range(300)]
    assert stats.kstest(found, "uniform").pvalue > 0.001


@pytest.mark.parametrize("scores", [np.ones((5, 3)), np.ones((1, 3)), np.arange(4.0)[:, None], np.zeros((0, 3))])
def test_nothing_to_compare_gives_nan(scores):
    found = correlation.kendalls_w(scores)
    assert np.isnan(found.w) and np.isnan(found.p_value)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="1 of the scores are not finite"):
        correlation.kendalls_w([[1.0, np.nan], [2.0, 3.0]])
    with pytest.raises(ValueError, match="methods, judges"):
        correlation.kendalls_w([1.0, 2.0])


def test_near_duplicates_count_as_one_family():
    generator = np.random.default_rng(3)
    families = np.repeat(np.arange(6), [5, 4, 2, 2, 1, 1])
    kept, ignored = [], []
    for i in range(200):
        scores = generator.normal(size=(6, 3))[families] + 0.1 * generator.normal(size=(15, 3))
        kept.append(correlation.kendalls_w(scores, 199, i, families).p_value <= 0.05)
        ignored.append(correlation.kendalls_w(scores, 199, i).p_value <= 0.05)
    assert np.mean(kept) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200) < np.mean(ignored)


def test_families_of_one_method_change_nothing():
    scores = np.random.default_rng(4).normal(size=(8, 3))
    assert correlation.kendalls_w(scores, families="abcdefgh") == correlation.kendalls_w(scores)
    assert correlation.kendalls_w(scores, families="abcdefgh").families == 8
    assert np.isnan(correlation.kendalls_w(scores, families="aaaaaaaa").p_value)
    with pytest.raises(ValueError, match="3 families for 8 methods"):
        correlation.kendalls_w(scores, families="abc")


def test_the_interval_holds_w_and_needs_five_families():
    generator = np.random.default_rng(6)
    scores = generator.normal(size=(12, 1)) + generator.normal(size=(12, 4))
    found = correlation.kendalls_w(scores)
    assert 0 <= found.low < found.w < found.high <= 1
    assert np.isnan(correlation.kendalls_w(scores, families=np.arange(12) % 4).low)
    perfect = correlation.kendalls_w(np.repeat(np.arange(7.0)[:, None], 3, axis=1))
    assert (perfect.low, perfect.w, perfect.high) == pytest.approx((1, 1, 1))


def test_correlations_use_the_methods_that_both_judges_have():
    scores = np.random.default_rng(2).normal(size=(10, 3))
    scores[:4, 1] = np.nan
    scores[8:, 2] = np.nan
    correlations, counts = correlation.rank_correlations(scores)
    assert counts.tolist() == [[10, 6, 8], [6, 6, 4], [8, 4, 8]]
    assert correlations[0, 1] == pytest.approx(stats.spearmanr(scores[4:, 0], scores[4:, 1]).statistic)
    assert correlations[1, 2] == pytest.approx(stats.spearmanr(scores[4:8, 1], scores[4:8, 2]).statistic)
    np.testing.assert_array_equal(correlations, correlations.T)
    np.testing.assert_allclose(np.diag(correlations), 1.0)
