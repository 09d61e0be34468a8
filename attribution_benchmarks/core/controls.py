"""Controls of methods: model-independent maps, and conditions that should change a map.

Explaining another class follows Sixt and Landgraf, "A Rigorous Study of the Deep Taylor Decomposition", TMLR 2022.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from attribution import batching
from attribution.methods.perturbation import positions
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import mask_of


@dataclasses.dataclass(frozen=True)
class Control:
    """A control of a benchmark.

    Attributes
    ----------
    name, title
        In keys and files; in tables.
    about
        Description, in a few words for the report.
    maps
        ``maps(batch, seed)`` returns model-independent maps, (N, positions...). None for a control of methods.
    disturb
        ``disturb(model, batch, seed)`` returns the model and the batch that a method explains instead of the true ones.
        ``batch.targets`` are set; a control that changes the model or the inputs keeps them.
        None for a model-independent control.
    oracle
        Whether it uses the ground truth, so that no method is tested against it.
    trivial_max_of
        Metrics whose maximum it has by definition, so that no method can score higher.
    depends_on
        Everything else that its maps depend on besides batch, seed and code, as text.
    """

    name: str
    title: str
    about: str = ""
    maps: Callable[[Batch, int], np.ndarray] | None = None
    disturb: Callable[[object, Batch, int], tuple[object, Batch]] | None = None
    oracle: bool = False
    trivial_max_of: tuple[str, ...] = ()
    depends_on: str = ""


def _uniform(batch: Batch, seed: int) -> np.ndarray:
    """Return maps of ones, (N, positions...) float64."""
    return np.ones((len(batch), *positions(batch.pictures.shape)))


def _random(batch: Batch, seed: int) -> np.ndarray:
    """Return maps of uniform random numbers in [0, 1), (N, positions...), from the seed and each input's name."""
    spatial = positions(batch.pictures.shape)
    return np.stack([batching.generator(seed, key, "random map").random(spatial) for key in batch.seeds])


def _centre_prior(batch: Batch, seed: int) -> np.ndarray:
    """Return a Gaussian around the middle, with a quarter of each side as its standard deviation; (N, H, W)."""
    count, height, width = batch.pictures.shape[:3]
    rows, columns = (np.exp(-0.5 * np.square(np.linspace(-2, 2, size))) for size in (height, width))
    return np.broadcast_to(np.outer(rows, columns), (count, height, width))


def edge_detector(batch: Batch, seed: int) -> np.ndarray:
    """Return the length of the images' Sobel gradient, averaged over the colours first, (N, H, W)."""
    padded = np.pad(batch.pictures.mean(axis=3), ((0, 0), (1, 1), (1, 1)), mode="edge")
    smooth_rows = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    smooth_columns = padded[:, :, :-2] + 2 * padded[:, :, 1:-1] + padded[:, :, 2:]
    across, down = smooth_rows[:, :, 2:] - smooth_rows[:, :, :-2], smooth_columns[:, 2:] - smooth_columns[:, :-2]
    return np.asarray(np.hypot(across, down))


def _ground_truth(batch: Batch, seed: int) -> np.ndarray:
    """Return the batch's first mask as maps, (N, positions...) float64 of zeros and ones."""
    return np.asarray(mask_of(batch), np.float64)


def _other_class(model: Any, batch: Batch, seed: int) -> tuple[object, Batch]:
    """Explain the highest-scored class that is not the target."""
    if batch.targets is None:
        raise ValueError("targets are missing; Explainer.with_targets fills them in")
    return model, dataclasses.replace(batch, targets=runner_up(model.scores(batch.inputs), batch.targets))


def runner_up(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the highest-scored class that is not the target, (N,) int64, of (N, classes) scores and (N,) targets."""
    others = np.array(scores, np.float64)
    others[np.arange(len(others)), targets] = -np.inf
    return np.asarray(others.argmax(axis=1))


UNIFORM = Control("uniform", "Uniform map", "a map that is the same everywhere", _uniform)
RANDOM = Control("random", "Random map", "a map of random numbers", _random)
CENTRE_PRIOR = Control(
    "centre_prior", "Center prior", "a soft spot in the middle of the image, the same for all images", _centre_prior
)
EDGE_DETECTOR = Control(
    "edge_detector", "Edge detector", "the edges of the image itself; uses no network", edge_detector
)
GROUND_TRUTH = Control(
    "ground_truth", "Ground truth", "the truth itself as a map: what a metric gives to it", _ground_truth, oracle=True
)
WRONG_CLASS = Control(
    "wrong_class", "wrong class", "the method's map for another answer than the network gives", disturb=_other_class
)
