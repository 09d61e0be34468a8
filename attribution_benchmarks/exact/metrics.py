"""Metrics of maps against the exact Shapley values of the explained network.

Shapley values are computed from the worth of all coalitions of features, without sampling. Absent features are zero,
which is also the baseline of the methods here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, memoize_last
from attribution_benchmarks.core.metric import Metric, PerSampleMetric, of_maps
from attribution_benchmarks.metrics.imputation import Scores
from attribution_benchmarks.metrics.localisation import shared_with_highest
from attribution_benchmarks.metrics.map_values import ratio, spearman
from attribution_benchmarks.stats.coalitions import MOST_FEATURES as MOST_FEATURES
from attribution_benchmarks.stats.coalitions import coalitions, shapley_values

_SHAPLEY = "Shapley, A Value for n-Person Games, 1953"
_NEGLIGIBLE = 1e-4  # of the largest value: the error of single precision where the truth is 0


def shapley_values_of_network(
    inputs: np.ndarray, targets: np.ndarray, scores: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return the Shapley values of a network's score of each input's target, (N, features) float64.

    ``inputs`` are (N, features), at most twelve features, ``targets`` (N,) int. ``scores(inputs)`` returns (M,
    classes); it is called with 2^features inputs for each input.
    """
    members = coalitions(inputs.shape[1])
    parts = np.where(members, inputs[:, np.newaxis], 0).reshape(-1, inputs.shape[1]).astype(inputs.dtype)
    worth = np.asarray(scores(parts), np.float64).reshape(len(inputs), len(members), -1)
    # Of all outputs together: rounding orders features worth nothing, and rank correlations see their order.
    found = shapley_values(np.moveaxis(worth, 2, 1))
    return np.take_along_axis(found, np.asarray(targets)[:, None, None], axis=1)[:, 0]


@memoize_last
def _truth_of(batch: Batch, scores: Scores) -> np.ndarray:
    """Return the exact Shapley values of a batch's targets, (N, features) float64.

    They are ``batch.truth["shapley"]`` where a benchmark knows them, and else counted, at most twelve features.
    """
    if "shapley" in batch.truth:
        return np.reshape(batch.truth["shapley"], (len(batch), -1))
    return shapley_values_of_network(batch.pictures, batch.targets, scores)


def distance(maps: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the distance of each map from the truth at the map's best scale, (N,) in [0, 1].

    min over β ≥ 0 of ‖β · map - truth‖ / ‖truth‖, the sine of the angle between them, of (N, features) maps. It is 0
    for a multiple of the truth, and 1 for a map of zeros and for angles of 90° or more. NaN where the truth is zero.
    """
    product, ours, theirs = ((a * b).sum(axis=1) for a, b in ((maps, exact), (maps, maps), (exact, exact)))
    known = ours * theirs > 0
    cosine = np.divide(product, np.sqrt(ours * theirs), out=np.zeros(len(maps)), where=known)
    return np.where(theirs > 0, np.sqrt(1 - np.clip(cosine, 0, 1) ** 2), np.nan)


def _sign_errors(maps: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the share of the relevant features whose sign in the map is wrong or zero, (N,)."""
    matters = np.abs(exact) > _NEGLIGIBLE * np.abs(exact).max(axis=1, keepdims=True)
    wrong = matters & (np.sign(maps) != np.sign(exact))
    return ratio(wrong.sum(axis=1), matters.sum(axis=1))


def _top_feature(maps: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return whether the largest magnitude of each map is at that of the truth, (N,); of ties the share of hits."""
    top = np.abs(exact) == np.abs(exact).max(axis=1, keepdims=True)
    return np.asarray(shared_with_highest(np.abs(maps), top, np.ones(len(maps), int)))


def _as_features(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return maps as (N, features) float64; those of a token's embedding are summed over its channels."""
    features = batch.pictures[0].size
    if maps.shape[:-1] == batch.pictures.shape:
        maps = maps.sum(axis=-1, dtype=np.float64)
    if maps[0].size != features:
        raise BadInput(f"maps of shape {maps.shape[1:]}; one number for each of {features} features fits")
    return np.reshape(maps, (len(maps), features)).astype(np.float64)


def _against_truth(name: str, function, **described) -> Metric:
    def of_batch(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        return function(_as_features(maps, batch), _truth_of(batch, scores))

    return of_maps(name, of_batch, source=_SHAPLEY, cost="4,096 passes an input, the same for all maps", **described)


def of_problem(place: int, name: str, about: str = "", classes: int = 1) -> Metric:
    """Return the distance to the truth on one problem, the outputs from ``place * classes`` of the network."""

    def of_batch(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        found = distance(_as_features(maps, batch), _truth_of(batch, scores))
        return np.where(batch.targets // classes == place, found, np.nan)

    return Metric(
        name,
        name.replace("_", " ").capitalize(),
        "less",
        f"The distance to the truth on one problem alone. {about}".strip(),
        bounds=(0.0, 1.0),
        measure=PerSampleMetric(name, of_batch),  # undefined on other problems, be the map zero or not
    )


def _suppressor_share(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the share of a map's magnitude on ``batch.truth["suppressors"]``, (N,); NaN where there are none."""
    magnitudes, suppressors = np.abs(_as_features(maps, batch)), np.asarray(batch.truth["suppressors"])
    share = ratio((magnitudes * suppressors).sum(axis=1), magnitudes.sum(axis=1))
    return np.where(suppressors.any(axis=1), share, np.nan)


OVERALL = (
    _against_truth(
        "distance",
        distance,
        title="Distance",
        better="less",
        about="What of the exact Shapley values a map misses at its best scale. Between 0 and 1; less is better.",
        bounds=(0.0, 1.0),
        chance="near 1",
        criticism="Shapley values are one answer to what a feature contributes, with zero as what is absent; a method "
        "that asks another question, as a gradient does, is judged by an answer to this one.",
    ),
    _against_truth(
        "rank_correlation",
        spearman,
        title="Rank correlation",
        better="more",
        about="Spearman's correlation of a map with the exact Shapley values. Between -1 and 1; more is better.",
        bounds=(-1.0, 1.0),
        chance="0",
        criticism="Most features of a problem are worth nothing: their order among each other cannot be right.",
    ),
    _against_truth(
        "sign_errors",
        _sign_errors,
        title="Sign errors",
        better="less",
        about="The share of the features that matter whose sign is wrong or that are left out. Between 0 and 1; less "
        "is better.",
        bounds=(0.0, 1.0),
        chance="the share of negative parts, for maps without negative values",
        criticism="A feature that hardly matters counts as much as the one that decides.",
    ),
)
TOP_FEATURE = _against_truth(
    "top_feature",
    _top_feature,
    title="Top feature",
    better="more",
    about="Whether the feature of the largest magnitude is that of the truth. Between 0 and 1; more is better.",
    bounds=(0.0, 1.0),
    chance="1 of the number of features",
    criticism="Where two features are owed the same, a rounding error decides which of them is the top one.",
)
SUPPRESSOR_SHARE = of_maps(
    "suppressor_share",
    _suppressor_share,
    title="On suppressors",
    better="less",
    about="The share of a map on features that the network uses to clean others, and that say nothing about what "
    "is asked. Less is better to a reader who takes a map for what the class is about.",
    source="Clark et al., XAI-TRIS, Machine Learning 113, 2024",
)
