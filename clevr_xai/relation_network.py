"""The Relation Network that CLEVR-XAI explains: 484,548 trainable parameters, from pixels and words to 28 answers.

Santoro et al., "A simple neural network module for relational reasoning", NeurIPS 2017, in the configuration of
Arras et al. 2022. Written with ``keras.ops``: it runs on every backend of Keras 3, and is exported from TensorFlow.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import keras
import numpy as np
from keras import layers, ops

from attribution.files import atomic_write
from attribution_benchmarks.core import keras_export
from clevr_xai import vocabulary
from clevr_xai.vocabulary import ANSWERS, QUESTION_WORDS

IMAGE_SIZE = 128
CELLS = 7  # the last feature map's rows and columns
CELL, FIRST_CENTRE = 16, 15  # pixels between the centres of cells, and of the first one: four 3x3 kernels, stride 2
CHANNELS = 24
EMBEDDING, QUESTION = 32, 128
WIDTHS = (256, 256, 256, 256)  # of the layers of g
HEAD = (256, 256)  # of the layers of f
PAIR_SCALE = 0.01  # of a network in training; keeps the sum over pairs in a range in which f learns well


class LstmStep(layers.Layer):
    """One step of an LSTM on inputs that a dense layer has already brought to the four gates' width.

    That layer's bias and this one's are the two biases of the paper's LSTM.
    """

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.state_size = [units, units]
        self.output_size = units

    def build(self, input_shape):
        """Make the recurrent kernel (units, 4 units) and its bias."""
        shape = (self.units, 4 * self.units)
        self.kernel = self.add_weight(shape=shape, initializer="orthogonal", name="recurrent_kernel")
        self.bias = self.add_weight(shape=(4 * self.units,), initializer="zeros", name="recurrent_bias")

    def call(self, inputs, states, training=None):
        """Return the output and the two states after one word."""
        output, memory = states
        gates = inputs + ops.matmul(output, self.kernel) + self.bias
        admit, keep, candidate, show = ops.split(gates, 4, axis=-1)
        memory = ops.sigmoid(keep + 1.0) * memory + ops.sigmoid(admit) * ops.tanh(candidate)
        output = ops.sigmoid(show) * ops.tanh(memory)
        return output, [output, memory]


class Coordinates(layers.Layer):
    """Append column and row to every cell of a feature map and line the cells up.

    (N, rows, columns, C) -> (N, rows x columns, C + 2). Column and row count from the middle in steps of a half,
    from -1.5 to 1.5 for 7 x 7 cells.
    """

    def call(self, features):
        """Return the cells with their places."""
        _, rows, columns, channels = features.shape
        row, column = np.mgrid[:rows, :columns]
        places = np.stack([column - (columns - 1) / 2, row - (rows - 1) / 2], axis=-1) / 2
        places = ops.convert_to_tensor(places.reshape(1, rows * columns, 2), dtype=features.dtype)
        cells = ops.reshape(features, (-1, rows * columns, channels))
        return ops.concatenate([cells, ops.broadcast_to(places, (ops.shape(cells)[0], rows * columns, 2))], axis=-1)


class Relations(layers.Layer):
    """Sum over all pairs of cells of g(first cell, second cell, question).

    The first layer of g is linear in its three parts, so each part is multiplied by its own columns of the kernel,
    cells as often as there are cells, the question once, and the results are added by broadcasting: the matrix
    of all pairs, 2,401 x 180 a question, never exists.

    Parameters
    ----------
    widths
        Of the layers of g.
    pair_scale
        Factor of the sum: ``PAIR_SCALE`` in training, 1 in an exported network, see ``fold_pair_scale``.
    """

    def __init__(self, widths: Sequence[int] = WIDTHS, pair_scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.widths, self.pair_scale = tuple(widths), pair_scale

    def build(self, cells_shape, question_shape):
        """Make the kernels; He's deviation for the first layer as a whole, of 180 inputs."""
        inputs = 2 * cells_shape[-1] + question_shape[-1]
        first = keras.initializers.RandomNormal(stddev=(2 / inputs) ** 0.5)
        parts = {"first_cell": False, "second_cell": False, "question": True}
        self.parts = [
            layers.Dense(self.widths[0], use_bias=bias, kernel_initializer=first.clone(), name=f"g1_{name}")
            for name, bias in parts.items()
        ]
        self.deeper = [
            layers.Dense(width, activation="relu", kernel_initializer="he_normal", name=f"g{number}")
            for number, width in enumerate(self.widths[1:], 2)
        ]
        for part, shape in zip(self.parts, (cells_shape, cells_shape, question_shape), strict=True):
            part.build(shape)
        for layer, width in zip(self.deeper, self.widths, strict=False):
            layer.build((None, width))

    def call(self, cells, question):
        """Return the sum over pairs, (N, widths[-1]), from cells (N, n, features) and questions (N, features)."""
        first, second, of_question = (
            part(value) for part, value in zip(self.parts, (cells, cells, question), strict=True)
        )
        pairs = ops.relu(first[:, :, None] + second[:, None] + of_question[:, None, None])
        pairs = ops.reshape(pairs, (-1, self.widths[0]))
        for layer in self.deeper:
            pairs = layer(pairs)
        pairs = ops.reshape(pairs, (-1, cells.shape[1] ** 2, self.widths[-1]))
        total = ops.sum(pairs, axis=1)
        return total if self.pair_scale == 1.0 else total * self.pair_scale

    def compute_output_shape(self, cells_shape, question_shape):
        """Return (N, widths[-1])."""
        return (cells_shape[0], self.widths[-1])


class SampledRelations(layers.Layer):
    """The weighted sum of a ``Relations`` over some pairs of cells, for several questions about each image."""

    def __init__(self, relations: Relations, **kwargs):
        super().__init__(**kwargs)
        self.relations = relations

    def call(self, cells, codes, pairs, weights):
        """Return (N x Q, width) from (N, n, features), (N x Q, features), (N, P, 2) int and (N, P)."""
        first, second, question = self.relations.parts
        chosen = [ops.one_hot(pairs[..., place], cells.shape[1]) for place in (0, 1)]
        of_cells = ops.matmul(chosen[0], first(cells)) + ops.matmul(chosen[1], second(cells))
        of_questions = ops.reshape(question(codes), (ops.shape(cells)[0], -1, 1, self.relations.widths[0]))
        values = ops.relu(of_cells[:, None] + of_questions)
        for layer in self.relations.deeper:
            values = layer(values)
        sums = ops.matmul(weights[:, None, None], values) * self.relations.pair_scale
        return ops.reshape(sums, (-1, self.relations.widths[-1]))


def cell_of(centres: np.ndarray) -> np.ndarray:
    """Return row x 7 + column of the cell nearest to each (..., 2) centre, -1 where that is nan."""
    nearest = np.clip(np.round((np.nan_to_num(centres) - FIRST_CENTRE) / CELL), 0, CELLS - 1).astype(np.int64)
    return np.where(np.isnan(centres).any(axis=-1), -1, nearest[..., 1] * CELLS + nearest[..., 0])


def sample_pairs(certain: np.ndarray, number: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Sample pairs of cells with the weights that make their weighted sum an unbiased estimate of the sum of all.

    Parameters
    ----------
    certain : (B, cells) bool
        Cells all of whose pairs with each other are included. The other pairs are sampled uniformly.
    number
        Of the pairs of an image.

    Returns
    -------
    pairs : (B, number, 2) int32
        First and second cell.
    weights : (B, number) float32
        Number of pairs that each represents; they add up to the number of all pairs.

    Raises
    ------
    ValueError
        If the number is not above that of the certain pairs of an image, or above that of all pairs.
    """
    batch, cells = certain.shape
    included = (certain[:, :, None] & certain[:, None, :]).reshape(batch, cells**2)
    sizes = included.sum(axis=1, keepdims=True)
    if not sizes.max() < number <= cells**2:
        raise ValueError(f"{number} pairs of {cells**2} for images with up to {sizes.max()} pairs of two centres")
    chosen = np.argsort(rng.random(included.shape, np.float32) - included, axis=1)[:, :number]
    weights = np.where(np.arange(number) < sizes, 1, (cells**2 - sizes) / (number - sizes))
    return np.stack(np.divmod(chosen, cells), axis=-1).astype(np.int32), weights.astype(np.float32)


def convolutions(image_size: int = IMAGE_SIZE, channels: int = CHANNELS):
    """Return the network from images to the last feature map: four times convolution, ReLU, BatchNormalization."""
    network = keras.Sequential([keras.Input((image_size, image_size, 3))], name="convolutions")
    for number in range(1, 5):
        network.add(
            layers.Conv2D(
                channels, 3, strides=2, activation="relu", kernel_initializer="he_normal", name=f"conv{number}"
            )
        )
        network.add(layers.BatchNormalization(name=f"norm{number}"))
    return network


def question_encoder(num_words: int = len(QUESTION_WORDS), embedding: int = EMBEDDING, units: int = QUESTION):
    """Return the network from tokens (N, L) to the last state of an LSTM, which padding leaves as it is."""
    question = keras.Input((None,), dtype="int32")
    # Keras' own start, within 0.05 of zero, hides the words from the LSTM for thousands of steps.
    start = keras.initializers.RandomNormal(stddev=1.0)
    embedded = layers.Embedding(num_words + vocabulary.FIRST_WORD, embedding, start, name="embedding")(question)
    gates = layers.Dense(4 * units, name="gates")(embedded)
    state = layers.RNN(LstmStep(units), name="lstm")(gates, mask=ops.not_equal(question, vocabulary.PADDING))
    return keras.Model(question, state, name="question_encoder")


def head(inputs: int, widths: Sequence[int] = HEAD, num_answers: int = len(ANSWERS), dropout: float = 0.5):
    """Return f, from the sum over pairs to the logits; dropout acts after the last hidden layer, in training."""
    network = keras.Sequential([keras.Input((inputs,))], name="f")
    for number, width in enumerate(widths, 1):
        network.add(layers.Dense(width, activation="relu", kernel_initializer="he_normal", name=f"f{number}"))
    network.add(layers.Dropout(dropout))
    small = keras.initializers.VarianceScaling(0.02, mode="fan_in", distribution="truncated_normal")
    network.add(layers.Dense(num_answers, kernel_initializer=small, name="logits"))
    return network


def build(
    widths: Sequence[int] = WIDTHS,
    head_widths: Sequence[int] = HEAD,
    channels: int = CHANNELS,
    image_size: int = IMAGE_SIZE,
    pair_scale: float = 1.0,
    dropout: float = 0.5,
) -> keras.Model:
    """Build an untrained network.

    Parameters
    ----------
    widths, head_widths
        Of the layers of g and of the hidden layers of f.
    channels
        Of each convolution.
    image_size
        Height and width of the images in pixels.
    pair_scale
        See ``Relations``.
    dropout
        Share of f's last hidden units left out in training.

    Returns
    -------
    keras.Model
        ``image`` (N, size, size, 3) float32 in [0, 1] and ``question`` (N, L) int32, see ``vocabulary.encode``, to
        logits (N, 28), in the order of ``vocabulary.ANSWERS``. Its layers are named ``convolutions``,
        ``coordinates``, ``question_encoder``, ``relations`` and ``f``.
    """
    image = keras.Input((image_size, image_size, 3), name="image")
    question = keras.Input((None,), dtype="int32", name="question")
    cells = Coordinates(name="coordinates")(convolutions(image_size, channels)(image))
    related = Relations(widths, pair_scale, name="relations")(cells, question_encoder()(question))
    logits = head(widths[-1], head_widths, dropout=dropout)(related)
    return keras.Model([image, question], logits, name="relation_network")


def fold_pair_scale(network: keras.Model) -> keras.Model:
    """Return the same function as a network whose sum over pairs is a plain sum: f's first kernel takes the scale."""
    relations = network.get_layer("relations")
    if relations.pair_scale == 1.0:
        return network
    f = network.get_layer("f")
    widths = [layer.units for layer in f.layers if isinstance(layer, layers.Dense)]
    _, size, _, _ = network.inputs[0].shape
    channels = network.get_layer("convolutions").layers[0].filters
    plain = build(relations.widths, widths[:-1], channels, size)
    plain.set_weights(network.get_weights())
    first = plain.get_layer("f").layers[0]
    first.kernel.assign(first.kernel * relations.pair_scale)
    return plain


def export(network: keras.Model, directory: str | pathlib.Path, card: str = "", length: int | None = None) -> None:
    """Write a network as version 1 of a SavedModel with its words and answers as assets, or nothing at all.

    Of a Relation Network the sum over pairs is a plain sum in the file, see ``fold_pair_scale``.

    Parameters
    ----------
    network
        On the TensorFlow backend, with the inputs and outputs of ``build``, of any architecture.
    directory
        Base path as TensorFlow Serving wants it; created if missing, must not hold a version 1.
    card
        Text of ``MODEL_CARD.md``.
    length
        Words of a question; any number where None. Relevance passes the recurrence of a fixed number alone.
    """
    import tensorflow as tf

    if any(layer.name == "relations" for layer in network.layers):
        network = fold_pair_scale(network)
    inputs = [
        tf.TensorSpec((None, *network.inputs[0].shape[1:]), tf.float32, name="image"),
        tf.TensorSpec((None, length), tf.int32, name="question"),
    ]

    def serve(image, question):
        return {"logits": network([image, question], training=False)}

    def add_lists(version: pathlib.Path) -> None:
        for name, entries in {vocabulary.WORDS_FILE: QUESTION_WORDS, vocabulary.ANSWERS_FILE: ANSWERS}.items():
            atomic_write(version / "assets" / name, "".join(f"{entry}\n" for entry in entries))

    keras_export.export(network, pathlib.Path(directory), card, {"serving_default": (serve, inputs)}, add_lists)
