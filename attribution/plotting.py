"""Plot maps on or next to the inputs they explain, with their colour scales.

A drawing is a chain of named steps, each a function of arrays: channels are summed, ``colour_limits`` chooses the ends
of the scale, ``pixels_of`` makes the input visible, and ``plot`` lays all of it out.
Nothing is normalized out of sight: the ends of every scale are written under its panel.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from attribution.batching import as_array
from attribution.errors import BadInput, listed

SIGNED, POSITIVE = "RdBu_r", "viridis"  # white, hence invisible, at zero; dark at zero
PLOTTED_AXES = (2, 3, 4)  # of vectors, signals and images
_BAR = {"orientation": "horizontal", "fraction": 0.045, "pad": 0.03, "aspect": 28}  # of a colour scale
_MOST_BARS = 30  # of features with their names; more are drawn without
_MOST_FEATURES = 1000  # of a vector that is drawn as bars
_PERCENTILE = 99.5  # of a map's absolute values at which its colours end
_FLAT = 1 - 1e-5  # share of its largest value from which on a map is constant, but for rounding


_Plot = TypeVar("_Plot", bound=Callable[..., Any])


def no_mathtext(plot: _Plot) -> _Plot:
    """Return a plotting function that takes names with two dollars as text; matplotlib would parse formulas."""

    @functools.wraps(plot)
    def without_formulas(*arguments: Any, **options: Mapping[str, Any]) -> Any:
        import matplotlib

        with matplotlib.rc_context({"text.parse_math": False}):
            return plot(*arguments, **options)

    return without_formulas  # type: ignore[return-value]


def colour_limits(values: np.ndarray, percentile: float = _PERCENTILE) -> tuple[float, float]:
    """Return the ends of the colour scale: symmetric about zero where there are negative values, else from zero.

    Where all values lie in the outer half on one side of zero, from the least to the largest: else they would have one
    color.

    Parameters
    ----------
    values
        Of one map.
    percentile
        Percentile of the absolute values at the end of the scale; larger values have the colour of the end. 100 clips
        nothing.
    """
    size, least = np.abs(values), float(values.min())
    end = float(np.percentile(size, percentile)) or float(size.max(initial=0.0)) or 1.0
    nearest = float(size.min())
    if (least >= 0 or values.max() < 0) and end / 2 < nearest < _FLAT * end:
        return (nearest, end) if least >= 0 else (-end, -nearest)
    return (-end if least < 0 else 0.0), end


def pixels_of(inputs: np.ndarray, preprocessing: Any = None) -> np.ndarray:
    """Return images as they are seen.

    Parameters
    ----------
    inputs
        ``(N, H, W, C)`` as a model takes them, or as uint8 pixels.
    preprocessing : attribution.inputs.Preprocessing or str, optional
        Undone where given. Else each image is stretched so that its lowest value is black and its highest white.

    Returns
    -------
    np.ndarray
        ``(N, H, W, 3)`` float in [0, 1]. One channel becomes grey; of other numbers of channels the mean is shown.
    """
    from attribution.inputs import Preprocessing, preprocessing_named

    if inputs.dtype == np.uint8:
        pixels = inputs / 255.0
    elif preprocessing is not None:
        named = preprocessing if isinstance(preprocessing, Preprocessing) else preprocessing_named(preprocessing)
        pixels = named.invert(inputs) / 255.0
    else:
        values = np.asarray(inputs, np.float64)
        low, high = values.min(axis=(1, 2, 3), keepdims=True), values.max(axis=(1, 2, 3), keepdims=True)
        pixels = (values - low) / np.where(high > low, high - low, 1)
    if pixels.shape[-1] == 4:
        pixels = pixels[..., :3]
    if pixels.shape[-1] != 3:
        pixels = np.repeat(pixels.mean(axis=-1, keepdims=True), 3, axis=-1)
    return pixels


@no_mathtext
def plot(
    maps: Any,
    inputs: Any,
    *,
    titles: Sequence[str] | None = None,
    preprocessing: Any = None,
    feature_names: Sequence[str] | None = None,
) -> Any:
    """Draw a grid: a row for each input, the input first, then its map by each method, with colour scales.

    One image and more than two maps of it take two rows, so that all is legible on a narrow page.
    Every panel has its own scale, which ends at the 99.5th percentile of the map's absolute values. Bars are not cut.
    The channels of a map are summed. Vectors and sequences of tokens have a bar for each feature, with its name and
    value, those of at most 30 features sorted by the largest attribution of any method in units of the method's
    largest. Signals are lines over their map. Vectors without names of more than 1,000 numbers are drawn as a signal.

    Parameters
    ----------
    maps
        Array of maps, or a mapping from method to maps as ``attribution.explain_many`` returns it: ``(N, ...)`` of the
        inputs' shape, without their channels, or of a layer's resolution.
    inputs
        ``(N, H, W, C)`` images, ``(N, T, C)`` signals, or ``(N, F)`` vectors or tokens; these may be text. Of inputs
        explained together a mapping from name to numbers ``(N,)`` or vectors, which share one chart of bars. Inputs
        without maps are not drawn.
    titles
        N texts above the inputs, such as their predicted classes.
    preprocessing
        How the images were made from pixels (``attribution.inputs``), to show them in their colours.
    feature_names
        F names of the features of vectors; numbers from 0 by default.

    Returns
    -------
    matplotlib.figure.Figure
        Shown by a notebook; ``figure.savefig("maps.png")`` writes it.

    Raises
    ------
    BadInput
        If shapes do not belong together, a name is unknown, or values are NaN or infinite.
    """
    if isinstance(inputs, Mapping):
        maps, inputs, feature_names = _one_of_several(maps, inputs)
    inputs, maps = as_array(inputs, "inputs"), _by_method(maps)
    _check(maps, inputs, titles, feature_names)
    if feature_names is None and inputs.ndim == 2 and inputs.dtype.kind == "f":
        if inputs.shape[1] > _MOST_FEATURES:  # too long for bars
            inputs = inputs[..., np.newaxis]
    flat = _one_number_per_place(maps, inputs.shape)
    titles = [""] * len(inputs) if titles is None else list(map(str, titles))
    if inputs.ndim == 2:
        return _draw_vectors(inputs, flat, _limits(flat, 100.0), titles, feature_names)
    limits = _limits(flat)
    if inputs.ndim == 4:
        return _draw_images(inputs, flat, limits, titles, preprocessing)
    return _draw_signals(inputs, flat, limits, titles)


def _by_method(maps: Any) -> dict[str, np.ndarray]:
    """Return the maps of each method; an array alone has an empty name."""
    named = maps if isinstance(maps, Mapping) else {"": maps}
    arrays = {name: as_array(found, f"maps '{name}'") for name, found in named.items()}
    if wrong := [name for name, array in arrays.items() if array.dtype.kind not in "fiub"]:
        raise BadInput(f"maps '{wrong[0]}' of type {arrays[wrong[0]].dtype} are not numbers")
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def _one_of_several(maps: Any, inputs: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray, list[str]]:
    """Return maps, inputs and names of features of inputs that were explained together and share a figure."""
    if not isinstance(maps, Mapping):
        raise BadInput("maps of one input are given for inputs by name; give the array of the explained input")
    maps = maps if all(isinstance(found, Mapping) for found in maps.values()) else {"": maps}
    arrays = {name: np.asarray(inputs[name]) for name in inputs if all(name in found for found in maps.values())}
    if not arrays:
        raise BadInput(f"none of the inputs {listed(inputs)} has maps by its name; give those that are explained")
    if large := [name for name, array in arrays.items() if array.ndim > 2]:
        raise BadInput(f"{listed(large)} of several inputs have positions; plot the maps of each alone")
    joined = {method: _side_by_side(found, arrays) for method, found in maps.items()}
    widths = {name: int(np.prod(array.shape[1:])) for name, array in arrays.items()}
    # "age" and, of a vector, "blood 0"
    names = [f"{name} {place}" if width > 1 else name for name, width in widths.items() for place in range(width)]
    return joined, _side_by_side(arrays, arrays), names


def _side_by_side(found: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return maps of several inputs as vectors ``(N, F)``, in the order of the inputs."""
    return np.concatenate([np.reshape(found[name], (len(array), -1)) for name, array in arrays.items()], axis=1)


def _one_number_per_place(maps: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return maps without channels at the resolution of inputs of a shape."""
    from attribution.methods import resizing

    positions, flat = shape[1:-1] or shape[1:], {}
    for name, found in maps.items():
        found = found.sum(axis=-1) if found.ndim == len(positions) + 2 else found
        flat[name] = resizing.resize(found, positions) if found.shape[1:] != positions else found
    return flat


def belong(maps: tuple[int, ...], inputs: tuple[int, ...]) -> bool:
    """Return whether maps of a shape can be drawn on inputs of a shape: on their positions, or at a layer's resolution.

    Maps on axes that the network makes, such as those of a waveform's spectrogram, cannot.
    """
    if len(inputs) == 2:
        return maps[:2] == inputs and len(maps) < 4
    has_layers_size = len(maps) in (len(inputs), len(inputs) - 1) and (len(inputs) > 3 or len(maps) < 3)
    return maps == inputs or (maps[:1] == inputs[:1] and has_layers_size)


def _limits(flat: Mapping[str, np.ndarray], percentile: float = _PERCENTILE) -> dict[str, list[tuple[float, float]]]:
    limits = {}
    for name, found in flat.items():
        each = [colour_limits(one, percentile) for one in found]
        signed = any(low < 0 < high for low, high in each)
        # A method has one set of colors, except where zero, its middle, lies outside of a map.
        limits[name] = [(-high if signed and low <= 0 < high else low, high) for low, high in each]
    return limits


def _check(
    maps: Mapping[str, Any],
    inputs: np.ndarray,
    titles: Sequence[str] | None,
    feature_names: Sequence[str] | None,
) -> None:
    if inputs.ndim not in PLOTTED_AXES:
        raise BadInput(
            f"inputs of shape {inputs.shape} cannot be plotted; images are (N, H, W, C), signals (N, T, C), vectors "
            "(N, F)"
        )
    if not len(inputs) or not maps:
        raise BadInput("there is nothing to plot; at least one input and one map are needed")
    if titles is not None and len(titles) != len(inputs):
        raise BadInput(f"{len(titles)} titles were given for {len(inputs)} inputs")
    if feature_names is not None and (len(feature_names),) != inputs.shape[1:]:
        raise BadInput(f"{len(feature_names)} names of features were given for inputs of shape {inputs.shape}")
    for name, found in maps.items():
        if not belong(np.shape(found), inputs.shape):
            raise BadInput(f"maps '{name}' of shape {np.shape(found)} do not belong to inputs of shape {inputs.shape}")
    # Matplotlib would draw a part of the other values as one. The values of vectors are text.
    arrays = {f"maps '{name}'": found for name, found in maps.items()} | ({"inputs": inputs} if inputs.ndim > 2 else {})
    for name, array in arrays.items():
        finite = np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        if not finite.all():
            raise BadInput(f"{name} have NaN or infinite values, first in row {int(np.argmin(finite))}")


def _title_of(name: str) -> str:
    from attribution.methods.registry import known_method, title_of

    return title_of(name) if known_method(name) else title_of(name).replace("_", " ")


def _wrapped(text: str, width: int) -> str:
    import textwrap

    return "\n".join(line for part in text.split("\n") for line in textwrap.wrap(part, width)[:2])


def short_number(value: float, digits: int = 2) -> str:
    """Return a number in few digits."""
    text = f"{value:.{digits}g}" if value else "0"
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e6 else text  # 8740, and not 8.7e+03


def _figure(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    """Return a figure that a notebook shows whether or not pyplot was imported, and its axes as a grid."""
    import matplotlib.figure

    class Drawing(matplotlib.figure.Figure):
        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            self.savefig(stream, format="png")
            return stream.getvalue()

    figure = Drawing(figsize=(columns * width, rows * height), dpi=150, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _over(pixels: np.ndarray, values: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Return a map's colours over an image in grey, (H, W, 3): the stronger the map, the less of the image is seen."""
    from matplotlib import colormaps

    low, high = limits
    share = np.clip((values - low) / (high - low), 0, 1)
    strength = share if low >= 0 else np.clip(np.abs(values) / max(-low, high), 0, 1)
    grey = 0.25 + 0.6 * (pixels @ np.array([0.299, 0.587, 0.114]))[..., np.newaxis]
    opacity = 0.9 * np.sqrt(strength)[..., np.newaxis]
    blended: np.ndarray = grey * (1 - opacity) + colormaps[_scheme(limits)](share)[..., :3] * opacity
    return blended


def _scheme(limits: tuple[float, float]) -> str:
    return SIGNED if limits[0] < 0 < limits[1] else POSITIVE


def _draw_images(
    inputs: np.ndarray,
    flat: Mapping[str, np.ndarray],
    limits: Mapping[str, Sequence[tuple[float, float]]],
    titles: Sequence[str],
    preprocessing: Any,
) -> Any:
    pixels = pixels_of(inputs, preprocessing)
    height, width = inputs.shape[1:3]
    panel = 2.6 * min(1.5, height / width)
    panels = 1 + len(flat)
    rows = 2 if len(inputs) == 1 and panels > 3 else len(inputs)
    figure, axes = _figure(rows, -(-panels * len(inputs) // rows), 2.6, panel + 0.75)
    axes = axes.reshape(len(inputs), -1)
    for axis in axes[:, panels:].flat:
        axis.set_axis_off()
    for row, title in enumerate(titles):
        first = axes[row, 0]
        shown_input = first.imshow(pixels[row], interpolation="nearest")
        first.set_title(_wrapped(title, 32), fontsize=8)
        first.set_axis_off()
        figure.colorbar(shown_input, ax=first, **_BAR).ax.set_visible(False)  # so that all panels have one height
        for column, (name, found) in enumerate(flat.items(), start=1):
            axis, (low, high) = axes[row, column], limits[name][row]
            scheme = _scheme((low, high))
            shown = axis.imshow(found[row], cmap=scheme, vmin=low, vmax=high, interpolation="nearest")
            axis.imshow(_over(pixels[row], found[row], (low, high)), interpolation="nearest")
            if row == 0:
                axis.set_title(_wrapped(_title_of(name), 30), fontsize=9)
            axis.set_axis_off()
            _scale_below(figure, axis, shown, low, high)
    return figure


def _draw_signals(
    inputs: np.ndarray,
    flat: Mapping[str, np.ndarray],
    limits: Mapping[str, Sequence[tuple[float, float]]],
    titles: Sequence[str],
) -> Any:
    figure, axes = _figure(len(inputs), len(flat), 4.2, 1.9)
    length = inputs.shape[1]
    for row, signal in enumerate(inputs):
        for column, (name, found) in enumerate(flat.items()):
            axis, (low, high) = axes[row, column], limits[name][row]
            bottom, top = float(signal.min()), float(signal.max())
            margin = 0.08 * ((top - bottom) or 1.0)
            shown = axis.imshow(
                _strongest(found[row])[np.newaxis],
                cmap=SIGNED if low < 0 < high else "Oranges",
                vmin=low,
                vmax=high,
                aspect="auto",
                interpolation="nearest",
                extent=(-0.5, length - 0.5, bottom - margin, top + margin),
            )
            width = 1.2 * min(1.0, 1000 / length)  # a long signal would be a black block that hides its map
            opacity = 1.0 if length <= 1000 else 0.4
            for channel in range(signal.shape[-1]):
                axis.plot(signal[:, channel], color="black", linewidth=width, alpha=opacity / (1 + 0.3 * channel))
            axis.set_yticks([bottom, top])
            axis.yaxis.set_major_formatter(lambda value, _: short_number(value))
            axis.tick_params(labelsize=7)
            _scale_below(figure, axis, shown, low, high).set_label("attribution", fontsize=7, labelpad=1)
    _label_edges(axes, flat, [_wrapped(title, 26) or "signal" for title in titles], "position", 50)
    return figure


def _label_edges(axes: Any, flat: Mapping[str, np.ndarray], rows: Sequence[str], below: str, width: int) -> None:
    """Write the methods above a grid of charts, in lines of ``width``, texts of rows to its left, and ``below`` it."""
    for axis, name in zip(axes[0], flat, strict=True):
        axis.set_title(_wrapped(_title_of(name), width), fontsize=9)
    for axis, text in zip(axes[:, 0], rows, strict=True):
        axis.set_ylabel(text, fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel(below, fontsize=8)


def _strongest(values: np.ndarray, most: int = 500) -> np.ndarray:
    """Return a map ``(T,)`` in at most ``most`` stretches, of each its largest value in size: pixels lose none."""
    if len(values) <= most:
        return values
    starts = np.arange(most) * len(values) // most
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return np.where(high >= -low, high, low)


def _draw_vectors(
    inputs: np.ndarray,
    flat: Mapping[str, np.ndarray],
    limits: Mapping[str, Sequence[tuple[float, float]]],
    titles: Sequence[str],
    feature_names: Sequence[str] | None,
) -> Any:
    count = inputs.shape[1]
    figure, axes = _figure(len(inputs), len(flat), 3.6, 0.75 + 0.17 * min(count, _MOST_BARS))
    names = feature_names or [str(number) for number in range(count)]
    for row, vector in enumerate(inputs):
        values = [short_number(float(each), 3) if isinstance(each, np.floating) else str(each) for each in vector]
        labels = [_wrapped(f"{name} = {value}", 32) for name, value in zip(names, values, strict=True)]
        order = np.arange(count)
        if inputs.dtype.kind == "f" and count <= _MOST_BARS:  # tokens keep their order
            sizes = [np.abs(found[row]) / (np.abs(found[row]).max() or 1) for found in flat.values()]
            order = np.argsort(-np.max(sizes, axis=0), kind="stable")
        labels = [labels[place] for place in order]
        for column, (name, found) in enumerate(flat.items()):
            axis, bars, (low, high) = axes[row, column], found[row, order], limits[name][row]
            axis.barh(np.arange(count), bars, color=np.where(bars < 0, "tab:blue", "tab:red"), height=0.8)  # as SIGNED
            axis.axvline(0, color="0.3", linewidth=0.6)
            axis.set_xlim(1.05 * min(low, 0), 1.05 * max(high, 0))  # bars begin at zero
            axis.set_ylim(count - 0.5, -0.5)
            if count <= _MOST_BARS:
                axis.set_yticks(np.arange(count), labels if column == 0 else [""] * count)
            axis.locator_params(axis="x", nbins=5)
            axis.tick_params(labelsize=7)
    _label_edges(axes, flat, [_wrapped(title, 26) for title in titles], "attribution", 40)
    return figure


def _scale_below(figure: Any, axis: Any, shown: Any, low: float, high: float) -> Any:
    """Put a colour scale with its ends under a panel; return it."""
    bar = figure.colorbar(shown, ax=axis, **_BAR)
    ends = [low, 0, high] if low < 0 < high else [low, high]
    digits = 2
    while len(ends) == 2 and digits < 8 and f"{low:.{digits}g}" == f"{high:.{digits}g}":
        digits += 1
    bar.set_ticks(ends, labels=[short_number(value, digits) for value in ends])
    labels = bar.ax.get_xticklabels()
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_visible(False)
    return bar
