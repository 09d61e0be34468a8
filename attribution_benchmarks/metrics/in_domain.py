"""In-domain deletion: whether a map's segments rank as what deleting them costs, on a network that knows deletions.

Removing parts of an input asks most networks about pictures that they were never trained on, and what they say there
may be of the holes. A network that was trained with single segments deleted is asked about nothing new. Such a network
says so itself, in ``assets/deletions.json`` of its SavedModel::

    {"segments": [10], "fill": 0.0}

cuts the one axis of a signal into ten segments, of which one at a time is replaced by zeros; of a picture, ``[4, 4]``.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.file_io.files import atomic_write
from attribution.methods.perturbation import positions
from attribution_benchmarks.cli.bundled_models import shown_model
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.memoize_last import memoize_last
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.metrics.map_values import evidence, flat, spearman
from attribution_benchmarks.metrics.model_queries import Explain, changed_scores, originals
from attribution_benchmarks.metrics.per_sample import PerSampleMetric

FILE = pathlib.Path("assets") / "deletions.json"


@dataclasses.dataclass(frozen=True)
class Deletions:
    """What a network was trained without.

    Attributes
    ----------
    segments
        How many of each axis; all of them are as long as each other, to a position.
    fill
        The number that takes the place of a segment.
    """

    segments: tuple[int, ...]
    fill: float

    @property
    def count(self) -> int:
        """How many segments there are."""
        return int(np.prod(self.segments))

    def numbered(self, spatial: tuple[int, ...]) -> np.ndarray:
        """Return each position's segment, (positions...) int64 from 0."""
        number = np.zeros(spatial, np.int64)
        for axis, (size, parts) in enumerate(zip(spatial, self.segments, strict=True)):
            along = np.arange(size) * parts // size
            number = number * parts + along.reshape([-1 if axis == other else 1 for other in range(len(spatial))])
        return number

    def without(self, pictures: np.ndarray, segment: int) -> np.ndarray:
        """Return pictures, (N, positions..., channels), without one segment."""
        gone = self.numbered(positions(pictures.shape)) == segment
        return np.where(gone[..., np.newaxis], np.asarray(self.fill, pictures.dtype), pictures)

    def save(self, directory: pathlib.Path) -> None:
        """Write it into a SavedModel."""
        (directory / FILE).parent.mkdir(exist_ok=True)
        atomic_write(directory / FILE, json.dumps({"segments": list(self.segments), "fill": self.fill}) + "\n")


def deletions_of(model: Any) -> Deletions:
    """Return what a model was trained without.

    Raises
    ------
    BadInput
        If its SavedModel does not say so, or what it says is none.
    """
    from attribution.model.saved_model import find_saved_model  # here, because it imports TensorFlow

    directory = getattr(model, "path", None)
    who = shown_model(pathlib.Path(directory)) if directory else ""
    named = f"{who} does not say that it was" if who else "saved maps do not say of which they are"
    path = find_saved_model(directory) / FILE if directory and pathlib.Path(directory).is_dir() else None
    if path is None or not path.is_file():
        raise BadInput(
            f"in_domain_deletion needs a network that was trained with deleted segments, and {named}: there is no "
            f"{FILE.as_posix()} (docs/metrics.md#in_domain_deletion)"
        )
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        found = Deletions(tuple(map(int, said["segments"])), float(said["fill"]))
        if min(found.segments) < 1 or found.count < 3:
            raise ValueError("fewer than three segments have no order to compare")
        return found
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f'{path} is none of \'{{"segments": [10], "fill": 0.0}}\': {error}') from error


@memoize_last
def _costs(batch: Batch, explain: Explain) -> tuple[np.ndarray, np.ndarray]:
    """Return each position's segment, and how far the target's score falls without each segment, (N, segments)."""
    deletions, pictures = deletions_of(explain.model), batch.pictures
    spatial = positions(pictures.shape)
    if len(deletions.segments) != len(spatial) or any(
        parts > size for parts, size in zip(deletions.segments, spatial, strict=True)
    ):
        raise BadInput(f"the network's segments, {list(deletions.segments)}, do not fit inputs of positions {spatial}")
    whole, targets = originals(batch, explain.scores)
    rows = np.arange(len(batch))

    def changes():
        for segment in range(deletions.count):
            yield from enumerate(deletions.without(pictures, segment))

    asked = np.stack(list(changed_scores(batch, explain.scores, changes()))).reshape(deletions.count, *whole.shape)
    return deletions.numbered(spatial).reshape(-1), (whole[rows, targets] - asked[:, rows, targets]).T


def in_domain_deletion(maps: np.ndarray, batch: Batch, explain: Explain) -> np.ndarray:
    """Return how a map's sums over segments rank with what deleting each segment alone costs, (N,) in [-1, 1].

    Spearman's correlation over segments; 0 for a map of equal sums, NaN where no deletion changes the score.
    """
    numbers, costs = _costs(batch, explain)
    values = flat(evidence(maps, batch))
    sums = np.stack([values[:, numbers == segment].sum(axis=1) for segment in range(costs.shape[1])], axis=1)
    size = np.abs(sums).max(axis=1, keepdims=True)
    sums = np.where(np.ptp(sums, axis=1, keepdims=True) <= 1e-6 * size, 0.0, sums)  # equal but for rounding
    return np.where(np.ptp(costs, axis=1) > 0, spearman(sums, costs), np.nan)


METRICS = (
    Metric(
        "in_domain_deletion",
        "In-domain deletion",
        about="How the sums of the map over segments rank with what deleting each segment alone costs the target's "
        "score, on a network that was trained with segments deleted: Spearman's correlation. Between -1 and 1; more is "
        "better.",
        source="Hesse, Schaub-Meyer and Roth, Benchmarking the Attribution Quality of Vision Models, NeurIPS 2024",
        measure=PerSampleMetric("in_domain_deletion", in_domain_deletion, needs_explainer=True, check=deletions_of),
        on_request=True,
        bounds=(-1.0, 1.0),
        cost="one pass an input and segment, the same for all maps",
        chance="0",
        criticism="Only of networks that were trained with deletions and say so in `assets/deletions.json` of their "
        "SavedModel; others are refused. One segment at a time: what two segments say together, or each of them alone, "
        "counts for nothing.",
    ),
)
