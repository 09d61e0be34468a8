"""A network with the weights of a trained one in random places: the same architecture, and nothing learnt."""

from __future__ import annotations

import pathlib
import tempfile

from attribution import batching, load_model
from attribution_benchmarks.command_line import BadInput


def with_shuffled_weights(path: str | pathlib.Path, seed: int):
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

    Returns
    -------
    attribution.model.Model
        Loaded to explain logits.

    Raises
    ------
    BadInput
        If the SavedModel has no variables to shuffle.
    """
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path), tags=["serve"])
    functions = loaded.signatures.values()
    variables = {id(one.handle): one for function in functions for one in function.variables if one.dtype.is_floating}
    if not variables:
        raise BadInput(f"{path} has no variables that could be shuffled; leave random_weights out of --controls")
    for number, variable in enumerate(variables.values()):
        values = variable.numpy()
        generator = batching.generator(seed, number, "random weights")
        variable.assign(generator.permutation(values.reshape(-1)).reshape(values.shape))
    with tempfile.TemporaryDirectory() as directory:
        tf.saved_model.save(loaded, directory, signatures=loaded.signatures)
        return load_model(directory, score="logits")
