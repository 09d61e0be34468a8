"""Asking a network about changed inputs: filled into full passes across inputs and steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from attribution_benchmarks.core.batch import Block
from attribution_benchmarks.core.memoize_last import once

Scores = Callable[[object], np.ndarray]


class Again(Protocol):
    """Explains a block again by the same method, see ``explainer.Explainer.again``; ``model`` is the run's."""

    model: Any

    def scores(self, inputs: Any) -> np.ndarray:
        """Return the run's model's scores of inputs, (N, classes)."""

    def __call__(self, block: Block, model: Any = None) -> np.ndarray:
        """Return maps of a block, of another model where one is given."""


BYTES = 2**26  # of changed pictures that are handed to the network at once


@once
def originals(block: Block, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of a block's inputs, (N, classes), and the explained class of each, (N,) int64."""
    found = np.asarray(scores(block.inputs), np.float64)
    return found, found.argmax(axis=1) if block.targets is None else np.asarray(block.targets, np.int64)


def with_targets(block: Block, scores: Callable[[Any], np.ndarray]) -> Block:
    """Return a block with its targets set: its own, or else the classes that the network predicts for its inputs.

    Maps of one input are compared across networks, noise and controls. All of them must explain the same class, so it
    is fixed before the first map is made; otherwise a random network would explain the class that it predicts itself.
    """
    return block if block.targets is not None else dataclasses.replace(block, targets=originals(block, scores)[1])


def changed_scores(block: Block, scores: Scores, changes: Iterable[tuple[int, np.ndarray]]) -> Iterator[np.ndarray]:
    """Yield the scores of changed inputs one by one, (classes,) float64.

    Parameters
    ----------
    block
        The inputs.
    scores
        The network.
    changes
        (row, its picture after a change), as many as there are; they are put together until a request is large enough,
        so that as many rows go through the network as there are changes, in full passes but for the last.
    """
    rows, pictures = [], []
    most = max(BYTES // max(block.pictures[:1].nbytes, 1), 1)
    for row, picture in changes:
        rows.append(row)
        pictures.append(picture)
        if len(rows) == most:
            yield from _asked(block, scores, rows, pictures)
            rows, pictures = [], []
    if rows:
        yield from _asked(block, scores, rows, pictures)


def _asked(block: Block, scores: Scores, rows: list[int], pictures: list[np.ndarray]) -> np.ndarray:
    changed = np.stack(pictures).astype(block.pictures.dtype)
    return np.asarray(scores(block.take(rows).with_pictures(changed)), np.float64)


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Return scores as probabilities, (..., classes): as they are where they are some already, softmax otherwise.

    A single score a row has no other to be compared with and stays.
    """
    from scipy.special import softmax

    if scores.shape[-1] < 2 or ((scores >= 0).all() and np.allclose(scores.sum(axis=-1), 1, atol=1e-3)):
        return scores
    return softmax(scores, axis=-1)
