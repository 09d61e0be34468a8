"""A network with the weights of a trained one in random places: the same architecture, and nothing learnt.

What a map owes to the architecture alone shows there (Adebayo et al., "Sanity Checks for Saliency Maps", NeurIPS 2018).
"""

from __future__ import annotations

import functools
import pathlib
import tempfile
from typing import Any

from attribution import batching, load_model
from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.scoring.block import Block
from attribution_benchmarks.scoring.controls import Control


def with_shuffled_weights(path: str | pathlib.Path, seed: int, score: str = "logits") -> Any:
    """Return a model whose variables hold a SavedModel's values, each variable's in random order.

    This works for every SavedModel of TensorFlow 2, whatever wrote it, where building an untrained network would need
    its code. Shuffling keeps each variable's distribution, so that variances stay positive and activations in
    range, as drawing from a normal distribution of the same width would not; constants of the architecture, such as
    coordinates, are no variables and stay.

    Parameters
    ----------
    path
        Directory with ``saved_model.pb``.
    seed
        Of the order; each variable has its own by its place in the file.
    score
        "logits" or "probabilities", what is explained of it.

    Returns
    -------
    attribution.model.Model

    Raises
    ------
    BadInput
        If there is no such directory, as for a network behind a server, or no variables to shuffle.
    """
    import tensorflow as tf

    if not pathlib.Path(path).is_dir():
        raise BadInput(f"{path} is no SavedModel on disk; leave random_weights out of --controls")
    loaded = tf.saved_model.load(str(path), tags=["serve"])
    functions = loaded.signatures.values()
    variables = {id(one.handle): one for function in functions for one in function.variables if one.dtype.is_floating}
    if not variables:
        raise BadInput(f"{path} has no variables that could be shuffled; leave random_weights out of --controls")
    for number, variable in enumerate(variables.values()):
        values = variable.numpy()
        generator = batching.generator(seed, number, "random weights")
        variable.assign(generator.permutation(values.reshape(-1)).reshape(values.shape))
    directory = tempfile.TemporaryDirectory()
    tf.saved_model.save(loaded, directory.name, signatures=loaded.signatures)
    model = load_model(directory.name, score=score)
    vars(model)["directory"] = (
        directory  # goes with the model: a live network is read from there when a method asks for it
    )
    return model


def other_weights(model: Any, block: Block, seed: int) -> tuple[object, Block]:
    """Ask the model's architecture with shuffled weights instead; it is made once for a model and a seed."""
    return _shuffled(model, seed), block


@functools.lru_cache(maxsize=2)  # a benchmark asks one network at a time, or a pair
def _shuffled(model, seed: int):
    shuffled = with_shuffled_weights(model.path, seed, model.score)
    shuffled.live_source = model.live_source
    return shuffled


RANDOM_WEIGHTS = Control(
    "random_weights", "random net", "the method's map on a network whose weights are random", disturb=other_weights
)
