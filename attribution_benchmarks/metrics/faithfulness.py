"""Faithfulness: how the network's score changes when the positions that a map ranks high are removed.

Positions count by their evidence, the sum of signed values over channels: evidence for the target comes first. Ties are
in random order, the same for every map of an input. A removed position loses all its channels. No ground truth is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from attribution.methods.perturbation import positions
from attribution.model import batching
from attribution_benchmarks.core.batch import Batch, memoize_last, originals
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
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
from attribution_benchmarks.metrics.map_values import evidence, flat

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


@memoize_last
def _drops_of_sets(batch: Batch, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    total = _count(batch)
    counts = [max(round(size * total), 1) for size in _SIZES]
    sets = random_sets(batch, "sensitivity-n", total, np.repeat(counts, _SETS))
    return sets, drops_without(batch, scores, sets)


@memoize_last
def _drops_of_subsets(batch: Batch, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    total = _count(batch)
    sets = random_sets(batch, "faithfulness_correlation", total, [max(round(SUBSET * total), 1)] * SUBSETS)
    return sets, drops_without(batch, scores, sets)


@memoize_last
def _drops_of_patches(batch: Batch, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    sets = _patches(batch)
    return sets, drops_without(batch, scores, sets)


def drops_without(batch: Batch, scores: Scores, sets: np.ndarray) -> np.ndarray:
    """Return the drop of the target's score without sets of positions, (N, sets, positions) bool; (N, sets).

    A removed position has the input's mean color, or its values in ``batch.truth["background"]`` where that is given.
    """
    whole, targets = originals(batch, scores)
    rows = np.arange(len(batch))
    fill = given_background(batch) if "background" in batch.truth else mean_colour
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
    """Return boxes of random position and size, the same for every map of an input, (N, patches, positions) bool."""
    spatial = positions(batch.pictures.shape)
    found = np.zeros((len(batch), _PATCHES, *spatial), bool)
    for row, key in enumerate(batch.seeds):
        generator = batching.generator(0, key, "infidelity")
        for number in range(_PATCHES):
            sides = [generator.integers(1, max(size // _LARGEST, 1) + 1) for size in spatial]
            starts = [generator.integers(size - side + 1) for size, side in zip(spatial, sides, strict=True)]
            found[row, number][tuple(slice(a, a + b) for a, b in zip(starts, sides, strict=True))] = True
    return found.reshape(len(batch), _PATCHES, -1)


def _sensitivity_n(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the correlation of a map's sum over a random set of positions with the drop of the score without it, (N,).

    Pearson's correlation over sets of one size, averaged over sizes, in [-1, 1]: 1 for a linear network and its exact
    contributions, 0 for equal sums, NaN where the network's score never changes.
    """
    sets, drops = _drops_of_sets(batch, scores)
    sums = sums_over(sets, flat(evidence(maps, batch)))
    by_size = [_correlation(sums[:, part], drops[:, part]) for part in _by_size()]
    mean: np.ndarray = np.mean(by_size, axis=0)
    return mean


def _faithfulness_correlation(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return Pearson's correlation of a map's sums over random fifths of the positions with the drops, (N,).

    In [-1, 1]; 0 for equal sums, NaN where the score never changes. With the same subsets and imputation it is
    Quantus's ``FaithfulnessCorrelation``, which takes 224 values, channels one by one, and replaces them by the input's
    minimum.
    """
    sets, drops = _drops_of_subsets(batch, scores)
    return _correlation(sums_over(sets, flat(evidence(maps, batch))), drops)


def _faithfulness_estimate(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return Pearson's correlation of a map's sums over its ranked twentieths with the drop without each, (N,).

    The positions are ranked by the map and cut into at most 20 parts, each removed alone. In [-1, 1]; 0 for equal sums,
    NaN where the score never changes. With one position a part and the same imputation it is Quantus's
    ``FaithfulnessEstimate``.
    """
    ranked = orders(maps, batch)
    parts = np.arange(ranked.shape[1]) * min(len(_STEPS), ranked.shape[1]) // ranked.shape[1]
    sets = parts[np.argsort(ranked, axis=1)][:, np.newaxis] == np.unique(parts)[:, np.newaxis]
    return _correlation(sums_over(sets, flat(evidence(maps, batch))), drops_without(batch, scores, sets))


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


def _infidelity(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the squared error of a map's sum over a patch as an estimate of the drop without it, rescaled, (N,).

    min over β ≥ 0 of Σ (β · sum - drop)², divided by Σ drop²: 0 for a linear network and its exact contributions, 1 for
    a map of zeros or of the opposite sign. NaN where the network's score never changes.
    """
    sets, drops = _drops_of_patches(batch, scores)
    sums = sums_over(sets, flat(evidence(maps, batch)))
    both, ours, theirs = ((a * b).sum(axis=1) for a, b in ((sums, drops), (sums, sums), (drops, drops)))
    explained = np.divide(np.maximum(both, 0) ** 2, ours * theirs, out=np.zeros(len(maps)), where=ours * theirs > 0)
    return np.where(theirs > 0, 1 - np.minimum(explained, 1), np.nan)


def sums_over(sets: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sums of values, (N, positions), over sets, (N, sets, positions) bool; (N, sets)."""
    return np.stack([of_input @ one for of_input, one in zip(sets, values, strict=True)])


def _by_size() -> list[slice]:
    return [slice(number * _SETS, (number + 1) * _SETS) for number in range(len(_SIZES))]


def _correlation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation row by row; 0 where the first is constant, NaN where the second is."""
    rounding = 16 * np.finfo(np.float32).eps * np.abs(first).max(axis=1, initial=0)
    first, second = (each - each.mean(axis=1, keepdims=True) for each in (first, second))
    ours, theirs = ((each**2).sum(axis=1) for each in (first, second))
    varies = (np.abs(first).max(axis=1, initial=0) > rounding) & (theirs > 0)
    found = np.divide((first * second).sum(axis=1), np.sqrt(ours * theirs), out=np.zeros(len(first)), where=varies)
    return np.where(theirs > 0, found, np.nan)


def _count(batch: Batch) -> int:
    return int(np.prod(positions(batch.pictures.shape)))


def _curve_metric(name: str, fill: Fill, shares: tuple[float, ...], parts: tuple[int, ...]) -> PerSampleMetric:
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

    return PerSampleMetric(name, measured, width=2 + len(shares), digits=_DIGITS, check=check_probabilities)


_most_first = memoize_last(curve)
_least_first = memoize_last(functools.partial(curve, least_first=True))

_FILLS = {
    "": (mean_colour, _STEPS, "its mean color"),
    "_blur": (blurred, _STEPS, "its blurred version"),
    "_road": (noisy_linear, _ROAD_STEPS, "a noisy linear imputation from the remaining positions"),
}
_PETSIUK = "Petsiuk, Das and Saenko, RISE, BMVC 2018"
_ROAD = "Rong et al., A Consistent and Efficient Evaluation Strategy for Attribution Methods, ICML 2022"
_Kind = tuple[str, tuple[int, int], Literal["more", "less"], str]
_KINDS: dict[str, _Kind] = {  # name -> title, signs of the curves, direction, how to read it
    "insertion": (
        "Insertion", (1, 0), "more",
        "The mean probability of the target while positions are removed from the least to the most important, that is "
        "inserted in the other direction, each with {filled}. Between 0 and 1; more is better.",
    ),
    "deletion": (
        "Deletion", (0, 1), "less",
        "The mean probability of the target while positions are removed from the most to the least important, each "
        "with {filled} in its place. Between 0 and 1; less is better.",
    ),
    "insertion_deletion": (
        "Insertion - deletion", (1, -1), "more",
        "The area between the curves of insertion and deletion, with {filled} in place of removed positions. Between "
        "-1 and 1; more is better, and a map that is independent of the network gets about 0.",
    ),
}  # fmt: skip
_CRITICISM = {
    "": "The network was not trained on inputs with removed positions: its score there may reflect the removal.",
    "_blur": "A blurred object may still be enough for the network, and blur itself is a texture.",
    "_road": "Imputed inputs are smooth, and the network was not trained on them either. Four steps make a coarse "
    "curve. Rong et al. and Quantus report the accuracy after each step; this is the explained class's mean "
    "probability. The equations of the imputation are relaxed, not solved: a block of a quarter of an image is up to "
    "0.03 of the input's range from their solution, scattered positions less than 0.004.",
}


def _curves_metric(kind: str, suffix: str) -> Metric:
    title, signs, better, about = _KINDS[kind]
    fill, shares, filled = _FILLS[suffix]
    name = f"{kind}{suffix}"
    passes = len(shares) * sum(map(abs, signs))
    chance = "about 0" if kind == "insertion_deletion" else "the same as any random order"
    return Metric(
        name,
        f"{title}{', ' + suffix[1:].upper().replace('BLUR', 'blur') if suffix else ''}",
        better,
        about.format(filled=filled),
        source=_ROAD if suffix == "_road" else _PETSIUK,
        measure=_curve_metric(name, fill, shares, signs),
        on_request=True,
        bounds=(-1.0, 1.0) if kind == "insertion_deletion" else (0.0, 1.0),
        curve=(0.0, *shares),
        cost=f"{passes} passes per map, shared by insertion, deletion and their difference",
        chance=chance,
        criticism=_CRITICISM[suffix],
    )


def on_request(
    name: str,
    function: Callable[..., np.ndarray],
    title: str,
    check: Callable[[Any], object] | None = None,
    **described: Any,
) -> Metric:
    """Return a metric of a function of maps that is only computed on request."""
    return Metric(name, title, measure=PerSampleMetric(name, function, check=check), on_request=True, **described)


METRICS = (
    *(_curves_metric(kind, suffix) for suffix in _FILLS for kind in _KINDS),
    on_request(
        "sensitivity_n",
        _sensitivity_n,
        "Sensitivity-n",
        about="How well the sum of the map over a random set of positions predicts the drop of the score without it: "
        "Pearson's correlation, averaged over sets of a tenth, three tenths and half of all positions. Between -1 and "
        "1; more is better.",
        source="Ancona et al., Towards Better Understanding of Gradient-based Attribution Methods, ICLR 2018",
        bounds=(-1.0, 1.0),
        cost=f"{len(_SIZES) * _SETS} passes per input, shared by all maps",
        chance="0",
        criticism="Scattered positions hardly change the score of an image classifier, so that correlations are of "
        f"small numbers, and low for every map. {_SETS} sets of each size are sampled for an input, and its value "
        "depends on them. A constant added to the map changes nothing, because all sets of a size have as many "
        "positions.",
    ),
    on_request(
        "infidelity",
        _infidelity,
        "Infidelity",
        better="less",
        about="The squared error of the sum of the map over a random patch as an estimate of the drop of the score "
        "without it, at the map's best scale and divided by the squared drops. Between 0 and 1; less is better.",
        source="Yeh et al., On the (In)fidelity and Sensitivity of Explanations, NeurIPS 2019; scaled as captum does, "
        "but for the sign",
        bounds=(0.0, 1.0),
        cost=f"{_PATCHES} passes per input, shared by all maps",
        chance="that of a uniform map, below 1: larger patches cost more, wherever they are",
        criticism="Maps are read as contributions, which a gradient is not. One large patch can dominate the squared "
        "error. The scale β is the least-squares one, but at least 0, so that a map of the opposite sign scores 1 like "
        "a map of zeros.",
    ),
    on_request(
        "faithfulness_correlation",
        _faithfulness_correlation,
        "Faithfulness correlation",
        about="How well the sum of the map over a random fifth of the positions predicts the drop of the score without "
        "it: Pearson's correlation. Between -1 and 1; more is better.",
        source="Bhatt, Weller and Moura, Evaluating and Aggregating Feature-based Model Explanations, IJCAI 2020; on "
        "the same subsets Quantus's `FaithfulnessCorrelation`",
        bounds=(-1.0, 1.0),
        cost=f"{SUBSETS} passes per input, shared by all maps",
        chance="0",
        criticism="Scattered positions hardly change the score of an image classifier, so that correlations are of "
        "small numbers. It is sensitivity-n with sets of one size, and does not see a constant added to the map, "
        "either.",
    ),
    on_request(
        "faithfulness_estimate",
        _faithfulness_estimate,
        "Faithfulness estimate",
        about="The positions are ranked by the map and cut into twenty parts, each removed alone: Pearson's "
        "correlation of the map's sums over them with the drops of the score. Between -1 and 1; more is better.",
        source="Alvarez-Melis and Jaakkola, Towards Robust Interpretability with Self-Explaining Neural Networks, "
        "NeurIPS 2018; with one position a part Quantus's `FaithfulnessEstimate`",
        bounds=(-1.0, 1.0),
        cost=f"{len(_STEPS)} passes per map",
        chance="about 0",
        criticism="The first part decides where a map has few large values. Interactions between parts are not "
        "measured.",
    ),
    on_request(
        "monotonicity",
        _monotonicity,
        "Monotonicity",
        check=check_probabilities,
        about="How often the target's probability does not fall when the next twentieth of the positions is inserted "
        "into the mean color, from the least to the most important. Between 0 and 1; more is better.",
        source="Arya et al., One Explanation Does Not Fit All, 2019, whose metric is whether this share is 1; "
        "Quantus's `Monotonicity` inserts nothing and is 1 for every map",
        bounds=(0.0, 1.0),
        cost=f"{len(_STEPS)} passes per map, those of deletion",
        chance="that of any random order",
        criticism="A small fall counts as much as a large one. Inserting evidence against the class lowers the score, "
        "so that an exact map with negative values does not get 1.",
    ),
    on_request(
        "sufficiency",
        _sufficiency,
        "Sufficiency",
        better="less",
        check=check_probabilities,
        about="The drop of the target's probability when only the map's highest 5, 10, 20 or 50 % of positions are "
        "left, on average. Between -1 and 1; less is better.",
        source="DeYoung et al., ERASER: A Benchmark to Evaluate Rationalized NLP Models, ACL 2020, but for its 1 %. "
        "Quantus's `Sufficiency` (Dasgupta et al., 2022) is another metric",
        bounds=(-1.0, 1.0),
        cost=f"{len(_STEPS)} passes per map, those of insertion",
        chance="that of any random order",
        criticism="An input of which nine tenths are the mean color is unlike those that the network was trained on.",
    ),
)
