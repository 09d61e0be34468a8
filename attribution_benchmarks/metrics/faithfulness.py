"""Faithfulness: whether the network's answer changes with what a map says it depends on. Nothing is known of the truth.

A position counts by its evidence, the signed values of its channels summed: what speaks for the target comes first.
Equal values come in random order, the same for every map of an input. Only positions are removed, all channels at once.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from attribution.methods.perturbation import positions
from attribution.model import batching
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.memoize_last import memoize_last
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.metrics.imputation import Fill, blurred, mean_colour, noisy_linear
from attribution_benchmarks.metrics.map_values import evidence, flat
from attribution_benchmarks.metrics.model_queries import Scores, changed_scores, originals, probabilities
from attribution_benchmarks.metrics.per_sample import PerSampleMetric

STEPS = tuple(step / 20 for step in range(1, 21))  # shares of the positions that are removed
ROAD_STEPS = (0.2, 0.4, 0.6, 0.8)  # each is imputed anew
SIZES = (0.1, 0.3, 0.5)  # of the sets of sensitivity-n, as shares of the positions
SETS = 16  # drawn of each size
PATCHES = 32  # covered for infidelity
LARGEST = 4  # a patch's side is at most this part of the input's: a fourth
DIGITS = 6  # of a stored number


def curve(
    maps: np.ndarray, batch: Batch, scores: Scores, fill: Fill, shares: tuple[float, ...], least_first: bool = False
) -> np.ndarray:
    """Return the target's probability after each share of the positions was removed.

    Parameters
    ----------
    maps
        (N, positions...) or with channels.
    batch, scores
        The inputs and their network. It is asked about the whole inputs once for all maps of a batch, and once about
        each input for each share.
    fill
        What takes the place of what is removed.
    shares
        Of the positions, rising, above 0.
    least_first
        Remove the least important first, so that the most important are inserted last to first, instead of the most
        important.

    Returns
    -------
    (N, 1 + shares) float64
        The first is the whole input's.
    """
    whole, targets = originals(batch, scores)
    ranked = orders(maps, batch)[:, :: -1 if least_first else 1]
    shape = (len(batch), *positions(batch.pictures.shape))

    def changes():
        for share in shares:
            gone = np.zeros(ranked.shape, bool)
            np.put_along_axis(gone, ranked[:, : round(share * ranked.shape[1])], True, axis=1)
            yield from enumerate(fill(batch.pictures, gone.reshape(shape), batch.seeds))

    asked = np.stack(list(changed_scores(batch, scores, changes()))).reshape(len(shares), *whole.shape)
    found = probabilities(np.concatenate([whole[np.newaxis], asked]))
    return np.take_along_axis(found, targets[np.newaxis, :, np.newaxis], axis=2)[..., 0].T


@memoize_last
def orders(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return each map's positions from the most to the least important, (N, positions) int64."""
    values = flat(evidence(maps, batch))
    generators = (batching.generator(0, key, "order of equals") for key in batch.seeds)
    among_equals = np.stack([generator.random(values.shape[1]) for generator in generators])
    return np.lexsort((among_equals, -values), axis=1)


def area(curves: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
    """Return the mean height of curves over the share removed, (N,), by the trapezoidal rule."""
    from scipy.integrate import trapezoid

    return trapezoid(curves, [0, *shares], axis=1) / shares[-1]


@memoize_last
def _drops_of_sets(batch: Batch, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    sets = _random_sets(batch)
    return sets, _drops(batch, scores, sets)


@memoize_last
def _drops_of_patches(batch: Batch, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    sets = _patches(batch)
    return sets, _drops(batch, scores, sets)


def _drops(batch: Batch, scores: Scores, sets: np.ndarray) -> np.ndarray:
    """Return how far the target's score falls without sets of positions, (N, sets, positions) bool; (N, sets)."""
    whole, targets = originals(batch, scores)
    shape = (len(batch), *positions(batch.pictures.shape))

    def changes():
        for number in range(sets.shape[1]):
            yield from enumerate(mean_colour(batch.pictures, sets[:, number].reshape(shape), batch.seeds))

    asked = np.stack(list(changed_scores(batch, scores, changes()))).reshape(sets.shape[1], *whole.shape)
    rows = np.arange(len(batch))
    return (whole[rows, targets] - asked[:, rows, targets]).T


def _random_sets(batch: Batch) -> np.ndarray:
    """Return sets of positions drawn evenly, the same for every map of an input, (N, sizes · sets, positions) bool."""
    total = int(np.prod(positions(batch.pictures.shape)))
    found = np.zeros((len(batch), len(SIZES) * SETS, total), bool)
    for row, key in enumerate(batch.seeds):
        generator = batching.generator(0, key, "sensitivity-n")
        for number in range(len(SIZES) * SETS):
            count = max(round(SIZES[number // SETS] * total), 1)
            found[row, number, generator.choice(total, count, replace=False)] = True
    return found


def _patches(batch: Batch) -> np.ndarray:
    """Return boxes of random place and sides, the same for every map of an input, (N, patches, positions) bool."""
    spatial = positions(batch.pictures.shape)
    found = np.zeros((len(batch), PATCHES, *spatial), bool)
    for row, key in enumerate(batch.seeds):
        generator = batching.generator(0, key, "infidelity")
        for number in range(PATCHES):
            sides = [generator.integers(1, max(size // LARGEST, 1) + 1) for size in spatial]
            starts = [generator.integers(size - side + 1) for size, side in zip(spatial, sides, strict=True)]
            found[row, number][tuple(slice(a, a + b) for a, b in zip(starts, sides, strict=True))] = True
    return found.reshape(len(batch), PATCHES, -1)


def sensitivity_n(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return how the sum of a map over a random set of positions goes with what removing the set costs, (N,).

    Pearson's correlation over sets of one size, averaged over sizes, in [-1, 1]: 1 for a linear network and its exact
    contributions. A map of the same sum everywhere has 0; NaN where the network's score never changes.
    """
    sets, drops = _drops_of_sets(batch, scores)
    sums = _sums(sets, flat(evidence(maps, batch)))
    by_size = [_correlation(sums[:, part], drops[:, part]) for part in _by_size()]
    return np.mean(by_size, axis=0)


def infidelity(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the squared error of a map's sum over a patch as the cost of covering it, at the map's best scale, (N,).

    min over β ≥ 0 of Σ (β · sum - drop)², divided by Σ drop²: 0 for a linear network and its exact contributions, 1 for
    a map of nothing or of the opposite. NaN where the network's score never changes.
    """
    sets, drops = _drops_of_patches(batch, scores)
    sums = _sums(sets, flat(evidence(maps, batch)))
    both, ours, theirs = ((a * b).sum(axis=1) for a, b in ((sums, drops), (sums, sums), (drops, drops)))
    explained = np.divide(np.maximum(both, 0) ** 2, ours * theirs, out=np.zeros(len(maps)), where=ours * theirs > 0)
    return np.where(theirs > 0, 1 - np.minimum(explained, 1), np.nan)


def _sums(sets: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sums of values, (N, positions), over sets, (N, sets, positions) bool; (N, sets)."""
    return np.stack([of_input @ one for of_input, one in zip(sets, values, strict=True)])


def _by_size() -> list[slice]:
    return [slice(number * SETS, (number + 1) * SETS) for number in range(len(SIZES))]


def _correlation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation row by row; 0 where the first is constant, NaN where the second is."""
    rounding = 16 * np.finfo(np.float32).eps * np.abs(first).max(axis=1, initial=0)
    first, second = (each - each.mean(axis=1, keepdims=True) for each in (first, second))
    ours, theirs = ((each**2).sum(axis=1) for each in (first, second))
    varies = (np.abs(first).max(axis=1, initial=0) > rounding) & (theirs > 0)
    found = np.divide((first * second).sum(axis=1), np.sqrt(ours * theirs), out=np.zeros(len(first)), where=varies)
    return np.where(theirs > 0, found, np.nan)


def _curve_measure(name: str, fill: Fill, shares: tuple[float, ...], parts: tuple[int, ...]) -> PerSampleMetric:
    """Return what keeps a curve and its area, the area first.

    ``parts`` are the signs of the curve that removes the least important first and of the one that removes the most
    important.
    """

    def measured(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        curves = sum(
            sign * _CURVES[least_first](maps, batch, scores, fill, shares)
            for sign, least_first in zip(parts, (True, False), strict=True)
            if sign
        )
        return np.concatenate([area(curves, shares)[:, np.newaxis], curves], axis=1)

    return PerSampleMetric(name, measured, width=2 + len(shares), digits=DIGITS)


@memoize_last
def _least_first(maps: np.ndarray, batch: Batch, scores: Scores, fill: Fill, shares: tuple[float, ...]) -> np.ndarray:
    return curve(maps, batch, scores, fill, shares, least_first=True)


@memoize_last
def _most_first(maps: np.ndarray, batch: Batch, scores: Scores, fill: Fill, shares: tuple[float, ...]) -> np.ndarray:
    return curve(maps, batch, scores, fill, shares)


_CURVES = {True: _least_first, False: _most_first}

_FILLS = {
    "": (mean_colour, STEPS, "its own mean colour"),
    "_blur": (blurred, STEPS, "its own blurred version"),
    "_road": (noisy_linear, ROAD_STEPS, "a noisy linear imputation from what is left"),
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
        "The area between the curves of insertion and deletion, with {filled} in place of what is removed. Between -1 "
        "and 1; more is better, and a map that asks no network gets about 0.",
    ),
}  # fmt: skip
_CRITICISM = {
    "": "A picture with holes is none that the network was trained on: what it says there may be of the holes.",
    "_blur": "What is left of a blurred object may still be enough for the network, and blur itself is a texture.",
    "_road": "Imputed pictures are smooth, which is another thing that the network was not trained on. Four steps make "
    "a coarse curve. Rong et al. and Quantus report the accuracy after each step; this is the explained class's mean "
    "probability.",
}


def _curves_metric(kind: str, suffix: str) -> Metric:
    title, signs, better, about = _KINDS[kind]
    fill, shares, filled = _FILLS[suffix]
    name = f"{kind}{suffix}"
    asked = len(shares) * sum(map(abs, signs))
    chance = "about 0" if kind == "insertion_deletion" else "the same as any order without meaning; see the table below"
    return Metric(
        name,
        f"{title}{', ' + suffix[1:].upper().replace('BLUR', 'blur') if suffix else ''}",
        better,
        about.format(filled=filled),
        source=_ROAD if suffix == "_road" else _PETSIUK,
        measure=_curve_measure(name, fill, shares, signs),
        on_request=True,
        bounds=(-1.0, 1.0) if kind == "insertion_deletion" else (0.0, 1.0),
        curve=(0.0, *shares),
        cost=f"{asked} passes a map, shared by insertion, deletion and their difference",
        chance=chance,
        criticism=_CRITICISM[suffix],
    )


METRICS = (
    *(_curves_metric(kind, suffix) for suffix in _FILLS for kind in _KINDS),
    Metric(
        "sensitivity_n",
        "Sensitivity-n",
        about="How well the sum of the map over a random set of positions predicts what removing the set costs: "
        "Pearson's correlation, averaged over sets of a tenth, three tenths and half of all positions. Between -1 and "
        "1; more is better.",
        source="Ancona et al., Towards Better Understanding of Gradient-based Attribution Methods, ICLR 2018",
        measure=PerSampleMetric("sensitivity_n", sensitivity_n),
        on_request=True,
        bounds=(-1.0, 1.0),
        cost=f"{len(SIZES) * SETS} passes an input, the same for all maps",
        chance="0",
        criticism="Scattered positions hardly change what a network of pictures sees, so that correlations are of "
        f"small numbers, and low for every map. Only {SETS} sets of each size are sampled for an input, and its value "
        "depends on them.",
    ),
    Metric(
        "infidelity",
        "Infidelity",
        "less",
        "How far the sum of the map over a random patch misses what covering the patch costs, squared, at the map's "
        "best scale and as a share of what there is to explain. Between 0 and 1; less is better.",
        source="Yeh et al., On the (In)fidelity and Sensitivity of Explanations, NeurIPS 2019; scaled as captum does, "
        "but for the sign",
        measure=PerSampleMetric("infidelity", infidelity),
        on_request=True,
        bounds=(0.0, 1.0),
        cost=f"{PATCHES} passes an input, the same for all maps",
        chance="that of a uniform map, below 1: larger patches cost more, whatever is under them",
        criticism="Maps are read as contributions, which a gradient is not. Squares let one large patch decide. The "
        "scale β is the least-squares one, but at least 0, so that a map of the opposite sign scores 1 like a map of "
        "zeros.",
    ),
)
