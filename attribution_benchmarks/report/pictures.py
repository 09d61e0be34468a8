"""Pictures of the benchmarks, made small enough to stand inside a page."""

from __future__ import annotations

import base64
import io
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

from attribution_benchmarks.report import painting

_WIDEST = 1600  # pixels; the page shows at most half as many, and screens have two to one
_QUALITY = 82


class Picture(NamedTuple):
    """A picture as a page holds it: ``source`` is a data URL, ``alt`` says what it shows to who cannot see it.

    ``link`` is where the file lies beside the page.
    """

    source: str
    width: int
    height: int
    alt: str
    caption: str
    link: str = ""


def embed(path: pathlib.Path, texts: Mapping[str, tuple[str, str]], title: str = "", link: str = "") -> Picture:
    """Return a PNG as a picture for a page, at most 1,600 pixels wide, as WebP.

    Parameters
    ----------
    path
        The PNG.
    texts
        How a picture's file name begins -> what it shows to who cannot see it, and its caption.
    title
        What to put before the caption, where a benchmark has several pictures of one sort.
    link
        Where the file lies beside the page.
    """
    from PIL import Image

    with Image.open(path) as opened:
        image = opened.convert("RGB")
    if image.width > _WIDEST:
        height = round(image.height * _WIDEST / image.width)
        image = image.resize((_WIDEST, height), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    image.save(stream, "WEBP", quality=_QUALITY, method=painting.EFFORT)
    encoded = base64.b64encode(stream.getvalue()).decode()
    named = path.stem.replace("_", " ")
    keys = path.stem, path.stem.split("_")[0]
    known = next((texts[key] for key in keys if key in texts), (f"Example maps: {named}.", f"{named.capitalize()}."))
    alt, caption = (f"{title}. {text}" if title else text for text in known)
    return Picture(f"data:image/webp;base64,{encoded}", image.width, image.height, alt, caption, link)
