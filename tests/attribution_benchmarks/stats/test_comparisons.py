"""Laws of the many paired tests: they are the single ones, corrected."""

import itertools

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.stats import comparisons, resampling, statistics
from attribution_benchmarks.stats.comparisons import PairComparison, better_than_every, compare, compare_pairs, holm


def test_holm_by_hand():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.5]), [0.04, 0.09, 0.09, 0.5])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]


def test_holm_lies_between_no_correction_and_bonferroni_and_keeps_the_order():
    p_values = np.random.default_rng(0).random(40) ** 3
    corrected = holm(p_values)
    assert (corrected >= p_values).all() and (corrected <= np.minimum(1, 40 * p_values) + 1e-15).all()
    assert (np.diff(corrected[np.argsort(p_values)]) >= 0).all()


def test_holm_of_one_and_of_none():
    assert holm([0.2]).tolist() == [0.2]
    assert holm([]).tolist() == []


@pytest.mark.parametrize("n", [3, 6, 9, 12])
def test_of_symmetric_differences_the_p_value_is_that_of_all_flipped_signs(n):
    """SciPy flips all signs; values and their negatives in pairs have a bootstrap-t that is milder still."""
    generator = np.random.default_rng(n)
    differences = generator.normal(0.8, 1, n)
    expected = stats.permutation_test(
        (differences, np.zeros(n)), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    ).pvalue
    flipped = resampling.subset_means(differences[:, None], np.ones((n, 1)), 2**n)
    assert len(flipped) == 2**n - 1
    sides = [np.mean([True, *(sign * flipped[:, 0] <= 0)]) for sign in (1, -1)]
    assert 2 * min(sides) == pytest.approx(expected)
    found = compare(differences, np.zeros(n))
    assert found.p_value >= min(expected, 1.0) - 1e-12


def by_signs(differences):
    n = len(differences)
    flipped = resampling.subset_means(differences[:, None], np.ones((n, 1)), comparisons.DRAWS)
    return 2 * (np.count_nonzero(flipped <= 0) + 1) / (len(flipped) + 1)


def test_flipped_signs_decide_of_few_inputs_and_the_bootstrap_t_of_skewed_ones():
    few = np.random.default_rng(17).normal(1.5, 1.0, 7)
    assert compare(few, np.zeros(7)).p_value == by_signs(few)
    skewed = np.random.default_rng(17).lognormal(size=60)
    skewed = np.mean(skewed) - skewed + 0.45  # the mean is 0.45, and rare large losses pull at it
    assert compare(skewed, np.zeros(60)).p_value > 2 * by_signs(skewed)


@pytest.mark.parametrize("n", [2, 5, 6, 8, 15, 40])
@pytest.mark.parametrize("binary", [False, True])
def test_p_value_and_interval_never_contradict_each_other(n, binary):
    generator = np.random.default_rng(n)
    decided = 0
    for _ in range(40):
        drawn = generator.exponential(size=(4, n)) + generator.normal(size=(4, 1))
        values = dict(zip("abcd", (drawn > 1).astype(float) if binary else drawn, strict=True))
        for clusters in (None, np.arange(n) // 2):
            for test in compare_pairs(values, list(itertools.combinations(values, 2)), clusters, draws=999):
                assert (test.p_value < 0.05) == (test.low > 0 or test.high < 0), test
                assert test.low <= test.difference <= test.high
                decided += test.p_value < 0.05
    assert decided or n < 6


def test_a_pair_has_one_p_value_wherever_it_is_asked_for():
    generator = np.random.default_rng(1)
    values = {name: generator.normal(shift, 1, 70) for name, shift in (("a", 0.0), ("b", 0.2), ("c", 0.4))}
    clusters = np.arange(70) // 2
    pairs = list(itertools.combinations(values, 2))
    for groups in (None, clusters):
        found = compare_pairs(values, pairs, groups, seed=3)
        for pair, comparison in zip(pairs, found, strict=True):
            alone = compare(values[pair[0]], values[pair[1]], groups, seed=3)
            turned = compare(values[pair[1]], values[pair[0]], groups, seed=3)
            assert comparison[:2] == pair and comparison.n == alone.n == 70
            assert comparison[2:6] == pytest.approx(alone[2:6], abs=1e-12)
            assert turned[2:6] == pytest.approx((-alone.difference, -alone.high, -alone.low, alone.p_value))
        np.testing.assert_allclose([c.p_corrected for c in found], holm([c.p_value for c in found]))


@pytest.mark.parametrize("kind", ["independent", "clusters", "unequal clusters", "rounded", "skewed"])
def test_methods_that_share_their_products_have_the_tests_of_single_pairs(kind, monkeypatch):
    generator = np.random.default_rng(4)
    drawn = generator.normal(size=(120, 1)) + generator.normal(size=(120, 7)) + np.linspace(0, 0.3, 7)
    drawn = np.round(drawn) if kind == "rounded" else np.exp(drawn) if kind == "skewed" else drawn
    drawn[:, 5] = drawn[:, 4] + 1e-9 * generator.normal(size=120)  # too close for differences of sums
    drawn[:4, 6] = np.nan
    values = dict(zip("abcdefg", drawn.T, strict=True))
    clusters = {"clusters": np.arange(120) // 2, "unequal clusters": generator.integers(40, size=120)}.get(kind)
    pairs = list(itertools.combinations(values, 2))
    single = compare_pairs(values, pairs, clusters, draws=3999)
    monkeypatch.setattr(comparisons, "_SHARING_FROM", 20)
    shared_pairs = []
    original = resampling.SharedColumns.bootstrap_t
    monkeypatch.setattr(
        resampling.SharedColumns,
        "bootstrap_t",
        lambda self, *arguments: shared_pairs.extend(self.first) or original(self, *arguments),
    )
    shared = compare_pairs(values, pairs, clusters, draws=3999)
    assert len(shared_pairs) == 14  # of 6 complete methods, without the pair that is too close
    for one, other in zip(shared, single, strict=True):
        assert (one.p_value, one.p_corrected, one.n, one.clusters) == (
            other.p_value, other.p_corrected, other.n, other.clusters,
        )  # fmt: skip
        assert one[2:5] == pytest.approx(other[2:5], rel=1e-9, abs=1e-12)


def test_a_method_does_not_differ_from_itself():
    values = np.random.default_rng(0).random(100) < 0.5
    assert compare(values, values)[2:8] == (0.0, 0.0, 0.0, 1.0, 1.0, 100)


def test_a_plain_difference_has_the_smallest_p_value_there_is():
    values = np.random.default_rng(8).normal(size=100)
    assert compare(values + 5, values + 0.1 * values).p_value == pytest.approx(2 / (comparisons.DRAWS + 1))
    assert compare(np.full(20, 0.3), np.zeros(20))[2:6] == pytest.approx((0.3, 0.3, 0.3, 1e-4))


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.1, 0.2])
def test_p_values_agree_with_the_paired_t_test(shift):
    generator = np.random.default_rng(9)
    first = generator.normal(size=300)
    second = first + generator.normal(shift, 1.0, size=300)
    assert compare(first, second).p_value == pytest.approx(stats.ttest_rel(first, second).pvalue, abs=0.03)


def test_pairing_finds_what_the_intervals_hide():
    hard = np.random.default_rng(10).normal(size=200)  # inputs differ far more than the methods do
    better = hard + 0.1 + 0.01 * np.random.default_rng(11).normal(size=200)
    alone = statistics.mean_interval(better), statistics.mean_interval(hard)
    assert alone[0].low < alone[1].high
    assert compare(better, hard).p_value < 0.01


def test_nothing_to_compare_is_refused():
    with pytest.raises(ValueError, match="no values"):
        compare([], [])
    with pytest.raises(ValueError, match="the same inputs"):
        compare([1.0], [1.0, 2.0])


def controls(p_values):
    """Tests of methods against controls with given p-values; a negative one says that the method is below."""
    return [
        PairComparison(method, control, np.sign(p), 0.0, 0.0, abs(p), float("nan"), 10)
        for method, row in p_values.items()
        for control, p in row.items()
    ]


def test_above_every_control_is_holm_over_methods_of_the_weakest_control():
    tests = better_than_every(
        controls({"a": {"x": 0.001, "y": 0.02}, "b": {"x": 0.01, "y": 0.015}, "c": {"x": 0.03, "y": -0.001}})
    )
    found = {test[:2]: test.p_corrected for test in tests}
    # The weakest of each are 0.02, 0.015 and 1: Holm makes them 0.045 (b), 0.045 (a) and 1.
    assert found["a", "y"] == pytest.approx(0.045) and found["b", "y"] == pytest.approx(0.045)
    assert found["c", "y"] == 1.0
    # A control that is beaten clearly is said to be, beside one that is not.
    assert found["a", "x"] == pytest.approx(0.003) and found["c", "x"] == pytest.approx(0.045)
    weakest = {name: max(value for pair, value in found.items() if pair[0] == name) for name in "abc"}
    np.testing.assert_allclose(list(weakest.values()), holm([0.02, 0.015, 1.0]))


def test_more_controls_do_not_cost_a_method_that_beats_them_all():
    few = better_than_every(controls({"a": {"x": 0.02}, "b": {"x": 0.9}}))
    many = better_than_every(controls({name: {f"x{i}": p for i in range(30)} for name, p in (("a", 0.02), ("b", 0.9))}))
    assert few[0].p_corrected == many[0].p_corrected == pytest.approx(0.04)


def test_where_less_is_better_above_means_less():
    (test,) = better_than_every(controls({"a": {"x": -0.01}}), higher_is_better=False)
    assert test.p_corrected == 0.01
    assert better_than_every(controls({"a": {"x": 0.01}}), higher_is_better=False)[0].p_corrected == 1.0


@pytest.mark.parametrize(("n", "pairs"), [(20, 1), (60, 6)])
def test_the_smallest_detectable_difference_is_found_four_times_in_five(n, pairs):
    generator = np.random.default_rng(n)
    names = "abcd"[: 2 if pairs == 1 else 4]
    values = {name: generator.normal(size=n) for name in names}
    known = np.sqrt(2 / n)
    tests = [test._replace(error=known) for test in compare_pairs(values, list(itertools.combinations(names, 2)))]
    difference = comparisons.minimum_detectable_difference(tests)
    drawn = generator.normal(difference, np.sqrt(2), (500, n))
    found = np.mean(stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05 / pairs)
    assert 0.74 < found < 0.87


def test_too_few_inputs_detect_nothing():
    values = {"a": [1.0, 2.0, 3.0, 5.0], "b": [0.0, 0.0, 0.0, 0.0]}
    assert np.isinf(comparisons.minimum_detectable_difference(compare_pairs(values, [("a", "b")])))
    assert np.isnan(comparisons.minimum_detectable_difference([]))
    assert comparisons.smallest_p_value(6) == 2 / 2**6


def test_inputs_without_a_value_leave_the_pairs_of_that_method_only():
    generator = np.random.default_rng(2)
    values = {name: generator.normal(size=50) for name in "abc"}
    values["c"][:10] = np.nan
    ab, ac = compare_pairs(values, [("a", "b"), ("a", "c")], draws=300)
    assert (ab.n, ac.n) == (50, 40)
    assert ac.difference == pytest.approx((values["a"] - values["c"])[10:].mean())


def test_clusters_that_agree_count_as_one_input():
    generator = np.random.default_rng(7)
    first, second = generator.normal(0.3, 1, 30), generator.normal(0, 1, 30)
    once = compare_pairs({"a": first, "b": second}, [("a", "b")])[0]
    members = {"a": np.repeat(first, 25), "b": np.repeat(second, 25)}
    honest = compare_pairs(members, [("a", "b")], clusters=np.repeat(np.arange(30), 25))[0]
    naive = compare_pairs(members, [("a", "b")])[0]
    assert honest[2:7] == pytest.approx(once[2:7])
    assert naive.high - naive.low < 0.3 * (honest.high - honest.low)


def test_few_inputs_prove_little_however_clear_they_look():
    first = {"a": np.arange(6) + 10.0, "b": np.arange(6.0)}
    assert compare_pairs(first, [("a", "b")])[0].p_value == 2 / 2**6
    twice = {name: np.repeat(column, 9) for name, column in first.items()}
    assert compare_pairs(twice, [("a", "b")], clusters=np.repeat(np.arange(6), 9))[0].p_value == 2 / 2**6
    assert compare_pairs(twice, [("a", "b")])[0].p_value < 0.001


def test_clusters_of_one_change_nothing():
    generator = np.random.default_rng(8)
    values = {"a": generator.normal(size=40), "b": generator.normal(size=40)}
    plain = compare_pairs(values, [("a", "b")])
    assert compare_pairs(values, [("a", "b")], clusters=np.arange(40)) == plain


def test_a_pair_without_common_inputs_stands_aside():
    nothing = [np.nan, np.nan]
    found = compare_pairs({"a": [1.0, 2.0], "b": nothing, "c": [0.0, 0.5]}, [("a", "b"), ("a", "c")], draws=99)
    assert found[0].n == 0 and np.isnan(found[0].p_corrected) and np.isnan(found[0].difference)
    assert found[1].p_corrected == found[1].p_value
    assert np.isnan(compare_pairs({"a": [], "b": []}, [("a", "b")])[0].p_value)


def test_equal_methods_are_not_told_apart():
    found = compare_pairs({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0]}, [("a", "b")])[0]
    assert (found.difference, found.p_value) == (0.0, 1.0)


def test_no_pairs_and_unequal_lengths():
    assert compare_pairs({"a": [1.0]}, []) == []
    with pytest.raises(ValueError, match="the same inputs"):
        compare_pairs({"a": [1.0], "b": [1.0, 2.0]}, [("a", "b")])
    with pytest.raises(ValueError, match="the same inputs"):
        compare_pairs({"a": [1.0], "b": [1.0]}, [("a", "b")], clusters=[1, 2])


def test_rates_far_apart_are_told_apart_by_mcnemars_test():
    """53 of 60 against 3 of 60: a bootstrap of t alone would not see it, since its draws may all be hits."""
    first, second = np.zeros(60), np.zeros(60)
    first[:56] = 1
    second[53:56] = 1
    (test,) = comparisons.compare_pairs({"a": first, "b": second}, [("a", "b")])
    assert test.p_value == pytest.approx(1e-4) and test.low > 0.7
    close = first.copy()
    close[:4] = 0
    close[56:58] = 1  # four inputs for one, two for the other
    (test,) = comparisons.compare_pairs({"a": first, "b": close}, [("a", "b")])
    exact = stats.binomtest(4, 6).pvalue
    assert test.p_value == pytest.approx(exact, abs=0.02) and test.low < 0 < test.high
