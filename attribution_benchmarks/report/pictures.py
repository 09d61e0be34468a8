"""Pictures of the benchmarks, made small enough to stand inside a page."""

from __future__ import annotations

import base64
import io
import pathlib
from typing import NamedTuple

_WIDEST = 1600  # pixels; the page shows at most half as many, and screens have two to one
_QUALITY = 82


class Picture(NamedTuple):
    """A picture as a page holds it: ``source`` is a data URL, ``alt`` says what it shows to who cannot see it."""

    source: str
    width: int
    height: int
    alt: str
    caption: str


# (benchmark, file's stem or how it begins) -> (alternative text, caption)
_TEXTS = {
    ("svea", "examples"): (
        "A grid of curves: a line for each method, a column for each of six test signals. Each cell shows the signal "
        "in black, the map as a blue area below it, the region of explanation as a yellow band and the place of the "
        "true shape as a green bar.",
        "Six test signals, three classified rightly and three wrongly, with every method's map and its region of "
        "explanation. A good region covers the green bar.",
    ),
    ("svea", "roe"): (
        "Left: bars of the ROE test for methods and controls. Right: for each of them, how often its windows lie how "
        "far from the true shape.",
        "The ROE test, and where the regions lie: a dark stripe at zero means that a method finds the shape.",
    ),
    ("bim", "mcs_examples"): (
        "Rows of images of objects on scenes, each with the maps of all methods under the network of objects and under "
        "the network of scenes; the object is outlined.",
        "Model contrast: the same image explained to the network of objects (first row of each pair) and to that of "
        "scenes (second row). The outlined object should be bright in the first only.",
    ),
    ("bim", "idr_examples"): (
        "Rows of scenes with and without a pasted object, each with the maps of all methods under the network of "
        "scenes; the place of the object is outlined.",
        "Input dependence: a scene with the object and without it, under the network of scenes. The outlined place "
        "should be darker where the object covers it.",
    ),
    ("bim", "iir_examples"): (
        "Rows of scenes with and without a patch that changes no answer, each with the maps of all methods.",
        "Input independence: a scene without and with a patch that means nothing to the network. Both rows of a pair "
        "should be alike.",
    ),
    ("bim", "rmcs_scores"): (
        "Curves, one a method: the contrast between a network that saw dogs in some scenes and one that saw them in "
        "all, over the number of scenes with dogs.",
        "Relative model contrast: it should fall towards zero as dogs appear in more scenes.",
    ),
    ("clevr_xai", "question"): (
        "A rendered scene, the masks of all ground truths of a question about it, and the maps of all methods with the "
        "scored objects outlined; above each map its mass and rank accuracy.",
        "A question, the objects it is about, and where every method points. A good map lies inside the outline.",
    ),
    ("clevr_xai", "mass"): (
        "Box plots of the relevance mass accuracy of single questions, one box a method or control.",
        "Relevance mass accuracy of single questions: the mean alone does not show how unsteady a method is.",
    ),
    ("clevr_xai", "rank"): (
        "Box plots of the relevance rank accuracy of single questions, one box a method or control.",
        "Relevance rank accuracy of single questions.",
    ),
}  # fmt: skip


def embed(path: pathlib.Path, benchmark: str, title: str = "") -> Picture:
    """Return a PNG as a picture for a page, at most 1,600 pixels wide, as WebP.

    Parameters
    ----------
    path
        The PNG.
    benchmark
        Whose it is, for the texts.
    title
        What to put before the caption, where a benchmark has several pictures of one sort.
    """
    from PIL import Image

    with Image.open(path) as opened:
        image = opened.convert("RGB")
    if image.width > _WIDEST:
        height = round(image.height * _WIDEST / image.width)
        image = image.resize((_WIDEST, height), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    image.save(stream, "WEBP", quality=_QUALITY, method=4)
    encoded = base64.b64encode(stream.getvalue()).decode()
    named = path.stem.replace("_", " ")
    keys = (benchmark, path.stem), (benchmark, path.stem.split("_")[0])
    texts = next((_TEXTS[key] for key in keys if key in _TEXTS), (f"Example maps: {named}.", f"{named.capitalize()}."))
    alt, caption = (f"{title}. {text}" if title else text for text in texts)
    return Picture(f"data:image/webp;base64,{encoded}", image.width, image.height, alt, caption)
