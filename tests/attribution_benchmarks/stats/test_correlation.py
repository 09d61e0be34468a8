"""Rank correlations, with SciPy as the oracle."""

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


def test_numbers_that_are_not_there_have_no_order():
    assert np.isnan(correlation.spearman([1.0, np.nan, 2.0], [1.0, 2.0, 3.0]))
