"""All networks whose truth is known, one output at a time, with inputs and exact maps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

import attribution
from attribution.errors import BadInput
from attribution.methods.perturbation import positions
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.exact import definition, xai_tris, xai_units
from attribution_benchmarks.exact.metrics import shapley_values_of_network
from attribution_benchmarks.exact.xai_tris import HiddenUnits, read_hidden_units

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
    units: HiddenUnits | None = None  # of all outputs, where the network is known as such
    _found: dict = dataclasses.field(default_factory=dict)

    @property
    def group(self) -> str:
        """Return "images" or "vectors"."""
        return "images" if self.batch.pictures.ndim == 4 else "vectors"

    def scores(self, inputs: np.ndarray) -> np.ndarray:
        """Return the logits of classes 0 and 1, (N, 2)."""
        found = self.model.scores(inputs, _ROWS)[:, self.by_class]
        return found if len(self.by_class) == 2 else np.concatenate([np.zeros_like(found), found], axis=1)

    @property
    def of_classes(self) -> Batch:
        """Return the batch with classes of ``scores`` as targets."""
        return dataclasses.replace(self.batch, targets=(self.batch.targets == self.by_class[-1]).astype(np.int64))

    def exact(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return the exact maps of a batch's targets, (N, positions...) float64; absent positions are zero.

        The batch may have other inputs or targets of this network. ``model`` is another network of the same form, such
        as one of random weights; ``BadInput`` for images, because its hidden units may read more pixels than can be
        enumerated.
        """
        inputs, model = batch.pictures, model or self.model
        key = model, inputs.tobytes(), np.asarray(batch.targets).tobytes()
        if key in self._found:
            return np.asarray(self._found[key])
        if model is self.model and self.units is not None:
            found = self.units.shapley_values(inputs, batch.targets)
        elif self.group == "images":
            raise BadInput("exact maps of images are known for trained networks only")
        else:
            found = shapley_values_of_network(inputs, batch.targets, lambda parts: model.scores(parts, _ROWS))
        self._found[key] = found.reshape(len(inputs), *positions(inputs.shape))
        return np.asarray(self._found[key])


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
            truth: dict[str, Any] = {"key": list(batch.seeds), "shapley": network.exact(batch)}
            yield dataclasses.replace(network, batch=dataclasses.replace(batch, truth=truth))
