"""A training that goes on from an exported network instead of from random weights."""

from __future__ import annotations

import pathlib

import keras
import numpy as np

from attribution.errors import BadInput
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
    from attribution.model import saved_model

    network = relation_network.build(pair_scale=PAIR_SCALE, dropout=0.0)
    try:
        loaded = saved_model.load(pathlib.Path(directory) / "1")
        values = {
            variable_name(variable.name.split(":")[0]): variable.numpy()
            for variable in loaded.signatures["serving_default"].variables
        }
        network.set_weights([values[variable_name(weight.path)] for weight in network.weights])
    except (BadInput, KeyError, ValueError) as error:
        reason = f": {error}" if isinstance(error, BadInput) else ""
        raise BadInput(
            f"{str(directory)!r} holds no network that scripts/train_relation_network.py exported{reason}"
        ) from None
    first = network.get_layer("f").layers[0]
    first.kernel.assign(first.kernel / PAIR_SCALE)
    return network


def told(network: keras.Model, tokens: np.ndarray, batch_size: int = 1024) -> np.ndarray:
    """Return what the first layer of g gets from questions, (N, 256) float64, given their tokens, (N, L) int32."""
    kernel, bias = network.get_layer("relations").parts[2].get_weights()
    return _codes(network, tokens, batch_size) @ kernel + bias


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
    kernel, bias, share = _fitted(_codes(network, tokens, batch_size), wanted)
    network.get_layer("relations").parts[2].set_weights([kernel, bias])
    return share


def shown(network: keras.Model, images: np.ndarray, batch_size: int = 100) -> np.ndarray:
    """Return what the first layer of g gets from each cell as a pair's first and as its second.

    ``images`` are (N, 128, 128, 3) uint8, the result is (N x 49, 512) float64.
    """
    first, second, _ = network.get_layer("relations").parts
    kernels = np.concatenate([part.get_weights()[0] for part in (first, second)], axis=1)
    return _cells(network, images, batch_size) @ kernels


def show_again(network: keras.Model, images: np.ndarray, wanted: np.ndarray, batch_size: int = 100) -> float:
    """Fit the first layer of g to convolutions that have learnt on: ``retell`` for what images show.

    Both kernels of cells are replaced; what they lack a constant for goes to the question's bias.

    Parameters
    ----------
    network
    images : (N, 128, 128, 3) uint8
        Some hundreds.
    wanted : (N x 49, 512)
        What ``shown`` gave before.
    batch_size
        Of the convolutions.

    Returns
    -------
    float
        Share of the variance of ``wanted`` that the layer gets again.
    """
    kernel, constant, share = _fitted(_cells(network, images, batch_size), wanted)
    first, second, question = network.get_layer("relations").parts
    for part, columns in zip((first, second), np.split(kernel, 2, axis=1), strict=True):
        part.set_weights([columns])
    of_question, bias = question.get_weights()
    question.set_weights([of_question, bias + sum(np.split(constant, 2))])
    return share


def _codes(network, tokens, batch_size) -> np.ndarray:
    """Return the encoder's codes, (N, 128) float64."""
    encoder = network.get_layer("question_encoder")
    return encoder.predict(tokens, batch_size=batch_size, verbose=0).astype(np.float64)


def _cells(network, images, batch_size) -> np.ndarray:
    """Return the features of each cell with its place, (N x 49, 26) float64."""
    found = []
    for start in range(0, len(images), batch_size):
        features = network.get_layer("convolutions")(images[start : start + batch_size].astype(np.float32) / 255)
        found.append(keras.ops.convert_to_numpy(network.get_layer("coordinates")(features)))
    return np.concatenate(found).reshape(-1, found[0].shape[-1]).astype(np.float64)


def _fitted(values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return kernel, constant and share of the variance of the least squares from ``values`` to ``wanted``."""
    inputs = np.concatenate([values, np.ones((len(values), 1))], axis=1)
    fitted = np.linalg.lstsq(inputs, wanted, rcond=None)[0]
    left = np.square(wanted - inputs @ fitted).sum()
    return fitted[:-1], fitted[-1], 1 - float(left / np.square(wanted - wanted.mean(axis=0)).sum())
