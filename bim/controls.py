"""Maps that know nothing of the model: what a method must beat to have explained something."""

from __future__ import annotations

import numpy as np

from attribution import METHODS, Method


def centre_prior(passes) -> np.ndarray:
    """Return a Gaussian around the centre, with a quarter of the side as its standard deviation; (N, H, W)."""
    count, height, width = passes.inputs.shape[:3]
    rows, columns = (np.exp(-0.5 * np.square(np.linspace(-2, 2, size))) for size in (height, width))
    return np.broadcast_to(np.outer(rows, columns), (count, height, width))


def edge_detector(passes) -> np.ndarray:
    """Return the magnitude of the image's Sobel gradient, averaged over the colours; (N, H, W)."""
    padded = np.pad(passes.inputs.mean(axis=3), ((0, 0), (1, 1), (1, 1)), mode="edge")
    smooth_rows = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    smooth_columns = padded[:, :, :-2] + 2 * padded[:, :, 1:-1] + padded[:, :, 2:]
    across = smooth_rows[:, :, 2:] - smooth_rows[:, :, :-2]
    down = smooth_columns[:, 2:] - smooth_columns[:, :-2]
    return np.hypot(across, down)


CONTROLS = {
    "random": Method("random", "Random map", METHODS["random"].function, METHODS["random"].facts),
    "centre_prior": Method("centre_prior", "Centre prior", centre_prior),
    "edge_detector": Method("edge_detector", "Edge detector", edge_detector),
}
