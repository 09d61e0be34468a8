"""Try a model on random inputs when it is loaded: rows must not depend on each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from attribution.errors import BadInput

if TYPE_CHECKING:
    import tensorflow as tf

    from attribution.model.compiled import CompiledGraph
    from attribution.model.protocols import ScoredModel

ANY_SIZE = 64  # of an axis whose size the file leaves open
_ROWS = 4
_LARGE = 100
_SAMPLES = 20_000  # of a signal that may be longer than a window of its network
# Rows of the same pass give the same scores but for rounding; passes of other sizes may use other kernels.
_SAME_PASS, _OTHER_PASS = 1e-4, 1e-2


def random_feed(model: ScoredModel, rows: int = 1, any_size: int = ANY_SIZE) -> dict[str, np.ndarray]:
    """Return ``random_arrays`` of a model's inputs by name; ``rows`` is their number where the file leaves it open."""
    arrays = random_arrays(model.inputs.values(), model.batch_size(rows), any_size)
    return dict(zip(model.inputs, arrays, strict=True))


def random_arrays(specs: Iterable[tf.TensorSpec], rows: int, any_size: int) -> list[np.ndarray]:
    """Return random arrays: numbers in [0, 1] of floating point, True for truth values, else zeros.

    A single truth value, such as ``training``, is False.

    Parameters
    ----------
    specs
        Shapes and types.
    rows, any_size
        Sizes of the first axis and of the others, where a shape leaves them open.
    """
    generator = np.random.default_rng(0)
    arrays = []
    for spec in specs:
        sizes = spec.shape.as_list() if spec.shape.rank else []
        shape = tuple(size or (any_size if axis else rows) for axis, size in enumerate(sizes))
        dtype = spec.dtype.as_numpy_dtype
        if spec.dtype.is_floating:
            arrays.append(generator.random(shape, dtype=np.float32).astype(dtype))
        else:
            value = b"" if dtype is object else spec.dtype.is_bool and shape != ()
            arrays.append(np.full(shape, value, dtype))
    return arrays


def check_rows(model: ScoredModel, compiled: CompiledGraph) -> None:
    """Try different rows: together, in other places among other rows, and alone.

    Their values are those that users have: random ones, zeros, as of a baseline, almost zeros, and large ones.

    Parameters
    ----------
    model
        Of any score.
    compiled
        Its functions, not compiled by XLA, which would compile them for these sizes alone.

    Raises
    ------
    BadInput
        If the model gives another number of rows of scores than it is given, or the scores of a row depend on other
        rows or on its place.
    """
    feed, together = _computed(model, compiled)
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
        _compare(together[kept], _scores(compiled, _among_others(feed, kept, zeros)), _SAME_PASS)
    if model.batch_size(1) == 1:
        alone = {name: array[:1] if array.ndim else array for name, array in feed.items()}
        _compare(together[:1], _scores(compiled, alone), _OTHER_PASS)


def _computed(model: ScoredModel, compiled: CompiledGraph) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Return random inputs and their scores: of a few rows, or of a long signal where the only input is one."""
    feed = random_feed(model, _ROWS)
    # A loop may have no end for numbers that its network is not made for.
    loops = any(node.op in ("While", "StatelessWhile") for node in model.graph.nodes.values())
    tried = feed if loops else _with_values_of_users(feed)
    if (together := _scores(compiled, tried)) is not None:
        return tried, together
    together = _scores(compiled, feed)
    if together is None and [array.ndim for array in feed.values()] == [1]:
        feed = random_feed(model, _SAMPLES)
        together = _scores(compiled, feed)
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


def _scores(compiled: CompiledGraph, feed: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the scores of a feed; ``None`` where the model cannot be computed on it."""
    import tensorflow as tf  # here, because inspect makes its inputs with this module and shows its help without it

    try:
        return np.asarray(compiled.forward()(*feed.values()))
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
