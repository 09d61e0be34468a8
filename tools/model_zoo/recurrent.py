"""Recurrent networks."""

from __future__ import annotations

import keras

from tools.model_zoo.family import keras_family, pictures, tokens

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


_SIGNALS = pictures(12, 3)
FAMILIES = (
    keras_family("lstm", "LSTM", on_signals(lambda x: layers.LSTM(6)(x)), _SIGNALS),
    keras_family("gru", "GRU", on_signals(lambda x: layers.GRU(6)(x)), _SIGNALS),
    keras_family("lstm_unrolled", "LSTM, unrolled", on_signals(lambda x: layers.LSTM(6, unroll=True)(x)), _SIGNALS),
    keras_family(
        "bidirectional",
        "two LSTM layers, both ways",
        on_signals(lambda x: layers.LSTM(5)(layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x))),
        _SIGNALS,
    ),
    keras_family(
        "token_lstm", "LSTM on tokens (explained: their embedding)", on_tokens, tokens(12, 20), inner="embedding"
    ),
)
