"""Laws of the many paired tests: they are the single ones, corrected."""

import itertools

import numpy as np
import pytest

from attribution_benchmarks.leaderboard import statistics
from attribution_benchmarks.leaderboard.comparisons import compare_pairs, holm


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


def test_holm_keeps_the_chance_of_any_false_claim_below_the_level():
    generator = np.random.default_rng(4)
    false_claims = sum(
        min(holm([statistics.paired_bootstrap(*generator.normal(size=(2, 40)), resamples=400, seed=i).p_value
                  for _ in range(8)])) < 0.05
        for i in range(150)
    )  # fmt: skip
    assert false_claims <= 150 * 0.05 + 3 * np.sqrt(150 * 0.05 * 0.95)


@pytest.mark.parametrize("resamples", [500, 3000])
def test_a_pair_is_the_paired_bootstrap_of_statistics(resamples):
    generator = np.random.default_rng(1)
    values = {name: generator.normal(shift, 1, 70) for name, shift in (("a", 0.0), ("b", 0.2), ("c", 0.4))}
    pairs = list(itertools.combinations(values, 2))
    found = compare_pairs(values, pairs, resamples=resamples, seed=3)
    for pair, comparison in zip(pairs, found, strict=True):
        alone = statistics.paired_bootstrap(values[pair[0]], values[pair[1]], resamples=resamples, seed=3)
        assert comparison[:2] == pair
        assert comparison[2:6] == pytest.approx(alone[:4], abs=1e-12)
        assert comparison.n == alone.n
    np.testing.assert_allclose([c.p_corrected for c in found], holm([c.p_value for c in found]))


def test_inputs_without_a_value_leave_the_pairs_of_that_method_only():
    generator = np.random.default_rng(2)
    values = {name: generator.normal(size=50) for name in "abc"}
    values["c"][:10] = np.nan
    ab, ac = compare_pairs(values, [("a", "b"), ("a", "c")], resamples=300)
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
    found = compare_pairs({"a": [1.0, 2.0], "b": nothing, "c": [0.0, 0.5]}, [("a", "b"), ("a", "c")], resamples=99)
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
