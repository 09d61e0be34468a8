"""How far a map is from the exact Shapley values of the very network that it explains."""

from __future__ import annotations

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, memoize_last
from attribution_benchmarks.core.metric import Metric, of_maps
from attribution_benchmarks.exact import shapley
from attribution_benchmarks.exact.problems import HAND_SET, NAMES
from attribution_benchmarks.metrics.map_values import spearman
from attribution_benchmarks.metrics.model_queries import Scores
from attribution_benchmarks.metrics.per_sample import PerSampleMetric

_SHAPLEY = "Shapley, A Value for n-Person Games, 1953"
NEGLIGIBLE = 1e-4  # of the largest part: single precision leaves as much where there is nothing


@memoize_last
def truth(batch: Batch, scores: Scores) -> np.ndarray:
    """Return the exact attributions of a batch's targets, (N, 12) float64: all coalitions are put to the network."""
    return shapley.of_network(batch.pictures, batch.targets, scores)


def distance(maps: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return what of the truth a map misses at its best scale, (N,) in [0, 1].

    min over β ≥ 0 of ‖β · map - truth‖ / ‖truth‖: the sine of the angle between them, 0 for a map that is the truth in
    another unit, 1 for one of nothing, or at a right angle or beyond. NaN where the truth is nothing.

    Parameters
    ----------
    maps, exact
        (N, features).
    """
    product, ours, theirs = ((a * b).sum(axis=1) for a, b in ((maps, exact), (maps, maps), (exact, exact)))
    known = ours * theirs > 0
    cosine = np.divide(product, np.sqrt(ours * theirs), out=np.zeros(len(maps)), where=known)
    return np.where(theirs > 0, np.sqrt(1 - np.clip(cosine, 0, 1) ** 2), np.nan)


def sign_errors(maps: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the share of the features that matter whose sign a map has wrong or that it leaves out, (N,)."""
    matters = np.abs(exact) > NEGLIGIBLE * np.abs(exact).max(axis=1, keepdims=True)
    wrong = matters & (np.sign(maps) != np.sign(exact))
    return np.divide(wrong.sum(axis=1), matters.sum(axis=1), out=np.full(len(maps), np.nan), where=matters.any(axis=1))


def suppressor_share(maps: np.ndarray, suppressors: np.ndarray) -> np.ndarray:
    """Return the share of a map's magnitude on suppressors, (N, features) bool; (N,), NaN where there are none."""
    total = np.abs(maps).sum(axis=1)
    known = suppressors.any(axis=1) & (total > 0)
    return np.divide((np.abs(maps) * suppressors).sum(axis=1), total, out=np.full(len(maps), np.nan), where=known)


def _as_features(maps: np.ndarray, batch: Batch) -> np.ndarray:
    if maps.shape != batch.pictures.shape:
        raise BadInput(
            f"maps of shape {maps.shape[1:]}; one number for each of {batch.pictures.shape[1]} features fits"
        )
    return np.asarray(maps, np.float64)


def _against_truth(name: str, function, **described) -> Metric:
    def of_batch(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        return function(_as_features(maps, batch), truth(batch, scores))

    return of_maps(name, of_batch, source=_SHAPLEY, cost="4,096 passes an input, the same for all maps", **described)


def _of_problem(place: int, name: str) -> Metric:
    def of_batch(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        found = distance(_as_features(maps, batch), truth(batch, scores))
        return np.where(batch.targets == place, found, np.nan)

    about = {problem.name: problem.about for problem in HAND_SET}.get(name, "")
    return Metric(
        name,
        name.replace("_", " ").capitalize(),
        "less",
        f"The distance to the truth on one problem alone. {about}".strip(),
        bounds=(0.0, 1.0),
        measure=PerSampleMetric(name, of_batch),  # undefined on other problems, be the map zero or not
    )


def _suppressors(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    return suppressor_share(_as_features(maps, batch), np.asarray(batch.truth["suppressors"]))


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
        sign_errors,
        title="Sign errors",
        better="less",
        about="The share of the features that matter whose sign is wrong or that are left out. Between 0 and 1; less "
        "is better.",
        bounds=(0.0, 1.0),
        chance="the share of negative parts, for maps without negative values",
        criticism="A feature that hardly matters counts as much as the one that decides.",
    ),
)
METRICS = (
    *OVERALL,
    *(_of_problem(place, name) for place, name in enumerate(NAMES)),
    of_maps(
        "suppressor_share",
        _suppressors,
        title="On suppressors",
        better="less",
        about="The share of a map on features that the network uses to clean others, and that say nothing about what "
        "is asked. Less is better to a reader who takes a map for what the class is about.",
        source="Clark et al., XAI-TRIS, Machine Learning 113, 2024",
    ),
)
