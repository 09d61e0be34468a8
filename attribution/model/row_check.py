"""Try a model on random inputs when it is loaded: rows must not depend on each other.

A file that was exported in training mode normalizes each row by the others of its batch. Its maps would depend on which
inputs happen to be explained together, and nothing else would show it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput
from attribution.model.model import Model
from attribution.savedmodel.inputs import random_feed

_ROWS = 4
_LARGE = 100
_SAMPLES = 20_000  # of a signal that may be longer than a window of its network
# Rows of the same pass give the same scores but for rounding; passes of other sizes may use other kernels.
_SAME_PASS, _OTHER_PASS = 1e-4, 1e-2


def check_rows(model: Model, forward: Callable[..., Any]) -> None:
    """Try different rows: together, in other places among other rows, and alone.

    Their values are those that users have: random ones, zeros, as of a baseline, almost zeros, and large ones.

    Parameters
    ----------
    model
        Of any score.
    forward
        From its inputs to its scores.

    Raises
    ------
    BadInput
        If the model gives another number of rows of scores than it is given, or the scores of a row depend on other
        rows or on its place.
    """
    feed, together = _computed(model, forward)
    if together is None:
        return
    rows = max((len(array) for array in feed.values() if array.ndim), default=len(together))
    if len(together) != rows:
        raise BadInput(
            f"the model gives {len(together)} rows of scores for {rows} inputs, so that the first axis of its inputs "
            "is not a batch axis; export a function of a batch that gives one row for each input, such as "
            "lambda x: tf.map_fn(network, x)"
        )
    if rows < 2:
        return
    order = np.roll(np.arange(rows)[::-1], 1)  # each row in another place, and among other rows
    for kept, zeros in ((order[: rows // 2], False), (order[rows // 2 :][::-1], True)):
        _compare(together[kept], _scores(forward, _among_others(feed, kept, zeros)), _SAME_PASS)
    if model.batch_size(1) == 1:
        alone = {name: array[:1] if array.ndim else array for name, array in feed.items()}
        _compare(together[:1], _scores(forward, alone), _OTHER_PASS)


def _computed(model: Model, forward: Callable[..., Any]) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Return random inputs and their scores: of a few rows, or of a long signal where the only input is one."""
    feed = random_feed(model, _ROWS)
    # A loop may have no end for numbers that its network is not made for.
    loops = any(node.op in ("While", "StatelessWhile") for node in model.graph.nodes.values())
    tried = feed if loops else _with_values_of_users(feed)
    if (together := _scores(forward, tried)) is not None:
        return tried, together
    together = _scores(forward, feed)
    if together is None and [array.ndim for array in feed.values()] == [1]:
        feed = random_feed(model, _SAMPLES)
        together = _scores(forward, feed)
    return feed, together


def _with_values_of_users(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a feed whose rows are, in turn, as they are, zeros, almost zeros, and large numbers of both signs."""
    changed = {}
    for name, array in feed.items():
        if array.ndim and array.dtype.kind not in "biuO":
            array = array.copy()
            array[1::4] = 0
            array[2::4] *= 1e-6
            array[3::4] = _LARGE * np.random.default_rng(2).normal(size=array[3::4].shape)
        changed[name] = array
    return changed


def _compare(scores: np.ndarray, others: np.ndarray | None, tolerance: float) -> None:
    """Raise ``BadInput`` where the first of other scores, if there are any, differ: their inputs are the same."""
    if others is None:
        return
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.abs(scores - others[: len(scores)]).max(axis=1)
        if (differences > tolerance * np.abs(scores).max(axis=1)).any():
            raise BadInput(
                "the scores of an input depend on the other inputs of its batch, so that no map explains one of them; "
                "export the model for inference, with batch normalization off training mode and no operation over "
                "the batch"
            )


def _scores(forward: Callable[..., Any], feed: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the scores of a feed; ``None`` where the model cannot be computed on it."""
    try:
        return np.asarray(forward(*feed.values()))
    except (BadInput, tf.errors.OpError, TypeError, ValueError):
        return None


def _among_others(feed: Mapping[str, np.ndarray], kept: np.ndarray, zeros: bool) -> dict[str, np.ndarray]:
    """Return a feed of the rows kept, in their order, with other values, or zeros, in all further rows."""
    generator = np.random.default_rng(1)
    changed = {}
    for name, array in feed.items():
        if array.ndim:
            others = array[len(kept) :].copy()
            if array.dtype.kind in "biu":
                others[:] = array.dtype.kind != "b"  # the smallest identifiers exist in every vocabulary
            elif array.dtype.kind != "O":
                others[:] = 0 if zeros else generator.random(others.shape)
            array = np.concatenate([array[kept], others])
        changed[name] = array
    return changed
