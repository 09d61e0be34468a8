"""A small vision transformer (Dosovitskiy et al. 2021) for BIM's pictures, with a stem of convolutions.

A plain patch embedding does not learn in the few minutes that a network of these sets takes; four convolutions do
(Xiao et al. 2021, "Early convolutions help transformers see better"). A token stands for 16 x 16 pixels and sees 31 x 31.
"""

from __future__ import annotations

import keras
from keras import layers


class Positions(layers.Layer):
    """Adds a learned vector to each token."""

    def build(self, shape):
        """Make the vectors, (1, tokens, width)."""
        start = keras.initializers.RandomNormal(stddev=0.02)
        self.table = self.add_weight(shape=(1, *shape[1:]), initializer=start, name="table")

    def call(self, tokens):
        """Return the tokens, which know where they are."""
        return tokens + self.table


def encoder(x, heads: int, name: str):
    """Return tokens, (N, tokens, width), after a block of attention and a perceptron, each behind a normalization."""
    width = x.shape[-1]
    y = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_norm1")(x)
    y = layers.MultiHeadAttention(heads, width // heads, name=f"{name}_attention")(y, y)
    x = layers.Add(name=f"{name}_attended")([x, y])
    y = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_norm2")(x)
    y = layers.Dense(4 * width, activation="gelu", name=f"{name}_dense1")(y)
    y = layers.Dense(width, name=f"{name}_dense2")(y)
    return layers.Add(name=name)([x, y])


def tokens(features, heads: int, blocks: int):
    """Return the mean token, (N, width), after some blocks on feature maps, (N, rows, columns, width)."""
    x = layers.Reshape((-1, features.shape[-1]), name="tokens")(features)
    x = Positions(name="positions")(x)
    for block in range(1, blocks + 1):
        x = encoder(x, heads, f"block{block}")
    x = layers.LayerNormalization(epsilon=1e-6, name="last_norm")(x)
    return layers.GlobalAveragePooling1D(name="pool")(x)
