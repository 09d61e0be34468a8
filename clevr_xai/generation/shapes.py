"""The three solids with their bevelled edges, as distance functions; the renderer's meshes follow the same form.

A solid is described in units of its own scale, centred at the origin: the sphere has radius 1, the cube
half side 1, the cylinder radius and half height 1.
"""

from __future__ import annotations

import numpy as np

BEVEL = {"cube": 0.18, "cylinder": 0.14}  # radius of the rounded edges in units of the solid's scale
BOUNDING_RADIUS = {"sphere": 1.0, "cube": 3**0.5, "cylinder": 2**0.5}


def scale(shape: str, radius: float) -> float:
    """Return the solid's scale: CLEVR shrinks cubes so that their ground plan has the size's radius."""
    return radius / 2**0.5 if shape == "cube" else radius


def distance(shape: str, points: np.ndarray) -> np.ndarray:
    """Return the signed distance of points to a solid's surface, negative inside.

    Parameters
    ----------
    shape
        "cube", "sphere" or "cylinder".
    points : (..., 3) float64
        In units of the solid's scale, relative to its centre.

    Returns
    -------
    (...) float64
    """
    if shape == "sphere":
        return np.sqrt(np.einsum("...i,...i", points, points)) - 1.0
    edge = np.abs(points)
    if shape == "cylinder":
        across = np.sqrt(points[..., 0] ** 2 + points[..., 1] ** 2)
        edge = np.stack([across, edge[..., 2]], axis=-1)
    edge = edge - (1.0 - BEVEL[shape])
    outside = np.maximum(edge, 0.0)
    return np.sqrt(np.einsum("...i,...i", outside, outside)) + np.minimum(edge.max(axis=-1), 0.0) - BEVEL[shape]
