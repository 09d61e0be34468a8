"""The poster's three subsets of the correctly answered questions: all, confident answers, and large objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from clevr_xai.measured import Measured

SUBSETS = ("all", "confident", "large_mask")
CONFIDENCE = 0.99999
MASK_PIXELS = 1000


def members(measured: Measured, subset: str, ground_truth: str, confidence: float, pixels: int) -> np.ndarray | None:
    """Return which questions belong to a subset.

    Parameters
    ----------
    measured
        Numbers of n questions.
    subset
        One of ``SUBSETS``.
    ground_truth
        Whose mask counts, and must exist.
    confidence
        Bound of the softmax, exclusive.
    pixels
        Bound of the mask's size, exclusive.

    Returns
    -------
    (n,) bool
        None for "confident" where no network was asked.
    """
    counted = measured.right & (measured.pixels[ground_truth] > 0)
    if subset == "confident":
        return None if measured.confidence is None else counted & (measured.confidence > confidence)
    return counted & (measured.pixels[ground_truth] > pixels) if subset == "large_mask" else counted


def title(subset: str, confidence: float, pixels: int) -> str:
    """Return what a subset is called above its table."""
    return {
        "all": "all questions",
        "confident": f"softmax > {confidence:g}",
        "large_mask": f"mask > {pixels:,} px",
    }[subset]
