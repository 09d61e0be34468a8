"""Palettes and light that vary between drawings."""

from __future__ import annotations

import colorsys

import numpy as np


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
