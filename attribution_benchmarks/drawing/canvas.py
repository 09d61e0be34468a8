"""A canvas for drawings: smooth shapes in unit coordinates, posed, with their silhouette; palettes and light.

Pillow fills the polygons; curves are sampled by NumPy, so that the pose is one matrix product. Points are arrays of
shape (P, 2), or strings in the syntax of SVG's ``points``: "0,0 1,0 0.5,0.8".
"""

from __future__ import annotations

import colorsys
import contextlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

Points = npt.ArrayLike  # (P, 2), or a string
_TURN = np.linspace(0.0, 2.0 * np.pi, 28, endpoint=False)
_CIRCLE = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=1)


def spline(points: Points, closed: bool = False, steps: int = 7) -> np.ndarray:
    """Return points along the Catmull-Rom spline through control points, (P, 2), with ``steps`` samples between two.

    (P * steps, 2) when ``closed``, so that the last point joins the first, else ((P - 1) * steps + 1, 2).
    """
    points = _points(points)
    if closed:
        around = np.concatenate([points[-1:], points, points[:2]])
    else:
        around = np.concatenate([2 * points[:1] - points[1:2], points, 2 * points[-1:] - points[-2:-1]])
    before, start, end, after = (around[i : len(around) - 3 + i, None] for i in range(4))
    t = (np.arange(steps) / steps)[None, :, None]
    curve = start + 0.5 * t * (
        (end - before) + t * (2 * before - 5 * start + 4 * end - after + t * (3 * (start - end) + after - before))
    )
    curve = curve.reshape(-1, 2)
    return curve if closed else np.concatenate([curve, points[-1:]])


class Canvas:
    """An RGB picture of ``size`` x ``size`` pixels and the silhouette of its shapes.

    ``pose`` is an affine map, (2, 3), from drawing coordinates (x to the right, y down) to the unit square; the
    identity when None. ``outline`` is the factor that darkens a shape's colour for its outline; None draws no outlines.
    Colours are three numbers of 0 to 255.
    """

    def __init__(self, size: int, background=(0, 0, 0), pose=None, outline: float | None = None):
        self.size = size
        self.pose = np.array([[1.0, 0, 0], [0, 1.0, 0]]) if pose is None else np.asarray(pose, float)
        self.outline = outline
        self._unit = size * np.sqrt(abs(np.linalg.det(self.pose[:, :2])))  # pixels per drawing unit
        self._image = Image.new("RGB", (size, size), _colour(background))
        self._silhouette = Image.new("L", (size, size), 0)
        self._attach()

    def _attach(self):
        self._draw = ImageDraw.Draw(self._image)
        self._draw_silhouette = ImageDraw.Draw(self._silhouette)

    def _pixels(self, points) -> list[tuple[float, float]]:
        placed = (_points(points) @ self.pose[:, :2].T + self.pose[:, 2]) * self.size
        return [tuple(point) for point in placed.tolist()]

    def polygon(self, points: Points, colour: npt.ArrayLike, outlined: bool = True) -> None:
        """Fill a polygon of shape (P, 2)."""
        pixels = self._pixels(points)
        self._draw.polygon(pixels, fill=_colour(colour))
        self._draw_silhouette.polygon(pixels, fill=255)
        if outlined and self.outline is not None:
            edge = _colour(np.asarray(colour, float) * self.outline)
            self._draw.line([*pixels, pixels[0]], fill=edge, width=max(1, self.size // 90))

    def blob(self, points: Points, colour: npt.ArrayLike, outlined: bool = True) -> None:
        """Fill the smooth closed curve through points of shape (P, 2)."""
        self.polygon(spline(points, closed=True), colour, outlined)

    def ellipse(
        self,
        centre: npt.ArrayLike,
        radii: npt.ArrayLike,
        colour: npt.ArrayLike,
        angle: float = 0.0,
        outlined: bool = True,
    ) -> None:
        """Fill an ellipse; ``radii`` is one number or two, ``angle`` is in radians."""
        cos, sin = np.cos(angle), np.sin(angle)
        turned = (_CIRCLE * radii) @ np.array([[cos, sin], [-sin, cos]])
        self.polygon(turned + np.asarray(centre, float), colour, outlined)

    def rectangle(
        self, x0: float, y0: float, x1: float, y1: float, colour: npt.ArrayLike, outlined: bool = True
    ) -> None:
        """Fill the rectangle between two corners."""
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], colour, outlined)

    def stroke(self, points: Points, width: float, colour: npt.ArrayLike, smooth: bool = True) -> None:
        """Draw a curve of constant width with round ends through its points, or straight lines if not ``smooth``."""
        points = _points(points)
        pixels = self._pixels(spline(points) if smooth and len(points) > 2 else points)
        thick = max(1, round(width * self._unit))
        for draw, fill in ((self._draw, _colour(colour)), (self._draw_silhouette, 255)):
            draw.line(pixels, fill=fill, width=thick, joint="curve")
            if thick > 3:
                for x, y in (pixels[0], pixels[-1]):
                    draw.ellipse([x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2], fill=fill)

    def line(self, points: Points, width: float, colour: npt.ArrayLike) -> None:
        """Draw straight lines of constant width between points."""
        self.stroke(points, width, colour, smooth=False)

    def trapezoid(
        self, x: float, y0: float, half0: float, y1: float, half1: float, colour: npt.ArrayLike, smooth: bool = False
    ) -> None:
        """Fill the trapezoid around the vertical through x, of half width ``half0`` at y0 and ``half1`` at y1."""
        corners = [(x - half0, y0), (x + half0, y0), (x + half1, y1), (x - half1, y1)]
        (self.blob if smooth else self.polygon)(corners, colour)

    def limb(self, points: Points, start: float, end: float, colour: npt.ArrayLike) -> None:
        """Fill a smooth limb whose width goes from ``start`` to ``end`` along its points."""
        points = _points(points)
        path = spline(points) if len(points) > 2 else points
        along = np.gradient(path, axis=0)
        across = np.stack([-along[:, 1], along[:, 0]], axis=1)
        across /= np.linalg.norm(across, axis=1, keepdims=True) + 1e-9
        half = np.linspace(start, end, len(path))[:, None] / 2 * across
        self.polygon(np.concatenate([path + half, (path - half)[::-1]]), colour)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Clip the drawing of this block to the silhouette at its start."""
        image, silhouette = self._image.copy(), self._silhouette.copy()
        yield
        self._image = Image.composite(self._image, image, silhouette)
        self._silhouette = silhouette
        self._attach()

    def picture(self, reduce: int = 1) -> np.ndarray:
        """Return the picture, (size / reduce, size / reduce, 3) float32 of 0 to 255."""
        image = self._image.reduce(reduce) if reduce > 1 else self._image
        return np.asarray(image, np.float32)

    def silhouette(self) -> np.ndarray:
        """Return the pixels of the shapes, (size, size) bool."""
        return np.asarray(self._silhouette) > 127


def _points(points) -> np.ndarray:
    """Return points as an array, (P, 2) float64."""
    if isinstance(points, str):
        points = [pair.split(",") for pair in points.split()]
    return np.asarray(points, float)


def _colour(colour) -> tuple[int, int, int]:
    """Return a colour as three integers of 0 to 255."""
    red, green, blue = colour
    return _byte(red), _byte(green), _byte(blue)


def _byte(value: float) -> int:
    return min(255, max(0, int(value)))


def palette(rng: np.random.Generator) -> list[np.ndarray]:
    """Return three contrasting colours of any hue; half of the palettes are muted, half vivid."""
    vivid = rng.random() < 0.5
    hue = rng.random()
    value = rng.uniform(0.45, 0.95)
    saturation = rng.uniform(0.45, 0.9) if vivid else rng.uniform(0.03, 0.4)
    hues = (hue, hue + rng.uniform(0.25, 0.75), hue + rng.uniform(-0.08, 0.08))
    values = (value, value - 0.45 if value > 0.7 else value + 0.4, min(1.0, value + 0.18))
    saturations = (saturation, saturation * rng.uniform(0.5, 1.1), saturation * 0.5)
    return [
        255 * np.array(colorsys.hsv_to_rgb(h % 1.0, min(1.0, s), np.clip(v, 0.08, 1.0)))
        for h, s, v in zip(hues, saturations, values, strict=True)
    ]


def brightness_field(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return a smooth brightness field around 1, (size, size) float32."""
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j].astype(np.float32)
    angle, bow = rng.uniform(0, 2 * np.pi), rng.uniform(0.5, 2.0)
    slope = np.cos(angle) * x + np.sin(angle) * y
    return 1 + 0.16 * slope + 0.06 * np.sin(bow * 3 * (x - y) + angle)
