"""The figures of the poster of CLEVR-XAI: relevance mass accuracy, simple questions, ground truth Single Object.

Mean, standard deviation and median for all correctly answered questions, for those with a softmax above 0.99999, and
for those with a mask of more than 1,000 pixels. The poster states neither its pooling nor the baseline of its
Integrated Gradients, so its one row is listed next to each of ours.
"""

from __future__ import annotations

from typing import NamedTuple

from clevr_xai.methods import BASELINES

METRIC, QUESTIONS, GROUND_TRUTH = "mass", "simple", "single_object"


class _Figure(NamedTuple):
    """Mean, standard deviation and median."""

    mean: float
    std: float
    median: float


_TABLE = {
    "lrp_clevr_xai": ((0.85, 0.17, 0.91), (0.90, 0.09, 0.93), (0.91, 0.09, 0.94)),
    "excitation_backprop": ((0.80, 0.20, 0.87), (0.85, 0.14, 0.90), (0.88, 0.13, 0.92)),
    "integrated_gradients": ((0.71, 0.27, 0.81), (0.75, 0.25, 0.85), (0.80, 0.24, 0.90)),
    "guided_backprop": ((0.58, 0.20, 0.62), (0.63, 0.16, 0.66), (0.76, 0.13, 0.78)),
    "guided_grad_cam": ((0.58, 0.24, 0.63), (0.64, 0.21, 0.68), (0.83, 0.13, 0.86)),
    "smoothgrad": ((0.60, 0.33, 0.69), (0.61, 0.33, 0.72), (0.80, 0.25, 0.91)),
    "vargrad": ((0.58, 0.34, 0.68), (0.60, 0.34, 0.71), (0.80, 0.25, 0.91)),
    "gradient": ((0.49, 0.35, 0.49), (0.51, 0.34, 0.53), (0.82, 0.25, 0.93)),
    "gradient_x_input": ((0.43, 0.34, 0.37), (0.44, 0.34, 0.39), (0.77, 0.27, 0.89)),
    "deconvnet": ((0.18, 0.16, 0.13), (0.18, 0.16, 0.13), (0.42, 0.21, 0.41)),
    "grad_cam": ((0.09, 0.10, 0.05), (0.10, 0.10, 0.07), (0.29, 0.10, 0.28)),
}
_SUBSETS = ("all", "confident", "large_mask")


def figure(method: str, metric: str, questions: str, ground_truth: str, subset: str) -> _Figure | None:
    """Return the poster's figure for a row of our table, None where it has none."""
    method = "integrated_gradients" if method in BASELINES else method
    if (metric, questions, ground_truth) != (METRIC, QUESTIONS, GROUND_TRUTH) or method not in _TABLE:
        return None
    return _Figure(*_TABLE[method][_SUBSETS.index(subset)])
