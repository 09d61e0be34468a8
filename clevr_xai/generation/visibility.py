"""Which object every pixel sees, by marching rays through distance functions: no renderer needed.

Scene sampling uses it to reject scenes with hidden objects. It shares nothing with the renderer but the
form of the solids, so that each can be checked against the other.
"""

from __future__ import annotations

import math

import numpy as np

from clevr_xai import vocabulary
from clevr_xai.generation import camera, shapes

_STEPS = 64
_TOLERANCE = 1e-4  # of a solid's scale; a pixel covers about a hundred times as much


def seen_objects(scene: dict, width: int = 480, height: int = 320) -> np.ndarray:
    """Return the index of the object in front at each pixel's centre.

    Parameters
    ----------
    scene
        In CLEVR's JSON form, with the key ``camera``.
    width, height
        Of the image in pixels.

    Returns
    -------
    (height, width) int8
        Index of the object, -1 for the background.
    """
    position = np.array(scene["camera"])
    forward, right, up = map(np.array, camera.axes(scene["camera"]))
    focal = camera.pixels_per_tangent(width, height)
    nearest = np.full((height, width), np.inf)
    seen = np.full((height, width), -1, np.int8)
    for index, item in enumerate(scene["objects"]):
        size = shapes.scale(item["shape"], vocabulary.SIZES[item["size"]])
        bound = shapes.BOUNDING_RADIUS[item["shape"]] * size
        x, y, depth = camera.project(scene["camera"], item["3d_coords"], width, height)
        reach = focal * bound / (depth - bound) * 1.2 + 1  # off-axis spheres look wider than on the axis
        columns = np.arange(max(0, math.floor(x - reach)), min(width, math.ceil(x + reach)))
        rows = np.arange(max(0, math.floor(y - reach)), min(height, math.ceil(y + reach)))
        if not (columns.size and rows.size):
            continue
        rays = (
            forward * focal
            + right * (columns[None, :, None] + 0.5 - width / 2)
            - up * (rows[:, None, None] + 0.5 - height / 2)
        ).reshape(-1, 3)
        rays /= np.linalg.norm(rays, axis=1, keepdims=True)
        angle = math.radians(item["rotation"])
        turn = np.array([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]])
        origin = (position - np.array(item["3d_coords"])) / size @ turn
        depths = _march(item["shape"], origin, rays @ turn) * size
        depths = depths.reshape(rows.size, columns.size)
        window = np.ix_(rows, columns)
        closer = depths < nearest[window]
        nearest[window] = np.where(closer, depths, nearest[window])
        seen[window] = np.where(closer, np.int8(index), seen[window])
    return seen


def _march(shape: str, origin: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """Return how far along each ray (R, 3) from ``origin`` (3,) the solid lies, infinity where missed."""
    bound = shapes.BOUNDING_RADIUS[shape]
    toward = -(rays @ origin)  # distance along the ray of the point nearest to the solid's centre
    offset = origin @ origin - toward**2
    active = np.flatnonzero(offset < bound * bound)
    half_chord = np.sqrt(bound * bound - offset[active])
    travelled, limit = toward[active] - half_chord, toward[active] + half_chord
    hit = np.full(len(rays), np.inf)
    if shape == "sphere":
        hit[active] = travelled
        return hit
    for _ in range(_STEPS):
        gap = shapes.distance(shape, origin + travelled[:, None] * rays[active])
        arrived = gap < _TOLERANCE
        hit[active[arrived]] = travelled[arrived]
        travelled = travelled + gap
        going = ~arrived & (travelled < limit)
        active, travelled, limit = active[going], travelled[going], limit[going]
        if not active.size:
            break
    return hit


def visible_pixels(scene: dict, width: int = 480, height: int = 320) -> np.ndarray:
    """Return how many pixels of the image each object of the scene shows, as an (n,) int64 array."""
    seen = seen_objects(scene, width, height)
    return np.bincount(seen[seen >= 0].ravel(), minlength=len(scene["objects"]))
