"""Spearman's correlation under the bootstrap: weighted ranks, clusters, how often its intervals hold the truth."""

import numpy as np
import pytest

from attribution_benchmarks.stats import rank_correlation, statistics
from attribution_benchmarks.stats.rank_correlation import spearman_interval


def test_a_draw_is_ranked_as_if_its_inputs_stood_there_so_often():
    generator = np.random.default_rng(0)
    first, second = generator.integers(6, size=(2, 40)).astype(float)  # with ties
    weights = generator.integers(4, size=(25, 40)).astype(float)
    found = rank_correlation._correlations(first, second, weights)
    wanted = [
        statistics.spearman(np.repeat(first, row.astype(int)), np.repeat(second, row.astype(int))) for row in weights
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_a_draw_of_equal_values_has_no_correlation():
    assert np.isnan(rank_correlation._correlations(np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.array([[2.0, 0.0]])))


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
        one = spearman_interval(pair[:, 0], second, clusters=clusters, resamples=300)
        held += one.low <= true <= one.high
    assert 0.92 <= held / trials <= 0.98  # two standard errors and a half


def test_clusters_of_copies_count_once():
    generator = np.random.default_rng(2)
    first, second = generator.standard_normal((2, 40))
    alone = spearman_interval(first, second)
    copied = spearman_interval(np.repeat(first, 5), np.repeat(second, 5), clusters=np.repeat(np.arange(40), 5))
    np.testing.assert_allclose(copied[:3], alone[:3])
    assert (alone.n, copied.n) == (40, 200)


def test_few_inputs_perfect_orders_and_constants_have_no_width_to_tell():
    line = np.arange(9.0)
    assert spearman_interval(line, line**2)[1:3] == (-1.0, 1.0)  # too few for a bootstrap
    line = np.arange(30.0)
    assert spearman_interval(line, -line)[:3] == (-1.0, -1.0, -1.0)
    assert np.isnan(spearman_interval(line, np.ones(30))[:3]).all()


@pytest.mark.parametrize(("second", "message"), [([1.0, np.nan], "not finite"), ([1.0], "2 values against 1")])
def test_numbers_that_do_not_pair_are_refused(second, message):
    with pytest.raises(ValueError, match=message):
        spearman_interval([1.0, 2.0], second)
