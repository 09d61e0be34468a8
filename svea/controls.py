"""Windows that need no explanation: what the ROE test gives to those who know more, or nothing.

The paper has one control, the whole signal. These are ours; each gives a window for every signal, to be judged like a
method's. They show how much of a method's score a network-free rule would get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from svea.mnist1d import LENGTH, Split
from svea.roe import WINDOW, peaks

RAW_SIGNAL = "raw_signal"  # the whole signal instead of a window: the paper's own control, judged by the machines alone


def template_position(split: Split, seed: int, first_key: int) -> np.ndarray:
    """Return the middle of the true template, the point nearest to it: the best any explanation could know."""
    return np.rint(split.template_centre).astype(np.int64)


def argmax_abs(split: Split, seed: int, first_key: int) -> np.ndarray:
    """Return the point of the largest absolute value: a rule without a network."""
    return peaks(np.abs(split.signals))


def fixed_centre(split: Split, seed: int, first_key: int) -> np.ndarray:
    """Return the middle of the axis, the same for every signal."""
    return np.full(len(split.signals), LENGTH // 2)


def random_window(split: Split, seed: int, first_key: int) -> np.ndarray:
    """Return a point such that every window is equally likely, drawn per signal from the seed and the signal's key."""
    starts = [
        np.random.default_rng((seed, first_key + row)).integers(LENGTH - WINDOW + 1)
        for row in range(len(split.signals))
    ]
    return np.array(starts) + WINDOW // 2


# Each takes a split, the run's seed and the key of the split's first signal, and returns peaks, (N,) int64, 0 to 39.
CONTROLS: Mapping[str, Callable[[Split, int, int], np.ndarray]] = MappingProxyType(
    {function.__name__: function for function in (template_position, argmax_abs, fixed_centre, random_window)}
)
TITLES: Mapping[str, str] = MappingProxyType(
    {
        RAW_SIGNAL: "Whole signal, no region",
        "template_position": "True template position",
        "argmax_abs": "Largest |x|, no network",
        "fixed_centre": "Middle of the signal",
        "random_window": "Random window",
    }
)
