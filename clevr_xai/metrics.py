"""How much of a map lies on the objects that a question is about: relevance mass and rank accuracy.

Arras, Osman and Samek, Information Fusion 81 (2022). P is a pooled map, non-negative, M the ground-truth mask
of K pixels. Undefined cases, in which the authors' script stops, give NaN here: a map whose total
is zero and a mask without pixels.

A pooling turns C relevances a pixel into one non-negative number. With R the relevances of one pixel and
R+ = max(R, 0):

===============  =================    ===================  ==================
``sum,abs``      |Σ R|                ``pos,sum``          Σ R+
``sum,pos``      max(0, Σ R)          ``pos,max-norm``     max R+
``l1-norm``      Σ |R|                ``pos,l2-norm``      sqrt(Σ R+²)
``max-norm``     max |R|              ``pos,l2-norm,sq``   Σ R+²
``l2-norm``      sqrt(Σ R²)
``l2-norm,sq``   Σ R²
===============  =================    ===================  ==================

A map without channels has one: its poolings are |R|, R+, R² and R+².
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from attribution.errors import BadInput, listed
from attribution.methods.gradients import path_start
from attribution.methods.registry import Residuals
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric, PerSampleMetric


class _Relevance:
    """Maps with the channels in front, and what several poolings are made of; each part is computed once."""

    def __init__(self, maps):
        maps = np.asarray(maps)
        if maps.ndim not in (3, 4) or maps.dtype.kind not in "fiub":
            raise BadInput(
                f"maps are {maps.dtype} of shape {maps.shape}; numbers of shape (N, H, W, C) or (N, H, W) are needed"
            )
        planes = [maps] if maps.ndim == 3 else np.moveaxis(maps, -1, 0)
        # Sums over a last axis of three are slow; over planes they run along the memory.
        self.planes = [np.ascontiguousarray(plane, np.float64) for plane in planes]

    @functools.cached_property
    def sum(self):
        return sum(self.planes)

    @functools.cached_property
    def magnitudes(self):
        return [np.abs(plane) for plane in self.planes]

    @functools.cached_property
    def squares(self):
        return sum(np.square(plane) for plane in self.planes)

    @functools.cached_property
    def positive(self):
        return [np.maximum(plane, 0) for plane in self.planes]

    @functools.cached_property
    def positive_squares(self):
        return sum(np.square(plane) for plane in self.positive)


def _largest(planes):
    return functools.reduce(np.maximum, planes)


_FORMULAS: dict[str, Callable[[_Relevance], np.ndarray]] = {
    "sum,abs": lambda r: np.abs(r.sum),
    "sum,pos": lambda r: np.maximum(r.sum, 0),
    "l1-norm": lambda r: sum(r.magnitudes),
    "max-norm": lambda r: _largest(r.magnitudes),
    "l2-norm": lambda r: np.sqrt(r.squares),
    "l2-norm,sq": lambda r: r.squares,
    "pos,sum": lambda r: sum(r.positive),
    "pos,max-norm": lambda r: _largest(r.positive),
    "pos,l2-norm": lambda r: np.sqrt(r.positive_squares),
    "pos,l2-norm,sq": lambda r: r.positive_squares,
}


def pool(maps: npt.ArrayLike, poolings: Iterable[str] | None = None) -> dict[str, np.ndarray]:
    """Return several poolings of maps in one pass over them.

    Parameters
    ----------
    maps
        (N, H, W, C) numbers, or (N, H, W) for maps without channels.
    poolings
        Names of ``POOLINGS``; all ten by default.

    Returns
    -------
    dict of (N, H, W) float64
        By name, in the given order; non-negative.

    Raises
    ------
    BadInput
        If a pooling does not exist or the maps have another shape.
    """
    names = list(_FORMULAS if poolings is None else poolings)
    unknown = [name for name in names if name not in _FORMULAS]
    if unknown:
        raise BadInput(f"no pooling {unknown[0]!r}; the poolings are {listed(_FORMULAS)}")
    relevance = _Relevance(maps)
    # A formula may return a part that other poolings share or the maps themselves: nobody may write to it.
    found = {name: _FORMULAS[name](relevance).view() for name in names}
    for pooled in found.values():
        pooled.flags.writeable = False
    return found


POOLINGS = tuple(_FORMULAS)  # by name
HEADING = {"mass": "l2-norm,sq", "rank": "max-norm"}  # the pooling of a metric's table, as reproductions have it
DIGITS = 9  # of a stored number; tables show two
TRUTH_TITLES = {
    "single_object": "Single Object",
    "all_objects": "All Objects",
    "unique": "Unique",
    "unique_firstnonempty": "Unique First-non-empty",
    "union": "Union",
}
SUBSETS = ("all", "confident", "large_mask")  # the poster's, of the correctly answered questions
CONFIDENCE = 0.99999
MASK_PIXELS = 1000
_ROWS_AT_ONCE = 64  # bounds the memory, and keeps what is worked on near the processor
_SAMPLED = 31  # every so many pixels; odd, so that a sample does not keep to a few columns


def relevance_mass_accuracy(pooled: npt.ArrayLike, mask: npt.ArrayLike) -> np.ndarray:
    """Return the share of the relevance that lies inside the mask: Σ_M P / Σ P.

    Parameters
    ----------
    pooled
        (N, H, W) numbers, none negative.
    mask
        (N, H, W) bool.

    Returns
    -------
    (N,) float64
        In [0, 1]; NaN for a map whose sum is zero and for an empty mask.

    Raises
    ------
    BadInput
        If the shapes differ, the mask is not bool, or a value is negative, NaN or infinite.
    """
    return _by_blocks(pooled, mask, _mass)


def relevance_rank_accuracy(pooled: npt.ArrayLike, mask: npt.ArrayLike) -> np.ndarray:
    """Return the share of the K highest pixels that lie inside the mask of K pixels.

    Not all pixels equal to the K-th highest value t may have a place among the K. The mean over all orders of equal
    pixels counts: (pixels of M above t + places left · share of M among the pixels equal to t) / K. Maps that are zero
    in most pixels differ widely between orders.

    Parameters
    ----------
    pooled, mask
        As for ``relevance_mass_accuracy``.

    Returns
    -------
    (N,) float64
        In [0, 1]; NaN for a map whose sum is zero and for an empty mask.

    Raises
    ------
    BadInput
        As for ``relevance_mass_accuracy``.
    """
    return _by_blocks(pooled, mask, _expected_rank)


METRICS: Mapping[str, Callable] = MappingProxyType({"mass": relevance_mass_accuracy, "rank": relevance_rank_accuracy})

_PAPER = "Arras, Osman and Samek, Information Fusion 81, 2022"
ACCURACIES = {  # the same metrics, as a benchmark describes them
    metric.name: metric
    for metric in (
        Metric(
            "mass",
            "Relevance mass accuracy",
            about="Relevance mass accuracy: the share of a map's total that lies on the objects the question is about. "
            "Between 0 and 1; more is better. A map spread evenly gets the objects' share of the image.",
            bounds=(0.0, 1.0),
            source=_PAPER,
            masks=True,
        ),
        Metric(
            "rank",
            "Relevance rank accuracy",
            about="Relevance rank accuracy: of as many highest pixels as the objects have, the share that lies on "
            "them. Between 0 and 1; more is better. It does not see how much stronger the highest pixels are.",
            bounds=(0.0, 1.0),
            source=_PAPER,
            masks=True,
        ),
    )
}


def _by_blocks(pooled, mask, score) -> np.ndarray:
    """Check maps and masks and score them block by block."""
    pooled, mask = np.asarray(pooled), np.asarray(mask)
    if pooled.ndim != 3 or pooled.shape != mask.shape:
        raise BadInput(f"maps have shape {pooled.shape} and masks {mask.shape}; both must be the same (N, H, W)")
    if mask.dtype != bool or pooled.dtype.kind not in "fiub":
        raise BadInput(f"maps are {pooled.dtype} and masks {mask.dtype}; numbers and bool are needed")
    values = np.empty(len(pooled))
    for start in range(0, len(pooled), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        maps = pooled[rows].reshape(-1, mask[0].size).astype(np.float64, copy=False)
        masks = mask[rows].reshape(maps.shape)
        total = maps.sum(axis=1)
        if not (np.isfinite(total).all() and maps.min() >= 0):
            raise BadInput("a pooled map has negative, NaN or infinite values; pool it with metrics.pool")
        sizes = _counts(masks)
        defined = (total > 0) & (sizes > 0)
        scored = score(maps, masks, np.maximum(sizes, 1), np.where(defined, total, 1))
        values[rows] = np.where(defined, scored, np.nan)
    return values


def _mass(maps, masks, sizes, total):
    # Summed in the same order as the total, so that rounding cannot lift the share above 1.
    return (maps * masks.astype(np.float64)).sum(axis=1) / total


def _expected_rank(maps, masks, sizes, total):
    threshold = np.array([_kth_highest(row, size) for row, size in zip(maps, sizes, strict=True)])[:, None]
    above, equal = maps > threshold, maps == threshold
    places = sizes - _counts(above)
    share = _counts(equal & masks) / _counts(equal)
    return (_counts(above & masks) + places * share) / sizes


def _kth_highest(values, k: int) -> float:
    """Return the k-th highest of (P,) values, exactly; a sample tells which few need to be looked at."""
    sample = values[::_SAMPLED]
    expected = k * len(sample) / len(values)
    place = int(expected + 4 * np.sqrt(expected) + 4)
    if place < len(sample):
        candidates = values[values >= np.partition(sample, -place)[-place]]
        if k <= len(candidates):
            return np.partition(candidates, -k)[-k]
    return np.partition(values, -k)[-k]


def _counts(marked) -> np.ndarray:
    """Return how many pixels are marked in each row; counting along an axis is five times slower."""
    return np.array([np.count_nonzero(row) for row in marked])


def score_maps(maps: np.ndarray, masks: Mapping[str, np.ndarray]) -> np.ndarray:
    """Score maps in one pass over them.

    Parameters
    ----------
    maps
        (N, H, W, C) or (N, H, W).
    masks
        Ground truth -> (N, H, W) bool; all False where a question has none.

    Returns
    -------
    (N, ground truths, metrics, poolings) float64
        In the order of ``masks``, ``METRICS`` and ``POOLINGS``; NaN where undefined.
    """
    scores = np.full((len(maps), len(masks), len(METRICS), len(POOLINGS)), np.nan)
    for place, pooled in enumerate(pool(maps).values()):
        for truth, mask in enumerate(masks.values()):
            for number, metric in enumerate(METRICS.values()):
                scores[:, truth, number, place] = metric(pooled, mask)
    return scores


def relevance_accuracy(ground_truths: Sequence[str], digits: int | None = DIGITS) -> PerSampleMetric:
    """Return what keeps all of ``score_maps``' numbers of some ground truths, in their order.

    Parameters
    ----------
    ground_truths
        Names of masks.
    digits
        Significant digits of a number; all of them where None.
    """

    def accuracies(maps: np.ndarray, batch: Batch, scores: Callable) -> np.ndarray:
        found = score_maps(maps, {name: batch.masks[name] for name in ground_truths})
        return found.reshape(len(found), -1)

    width = len(ground_truths) * len(METRICS) * len(POOLINGS)
    return PerSampleMetric("relevance_accuracy", accuracies, width, digits)


def path_gap(method: str, baseline: Any) -> PerSampleMetric:
    """Return what keeps how far the sum of Integrated Gradients' map misses what it should be.

    |Σ map - (f(image) - f(b))| / |f(image) - f(b)|; NaN where both scores are 0.

    Parameters
    ----------
    method
        Whose maps it is of.
    baseline
        b, where the path begins: see ``attribution.methods.gradients.path_start``.
    """

    def gap(maps: np.ndarray, batch: Batch, scores: Callable) -> np.ndarray:
        rows = np.arange(len(batch))
        start = path_start(batch.pictures, baseline)
        begun = batch.with_pictures(np.broadcast_to(start, batch.pictures.shape))
        ends = (scores(inputs)[rows, batch.targets].astype(np.float64) for inputs in (batch.inputs, begun))
        return Residuals.of(maps, *ends).relative

    return PerSampleMetric(f"path_gap {method}", gap, digits=DIGITS, of_controls=False, methods=(method,))


def subset_members(
    subset: str,
    right: np.ndarray,
    pixels: np.ndarray,
    confidence: np.ndarray | None,
    bounds: tuple[float, int] = (CONFIDENCE, MASK_PIXELS),
) -> np.ndarray | None:
    """Return which questions belong to a subset, (n,) bool; None for "confident" without confidence.

    Parameters
    ----------
    subset
        One of ``SUBSETS``.
    right
        (n,) bool, whether the answer was right.
    pixels
        (n,) size of the mask; questions without one do not count.
    confidence
        (n,) softmax of the answer; None where no network was asked.
    bounds
        Of the softmax and of the mask's size, exclusive.
    """
    counted = right & (pixels > 0)
    if subset == "confident":
        return None if confidence is None else counted & (confidence > bounds[0])
    return counted & (pixels > bounds[1]) if subset == "large_mask" else counted
