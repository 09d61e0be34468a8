"""A Relation Network with the linear layers and the sampled pairs that help it learn.

None of these aids is left in the network that comes out of the training.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import layers, ops

from clevr_xai import relation_network
from clevr_xai.training import batches, operands, phrases
from clevr_xai.training.training_set import MOST_NODES, MOST_OBJECTS, NODES, TrainingSet
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES

PAIR_SCALE = 0.01


class SampledRelations(layers.Layer):
    """The sum of a ``Relations`` over some pairs of cells, for several questions about each image.

    It has no weights of its own. g is computed in ``precision``, "float32" or "bfloat16", which takes some processors
    half of the time; the sums over its values are float32.
    """

    def __init__(self, relations: relation_network.Relations, precision: str = "float32", **kwargs):
        super().__init__(**kwargs)
        self.relations, self.precision = relations, precision

    def call(self, cells, questions, pairs, pair_weights, rows):
        """Return the weighted sums, the plain ones over the pairs of each object, and g's values themselves.

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
    """A network with its training aids.

    Parameters
    ----------
    network
        As ``relation_network.build`` returns it.
    aids
        The linear layers of an earlier learner whose network this one's has grown from.
    """

    def __init__(self, network: keras.Model, aids: tuple = ()):
        self.network = network
        outputs = 1 + sum(map(len, ATTRIBUTES.values()))
        self.aids = aids or (
            layers.Dense(outputs, name="see"),
            layers.Dense(MOST_NODES * len(NODES), name="name"),
            layers.Dense(phrases.PLACES * sum(phrases.SIZES), name="phrase"),
        )
        see, name, phrase = self.aids
        image = keras.Input((128, 128, 3), dtype="uint8", name="image")
        question = keras.Input((None,), dtype="int32", name="question")
        features = network.get_layer("convolutions")(layers.Rescaling(1 / 255)(image))
        seen = see(layers.Reshape((-1, features.shape[-1]))(features))
        code = network.get_layer("question_encoder")(question)
        self.seeing = keras.Model({"image": image}, {"cells": seen})
        self.reading = keras.Model(
            {"question": question},
            {
                "program": ops.reshape(name(code), (-1, MOST_NODES, len(NODES))),
                "phrases": ops.reshape(phrase(code), (-1, phrases.PLACES, sum(phrases.SIZES))),
            },
        )
        self._image, self._features, self._seen = image, features, seen

    def answering(
        self, num_questions: int, num_pairs: int, follow: bool = True, precision: str = "float32"
    ) -> keras.Model:
        """Return the model of the last stages, from images, pairs of cells and codes of questions.

        Parameters
        ----------
        num_questions, num_pairs
            About each image in a step, and of its cells.
        follow
            Tell the members of the programs' sets, too, which pair of objects is compared, and what compared sides are.
        precision
            Of g, see ``SampledRelations``.
        """
        pairs = keras.Input((num_pairs, 2), dtype="int32", name="pairs")
        weights = keras.Input((num_pairs,), name="pair_weights")
        code = keras.Input((num_questions, relation_network.QUESTION), name="code")
        cells = self.network.get_layer("coordinates")(self._features)
        rows = keras.Input((MOST_OBJECTS, num_pairs), name="rows")
        sampled = SampledRelations(self.network.get_layer("relations"), precision)
        sums, of_objects, values = sampled(cells, code, pairs, weights, rows)
        logits = self.network.get_layer("f")(ops.reshape(sums, (-1, sums.shape[-1])))
        logits = ops.reshape(logits, (-1, num_questions, logits.shape[-1]))
        inputs = {"image": self._image, "pairs": pairs, "pair_weights": weights, "code": code, "rows": rows}
        outputs = {"answer": logits, "cells": self._seen}
        if follow:
            outputs["members"] = layers.Dense(MOST_NODES, name="follow")(of_objects)
            outputs["compared"] = layers.Dense(3, name="compare")(values)
            sides = layers.Dense(operands.NUMBER * len(ANSWERS), name="operands")(sums)
            outputs["operands"] = ops.reshape(sides, (-1, num_questions, operands.NUMBER, len(ANSWERS)))
        return keras.Model(inputs, outputs)

    def codes(self, data: TrainingSet, batch_size: int = 1024) -> np.ndarray:
        """Return the code of each question as it stands and with left and right exchanged, (2, Q, 128) float32."""
        encoder = self.network.get_layer("question_encoder")
        words = data.tokens.astype(np.int32)
        both = (words, batches.MIRRORED_TOKENS[words].astype(np.int32))
        return np.stack([encoder.predict(tokens, batch_size=batch_size, verbose=0) for tokens in both])
