"""A training that goes on from an exported network instead of from random weights."""

from __future__ import annotations

import pathlib

import keras
import numpy as np

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


def told(network: keras.Model, tokens: np.ndarray, batch_size: int = 1024) -> np.ndarray:
    """Return what the first layer of g gets from questions, (N, 256) float64, given their tokens, (N, L) int32."""
    code = network.get_layer("question_encoder").predict(tokens, batch_size=batch_size, verbose=0)
    kernel, bias = network.get_layer("relations").parts[2].get_weights()
    return code.astype(np.float64) @ kernel + bias


def retell(network: keras.Model, tokens: np.ndarray, wanted: np.ndarray, batch_size: int = 1024) -> float:
    """Fit the first layer of g to an encoder that has learnt on, so that it gets from questions what it got before.

    Parameters
    ----------
    network
        Its kernel and bias of the question are replaced by those of the least squares.
    tokens : (N, L) int32
        Questions, some thousands.
    wanted : (N, 256)
        What ``told`` gave before.
    batch_size
        Of the encoder.

    Returns
    -------
    float
        Share of the variance of ``wanted`` that the layer gets again.
    """
    code = network.get_layer("question_encoder").predict(tokens, batch_size=batch_size, verbose=0)
    inputs = np.concatenate([code.astype(np.float64), np.ones((len(code), 1))], axis=1)
    fitted = np.linalg.lstsq(inputs, wanted, rcond=None)[0]
    network.get_layer("relations").parts[2].set_weights([fitted[:-1], fitted[-1]])
    left = np.square(wanted - inputs @ fitted).sum()
    return 1 - float(left / np.square(wanted - wanted.mean(axis=0)).sum())
