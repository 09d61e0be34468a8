"""Which part of a score's variance is due to inputs, to networks, and to methods that networks rank differently.

A score is the sum of a mean, effects of its method, input and network, and their interactions. All are random,
independent and without correlation. The components of the variance are those at which the mean squares of the crossed
design have their expected values (Searle, Casella and McCulloch, "Variance Components", 1992, chapter 4).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats.statistics import Array

_MAIN, _PAIRS, _ALL = ((0,), (1,), (2,)), ((0, 1), (0, 2), (1, 2)), (0, 1, 2)  # axes: inputs, networks, methods


class Components(NamedTuple):
    """Components of the variance of one score, in its unit squared, at least 0."""

    methods: float
    inputs: float
    networks: float
    methods_inputs: float  # methods differ by other amounts on other inputs
    methods_networks: float
    inputs_networks: float
    residual: float

    def of_difference(self, inputs: int, networks: int) -> tuple[float, float, float]:
        """Return the variance of the difference of two methods' means: that of inputs, of networks, and the rest."""
        return (
            2 * self.methods_inputs / inputs,
            2 * self.methods_networks / networks,
            2 * self.residual / (inputs * networks),
        )


def components(values: npt.ArrayLike) -> Components:
    """Return the components of the variance of scores of inputs, networks and methods, by the method of moments.

    Parameters
    ----------
    values
        (N, K, M) numbers of N inputs, K networks and M methods, at least two of each. An input with a missing value is
        dropped; ``ValueError`` if fewer than two are left.
    """
    table: Array = np.asarray(values, np.float64)
    table = table[np.isfinite(table).all(axis=(1, 2))]
    if min(table.shape) < 2:
        raise ValueError(f"{table.shape} inputs, networks and methods; at least two of each are needed")
    squares = {axes: _mean_square(table, axes) for axes in (*_MAIN, *_PAIRS, _ALL)}
    residual = squares[_ALL]
    # Besides its component, the mean square of a pair has the residual, and that of one factor has those of its pairs.
    excess: dict[tuple[int, ...], float] = {pair: squares[pair] - residual for pair in _PAIRS}
    for main in _MAIN:
        excess[main] = squares[main] - residual - sum(excess[pair] for pair in _PAIRS if main[0] in pair)
    inputs, networks, methods, inputs_networks, methods_inputs, methods_networks = (
        max(excess[axes] * _levels(table, axes) / table.size, 0.0) for axes in (*_MAIN, *_PAIRS)
    )
    return Components(methods, inputs, networks, methods_inputs, methods_networks, inputs_networks, residual)


def _levels(table: Array, axes: tuple[int, ...]) -> int:
    return math.prod(table.shape[axis] for axis in axes)


def _mean_square(table: Array, axes: tuple[int, ...]) -> float:
    """Return the mean square of the effects of some axes of crossed (N, K, M) numbers."""
    effects: Array = table.mean(axis=tuple(axis for axis in _ALL if axis not in axes), keepdims=True)
    for axis in axes:
        effects = effects - effects.mean(axis=axis, keepdims=True)
    freedom = math.prod(table.shape[axis] - 1 for axis in axes)
    return float((effects**2).sum() * table.size / effects.size / freedom)
