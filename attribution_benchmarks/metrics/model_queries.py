"""Evaluate a network on changed inputs, in full batches across inputs and steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from attribution_benchmarks.core.batch import Batch, memoize_last

Scores = Callable[[object], np.ndarray]


class Explain(Protocol):
    """Explains a batch by the method of a map source, see ``Explainer.explain_function``; ``model`` is the run's."""

    model: Any

    def scores(self, inputs: Any) -> np.ndarray:
        """Return the run's model's scores of inputs, (N, classes)."""

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return maps of a batch, of another model where one is given."""


BYTES = 2**26  # of changed inputs in one request


@memoize_last
def originals(batch: Batch, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of a batch's inputs, (N, classes), and the explained class of each, (N,) int64."""
    found = np.asarray(scores(batch.inputs), np.float64)
    return found, found.argmax(axis=1) if batch.targets is None else np.asarray(batch.targets, np.int64)


def with_targets(batch: Batch, scores: Callable[[Any], np.ndarray]) -> Batch:
    """Return a batch with its targets, or else the predicted classes, as targets.

    Maps of one input are compared across networks, noise and controls. All must explain the same class, so it is fixed
    before the first map is computed; otherwise a random network would explain the class that it predicts.
    """
    return batch if batch.targets is not None else dataclasses.replace(batch, targets=originals(batch, scores)[1])


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
