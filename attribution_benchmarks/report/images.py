"""Images inside the page, as WebP data URLs, and the outlines of masks."""

from __future__ import annotations

import base64
import io
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attribution_benchmarks.core.report_text import PictureText

# Colour map of evenly increasing lightness, readable in grey and with colour blindness.
RAMP = ("#03051a", "#2b1c45", "#5b1e5a", "#921c5b", "#c8244f", "#ea4a3e", "#f4875f", "#f6b48f", "#faebdd")
_EFFORT = 2  # of WebP, 0 to 6: 2 % larger than by the default 4, in half of the time
_WIDEST = 1600  # pixels; the page shows at most half as many, and dense screens have two per CSS pixel


def outline(mask: np.ndarray) -> str:
    """Return the edges of a mask, (H, W) bool, as an SVG path in units of pixels."""
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
    Image.fromarray(np.ascontiguousarray(pixels)).save(stream, "WEBP", quality=quality, method=_EFFORT)
    return f"data:image/webp;base64,{base64.b64encode(stream.getvalue()).decode()}"


def sheet(pictures: Sequence[np.ndarray] | np.ndarray, columns: int = 8) -> np.ndarray:
    """Return pictures of one size in a grid; empty places are zero."""
    stacked = np.asarray(pictures)
    lines = -(-len(stacked) // columns)
    blank = np.zeros((lines * columns - len(stacked), *stacked.shape[1:]), stacked.dtype)
    grid = np.concatenate([stacked, blank]).reshape(lines, columns, *stacked.shape[1:])
    height, width = stacked.shape[1:3]
    return np.swapaxes(grid, 1, 2).reshape(lines * height, columns * width, *stacked.shape[3:])


class Picture(NamedTuple):
    """A picture of the page."""

    source: str  # data URL
    width: int  # pixels
    height: int
    alt: str  # text alternative
    caption: str
    link: str = ""  # path of the file relative to the page


def embed(path: pathlib.Path, texts: Mapping[str, PictureText], title: str = "", link: str = "") -> Picture:
    """Return a PNG as a picture of the page, at most 1,600 pixels wide.

    ``texts`` are file name, or its first word -> its text. ``title`` precedes both, if a benchmark
    has several pictures of one name.
    """
    from PIL import Image

    with Image.open(path) as opened:
        image = opened.convert("RGB")
    if image.width > _WIDEST:
        height = round(image.height * _WIDEST / image.width)
        image = image.resize((_WIDEST, height), Image.Resampling.LANCZOS)
    named = path.stem.replace("_", " ")
    keys = path.stem, path.stem.split("_")[0]
    unknown = PictureText(alt=f"Example maps: {named}.", caption=f"{named.capitalize()}.")
    known = next((texts[key] for key in keys if key in texts), unknown)
    alt, caption = (f"{title}. {text}" if title else text for text in (known.alt, known.caption))
    return Picture(webp(np.asarray(image)), image.width, image.height, alt, caption, link)
