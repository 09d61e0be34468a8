"""Evaluate a network on changed inputs, in full batches across inputs and steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from attribution_benchmarks.core.batch import Batch

Scores = Callable[[object], np.ndarray]


class Explain(Protocol):
    """Explains a batch by the method of a map source, see ``Explainer.explain_function``; ``model`` is the run's."""

    model: Any

    def scores(self, inputs: Any) -> np.ndarray:
        """Return the run's model's scores of inputs, (N, classes)."""

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return maps of a batch, of another model where one is given."""


BYTES = 2**26  # of changed inputs in one request


def changed_scores(batch: Batch, scores: Scores, changes: Iterable[tuple[int, np.ndarray]]) -> Iterator[np.ndarray]:
    """Yield the scores of changed inputs one by one, (classes,) float64.

    ``changes`` are (row of the batch, its changed input) pairs. They are grouped into requests of ``BYTES``.
    """
    rows, pictures = [], []
    most = max(BYTES // max(batch.pictures[:1].nbytes, 1), 1)
    for row, picture in changes:
        rows.append(row)
        pictures.append(picture)
        if len(rows) == most:
            yield from _query(batch, scores, rows, pictures)
            rows, pictures = [], []
    if rows:
        yield from _query(batch, scores, rows, pictures)


def _query(batch: Batch, scores: Scores, rows: list[int], pictures: list[np.ndarray]) -> np.ndarray:
    changed = np.stack(pictures).astype(batch.pictures.dtype)
    return np.asarray(scores(batch.take(rows).with_pictures(changed)), np.float64)


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Return scores as probabilities, (..., classes): unchanged if they are probabilities, else their softmax.

    A single score per row is unchanged.
    """
    from scipy.special import softmax

    if scores.shape[-1] < 2 or ((scores >= 0).all() and np.allclose(scores.sum(axis=-1), 1, atol=1e-3)):
        return scores
    return np.asarray(softmax(scores, axis=-1))
