"""A larger Relation Network that computes what a smaller one does."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers

from clevr_xai import relation_network


def grown(network: keras.Model, widths=relation_network.WIDTHS, dropout: float = 0.5) -> keras.Model:
    """Return a network with wider, and perhaps more, layers in g that computes the same.

    New units take from the old ones and from each other as in a fresh network, and give nothing to the old ones;
    new layers pass the old units on, which is exact behind a ReLU.

    Parameters
    ----------
    network
        The smaller network.
    widths
        Of the layers of g; none narrower, and not fewer.
    dropout
        Of the new network.
    """
    old = network.get_layer("relations")
    if len(widths) < len(old.widths) or min(np.subtract(widths[: len(old.widths)], old.widths)) < 0:
        raise ValueError(f"g of widths {old.widths} cannot grow to {tuple(widths)}")
    f_widths = [layer.units for layer in network.get_layer("f").layers if isinstance(layer, layers.Dense)]
    channels = network.get_layer("convolutions").layers[0].filters
    size = network.inputs[0].shape[1]
    large = relation_network.build(widths, f_widths[:-1], channels, size, old.pair_scale, dropout)
    for name in ("convolutions", "question_encoder"):
        large.get_layer(name).set_weights(network.get_layer(name).get_weights())
    new = large.get_layer("relations")
    for mine, theirs in zip(new.parts, old.parts, strict=True):
        mine.set_weights([_enlarged(*pair) for pair in zip(mine.get_weights(), theirs.get_weights(), strict=True)])
    width = old.widths[0]
    for number, layer in enumerate(new.deeper):
        kernel, bias = layer.get_weights()
        if number < len(old.deeper):
            small_kernel, small_bias = old.deeper[number].get_weights()
        else:
            small_kernel, small_bias = np.eye(width, dtype=np.float32), np.zeros(width, np.float32)
        kernel[:, : small_kernel.shape[1]] = 0
        layer.set_weights([_enlarged(kernel, small_kernel), _enlarged(bias, small_bias)])
        width = small_kernel.shape[1]
    weights = large.get_layer("f").get_weights()
    small = network.get_layer("f").get_weights()
    weights[0][:] = 0
    large.get_layer("f").set_weights([_enlarged(*pair) for pair in zip(weights, small, strict=True)])
    return large


def _enlarged(large: np.ndarray, small: np.ndarray) -> np.ndarray:
    """Return the large array with the small one in its first corner."""
    large = large.copy()
    large[tuple(slice(size) for size in small.shape)] = small
    return large
