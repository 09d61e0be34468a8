"""Exact importance of the parts of an image to a network: a game whose 32 coalitions are 32 images.

The worth of a set of parts is the network's score of the image with these parts. The network was trained on such
images, so none of them is outside of what it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.stats.coalitions import coalitions, interactions, shapley_values

INFLUENCE = 0.05  # of the score: a region whose removal lowers it by less has no influence (Hesse et al., 2023)


SETS = coalitions(5)


def scores_of_interventions(
    images: Iterable[np.ndarray], scores: Callable[[np.ndarray], np.ndarray]
) -> dict[str, np.ndarray]:
    """Return a network's scores of all sets of parts and without each background object.

    Parameters
    ----------
    images
        Of each input in turn: (32 + objects, H, W, C), as ``objects.interventions``.
    scores
        Returns (M, classes) scores of (M, H, W, C) images.

    Returns
    -------
    dict
        "worth": (N, 32, classes) float64. "without_object": (N, objects, classes) float64.
    """
    found = np.stack([np.asarray(scores(each), np.float64) for each in images])
    return {"worth": found[:, : len(SETS)], "without_object": found[:, len(SETS) :]}


def game(batch: Batch, probability: bool = False) -> np.ndarray:
    """Return the worth of all sets of parts for each input's target, (N, 2^parts): logits or probabilities."""
    worth = np.asarray(batch.truth["worth"])
    if probability:
        worth = np.exp(worth - worth.max(axis=2, keepdims=True))
        worth /= worth.sum(axis=2, keepdims=True)
    return np.take_along_axis(worth, np.asarray(batch.targets)[:, np.newaxis, np.newaxis], axis=2)[..., 0]


def exact_values(batch: Batch, probability: bool = False) -> np.ndarray:
    """Return the exact Shapley values of the parts for each input's target, (N, parts) float64."""
    return shapley_values(game(batch, probability))


def single_drops(batch: Batch) -> np.ndarray:
    """Return how much the target's logit falls without each part, (N, parts) float64."""
    worth = game(batch)
    everything = worth.shape[1] - 1
    without = everything - 2 ** np.arange(int(np.log2(worth.shape[1])))
    return worth[:, [everything]] - worth[:, without]


def is_correct(batch: Batch) -> np.ndarray:
    """Return whether the network predicts the target of the whole image, (N,) bool."""
    return np.asarray(batch.truth["worth"])[:, -1].argmax(axis=1) == batch.targets


def object_drops(batch: Batch) -> np.ndarray:
    """Return how much the target's logit falls without each background object, (N, objects); NaN without such."""
    targets = np.asarray(batch.targets)[:, np.newaxis, np.newaxis]
    without = np.take_along_axis(np.asarray(batch.truth["without_object"]), targets, axis=2)[..., 0]
    drops = game(batch)[:, [-1]] - without
    return np.where(np.asarray(batch.truth["there"]), drops, np.nan)


def without_influence(batch: Batch) -> np.ndarray:
    """Return which parts and background objects have no influence on the target's logit, (N, parts + objects) bool.

    Their removal raises it, or lowers it by less than five per cent. Objects that an image lacks are False.
    """
    drops = np.concatenate([single_drops(batch), object_drops(batch)], axis=1)
    return (drops < INFLUENCE * np.abs(game(batch)[:, [-1]])) & np.isfinite(drops)


def background_independence(batch: Batch) -> float:
    """Return the share of background objects without influence; a property of the network."""
    objects = np.asarray(batch.truth["without_object"]).shape[1]
    there = np.isfinite(object_drops(batch))
    return float(without_influence(batch)[:, -objects:][there].mean()) if there.any() else float("nan")


def findings(batch: Batch) -> list[str]:
    """Return sentences about the network: accuracy, background, and how far single deletions differ from the truth."""
    exact, drops, correct = exact_values(batch), single_drops(batch), is_correct(batch)
    worth = game(batch)
    error = np.abs(exact.sum(axis=1) - (worth[:, -1] - worth[:, 0])).max()
    other = exact.argmax(axis=1) != drops.argmax(axis=1)
    pairs = np.abs(interactions(worth)).max(axis=(1, 2))
    small = np.sort(drops, axis=1)[:, -1] < INFLUENCE * np.abs(worth[:, -1])
    of_probability = exact_values(batch, probability=True).argmax(axis=1) != exact.argmax(axis=1)
    return [
        f"The network is correct on {100 * correct.mean():.1f} % of {len(correct):,} images. "
        f"{100 * background_independence(batch):.1f} % of the background objects have no influence (background "
        "independence).",
        f"Exact Shapley values add up to the logit with all parts minus that without parts, to {error:.1g}.",
        f"The part whose removal alone lowers the logit most is not the one of the largest exact value in "
        f"{100 * other.mean():.1f} % of the images; in {100 * small.mean():.1f} % no single removal lowers it by 5 %.",
        f"The strongest interaction of two parts is larger than the largest exact value in "
        f"{100 * (pairs > exact.max(axis=1)).mean():.1f} % of the images. With probabilities in place of logits, the "
        f"largest exact value is on another part in {100 * of_probability.mean():.1f} %.",
    ]


def set_number(present: np.ndarray) -> np.ndarray:
    """Return the row of ``coalitions`` of sets of parts, (...) int, of (..., parts) bool."""
    return present @ (2 ** np.arange(present.shape[-1]))
