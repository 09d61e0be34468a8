"""Scenes sampled under CLEVR's constraints, in CLEVR's JSON form, one seed a scene.

Johnson et al., CVPR 2017, and the scene generator of CLEVR-XAI: 3 to 10 objects at x, y in (-3, 3), at a minimum
distance, clearly left or right and in front of or behind each other, with 200 visible pixels each. ``camera`` and
``lights`` (positions after jitter) are added to CLEVR's keys, so that a scene can be rendered from its JSON alone.
"""

from __future__ import annotations

import math
import random

from clevr_xai import vocabulary
from clevr_xai.generation import geometry

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

BACKGROUND = (64, 64, 64)
# One flat colour an object in the mask images, in the order of the objects: 8-bit sRGB, far from each other
# and from the background.
MASK_COLORS = (
    (230, 25, 75),
    (60, 180, 75),
    (255, 225, 25),
    (0, 110, 220),
    (245, 130, 48),
    (145, 30, 180),
    (70, 240, 240),
    (240, 50, 230),
    (210, 245, 180),
    (0, 0, 0),
)


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
    position = _jittered(rng, geometry.CAMERA, CAMERA_JITTER)
    scene = {
        "split": SPLIT,
        "image_index": index,
        "image_filename": filename,
        "mask_filename": filename,
        "camera": position,
        "lights": {name: _jittered(rng, at, LIGHT_JITTER) for name, at in LIGHTS.items()},
        "directions": geometry.directions(position),
    }
    number = rng.randint(*OBJECTS)
    while True:
        scene["objects"] = _place(rng, number, scene["directions"])
        if scene["objects"] and (geometry.visible_pixels(scene, *PIXELS_AT) >= MIN_PIXELS + PIXELS_TO_SPARE).all():
            break
    for item, color in zip(scene["objects"], MASK_COLORS, strict=False):
        x, y, depth = geometry.project(position, item["3d_coords"], width, height)
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
        height = geometry.solid_scale(shape, radius)
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


def linear(component: int) -> float:
    """Return an 8-bit sRGB component as linear light in [0, 1] (IEC 61966-2-1)."""
    value = component / 255
    return value / 12.92 if value < 0.0405 else ((value + 0.055) / 1.055) ** 2.4
