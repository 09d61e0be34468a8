"""Try a model on random inputs when it is loaded: rows must not depend on each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput

if TYPE_CHECKING:
    from attribution.model.compiled import CompiledGraph
    from attribution.model.model import Model

ANY_SIZE = 64  # of an axis whose size the file leaves open
_SAMPLES = 20_000  # of a signal that may be longer than a window of its network
# Rows of the same pass give the same scores but for rounding; passes of other sizes may use other kernels.
_SAME_PASS, _OTHER_PASS = 1e-4, 1e-2


def check_rows(model: Model) -> np.ndarray:
    """Try two different rows, together and alone.

    Parameters
    ----------
    model
        Of any score.

    Returns
    -------
    np.ndarray
        ``(N, classes)``: scores of random rows, also of inputs 100 times larger; none where the model cannot be
        computed on random inputs.

    Raises
    ------
    BadInput
        If the model gives another number of rows of scores than it is given, or the scores of a row depend on other
        rows.
    """
    compiled = model._compiled
    if model._jit_compile:  # XLA would compile for these sizes alone
        compiled = model._compiled_as(jit_compile=False, position=model._position)
    rows = model.batch_size(2)
    feeds = [_feed(model, rows, changed) for changed in (False, True)]
    outputs = [_scores(compiled, feed) for feed in feeds]
    if outputs[0] is None and len(feeds[0]) == 1 and next(iter(feeds[0].values())).ndim == 1:
        rows = model.batch_size(_SAMPLES)
        outputs = [_scores(compiled, _feed(model, rows, False))] * 2
    together, changed = outputs
    if together is None:
        return np.empty((0, model.num_classes), np.float32)
    if len(together) != rows:
        raise BadInput(
            f"the model gives {len(together)} rows of scores for {rows} inputs, so that the first axis of its inputs "
            "is no batch; export a function of several inputs that gives one row for each, such as "
            "lambda x: tf.map_fn(network, x)"
        )
    found = [together]
    if changed is not None and rows > 1:
        found.append(changed)
        _compare(together, changed, _SAME_PASS)
    if model._fixed_batch() is None and rows == 2:
        alone = _scores(compiled, {name: array[:1] if array.ndim else array for name, array in feeds[0].items()})
        if alone is not None:
            _compare(together, alone, _OTHER_PASS)
    return np.concatenate(found)


def _compare(scores: np.ndarray, others: np.ndarray, tolerance: float) -> None:
    """Raise ``BadInput`` where the first row differs: its input is the same."""
    first, other = scores[0], others[0]
    with np.errstate(invalid="ignore", over="ignore"):
        if len(others) and np.abs(first - other).max() > tolerance * np.abs(first).max():
            raise BadInput(
                "the scores of an input depend on the other inputs of its batch, so that no map explains one of them; "
                "export the model for inference, with batch normalization off training mode and no operation over "
                "the batch"
            )


def _scores(compiled: CompiledGraph, feed: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the scores of a feed; ``None`` where the model cannot be computed on it."""
    try:
        return np.asarray(compiled.forward()(*feed.values()))
    except (BadInput, tf.errors.OpError, TypeError, ValueError):
        return None


def _feed(model: Model, rows: int, changed: bool) -> dict[str, np.ndarray]:
    """Return random inputs; changed, all but the first row have other values, of floating point 100 times larger."""
    generator = np.random.default_rng(0)
    feed = {}
    for name, spec in model.inputs.items():
        shape = tuple(size or ANY_SIZE for size in (spec.shape.as_list()[1:] if spec.shape.rank else ()))
        shape = (rows, *shape) if spec.shape.rank else ()
        dtype = spec.dtype.as_numpy_dtype
        if spec.dtype.is_floating:
            array = generator.random(shape, dtype=np.float32)
            others = 100 * generator.normal(size=shape)
        else:  # the smallest identifiers exist in every vocabulary
            array = np.full(shape, b"", object) if dtype is object else np.zeros(shape, dtype)
            others = array if dtype is object else np.ones(shape, dtype)
        if array.ndim and changed:
            array[1:] = others[1:]
        feed[name] = array.astype(dtype)
    return feed
