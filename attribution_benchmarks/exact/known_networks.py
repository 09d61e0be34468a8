"""All networks whose truth is known, one output at a time, with inputs and exact maps."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.exact import definition, xai_tris, xai_units
from attribution_benchmarks.exact.corruptions import corrupted
from attribution_benchmarks.exact.hidden_units import HiddenUnits, read_hidden_units
from attribution_benchmarks.exact.metrics import shapley_values_of_outputs

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
        targets = (np.full(len(inputs), output) for output in range(model.num_classes))
        return np.stack([self._units.shapley_values(inputs, each)[..., 0] for each in targets], axis=1)

    @functools.cached_property
    def _units(self) -> HiddenUnits:
        return read_hidden_units(self.model.path)


class ExactExplain:
    """Explains by exact maps under a corruption, for metrics that compare maps; see ``model_queries.Explain``."""

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
