"""Faithfulness: how the network's score changes when the positions that a map ranks high are removed.

Positions count by their evidence, the sum of signed values over channels: evidence for the target comes first. Ties are
in random order, the same for every map of an input. A removed position loses all its channels. No ground truth is used.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from attribution import batching
from attribution.methods.perturbation import positions
from attribution_benchmarks.core.batch import Batch, memoize_last, originals
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
from attribution_benchmarks.metrics.descriptions import DESCRIPTIONS
from attribution_benchmarks.metrics.imputation import (
    Fill,
    Scores,
    blurred,
    changed_scores,
    check_probabilities,
    given_background,
    mean_colour,
    noisy_linear,
    probabilities,
)
from attribution_benchmarks.metrics.map_values import correlation_of_drops, evidence, flat

_STEPS = tuple(step / 20 for step in range(1, 21))  # shares of removed positions
_ROAD_STEPS = (0.2, 0.4, 0.6, 0.8)  # fewer, because each is imputed
_SIZES = (0.1, 0.3, 0.5)  # of the sets of sensitivity-n, as shares of the positions
# Doubled from 16 and 32 until the retest reliability on exact networks was above 0.8 with its interval.
_SETS = 64  # of sensitivity-n, sampled per size
_PATCHES = 128  # of infidelity
SUBSETS, SUBSET = 100, 0.2  # random sets of faithfulness correlation and μFidelity, and their share of the input
_LEFT = (0.05, 0.1, 0.2, 0.5)  # shares of positions that sufficiency leaves
_LARGEST = 4  # a patch's side is at most the input's divided by this
_DIGITS = 6  # of a stored number


def curve(
    maps: np.ndarray, batch: Batch, scores: Scores, fill: Fill, shares: tuple[float, ...], least_first: bool = False
) -> np.ndarray:
    """Return the target's probability after removing each share of the positions, (N, 1 + shares) float64.

    The first is that of the unchanged input. What is removed is a whole number of positions, see ``removed``.

    Parameters
    ----------
    maps
        (N, positions...) or with channels.
    batch, scores
        The inputs and the scores of their network. It evaluates the unchanged inputs once for all maps of a batch, and
        each input once per share.
    fill
        Imputation of removed positions.
    shares
        Of removed positions, increasing, above 0.
    least_first
        Remove the least important positions first, which is insertion read backwards.
    """
    ranked = orders(maps, batch)[:, :: -1 if least_first else 1]
    places = np.argsort(ranked, axis=1)
    gone = np.stack([places < count for count in removed(shares, ranked.shape[1])], axis=1)
    return probabilities_without(batch, scores, gone, fill)


def removed(shares: Sequence[float], total: int) -> np.ndarray:
    """Return the whole numbers of ``total`` positions nearest to shares of them, (shares,) int64; halves go up."""
    return np.floor(np.asarray(shares) * total + 0.5).astype(np.int64)


def probabilities_without(batch: Batch, scores: Scores, sets: np.ndarray, fill: Fill = mean_colour) -> np.ndarray:
    """Return the target's probability on the unchanged input, then without each set of positions, (N, 1 + sets).

    ``sets`` are (N, sets, positions) bool; other arguments as for ``curve``.
    """
    whole, targets = originals(batch, scores)
    found = probabilities(np.concatenate([whole[np.newaxis], _scores_without(batch, scores, sets, fill)]), scores)
    of_targets: np.ndarray = np.take_along_axis(found, targets[np.newaxis, :, np.newaxis], axis=2)[..., 0].T
    return of_targets


@memoize_last
def orders(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return the positions of each map from the most to the least important, (N, positions) int64."""
    values = flat(evidence(maps, batch))
    generators = (batching.generator(0, key, "order of equals") for key in batch.seeds)
    among_equals = np.stack([generator.random(values.shape[1]) for generator in generators])
    return np.lexsort((among_equals, -values), axis=1)


def area(curves: np.ndarray, shares: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return the area under curves over the share removed, divided by its range, (N,), by the trapezoidal rule.

    ``shares`` are those that were removed, without the 0 of the unchanged input.
    """
    from scipy.integrate import trapezoid

    area: np.ndarray = trapezoid(curves, [0, *shares], axis=1) / shares[-1]
    return area


def drops_without(batch: Batch, scores: Scores, sets: np.ndarray, fill: Fill | None = None) -> np.ndarray:
    """Return the drop of the target's score without sets of positions, (N, sets, positions) bool; (N, sets).

    Where ``fill`` is None, a removed position has its values in ``batch.truth["background"]``, or else the input's mean
    color.
    """
    whole, targets = originals(batch, scores)
    rows = np.arange(len(batch))
    fill = fill or (given_background(batch) if "background" in batch.truth else mean_colour)
    changed = _scores_without(batch, scores, sets, fill)
    drops: np.ndarray = (whole[rows, targets] - changed[:, rows, targets]).T
    return drops


def _scores_without(batch: Batch, scores: Scores, sets: np.ndarray, fill: Fill) -> np.ndarray:
    """Return the scores without sets of positions, (N, sets, positions) bool; (sets, N, classes)."""
    shape = (len(batch), *positions(batch.pictures.shape))

    def changes() -> Iterator[tuple[int, np.ndarray]]:
        for number in range(sets.shape[1]):
            yield from enumerate(fill(batch.pictures, sets[:, number].reshape(shape), batch.seeds))

    changed = np.stack(list(changed_scores(batch, scores, changes())))
    return changed.reshape(sets.shape[1], len(batch), -1)


def random_sets(batch: Batch, purpose: str, total: int, counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return random sets of some of ``total`` things, the same for every map of an input, (N, counts, total) bool."""
    found = np.zeros((len(batch), len(counts), total), bool)
    for row, key in enumerate(batch.seeds):
        generator = batching.generator(0, key, purpose)
        for number, count in enumerate(counts):
            found[row, number, generator.choice(total, count, replace=False)] = True
    return found


def _patches(batch: Batch) -> np.ndarray:
    """Return boxes of random position and size, the same for every map of an input, for infidelity."""
    spatial = positions(batch.pictures.shape)
    found = np.zeros((len(batch), _PATCHES, *spatial), bool)
    for row, key in enumerate(batch.seeds):
        generator = batching.generator(0, key, "infidelity")
        for number in range(_PATCHES):
            sides = [generator.integers(1, max(size // _LARGEST, 1) + 1) for size in spatial]
            starts = [generator.integers(size - side + 1) for size, side in zip(spatial, sides, strict=True)]
            found[row, number][tuple(slice(a, a + b) for a, b in zip(starts, sides, strict=True))] = True
    return found.reshape(len(batch), _PATCHES, -1)


def against_drops(
    sets_of: Callable[[Batch], np.ndarray], compare: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Callable[..., np.ndarray]:
    """Return a function of maps that compares their sums over sets of positions with the drops without these.

    ``sets_of(batch)`` are (N, sets, positions) bool, and ``compare(sums, drops)`` returns (N,) for (N, sets) numbers.
    The network scores the sets once for all maps of a batch.
    """

    @memoize_last
    def with_drops(batch: Batch, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
        sets = sets_of(batch)
        return sets, drops_without(batch, scores, sets)

    def measured(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        sets, drops = with_drops(batch, scores)
        return compare(sums_over(sets, flat(evidence(maps, batch))), drops)

    return measured


def _sets_of_sizes(batch: Batch) -> np.ndarray:
    """Return random sets of each of ``_SIZES``, for sensitivity-n."""
    counts = [max(round(size * _count(batch)), 1) for size in _SIZES]
    return random_sets(batch, "sensitivity-n", _count(batch), np.repeat(counts, _SETS))


def _mean_correlation(sums: np.ndarray, drops: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation over sets of one size, averaged over sizes, (N,) in [-1, 1].

    1 for a linear network and its exact contributions, 0 for equal sums, NaN where the network's score never changes.
    """
    parts = [slice(number * _SETS, (number + 1) * _SETS) for number in range(len(_SIZES))]
    mean: np.ndarray = np.mean([correlation_of_drops(sums[:, part], drops[:, part]) for part in parts], axis=0)
    return mean


def _fifths(batch: Batch) -> np.ndarray:
    """Return random fifths of the positions, for faithfulness correlation.

    With the same subsets and imputation it is Quantus's ``FaithfulnessCorrelation``, which takes 224 values, channels
    one by one, and replaces them by the input's minimum.
    """
    total = _count(batch)
    return random_sets(batch, "faithfulness_correlation", total, [max(round(SUBSET * total), 1)] * SUBSETS)


def _faithfulness_estimate(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return Pearson's correlation of a map's sums over its ranked twentieths with the drop without each, (N,).

    The positions are ranked by the map and cut into at most 20 parts, each removed alone. In [-1, 1]; 0 for equal sums,
    NaN where the score never changes. With one position a part and the same imputation it is Quantus's
    ``FaithfulnessEstimate``.
    """
    ranked = orders(maps, batch)
    parts = np.arange(ranked.shape[1]) * min(len(_STEPS), ranked.shape[1]) // ranked.shape[1]
    sets = parts[np.argsort(ranked, axis=1)][:, np.newaxis] == np.unique(parts)[:, np.newaxis]
    return correlation_of_drops(sums_over(sets, flat(evidence(maps, batch))), drops_without(batch, scores, sets))


def _monotonicity(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return how often the target's probability does not fall when a twentieth of the positions is inserted, (N,).

    From the least to the most important, into the mean color: the curve of ``deletion``, read backwards. A share in
    [0, 1]. The metric of Arya et al. (AIX360) is whether it is 1, with one position a step. Quantus's ``Monotonicity``
    replaces positions of the empty input by the same empty value, so that it is 1 for every map.
    """
    curves = _most_first(maps, batch, scores, mean_colour, _STEPS)
    _, steps = np.unique([0, *removed(_STEPS, _count(batch))], return_index=True)  # few positions are fewer steps
    falls = np.diff(curves[:, steps], axis=1) <= 0
    return np.asarray(falls.mean(axis=1))


def _sufficiency(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the mean drop of the target's probability when only the most important positions are left, (N,).

    5, 10, 20 and 50 % of the positions are left: points of the curve of ``insertion``. In [-1, 1]. ERASER's sufficiency
    (DeYoung et al., 2020) but for its 1 %. Quantus's ``Sufficiency`` (Dasgupta et al., 2022) is another metric: it
    compares the classes of those inputs of one batch whose maps are similar.
    """
    curves = _least_first(maps, batch, scores, mean_colour, _STEPS)
    left = [1 + _STEPS.index(1 - share) for share in _LEFT]
    drops: np.ndarray = (curves[:, :1] - curves[:, left]).mean(axis=1)
    return drops


def _squared_error(sums: np.ndarray, drops: np.ndarray) -> np.ndarray:
    """Return the squared error of sums as estimates of drops, at their best scale and relative to the drops, (N,).

    min over β ≥ 0 of Σ (β · sum - drop)², divided by Σ drop²: 0 for a linear network and its exact contributions, 1 for
    a map of zeros or of the opposite sign. NaN where the network's score never changes.
    """
    both, ours, theirs = ((a * b).sum(axis=1) for a, b in ((sums, drops), (sums, sums), (drops, drops)))
    explained = np.divide(np.maximum(both, 0) ** 2, ours * theirs, out=np.zeros(len(sums)), where=ours * theirs > 0)
    return np.where(theirs > 0, 1 - np.minimum(explained, 1), np.nan)


def sums_over(sets: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sums of values, (N, positions), over sets, (N, sets, positions) bool; (N, sets)."""
    return np.stack([of_input @ one for of_input, one in zip(sets, values, strict=True)])


def _count(batch: Batch) -> int:
    return int(np.prod(positions(batch.pictures.shape)))


_most_first = memoize_last(curve)
_least_first = memoize_last(functools.partial(curve, least_first=True))


def on_request(name: str, function: Callable[..., np.ndarray], **measure: Any) -> Metric:
    """Return a metric of a function of maps that is only computed on request; ``measure`` as of ``PerSampleMetric``."""
    return Metric(name, measure=PerSampleMetric(name, function, **measure), on_request=True, **DESCRIPTIONS[name])


def _curve_metric(name: str, fill: Fill, shares: tuple[float, ...], parts: tuple[int, int]) -> Metric:
    """Return the metric of a curve: its area, then its points at ``shares``.

    The area is over the shares that were removed. Few positions have no such shares; points between are interpolated.

    ``parts`` are the signs of the curve that removes the least important first and of the one that removes the most
    important.
    """

    def measured(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        curves = sum(
            sign * of_order(maps, batch, scores, fill, shares)
            for sign, of_order in zip(parts, (_least_first, _most_first), strict=True)
            if sign
        )
        actual = removed(shares, _count(batch)) / _count(batch)
        points = [np.interp([0, *shares], [0, *actual], one) for one in curves]
        return np.concatenate([area(curves, actual)[:, np.newaxis], points], axis=1)

    metric = on_request(name, measured, width=2 + len(shares), digits=_DIGITS, check=check_probabilities)
    return dataclasses.replace(metric, curve=(0.0, *shares))


METRICS = (
    *(
        _curve_metric(kind + suffix, fill, shares, parts)
        for suffix, fill, shares in (("", mean_colour, _STEPS), ("_blur", blurred, _STEPS),
                                     ("_road", noisy_linear, _ROAD_STEPS))
        for kind, parts in (("insertion", (1, 0)), ("deletion", (0, 1)), ("insertion_deletion", (1, -1)))
    ),
    on_request("sensitivity_n", against_drops(_sets_of_sizes, _mean_correlation)),
    on_request("infidelity", against_drops(_patches, _squared_error)),
    on_request("faithfulness_correlation", against_drops(_fifths, correlation_of_drops)),
    on_request("faithfulness_estimate", _faithfulness_estimate),
    on_request("monotonicity", _monotonicity, check=check_probabilities),
    on_request("sufficiency", _sufficiency, check=check_probabilities),
)  # fmt: skip
