"""Windows that need no explanation: what the ROE test gives to those who know more, or nothing.

The paper has one control, the whole signal. These are ours; each is a map with a peak, to be judged like a method's.
They show how much of a method's score a network-free rule would get.
"""

from __future__ import annotations

import numpy as np

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import Control
from svea.metrics import WINDOW
from svea.mnist1d import LENGTH


def _template_position(batch: Batch, seed: int) -> np.ndarray:
    """Return maps of the whole true template, (N, 40), that fall from its middle and are zero outside.

    The peak is the point nearest to the middle, around which the ROE test puts its window; metrics of positions read
    all of the template.
    """
    middle = np.rint(batch.truth["template_centre"])[:, np.newaxis]
    return np.where(batch.masks["template"], 1 - np.abs(np.arange(LENGTH) - middle) / LENGTH, 0.0)


def _argmax_abs(batch: Batch, seed: int) -> np.ndarray:
    """Return the absolute values, (N, 40): a rule without a network."""
    return np.abs(batch.pictures[:, :, 0])


def _fixed_centre(batch: Batch, seed: int) -> np.ndarray:
    """Point at the middle of the axis, the same for every signal."""
    return _one_peak(np.full(len(batch), LENGTH // 2))


def _random_window(batch: Batch, seed: int) -> np.ndarray:
    """Point such that every window is equally likely, drawn per signal from the seed and the signal's place."""
    starts = [np.random.default_rng((seed, row)).integers(LENGTH - WINDOW + 1) for row in batch.seeds]
    return _one_peak(np.array(starts) + WINDOW // 2)


def _one_peak(points: np.ndarray) -> np.ndarray:
    """Return maps that are one at a point and zero elsewhere: (N,) int, 0 to 39 -> (N, 40) float64."""
    return np.eye(LENGTH)[points]


# The whole signal instead of a window: the paper's own control, judged by the machines alone.
RAW_SIGNAL = Control(
    "raw_signal",
    "Whole signal, no region",
    "the classifiers see all 40 points; a region that scores less hides more than it shows",
)
CONTROLS = (
    Control(
        "template_position",
        "True template position",
        "the map is the template itself, and the region lies around its middle: a bound for every method, not a rival",
        _template_position,
        oracle=True,
    ),
    Control(
        "argmax_abs",
        "Largest |x|, no network",
        "the region lies at the largest absolute value of the signal; no network is asked",
        _argmax_abs,
    ),
    Control("fixed_centre", "Middle of the signal", "the region is always the middle of the signal", _fixed_centre),
    Control(
        "random_window", "Random window", "the region lies anywhere, drawn at random for each signal", _random_window
    ),
)
