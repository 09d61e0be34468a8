"""The maps of a page: for each method a card with its maps of a few inputs, as images, bars, or a figure."""

from __future__ import annotations

import base64
import dataclasses
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution import plotting
from attribution_benchmarks.choosing.choice import Choice, shown

_SHOWN = 4  # inputs whose maps are drawn
_FIGURES = 4  # drawn before the last round; they are slow
_SMALL, _LARGE = 96, 256  # pixels of an image that is magnified without blur, and of the largest one
_MOST_BARS = 30  # features of a vector that have a bar each


@dataclasses.dataclass(frozen=True)
class Card:
    """What is drawn of a method.

    Attributes
    ----------
    title
        The method, and others of the same maps; empty for the inputs.
    note
        Its agreement.
    images
        Address, width and description of an image for each input.
    bars
        Name of a feature, and for each input the value and the ends of its bar in percent; without ends for inputs.
    below
        A text for each input, such as the ends of its scale.
    """

    title: str
    note: str
    images: Sequence[tuple[str, int, str]] = ()
    bars: Sequence[tuple[str, Sequence[tuple[str, float | None, float | None]]]] = ()
    below: Sequence[str] = ()


def cards(
    choice: Choice,
    preprocessing: Any = None,
    words: Mapping[str, np.ndarray] | None = None,
    class_names: Sequence[str] | None = None,
    is_last: bool = True,
) -> Iterator[Card]:
    """Yield the card of the inputs, where they are drawn alone, and that of each method; see ``page.write``."""
    rows = choice.spread(_SHOWN)
    inputs = np.stack([words[choice.names[row]] for row in rows]) if words else choice.inputs[rows]
    titles = _titles(choice, rows, class_names)
    agreement = {one.method: f"agreement {shown(one.agreement)}" for one in choice.verdict.standings}
    maps = {name: _drawn(choice.read_maps(name, rows), inputs.ndim) for name, *_ in choice.groups}
    heads = {group[0]: (choice.title_of_group(group), agreement[group[0]]) for group in choice.groups}
    if inputs.ndim == 4:
        yield from _images(maps, inputs, titles, heads, preprocessing)
    elif _has_bars(maps, inputs):
        yield from _bars(maps, inputs, titles, heads, choice.features)
    else:
        yield from _figures(dict(list(maps.items())[: None if is_last else _FIGURES]), inputs, titles, heads, choice)


def _titles(choice: Choice, rows: Sequence[int], class_names: Sequence[str] | None) -> list[str]:
    classes = [choice.targets[row] if class_names is None else class_names[choice.targets[row]] for row in rows]
    return [f"{choice.names[row]}, class {known}" for row, known in zip(rows, classes, strict=True)]


def _figures(
    maps: Mapping[str, np.ndarray], inputs: np.ndarray, titles: Sequence[str], heads: Mapping[str, tuple[str, str]],
    choice: Choice,
) -> Iterator[Card]:  # fmt: skip
    for name, found in maps.items():
        figure = plotting.plot(found, inputs, titles=titles, feature_names=choice.features)
        yield Card(*heads[name], images=[(_figure(figure), 2 * _LARGE, f"Maps of {heads[name][0]}")])


def _drawn(maps: np.ndarray, axes: int) -> np.ndarray:
    """Return maps of inputs with some axes; those of the embedding of tokens are summed."""
    return maps.sum(axis=-1) if axes == 2 < maps.ndim else maps


def _images(
    maps: Mapping[str, np.ndarray], inputs: np.ndarray, titles: Sequence[str], heads: Mapping[str, tuple[str, str]],
    preprocessing: Any,
) -> Iterator[Card]:  # fmt: skip
    pixels, painted, limits = plotting.painted(maps, inputs, preprocessing)
    yield Card("", "", [_image(one, title) for one, title in zip(pixels, titles, strict=True)], below=titles)
    for name, found in painted.items():
        texts = [f"{heads[name][0]}, {title}" for title in titles]
        images = [_image(one, text) for one, text in zip(found, texts, strict=True)]
        yield Card(*heads[name], images, below=[plotting.ends(*each) for each in limits[name]])


def _image(pixels: np.ndarray, text: str) -> tuple[str, int, str]:
    """Return an image (H, W, 3) in [0, 1] as a PNG in a data address, with its width and a description."""
    from PIL import Image

    image = Image.fromarray((255 * np.clip(pixels, 0, 1) + 0.5).astype(np.uint8))
    image.thumbnail((_LARGE, _LARGE))
    content = io.BytesIO()
    image.save(content, format="png")
    return _address(content), image.width if image.width > _SMALL else 0, text


def _address(content: io.BytesIO) -> str:
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def _figure(figure: Any) -> str:
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing")  # of a name; boxes stand for it
        figure.savefig(content, format="png", dpi=120)
    return _address(content)


def _has_bars(maps: Mapping[str, np.ndarray], inputs: np.ndarray) -> bool:
    """Return whether inputs are short vectors of one set of features, which the words of texts are not."""
    return bool(
        inputs.ndim == 2 and inputs.dtype.kind == "f" and inputs.shape[1] <= _MOST_BARS
        and all(found.shape == inputs.shape for found in maps.values())
    )  # fmt: skip


def _bars(
    maps: Mapping[str, np.ndarray], inputs: np.ndarray, titles: Sequence[str], heads: Mapping[str, tuple[str, str]],
    features: Sequence[str] | None,
) -> Iterator[Card]:  # fmt: skip
    names = features or [str(place) for place in range(inputs.shape[1])]
    columns = [[(plotting.short_number(value, 3), None, None) for value in column] for column in inputs.T]
    yield Card("", "", bars=list(zip(names, columns, strict=True)), below=titles)
    for name, found in maps.items():
        low, high = np.minimum(found.min(axis=1), 0), np.maximum(found.max(axis=1), 0)
        width = np.where(high > low, high - low, 1)
        places = [100 * (np.sort([np.zeros_like(column), column], axis=0) - low) / width for column in found.T]
        rows = [
            [(f"{value:.3g}", round(start, 1), round(end, 1)) for value, start, end in zip(column, *place, strict=True)]
            for column, place in zip(found.T, places, strict=True)
        ]
        yield Card(*heads[name], bars=list(zip(names, rows, strict=True)), below=[*map(plotting.ends, low, high)])
