"""Recurrent networks."""

from __future__ import annotations

import keras

from tools.model_zoo.family import Exported, Family, pictures, tokens
from tools.model_zoo.random_weights import settle

layers = keras.layers


def on_signals(make):
    """Return the builder of a network of recurrent layers on signals of 12 steps."""

    def build():
        inputs = keras.Input((12, 3))
        return keras.Model(inputs, layers.Dense(5)(make(inputs)))

    return build


def on_tokens():
    """An LSTM on tokens with an embedding."""
    inputs = keras.Input((12,), dtype="int32", name="tokens")
    return keras.Model(inputs, layers.Dense(5)(layers.LSTM(6)(layers.Embedding(20, 4)(inputs))))


def _family(name, about, build, inputs=None, inner=None, **options):
    inputs = inputs or pictures(12, 3)
    return Family(name, about, Exported(build, settle, inputs, inner), inputs, inner=bool(inner), **options)


FAMILIES = (
    _family("lstm", "LSTM", on_signals(lambda x: layers.LSTM(6)(x))),
    _family("gru", "GRU", on_signals(lambda x: layers.GRU(6)(x))),
    _family("lstm_unrolled", "LSTM, unrolled", on_signals(lambda x: layers.LSTM(6, unroll=True)(x))),
    _family("bidirectional", "two LSTM layers, both ways", on_signals(
        lambda x: layers.LSTM(5)(layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x))
    )),
    _family("token_lstm", "LSTM on tokens (explained: their embedding)", on_tokens, tokens(12, 20), inner="embedding"),
)  # fmt: skip
