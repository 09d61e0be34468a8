"""Laws of Kendall's W and of rank correlations, with SciPy's Friedman test as the oracle."""

import itertools

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.stats import agreement


def test_judges_of_one_mind_have_w_one_and_the_smallest_p_value():
    found = agreement.kendalls_w(np.repeat(np.arange(7.0)[:, None], 4, axis=1), permutations=999)
    assert found.w == pytest.approx(1.0)
    assert found.p_value == 1 / 1000
    assert (found.judges, found.methods) == (4, 7)


def test_two_judges_who_contradict_each_other_have_w_zero():
    first = np.arange(6.0)
    found = agreement.kendalls_w(np.stack([first, -first], axis=1))
    assert found.w == pytest.approx(0.0)
    assert found.p_value == 1.0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("levels", [3, 1000])
def test_w_is_friedmans_statistic_by_judges_and_methods_ties_included(seed, levels):
    scores = np.random.default_rng(seed).integers(0, levels, size=(8, 5)).astype(float)
    friedman = stats.friedmanchisquare(*scores).statistic  # its treatments are the methods
    assert agreement.kendalls_w(scores).w == pytest.approx(friedman / (5 * 7))


def test_two_judges_without_ties_have_half_of_spearman_and_one():
    scores = np.random.default_rng(3).normal(size=(9, 2))
    rho = stats.spearmanr(*scores.T).statistic
    assert agreement.kendalls_w(scores).w == pytest.approx((1 + rho) / 2)


def test_the_p_value_is_that_of_all_permutations():
    scores = np.array([[1.0, 1, 2], [2, 3, 1], [3, 2, 3], [4, 4, 4]])
    ranks = np.stack([stats.rankdata(column) for column in scores.T], axis=1)
    observed = (ranks.sum(axis=1) ** 2).sum()
    as_large = [
        ((ranks[:, 0] + ranks[list(second), 1] + ranks[list(third), 2]) ** 2).sum() >= observed - 1e-9
        for second in itertools.permutations(range(4))
        for third in itertools.permutations(range(4))
    ]
    found = agreement.kendalls_w(scores, permutations=20_000)
    exact = np.mean(as_large)
    assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))


def test_p_values_of_rankings_at_random_are_uniform():
    generator = np.random.default_rng(1)
    found = [agreement.kendalls_w(generator.random((6, 3)), permutations=200, seed=i).p_value for i in range(300)]
    assert stats.kstest(found, "uniform").pvalue > 0.001


def test_order_alone_counts():
    scores = np.random.default_rng(5).random((6, 3))
    assert agreement.kendalls_w(scores) == agreement.kendalls_w(np.exp(5 * scores) * [1, 100, 7])


@pytest.mark.parametrize("scores", [np.ones((5, 3)), np.ones((1, 3)), np.arange(4.0)[:, None], np.zeros((0, 3))])
def test_nothing_to_compare_gives_nan(scores):
    found = agreement.kendalls_w(scores)
    assert np.isnan(found.w) and np.isnan(found.p_value)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="1 of the scores are not finite"):
        agreement.kendalls_w([[1.0, np.nan], [2.0, 3.0]])
    with pytest.raises(ValueError, match="methods, judges"):
        agreement.kendalls_w([1.0, 2.0])


def test_near_duplicates_count_as_one_family():
    generator = np.random.default_rng(3)
    families = np.repeat(np.arange(6), [5, 4, 2, 2, 1, 1])
    kept, ignored = [], []
    for i in range(200):
        scores = generator.normal(size=(6, 3))[families] + 0.1 * generator.normal(size=(15, 3))
        kept.append(agreement.kendalls_w(scores, 199, i, families).p_value <= 0.05)
        ignored.append(agreement.kendalls_w(scores, 199, i).p_value <= 0.05)
    assert np.mean(kept) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200) < np.mean(ignored)


def test_families_of_one_method_change_nothing():
    scores = np.random.default_rng(4).normal(size=(8, 3))
    assert agreement.kendalls_w(scores, families="abcdefgh") == agreement.kendalls_w(scores)
    assert agreement.kendalls_w(scores, families="abcdefgh").families == 8
    assert np.isnan(agreement.kendalls_w(scores, families="aaaaaaaa").p_value)
    with pytest.raises(ValueError, match="3 families for 8 methods"):
        agreement.kendalls_w(scores, families="abc")


def test_the_interval_holds_w_and_needs_five_families():
    generator = np.random.default_rng(6)
    scores = generator.normal(size=(12, 1)) + generator.normal(size=(12, 4))
    found = agreement.kendalls_w(scores)
    assert 0 <= found.low < found.w < found.high <= 1
    assert np.isnan(agreement.kendalls_w(scores, families=np.arange(12) % 4).low)
    perfect = agreement.kendalls_w(np.repeat(np.arange(7.0)[:, None], 3, axis=1))
    assert (perfect.low, perfect.w, perfect.high) == pytest.approx((1, 1, 1))


def test_correlations_use_the_methods_that_both_judges_have():
    scores = np.random.default_rng(2).normal(size=(10, 3))
    scores[:4, 1] = np.nan
    scores[8:, 2] = np.nan
    correlations, counts = agreement.rank_correlations(scores)
    assert counts.tolist() == [[10, 6, 8], [6, 6, 4], [8, 4, 8]]
    assert correlations[0, 1] == pytest.approx(stats.spearmanr(scores[4:, 0], scores[4:, 1]).statistic)
    assert correlations[1, 2] == pytest.approx(stats.spearmanr(scores[4:8, 1], scores[4:8, 2]).statistic)
    np.testing.assert_array_equal(correlations, correlations.T)
    np.testing.assert_allclose(np.diag(correlations), 1.0)


def test_two_shared_methods_are_too_few_for_a_correlation():
    correlations, counts = agreement.rank_correlations([[1, 2], [2, 3], [3, np.nan]])
    assert counts[0, 1] == 2 and np.isnan(correlations[0, 1])
