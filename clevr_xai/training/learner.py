"""The Relation Network in training: auxiliary heads, their losses, and sums over sampled pairs.

The heads are linear layers. None of them is part of the exported network.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import layers, ops

from clevr_xai import relation_network
from clevr_xai.training.batches import CENTRE, LENGTHS, MIRRORED_TOKENS, OPERANDS, SLOT_SIZES, SLOTS
from clevr_xai.training.training_set import MAX_NODES, MAX_OBJECTS, NODES, TrainingSet
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES

PAIR_SCALE = 0.01
SHAPE_WEIGHT = 2.0  # of the shape among a cell's attributes, which a network learns worst
PART_WEIGHT = 0.05  # of a cell that shows an object whose centre is elsewhere, beside 1


class SampledRelations(layers.Layer):
    """The sum of a ``Relations`` over some pairs of cells, for several questions about each image.

    It has no weights beside those of ``relations``. g is computed in ``precision``, "float32" or "bfloat16", which
    halves the time on some processors; the sums are float32.
    """

    def __init__(self, relations: relation_network.Relations, precision: str = "float32", **kwargs):
        super().__init__(**kwargs)
        self.relations, self.precision = relations, precision

    def call(self, cells, questions, pairs, pair_weights, rows):
        """Return the weighted sums, the plain ones over the pairs of each object, and the values of g.

        Parameters
        ----------
        cells : (N, n, features)
        questions : (N, Q, features)
        pairs : (N, P, 2) int
            First and second cell.
        pair_weights : (N, P)
        rows : (N, objects, P)
            Which pairs belong to an object.

        Returns
        -------
        sums : (N, Q, widths[-1])
        of_objects : (N, Q, objects, widths[-1])
        values : (N, Q, P, widths[-1])
        """

        def rounded(tensor):
            return ops.cast(tensor, self.precision)

        chosen = [ops.one_hot(pairs[..., place], cells.shape[1]) for place in (0, 1)]
        first, second, question = self.relations.parts
        of_cells = ops.matmul(chosen[0], first(cells)) + ops.matmul(chosen[1], second(cells))
        values = ops.relu(rounded(of_cells)[:, None] + rounded(question(questions))[:, :, None])
        number, width = questions.shape[1] * pairs.shape[1], self.relations.widths[-1]
        values = ops.reshape(values, (-1, self.relations.widths[0]))
        for layer in self.relations.deeper:
            values = ops.relu(ops.matmul(values, rounded(layer.kernel)) + rounded(layer.bias))
        values = ops.reshape(values, (-1, number // pairs.shape[1], pairs.shape[1], width))
        values = ops.cast(values, "float32")
        sums = ops.matmul(pair_weights[:, None, None], values)[:, :, 0] * self.relations.pair_scale
        return sums, ops.matmul(rows[:, None], values), values


class Learner:
    """A network with its auxiliary heads.

    Parameters
    ----------
    network
        As ``relation_network.build`` returns it.
    heads
        Of the learner of the smaller network from which this one was widened.

    Attributes
    ----------
    seeing, reading : keras.Model
        From images to the contents of cells, and from questions to programs and phrases.
    """

    def __init__(self, network: keras.Model, heads: tuple = ()):
        self.network = network
        outputs = 1 + sum(map(len, ATTRIBUTES.values()))
        self.heads = heads or (
            layers.Dense(outputs, name="see"),
            layers.Dense(MAX_NODES * len(NODES), name="name"),
            layers.Dense(SLOTS * sum(SLOT_SIZES), name="phrase"),
        )
        cell_head, program_head, phrase_head = self.heads
        self._image = keras.Input((128, 128, 3), dtype="uint8", name="image")
        question = keras.Input((None,), dtype="int32", name="question")
        self._features = network.get_layer("convolutions")(layers.Rescaling(1 / 255)(self._image))
        self._cells = cell_head(layers.Reshape((-1, self._features.shape[-1]))(self._features))
        code = network.get_layer("question_encoder")(question)
        self.seeing = keras.Model({"image": self._image}, {"cells": self._cells})
        self.reading = keras.Model(
            {"question": question},
            {
                "program": ops.reshape(program_head(code), (-1, MAX_NODES, len(NODES))),
                "phrases": ops.reshape(phrase_head(code), (-1, SLOTS, sum(SLOT_SIZES))),
            },
        )

    def answering(
        self, num_questions: int, num_pairs: int, auxiliary: bool = True, precision: str = "float32"
    ) -> keras.Model:
        """Return the model from images, pairs of cells and codes of questions to answers.

        Parameters
        ----------
        num_questions, num_pairs
            About each image, and of its cells.
        auxiliary
            Add the heads ``members`` (sets that the program finds), ``compared`` and ``operands``.
        precision
            Of g, see ``SampledRelations``.
        """
        pairs = keras.Input((num_pairs, 2), dtype="int32", name="pairs")
        weights = keras.Input((num_pairs,), name="pair_weights")
        code = keras.Input((num_questions, relation_network.QUESTION), name="code")
        cells = self.network.get_layer("coordinates")(self._features)
        rows = keras.Input((MAX_OBJECTS, num_pairs), name="rows")
        sampled = SampledRelations(self.network.get_layer("relations"), precision)
        sums, of_objects, values = sampled(cells, code, pairs, weights, rows)
        logits = self.network.get_layer("f")(ops.reshape(sums, (-1, sums.shape[-1])))
        logits = ops.reshape(logits, (-1, num_questions, logits.shape[-1]))
        inputs = {"image": self._image, "pairs": pairs, "pair_weights": weights, "code": code, "rows": rows}
        outputs = {"answer": logits, "cells": self._cells}
        if auxiliary:
            outputs["members"] = layers.Dense(MAX_NODES, kernel_initializer="zeros", name="follow")(of_objects)
            outputs["compared"] = layers.Dense(3, kernel_initializer="zeros", name="compare")(values)
            operands = layers.Dense(OPERANDS * len(ANSWERS), kernel_initializer="zeros", name="operands")(sums)
            outputs["operands"] = ops.reshape(operands, (-1, num_questions, OPERANDS, len(ANSWERS)))
        return keras.Model(inputs, outputs)

    def rewording(self, scale: float) -> keras.Model:
        """Return the model from questions to their input to the first layer of g, divided by ``scale``."""
        question = keras.Input((None,), dtype="int32", name="question")
        code = self.network.get_layer("question_encoder")(question)
        part = self.network.get_layer("relations").parts[2]
        return keras.Model({"question": question}, {"given": part(code) / scale})

    def codes(self, data: TrainingSet) -> np.ndarray:
        """Return the code of each question as it is and with left and right exchanged, (2, Q, 128) float32."""
        encoder = self.network.get_layer("question_encoder")
        return np.stack([encode(encoder, words) for words in (data.tokens, MIRRORED_TOKENS[data.tokens])])


def encode(encoder: keras.Model, words: np.ndarray, batch_size: int = 1024) -> np.ndarray:
    """Return the codes of questions, (Q, 128) float32, from their tokens, (Q, L) int; short ones take less time."""
    codes = np.zeros((len(words), encoder.output.shape[-1]), np.float32)
    for length, rows in by_length(words).items():
        codes[rows] = encoder.predict(words[rows, :length].astype(np.int32), batch_size=batch_size, verbose=0)
    return codes


def by_length(words: np.ndarray) -> dict[int, np.ndarray]:
    """Return the rows of tokens, (Q, L), by their number of words, rounded up to a multiple of ``LENGTHS``."""
    lengths = np.minimum(-(-(words > 0).sum(axis=1) // LENGTHS) * LENGTHS, words.shape[1])
    return {int(length): np.flatnonzero(lengths == length) for length in np.unique(lengths)}


def _cell_loss(targets, logits):
    """Return the mean loss of an image's cells: whether one shows an object and, where one does, its attributes."""
    present = ops.cast(targets[..., 0] >= 0, logits.dtype)
    presence = ops.binary_crossentropy(present, logits[..., 0], from_logits=True)
    weight = ops.where(targets[..., 4] == CENTRE, 1.0, PART_WEIGHT * present)
    attributes = 0.0
    parts = _split(logits[..., 1:], [len(values) for values in ATTRIBUTES.values()])
    for position, (name, part) in enumerate(zip(ATTRIBUTES, parts, strict=True)):
        loss = _crossentropy(targets[..., position], part)
        attributes += loss * (SHAPE_WEIGHT if name == "shape" else 1.0)
    total = ops.maximum(ops.sum(weight, axis=-1), 1.0)
    return ops.mean(presence, axis=-1) + ops.sum(attributes * weight, axis=-1) / total


def _member_loss(targets, logits):
    """Return the mean loss over an image's questions, their nodes that find sets, and its objects."""
    losses = ops.binary_crossentropy(ops.cast(ops.maximum(targets, 0), logits.dtype), logits, from_logits=True)
    return _mean(losses, targets >= 0) * 4.0


def _compared_loss(targets, logits):
    """Return the mean loss over an image's compared pairs, plus the mean over its other pairs."""
    losses = _crossentropy(targets, logits)
    return _mean(losses, targets > 0) + _mean(losses, targets == 0)


def _operand_loss(targets, logits):
    """Return the mean loss over both operands of an image's questions that compare."""
    return _mean(_crossentropy(targets, logits), targets >= 0)


def _program_loss(targets, logits):
    """Return the mean loss of a question over the nodes of its program and their padding."""
    return ops.mean(_crossentropy(targets, logits), axis=-1) * 4.0


def _phrase_loss(targets, logits):
    """Return the mean loss of a question over the slots of phrases, summed over a slot's entries."""
    parts = _split(logits, SLOT_SIZES)
    return ops.mean(sum(_crossentropy(targets[..., entry], part) for entry, part in enumerate(parts)), axis=-1) * 4.0


def _crossentropy(targets, logits):
    """Return the cross-entropies of classes, where -1 is an unknown one."""
    return ops.sparse_categorical_crossentropy(ops.maximum(targets, 0), logits, from_logits=True)


def _split(logits, sizes):
    return ops.split(logits, list(np.cumsum(sizes)[:-1]), axis=-1)


def _mean(losses, known):
    """Return an image's mean over the known losses, 0 where none is."""
    weights, axes = ops.cast(known, losses.dtype), tuple(range(1, len(losses.shape)))
    return ops.sum(losses * weights, axis=axes) / ops.maximum(ops.sum(weights, axis=axes), 1.0)


LOSSES = {  # output -> loss and its weight
    "answer": (keras.losses.SparseCategoricalCrossentropy(from_logits=True), 1.0),
    "cells": (_cell_loss, 0.5),
    "members": (_member_loss, 1.0),
    "compared": (_compared_loss, 2.0),
    "operands": (_operand_loss, 1.0),
    "program": (_program_loss, 1.0),
    "phrases": (_phrase_loss, 1.0),
    "given": ("mean_squared_error", 1.0),
}
