"""Games in closed form, and by an independent enumeration of orders."""

import numpy as np

from attribution_benchmarks.stats import coalitions


def test_two_players_who_win_together():
    both = coalitions.coalitions(3)[:, :2].all(axis=1).astype(float)  # the third does nothing
    np.testing.assert_allclose(coalitions.shapley_values(both), [0.5, 0.5, 0])
    np.testing.assert_allclose(coalitions.interactions(both), [[0, 1, 0], [1, 0, 0], [0, 0, 0]], atol=1e-12)


def test_a_majority_of_three():
    majority = (coalitions.coalitions(3).sum(axis=1) >= 2).astype(float)
    np.testing.assert_allclose(coalitions.shapley_values(majority), [1 / 3] * 3)
    np.testing.assert_allclose(coalitions.interactions(majority), np.zeros((3, 3)), atol=1e-12)
