"""The camera of a scene: where it stands, what it calls left and behind, and where a point lands in the image.

Only additions, products and square roots are used, which IEEE 754 rounds the same way on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

POSITION = (7.481, -6.508, 5.344)  # before jitter; the camera always looks at the origin
# A 35 mm lens on a 32 mm sensor: a field of view of 49.134 degrees along the longer side of the image.
FOCAL_LENGTH, SENSOR_WIDTH = 35.0, 32.0
FIELD_OF_VIEW = math.degrees(2 * math.atan(SENSOR_WIDTH / 2 / FOCAL_LENGTH))

Vector = tuple[float, float, float]


def axes(position: Sequence[float]) -> tuple[Vector, Vector, Vector]:
    """Return the unit vectors forward, right and up of a camera at ``position`` that looks at the origin."""
    x, y, z = position
    distance, ground = math.sqrt(x * x + y * y + z * z), math.sqrt(x * x + y * y)
    forward = (-x / distance, -y / distance, -z / distance)
    right = (-y / ground, x / ground, 0.0)
    up = (-x * z / (distance * ground), -y * z / (distance * ground), ground / distance)
    return forward, right, up


def directions(position: Sequence[float]) -> dict[str, list[float]]:
    """Return CLEVR's six directions in the scene: the camera's axes laid on the ground, and the vertical."""
    forward, right, _ = axes(position)
    ground = math.sqrt(forward[0] * forward[0] + forward[1] * forward[1])
    behind = [forward[0] / ground, forward[1] / ground, 0.0]
    named = {"right": list(right), "behind": behind, "above": [0.0, 0.0, 1.0]}
    for name, opposite in (("left", "right"), ("front", "behind"), ("below", "above")):
        named[name] = [-component if component else 0.0 for component in named[opposite]]
    return named


def pixels_per_tangent(width: int, height: int) -> float:
    """Return the distance in pixels between the image's centre and a ray at 45 degrees to the camera's axis."""
    return max(width, height) * FOCAL_LENGTH / SENSOR_WIDTH


def project(position: Sequence[float], point: Sequence[float], width: int, height: int) -> Vector:
    """Return where a point of the scene is seen.

    Returns
    -------
    tuple of float
        x and y in pixels from the upper left corner, and the depth along the camera's axis in scene units.
    """
    forward, right, up = axes(position)
    offset = [point[i] - position[i] for i in range(3)]
    depth, across, upward = (sum(axis[i] * offset[i] for i in range(3)) for axis in (forward, right, up))
    scale = pixels_per_tangent(width, height) / depth
    return width / 2 + scale * across, height / 2 - scale * upward, depth
