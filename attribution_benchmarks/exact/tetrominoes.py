"""The images of XAI-TRIS: T and L tetrominoes of 8 x 8 pixels in noise (Clark et al., Machine Learning 113, 2024).

Positions, mixing weights and the smoothing of correlated backgrounds are those of the paper for 8 x 8 pixels. Images
are scaled so that a background has a root mean square of 1.
"""

from __future__ import annotations

import numpy as np

SIDE = 8
PROBLEMS = ("linear", "multiplicative", "translations_rotations", "xor")
BACKGROUNDS = ("white", "correlated")
NAMES = tuple(f"{problem}_{background}" for background in BACKGROUNDS for problem in PROBLEMS)
ABOUT = {
    "linear": "A T at the top left is added in one class, an L at the bottom right in the other.",
    "multiplicative": "The noise is weaker inside a T in one class, inside an L in the other; no pixel has another "
    "mean.",
    "translations_rotations": "A T anywhere, turned by any multiple of 90°, is added in one class, an L in the other.",
    "xor": "A T and an L are added with equal signs in one class, with opposite signs in the other.",
}
_SIGNAL = {  # share of the signal on a white and on a correlated background
    "linear": (0.18, 0.0125),
    "multiplicative": (0.7, 0.1),
    "translations_rotations": (0.65, 0.2),
    "xor": (0.35, 0.15),
}
_SMOOTHING = 3.0  # standard deviation in pixels
_SHAPES = (np.array([[1, 0], [1, 1], [1, 0]]), np.array([[1, 0], [1, 0], [1, 1]]))  # T, L
_CORNERS = ((1, 1), (4, 5))


def draw(name: str, count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw images of one of ``NAMES``.

    Returns images, (count, 8, 8, 1) float32, labels, (count,) int64, class 0 and class 1 in turn, and the tetrominoes
    that are there, (count, 8, 8) bool.
    """
    problem, _, background = name.rpartition("_")
    labels = np.arange(count) % 2
    patterns = np.stack([_pattern(problem, int(label), generator) for label in labels])
    noise = _unit(_noise(background, count, generator))
    share = _SIGNAL[problem][BACKGROUNDS.index(background)]
    if problem == "multiplicative":
        images = _unit(1 - share * patterns) * noise * SIDE
    else:
        images = share * _unit(patterns) + (1 - share) * noise
    return (SIDE * images[..., np.newaxis]).astype(np.float32), labels, patterns != 0


def _pattern(problem: str, label: int, generator: np.random.Generator) -> np.ndarray:
    found = np.zeros((SIDE, SIDE))
    if problem == "xor":
        first = generator.choice((-1, 1))
        for shape, corner, sign in zip(_SHAPES, _CORNERS, (first, first if label == 0 else -first), strict=True):
            _put(found, sign * shape, corner)
    elif problem == "translations_rotations":
        shape = np.rot90(_SHAPES[label], int(generator.integers(4)))
        _put(found, shape, [generator.integers(SIDE - size + 1) for size in shape.shape])
    else:
        _put(found, _SHAPES[label], _CORNERS[label])
    return found


def _put(image: np.ndarray, shape: np.ndarray, corner) -> None:
    (row, column), (height, width) = corner, shape.shape
    image[row : row + height, column : column + width] += shape


def _noise(background: str, count: int, generator: np.random.Generator) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    noise = generator.normal(size=(count, SIDE, SIDE))
    return gaussian_filter(noise, (0, _SMOOTHING, _SMOOTHING)) if background == "correlated" else noise


def _unit(images: np.ndarray) -> np.ndarray:
    return images / np.linalg.norm(images, axis=(1, 2), keepdims=True)
