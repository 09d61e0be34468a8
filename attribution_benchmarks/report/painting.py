"""Paints maps over pictures, and packs pictures for a page: WebP inside the page, nothing to ask for."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

# A ramp whose lightness rises evenly, so that it reads in grey and by colour-blind eyes; from nothing to most.
RAMP = ("#03051a", "#2b1c45", "#5b1e5a", "#921c5b", "#c8244f", "#ea4a3e", "#f4875f", "#f6b48f", "#faebdd")
OUTLINE = "#19e3ff"  # seen against the ramp and most pictures
EFFORT = 2  # of WebP, from 0 to 6: pictures are a fiftieth larger than by the usual 4, in half of the time
_ZERO = 127  # of maps with a sign, see ``scoring.shown.MapPicture``


def coloured(map_bytes: np.ndarray) -> np.ndarray:
    """Return a map in the ramp's colours, (H, W, 3) float64 from 0 to 255."""
    stops = np.array([[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in RAMP], float)
    places = np.linspace(0, 255, len(stops))
    return np.stack([np.interp(map_bytes, places, stops[:, channel]) for channel in range(3)], axis=-1)


def laid_over(picture: np.ndarray, map_bytes: np.ndarray, strength: float = 0.85) -> np.ndarray:
    """Return a picture in grey with a map over it: the stronger the map, the more of its colour; (H, W, 3) uint8."""
    from PIL import Image

    height, width = picture.shape[:2]
    fitted = np.asarray(Image.fromarray(map_bytes).resize((width, height), Image.Resampling.BILINEAR))
    grey = np.repeat(picture.mean(axis=2, keepdims=True), 3, axis=2) * 0.75 + 40
    share = strength * np.sqrt(fitted[..., None] / 255.0)
    return np.clip(grey * (1 - share) + coloured(fitted) * share, 0, 255).astype(np.uint8)


def outline(mask: np.ndarray) -> str:
    """Return the edges of a mask's pixels as an SVG path in units of pixels; runs are one line each.

    Parameters
    ----------
    mask
        (H, W) bool.
    """
    padded = np.pad(np.asarray(mask, bool), 1)
    parts = []
    for edges, across in ((padded[1:, :] != padded[:-1, :], True), (padded[:, 1:] != padded[:, :-1], False)):
        lines = edges if across else edges.T
        for place, line in enumerate(lines):
            ends = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(int)))
            for start, end in zip(ends[::2], ends[1::2], strict=True):
                x, y = (start - 1, place) if across else (place, start - 1)
                parts.append(f"M{x} {y}{'h' if across else 'v'}{end - start}")
    return "".join(parts)


def webp(pixels: np.ndarray, quality: int = 82) -> str:
    """Return (H, W) or (H, W, 3) uint8 as a data URL."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(stream, "WEBP", quality=quality, method=EFFORT)
    return f"data:image/webp;base64,{base64.b64encode(stream.getvalue()).decode()}"


def sheet(pictures: Sequence[np.ndarray] | np.ndarray, columns: int = 8) -> np.ndarray:
    """Return pictures of one size side by side, so many a line; what is left over is zero."""
    stacked = np.asarray(pictures)
    lines = -(-len(stacked) // columns)
    blank = np.zeros((lines * columns - len(stacked), *stacked.shape[1:]), stacked.dtype)
    grid = np.concatenate([stacked, blank]).reshape(lines, columns, *stacked.shape[1:])
    height, width = stacked.shape[1:3]
    return np.swapaxes(grid, 1, 2).reshape(lines * height, columns * width, *stacked.shape[3:])


def line_of(values: np.ndarray, top: float, height: float) -> str:
    """Return numbers as an SVG polyline's points, one unit apart, the largest at ``top``; ``height`` is the span."""
    values = np.asarray(values, float)
    low, span = values.min(), np.ptp(values) or 1.0
    return " ".join(f"{place}.5,{top + height * (1 - (value - low) / span):.1f}" for place, value in enumerate(values))


def signal_svg(signal: Any, truth: Any, map_bytes: np.ndarray | None) -> str:
    """Return a signal above its map as SVG, 60 units high; the true place is a band."""
    count = len(signal)
    parts = [f'<svg class="signal" viewBox="0 0 {count} 60" preserveAspectRatio="none" aria-hidden="true">']
    if truth is not None:
        parts += [f'<rect class="true" x="{place}" y="0" width="1" height="60"/>' for place in np.flatnonzero(truth)]
    parts.append(f'<polyline class="wave" points="{line_of(signal, 3, 30)}"/>')
    if map_bytes is not None:
        bars = (np.asarray(map_bytes, float) - _ZERO) / (255 - _ZERO)
        for place, value in enumerate(bars):
            if abs(value) > 0.01:
                sign = "plus" if value > 0 else "minus"
                top = 50 - 10 * max(value, 0)
                parts.append(f'<rect class="{sign}" x="{place + 0.1:.1f}" y="{top:.1f}" width=".8" '
                             f'height="{10 * abs(value):.1f}"/>')  # fmt: skip
    return "".join([*parts, "</svg>"])
