"""Unit tests of behavior after XAI-Units (Lee et al., FAccT 2025): hand-set networks, each with one known difficulty.

They complement the problems of ``exact.definition`` with gates, Boolean functions, shattered gradients, and irrelevant
features that are correlated with relevant ones. Shapley values are known in closed form; absent features are zero.
"""

from __future__ import annotations

import pathlib

import numpy as np

from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.exact.definition import Problem, between, define

_GATE = 4.0  # more than any value that a gate closes
_TEETH = 12  # of the wave in "shattered_gradients", each a tenth long and of slopes 1 + 10 and 1 - 10
_SLOPE = 10.0


def _bits(*features):
    """Return a function that draws some features as 0 or 1."""

    def prepare(inputs):
        inputs[:, features] = inputs[:, features] > 0
        return inputs

    return prepare


def _copies(inputs):
    inputs[:, 3:6] = inputs[:, :3] + 0.1 * inputs[:, 3:6]
    return inputs


def _conjunction(x):
    share = x[:, :3].prod(axis=1) / 3
    return {0: share, 1: share, 2: share, 3: 0.5 * x[:, 3]}


def _nor(x):
    first, second = x[:, 0], x[:, 1]
    return {0: -first * (1 - second / 2), 1: -second * (1 - first / 2), 2: 0.5 * x[:, 2]}


def _maximum(x):
    largest = x[:, :2].max(axis=1)
    return {0: (x[:, 0] + largest - x[:, 1]) / 2, 1: (x[:, 1] + largest - x[:, 0]) / 2, 2: 0.5 * x[:, 2]}


def _wave(values):
    """Return a sawtooth wave of 0, of height 1 at odd tenths and 0 at even ones."""
    return 1 - np.abs(values * _SLOPE % 2 - 1)


PROBLEMS = (
    Problem(
        "irrelevant_features",
        "a - 2b + 0.5c; three other features are nearly copies of these and are not read.",
        lambda x: {0: x[:, 0], 1: -2 * x[:, 1], 2: 0.5 * x[:, 2]},
        linear={0: 1.0, 1: -2.0, 2: 0.5},
        prepare=_copies,
    ),
    Problem(
        "gated_interaction",
        "2a where the bit g is 1, and 0 where it is 0, plus 0.5c: a and g share the product.",
        lambda x: {0: x[:, 0] * x[:, 1], 1: x[:, 0] * x[:, 1], 2: 0.5 * x[:, 2]},
        units=(({0: 2.0, 1: _GATE}, -_GATE, 1.0),),
        linear={2: 0.5},
        prepare=_bits(1),
        **between((0,), 0.5, 1.5),
    ),
    Problem(
        "gated_cancellation",
        "2a, canceled where the bit g is 1, plus 0.5c: a present g takes away half of what a adds.",
        lambda x: {0: x[:, 0] * (2 - x[:, 1]), 1: -x[:, 0] * x[:, 1], 2: 0.5 * x[:, 2]},
        units=(({0: 2.0, 1: _GATE}, -_GATE, -1.0),),
        linear={0: 2.0, 2: 0.5},
        prepare=_bits(1),
        **between((0,), 0.5, 1.5),
    ),
    Problem(
        "conjunction",
        "1 where three bits are all 1, plus 0.5d: none of them does anything alone.",
        _conjunction,
        units=(({0: 1.0, 1: 1.0, 2: 1.0}, -2.0, 1.0),),
        linear={3: 0.5},
        prepare=_bits(0, 1, 2),
    ),
    Problem(
        "absence",
        "1 where two bits are both 0, plus 0.5c: a bit of 0 equals an absent feature and gets nothing.",
        _nor,
        units=(({0: -1.0, 1: -1.0}, 1.0, 1.0),),
        linear={2: 0.5},
        prepare=_bits(0, 1),
    ),
    Problem(
        "redundancy",
        "max(a, b) + 0.5c: the smaller of two positive features is redundant, and its gradient is 0.",
        _maximum,
        units=(({0: -1.0, 1: 1.0}, 0.0, 1.0),),
        linear={0: 1.0, 2: 0.5},
        **between((0, 1), 0.5, 1.5),
    ),
    Problem(
        "shattered_gradients",
        "a plus a fine sawtooth wave of a, plus 0.5b: the gradient is 11 or -9, and the mean slope is near 1.",
        lambda x: {0: x[:, 0] + _wave(x[:, 0]), 1: 0.5 * x[:, 1]},
        units=tuple(
            ({0: 1.0}, -tooth / _SLOPE, (-1.0) ** tooth * (1 + (tooth > 0)) * _SLOPE) for tooth in range(_TEETH)
        ),
        linear={0: 1.0, 1: 0.5},
        **between((0,), 0.1, 1.1),
    ),
)
BENCHMARK = define(
    "xai_units",
    "XAI-Units",
    ReportText.load(pathlib.Path(__file__).with_name("xai_units_report.toml")),
    "exact/units",
    PROBLEMS,
)
