"""All networks whose truth is known, one output at a time, with inputs, exact maps, and graded corruptions of these.

The true error of a corrupted map is known and grows with the grade. It is (1 - grade) · truth + grade · end, for an end
of the truth's length. The angle to the truth, and with it ``exact.metrics.distance``, grows with the grade for any end.
Only "partly_zero" sets a growing share of positions to zero instead.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import attribution
from attribution.errors import BadInput
from attribution.model import batching
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import edge_detector
from attribution_benchmarks.exact import definition, xai_tris, xai_units
from attribution_benchmarks.exact.metrics import shapley_values_of_outputs
from attribution_benchmarks.exact.xai_tris import HiddenUnits, read_hidden_units
from attribution_benchmarks.metrics.map_values import flat, ratio

GRADES = (0.25, 0.5, 0.75, 1.0)
_SHIFT = 2  # positions along each axis
_WIDTH = 1.5  # standard deviation of the smoothing, in positions

_End = Callable[[np.ndarray, np.ndarray, Batch], np.ndarray]  # of truth, truth of another class, and batch


def _noise(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    keys = batch.truth["key"]
    return np.stack([batching.generator(0, key, "corruption").standard_normal(truth.shape[1:]) for key in keys])


def _edges(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    return edge_detector(batch, 0) if batch.pictures.ndim == 4 else np.abs(batch.pictures)


def _shifted(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    axes = tuple(range(1, truth.ndim))
    return np.roll(truth, [_SHIFT] * len(axes), axes)


def _smoothed(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(truth, (0, *[_WIDTH] * (truth.ndim - 1))))


ENDS: dict[str, tuple[str, _End]] = {  # name -> description, map at grade 1 before its scaling
    "noise": ("mixed with Gaussian noise", _noise),
    "edges": ("mixed with the image's edges; for vectors, with the features' magnitudes", _edges),
    "shifted": ("mixed with itself, shifted by two positions along each axis", _shifted),
    "other_class": ("mixed with the exact map of another output", lambda truth, other, batch: other),
    "smoothed": ("mixed with itself, smoothed over 1.5 positions", _smoothed),
    "sign_lost": ("mixed with its absolute values", lambda truth, other, batch: np.abs(truth)),
}
KINDS = {**{name: about for name, (about, _) in ENDS.items()}, "partly_zero": "a share of positions set to zero"}


def corrupted(truth: np.ndarray, other: np.ndarray, batch: Batch, kind: str, grade: float) -> np.ndarray:
    """Return corrupted maps of a kind of ``KINDS``, (N, positions...) float64; grade 0 returns the truth.

    ``truth`` and ``other`` are (N, positions...) exact maps of the targets, and of another output of the same network.
    ``batch.truth["key"]`` holds N names that random numbers depend on.
    """
    if kind == "partly_zero":
        keys, shape = batch.truth["key"], truth.shape[1:]
        order = np.stack([batching.generator(0, key, "zeros").permutation(truth[0].size) for key in keys])
        return np.where(order.reshape(-1, *shape) < round(grade * truth[0].size), 0.0, truth)
    end = ENDS[kind][1](truth, other, batch).astype(np.float64)
    lengths, ends = (np.linalg.norm(flat(each), axis=1) for each in (truth, end))
    scale = ratio(lengths, ends, 0.0).reshape((-1,) + (1,) * (truth.ndim - 1))
    return (1 - grade) * truth + grade * scale * end


_ROWS = 4096  # of one request


@dataclasses.dataclass(frozen=True, eq=False)
class KnownNetwork:
    """One output of a network, as the logit of class 1 against class 0, with inputs."""

    name: str  # "xai_units/conjunction"
    model: Any  # the network with all its outputs
    # N inputs; ``targets`` are outputs of ``model``. ``truth["key"]`` has the inputs' names, and ``truth["shapley"]``
    # the exact maps.
    batch: Batch
    # Outputs of ``model`` that are the logits of class 0 and class 1; a single one is class 1, against 0.
    by_class: tuple[int, ...]
    _found: dict = dataclasses.field(default_factory=dict)

    @property
    def group(self) -> str:
        """Return "images" or "vectors"."""
        return "images" if self.batch.pictures.ndim == 4 else "vectors"

    def scores(self, inputs: np.ndarray) -> np.ndarray:
        """Return the logits of classes 0 and 1, (N, 2).

        Those of a single input are remembered: Quantus changes inputs one by one, and many maps in the same ways.
        """
        if len(inputs) > 1:
            return self._scores(inputs)
        key = np.asarray(inputs).tobytes()
        if key not in self._found:
            self._found[key] = self._scores(inputs)
        return np.asarray(self._found[key])

    def _scores(self, inputs: np.ndarray) -> np.ndarray:
        found = self.model.scores(inputs, _ROWS)[:, self.by_class]
        return found if len(self.by_class) == 2 else np.concatenate([np.zeros_like(found), found], axis=1)

    @property
    def of_classes(self) -> Batch:
        """Return the batch with classes of ``scores`` as targets."""
        return dataclasses.replace(self.batch, targets=(self.batch.targets == self.by_class[-1]).astype(np.int64))

    def exact(self, batch: Batch, model: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the exact maps of a batch's targets and of another output, (N, positions...) float64 each.

        The batch may have other inputs or targets of this network. ``model`` is another network of the same form, such
        as one of random weights; ``BadInput`` for images, since its hidden units may read more pixels than can be
        counted.
        """
        model, key = model or self.model, batch.pictures.tobytes()
        if (model, key) not in self._found:
            self._found[model, key] = self._of_outputs(batch.pictures, model)
        found, rows = self._found[model, key], np.arange(len(batch))
        other = (batch.targets + len(self.by_class)) % found.shape[1]
        return found[rows, batch.targets], found[rows, other]

    def _of_outputs(self, inputs: np.ndarray, model: Any) -> np.ndarray:
        """Return the exact maps of all outputs, (N, outputs, positions...) float64."""
        if self.group == "vectors":
            return shapley_values_of_outputs(inputs, lambda parts: model.scores(parts, _ROWS))
        if model is not self.model:
            raise BadInput("exact maps of images are known for trained networks only")
        return self._units.shapley_values_of_outputs(inputs)[..., 0]

    @functools.cached_property
    def _units(self) -> HiddenUnits:
        return read_hidden_units(self.model.path)


class ExactExplain:
    """Explains by exact maps under a corruption, for metrics that compare maps; see ``imputation.Explain``."""

    def __init__(self, network: KnownNetwork, kind: str, grade: float):
        self.network, self.kind, self.grade, self.model = network, kind, grade, network.model

    def scores(self, inputs: Any) -> np.ndarray:
        """Return the scores of all outputs, (N, outputs)."""
        return np.asarray(self.model.scores(inputs, _ROWS))

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return the corrupted exact maps of a batch, (N, positions...) float64, of this model or another."""
        return corrupted(*self.network.exact(batch, model), batch, self.kind, self.grade)


def known_networks(count: int, seed: int = 0) -> Iterator[KnownNetwork]:
    """Yield every network with a known truth, with ``count`` inputs each, at most 100."""
    for benchmark, outputs in ((definition.BENCHMARK, 1), (xai_units.BENCHMARK, 1), (xai_tris.BENCHMARK, 2)):
        model = attribution.load_model(benchmark.network)
        networks = model.num_classes // outputs
        assert benchmark.examples is not None
        data = benchmark.examples(count * networks, seed)
        whole = next(data.batches(len(data.names))).load()
        for number in range(networks):
            rows = np.flatnonzero(np.asarray(data.targets) // outputs == number)
            batch = whole.take(rows)
            name = batch.seeds[0].rpartition("-")[0]
            by_class = tuple(range(number * outputs, (number + 1) * outputs))
            network = KnownNetwork(f"{benchmark.name}/{name}", model, batch, by_class)
            truth: dict[str, Any] = {"key": list(batch.seeds), "shapley": network.exact(batch)[0]}
            yield dataclasses.replace(network, batch=dataclasses.replace(batch, truth=truth))
