"""All networks whose truth is known, one output at a time, with inputs, exact maps, and graded corruptions of these.

The true error of a corrupted map is known and grows with the grade. It is (1 - grade) · truth + grade · end, for an end
of the truth's length. The angle to the truth, and with it ``exact.metrics.distance``, grows with the grade for any end.
"offset" adds a constant instead, and "partly_zero" sets a growing share of positions to zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import attribution
from attribution.errors import BadInput
from attribution.methods.perturbation import positions
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
_TOP = 4  # the highest quarter of the magnitudes is removed
_OFFSET = 2.0  # constant of grade 1, as a multiple of the largest magnitude
_ZEROS = 0.9  # share of positions at grade 1: a map of zeros is scored as uniform by some metrics, by others not at all

_End = Callable[[np.ndarray, np.ndarray, Batch], np.ndarray]  # of truth, truth of another class, and batch


def _random(truth: np.ndarray, batch: Batch, draw: Callable[[np.random.Generator, tuple], np.ndarray]) -> np.ndarray:
    """Return random numbers of each map, (N, positions...), that depend on the input's name."""
    keys = batch.truth["key"]
    return np.stack([draw(batching.generator(0, key, "corruption"), truth.shape[1:]) for key in keys])


def _places(generator: np.random.Generator, shape: tuple) -> np.ndarray:
    return generator.permutation(int(np.prod(shape))).reshape(shape)


def _noise(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    return _random(truth, batch, lambda generator, shape: generator.standard_normal(shape))


def _input(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    return batch.pictures.reshape(truth.shape)


def _edges(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    return edge_detector(batch, 0) if batch.pictures.ndim == 4 else np.abs(_input(truth, other, batch))


def _shifted(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    axes = tuple(range(1, truth.ndim))
    return np.roll(truth, [_SHIFT] * len(axes), axes)


def _smoothed(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(truth, (0, *[_WIDTH] * (truth.ndim - 1))))


def _permuted(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    order = flat(_random(truth, batch, _places))
    return np.take_along_axis(flat(truth), order, axis=1).reshape(truth.shape)


def _flipped(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    return np.where(_random(truth, batch, _places) % 2, truth, -truth)


def _top_removed(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    ranks = np.argsort(np.argsort(-np.abs(flat(truth)), axis=1), axis=1).reshape(truth.shape)
    return np.where(ranks < truth[0].size // _TOP, 0.0, truth)


def _blocks(truth: np.ndarray, other: np.ndarray, batch: Batch) -> np.ndarray:
    for axis in range(1, truth.ndim):
        pairs = (truth.take(range(first, truth.shape[axis], 2), axis) for first in (0, 1))
        truth = np.repeat(sum(pairs) / 2, 2, axis)
    return truth


ENDS: dict[str, tuple[str, _End]] = {  # name -> description, map at grade 1 before its scaling
    "noise": ("mixed with Gaussian noise", _noise),
    "edges": ("mixed with the image's edges; for vectors, with the features' magnitudes", _edges),
    "input": ("mixed with the input", _input),
    "shifted": ("mixed with itself, shifted by two positions along each axis", _shifted),
    "permuted": ("mixed with itself, its positions permuted", _permuted),
    "other_class": ("mixed with the exact map of another output", lambda truth, other, batch: other),
    "smoothed": ("mixed with itself, smoothed over 1.5 positions", _smoothed),
    "blocks": ("mixed with itself, averaged over pairs of positions along each axis", _blocks),
    "sign_lost": ("mixed with its absolute values", lambda truth, other, batch: np.abs(truth)),
    "sign_flips": ("mixed with itself, the signs of half of the positions changed", _flipped),
    "positive_part": ("mixed with its positive part", lambda truth, other, batch: np.maximum(truth, 0)),
    "sharpened": ("mixed with its third power", lambda truth, other, batch: truth**3),
    "flattened": ("mixed with its cube root", lambda truth, other, batch: np.cbrt(truth)),
    "top_removed": ("mixed with itself without its highest quarter of magnitudes", _top_removed),
}
KINDS = {
    **{name: about for name, (about, _) in ENDS.items()},
    "offset": "a constant added, at most twice the largest magnitude",
    "partly_zero": "a share of positions set to zero, at most nine tenths",
}


def corrupted(truth: np.ndarray, other: np.ndarray, batch: Batch, kind: str, grade: float) -> np.ndarray:
    """Return corrupted maps of a kind of ``KINDS``, (N, positions...) float64; grade 0 returns the truth.

    ``truth`` and ``other`` are (N, positions...) exact maps of the targets, and of another output of the same network.
    ``batch.truth["key"]`` holds N names that random numbers depend on. A map whose end is zero everywhere, such as the
    positive part of a negative map, is not changed.
    """
    if kind == "partly_zero":
        return np.where(_random(truth, batch, _places) < round(_ZEROS * grade * truth[0].size), 0.0, truth)
    if kind == "offset":
        return truth + grade * _OFFSET * np.abs(truth).max(axis=tuple(range(1, truth.ndim)), keepdims=True)
    end = ENDS[kind][1](truth, other, batch).astype(np.float64)
    lengths, ends = (
        np.linalg.norm(flat(each), axis=1).reshape((-1,) + (1,) * (truth.ndim - 1)) for each in (truth, end)
    )
    return (1 - grade) * truth + grade * np.where(ends > 0, ratio(lengths, ends, 0.0) * end, truth)


ROWS = 4096  # of one request


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
    units: HiddenUnits | None = None  # of all outputs, where the network is known as such
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
        found = self.model.scores(inputs, ROWS)[:, self.by_class]
        return found if len(self.by_class) == 2 else np.concatenate([np.zeros_like(found), found], axis=1)

    @property
    def of_classes(self) -> Batch:
        """Return the batch with classes of ``scores`` as targets."""
        return dataclasses.replace(self.batch, targets=(self.batch.targets == self.by_class[-1]).astype(np.int64))

    def exact(self, batch: Batch, model: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the exact maps of a batch's targets and of another output, (N, positions...) float64 each.

        The batch may have other inputs or targets of this network. Absent positions have the values of
        ``batch.truth["absent"]``, (N, positions..., channels), and zero without it; where ``batch.truth["spread"]``,
        (N,), is above 0, they are normal variables with these means, see ``HiddenUnits``. ``model`` is another network
        of the same form, such as one of random weights, with absent positions at their means; ``BadInput`` for images,
        since its hidden units may read more pixels than can be counted.
        """
        model = model or self.model
        key = (model, *(np.asarray(each).tobytes() for each in (batch.pictures, batch.targets, *_absent(batch))))
        if key not in self._found:
            other = (batch.targets + len(self.by_class)) % self.model.num_classes
            self._found[key] = self._of_targets(batch, (batch.targets, other), model)
        first, second = self._found[key]
        return first, second

    def _of_targets(self, batch: Batch, targets: Sequence[np.ndarray], model: Any) -> list[np.ndarray]:
        """Return the exact maps of each of some targets, (N, positions...) float64."""
        inputs, (absent, spread) = batch.pictures, _absent(batch)
        shape = (len(inputs), *positions(inputs.shape))
        if model is self.model and self.units is not None:
            return [self.units.shapley_values(inputs, each, absent, spread).reshape(shape) for each in targets]
        if self.group == "images":
            raise BadInput("exact maps of images are known for trained networks only")
        absent = flat(np.broadcast_to(absent, inputs.shape))
        every = shapley_values_of_outputs(
            flat(inputs), lambda parts: model.scores(parts.reshape(-1, *inputs.shape[1:]), ROWS), absent
        )
        return [every[np.arange(len(inputs)), each].reshape(shape) for each in targets]


def _absent(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of absent positions, which broadcast to the inputs, and their spread, (N,)."""
    zeros = np.zeros(len(batch))
    absent = batch.truth.get("absent", zeros.reshape((-1,) + (1,) * (batch.pictures.ndim - 1)))
    return np.asarray(absent), np.asarray(batch.truth.get("spread", zeros))


class ExactExplain:
    """Explains by exact maps under a corruption, for metrics that compare maps; see ``imputation.Explain``."""

    def __init__(self, network: KnownNetwork, kind: str, grade: float):
        self.network, self.kind, self.grade, self.model = network, kind, grade, network.model

    def scores(self, inputs: Any) -> np.ndarray:
        """Return the scores of all outputs, (N, outputs)."""
        return np.asarray(self.model.scores(inputs, ROWS))

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return the corrupted exact maps of a batch, (N, positions...) float64, of this model or another."""
        return corrupted(*self.network.exact(batch, model), batch, self.kind, self.grade)


def known_networks(count: int, seed: int = 0) -> Iterator[KnownNetwork]:
    """Yield every network with a known truth, with ``count`` inputs each, at most 100."""
    for benchmark, outputs in ((definition.BENCHMARK, 1), (xai_units.BENCHMARK, 1), (xai_tris.BENCHMARK, 2)):
        model = attribution.load_model(benchmark.network)
        units = read_hidden_units(model.path) if outputs == 2 else None
        networks = model.num_classes // outputs
        assert benchmark.examples is not None
        data = benchmark.examples(count * networks, seed)
        whole = next(data.batches(len(data.names))).load()
        for number in range(networks):
            rows = np.flatnonzero(np.asarray(data.targets) // outputs == number)
            batch = whole.take(rows)
            name = batch.seeds[0].rpartition("-")[0]
            by_class = tuple(range(number * outputs, (number + 1) * outputs))
            network = KnownNetwork(f"{benchmark.name}/{name}", model, batch, by_class, units)
            truth: dict[str, Any] = {"key": list(batch.seeds), "shapley": network.exact(batch)[0]}
            yield dataclasses.replace(network, batch=dataclasses.replace(batch, truth=truth))
