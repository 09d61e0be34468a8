"""Methods on groups of positions, such as superpixels, words or columns: Shapley values, KernelSHAP, LIME and XRAI.

Every function takes the queries of a batch of inputs and returns maps without the channel axis, ``(N, T)`` or
``(N, H, W)``, ``(N, F)`` for vectors, float64, in units of the score. All but XRAI need only scores: a removed group
takes the values of the baseline, and a group's value is divided evenly among its positions, so that the sum over a map
is the sum over groups. f_t is the score of the target class. ``groups`` and ``baseline`` are as in
``attribution.methods.perturbation.coalitions_of``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.methods.gradients import path_integral, path_weights
from attribution.methods.perturbation import coalitions_of
from attribution.methods.queries import ModelQueries

_SCALES = (50, 100, 150, 250, 500, 1200)  # of XRAI's segments
_SEGMENTED = 224  # side in pixels of the image that XRAI segments
_NEW_PIXELS = 50


def shapley_sampling(
    queries: ModelQueries, *, permutations: int = 25, groups: Any = None, baseline: Any = 0.0
) -> np.ndarray:
    """Shapley values by sampled permutations (Castro, Gómez and Tejada 2009).

    In each permutation the groups are added to the baseline one after another; a group's value is the mean gain in
    f_t. The map's sum is f_t(x) - f_t(b), exactly. Every second permutation is the reverse of the one before
    (Mitchell, Cooper, Frank and Holmes 2022), which removes the variance of interactions of two.

    Parameters
    ----------
    permutations
        Permutations of each input's groups.
    """
    if permutations < 1:
        raise BadInput(f"shapley_sampling needs at least 1 permutation, not {permutations}")
    coalitions = coalitions_of(queries, groups, baseline)
    orders, kept = [], []
    for row, count in enumerate(coalitions.counts):
        generator = queries.generator(row, "shapley sampling")
        of_row: list[np.ndarray] = []
        for number in range(permutations):
            of_row.append(of_row[-1][::-1] if number % 2 else generator.permutation(count))
        orders.append(np.array(of_row))
        # Groups up to each place of the order; the last coalition, all groups, is the input itself.
        ranks = np.argsort(orders[-1], axis=1)
        added = [ranks < place for place in range(1, count)]
        nothing = np.zeros((1, count), bool)
        kept.append(np.concatenate([nothing, *added]) if added else nothing)
    scores = coalitions.scores(kept)
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


def kernel_shap(queries: ModelQueries, *, samples: int = 500, groups: Any = None, baseline: Any = 0.0) -> np.ndarray:
    """KernelSHAP (Lundberg and Lee 2017): Shapley values as a weighted regression of f_t on the groups kept.

    Coalitions are sampled by the Shapley kernel in pairs of complements (Covert and Lee 2021); where there are no more
    than ``samples`` of them, each is scored once and the values are exact. The sum is f_t(x) - f_t(b), exactly.

    Parameters
    ----------
    samples
        Coalitions of each input besides none and all.
    """
    if samples < 2:
        raise BadInput(f"kernel_shap needs at least 2 samples, not {samples}")
    coalitions = coalitions_of(queries, groups, baseline)
    kept, weights = [], []
    for row, count in enumerate(coalitions.counts):
        of_row, weight = _by_shapley_kernel(int(count), samples, queries.generator(row, "kernel shap"))
        kept.append(np.concatenate([np.zeros((1, count), bool), of_row]))
        weights.append(weight)
    scores = coalitions.scores(kept)
    values = []
    for row in range(len(queries)):
        total = queries.target_scores[row].astype(float) - scores[row][0]
        values.append(_constrained_regression(kept[row][1:], scores[row][1:] - scores[row][0], weights[row], total))
    return coalitions.maps(values)


def _by_shapley_kernel(count: int, samples: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return coalitions ``(K, count)`` bool, neither empty nor whole, and their weights in the regression."""
    if count < 2:
        return np.zeros((0, count), bool), np.zeros(0)
    sizes = np.arange(1, count)
    if 2**count - 2 <= samples:
        numbers = np.arange(1, 2**count - 1)
        every = (numbers[:, np.newaxis] >> np.arange(count)) & 1 == 1
        size = every.sum(axis=1)
        binomial = np.array([math.comb(count, int(one)) for one in size])
        return every, (count - 1) / (binomial * size * (count - size))
    mass = 1 / (sizes * (count - sizes))
    drawn = generator.choice(sizes, (samples + 1) // 2, p=mass / mass.sum())
    ranks = np.argsort(generator.random((len(drawn), count)), axis=1).argsort(axis=1)
    half = ranks < drawn[:, np.newaxis]
    chosen = np.concatenate([half, ~half])[:samples]
    return chosen, np.ones(len(chosen))


def _constrained_regression(kept: np.ndarray, gains: np.ndarray, weights: np.ndarray, total: float) -> np.ndarray:
    """Return the φ that minimises Σ w (gain - Σ_kept φ)² with Σ φ = total; the shortest where several do."""
    share = total / kept.shape[1]
    # φ is an even share of the total and a part that sums to zero, as what is projected by this matrix.
    projection = np.eye(kept.shape[1]) - 1 / kept.shape[1]
    root = np.sqrt(weights)
    design, rest = kept @ projection, gains - kept.sum(axis=1) * share
    part, *_ = np.linalg.lstsq(root[:, np.newaxis] * design, root * rest, rcond=None)
    phi: np.ndarray = share + projection @ part
    return phi


def lime(
    queries: ModelQueries,
    *,
    samples: int = 500,
    groups: Any = None,
    baseline: Any = 0.0,
    width: float = 0.25,
    ridge: float = 1.0,
) -> np.ndarray:
    """LIME (Ribeiro, Singh and Guestrin 2016): coefficients of a linear model of f_t around the input.

    Each group is kept with probability 1/2. A sample's weight is √exp(-d² / width²), with d the cosine distance of its
    kept groups from all groups, as in the authors' code. The linear model has an intercept and a ridge penalty.

    Parameters
    ----------
    samples
        Samples of each input, the input itself besides.
    width
        Width of the kernel, above 0.
    ridge
        Penalty on the squared coefficients, at least 0.
    """
    if samples < 1 or not width > 0 or not ridge >= 0:
        raise BadInput(f"lime needs samples >= 1, width > 0 and ridge >= 0, not {samples}, {width} and {ridge}")
    coalitions = coalitions_of(queries, groups, baseline)
    kept = [
        queries.generator(row, "lime").random((samples, count)) < 0.5 for row, count in enumerate(coalitions.counts)
    ]
    scores = coalitions.scores(kept)
    values = []
    for row in range(len(queries)):
        masks = np.concatenate([np.ones((1, kept[row].shape[1])), kept[row]])
        targets = np.concatenate([queries.target_scores[row : row + 1], scores[row]]).astype(np.float64)
        distance = 1 - np.sqrt(masks.mean(axis=1))  # the cosine of a mask and of all ones
        weights = np.sqrt(np.exp(-np.square(distance) / width**2))
        values.append(_ridge(masks, targets, weights, ridge))
    return coalitions.maps(values)


def _ridge(masks: np.ndarray, targets: np.ndarray, weights: np.ndarray, penalty: float) -> np.ndarray:
    """Return the coefficients c that minimise Σ w (target - intercept - mask · c)² + penalty Σ c²."""
    centered = masks - np.average(masks, axis=0, weights=weights)
    rest = targets - np.average(targets, weights=weights)
    matrix = centered.T @ (weights[:, np.newaxis] * centered) + penalty * np.eye(masks.shape[1])
    coefficients: np.ndarray = np.linalg.lstsq(matrix, centered.T @ (weights * rest), rcond=None)[0]
    return coefficients


def xrai(queries: ModelQueries, *, points: int = 51) -> np.ndarray:
    """XRAI (Kapishnikov, Bolukbasi, Viégas and Terry 2019): regions of an image in the order of their mean attribution.

    The attribution of a position is the largest channel of the mean of two maps of Integrated Gradients, whose
    baselines are each image's least and greatest value. Regions are the segments of Felzenszwalb and Huttenlocher's
    method at six scales, dilated by 5 pixels, which overlap. The region whose new pixels have the highest mean is added
    next, and that mean is their value; a region with fewer than 50 new pixels is not.

    Parameters
    ----------
    points
        Points on each path; see ``integrated_gradients``.
    """
    if queries.inputs.ndim != 4:
        raise BadInput(f"xrai needs images; these inputs have the shape {queries.inputs.shape[1:]}")
    maps = np.empty(queries.inputs.shape[:-1])
    attributions = np.zeros(queries.inputs.shape)
    weights = path_weights(points, "trapezoid")
    for end in (np.min, np.max):
        attributions += path_integral(queries, end(queries.inputs, axis=(1, 2, 3), keepdims=True), weights) / 2
    for found, image, attribution in zip(maps, queries.inputs, attributions.max(axis=-1), strict=True):
        found[...] = _by_region(attribution, _regions(image))
    return maps


def _regions(image: np.ndarray) -> list[np.ndarray]:
    """Return overlapping regions ``(H, W)`` bool of an image ``(H, W, C)``."""
    try:
        import skimage.morphology as morphology
        from skimage import segmentation, transform
    except ImportError as error:
        raise BadInput("xrai needs scikit-image: pip install 'attribution-benchmarks[superpixels]'") from error
    low, high = float(image.min()), float(image.max())
    scaled = 2 * (image - low) / (high - low or 1.0) - 1
    # The scales are made for this size.
    large = transform.resize(
        scaled, (_SEGMENTED, _SEGMENTED), order=3, mode="constant", preserve_range=True, anti_aliasing=True
    )
    regions = []
    for scale in _SCALES:
        labels = segmentation.felzenszwalb(large, scale=scale, sigma=0.8, min_size=150)
        labels = transform.resize(
            labels, image.shape[:2], order=0, mode="constant", preserve_range=True, anti_aliasing=False
        )
        regions.extend(labels == label for label in np.unique(labels))
    disk = morphology.disk(5)
    return [morphology.dilation(region, footprint=disk) for region in regions]


def _by_region(attribution: np.ndarray, regions: list[np.ndarray]) -> np.ndarray:
    """Return the map of one image's attribution ``(H, W)`` by its regions."""
    found = np.empty(attribution.shape)
    missing = np.ones(attribution.shape, bool)
    while regions := [new for region in regions if (new := region & missing).sum() >= _NEW_PIXELS]:
        means = [attribution[new].mean() for new in regions]
        best = int(np.argmax(means))
        found[regions[best]] = means[best]
        missing &= ~regions[best]
    if missing.any():
        found[missing] = attribution[missing].mean()
    return found
