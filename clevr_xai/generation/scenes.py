"""Scenes sampled under CLEVR's constraints, in CLEVR's JSON form, one seed a scene.

Johnson et al., CVPR 2017, and the scene generator of CLEVR-XAI: 3 to 10 objects at x, y in (-3, 3), at a minimum
distance, clearly left or right and in front of or behind each other, with 200 visible pixels each. ``camera`` and
``lights`` (positions after jitter) are added to CLEVR's keys, so that a scene can be rendered from its JSON alone.

Geometry: the camera, the three solids as distance functions, and the object that each pixel shows. Visibility is
computed by marching rays through the distance functions; scenes with hidden objects are rejected by it. It shares only
the form of the solids with the renderer, so that each can be checked against the other. The camera uses only additions,
products and square roots, which IEEE 754 rounds the same way on every machine. A solid is described in units of its
scale, centred at the origin: the sphere has radius 1, the cube half side 1, the cylinder radius and half height 1.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from clevr_xai import vocabulary
from clevr_xai.masks import linear
from clevr_xai.vocabulary import SIZES

Vector = tuple[float, float, float]

CAMERA = (7.481, -6.508, 5.344)  # position before jitter; the camera always looks at the origin
# A 35 mm lens on a 32 mm sensor: a field of view of 49.134 degrees along the longer side of the image.
FOCAL_LENGTH, SENSOR_WIDTH = 35.0, 32.0
FIELD_OF_VIEW = math.degrees(2 * math.atan(SENSOR_WIDTH / 2 / FOCAL_LENGTH))
BEVEL = {"cube": 0.18, "cylinder": 0.14}  # radius of the rounded edges in units of the solid's scale
BOUNDING_RADIUS = {"sphere": 1.0, "cube": 3**0.5, "cylinder": 2**0.5}
_STEPS = 64
_TOLERANCE = 1e-4  # of a solid's scale; a pixel covers about a hundred times as much


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


def _pixels_per_tangent(width: int, height: int) -> float:
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
    scale = _pixels_per_tangent(width, height) / depth
    return width / 2 + scale * across, height / 2 - scale * upward, depth


def solid_scale(shape: str, radius: float) -> float:
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
    forward, right, up = map(np.array, axes(scene["camera"]))
    focal = _pixels_per_tangent(width, height)
    nearest = np.full((height, width), np.inf)
    seen = np.full((height, width), -1, np.int8)
    for index, item in enumerate(scene["objects"]):
        size = solid_scale(item["shape"], SIZES[item["size"]])
        bound = BOUNDING_RADIUS[item["shape"]] * size
        x, y, depth = project(scene["camera"], item["3d_coords"], width, height)
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
    bound = BOUNDING_RADIUS[shape]
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
        gap = distance(shape, origin + travelled[:, None] * rays[active])
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


SPLIT = "unique"  # as in the official file names: CLEVR_unique_000000.png
OBJECTS = (3, 10)
AREA = 3.0
MIN_DISTANCE = 0.25  # between the rims of two objects
MARGIN = 0.4  # between two centres along each of left, right, front, behind
RELATION_MARGIN = 0.2
RETRIES = 50
CAMERA_JITTER, LIGHT_JITTER = 0.5, 1.0
LIGHTS = {  # position before jitter
    "key": (6.447, -2.905, 4.258),
    "fill": (-4.671, -4.014, 3.011),
    "back": (-1.169, 2.646, 5.816),
}
MIN_PIXELS = 200
PIXELS_AT = (480, 320)
# The renderer's meshes are slightly smaller than the ideal solids and may lose a pixel or two on the rim.
PIXELS_TO_SPARE = 6

# One flat colour an object in the mask images, in the order of the objects: 8-bit sRGB, far from each other
# and from the background.
MASK_COLORS = (
    (230, 25, 75), (60, 180, 75), (255, 225, 25), (0, 110, 220), (245, 130, 48),
    (145, 30, 180), (70, 240, 240), (240, 50, 230), (210, 245, 180), (0, 0, 0),
)  # fmt: skip


def sample_scene(seed: int, index: int, width: int = 480, height: int = 320) -> dict:
    """Sample one scene.

    Parameters
    ----------
    seed, index
        Of the run and of the image; they determine the scene, whatever the image's size.
    width, height
        Of the image in pixels: what ``pixel_coords`` refer to.

    Returns
    -------
    dict
        ``split``, ``image_index``, ``image_filename``, ``mask_filename``, ``objects``, ``directions``,
        ``relationships`` as in CLEVR, and ``camera`` and ``lights``.
    """
    rng = random.Random(f"clevr_xai scene {seed} {index}")
    filename = f"CLEVR_{SPLIT}_{index:06d}.png"
    position = _jittered(rng, CAMERA, CAMERA_JITTER)
    scene = {
        "split": SPLIT,
        "image_index": index,
        "image_filename": filename,
        "mask_filename": filename,
        "camera": position,
        "lights": {name: _jittered(rng, at, LIGHT_JITTER) for name, at in LIGHTS.items()},
        "directions": directions(position),
    }
    number = rng.randint(*OBJECTS)
    while True:
        scene["objects"] = _place(rng, number, scene["directions"])
        if scene["objects"] and (visible_pixels(scene, *PIXELS_AT) >= MIN_PIXELS + PIXELS_TO_SPARE).all():
            break
    for item, color in zip(scene["objects"], MASK_COLORS, strict=False):
        x, y, depth = project(position, item["3d_coords"], width, height)
        item["pixel_coords"] = [round(x), round(y), depth]
        item["mask_color"] = [linear(component) for component in color]
    scene["relationships"] = _relationships(scene)
    return scene


def _jittered(rng: random.Random, position, amplitude: float) -> list[float]:
    """Return a position moved by up to ``amplitude`` along each axis."""
    return [round(component + rng.uniform(-amplitude, amplitude), 6) for component in position]


def _place(rng: random.Random, number: int, directions: dict) -> list[dict]:
    """Return ``number`` objects with their positions, or an empty list if one did not fit in 50 tries."""
    placed = []
    rims = []
    for _ in range(number):
        size, radius = rng.choice(list(vocabulary.SIZES.items()))
        for _ in range(RETRIES):
            x, y = round(rng.uniform(-AREA, AREA), 6), round(rng.uniform(-AREA, AREA), 6)
            if all(_apart(x - other_x, y - other_y, radius + rim, directions) for other_x, other_y, rim in rims):
                break
        else:
            return []
        shape = rng.choice(vocabulary.SHAPES)
        height = solid_scale(shape, radius)
        placed.append(
            {
                "shape": shape,
                "size": size,
                "color": rng.choice(list(vocabulary.COLORS)),
                "material": rng.choice(vocabulary.MATERIALS),
                "3d_coords": [x, y, height],
                "rotation": round(rng.uniform(0.0, 360.0), 6),
            }
        )
        rims.append((x, y, height))
    return placed


def _apart(dx: float, dy: float, radii: float, directions: dict) -> bool:
    """Return whether two objects keep CLEVR's distance and are clearly ordered along both ground axes."""
    if math.sqrt(dx * dx + dy * dy) - radii < MIN_DISTANCE:
        return False
    return all(abs(dx * directions[name][0] + dy * directions[name][1]) >= MARGIN for name in ("right", "behind"))


def _relationships(scene: dict) -> dict[str, list[list[int]]]:
    """Return for each relation and object the sorted indices of the objects in that relation to it.

    Object j is listed under ``["left"][i]`` when it lies more than 0.2 to the left of object i.
    """
    centres = [item["3d_coords"] for item in scene["objects"]]
    related = {}
    for name in vocabulary.RELATIONS:
        x, y, _ = scene["directions"][name]
        along = [centre[0] * x + centre[1] * y for centre in centres]
        related[name] = [
            [other for other, there in enumerate(along) if there - here > RELATION_MARGIN] for here in along
        ]
    return related
