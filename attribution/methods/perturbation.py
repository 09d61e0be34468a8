"""Methods that only need scores of changed inputs, and the random control.

Every function takes the model queries of a batch of inputs and returns maps without the channel axis, ``(N, T)`` or
``(N, H, W)``, at the input's resolution, in units of the score. Each feature of a vector is a position: its maps
are ``(N, F)``.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.methods import resizing
from attribution.methods.queries import ModelQueries
from attribution.model import batching


def rise(queries: ModelQueries, *, masks: int = 1000, cells: int = 7, probability: float = 0.5) -> np.ndarray:
    """RISE (Petsiuk et al. 2018): random masks averaged with the target scores of the masked inputs.

    A mask is a grid of ``cells`` cells a side, each open with ``probability``, upsampled bilinearly to the
    input plus one cell and cropped at random. The same masks serve every input.
    The map is Σ f_t(x · m) m / (masks · probability), non-negative for probabilities.

    Parameters
    ----------
    masks
        Number of masks; below 1,000 the map is still noisy.
    cells
        Cells along each axis.
    probability
        Share of open cells, in (0, 1].
    """
    if masks < 1 or cells < 1 or not 0 < probability <= 1:
        raise BadInput(
            f"rise needs masks >= 1, cells >= 1 and probability in (0, 1], not {masks}, {cells}, {probability}"
        )
    spatial = positions(queries.inputs.shape)

    @functools.lru_cache(1)  # masks are needed number by number
    def mask(number: int) -> np.ndarray:
        return random_mask(batching.generator(queries.seed, number, "rise"), spatial, cells, probability)

    total = np.zeros((len(queries), *spatial))
    shape = spatial if queries.inputs.ndim <= 2 else (*spatial, 1)
    masked_scores = queries.variant_scores(
        masks, lambda number, rows: queries.inputs[rows] * mask(number).reshape(shape)
    )
    for number, rows, scores in masked_scores:
        total[rows] += np.multiply.outer(scores, mask(number))
    total /= masks * probability
    return total


def positions(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes between batch and channels of inputs of a shape; a vector's features are its positions."""
    return tuple(shape[1:-1] if len(shape) > 2 else shape[1:])


def random_mask(generator: np.random.Generator, spatial: tuple[int, ...], cells: int, probability: float) -> np.ndarray:
    """Return one of RISE's masks, float32 in [0, 1], of the shape ``spatial``."""
    mask = (generator.random((cells,) * len(spatial)) < probability).astype(np.float32)
    for axis, size in enumerate(spatial):
        cell = -(-size // cells)
        start = generator.integers(0, cell)
        # The grid is stretched over one cell more than the input; a window of it is read.
        positions = (np.arange(start, start + size) + 0.5) * cells / ((cells + 1) * cell) - 0.5
        matrix = resizing.sample_matrix(positions, cells)
        mask = np.moveaxis(np.tensordot(mask, matrix, axes=(axis, 1)), -1, axis)
    return mask


def occlusion(
    queries: ModelQueries, *, patch: int | None = None, stride: int | None = None, baseline: float = 0.0
) -> np.ndarray:
    """Occlusion (Zeiler and Fergus 2014): how much the target score falls when a patch is covered.

    A position's value is the mean of f_t(x) - f_t(x with the patch covered) over the patches that cover it.

    Parameters
    ----------
    patch
        Side of the patch in positions; by default an eighth of each axis, rounded up.
    stride
        Step between patches, at most the patch's side, which is the default. The last patch ends at the border.
    baseline
        Value of the patch.
    """
    spatial = positions(queries.inputs.shape)
    windows = occlusion_windows(spatial, patch, stride)

    def covered(number: int, rows: np.ndarray) -> Any:
        changed = queries.inputs[rows]
        changed[(slice(None), *windows[number])] = baseline
        return changed

    drops, cover = np.zeros((len(queries), *spatial)), np.zeros(spatial)
    for window in windows:
        cover[window] += 1
    for number, rows, scores in queries.variant_scores(len(windows), covered):
        drop = queries.target_scores[rows] - scores
        place: tuple[Any, ...] = (rows, *windows[number])
        drops[place] += drop.reshape(-1, *(1,) * len(spatial))
    drops /= cover
    return drops


def occlusion_windows(
    spatial: tuple[int, ...], patch: int | None = None, stride: int | None = None
) -> list[tuple[slice, ...]]:
    """Return the patches of ``occlusion`` on an input of the shape ``spatial``."""
    return list(itertools.product(*(_axis_windows(size, patch, stride) for size in spatial)))


def _axis_windows(size: int, patch: int | None, stride: int | None) -> list[slice]:
    side = -(-size // 8) if patch is None else min(int(patch), size)
    step = side if stride is None else int(stride)
    if side < 1 or step < 1:
        raise BadInput(f"occlusion needs patch >= 1 and stride >= 1, not {patch} and {stride}")
    if step > side and side < size:
        raise BadInput(f"occlusion needs a stride of at most the patch {side}, not {stride}, to cover every position")
    starts = {min(start, size - side) for start in range(0, size - side + step, step)}
    return [slice(start, start + side) for start in sorted(starts)]


def random(queries: ModelQueries) -> np.ndarray:
    """Return maps of independent random numbers, uniform in [0, 1): the control that every method must beat."""
    spatial = positions(queries.inputs.shape)
    return np.stack([queries.generator(row, "random map").random(spatial) for row in range(len(queries))])
