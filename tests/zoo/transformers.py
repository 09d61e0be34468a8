"""Transformers and mixers in blocks of our own, and recurrent networks."""

from __future__ import annotations

import functools

import keras
from keras import ops

from zoo.family import keras_family, pictures, tokens

layers = keras.layers
_IMAGE = (16, 16, 3)
_WIDTH = 12


class ClassToken(layers.Layer):
    """Puts a learned token before all others."""

    def build(self, shape):
        """Make the token."""
        self.token = self.add_weight(shape=(1, 1, shape[-1]), initializer="random_normal", name="embeddings")

    def call(self, x):
        """Return one token more."""
        return ops.concatenate([ops.broadcast_to(self.token, (ops.shape(x)[0], 1, x.shape[-1])), x], axis=1)


class Positions(layers.Layer):
    """Adds a learned vector at each position."""

    def build(self, shape):
        """Make the vectors."""
        self.table = self.add_weight(shape=(1, *shape[1:]), initializer="random_normal", name="embeddings")

    def call(self, x):
        """Return tokens that know where they are."""
        return x + self.table


def encoder(x, activation="gelu", bias=True, causal=False, gated=False, dropout=0.0, heads=3):
    """A transformer block with normalization ahead of each half (Vaswani et al. 2017)."""
    width = x.shape[-1]
    y = layers.LayerNormalization(center=bias)(x)
    attention = layers.MultiHeadAttention(heads, width // heads, use_bias=bias, dropout=dropout)
    x = layers.Add()([x, attention(y, y, use_causal_mask=causal)])
    y = layers.LayerNormalization(center=bias)(x)
    hidden = layers.Dense(2 * width, activation=activation, use_bias=bias)(y)
    if gated:
        hidden = layers.Multiply()([hidden, layers.Dense(2 * width, use_bias=bias)(y)])
    return layers.Add()([x, layers.Dense(width, use_bias=bias)(hidden)])


def vision_transformer(activation="gelu", class_token=True, bias=True, patch=4, **block):
    """A vision transformer of two blocks (Dosovitskiy et al. 2021)."""
    inputs = keras.Input(_IMAGE)
    x = layers.Conv2D(_WIDTH, patch, patch, use_bias=bias)(inputs)
    x = layers.Reshape((-1, _WIDTH))(x)
    if class_token:
        x = ClassToken()(x)
    if bias:
        x = Positions()(x)
    for _ in range(2):
        x = encoder(x, activation, bias=bias, **block)
    x = layers.LayerNormalization(center=bias)(x)
    x = x[:, 0] if class_token else layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(5, use_bias=bias)(x))


def windows():
    """Attention within windows, shifted in the second block (Swin)."""
    inputs = keras.Input(_IMAGE)
    x = layers.Conv2D(_WIDTH, 2, 2)(inputs)  # 8x8 positions
    for shift in (0, 2):
        y = ops.roll(x, (-shift, -shift), axis=(1, 2)) if shift else x
        y = ops.transpose(ops.reshape(y, (-1, 2, 4, 2, 4, _WIDTH)), (0, 1, 3, 2, 4, 5))
        y = encoder(ops.reshape(y, (-1, 16, _WIDTH)))
        y = ops.transpose(ops.reshape(y, (-1, 2, 2, 4, 4, _WIDTH)), (0, 1, 3, 2, 4, 5))
        y = ops.reshape(y, (-1, 8, 8, _WIDTH))
        x = ops.roll(y, (shift, shift), axis=(1, 2)) if shift else y
    return keras.Model(inputs, layers.Dense(5)(layers.GlobalAveragePooling2D()(layers.LayerNormalization()(x))))


def mixer():
    """Dense layers over tokens and over channels by turns (MLP-Mixer)."""
    inputs = keras.Input(_IMAGE)
    x = layers.Reshape((-1, _WIDTH))(layers.Conv2D(_WIDTH, 4, 4)(inputs))
    for _ in range(2):
        y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        y = layers.Dense(16)(layers.Dense(24, activation="gelu")(y))
        x = layers.Add()([x, layers.Permute((2, 1))(y)])
        y = layers.Dense(24, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(_WIDTH)(y)])
    return keras.Model(inputs, layers.Dense(5)(layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))))


def language_model(causal=False):
    """A transformer on tokens with an embedding."""
    inputs = keras.Input((12,), dtype="int32", name="tokens")
    x = Positions()(layers.Embedding(20, _WIDTH)(inputs))
    for _ in range(2):
        x = encoder(x, causal=causal)
    return keras.Model(inputs, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)))


def _vit(*arguments, **options):
    """Return the builder of a vision transformer."""
    return functools.partial(vision_transformer, *arguments, **options)


_on_tokens = functools.partial(keras_family, inputs=tokens(12, 20), inner="embedding")
_causal = functools.partial(language_model, causal=True)
FAMILIES = (
    keras_family("vit_gelu", "ViT, GELU, class token", vision_transformer),
    keras_family("vit_relu_mean", "ViT, ReLU, mean over tokens", _vit("relu", class_token=False)),
    keras_family("vit_gated", "ViT, gated by swish (SwiGLU)", _vit("silu", gated=True)),
    keras_family("vit_dropout", "ViT trained with dropout", _vit(dropout=0.1)),
    keras_family(
        "vit_bias_free", "ViT, ReLU, no bias", _vit("relu", class_token=False, bias=False), bias=0.0, conserving=True
    ),
    keras_family("swin", "Swin windows", windows),
    keras_family("mlp_mixer", "MLP-Mixer", mixer),
    _on_tokens("token_transformer", "transformer on tokens (explained: their embedding)", language_model),
    _on_tokens("token_transformer_causal", "the same with a causal mask", _causal),
)


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


_on_signals = functools.partial(keras_family, inputs=pictures(12, 3))
RECURRENT = (
    _on_signals("lstm", "LSTM", on_signals(lambda x: layers.LSTM(6)(x))),
    _on_signals("gru", "GRU", on_signals(lambda x: layers.GRU(6)(x))),
    _on_signals("lstm_unrolled", "LSTM, unrolled", on_signals(lambda x: layers.LSTM(6, unroll=True)(x))),
    _on_signals(
        "bidirectional",
        "two LSTM layers, both ways",
        on_signals(lambda x: layers.LSTM(5)(layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x))),
    ),
    _on_tokens("token_lstm", "LSTM on tokens (explained: their embedding)", on_tokens),
)
