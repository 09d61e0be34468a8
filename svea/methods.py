"""The methods of SVEA's table with their settings, and the controls that they are compared with.

Settings are the only place where SVEA differs from the registry's defaults.

The paper has one control, the whole signal. The others are ours: windows that need no explanation, which show how much
of a method's score a network-free rule would get. Each is a map with a peak, to be judged like a method's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import attribution
from attribution import Method
from attribution.errors import BadInput
from attribution.methods.queries import ModelQueries
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import Control
from svea.metrics import WINDOW
from svea.mnist1d import LENGTH

# In the order of the paper's Table 1; SmoothGrad is in its text only.
METHODS = (
    "gradient", "smoothgrad", "xgrad_cam", "score_cam", "grad_cam", "grad_cam_plus_plus", "sise",
    "integrated_gradients", "rise",
)  # fmt: skip
# Variant -> the row of Table 1 that it may explain. Printed beside that row's figures, compared with no other method.
CANDIDATES = {"score_cam_constant_masks": "score_cam"}
RISE_MASKS = 1000
COSTLY = ("rise",)  # not tried on networks of random weights: as many masks on each would cost more than all else


def _absolute_gradient(queries: ModelQueries) -> np.ndarray:
    """Vanilla Gradient as SVEA ranks it: the absolute value of the gradient, of the inputs' shape."""
    return np.abs(queries.input_gradient())


def settings(
    methods: Mapping[str, Method] | Sequence[str], rise_masks: int = RISE_MASKS, layer: str = ""
) -> dict[str, tuple]:
    """Return the methods with SVEA's settings, as ``attribution.explain_many`` takes them: name -> (method, overrides).

    ``methods`` are methods by name, or their names; what SVEA has no settings for runs with its defaults. ``layer`` is
    that of class activation maps; a model's default when empty. Raises ``BadInput`` if there is no such method, or none
    at all.
    """
    overrides: Mapping[str, dict] = {
        "integrated_gradients": {"points": 51, "quadrature": "uniform"},
        "rise": {"masks": rise_masks},
    }
    if not isinstance(methods, Mapping):
        methods = {name: attribution.resolve_method(name) for name in methods}
    chosen: dict[str, tuple] = {}
    for name, method in methods.items():
        placed = {"layer": layer} if layer and "layer" in method.defaults else {}
        scored: Any = _absolute_gradient if method.name == "gradient" else method
        chosen[name] = scored, {**overrides.get(method.name, {}), **placed}
    if not chosen:
        raise BadInput("--methods is empty; leave it out for SVEA's nine methods")
    return chosen


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
        "the map is the template itself, and the region lies around its middle: an oracle, not a baseline",
        _template_position,
        oracle=True,
    ),
    Control(
        "argmax_abs",
        "Largest |x|, no network",
        "the region lies at the largest absolute value of the signal; uses no network",
        _argmax_abs,
    ),
    Control("fixed_centre", "Middle of the signal", "the region is always the middle of the signal", _fixed_centre),
    Control(
        "random_window", "Random window", "the region lies anywhere, drawn at random for each signal", _random_window
    ),
)
