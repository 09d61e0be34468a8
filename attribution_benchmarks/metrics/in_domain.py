"""In-domain deletion: rank correlation of a map's segments with the cost of deleting them.

Most networks were never trained on inputs with removed parts, so their scores there may reflect the removal. A network
that was trained with single segments deleted sees nothing new. It declares this in ``assets/deletions.json`` of its
SavedModel::

    {"segments": [10], "fill": 0.0}

divides the axis of a signal into ten segments, each replaced by zeros in turn; for an image, ``[4, 4]``.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.files import atomic_write
from attribution.methods.perturbation import positions
from attribution.reading import read_json
from attribution.savedmodel.paths import find_saved_model
from attribution_benchmarks.core.batch import Batch, memoize_last
from attribution_benchmarks.core.bundled_models import shown_model
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
from attribution_benchmarks.metrics.descriptions import DESCRIPTIONS
from attribution_benchmarks.metrics.faithfulness import drops_without
from attribution_benchmarks.metrics.imputation import Explain
from attribution_benchmarks.metrics.map_values import evidence, flat, rank_of_drops

FILE = pathlib.Path("assets") / "deletions.json"


@dataclasses.dataclass(frozen=True)
class Deletions:
    """The segments that were deleted in a network's training."""

    segments: tuple[int, ...]  # number along each axis; their lengths differ by at most one position
    fill: float  # value of deleted positions

    @property
    def count(self) -> int:
        """Number of segments."""
        return int(np.prod(self.segments))

    def numbered(self, spatial: tuple[int, ...]) -> np.ndarray:
        """Return each position's segment, (positions...) int64 from 0."""
        number = np.zeros(spatial, np.int64)
        for axis, (size, parts) in enumerate(zip(spatial, self.segments, strict=True)):
            along = np.arange(size) * parts // size
            number = number * parts + along.reshape([-1 if axis == other else 1 for other in range(len(spatial))])
        return number

    def fill_in(self, pictures: np.ndarray, gone: np.ndarray, keys: Sequence[Any] = ()) -> np.ndarray:
        """Return inputs with removed positions, (N, positions...) bool, as they were in training; an imputation."""
        return np.where(gone if gone.ndim == pictures.ndim else gone[..., np.newaxis], self.fill, pictures)

    def without(self, pictures: np.ndarray, segment: int) -> np.ndarray:
        """Return inputs, (N, positions...) or with channels, without one segment."""
        gone = self.numbered(positions(pictures.shape)) == segment
        return self.fill_in(pictures, np.broadcast_to(gone, (len(pictures), *gone.shape)))

    def save(self, directory: pathlib.Path) -> None:
        """Write ``assets/deletions.json`` of a SavedModel."""
        (directory / FILE).parent.mkdir(exist_ok=True)
        atomic_write(directory / FILE, json.dumps({"segments": list(self.segments), "fill": self.fill}) + "\n")


def _deletions_of(model: Any) -> Deletions:
    """Return the deletions that a model was trained with.

    Raises ``BadInput`` if its SavedModel declares none, or the declaration is invalid.
    """
    directory = getattr(model, "path", None)
    name = shown_model(pathlib.Path(directory)) if directory else ""
    problem = f"{name} does not declare any" if name else "precomputed maps have no network"
    path = find_saved_model(directory) / FILE if directory and pathlib.Path(directory).is_dir() else None
    if path is None or not path.is_file():
        raise BadInput(
            f"in_domain_deletion needs a network that was trained with deleted segments, and {problem}: there is no "
            f"{FILE.as_posix()} (docs/metrics.md#in_domain_deletion)"
        )
    try:
        declared = read_json(path)
        found = Deletions(tuple(map(int, declared["segments"])), float(declared["fill"]))
        if min(found.segments) < 1 or found.count < 3:
            raise ValueError("fewer than three segments have no order to compare")
        return found
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f'{path} is not of the form \'{{"segments": [10], "fill": 0.0}}\': {error}') from error


@memoize_last
def _costs(batch: Batch, explain: Explain) -> tuple[np.ndarray, np.ndarray]:
    """Return the segment of each position, and the drop of the target's score without each segment, (N, segments)."""
    deletions, spatial = _deletions_of(explain.model), positions(batch.pictures.shape)
    if len(deletions.segments) != len(spatial) or any(
        parts > size for parts, size in zip(deletions.segments, spatial, strict=True)
    ):
        raise BadInput(f"the network's segments, {list(deletions.segments)}, do not fit inputs of positions {spatial}")
    numbers = deletions.numbered(spatial).reshape(-1)
    segments = numbers == np.arange(deletions.count)[:, np.newaxis]
    sets = np.broadcast_to(segments, (len(batch), *segments.shape))
    return numbers, drops_without(batch, explain.scores, sets, deletions.fill_in)


def _in_domain_deletion(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return the rank correlation of a map's sums over segments with the cost of deleting each segment, (N,).

    Spearman's correlation in [-1, 1]; 0 for a map of equal sums, NaN where no deletion changes the score.
    """
    numbers, costs = _costs(batch, explain)
    values = flat(evidence(maps, batch))
    sums = np.stack([values[:, numbers == segment].sum(axis=1) for segment in range(costs.shape[1])], axis=1)
    return rank_of_drops(sums, costs)


METRICS = (
    Metric(
        "in_domain_deletion",
        measure=PerSampleMetric("in_domain_deletion", _in_domain_deletion, needs_explainer=True, check=_deletions_of),
        on_request=True,
        **DESCRIPTIONS["in_domain_deletion"],
    ),
)
