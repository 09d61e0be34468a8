"""A network that answers CLEVR's questions by attention: its query asks the image's cells in some blocks.

It has the inputs, the outputs, the convolutions and the question encoder of the Relation Network. Behind them, a query
starts as the question's code. In each block it attends to the cells (Vaswani et al. 2017) and passes a perceptron.
"""

from __future__ import annotations

import keras
from keras import layers

from clevr_xai import relation_network
from clevr_xai.relation_network import CELLS, CHANNELS, IMAGE_SIZE, QUESTION
from clevr_xai.vocabulary import ANSWERS

SHARED = ("convolutions", "question_encoder")  # layers of the Relation Network


def _normalized(x, name: str):
    return layers.LayerNormalization(epsilon=1e-6, name=name)(x)


def answering(width: int, heads: int, blocks: int, channels: int, cells: int = CELLS, num_answers: int = len(ANSWERS)):
    """Return the network of an image and Q questions about it.

    From features (N, cells, cells, channels) and codes (N, Q, 128) to logits (N, Q, num_answers). The questions do not
    see each other.
    """
    features = keras.Input((cells, cells, channels), name="features")
    codes = keras.Input((None, QUESTION), name="codes")
    seen = relation_network.Coordinates(name="coordinates")(features)
    seen = layers.Dense(width, activation="relu", name="cells1")(seen)
    seen = _normalized(layers.Dense(width, name="cells2")(seen), "cells_norm")
    query = layers.Dense(width, name="asked")(codes)
    for number in range(1, blocks + 1):
        name = f"block{number}"
        attention = layers.MultiHeadAttention(heads, width // heads, name=f"{name}_attention")
        query = layers.Add(name=f"{name}_attended")([query, attention(_normalized(query, f"{name}_norm1"), seen)])
        hidden = _normalized(query, f"{name}_norm2")
        hidden = layers.Dense(2 * width, activation="relu", name=f"{name}_dense1")(hidden)
        query = layers.Add(name=name)([query, layers.Dense(width, name=f"{name}_dense2")(hidden)])
    logits = layers.Dense(num_answers, name="logits")(_normalized(query, "last_norm"))
    return keras.Model([features, codes], logits, name="answering")


def build(
    width: int = 128, heads: int = 4, blocks: int = 3, channels: int = CHANNELS, image_size: int = IMAGE_SIZE
) -> keras.Model:
    """Build an untrained network with the inputs and outputs of ``relation_network.build``.

    Parameters
    ----------
    width, heads, blocks
        Of the query and of its attention.
    channels, image_size
        Of the convolutions and of the images.
    """
    image = keras.Input((image_size, image_size, 3), name="image")
    question = keras.Input((None,), dtype="int32", name="question")
    convolutions, encoder = relation_network.convolutions(image_size, channels), relation_network.question_encoder()
    answer = answering(width, heads, blocks, channels, convolutions.output_shape[1])
    code = layers.Reshape((1, QUESTION), name="code")(encoder(question))
    logits = layers.Reshape((len(ANSWERS),), name="answer")(answer([convolutions(image), code]))
    return keras.Model([image, question], logits, name="cross_attention")
