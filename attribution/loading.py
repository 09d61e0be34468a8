"""Load the model to explain: a SavedModel, or a model of Keras, live or in a file, which is exported to one first."""

from __future__ import annotations

import collections
import copy
import functools
import os
import pathlib
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.batching import random_feed
from attribution.errors import BadInput, described, listed
from attribution.methods import third_party
from attribution.savedmodel import keras_files
from attribution.savedmodel.op_allowlist import trusted
from attribution.savedmodel.paths import content_of_array, find_saved_model, is_keras_file

if TYPE_CHECKING:  # they import TensorFlow
    import keras

    from attribution.model.model import Model

_ROWS = 4
_LARGE = 100
_SAMPLES = 20_000  # of a signal that may be longer than a window of its network
# Rows of the same pass give the same scores but for rounding; passes of other sizes may use other kernels.
_SAME_PASS, _OTHER_PASS = 1e-4, 1e-2


def load_model(
    model: str | os.PathLike[str] | keras.Model,
    *,
    score: str | None = None,
    signature: str | None = None,
    inputs: Any = None,
    output: str | None = None,
    position: Sequence[int] | None = None,
    explain_input: str | None = None,
    given: Mapping[str, Any] | None = None,
    trust: bool = False,
    loaded: Any = None,
) -> Model:
    """Load a SavedModel or a Keras model to be explained.

    Parameters
    ----------
    model
        Directory of the SavedModel, or its parent with numbered versions; a ``.keras`` or ``.h5`` file, which is
        converted in the cache without running code of the file; or a built ``keras.Model``, which is exported to a
        temporary directory. Its maps are those of the exported file. Later changes of its weights have no effect.
        Methods that need the live network (``queries.keras_model``) have it of a live model, of a file of Keras 3 and
        of the SavedModels of this project.
    score
        Scores to explain: ``"logits"``, ``"probabilities"``, or ``"output"``, the file's output as it is. A softmax,
        sigmoid or log-softmax at the end (behind moves of axes, reshapes included) gives logits and probabilities. An
        affine end is logits. Any other end is the output, which is also taken for wanted logits; probabilities are
        refused. By default the logits, else the output.
    signature, inputs, output
        See ``attribution.savedmodel.freeze.freeze``; needed only where the file has several.
    position
        For an output with axes between batch and classes, such as a segmentation map ``(N, H, W, classes)``: the
        position whose scores are explained, as ``(row, column)``; ``Model.at`` gives other ones. The last axis must be
        that of the classes; a softmax over another one is refused, and a sigmoid or logits do not show it.
    explain_input
        The default input to explain; see ``attribution.explain``.
    given
        Values of inputs that are the same in every call, by name, such as ``{"training": False}``. The model no longer
        has these inputs, and not the branches of the network that they rule out.
    trust
        Load a file even if it uses operations that can do more than compute (``attribution.savedmodel.op_allowlist``).
    loaded
        What ``attribution.savedmodel.file.SavedFile.load`` returned for this path, if the caller has it. Its variables
        may have been assigned since; their present values are used.

    Raises
    ------
    BadInput
        If the model cannot be loaded, the signature or the score does not exist, the output is not of floating point,
        or the scores of a row depend on other rows; the message says why.
    """
    temporary, called = None, model
    if is_path := isinstance(model, (str, os.PathLike)):
        directory = find_saved_model(model)  # an invalid path is reported before TensorFlow is imported
    else:
        keras_files.check_live(model)
        temporary = tempfile.TemporaryDirectory(prefix="attribution_")
        directory, called = pathlib.Path(temporary.name), model.name
        keras_files.export(model, directory, f"'{model.name}'")
    from attribution.model.compiled import CompiledGraph
    from attribution.model.model import Model
    from attribution.savedmodel.file import Source
    from attribution.savedmodel.freeze import freeze
    from attribution.savedmodel.scores import SCORES

    if score not in (None, *SCORES):
        raise BadInput(f"no score '{score}'; the scores are {listed(SCORES)}")
    with trusted(trust or not is_path):  # what was exported here is no stranger's file
        source = Source(directory, temporary)
        frozen = freeze(directory, signature, inputs, output, loaded, given, position, called)
    score = frozen.score(score)
    values = {name: content_of_array(value) for name, value in (given or {}).items()}
    options = {
        "score": score, "signature": signature, "inputs": inputs, "output": output, "position": position,
        "explain_input": explain_input, "given": values or None,
    }  # fmt: skip
    written = {name: str(value) for name, value in options.items() if value is not None}
    compiled = CompiledGraph(frozen, score)
    found = Model(compiled, source, collections.Counter(), written, explain_input or None)
    if loaded is None and not compiled.keeps_rows_apart:  # for most networks the operations show it
        _check_rows(found, compiled.forward())
    if explain_input:  # a wrong name is reported now
        found.together() or found.at()
    if temporary or is_keras_file(model):
        third_party.offer(found, functools.partial(_live_network, given=model, directory=directory))
    else:
        source.live_network = third_party.bundled
    return found


def _check_rows(model: Model, forward: Callable[..., Any]) -> None:
    """Try a model on random inputs: different rows together, in other places among other rows, and alone.

    A file that was exported in training mode normalizes each row by the others of its batch. Its maps would depend on
    which inputs happen to be explained together, and nothing else would show it.

    Their values are those that users have: random ones, zeros, as of a baseline, almost zeros, and large ones. Another
    number of rows of scores than of inputs is refused, and so are scores that depend on other rows or on the place.

    It takes 13 rows: three passes of four, of which the first has the four kinds of values and each other one keeps two
    of them, and one row. With fewer, a kind would not be compared with itself in a pass of the same size, where
    rounding is small; in smaller passes, rows that meet in groups of four could not be computed and would pass.
    """
    feed, together = _computed(model, forward)
    if together is None:
        if parts := [name for name in model.inputs if re.sub(r"_\d+$", "", name) in model.inputs.keys() - {name}]:
            raise BadInput(
                f"the model cannot be computed where its inputs {listed(model.inputs)} have the same number of rows: "
                f"'{parts[0]}' seems to be a part of a ragged or sparse tensor; export a signature that takes a dense "
                "(padded) tensor"
            )
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
    import tensorflow as tf

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


def _live_network(model: Model, given: Any, directory: pathlib.Path) -> keras.Model:
    """Return the live network, which or whose Keras file was given, with the weights of a model of the same graph.

    ``directory`` is the SavedModel with the weights of what was given.
    """
    is_same = model.path == directory
    if isinstance(given, (str, os.PathLike)):
        network = keras_files.read_file(given)
        return network if is_same else third_party.with_weights(network, model)
    if is_same:
        return _with_inputs(given, model)
    import keras

    classes = {type(layer).__name__: type(layer) for layer in given._flatten_layers(include_self=True)}
    try:
        with keras.saving.custom_object_scope(classes):
            copied = copy.deepcopy(given)  # the caller's network keeps its weights
    except Exception as error:  # whatever a layer of the caller raises
        raise BadInput(f"'{given.name}' cannot be copied to have other weights: {described(error)}") from error
    return third_party.with_weights(_with_inputs(copied, model), model)


def _with_inputs(network: keras.Model, model: Model) -> keras.Model:
    """Return a network whose inputs are known, which those of a subclassed model are not."""
    import keras

    if hasattr(network, "inputs") or len(model.inputs) > 1:
        return network
    (spec,) = model.inputs.values()
    inputs = keras.Input(batch_shape=spec.shape, dtype=spec.dtype.name)
    return keras.Model(inputs, network(inputs, training=False))
