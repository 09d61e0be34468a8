"""Metrics of regions: cells of a grid, or superpixels, that are removed alone, at random, or one after the other.

A grid has at most 8 cells along each axis of an image and at most 64 along a signal or a vector; where there are no
more positions than that, each is a cell. Removed positions have the input's mean color. Regions count by their
evidence, the sum of signed values, and equals come in random order.
"""

from __future__ import annotations

import numpy as np

from attribution import batching
from attribution.methods.perturbation import labels_of, positions
from attribution_benchmarks.core.batch import Batch, memoize_last, originals
from attribution_benchmarks.metrics.faithfulness import (
    SUBSET,
    SUBSETS,
    against_drops,
    area,
    drops_without,
    on_request,
    probabilities_without,
    random_sets,
    sums_over,
)
from attribution_benchmarks.metrics.imputation import Scores, check_probabilities
from attribution_benchmarks.metrics.in_domain import Deletions
from attribution_benchmarks.metrics.map_values import evidence, flat, magnitude, rank_of_drops, ratio

_CELLS = 64  # of a grid, at most
_NEGLIGIBLE = 1e-5  # of the largest value: what counts as none in non-sensitivity
_ROUNDING = 16 * float(np.finfo(np.float32).eps)  # of a score


def grid(spatial: tuple[int, ...]) -> np.ndarray:
    """Return the cell of each position, (positions,) int64 from 0, of a grid of at most 64 cells."""
    along = int(_CELLS ** (1 / len(spatial)) + 1e-9)
    return Deletions(tuple(min(along, size) for size in spatial), 0.0).numbered(spatial).reshape(-1)


def _grids(batch: Batch) -> np.ndarray:
    cells = grid(positions(batch.pictures.shape))
    return np.broadcast_to(cells, (len(batch), len(cells)))


def _removed_in_order(values: np.ndarray, regions: np.ndarray, batch: Batch, mean: bool = False) -> np.ndarray:
    """Return what is removed after each region, the one of most evidence first, (N, regions, positions) bool.

    ``values`` are (N, positions), ``regions`` (N, positions) int from 0. Inputs of fewer regions than others end with
    all positions removed. The names in ``batch`` determine the order of equals. With ``mean``, regions rank by their
    mean in place of the sum.
    """
    count = int(regions.max()) + 1
    gone = np.zeros((len(values), count, values.shape[1]), bool)
    for row, (one, numbers, key) in enumerate(zip(values, regions, batch.seeds, strict=True)):
        sums, sizes = np.bincount(numbers, one, count), np.bincount(numbers, minlength=count)
        score = np.where(sizes > 0, sums / np.maximum(sizes, 1) if mean else sums, -np.inf)
        among_equals = batching.generator(0, key, "order of regions").random(count)
        places = np.argsort(np.lexsort((among_equals, -score)))
        gone[row] = places[numbers] <= np.arange(count)[:, np.newaxis]
    return gone


def _selectivity(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the mean probability of the target while cells are removed, those of most evidence first, (N,) in [0, 1].

    Area under the curve over the share removed. Quantus's ``Selectivity`` is the same curve without the whole input.
    """
    gone = _removed_in_order(flat(evidence(maps, batch)), _grids(batch), batch)
    steps = tuple(np.arange(1, gone.shape[1] + 1) / gone.shape[1])
    return area(probabilities_without(batch, scores, gone), steps)


def _irof(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the area over the curve of the target's probability while segments are removed, (N,) up to 1.

    Segments, superpixels of an image and cells of another input, are ranked by their mean evidence. The curve is
    relative to the unchanged input, and its area is divided by the number of segments, L. Quantus's ``IROF`` is not
    divided, and its curve begins after the first segment, at r: it is L · ours + (1 + r) / 2. It is less by half the
    last point of the curve where another input of the batch has more segments.
    """
    values, regions = flat(evidence(maps, batch)), _segments(batch)
    curves = probabilities_without(batch, scores, _removed_in_order(values, regions, batch, mean=True))
    relative = ratio(curves, np.broadcast_to(curves[:, :1], curves.shape))
    counts = regions.max(axis=1) + 1
    below = [
        area(one[np.newaxis, : count + 1], tuple(np.arange(1, count + 1) / count))[0]
        for one, count in zip(relative, counts, strict=True)
    ]
    return 1 - np.array(below)


@memoize_last
def _segments(batch: Batch) -> np.ndarray:
    if len(positions(batch.pictures.shape)) != 2:
        return _grids(batch)
    labels = flat(labels_of(batch.pictures, "superpixels"))
    return np.stack([np.unique(one, return_inverse=True)[1].reshape(-1) for one in labels])


@memoize_last
def _drops_of_cells(batch: Batch, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    cells = grid(positions(batch.pictures.shape))
    sets = np.broadcast_to(cells == np.unique(cells)[:, np.newaxis], (len(batch), cells.max() + 1, len(cells)))
    return sets, drops_without(batch, scores, sets)


def _fifths(batch: Batch) -> np.ndarray:
    """Return random fifths of the cells, for μFidelity.

    Xplique's ``MuFidelity`` has another grid, other subsets and zero in place of the mean color.
    """
    cells = grid(positions(batch.pictures.shape))
    count = cells.max() + 1
    return random_sets(batch, "mu_fidelity", count, [max(round(SUBSET * count), 1)] * SUBSETS)[:, :, cells]


def _nonsensitivity(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the share of cells that only the map, or only the network, treats as irrelevant, (N,) in [0, 1].

    A cell is irrelevant to a map if its magnitude is at most 1e-5 of the largest, and to the network if the drop
    without it is at most 1e-5 of the largest, or rounding. Quantus's ``NonSensitivity`` counts such features, removes
    each channel of a position alone, and takes 1e-5 as an absolute drop.
    """
    sets, drops = _drops_of_cells(batch, scores)
    whole, targets = originals(batch, scores)
    sizes, drops = sums_over(sets, flat(magnitude(maps, batch))), np.abs(drops)
    rounding = _ROUNDING * np.abs(np.take_along_axis(whole, targets[:, np.newaxis], axis=1))
    silent = drops <= np.maximum(_NEGLIGIBLE * drops.max(axis=1, keepdims=True), rounding)
    return np.asarray(((sizes <= _NEGLIGIBLE * sizes.max(axis=1, keepdims=True)) != silent).mean(axis=1))


def _completeness(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return how far a map's sum S is from the score's drop D to the input of zeros, |S - D| / (|S| + |D|), (N,).

    In [0, 1]: 0 for a complete map, 1 for one of zeros or of the opposite sign, 0 where S and D are 0. Quantus's
    ``Completeness`` is whether S equals D to the last bit; by default of maps divided by their largest magnitude, and D
    the drop to the input's least value.
    """
    whole, targets = originals(batch, scores)
    empty = _scores_of_zeros(batch, scores)
    drop = np.take_along_axis(whole - empty, targets[:, np.newaxis], axis=1)[:, 0]
    total = flat(evidence(maps, batch)).sum(axis=1)
    return ratio(np.abs(total - drop), np.abs(total) + np.abs(drop), 0.0)


@memoize_last
def _scores_of_zeros(batch: Batch, scores: Scores) -> np.ndarray:
    return np.asarray(scores(batch.with_pictures(np.zeros_like(batch.pictures))), np.float64)


METRICS = (
    on_request("selectivity", _selectivity, check=check_probabilities),
    on_request("irof", _irof, check=check_probabilities),
    on_request("mu_fidelity", against_drops(_fifths, rank_of_drops)),
    on_request("nonsensitivity", _nonsensitivity),
    on_request("completeness", _completeness),
)
