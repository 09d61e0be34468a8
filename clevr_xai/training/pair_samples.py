"""A sample of the pairs of cells that stands for all of them in a training step.

A question's cost is that of g on 2,401 pairs. A training step takes g on fewer. All pairs of two objects' centres are
among them; the others are drawn evenly from three strata, pairs of two cells that show objects, of one, and of none,
and weigh their stratum's size over the number drawn. So the weighted sum is right in expectation and exact in what
matters, and the weights of all pairs always add up to 2,401: whatever is the same in all pairs adds no noise.
"""

from __future__ import annotations

import numpy as np

# Shares of the places left: pairs of cells that show objects vary most, pairs of empty cells least.
TWO_SHOWN, NONE_SHOWN = 0.5, 0.15


def draw(
    centres: np.ndarray, shown: np.ndarray, number: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw pairs of cells and their weights.

    Parameters
    ----------
    centres : (B, cells) bool
        Cells with an object's centre; all their pairs are drawn.
    shown : (B, cells) bool
        Cells that show an object; contains ``centres``.
    number
        Of the pairs an image, at least three more than any image has pairs of centres.
    rng

    Returns
    -------
    pairs : (B, number, 2) int32
        First and second cell.
    weights : (B, number) float32
        How many pairs each stands for; 0 for one that only fills up.

    Raises
    ------
    ValueError
        For too small a number.
    """
    batch, cells = centres.shape
    certain = centres[:, :, None] & centres[:, None, :]
    either = shown[:, :, None].astype(np.int8) + shown[:, None, :]
    stratum = np.where(certain, 0, 3 - either).reshape(batch, cells**2)  # 1: two shown, 2: one, 3: none
    sizes = (stratum[:, :, None] == np.arange(4)).sum(axis=1)
    quotas = _quotas(sizes, number)
    order = np.argsort(stratum + rng.random(stratum.shape, np.float32), axis=1)
    starts = np.cumsum(sizes, axis=1) - sizes
    ends = np.cumsum(quotas, axis=1)
    place = np.arange(number)
    which = (place[None, :, None] >= ends[:, None]).sum(axis=-1)  # 4: fills up
    known = np.minimum(which, 3)
    rank = place - np.take_along_axis(ends - quotas, known, axis=1)
    chosen = np.take_along_axis(starts, known, axis=1) + rank
    pairs = np.take_along_axis(order, np.where(which == 4, 0, chosen), axis=1)
    weights = np.take_along_axis(sizes / np.maximum(quotas, 1), known, axis=1)
    return (
        np.stack([pairs // cells, pairs % cells], axis=-1).astype(np.int32),
        np.where(which == 4, 0.0, weights).astype(np.float32),
    )


def _quotas(sizes: np.ndarray, number: int) -> np.ndarray:
    """Return how many pairs to draw of each stratum, (B, 4); at least one of each that has any."""
    left = number - sizes[:, 0]
    if left.min() < 3 and number < sizes[0].sum():
        raise ValueError(f"{number} pairs are too few for images with {sizes[:, 0].max()} pairs of centres")
    quotas = sizes.copy()
    for column, share in ((1, TWO_SHOWN), (3, NONE_SHOWN)):
        quotas[:, column] = np.minimum(sizes[:, column], np.maximum((left * share).astype(np.int64), 1))
    for column in (2, 1, 3):  # what is not used goes to these, in this order
        others = quotas.sum(axis=1) - quotas[:, column]
        quotas[:, column] = np.minimum(sizes[:, column], number - others)
        if column == 2:
            quotas[:, column] = np.maximum(quotas[:, column], 0)
    return quotas
