"""Laws of means over inputs and networks, with SciPy as the independent oracle."""

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.stats.statistics import mean_interval, means


def test_symmetric_values_have_students_interval_and_test():
    half = np.linspace(0.1, 3.0, 20)
    values = 1.0 + np.concatenate([half, -half])  # no skewness, light tails
    oracle = stats.ttest_1samp(values, 0)
    found = means(values[:, None])
    assert found.intervals()[:, 0] == pytest.approx(oracle.confidence_interval(), rel=1e-6)
    assert found.p_values()[0] == pytest.approx(oracle.pvalue, rel=1e-4)


def test_interval_is_the_shifts_that_the_test_does_not_reject():
    generator = np.random.default_rng(3)
    for shape in ((40, 1), (25, 5), (12, 3)):
        values = generator.exponential(size=shape) + 0.3 * generator.normal(size=shape[1])
        low, high = means(values[..., None]).intervals()[:, 0]
        for end in (low, high):
            assert means((values - end)[..., None]).p_values()[0] == pytest.approx(0.05, abs=1e-9)


def test_skewed_mean_reaches_further_where_the_tail_is_and_turns_with_its_sign():
    values = np.random.default_rng(3).lognormal(size=60)
    right, left = mean_interval(values), mean_interval(-values)
    assert right.high - right.value > 1.2 * (right.value - right.low)
    assert (left.low, left.high) == pytest.approx((-right.high, -right.low), rel=1e-12)


def test_a_single_value_that_is_not_0_has_about_two_degrees_of_freedom():
    """Twice the count, by the kurtosis of 48 less one."""
    assert means(np.eye(50)[:, :1]).freedom[0] == pytest.approx(2.127, abs=1e-3)


def test_variance_of_the_mean_has_the_parts_of_inputs_networks_and_residuals():
    """By the analysis of variance of two crossed random factors."""
    n, k = 30, 6
    generator = np.random.default_rng(5)
    values = generator.normal(size=(n, 1)) + 0.4 * generator.normal(size=k) + 0.5 * generator.normal(size=(n, k))
    rows, columns = values.mean(axis=1), values.mean(axis=0)
    rest = values - rows[:, None] - columns + values.mean()
    residual = (rest**2).sum() / ((n - 1) * (k - 1)) / (n * k)
    of_inputs, of_networks = rows.var(ddof=1) / n, columns.var(ddof=1) / k
    expected = of_inputs + of_networks - residual
    found = means(values[..., None])
    assert found.error[0] == pytest.approx(np.sqrt(expected), rel=1e-12)
    assert found.network_error[0] == pytest.approx(columns.std(ddof=1) / np.sqrt(k), rel=1e-12)
    of_rows = min(n - 1, 2 * n / (stats.kurtosis(rows, fisher=False) - 1))
    satterthwaite = expected**2 / (of_inputs**2 / of_rows + of_networks**2 / (k - 1))
    assert found.freedom[0] == pytest.approx(satterthwaite, rel=1e-9)


def test_networks_of_equal_scores_change_nothing_and_two_networks_are_fixed():
    values = np.random.default_rng(6).normal(size=40)
    alone = mean_interval(values)
    assert mean_interval(np.repeat(values[:, None], 5, axis=1)) == pytest.approx(alone, rel=1e-9)
    two = np.stack([values, values + 3], axis=1)
    assert mean_interval(two)[:3] == pytest.approx(np.array(alone[:3]) + 1.5, rel=1e-9)


def test_few_networks_that_differ_widen_the_interval_to_students_over_networks():
    generator = np.random.default_rng(7)
    values = generator.normal(size=(500, 1)) * 0.1 + np.array([0.0, 1.0, 2.5])
    oracle = stats.t.interval(0.95, 2, values.mean(), stats.sem(values.mean(axis=0)))
    found = mean_interval(values)
    assert found.low <= oracle[0] + 1e-9 and found.high >= oracle[1] - 1e-9


def test_rate_has_the_interval_of_two_more_hits_and_misses():
    for hits, n in ((0, 20), (5, 8), (59, 60), (60, 60), (613, 1000)):
        found = mean_interval(np.arange(n) < hits)
        share, size = (hits + 2) / (n + 4), n + 4
        half = stats.t.ppf(0.975, size - 1) * np.sqrt(share * (1 - share) / (size - 1))
        expected = max(share - half, 0.0), min(share + half, 1.0)  # without skewness
        assert found.value == hits / n
        assert (found.low, found.high) == pytest.approx(
            (min(expected[0], found.value), max(expected[1], found.value)), abs=1e-6
        )
        percent = mean_interval(100.0 * (np.arange(n) < hits), rate=100.0)
        np.testing.assert_allclose(percent[:3], 100 * np.array(found[:3]), atol=1e-12)


def test_clusters_of_equal_members_are_worth_one_input_each():
    generator = np.random.default_rng(8)
    for values, rate in ((generator.normal(size=30), None), (1.0 * (np.arange(30) < 24), 1.0)):
        alone = mean_interval(values, rate=rate)
        clustered = mean_interval(np.repeat(values, 9), clusters=np.repeat(np.arange(30), 9), rate=rate)
        assert clustered[:3] == pytest.approx(alone[:3], rel=1e-9) and clustered.n == 270


def test_order_of_inputs_and_names_of_clusters_do_not_matter():
    generator = np.random.default_rng(9)
    values, clusters = generator.normal(size=(60, 4)), generator.integers(12, size=60)
    order = generator.permutation(60)
    renamed = np.array([f"image {name:02d}" for name in clusters])
    assert mean_interval(values[order], clusters=renamed[order]) == pytest.approx(
        mean_interval(values, clusters=clusters), rel=1e-9
    )


@pytest.mark.parametrize("value", [29.7, 0.1, -1e-7, 1e9 / 3])
def test_constant_has_no_width(value):
    for n in (1, 2, 7, 1000):
        assert mean_interval(np.full(n, value), clusters=np.arange(n) // 3) == (value, value, value, n)


def test_interval_ends_at_the_bounds():
    found = mean_interval([0.2, 0.9, 1.0, 1.0, 1.0], bounds=(0.0, 1.0))
    assert found.low < found.value < found.high == 1.0
    assert mean_interval([1.5, 1.5], bounds=(0.0, 1.0)) == (1.5, 1.5, 1.5, 2)


@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0), (-np.inf, np.inf)])
@pytest.mark.parametrize("hit", [1.0, 100.0])
def test_interval_of_a_rate_stays_between_no_hit_and_all_hits(hit, bounds):
    for hits in (0, 1, 9, 10):
        found = mean_interval(hit * (np.arange(10) < hits), rate=hit, bounds=bounds)
        assert 0 <= found.low <= found.value <= found.high <= hit


def test_columns_are_independent_and_missing_values_leave_their_column_only():
    generator = np.random.default_rng(14)
    values = generator.exponential(size=(60, 4, 3))
    values[20:, :, 1] = np.nan
    values[:, :, 2] = np.nan
    found = means(values)
    ends = found.intervals()
    assert np.isnan(ends[:, 2]).all() and found.n.tolist() == [60, 20, 0]
    assert ends[:, 0] == pytest.approx(mean_interval(values[..., 0])[1:3], rel=1e-12)
    assert ends[:, 1] == pytest.approx(mean_interval(values[:20, :, 1])[1:3], rel=1e-12)


def test_no_values_and_a_single_cluster():
    estimate = mean_interval([])
    assert estimate.n == 0 and np.isnan(estimate[:3]).all()
    assert mean_interval([1.0, 2.0], clusters=["a", "a"]) == (1.5, 1.5, 1.5, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([1.0, np.nan]), "1 of values are not finite"),
        (lambda: mean_interval([1.0, 2.0], clusters=["a"]), "2 values, but 1 clusters"),
    ],
)
def test_invalid_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
