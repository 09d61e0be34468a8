"""Laws of the many paired tests: they are the single ones, corrected."""

import itertools

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.stats.statistics import better_than_every, compare_pairs, holm


def compare(first, second, clusters=None):
    return compare_pairs({"first": first, "second": second}, [("first", "second")], clusters)[0]


def test_holm_by_hand():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.5]), [0.04, 0.09, 0.09, 0.5])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0] and holm([0.2]).tolist() == [0.2] and holm([]).tolist() == []


@pytest.mark.parametrize("n", [2, 5, 6, 8, 15, 40])
@pytest.mark.parametrize("binary", [False, True])
def test_p_value_and_interval_never_contradict_each_other(n, binary):
    generator = np.random.default_rng(n)
    decided = 0
    for _ in range(40):
        drawn = generator.exponential(size=(4, n)) + generator.normal(size=(4, 1))
        values = dict(zip("abcd", (drawn > 1).astype(float) if binary else drawn, strict=True))
        for clusters in (None, np.arange(n) // 2):
            for test in compare_pairs(values, list(itertools.combinations(values, 2)), clusters):
                assert (test.p_value < 0.05) == (test.low > 0 or test.high < 0), test
                assert test.low <= test.difference <= test.high
                decided += test.p_value < 0.05
    assert decided or n < 6


def test_pair_has_one_p_value_in_every_family():
    generator = np.random.default_rng(1)
    values = {name: generator.normal(shift, 1, 70) for name, shift in (("a", 0.0), ("b", 0.2), ("c", 0.4))}
    clusters = np.arange(70) // 2
    pairs = list(itertools.combinations(values, 2))
    for groups in (None, clusters):
        found = compare_pairs(values, pairs, groups)
        for pair, comparison in zip(pairs, found, strict=True):
            alone = compare(values[pair[0]], values[pair[1]], groups)
            turned = compare(values[pair[1]], values[pair[0]], groups)
            assert comparison[:2] == pair and comparison.n == alone.n == 70
            assert comparison[2:6] == pytest.approx(alone[2:6], abs=1e-12)
            assert turned[2:6] == pytest.approx((-alone.difference, -alone.high, -alone.low, alone.p_value))
        np.testing.assert_allclose([c.p_corrected for c in found], holm([c.p_value for c in found]))


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.1, 0.2])
def test_p_values_agree_with_the_paired_t_test(shift):
    generator = np.random.default_rng(9)
    first = generator.normal(size=300)
    second = first + generator.normal(shift, 1.0, size=300)
    assert compare(first, second).p_value == pytest.approx(stats.ttest_rel(first, second).pvalue, abs=0.01)


def test_what_does_not_pair_is_refused():
    assert compare_pairs({}, []) == compare_pairs({"a": [1.0]}, []) == []
    with pytest.raises(ValueError, match="the same inputs"):
        compare([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="1 values, but 2 clusters"):
        compare_pairs({"a": [1.0], "b": [1.0]}, [("a", "b")], clusters=[1, 2])


def test_better_than_every_is_holm_over_methods_of_the_largest_p_value():
    methods, claims = ["a", "a", "b", "b", "c", "c"], [0.001, 0.02, 0.01, 0.015, 0.03, 1.0]
    # The largest of each are 0.02, 0.015 and 1: Holm makes them 0.045 (b), 0.045 (a) and 1.
    assert better_than_every(methods, claims) == pytest.approx({"a": 0.045, "b": 0.045, "c": 1.0})
    more = better_than_every([*methods, *"abc" * 10], [*claims, *[0.001, 0.001, 0.001] * 10])
    assert more == pytest.approx({"a": 0.045, "b": 0.045, "c": 1.0})  # more baselines cost nothing


def test_scales_test_a_margin():
    generator = np.random.default_rng(5)
    own, other = generator.normal(1.0, 0.2, 80), generator.normal(0.7, 0.2, 80)
    plain = compare(0.8 * own, other)
    (scaled,) = compare_pairs({"own": own, "other": other}, [("own", "other")], scales=[(0.8, 1.0)])
    assert scaled[2:6] == pytest.approx(plain[2:6])
    assert scaled.p_value < 0.05 and scaled.difference == pytest.approx(0.8 * own.mean() - other.mean())


def test_differences_without_variation_count_as_hits():
    hard = np.random.default_rng(6).normal(size=15)
    hits = compare(np.ones(15), np.zeros(15))
    for first, second, size in ((np.full(15, 0.15), np.zeros(15), 0.15), (hard + 0.25, hard, 0.25)):
        found = compare(first, second)
        assert found.p_value == pytest.approx(hits.p_value) and found.low == pytest.approx(size * hits.low)
        assert found.low < 0.7 * size  # other inputs may differ
    assert compare(hard[:4] + 1, hard[:4]).p_value > 0.01
    alone = compare(hard[:1] + 1, hard[:1])
    assert alone.p_value == 1.0 and (alone.low, alone.high) == (-np.inf, np.inf)


def test_networks_that_disagree_on_the_sign_give_no_claim():
    inputs = np.random.default_rng(7).normal(size=(200, 1))
    agree, disagree = (np.array([0.5, 0.6, 0.4, 0.5, 0.5]), np.array([1.5, -0.6, 1.4, -0.9, 1.1]))
    first = inputs + 0.1 * np.random.default_rng(8).normal(size=(200, 5))
    values = {"base": first, "alike": first + agree, "unlike": first + disagree}
    alike, unlike = compare_pairs(values, [("alike", "base"), ("unlike", "base")])
    assert alike.p_value < 0.001 and unlike.p_value > 0.2
    one_network = {name: column[:, 0] for name, column in values.items()}
    noise = np.random.default_rng(9).normal(size=200)
    assert compare(one_network["unlike"] + noise, one_network["base"]).p_value < 0.001  # the network is fixed


def test_inputs_without_a_value_leave_the_pairs_of_that_method_only():
    generator = np.random.default_rng(2)
    values = {name: generator.normal(size=50) for name in "abc"}
    values["c"][:10] = np.nan
    ab, ac = compare_pairs(values, [("a", "b"), ("a", "c")])
    assert (ab.n, ac.n) == (50, 40)
    assert ac.difference == pytest.approx((values["a"] - values["c"])[10:].mean())


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-560, 2.0**500, 2.0**1000])
def test_huge_and_tiny_scores_have_the_tests_of_others(scale):
    generator = np.random.default_rng(3)
    values = {"a": generator.normal(0.2, 1, (15, 3)), "b": generator.normal(size=(15, 3))}
    (plain,) = compare_pairs(values, [("a", "b")])
    (scaled,) = compare_pairs({name: scale * each for name, each in values.items()}, [("a", "b")])
    assert scaled[5:8] == plain[5:8] and scaled.difference == pytest.approx(scale * plain.difference, abs=0)
    assert (scaled.low, scaled.high) == pytest.approx((scale * plain.low, scale * plain.high), abs=0)


def test_clusters_that_agree_count_as_one_input():
    generator = np.random.default_rng(7)
    first, second = generator.normal(0.3, 1, 30), generator.normal(0, 1, 30)
    once = compare_pairs({"a": first, "b": second}, [("a", "b")])[0]
    members = {"a": np.repeat(first, 25), "b": np.repeat(second, 25)}
    honest = compare_pairs(members, [("a", "b")], clusters=np.repeat(np.arange(30), 25))[0]
    naive = compare_pairs(members, [("a", "b")])[0]
    assert honest[2:7] == pytest.approx(once[2:7])
    assert naive.high - naive.low < 0.3 * (honest.high - honest.low)


def test_a_pair_without_common_inputs_stands_aside():
    nothing = [np.nan, np.nan]
    found = compare_pairs({"a": [1.0, 2.0], "b": nothing, "c": [0.0, 0.5]}, [("a", "b"), ("a", "c")])
    assert found[0].n == 0 and np.isnan(found[0].p_corrected) and np.isnan(found[0].difference)
    assert found[1].p_corrected == found[1].p_value
    assert np.isnan(compare_pairs({"a": [], "b": []}, [("a", "b")])[0].p_value)


def test_rates_have_one_difference_of_each_sign_added():
    """Agresti and Min: the variance of the discordant inputs, of n + 2."""
    first, second = np.arange(40) < 30, np.arange(40) < 22
    test = compare(1.0 * first, 1.0 * second)
    differences = np.concatenate([1.0 * first - second, [1.0, -1.0]])
    expected = stats.t.interval(0.95, len(differences) - 1, differences.mean(), stats.sem(differences))
    assert test[3:5] == pytest.approx(expected)
    assert test.difference == 0.2 and test.n == 40
