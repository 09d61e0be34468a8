"""A training that goes on from an exported network instead of from random weights."""

from __future__ import annotations

import pathlib

import keras

from attribution_benchmarks.command_line import BadInput
from clevr_xai import relation_network
from clevr_xai.live_network import variable_name
from clevr_xai.training.learner import PAIR_SCALE


def unfolded(directory: str | pathlib.Path) -> keras.Model:
    """Return the network of a SavedModel in the form in which it is trained: ``relation_network.folded``'s inverse.

    Parameters
    ----------
    directory
        Base path with a version 1, as ``relation_network.export`` writes it.

    Raises
    ------
    BadInput
        For what is no Relation Network of the paper's size.
    """
    import tensorflow as tf

    network = relation_network.build(pair_scale=PAIR_SCALE, dropout=0.0)
    try:
        loaded = tf.saved_model.load(str(pathlib.Path(directory) / "1"))
        values = {
            variable_name(variable.name.split(":")[0]): variable.numpy()
            for variable in loaded.signatures["serving_default"].variables
        }
        network.set_weights([values[variable_name(weight.path)] for weight in network.weights])
    except (OSError, KeyError, ValueError, tf.errors.OpError):
        raise BadInput(f"{str(directory)!r} holds no network that scripts/train_relation_network.py exported") from None
    first = network.get_layer("f").layers[0]
    first.kernel.assign(first.kernel / PAIR_SCALE)
    return network
