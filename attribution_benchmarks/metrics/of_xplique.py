"""Metrics of Xplique (Fel et al., 2022) on this project's maps and models: ``xplique:MuFidelity?grid_size=4``.

Xplique 2.0 declares TensorFlow 2.18 to 2.20 with CUDA and an OpenCV with windows, so it is no extra of this package: it
is installed beside TensorFlow 2.20, or without its requirements, ``pip install --no-deps xplique
tensorflow-probability dm-tree decorator``. It is given one value for each position, the sum over channels, and the
run's scores. Each input is scored alone, with its own seed; MuFidelity draws from TensorFlow's global generator, whose
seed it leaves set. Classes that explain inputs or randomize Keras models are not offered.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, Literal

import numpy as np

from attribution.errors import BadInput
from attribution.model import batching
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
from attribution_benchmarks.metrics.map_values import evidence
from attribution_benchmarks.metrics.model_queries import Scores
from attribution_benchmarks.metrics.of_quantus import parsed

PREFIX = "xplique:"
_OF_MAPS: dict[str, Literal["more", "less"]] = {"Complexity": "less", "Sparseness": "more"}
NAMES: dict[str, Literal["more", "less"]] = {  # name -> which is better
    **_OF_MAPS,
    "AverageDropMetric": "less", "AverageGainMetric": "more", "AverageIncreaseMetric": "more", "Deletion": "less",
    "Insertion": "more", "MuFidelity": "more",
}  # fmt: skip


def xplique_metric(name: str) -> Metric:
    """Return a metric of Xplique, ``xplique:CLASS`` or ``xplique:CLASS?parameter=value&...``.

    Values are Python literals or words. Raises ``BadInput`` if Xplique is not installed, or the class is not offered.
    """
    kind, parameters = parsed(name, "Xplique", tuple(NAMES))
    try:
        importlib.import_module("xplique.metrics")
    except ImportError as error:
        raise BadInput(
            f"--metrics={name} needs Xplique: pip install --no-deps xplique tensorflow-probability dm-tree decorator "
            f"({error})"
        ) from error
    return Metric(
        name,
        f"{kind} (Xplique)",
        NAMES[kind],
        f"Xplique's {name.removeprefix(PREFIX)}. {NAMES[kind].capitalize()} is better.",
        source="Xplique",
        measure=PerSampleMetric(name, _XpliqueScorer(kind, parameters), digits=6),
        on_request=True,
    )


@dataclasses.dataclass(frozen=True)
class _XpliqueScorer:
    """A function of maps that a class of Xplique computes; see ``PerSampleMetric``."""

    kind: str
    parameters: dict[str, Any]

    def __call__(self, maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        """Return one value for each input, (N,) float64."""
        values = evidence(maps, batch).astype(np.float32)
        return np.array([self._of_one(values[row : row + 1], batch.take([row]), scores) for row in range(len(batch))])

    def _of_one(self, maps: np.ndarray, batch: Batch, scores: Scores) -> float:
        import tensorflow as tf

        made: Any = getattr(importlib.import_module("xplique.metrics"), self.kind)
        tf.random.set_seed(int(batching.generator(0, batch.seeds[0], "xplique").integers(2**31)))

        def model(inputs: Any) -> Any:
            changed = np.asarray(inputs, batch.pictures.dtype)
            return tf.constant(scores(batch.take([0] * len(changed)).with_pictures(changed)), tf.float32)

        try:
            if self.kind in _OF_MAPS:
                return float(made(**self.parameters)(maps))
            classes = model(batch.pictures).shape[1]
            targets = np.eye(classes, dtype=np.float32)[batch.targets]
            return float(made(model, batch.pictures, targets, **self.parameters)(maps))
        except Exception as error:  # Xplique raises whatever it likes
            reason = " ".join(str(error).split()) or type(error).__name__
            shape = batch.pictures.shape[1:]
            raise BadInput(f"Xplique's {self.kind} refuses inputs of shape {shape}: {reason}") from error
