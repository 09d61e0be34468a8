"""Metrics of maps against the exact Shapley values of the explained network.

Shapley values are computed from the worth of all coalitions of features, without sampling. Absent features are zero,
which is also the baseline of the methods here.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, memoize_last
from attribution_benchmarks.core.metric import Metric, PerSampleMetric, of_maps
from attribution_benchmarks.metrics.descriptions import read_descriptions
from attribution_benchmarks.metrics.imputation import Scores
from attribution_benchmarks.metrics.localisation import shared_with_highest
from attribution_benchmarks.metrics.map_values import ratio, spearman
from attribution_benchmarks.stats.coalitions import MOST_FEATURES as MOST_FEATURES
from attribution_benchmarks.stats.coalitions import coalitions, shapley_values

DESCRIPTIONS = read_descriptions(pathlib.Path(__file__).with_name("metrics.toml"))
_NEGLIGIBLE = 1e-4  # of the largest value: a feature of less does not matter
_STEP = 1e-5  # of the largest value; the error of single precision is less


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
    return shapley_values(worth[np.arange(len(inputs)), :, np.asarray(targets)])


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


def _in_steps(values: np.ndarray) -> np.ndarray:
    """Return (N, features) values in whole steps: rounding gives no feature a sign, and orders none."""
    largest = np.abs(values).max(axis=1, keepdims=True)
    return np.rint(values / np.where(largest > 0, _STEP * largest, 1.0))


def _rank_correlation(maps: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return Spearman's rank correlation of each map with the truth, (N,)."""
    return spearman(_in_steps(maps), _in_steps(exact))


def _sign_errors(maps: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the share of the relevant features whose sign in the map is wrong or zero, (N,)."""
    matters = np.abs(exact) > _NEGLIGIBLE * np.abs(exact).max(axis=1, keepdims=True)
    wrong = matters & (np.sign(_in_steps(maps)) != np.sign(exact))
    return ratio(wrong.sum(axis=1), matters.sum(axis=1))


def _top_feature(maps: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return whether the largest magnitude of each map is at that of the truth, (N,); of ties the share of hits."""
    top = np.abs(exact) == np.abs(exact).max(axis=1, keepdims=True)
    return np.asarray(shared_with_highest(np.abs(maps), top, np.ones(len(maps), int)))


def _as_features(maps: np.ndarray, batch: Batch) -> np.ndarray:
    """Return maps as (N, features) float64; those of a token's embedding are summed over its channels.

    Channels that cancel but for rounding are 0, as those of a gradient are before a layer normalization.
    """
    features = batch.pictures[0].size
    if maps.shape[:-1] == batch.pictures.shape:
        total = maps.sum(axis=-1, dtype=np.float64)
        maps = np.where(np.abs(total) > _STEP * np.abs(maps).sum(axis=-1), total, 0.0)
    if maps[0].size != features:
        raise BadInput(f"maps of shape {maps.shape[1:]}; one number for each of {features} features fits")
    return np.reshape(maps, (len(maps), features)).astype(np.float64)


def _against_truth(name: str, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Metric:
    def of_batch(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        return function(_as_features(maps, batch), _truth_of(batch, scores))

    return of_maps(name, of_batch, **DESCRIPTIONS[name])


def distance_on(name: str, title: str, about: str, chosen: Callable[[Batch], np.ndarray]) -> Metric:
    """Return the distance to the truth on some inputs alone, those of which ``chosen(batch)`` are True, (N,) bool."""

    def of_batch(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        return np.where(chosen(batch), distance(_as_features(maps, batch), _truth_of(batch, scores)), np.nan)

    measure = PerSampleMetric(name, of_batch)  # undefined on other inputs, be the map zero or not
    return Metric(name, title, "less", f"The distance to the truth on {about}", bounds=(0.0, 1.0), measure=measure)


def of_problem(place: int, name: str, about: str = "", classes: int = 1) -> Metric:
    """Return the distance to the truth on one problem, the outputs from ``place * classes`` of the network."""
    title, about = name.replace("_", " ").capitalize(), f"one problem alone. {about}".strip()
    return distance_on(name, title, about, lambda batch: batch.targets // classes == place)


def _suppressor_share(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the share of a map's magnitude on ``batch.truth["suppressors"]``, (N,); NaN where there are none."""
    magnitudes, suppressors = np.abs(_as_features(maps, batch)), np.asarray(batch.truth["suppressors"])
    share = ratio((magnitudes * suppressors).sum(axis=1), magnitudes.sum(axis=1))
    return np.where(suppressors.any(axis=1), share, np.nan)


OVERALL = (
    _against_truth("distance", distance),
    _against_truth("rank_correlation", _rank_correlation),
    _against_truth("sign_errors", _sign_errors),
)
TOP_FEATURE = _against_truth("top_feature", _top_feature)
SUPPRESSOR_SHARE = of_maps("suppressor_share", _suppressor_share, **DESCRIPTIONS["suppressor_share"])
