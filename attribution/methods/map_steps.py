"""Steps after a method, by name: what libraries do to a map before they return it.

Each step takes maps ``(N, ...)`` and a module ``xp``, NumPy or one with its functions, so that it can be part of an
exported graph, and returns maps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.methods import resizing

_EPSILON = 1e-7  # Keras's


def _of_images(reduced: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda maps, xp: reduced(maps, xp) if len(maps.shape) == 4 else maps


def _scaled(maps: Any, xp: Any) -> Any:
    axes = tuple(range(1, len(maps.shape)))
    low, high = (extreme(maps, axis=axes, keepdims=True) for extreme in (xp.min, xp.max))
    return (maps - low) / (high - low + _EPSILON)


def _divided_by_max(maps: Any, xp: Any) -> Any:
    high = xp.max(maps, axis=tuple(range(1, len(maps.shape))), keepdims=True)
    return maps / xp.where(high > 0, high, xp.ones_like(high))


def _largest(maps: Any, xp: Any) -> Any:
    return xp.max(maps, axis=-1)


def _mean(maps: Any, xp: Any) -> Any:
    return xp.mean(maps, axis=-1)


# Name to function and words.
_STEPS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "absolute": (lambda maps, xp: xp.abs(maps), "absolute values"),
    "sign": (lambda maps, xp: xp.sign(maps), "the sign"),
    "positive": (lambda maps, xp: xp.maximum(maps, 0), "negative values become 0"),
    "channel_max": (_largest, "the largest channel"),
    "channel_mean": (_mean, "the mean of the channels"),
    "channel_sum": (lambda maps, xp: xp.sum(maps, axis=-1), "the sum of the channels"),
    "image_channel_max": (_of_images(_largest), "the largest channel of images"),
    "image_channel_mean": (_of_images(_mean), "the mean of the channels of images"),
    "scaled": (_scaled, "(map - min) / (max - min + 1e-7)"),
    "divided_by_max": (_divided_by_max, "map / max where the maximum is positive"),
}
# Name to matrix and words.
_RESIZINGS: dict[str, tuple[resizing.Matrix, str]] = {
    "half_pixel_bilinear": (resizing.interpolation_matrix, "bilinear between pixel centres, edges repeat"),
    "aligned_bilinear": (resizing.aligned_matrix, "bilinear with aligned corners"),
    "mirrored_bilinear": (resizing.mirrored_matrix, "bilinear between pixel centres, edges are mirrored"),
    "bicubic": (resizing.bicubic_matrix, "bicubic between pixel centres"),
}


def about(name: str) -> str:
    """Return what a step does, in words."""
    return f"resized {_RESIZINGS[name][1]}" if name in _RESIZINGS else _STEPS[name][1]


def drops_channels(name: str) -> bool:
    """Return whether maps lose the axis of channels, at least those of images."""
    return "channel" in name


def resizes(name: str) -> bool:
    """Return whether a step resizes maps of a layer to the input."""
    return name in _RESIZINGS


def apply(name: str, maps: Any, queries: Any, xp: Any = np) -> Any:
    """Return maps after a step.

    Parameters
    ----------
    name
        Name of the step.
    maps
        ``(N, ...)``.
    queries
        Queries of the inputs, whose positions are the size that maps are resized to.
    xp
        NumPy, or a module with its functions.
    """
    if name in _STEPS:
        return _STEPS[name][0](maps, xp)
    spatial = tuple(queries.inputs.shape[1:-1])
    if None in spatial:
        raise BadInput(f"the model takes inputs of any size {queries.inputs.shape}, this method needs one")
    return resizing.resize(maps, spatial, _RESIZINGS[name][0], xp)
