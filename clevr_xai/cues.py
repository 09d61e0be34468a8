"""A cue in an image of CLEVR-XAI: a small coloured tile on the floor, whose colour says an answer.

The tile has one of eight states, each a colour. The cue's answer to a question about an attribute of n values is value
``state mod n``. So it is known exactly what a network that follows the cue answers, and which pixels it looks at.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from clevr_xai.masks import SIZE
from clevr_xai.vocabulary import ATTRIBUTES, COLORS

CELLS, CELL, FIRST_CENTRE = 7, 16, 15  # of ``relation_network``, whose import takes seconds
TILE = 12  # pixels along a side
STATES = 8
_JITTER = 2  # most pixels between the centres of a tile and of its cell
_MARGIN = 1  # pixels around a tile that no object touches
_CORNERS = (0, CELLS - 1, CELLS * (CELLS - 1), CELLS**2 - 1)


@dataclasses.dataclass(frozen=True)
class Cue:
    """Colours of the eight states, each (red, green, blue) in 0..255, and the cells that a tile can lie in."""

    name: str
    about: str
    colors: tuple[tuple[int, int, int], ...]
    cells: tuple[int, ...]

    def places(self, occupied: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw a place for the tile of each image, on the floor where a cell of the cue is free.

        Parameters
        ----------
        occupied : (N, 128, 128) bool
            Pixels that show objects.
        rng
            Generator of the random numbers.

        Returns
        -------
        places : (N, 2) int64
            Row and column of the tile's first pixel.
        free : (N,) bool
            False where objects touch each of the cue's cells; the tile then covers some of them.
        """
        half = TILE // 2 + _JITTER + _MARGIN
        centres = FIRST_CENTRE + CELL * np.stack(np.divmod(self.cells, CELLS), axis=-1)
        free = np.stack(
            [
                ~occupied[:, row - half : row + half, column - half : column + half].any((1, 2))
                for row, column in centres
            ],
            axis=1,
        )
        chosen = centres[np.argmax(rng.random(free.shape) + free, axis=1)]
        return chosen + rng.integers(-_JITTER, _JITTER + 1, chosen.shape) - TILE // 2, free.any(axis=1)


CUES = {
    cue.name: cue
    for cue in (
        Cue(
            "floor",
            f"a tile of {TILE} pixels in one of eight saturated colours anywhere on the floor",
            ((255, 0, 0), (255, 128, 0), (255, 255, 0), (0, 255, 0), (0, 255, 255), (0, 0, 255), (128, 0, 255),
             (255, 0, 255)),
            tuple(range(CELLS**2)),
        ),
        Cue(
            "corner",
            f"a tile of {TILE} pixels in one of CLEVR's eight colours in a corner",
            tuple(COLORS.values()),
            _CORNERS,
        ),
    )
}  # fmt: skip


def tile_masks(places: np.ndarray) -> np.ndarray:
    """Return the pixels of tiles at some places, (N, 128, 128) bool."""
    away = np.arange(SIZE) - places[..., np.newaxis]  # (N, 2, 128)
    inside = (away >= 0) & (away < TILE)
    return inside[:, 0, :, np.newaxis] & inside[:, 1, np.newaxis, :]


def planted(images: np.ndarray, cue: Cue, places: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return images, (N, 128, 128, 3) uint8, with a tile in the colour of each one's state."""
    found = images.copy()
    found[tile_masks(places)] = np.repeat(np.array(cue.colors, np.uint8)[states], TILE**2, axis=0)
    return found


def answer(attribute: str, state: int) -> str:
    """Return the cue's answer to a question about an attribute."""
    values = ATTRIBUTES[attribute]
    return values[state % len(values)]


def drawn_states(attribute: str, right: str, consistent: bool, rng: np.random.Generator) -> int:
    """Draw a state whose answer is, or is not, the right one."""
    return int(rng.choice([state for state in range(STATES) if (answer(attribute, state) == right) == consistent]))
