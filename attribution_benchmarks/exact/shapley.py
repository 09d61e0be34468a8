"""Exact Shapley values (Shapley, 1953) from the worth of all coalitions; no sampling, no model of the network.

A feature that is left out is zero, which is also where the methods of this benchmark begin.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

MOST = 12  # features: 4,096 coalitions


def coalitions(features: int) -> np.ndarray:
    """Return all subsets of some features, (2^features, features) bool; row r holds the features of r's binary digits.

    Raises
    ------
    ValueError
        If there are more than twelve features.
    """
    if not 1 <= features <= MOST:
        raise ValueError(f"{features} features have too many coalitions to count; at most {MOST} are counted")
    return (np.arange(2**features)[:, np.newaxis] >> np.arange(features)) & 1 == 1


@functools.cache
def weights(features: int) -> np.ndarray:
    """Return the matrix that makes Shapley values of the worth of all coalitions, (features, 2^features) float64.

    φ_i = Σ_S |S|! (d - |S| - 1)! / d! (v(S ∪ i) - v(S)): a coalition with i counts by its size less one, one without i
    by its size and negatively.
    """
    members = coalitions(features)
    size = members.sum(axis=1)
    chance = [math.factorial(s) * math.factorial(features - s - 1) / math.factorial(features) for s in range(features)]
    joined, left_out = np.array([0.0, *chance]), np.array([*chance, 0.0])
    return np.where(members.T, joined[size], -left_out[size])


def shapley_values(worth: np.ndarray) -> np.ndarray:
    """Return Shapley values, (N, features) float64, of the worth of all coalitions, (N, 2^features)."""
    features = int(np.log2(np.shape(worth)[1]))
    return np.asarray(worth, np.float64) @ weights(features).T


def of_network(inputs: np.ndarray, targets: np.ndarray, scores: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the Shapley values of a network's score of each input's target, (N, features) float64.

    Parameters
    ----------
    inputs
        (N, features), at most twelve features.
    targets
        (N,) int.
    scores
        ``scores(inputs)`` returns (M, classes); it is asked about 2^features inputs for each input.
    """
    members = coalitions(inputs.shape[1])
    parts = (inputs[:, np.newaxis] * members[np.newaxis]).reshape(-1, inputs.shape[1]).astype(inputs.dtype)
    found = np.asarray(scores(parts), np.float64).reshape(len(inputs), len(members), -1)
    return shapley_values(np.take_along_axis(found, np.asarray(targets)[:, None, None], axis=2)[..., 0])
