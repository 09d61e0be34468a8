"""Methods that only need scores of changed inputs, and the random control.

Every function takes the model queries of a batch of inputs and returns maps without the channel axis, ``(N, T)`` or
``(N, H, W)``, at the input's resolution, in units of the score. Each feature of a vector is a position: its maps
are ``(N, F)``. Masks can keep or remove groups of positions, such as superpixels, words or columns; see
``coalitions_of``.

Shapley values, KernelSHAP and LIME always explain groups: a removed group takes the values of the baseline, and a
group's value is divided evenly among its positions, so that the sum over a map is the sum over groups. f_t is the score
of the target class.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import numbers
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from attribution import batching
from attribution.batching import as_array
from attribution.errors import BadInput, listed
from attribution.methods import resizing
from attribution.methods.gradients import scikit_image, start_of
from attribution.methods.queries import ModelQueries

_SUPERPIXELS = 50
_GROUP_MEAN = "group_mean"
_FIRST_RIDGE = 0.01  # penalty of the model by which lime's authors choose features
_LEAST_OPENED = 1e-4  # added to the sum of masks, which may be 0
MOST_FEATURES = 2048  # more are not removed one by one without being requested


def rise(
    queries: ModelQueries,
    *,
    masks: int = 1000,
    cells: int | None = None,
    probability: float = 0.5,
    groups: Any = None,
    baseline: Any = 0.0,
    divide_by: str = "expectation",
    stretch: str = "cells",
) -> np.ndarray:
    """RISE (Petsiuk et al. 2018): random masks averaged with the target scores of the masked inputs.

    A mask is a grid of ``cells`` cells a side, each open with ``probability``, upsampled bilinearly to the
    input plus one cell and cropped at random. The same masks serve every input. Equal masks, of which a short signal
    has many, are scored once.
    The map is Σ f_t(x · m) m / (masks · probability), non-negative for probabilities. With ``groups`` a mask keeps each
    group with ``probability``; where there are no more than ``masks`` such masks, each is scored once, weighted by its
    probability, and the map is the exact expectation.

    Parameters
    ----------
    masks
        Number of masks; below 1,000 the map is still noisy.
    cells
        Cells along each axis; ``None`` for 7, and for one mask for each feature of a vector, as
        ``groups="features"``.
    probability
        Share of open cells, or of groups kept, in (0, 1].
    groups
        Groups to keep or remove in place of cells, as in ``coalitions_of``.
    baseline
        Values where a mask is closed; as in ``attribution.methods.gradients.integrated_gradients``.
    divide_by
        ``"expectation"``, masks · probability; or ``"masks"``, the sum of the masks at each position. Of cells alone;
        refused for groups, as ``stretch`` is.
    stretch
        ``"cells"``: a cell has a whole number of positions, rounded up, and the crop begins in the first cell.
        ``"fraction"``: the grid is stretched to the input's size times 1 + 1 / cells, and the crop may begin at any
        position that it fits in. ``"mirrored"``: as ``"cells"``, with mirrored edges, where the others repeat them.
    """
    if groups is None and cells is None and queries.inputs.ndim <= 2:
        groups = default_groups(queries.inputs.shape)
    cells = _checked_cells(masks, cells, probability, divide_by, stretch)
    if groups is not None:
        if (divide_by, stretch) != ("expectation", "cells"):
            raise BadInput(
                "rise by groups, as of a vector, has no cells for divide_by= and stretch=; set cells= or omit them"
            )
        return _rise_of_groups(coalitions_of(queries, groups, baseline), masks, probability)
    spatial = positions(queries.inputs.shape)
    start = np.broadcast_to(start_of(queries, baseline), queries.inputs.shape)
    difference = queries.inputs - start
    channels = math.prod(difference.shape[1 + len(spatial) :])  # 1 of a vector
    masks_of, counts = _drawn_masks(queries.seed, masks, spatial, cells, probability, stretch)

    def masks_and_pairs(numbers: np.ndarray) -> Iterator[tuple[np.ndarray, slice]]:
        for mask, (_, begin, end) in zip(masks_of(numbers[0], numbers[-1]), batching.pieces(numbers), strict=True):
            yield mask, slice(begin, end)

    def masked(numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
        variants = np.empty((len(rows), *difference.shape[1:]), difference.dtype)
        for mask, pairs in masks_and_pairs(numbers):
            mask = mask.repeat(channels).reshape(difference.shape[1:])  # faster than to broadcast few channels
            np.multiply(batching.take(difference, rows[pairs]), mask, out=variants[pairs])
            variants[pairs] += batching.take(start, rows[pairs])
        return variants

    total = np.zeros((len(queries), *spatial))
    for taken, rows, scores in queries.pair_scores(len(counts), masked):
        weighted = counts[taken] * scores
        for mask, pairs in masks_and_pairs(taken):
            total[rows[pairs][0] : rows[pairs][-1] + 1] += np.multiply.outer(weighted[pairs], mask)
    if divide_by == "masks":
        opened = (count * masks_of(number, number)[0].astype(float) for number, count in enumerate(counts))
        total /= _LEAST_OPENED + sum(opened)
    else:
        total /= masks * probability
    return total


def _drawn_masks(
    seed: int, masks: int, spatial: tuple[int, ...], cells: int, probability: float, stretch: str
) -> tuple[Callable[[int, int], np.ndarray], np.ndarray]:
    """Return a function from the first and the last number to those masks of ``rise``, and how often each counts."""

    def drawn(first: int, last: int) -> np.ndarray:
        generators = [batching.generator(seed, number, "rise") for number in range(first, last + 1)]
        return random_masks(generators, spatial, cells, probability, stretch)

    if len(spatial) > 1 or 2**cells * -(-spatial[0] // cells) > 4 * masks:  # then few are drawn repeatedly
        return functools.lru_cache(1)(drawn), np.ones(masks, np.float32)  # a pass needs its masks twice
    every = drawn(0, masks - 1)
    _, first_of, counts = np.unique(every, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first_of)
    distinct = every[first_of[order]]
    return lambda first, last: distinct[first : last + 1], counts[order].astype(np.float32)


def _checked_cells(masks: int, cells: Any, probability: float, divide_by: str, stretch: str) -> int:
    """Return the number of cells of ``rise``, whose other parameters are checked, too."""
    cells = 7 if cells is None else cells
    whole = isinstance(cells, numbers.Integral)
    if masks < 1 or not (whole and cells >= 1) or not 0 < probability <= 1:
        raise BadInput(
            f"rise needs masks >= 1, cells >= 1 and probability in (0, 1], not {masks}, {cells!r}, {probability}"
        )
    _choose("divide_by", divide_by, ("expectation", "masks"))
    _choose("stretch", stretch, ("cells", "fraction", "mirrored"))
    return int(cells)


def _choose(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise BadInput(f"no {name} {value!r}; there are {listed(allowed)}")


def _rise_of_groups(coalitions: _Coalitions, masks: int, probability: float) -> np.ndarray:
    """Return the maps of ``rise`` by masks of groups, the same for all inputs of as many groups."""
    seed = coalitions.queries.seed
    kept, weights = {}, {}
    for count in map(int, set(coalitions.counts)):
        if 2**count <= masks:
            kept[count] = (np.arange(2**count)[:, np.newaxis] >> np.arange(count)) & 1 == 1
            weights[count] = np.where(kept[count], probability, 1 - probability).prod(axis=1)
        else:
            numbers = (batching.generator(seed, number, "rise").random(count) for number in range(masks))
            kept[count] = np.stack(list(numbers)) < probability
            weights[count] = np.full(masks, 1 / masks)
    maps = np.empty(coalitions.labels.shape)
    scores = coalitions.scores_of([kept[count] for count in coalitions.counts])
    for row, count in enumerate(coalitions.counts):
        maps[row] = ((weights[count] * scores[row]) @ kept[count] / probability)[coalitions.labels[row]]
    return maps


def positions(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes between batch and channels of inputs of a shape; a vector's features are its positions."""
    return tuple(shape[1:-1] if len(shape) > 2 else shape[1:])


def random_masks(
    generators: Sequence[np.random.Generator],
    spatial: tuple[int, ...],
    cells: int,
    probability: float,
    stretch: str = "cells",
) -> np.ndarray:
    """Return RISE's mask of each generator, float32 in [0, 1], ``(len(generators), *spatial)``; see ``rise``."""
    if stretch == "fraction":
        sizes = [int(size * (1 + 1 / cells)) for size in spatial]
        sides = [whole - size + 1 for whole, size in zip(sizes, spatial, strict=True)]
    else:
        sides = [-(-size // cells) for size in spatial]
        sizes = [(cells + 1) * side for side in sides]
    drawn = [(one.random((cells,) * len(spatial)), *(one.integers(0, side) for side in sides)) for one in generators]
    grids, *starts = map(np.array, zip(*drawn, strict=True))
    masks = (grids < probability).astype(np.float32)
    matrix_of = resizing.mirrored_matrix if stretch == "mirrored" else resizing.interpolation_matrix
    for size, whole, start in zip(spatial, sizes, starts, strict=True):
        # The grid is stretched over one cell more than the input; a window of it is read.
        windows = matrix_of(cells, whole)[start[:, np.newaxis] + np.arange(size)]
        # The first axis after the masks is stretched and becomes the last.
        masks = masks.reshape(len(masks), cells, -1).swapaxes(1, 2) @ windows.swapaxes(1, 2)
    return masks.reshape(-1, *spatial)


def occlusion(
    queries: ModelQueries,
    *,
    patch: int | None = None,
    stride: int | None = None,
    groups: Any = None,
    baseline: Any = 0.0,
    overlap: str = "mean",
    border: str = "shifted",
    complement: bool = False,
    per_patch: bool = False,
    keep: bool = False,
) -> np.ndarray:
    """Occlusion (Zeiler and Fergus 2014): how much the target score falls when a patch is covered.

    A position's value is the mean of f_t(x) - f_t(x with the patch covered) over the patches that cover it. With
    ``groups`` it is f_t(x) - f_t(x without the position's group).

    Parameters
    ----------
    patch
        Side of the patch in positions; by default an eighth of each axis, rounded up, and 1 of a vector.
    stride
        Step between patches, at most the patch's side, which is the default. The last patch ends at the border.
    groups
        Groups to remove one at a time in place of patches, as in ``coalitions_of``; ``None`` for patches.
    baseline
        Values of the patch or group, as in ``attribution.methods.gradients.integrated_gradients``.
    overlap
        ``"mean"`` or ``"sum"`` over the patches that cover a position.
    border
        ``"shifted"``: the last patch ends at the border; ``"clipped"``: it begins a stride after the one before and is
        cut off at the border; ``"dropped"``: patches that would be cut off are skipped, and what no patch covers is 0.
    complement
        Whether a patch's value is 1 - f_t(x with the patch covered), as if the score were a probability.
    per_patch
        Whether maps have one number for each patch instead of for each position.
    keep
        Whether a patch's value is f_t(x with all but the patch covered) instead of a difference.
    """
    _choose("overlap", overlap, ("mean", "sum"))
    _choose("border", border, ("shifted", "clipped", "dropped"))
    if keep and complement:
        raise BadInput("occlusion takes keep=True or complement=True, not both: a patch's value is either's")
    if groups is not None:
        if (patch, stride, overlap, border, complement or per_patch or keep) != (None, None, "mean", "shifted", False):
            raise BadInput(
                "occlusion takes groups= or patch= and stride=, not both; nor the other parameters of patches"
            )
        return _occlusion_of_groups(coalitions_of(queries, groups, baseline))
    spatial = positions(queries.inputs.shape)
    if queries.inputs.ndim <= 2 and patch is None:
        default_groups(queries.inputs.shape)  # refuses too many
        patch = 1
    windows = occlusion_windows(spatial, patch, stride, border)
    start = np.broadcast_to(start_of(queries, baseline), queries.inputs.shape)

    def covered(number: int, rows: np.ndarray) -> Any:
        outside, inside = (start, queries.inputs) if keep else (queries.inputs, start)
        changed = outside[rows]
        place: tuple[Any, ...] = (rows, *windows[number])
        changed[(slice(None), *windows[number])] = inside[place]
        return changed

    drops = np.empty((len(queries), len(windows)))
    for number, rows, scores in queries.variant_scores(len(windows), covered):
        drops[rows, number] = scores if keep else (1 if complement else queries.target_scores[rows]) - scores
    if per_patch:
        return drops.reshape(-1, *(len({part.start for part in axis}) for axis in zip(*windows, strict=True)))
    return _on_positions(drops, windows, spatial, overlap)


def _on_positions(
    drops: np.ndarray, windows: Sequence[tuple[slice, ...]], spatial: tuple[int, ...], overlap: str
) -> np.ndarray:
    """Return the sum or the mean, at each position, of what the windows ``(N, windows)`` that cover it have."""
    maps, cover = np.zeros((len(drops), *spatial)), np.zeros(spatial)
    for window, of_window in zip(windows, drops.T, strict=True):
        cover[window] += 1
        maps[(slice(None), *window)] += of_window.reshape(-1, *(1,) * len(spatial))
    return maps / np.maximum(cover, 1) if overlap == "mean" else maps


def _occlusion_of_groups(coalitions: _Coalitions) -> np.ndarray:
    """Return the maps of ``occlusion`` by one pass for each group."""
    maps = np.empty(coalitions.labels.shape)
    scores = coalitions.scores_of([~np.eye(count, dtype=bool) for count in coalitions.counts])
    for row, target_score in enumerate(coalitions.queries.target_scores):
        maps[row] = (target_score - scores[row])[coalitions.labels[row]]
    return maps


def occlusion_windows(
    spatial: tuple[int, ...], patch: int | None = None, stride: int | None = None, border: str = "shifted"
) -> list[tuple[slice, ...]]:
    """Return the patches of ``occlusion`` on an input of the shape ``spatial``."""
    if not all(isinstance(value, (numbers.Integral, type(None))) for value in (patch, stride)):
        raise BadInput(f"occlusion needs whole numbers as patch and stride, not {patch!r} and {stride!r}")
    return list(itertools.product(*(_axis_windows(size, patch, stride, border) for size in spatial)))


def _axis_windows(size: int, patch: int | None, stride: int | None, border: str) -> list[slice]:
    side = -(-size // 8) if patch is None else min(int(patch), size)
    if border == "dropped" and patch is not None and patch > size:
        raise BadInput(
            f"occlusion skips patches that are cut off, as all of {patch} are of {size}; give a smaller patch"
        )
    step = side if stride is None else int(stride)
    if min(side, step) < 1:
        raise BadInput(f"occlusion needs patch >= 1 and stride >= 1, not {patch} and {stride}")
    if step > side and side < size:
        raise BadInput(f"occlusion needs a stride of at most the patch {side}, not {stride}, to cover every position")
    starts: Sequence[int] = range(0, size - side + (1 if border == "dropped" else step), step)
    if border == "shifted":
        starts = sorted({min(start, size - side) for start in starts})
    return [slice(start, min(start + side, size)) for start in starts]


@dataclasses.dataclass(frozen=True)
class _Coalitions:
    """Groups of a batch of inputs, and inputs in which only some of them are kept.

    Attributes
    ----------
    queries
        Queries of the inputs.
    labels
        ``(N, positions...)`` int64: number of each position's group, from 0.
    counts
        ``(N,)``: number of groups of each input.
    start
        The baseline, of the inputs' shape.
    """

    queries: ModelQueries
    labels: np.ndarray
    counts: np.ndarray
    start: np.ndarray

    def keeping(self, rows: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return inputs ``rows`` with the groups kept, ``(R, groups)`` bool, and the others at the baseline."""
        places = np.arange(len(rows)).reshape(-1, *(1,) * (self.labels.ndim - 1))
        mask = kept[places, self.labels[rows]]
        inputs = self.queries.inputs
        if inputs.ndim > mask.ndim:
            mask = mask[..., np.newaxis]
        changed: np.ndarray = np.where(mask, inputs[rows], self.start[rows])
        return changed

    def scores(self, totals: Sequence[int], kept: Callable[[int, int], np.ndarray]) -> list[np.ndarray]:
        """Return the target scores ``(K_i,)`` float64 of each input's K_i coalitions.

        ``kept(row, number)`` is which groups an input's coalition keeps, ``(groups,)`` bool.
        """
        ends = np.asarray(totals)
        found = np.empty((len(ends), ends.max(initial=0)))
        grid = [has_one.nonzero()[0] for has_one in ends > np.arange(found.shape[1])[:, np.newaxis]]

        def changed(numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
            of_pass = np.zeros((len(rows), self.counts.max()), bool)  # inputs with fewer groups have no others to keep
            for place, (row, number) in enumerate(zip(rows, numbers, strict=True)):
                of_pass[place, : self.counts[row]] = kept(row, number)
            return self.keeping(rows, of_pass)

        for coalitions, rows, scores in self.queries.pair_scores(grid, changed):
            found[rows, coalitions] = scores
        return [of_row[:end] for of_row, end in zip(found, ends, strict=True)]

    def scores_of(self, kept: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the same of coalitions ``(K_i, groups)`` bool of each input."""
        return self.scores([len(coalitions) for coalitions in kept], lambda row, number: kept[row][number])

    def maps(self, values: list[np.ndarray]) -> np.ndarray:
        """Return maps of the values of each input's groups, divided by the groups' sizes."""
        maps = np.empty(self.labels.shape)
        for row, of_groups in enumerate(values):
            labels = self.labels[row]
            maps[row] = (of_groups / np.bincount(labels.ravel(), minlength=len(of_groups)))[labels]
        return maps


def coalitions_of(queries: ModelQueries, groups: Any, baseline: Any) -> _Coalitions:
    """Return the groups of a batch of inputs.

    Parameters
    ----------
    groups
        ``None``: ``"features"`` of a vector ``(N, F)`` and of a signal of at most 50 positions, else ``"patches"``.
        ``"features"``: every position is a group. ``"patches"``: patches of an eighth of each axis.
        ``"superpixels"``: the segments that SLIC finds in an image (Achanta et al. 2012; needs scikit-image), about
        50. ``"quickshift"``: those of quick shift (Vedaldi and Soatto 2008) with the numbers of lime's authors, of
        images in [0, 1] with three channels. Or whole numbers of the positions' shape, one for each input or the same
        for all: positions with the same number are one group, such as a word's tokens or a column's one-hot code.
    baseline
        Values of removed groups; as in ``attribution.methods.gradients.integrated_gradients``, or ``"group_mean"``:
        each group's own mean of each channel.

    Raises
    ------
    BadInput
        If ``groups`` is none of what is allowed.
    """
    shape = (len(queries), *positions(queries.inputs.shape))
    if groups is not None and not isinstance(groups, str):
        groups = queries.batch_rows(as_array(groups, "groups"), len(shape))
    labels = np.broadcast_to(labels_of(queries.inputs, groups), shape)
    numbered = np.empty(shape, np.int64)
    counts = np.empty(len(queries), np.int64)
    for row, one in enumerate(labels):
        known, inverse = np.unique(one, return_inverse=True)
        numbered[row], counts[row] = inverse.reshape(shape[1:]), len(known)
    if isinstance(baseline, str) and baseline == _GROUP_MEAN:
        start = _group_means(queries.inputs, numbered)
    else:
        start = np.broadcast_to(start_of(queries, baseline), queries.inputs.shape)
    return _Coalitions(queries, numbered, counts, start)


def _group_means(inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return inputs whose values are the means of their groups ``(N, positions...)``, of each channel alone."""
    values = inputs.reshape(*labels.shape, -1)
    means = np.empty(values.shape, inputs.dtype)
    for row, groups in enumerate(labels):
        sizes = np.bincount(groups.ravel())
        for channel in range(values.shape[-1]):
            sums = np.bincount(groups.ravel(), values[row, ..., channel].ravel())
            means[row, ..., channel] = (sums / sizes)[groups]
    return means.reshape(inputs.shape)


def labels_of(inputs: np.ndarray, groups: Any) -> np.ndarray:
    """Return the group of each position of some inputs, whole numbers ``(N or 1, positions...)``.

    ``inputs`` are ``(N, ...)``, channels last; ``groups`` and what is raised are as in ``coalitions_of``.
    """
    spatial = positions(inputs.shape)
    if groups is None:
        groups = default_groups(inputs.shape)
    if isinstance(groups, str) and groups == "features":
        return np.arange(math.prod(spatial)).reshape(1, *spatial)
    if isinstance(groups, str) and groups == "patches":
        labels = np.empty((1, *spatial), np.int64)
        for number, window in enumerate(occlusion_windows(spatial)):
            labels[0][window] = number
        return labels
    if isinstance(groups, str):
        if groups not in _SEGMENTS or inputs.ndim != 4:
            raise BadInput(
                f"groups='{groups}'; groups are None, 'features', 'patches', 'superpixels' or 'quickshift' (of "
                "images), or an array of whole numbers"
            )
        found = [_SEGMENTS[groups](image) for image in inputs]
        return np.stack(found) if found else np.zeros(inputs.shape[:-1], np.int64)
    array = as_array(groups, "groups")
    array = array if array.ndim > len(spatial) else array[np.newaxis]
    if not np.issubdtype(array.dtype, np.integer) or array.shape not in ((len(inputs), *spatial), (1, *spatial)):
        raise BadInput(
            f"groups of shape {np.shape(groups)} and type {array.dtype}; whole numbers are needed of the positions' "
            f"shape {spatial}, with one row for each input or without"
        )
    return array


def default_groups(shape: tuple[int, ...]) -> str:
    """Return what ``groups=None`` is for inputs of a shape ``(N, ...)``; see ``coalitions_of``.

    The features of a vector, such as the columns of a table, are not neighbors.

    Raises
    ------
    BadInput
        If a vector has too many features to remove each of them.
    """
    size = math.prod(positions(shape))
    if len(shape) <= 2 and size > MOST_FEATURES:
        raise BadInput(
            f"a vector of {size:,} features has too many to remove each alone; set groups='patches' for eighths of it, "
            "as for a sound, groups='features' for each, or an array of group numbers"
        )
    is_short = len(shape) == 3 and size <= _SUPERPIXELS
    return "features" if len(shape) <= 2 or is_short else "patches"


def superpixels(image: np.ndarray) -> np.ndarray:
    """Return about 50 SLIC segments of an image, (H, W, C) to (H, W) int64 from 1; needs scikit-image."""
    low, high = float(image.min()), float(image.max())
    scaled = (image - low) / (high - low or 1.0)
    slic = scikit_image("superpixels need").slic
    return np.asarray(slic(scaled, n_segments=_SUPERPIXELS, channel_axis=-1, convert2lab=image.shape[-1] == 3))


def _quick_shift(image: np.ndarray) -> np.ndarray:
    """Return the segments of an image ``(H, W, 3)`` by quick shift as lime calls it, from 0."""
    if image.shape[-1] != 3:
        raise BadInput(f"groups='quickshift' needs images with three channels, not {image.shape[-1]}")
    return np.asarray(scikit_image("superpixels need").quickshift(image, kernel_size=4, max_dist=200, ratio=0.2))


_SEGMENTS = {"superpixels": superpixels, "quickshift": _quick_shift}


def random(queries: ModelQueries) -> np.ndarray:
    """Return maps of independent random numbers, uniform in [0, 1): the control that every method must beat."""
    spatial = positions(queries.inputs.shape)
    return np.stack([queries.generator(row, "random map").random(spatial) for row in range(len(queries))])


def shapley_sampling(
    queries: ModelQueries,
    *,
    permutations: int = 25,
    groups: Any = None,
    baseline: Any = 0.0,
    antithetic: bool = True,
) -> np.ndarray:
    """Shapley values by sampled permutations (Castro, Gómez and Tejada 2009).

    In each permutation the groups are added to the baseline one after another; a group's value is the mean gain in
    f_t. The map's sum is f_t(x) - f_t(b), exactly. Every second permutation is the reverse of the one before
    (Mitchell, Cooper, Frank and Holmes 2022), which removes the variance of interactions of two.

    Parameters
    ----------
    permutations
        Permutations of each input's groups.
    antithetic
        Whether every second one is a reverse; otherwise all are independent.
    """
    if permutations < 1:
        raise BadInput(f"shapley_sampling needs at least 1 permutation, not {permutations}")
    coalitions = coalitions_of(queries, groups, baseline)
    orders = []
    for row, count in enumerate(coalitions.counts):
        generator = queries.generator(row, "shapley sampling")
        of_row: list[np.ndarray] = []
        for number in range(permutations):
            of_row.append(of_row[-1][::-1] if number % 2 and antithetic else generator.permutation(count))
        orders.append(np.array(of_row))
    ranks = [np.argsort(order, axis=1) for order in orders]

    def kept(row: int, number: int) -> np.ndarray:
        """Return the groups up to a place of an order: none, then those up to place 1 of every order, and so on."""
        up_to: np.ndarray = ranks[row][(number - 1) % permutations] < -(-number // permutations)
        return up_to

    # The last coalition, all groups, is the input itself.
    scores = coalitions.scores([1 + permutations * (count - 1) for count in coalitions.counts], kept)
    values = []
    for row, count in enumerate(coalitions.counts):
        along = np.empty((count + 1, permutations))  # scores after each place of each permutation
        along[0], along[-1] = scores[row][0], queries.target_scores[row]
        along[1:-1] = scores[row][1:].reshape(count - 1, permutations)
        gains = np.diff(along, axis=0)
        total = np.zeros(count)
        for order, gain in zip(orders[row], gains.T, strict=True):
            total[order] += gain
        values.append(total / permutations)
    return coalitions.maps(values)


def kernel_shap(
    queries: ModelQueries,
    *,
    samples: int | None = None,
    groups: Any = None,
    baseline: Any = 0.0,
    paired: bool = True,
    most_groups: int | None = None,
) -> np.ndarray:
    """KernelSHAP (Lundberg and Lee 2017): Shapley values as a weighted regression of f_t on the groups kept.

    Coalitions are sampled by the Shapley kernel in pairs of complements (Covert and Lee 2021); where there are no more
    than ``samples`` of them, each is scored once and the values are exact. The sum is f_t(x) - f_t(b), exactly.

    Parameters
    ----------
    samples
        Coalitions of each input besides none and all; ``None`` for 500, or 4 for each group where that is more.
        Fewer than 2 for each group but one are refused, because they determine no values.
    paired
        Whether coalitions are sampled in pairs, or all of them taken where they are few; otherwise each is sampled
        independently.
    most_groups
        Inputs with more groups are refused; ``None`` for any number. SHAP's values are Shapley values of at most 10
        groups: of more it gives all but 10 the value 0.
    """
    _check_samples("kernel_shap", samples, least=2)
    coalitions = coalitions_of(queries, groups, baseline)
    count = int(coalitions.counts.max(initial=0))
    if most_groups is not None and count > most_groups:
        raise BadInput(f"kernel_shap with most_groups={most_groups} cannot explain {count} groups; choose larger ones")
    kept, weights = [], []
    for row, count in enumerate(coalitions.counts):
        chosen = samples or _enough_samples(count)
        of_row, weight = _by_shapley_kernel(int(count), chosen, queries.generator(row, "kernel shap"), paired)
        _refuse_undetermined("kernel_shap", of_row)
        kept.append(np.concatenate([np.zeros((1, count), bool), of_row]))
        weights.append(weight)
    scores = coalitions.scores_of(kept)
    values = []
    for row in range(len(queries)):
        total = queries.target_scores[row].astype(float) - scores[row][0]
        values.append(_constrained_regression(kept[row][1:], scores[row][1:] - scores[row][0], weights[row], total))
    return coalitions.maps(values)


_SOLVING = threading.Lock()


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Solve on one thread: on a busy machine the others wait in a loop, for longer than the solution takes."""
    with _SOLVING, _blas().limit(limits=1, user_api="blas"):  # the limit is the process's
        yield


def _enough_samples(count: int) -> int:
    return max(500, 4 * int(count))


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _check_samples(method: str, samples: int | None, least: int) -> None:
    if samples is not None and not (_is_whole(samples) and least <= samples <= 10**7):
        raise BadInput(f"{method} needs a number of samples from {least} to 10,000,000, or None, not {samples!r}")


@_one_thread()
def _refuse_undetermined(method: str, kept: np.ndarray) -> None:
    """Refuse coalitions ``(K, groups)`` from which a regression without penalty cannot tell all groups apart."""
    rows = np.concatenate([kept, np.ones((1, kept.shape[1]))])
    count = kept.shape[1]
    if np.linalg.matrix_rank(rows.T @ rows, hermitian=True) < count:
        raise BadInput(
            f"{method}: {len(kept)} samples do not determine the values of {count} groups; set samples="
            f"{_enough_samples(count)}, or omit it"
        )


def _by_shapley_kernel(
    count: int, samples: int, generator: np.random.Generator, paired: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return coalitions ``(K, count)`` bool, neither empty nor whole, and their weights in the regression."""
    if count < 2:
        return np.zeros((0, count), bool), np.zeros(0)
    sizes = np.arange(1, count)
    if paired and 2**count - 2 <= samples:
        numbers = np.arange(1, 2**count - 1)
        every = (numbers[:, np.newaxis] >> np.arange(count)) & 1 == 1
        size = every.sum(axis=1)
        binomial = np.array([math.comb(count, int(one)) for one in size])
        return every, (count - 1) / (binomial * size * (count - size))
    mass = 1 / (sizes * (count - sizes))
    drawn = generator.choice(sizes, (samples + 1) // 2 if paired else samples, p=mass / mass.sum())
    ranks = np.argsort(generator.random((len(drawn), count)), axis=1).argsort(axis=1)
    half = ranks < drawn[:, np.newaxis]
    chosen = np.concatenate([half, ~half])[:samples] if paired else half
    return chosen, np.ones(len(chosen))


@_one_thread()
def _constrained_regression(kept: np.ndarray, gains: np.ndarray, weights: np.ndarray, total: float) -> np.ndarray:
    """Return the φ that minimises Σ w (gain - Σ_kept φ)² with Σ φ = total."""
    share = total / kept.shape[1]
    # φ is an even share of the total and a part that sums to zero. The design does not see a sum; 1 / groups added to
    # the normal equations makes it zero.
    design, rest = kept - kept.mean(axis=1, keepdims=True), gains - kept.sum(axis=1) * share
    weighted = weights[:, np.newaxis] * design
    part = np.linalg.solve(weighted.T @ design + 1 / kept.shape[1], weighted.T @ rest)
    phi: np.ndarray = share + part - part.mean()
    return phi


def lime(
    queries: ModelQueries,
    *,
    samples: int | None = None,
    groups: Any = None,
    baseline: Any = 0.0,
    width: float = 0.25,
    ridge: float = 1.0,
    strongest: int | None = None,
) -> np.ndarray:
    """LIME (Ribeiro, Singh and Guestrin 2016): coefficients of a linear model of f_t around the input.

    Each group is kept with probability 1/2. A sample's weight is √exp(-d² / width²), with d the cosine distance of its
    kept groups from all groups, as in the authors' code. The linear model has an intercept and a ridge penalty.

    Parameters
    ----------
    samples
        Samples of each input, the input itself besides; ``None`` for 500, or 4 for each group where that is more.
    width
        Width of the kernel, above 0.
    ridge
        Penalty on the squared coefficients, at least 0. With 0, fewer samples than groups are refused.
    strongest
        Number of groups in the linear model, at least 1: those whose coefficients are largest, whatever their sign, in
        a first model of all groups with a penalty of 0.01. The others get 0. ``None`` for all.
    """
    _check_samples("lime", samples, least=1)
    if not 1e-3 <= width <= 1e6 or not ridge >= 0:
        raise BadInput(f"lime needs width from 0.001 to 1e6 and ridge >= 0, not {width} and {ridge}")
    if strongest is not None and not (_is_whole(strongest) and strongest >= 1):
        raise BadInput(f"lime needs a whole number of strongest groups from 1, or None, not {strongest!r}")
    coalitions = coalitions_of(queries, groups, baseline)
    kept = [
        queries.generator(row, "lime").random((samples or _enough_samples(count), count)) < 0.5
        for row, count in enumerate(coalitions.counts)
    ]
    for of_row in kept if ridge == 0 else ():
        _refuse_undetermined("lime", of_row)
    scores = coalitions.scores_of(kept)
    values = []
    for row in range(len(queries)):
        masks = np.concatenate([np.ones((1, kept[row].shape[1])), kept[row]])
        targets = np.concatenate([queries.target_scores[row : row + 1], scores[row]]).astype(np.float64)
        distance = 1 - np.sqrt(masks.mean(axis=1))  # the cosine of a mask and of all ones
        weights = np.sqrt(np.exp(-np.square(distance) / width**2))
        chosen = np.arange(masks.shape[1])
        if strongest is not None and strongest < len(chosen):
            chosen = np.argsort(-np.abs(_ridge(masks, targets, weights, _FIRST_RIDGE)))[:strongest]
        values.append(np.zeros(masks.shape[1]))
        values[-1][chosen] = _ridge(masks[:, chosen], targets, weights, ridge)
    return coalitions.maps(values)


@_one_thread()
def _ridge(masks: np.ndarray, targets: np.ndarray, weights: np.ndarray, penalty: float) -> np.ndarray:
    """Return the coefficients c that minimise Σ w (target - intercept - mask · c)² + penalty Σ c²."""
    centered = masks - np.average(masks, axis=0, weights=weights)
    rest = targets - np.average(targets, weights=weights)
    matrix = centered.T @ (weights[:, np.newaxis] * centered) + penalty * np.eye(masks.shape[1])
    coefficients: np.ndarray = np.linalg.lstsq(matrix, centered.T @ (weights * rest), rcond=None)[0]
    return coefficients
