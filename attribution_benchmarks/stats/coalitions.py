"""Games of a few players, counted over all coalitions: Shapley values and pairwise interactions."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats.statistics import Array

MOST_FEATURES = 12  # 4,096 coalitions


@functools.cache
def coalitions(players: int) -> npt.NDArray[np.bool_]:
    """Return all subsets of some players, (2^players, players) bool; row r holds the players of r's binary digits.

    Raises ``ValueError`` for more than twelve players.
    """
    if not 1 <= players <= MOST_FEATURES:
        raise ValueError(f"{players} features have too many coalitions to count; at most {MOST_FEATURES} are counted")
    return np.asarray((np.arange(2**players)[:, np.newaxis] >> np.arange(players)) & 1 == 1)


@functools.cache
def _weights(players: int) -> Array:
    """Return the matrix from the worth of all coalitions to Shapley values, (players, 2^players) float64.

    φ_i = Σ_S |S|! (d - |S| - 1)! / d! (v(S ∪ i) - v(S)).
    """
    members = coalitions(players)
    size = members.sum(axis=1)
    chance = [math.factorial(s) * math.factorial(players - s - 1) / math.factorial(players) for s in range(players)]
    with_i, without_i = np.array([0.0, *chance]), np.array([*chance, 0.0])
    return np.asarray(np.where(members.T, with_i[size], -without_i[size]))


def _players(worth: npt.ArrayLike) -> int:
    return int(np.log2(np.shape(worth)[-1]))


def shapley_values(worth: npt.ArrayLike) -> Array:
    """Return Shapley values, (..., players) float64, of the worth of all coalitions, (..., 2^players)."""
    return np.asarray(worth, np.float64) @ _weights(_players(worth)).T


def interactions(worth: npt.ArrayLike) -> Array:
    """Return Shapley interaction indices of all pairs, (..., players, players) float64, zero on the diagonal.

    Σ_S |S|! (d - |S| - 2)! / (d - 1)! (v(S ∪ ij) - v(S ∪ i) - v(S ∪ j) + v(S)) (Grabisch and Roubens, 1999).
    ``worth`` is (..., 2^players) of at least two players.
    """
    players = _players(worth)
    members = coalitions(players)
    signs = np.where(members, 1, -1)
    found = np.zeros((*np.shape(worth)[:-1], players, players))
    chance = [
        math.factorial(s) * math.factorial(players - s - 2) / math.factorial(players - 1) for s in range(players - 1)
    ]
    for i in range(players):
        for j in range(i):
            others = members.sum(axis=1) - members[:, i] - members[:, j]
            weight = np.array(chance)[others] * signs[:, i] * signs[:, j]
            found[..., i, j] = found[..., j, i] = np.asarray(worth, np.float64) @ weight
    return found
