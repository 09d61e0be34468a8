"""Which methods are recommended, from agreements that are planted."""

import numpy as np
import pytest

from attribution_benchmarks.choosing import scoring
from attribution_benchmarks.choosing.verdict import agreement, verdict
from attribution_benchmarks.core.batch import MapSource


def drawn(mean, seed, count=40, spread=0.05):
    return np.random.default_rng(seed).normal(mean, spread, count)


def judged(methods, own=None, baselines=None):
    return verdict(methods, own or {}, baselines or {"uniform": drawn(0.1, 99, len(next(iter(methods.values()))))})


def test_agreement_of_the_exact_map_is_one_and_of_one_that_says_nothing_zero():
    np.testing.assert_allclose(agreement([1, 0, -1, 0.5], [0, 1, 1, 0.75]), [1, 0, -0.5, 0.5])
    assert np.isnan(agreement([np.nan, 0.2], [0.1, np.nan])).all()


def test_the_best_method_is_taken_and_its_twin_is_as_good():
    best = drawn(0.8, 1)
    found = judged({"weak": drawn(0.4, 3), "best": best, "twin": best + drawn(0, 2, spread=0.02) - 0.001})
    assert found.best.method in ("best", "twin") and {one.method for one in found.as_good} <= {"best", "twin"}
    assert len(found.as_good) == 1
    assert [one.method for one in found.standings][2] == "weak"
    weak = found.standings[2]
    assert weak.recommended and not weak.as_good and not weak.unbeaten


@pytest.mark.parametrize("condition", ["random_weights", "wrong_class"])
def test_a_method_whose_maps_do_not_depend_on_the_network_or_the_class_is_not_recommended(condition):
    values = drawn(0.8, 1)
    own = {"deaf": {condition: values}, "sound": {condition: drawn(0.2, 6)}}
    found = judged({"deaf": values, "sound": drawn(0.6, 2)}, own)
    assert found.best.method == "sound"
    assert found.standings[0].method == "deaf" and found.standings[0].unbeaten == [condition]


def test_a_method_below_the_best_map_without_the_network_is_not_recommended():
    found = judged({"method": drawn(0.5, 1)}, baselines={"uniform": drawn(0.1, 2), "edge_detector": drawn(0.6, 3)})
    assert found.best is None and found.standings[0].unbeaten == ["edge_detector"]


def test_few_inputs_are_not_tested():
    found = judged({"method": drawn(0.9, 1, count=9)})
    assert not found.tested and found.best is None and found.inputs == 9
    assert judged({"method": drawn(0.9, 1, count=10)}).best.method == "method"


def test_inputs_whose_score_never_changes_do_not_count():
    values = drawn(0.9, 1, count=12)
    values[:3] = np.nan
    found = judged({"method": values}, baselines={"uniform": np.where(np.isnan(values), np.nan, 0.1)})
    assert found.inputs == 9 and not found.tested


def test_methods_that_are_no_better_than_a_baseline_are_seldom_recommended():
    """Eight methods with the baseline's own distribution: at least one is recommended in at most 5 % of the draws."""
    false = 0
    for seed in range(200):
        values = np.random.default_rng(seed).normal(0.5, 0.1, (9, 15))
        found = judged({str(row): values[row] for row in range(8)}, baselines={"uniform": values[8]})
        false += found.best is not None
    assert false / 200 <= 0.05


@pytest.mark.parametrize("count", [2, 12])
def test_equal_methods_are_seldom_called_worse_than_the_best(count):
    """The best of equal methods is chosen by the data that test the others: some are called worse in at most 5 %."""
    worse = 0
    for seed in range(100):
        values = np.random.default_rng(seed).normal(0.7, 0.1, (count, 30))
        found = judged({str(row): values[row] for row in range(count)}, baselines={"uniform": np.full(30, 0.1)})
        worse += len(found.as_good) < count - 1
    assert worse / 100 <= 0.05


def test_p_values_of_a_difference_and_its_opposite_sum_to_one():
    methods = {"first": drawn(0.5, 1), "second": drawn(0.52, 2)}
    claims = [judged({a: methods[a]}, baselines={b: methods[b]}).standings[0].references[b] for a, b in
              (("first", "second"), ("second", "first"))]  # fmt: skip
    assert sum(claim for _, claim in claims) == pytest.approx(1)
    assert all((claim < 0.5) == (difference > 0) for difference, claim in claims)


def test_one_of_many_that_is_as_far_below_the_best_is_as_good():
    """What is significant alone, p = 0.02, is not when ten methods are compared with the best."""
    best, gap = drawn(0.8, 1), drawn(0, 2)
    below = best - (gap - gap.mean() + 2.4 * gap.std() / np.sqrt(len(gap)))
    alone, many = judged({"best": best, "0": below}), judged({"best": best, **{str(n): below for n in range(10)}})
    assert not alone.as_good and len(many.as_good) == 10


def test_agreement_under_random_weights_is_the_mean_of_the_networks():
    values = {MapSource("method", f"random_weights#{n}"): np.array([n, 1.0]) for n in (1, 2)}
    found = scoring.own_under_controls("method", {**values, MapSource("other", "random_weights#1"): np.zeros(2)})
    np.testing.assert_array_equal(found["random_weights"], [1.5, 1])
