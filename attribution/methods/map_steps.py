"""Steps after a method, by name: what libraries do to a map before they return it.

Each step takes maps ``(N, ...)`` and returns maps. They compute with ``xp``, NumPy or a module with its functions, so
that they can be part of an exported graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.methods import resizing

_EPSILON = 1e-7  # Keras's


def absolute(maps: Any, xp: Any) -> Any:
    """Absolute values."""
    return xp.abs(maps)


def positive(maps: Any, xp: Any) -> Any:
    """Negative values become 0."""
    return xp.maximum(maps, 0)


def channel_max(maps: Any, xp: Any) -> Any:
    """The largest channel."""
    return xp.max(maps, axis=-1)


def channel_mean(maps: Any, xp: Any) -> Any:
    """The mean over channels."""
    return xp.mean(maps, axis=-1)


def channel_sum(maps: Any, xp: Any) -> Any:
    """The sum over channels."""
    return xp.sum(maps, axis=-1)


def image_channel_max(maps: Any, xp: Any) -> Any:
    """The largest channel of images; signals and vectors keep theirs."""
    return channel_max(maps, xp) if maps.ndim == 4 else maps


def image_channel_mean(maps: Any, xp: Any) -> Any:
    """The mean over channels of images; signals and vectors keep theirs."""
    return channel_mean(maps, xp) if maps.ndim == 4 else maps


def scaled_to_one(maps: Any, xp: Any) -> Any:
    """(map - min) / (max - min + 1e-7), each map."""
    axes = tuple(range(1, maps.ndim))
    low, high = (extreme(maps, axis=axes, keepdims=True) for extreme in (xp.min, xp.max))
    return (maps - low) / (high - low + _EPSILON)


def divided_by_max(maps: Any, xp: Any) -> Any:
    """map / max, each map whose largest value is positive."""
    high = xp.max(maps, axis=tuple(range(1, maps.ndim)), keepdims=True)
    return maps / xp.where(high > 0, high, xp.ones_like(high))


_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    function.__name__: function
    for function in (
        absolute, positive, channel_max, channel_mean, channel_sum, image_channel_max, image_channel_mean,
        scaled_to_one, divided_by_max,
    )
}  # fmt: skip


_RESIZINGS: dict[str, tuple[resizing.Matrix, str]] = {
    "half_pixel_bilinear": (resizing.interpolation_matrix, "Bilinear, between pixel centres; edges repeat."),
    "aligned_bilinear": (resizing.aligned_matrix, "Bilinear, with aligned corners."),
    "mirrored_bilinear": (resizing.mirrored_matrix, "Bilinear, between pixel centres; edges are mirrored."),
    "bicubic": (resizing.bicubic_matrix, "Bicubic, between pixel centres; may be negative beside a high value."),
}


def about(name: str) -> str:
    """Return what a step does, in words."""
    return _RESIZINGS[name][1] if name in _RESIZINGS else str(_STEPS[name].__doc__)


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
        return _STEPS[name](maps, xp)
    spatial = tuple(queries.inputs.shape[1:-1])
    if None in spatial:
        raise BadInput(f"the model takes inputs of any size {queries.inputs.shape}, this method needs one")
    return resizing.resize(maps, spatial, _RESIZINGS[name][0], xp)
