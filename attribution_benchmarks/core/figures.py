"""Write figures to PNG, PDF and SVG files reproducibly; small pictures in rows and columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from attribution.files import atomic_write

# Metadata; without dates, so that files are reproducible.
FORMATS: dict[str, dict[str, None]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}

OWN_METHOD = "#e08214"  # bars, boxes and curves of a user's method

_LEVEL = 4  # of compression: 1 % larger than the default, in two thirds of the time


def method_color(name: str, color: str) -> str:
    """Return the color of a method in a figure: ``color``, or that of a user's method, ``file.py:function``."""
    return OWN_METHOD if ":" in name else color


def save_figure(
    figure: Any,
    directory: str | os.PathLike[str],
    stem: str,
    formats: Sequence[str] = ("png",),
    dpi: int = 110,
    trim: bool = True,
) -> list[str]:
    """Write a matplotlib figure in some of ``FORMATS``, each file completely or not at all; return their paths.

    ``stem`` is the file name without suffix; ``directory`` is created if it is missing. ``trim`` fits the edges to the
    content, which draws the figure twice.
    """
    import matplotlib

    written = []
    edges = {"bbox_inches": "tight", "pad_inches": 0.06} if trim else {}
    for name in dict.fromkeys(formats):
        path = os.path.join(directory, f"{stem}.{name}")

        def save(file: Any, name: str = name) -> None:
            packed = {"pil_kwargs": {"compress_level": _LEVEL}} if name == "png" else {}
            figure.savefig(file, format=name, dpi=dpi, metadata=FORMATS[name], **edges, **packed)

        # Identifiers in SVG files are random without a salt.
        with matplotlib.rc_context({"svg.hashsalt": stem, "pdf.fonttype": 42}):
            atomic_write(path, save)
        written.append(path)
    return written


class PictureGrid:
    """A ``figure`` of square pictures in ``lines`` and ``columns`` of one axes, three times as fast as one axes each.

    ``side``, ``gap`` and ``above`` are the side of a picture, the gap between two, and the height of its title;
    ``left``, ``top``, ``right`` and ``bottom`` are margins, in inches; the colour scale is in the right one. The
    figure's first axes have the pictures in drawing order, and their titles.
    """

    def __init__(
        self,
        lines: int,
        columns: int,
        side: float,
        gap: float,
        above: float,
        left: float = 0.06,
        top: float = 0.0,
        right: float = 0.06,
        bottom: float = 0.06,
        font: float = 7,
    ):
        from matplotlib.figure import Figure

        self._side, self._across, self._down = side, side + gap, side + above
        self._left, self._top, self._font = left, top + above, font
        self._width, self._height = left + self._across * columns - gap + right, top + self._down * lines + bottom
        self._right = right
        self.figure = Figure(figsize=(self._width, self._height))
        self._axis = self.figure.add_axes((0, 0, 1, 1))
        self._axis.set(xlim=(0, self._width), ylim=(self._height, 0), xticks=[], yticks=[])
        self._axis.set_axis_off()
        self._outlines: dict[int, list[np.ndarray]] = {}

    def _place(self, line: int, column: int) -> tuple[float, float]:
        return self._left + self._across * column, self._top + self._down * line

    def draw(self, line: int, column: int, picture: np.ndarray, title: str = "", cmap: str = "inferno") -> Any:
        """Draw an image, (H, W, 3) uint8, or a map, (H, W) bool or in [0, 1]; return matplotlib's image."""
        from matplotlib.patches import Rectangle

        left, top = self._place(line, column)
        right, bottom = left + self._side, top + self._side
        drawn = self._axis.imshow(picture, cmap=cmap, vmin=0, vmax=1, extent=(left, right, bottom, top), aspect="auto")
        self._axis.add_patch(Rectangle((left, top), self._side, self._side, fill=False, linewidth=0.8))
        if title:
            middle = left + self._side / 2
            self._axis.text(middle, top - 0.05, title, fontsize=self._font, ha="center", va="bottom", linespacing=1.05)
        return drawn

    def outline(self, line: int, column: int, mask: np.ndarray, colour: str, linewidth: float = 0.7) -> None:
        """Draw the outline of a mask, (H, W) bool, over a picture."""
        from matplotlib.collections import LineCollection

        left, top = self._place(line, column)
        moved = [edge + (left, top) for edge in self._edges(mask)]
        self._axis.add_collection(LineCollection(moved, colors=colour, linewidths=linewidth, zorder=2), autolim=False)

    def _edges(self, mask: np.ndarray) -> list[np.ndarray]:
        """Return the outlines of a mask, (points, 2) each in inches; cached by mask."""
        import contourpy

        key = hash(np.asarray(mask, bool).tobytes())
        if key not in self._outlines:
            across, down = ((np.arange(size) + 0.5) * self._side / size for size in mask.shape[::-1])
            edges: Any = contourpy.contour_generator(x=across, y=down, z=np.asarray(mask, float)).lines(0.5)
            self._outlines[key] = edges
        return self._outlines[key]

    def name(self, line: int, title: str) -> None:
        """Write the title of a row at its left."""
        left, top = self._place(line, 0)
        self._axis.text(
            left - 0.06, top + self._side / 2, title, fontsize=self._font, ha="right", va="center", rotation=90
        )

    def scale(self, drawn: Any, title: str) -> None:
        """Add the colour scale of a picture in the right margin."""
        tall = min(4.5, self._height - 0.3)  # half of a number is beyond each end
        left = (self._width - self._right + 0.18) / self._width
        axis = self.figure.add_axes((left, 0.5 - tall / self._height / 2, 0.11 / self._width, tall / self._height))
        self.figure.colorbar(drawn, cax=axis, ticks=[0, 0.5, 1])
        axis.set_ylabel(title, fontsize=8)
        axis.tick_params(labelsize=8)
