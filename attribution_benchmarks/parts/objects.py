"""Drawings of objects with five parts, layer by layer, so that any part or background object can be omitted.

An image is composed of layers: the ground, background objects, and the object's parts and body. Leaving out a layer
shows what is behind it, as if the part had never been drawn. Coordinates of the object run from -1 to 1, x to the right
and y down.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attribution_benchmarks.drawing.canvas import Canvas, brightness_field, palette
from attribution_benchmarks.metrics.descriptions import read_toml
from attribution_benchmarks.parts.classes import CLASSES, PARTS
from attribution_benchmarks.stats.coalitions import coalitions

SIDE = 48
BACKGROUND_OBJECTS = 4  # at most
_BODY = "body"
_ORDER = ("tail", "feet", _BODY, "wing", "crest", "eye")  # from back to front, all in front of background objects
LAYERS = (*(f"object_{number}" for number in range(BACKGROUND_OBJECTS)), *_ORDER)
SPLITS = ("train", "choice", "test")  # "choice" is for thresholds and for choosing networks

_DRAWN = read_toml(pathlib.Path(__file__).with_name("shapes.toml"))  # also the names of colors


def _part(canvas: Canvas, shapes: Sequence[tuple[Any, ...]], shift: np.ndarray) -> None:
    """Draw the shapes of a part, with colors that are shifted by (3,) numbers."""
    for method, *where, color in shapes:
        getattr(canvas, method)(*where, np.array(_DRAWN["colors"][color], float) + shift)


def _body(canvas: Canvas, color: np.ndarray) -> None:
    canvas.ellipse((0, 0.12), (0.52, 0.38), color)
    canvas.limb([(0.2, 0.0), (0.5, -0.3)], 0.4, 0.4, color)
    canvas.ellipse((0.5, -0.32), 0.3, color)


def _background_object(canvas: Canvas, rng: np.random.Generator) -> None:
    """Draw a stone, a plant, a crate or a mushroom around the origin."""
    color, other, _ = palette(rng)
    kind = rng.integers(4)
    if kind == 0:
        canvas.blob(np.stack([[-1, 0.5], [-0.6, -0.5], [0.5, -0.7], [1, 0.4]]), color)
    elif kind == 1:
        for tip in (-0.8, 0, 0.8):
            canvas.limb([(0, 0.9), (tip / 2, 0), (tip, -0.9)], 0.4, 0.15, color)
    elif kind == 2:
        canvas.rectangle(-0.8, -0.8, 0.8, 0.8, color)
        canvas.line([(-0.8, -0.8), (0.8, 0.8)], 0.25, other)
    else:
        canvas.rectangle(-0.2, 0, 0.2, 0.9, other)
        canvas.ellipse((0, -0.1), (0.9, 0.55), color)


def _ground(rng: np.random.Generator, busy: bool) -> np.ndarray:
    """Return a plain, uneven ground, or a busy one of stripes and spots, (SIDE, SIDE, 3) float32."""
    first, second, third = palette(rng)
    canvas = Canvas(2 * SIDE, first)
    if busy:
        slope = rng.uniform(-0.4, 0.4)
        for y in np.arange(-0.5, 1.5, rng.uniform(0.15, 0.3)):
            canvas.line([(-0.1, y), (1.1, y + slope)], rng.uniform(0.03, 0.09), third)
        for _ in range(rng.integers(8, 16)):
            color = second if rng.random() < 0.5 else third
            canvas.ellipse(rng.random(2), rng.uniform(0.02, 0.06, 2), color)
    return canvas.picture(reduce=2) * brightness_field(SIDE, rng)[..., np.newaxis]


def _layer(pose: np.ndarray, draw: Callable[[Canvas], object]) -> np.ndarray:
    """Return what a function draws, as colors times coverage and coverage of 0 to 255, (SIDE, SIDE, 4) uint8."""
    canvas = Canvas(2 * SIDE, pose=pose)
    draw(canvas)
    coverage = canvas.silhouette().reshape(SIDE, 2, SIDE, 2).mean(axis=(1, 3)) * 255
    return np.concatenate([canvas.picture(reduce=2), coverage[..., np.newaxis]], axis=2).astype(np.uint8)


@dataclasses.dataclass(frozen=True)
class Drawing:
    """The layers of one image.

    Attributes
    ----------
    label
        Number of its class in ``CLASSES``.
    variants
        (5,) int, the variant of each part.
    ground
        (SIDE, SIDE, 3) float32 of 0 to 255, with the noise of the image.
    layers
        (len(LAYERS), SIDE, SIDE, 4) uint8: colors times coverage, coverage.
    busy
        Whether the ground has stripes and spots.
    """

    label: int
    variants: np.ndarray
    ground: np.ndarray
    layers: np.ndarray
    busy: bool


@functools.lru_cache(maxsize=512)  # 50 MB; each network sees the same images
def draw(split: str, number: int, seed: int = 0) -> Drawing:
    """Draw one image of a split; the same whatever the others. Classes and kinds of ground take turns."""
    rng = np.random.default_rng([seed, SPLITS.index(split), number])
    label, busy = number % len(CLASSES), number // len(CLASSES) % 2 == 1
    combinations = tuple(CLASSES.values())[label]
    variants = np.array(combinations[rng.integers(len(combinations))])
    ground = _ground(rng, busy)
    count = BACKGROUND_OBJECTS if busy else BACKGROUND_OBJECTS // 2
    layers = [_placed_object(rng, number < count) for number in range(BACKGROUND_OBJECTS)]
    pose, body, shift = _pose(rng), 0.6 * palette(rng)[0] + 60, rng.uniform(-18, 18, 3)
    chosen = {name: _DRAWN[name][variant]["shapes"] for name, variant in zip(PARTS, variants, strict=True)}
    for name in _ORDER:
        if name == _BODY:
            layers.append(_layer(pose, functools.partial(_body, color=body)))
        else:
            layers.append(_layer(pose, functools.partial(_part, shapes=chosen[name], shift=shift)))
    noise = rng.standard_normal((SIDE, SIDE, 1)) * rng.uniform(1, 4)
    return Drawing(label, variants, (ground + noise).astype(np.float32), np.stack(layers), busy)


def _placed_object(rng: np.random.Generator, there: bool) -> np.ndarray:
    """Return the layer of a background object near the edge of the image, empty unless it is ``there``."""
    along, size = rng.random(), rng.uniform(0.07, 0.12)
    near = rng.uniform(0.06, 0.14)
    place = [(near, along), (1 - near, along), (along, near), (along, 1 - near)][rng.integers(4)]
    pose = np.array([[size, 0, place[0]], [0, size, place[1]]])
    return _layer(pose, lambda canvas: _background_object(canvas, rng) if there else None)


def _pose(rng: np.random.Generator) -> np.ndarray:
    """Return a random place, size, tilt and direction of the object, (2, 3)."""
    scale, tilt, mirror = rng.uniform(0.36, 0.43), rng.uniform(-0.2, 0.2), rng.choice([-1.0, 1.0])
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]]) @ np.diag([mirror, 1.0])
    return np.concatenate([scale * turn, rng.uniform(0.44, 0.56, (2, 1))], axis=1)


def compose(ground: np.ndarray, layers: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return images of some layers, (N, SIDE, SIDE, 3) float32 of 0 to 1.

    Parameters
    ----------
    ground
        (N or 1, SIDE, SIDE, 3) float32 of 0 to 255.
    layers
        (N or 1, layers, SIDE, SIDE, 4) uint8 from back to front.
    kept
        (N, layers) bool, which layers are there.
    """
    found = np.broadcast_to(ground, (len(kept), *ground.shape[1:])).astype(np.float32)
    for number in range(layers.shape[1]):
        layer = layers[:, number].astype(np.float32) * kept[:, number, np.newaxis, np.newaxis, np.newaxis]
        found = found * (1 - layer[..., 3:] / 255) + layer[..., :3]
    return np.rint(np.clip(found, 0, 255)) / np.float32(255)


def images_of(drawing: Drawing, kept: np.ndarray) -> np.ndarray:
    """Return images of one drawing with some layers, (N, SIDE, SIDE, 3) float32 of 0 to 1; ``kept`` as ``compose``."""
    return compose(drawing.ground[np.newaxis], drawing.layers[np.newaxis], kept)


def kept_layers(present: np.ndarray) -> np.ndarray:
    """Return which layers are there where some parts are, (N, layers) bool, of (N, 5) bool; all others are there."""
    kept = np.ones((len(present), len(LAYERS)), bool)
    kept[:, [LAYERS.index(part) for part in PARTS]] = present
    return kept


def interventions(drawing: Drawing) -> np.ndarray:
    """Return the images of all 32 sets of parts, then those without one background object each.

    (32 + 4, SIDE, SIDE, 3) float32 of 0 to 1; the sets are in the order of ``coalitions``.
    """
    without = 1 - np.eye(len(LAYERS), dtype=int)[:BACKGROUND_OBJECTS]
    return images_of(drawing, np.concatenate([kept_layers(coalitions(len(PARTS))), without > 0]))


def masks_of(drawing: Drawing) -> np.ndarray:
    """Return the pixels that each layer of ``LAYERS`` changes, (layers, SIDE, SIDE) bool.

    They are those that differ without it; the body's without those of the parts.
    """
    kept = np.concatenate([np.ones((1, len(LAYERS)), bool), ~np.eye(len(LAYERS), dtype=bool)])
    whole, *others = images_of(drawing, kept)
    found = (np.stack(others) != whole).any(axis=3)
    body = LAYERS.index(_BODY)
    found[body] &= ~np.delete(found, body, axis=0).any(axis=0)
    return found
