"""Games in closed form, and by an independent enumeration of orders."""

import numpy as np

from attribution_benchmarks.stats import coalitions


def gains_in_all_orders(worth):
    """Return Shapley values of one game as the mean gain of each player over all orders of joining."""
    players = int(np.log2(len(worth)))
    orders = list(itertools.permutations(range(players)))
    found = np.zeros(players)
    for order in orders:
        for place, player in enumerate(order):
            before = sum(1 << each for each in order[:place])
            found[player] += (worth[before | 1 << player] - worth[before]) / len(orders)
    return found


@pytest.mark.parametrize("players", [1, 2, 5])
def test_shapley_values_are_the_mean_gains_over_all_orders(players):
    games = np.random.default_rng(0).normal(size=(3, 2**players))
    expected = [gains_in_all_orders(game) for game in games]
    np.testing.assert_allclose(coalitions.shapley_values(games), expected, atol=1e-12)
    np.testing.assert_allclose(coalitions.shapley_values(games).sum(axis=1), games[:, -1] - games[:, 0])


def test_two_players_who_win_together():
    both = coalitions.coalitions(3)[:, :2].all(axis=1).astype(float)  # the third does nothing
    np.testing.assert_allclose(coalitions.shapley_values(both), [0.5, 0.5, 0])
    np.testing.assert_allclose(coalitions.interactions(both), [[0, 1, 0], [1, 0, 0], [0, 0, 0]], atol=1e-12)


def test_a_majority_of_three():
    majority = (coalitions.coalitions(3).sum(axis=1) >= 2).astype(float)
    np.testing.assert_allclose(coalitions.shapley_values(majority), [1 / 3] * 3)
    np.testing.assert_allclose(coalitions.interactions(majority), np.zeros((3, 3)), atol=1e-12)
