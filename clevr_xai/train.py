"""Teach a Relation Network: what a question asks, what is in each cell, then to answer, first small, then whole.

Four aids make it learn on a processor of two cores, and none is left in the network that comes out of it:

- a linear layer on the question's code names the nodes of its program; after that the question encoder stays as it is;
- a linear layer on the last feature map names the object that each cell shows;
- a linear layer on g's sum over the pairs of one object with each tells in which of the program's sets the object is;
- a step sums over a sample of the pairs of cells, weighted so that the sum is right in expectation.

The network first has narrow layers in g, which are quick to train, and is then widened and deepened to the paper's
size without a change of what it computes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable
from concurrent import futures

import keras
import numpy as np
from keras import layers, ops

from clevr_xai import relation_network, training_batches
from clevr_xai.training_batches import CENTRE, Batch
from clevr_xai.training_set import MOST_NODES, MOST_OBJECTS, NODES, TrainingSet
from clevr_xai.vocabulary import ATTRIBUTES
from command_line import BadInput

CELL_LOSS, MEMBER_LOSS = 0.5, 1.0  # weights beside the loss of the answers
SLOW = ("convolutions",)  # learn at a share of the others' rate as soon as the members of sets are told
SLOW_SHARE = 0.3
PRESENCE_LOSS = 5.0  # beside the attributes'
PART_WEIGHT = 0.3  # of a cell that shows an object whose centre is elsewhere, beside 1
WARM_UP = 200  # steps
SHOWN = 100  # steps between lines of the log
GRADIENT_NORM = 5.0
PAIR_SCALE = 0.01


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of the training.

    Attributes
    ----------
    name
        Also of its checkpoint.
    steps
    learning_rate
        The highest; it rises over the first 200 steps.
    constant
        Share of the steps after which it falls linearly to zero: 1.0 for a stage that another one continues.
    """

    name: str
    steps: int
    learning_rate: float
    constant: float = 1.0

    def rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        left = (self.steps - step) / max(self.steps * (1 - self.constant), 1)
        return self.learning_rate * min((step + 1) / WARM_UP, 1.0, left)


class Adam(keras.optimizers.Adam):
    """Adam with a lower rate for some variables."""

    def __init__(self, *arguments, slow_share: float = 1.0, **settings):
        super().__init__(*arguments, **settings)
        self._slow_share = slow_share

    def build(self, variables):
        """Make the moments, and remember which variables are slow."""
        super().build(variables)
        self._slow = [any(name in variable.path for name in SLOW) for variable in variables]

    def update_step(self, gradient, variable, learning_rate):
        """Take a step for one variable."""
        share = self._slow_share if self._slow[self._get_variable_index(variable)] else 1.0
        super().update_step(gradient, variable, learning_rate * share)


def cell_loss(targets, logits):
    """Return the mean loss of an image's cells: whether one shows an object and, where one does, its attributes."""
    present = ops.cast(targets[..., 0] >= 0, logits.dtype)
    presence = ops.binary_crossentropy(present, logits[..., 0], from_logits=True)
    weight = ops.where(targets[..., 4] == CENTRE, 1.0, PART_WEIGHT * present)
    attributes, start = 0.0, 1
    for position, values in enumerate(ATTRIBUTES.values()):
        wanted = ops.maximum(targets[..., position], 0)
        attributes += ops.sparse_categorical_crossentropy(
            wanted, logits[..., start : start + len(values)], from_logits=True
        )
        start += len(values)
    total = ops.maximum(ops.sum(weight, axis=-1), 1.0)
    return ops.mean(presence, axis=-1) * PRESENCE_LOSS + ops.sum(attributes * weight, axis=-1) / total


def member_loss(targets, logits):
    """Return the mean loss of an image's questions: over its objects and the sets that the programs find."""
    known = ops.cast(targets >= 0, logits.dtype)
    losses = ops.binary_crossentropy(ops.cast(ops.maximum(targets, 0), logits.dtype), logits, from_logits=True)
    return ops.sum(losses * known, axis=(1, 2, 3)) / ops.maximum(ops.sum(known, axis=(1, 2, 3)), 1.0) * 4.0


def program_loss(targets, logits):
    """Return the mean loss of a question: over the program's nodes, counted to its first."""
    return ops.mean(ops.sparse_categorical_crossentropy(targets, logits, from_logits=True), axis=-1) * 4.0


class SampledRelations(layers.Layer):
    """The sum of a ``Relations`` over some pairs of cells, for several questions about each image.

    It has no weights of its own.
    """

    def __init__(self, relations: relation_network.Relations, **kwargs):
        super().__init__(**kwargs)
        self.relations = relations

    def call(self, cells, questions, pairs, pair_weights, rows):
        """Return the weighted sums, and the plain ones over the pairs of each object.

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
        """
        chosen = [ops.one_hot(pairs[..., place], cells.shape[1]) for place in (0, 1)]
        first, second, question = self.relations.parts
        of_cells = ops.matmul(chosen[0], first(cells)) + ops.matmul(chosen[1], second(cells))
        values = ops.relu(of_cells[:, None] + question(questions)[:, :, None])
        number, width = questions.shape[1] * pairs.shape[1], self.relations.widths[-1]
        values = ops.reshape(values, (-1, self.relations.widths[0]))
        for layer in self.relations.deeper:
            values = layer(values)
        values = ops.reshape(values, (-1, number // pairs.shape[1], pairs.shape[1], width))
        sums = ops.matmul(pair_weights[:, None, None], values)[:, :, 0] * self.relations.pair_scale
        return sums, ops.matmul(rows[:, None], values)


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
        )
        see, name = self.aids
        image = keras.Input((128, 128, 3), dtype="uint8", name="image")
        question = keras.Input((None,), dtype="int32", name="question")
        features = network.get_layer("convolutions")(layers.Rescaling(1 / 255)(image))
        seen = see(layers.Reshape((-1, features.shape[-1]))(features))
        code = network.get_layer("question_encoder")(question)
        self.seeing = keras.Model({"image": image}, {"cells": seen})
        self.reading = keras.Model(
            {"question": question}, {"program": ops.reshape(name(code), (-1, MOST_NODES, len(NODES)))}
        )
        self._image, self._features, self._seen = image, features, seen

    def answering(self, num_questions: int, num_pairs: int, follow: bool = True) -> keras.Model:
        """Return the model of the last stages, from images, pairs of cells and codes of questions.

        Parameters
        ----------
        num_questions, num_pairs
            About each image in a step, and of its cells.
        follow
            Tell the members of the programs' sets, too.
        """
        pairs = keras.Input((num_pairs, 2), dtype="int32", name="pairs")
        weights = keras.Input((num_pairs,), name="pair_weights")
        code = keras.Input((num_questions, relation_network.QUESTION), name="code")
        cells = self.network.get_layer("coordinates")(self._features)
        rows = keras.Input((MOST_OBJECTS, num_pairs), name="rows")
        sums, of_objects = SampledRelations(self.network.get_layer("relations"))(cells, code, pairs, weights, rows)
        logits = self.network.get_layer("f")(ops.reshape(sums, (-1, sums.shape[-1])))
        logits = ops.reshape(logits, (-1, num_questions, logits.shape[-1]))
        inputs = {"image": self._image, "pairs": pairs, "pair_weights": weights, "code": code, "rows": rows}
        outputs = {"answer": logits, "cells": self._seen}
        if follow:
            outputs["members"] = layers.Dense(MOST_NODES, name="follow")(of_objects)
        return keras.Model(inputs, outputs)

    def codes(self, data: TrainingSet, batch_size: int = 1024) -> np.ndarray:
        """Return the code of each question as it stands and with left and right exchanged, (2, Q, 128) float32."""
        encoder = self.network.get_layer("question_encoder")
        words = data.tokens.astype(np.int32)
        both = (words, training_batches.MIRRORED_TOKENS[words].astype(np.int32))
        return np.stack([encoder.predict(tokens, batch_size=batch_size, verbose=0) for tokens in both])


LOSSES = {
    "answer": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    "cells": cell_loss,
    "members": member_loss,
    "program": program_loss,
}
LOSS_WEIGHTS = {"answer": 1.0, "cells": CELL_LOSS, "members": MEMBER_LOSS, "program": 1.0}


def run(
    model: keras.Model,
    stage: Stage,
    make_batch: Callable[[np.random.Generator], Batch],
    directory: pathlib.Path,
    seed: int,
    evaluate: Callable[[], dict] | None = None,
    every: int = 1000,
) -> None:
    """Train a model through a stage, from its checkpoint if there is one.

    Parameters
    ----------
    model
        One of a ``Learner``'s.
    stage
    make_batch
        Draws a batch; called in another thread, while the step before it is taken.
    directory
        For checkpoints, ``<stage>.npz``, and the log, ``log.jsonl``.
    seed
        Of the batches; each is drawn from the seed, the stage and the step alone.
    evaluate
        Called at the end and every so many steps; its result goes to the log.
    every
        Steps between checkpoints and evaluations.
    """
    outputs = list(model.output)
    share = SLOW_SHARE if "members" in outputs else 1.0
    optimizer = Adam(stage.learning_rate, global_clipnorm=GRADIENT_NORM, slow_share=share)
    model.compile(
        optimizer=optimizer,
        loss={name: LOSSES[name] for name in outputs},
        loss_weights={name: LOSS_WEIGHTS[name] for name in outputs},
        metrics={"answer": ["accuracy"]} if "answer" in outputs else None,
        jit_compile=False,
    )
    optimizer.build(model.trainable_variables)
    file = directory / f"{stage.name}.npz"
    step = restore(file, model, optimizer)
    number = sum(map(ord, stage.name))

    def batch(step):
        return make_batch(np.random.default_rng((seed, number, step)))

    with futures.ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(batch, step) if step < stage.steps else None
        started, begun = time.monotonic(), step
        while step < stage.steps:
            inputs, targets = waiting.result()
            waiting = beside.submit(batch, step + 1) if step + 1 < stage.steps else None
            optimizer.learning_rate = stage.rate(step)
            result = model.train_on_batch(inputs, {name: targets[name] for name in outputs}, return_dict=True)
            step += 1
            if step % SHOWN == 0 or step == stage.steps:
                entry = {"stage": stage.name, "step": step}
                entry["steps_per_second"] = round((step - begun) / (time.monotonic() - started), 2)
                entry |= {name: round(float(value), 4) for name, value in result.items()}
                if not np.isfinite(entry["loss"]):
                    raise BadInput(
                        f"the loss became {entry['loss']} in step {step} of stage {stage.name}; lower its rate"
                    )
                model.reset_metrics()
                if step % every == 0 or step == stage.steps:
                    save(file, model, optimizer, step)
                    entry |= evaluate() if evaluate else {}
                log(directory, entry)


def log(directory: pathlib.Path, entry: dict) -> None:
    """Append an entry to the log, and show it."""
    with open(directory / "log.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
    print(", ".join(f"{name} {value}" for name, value in entry.items() if not isinstance(value, dict)), file=sys.stderr)


def save(file: pathlib.Path, model: keras.Model, optimizer, step: int) -> None:
    """Write a checkpoint, whole or not at all."""
    state = [np.asarray(variable) for variable in (*model.variables, *optimizer.variables)]
    unfinished = file.with_name(file.name + ".part.npz")
    np.savez(unfinished, step=step, **{str(number): value for number, value in enumerate(state)})
    os.replace(unfinished, file)


def restore(file: pathlib.Path, model: keras.Model, optimizer) -> int:
    """Read a checkpoint if it is there, and return the step it was written after, 0 without one."""
    if not file.exists():
        return 0
    with np.load(file, allow_pickle=False) as state:
        variables = [*model.variables, *optimizer.variables]
        fits = len(state.files) == len(variables) + 1 and all(
            state[str(number)].shape == tuple(variable.shape) for number, variable in enumerate(variables)
        )
        if not fits:
            raise BadInput(f"{file} is of another network; remove it or name another --checkpoint_dir")
        for number, variable in enumerate(variables):
            variable.assign(state[str(number)])
        return int(state["step"])


def accuracy(network: keras.Model, data: TrainingSet, rows: np.ndarray, batch_size: int = 64) -> np.ndarray:
    """Return which of some questions a network answers rightly, (len(rows),) bool, with all pairs."""
    right = np.zeros(len(rows), bool)
    for start in range(0, len(rows), batch_size):
        chosen = rows[start : start + batch_size]
        padded = np.resize(chosen, batch_size)
        images = data.images[data.image_of[padded]].astype(np.float32) / 255
        logits = network.predict_on_batch([images, data.tokens[padded].astype(np.int32)])
        right[start : start + batch_size] = (logits.argmax(axis=-1) == data.answers[padded])[: len(chosen)]
    return right


def accuracy_by_kind(network: keras.Model, data: TrainingSet, rows: np.ndarray) -> dict:
    """Return the accuracies on simple and on complex questions and, under ``families``, on each file of families."""
    right = accuracy(network, data, rows)
    files = np.array([family.rsplit(" ", 1)[0] for family in data.families[rows]])
    simple = files == "simple"
    result = {
        name: round(float(right[chosen].mean()), 4)
        for name, chosen in (("simple", simple), ("complex", ~simple))
        if chosen.any()
    }
    result["families"] = {str(name): round(float(right[files == name].mean()), 3) for name in np.unique(files)}
    return result


def program_accuracy(reading: keras.Model, data: TrainingSet, num_questions: int = 1000) -> float:
    """Return the share of questions, drawn over all files, all of whose program's nodes are named rightly."""
    rows = np.random.default_rng(0).permutation(len(data.tokens))[:num_questions]
    logits = reading.predict({"question": data.tokens[rows].astype(np.int32)}, batch_size=100, verbose=0)["program"]
    return round(float((logits.argmax(axis=-1) == data.programs[rows]).all(axis=-1).mean()), 4)


def cell_accuracy(seeing: keras.Model, data: TrainingSet, num_images: int = 400) -> dict:
    """Return the accuracy of each attribute over the cells with an object's centre, and of presence over all cells."""
    some = slice(num_images)
    logits = seeing.predict({"image": data.images[some]}, batch_size=50, verbose=0)["cells"]
    targets = training_batches.cell_targets(data.centres[some], data.owners[some], data.attributes[some])
    presence = (logits[..., 0] > 0) == (targets[..., 0] >= 0)
    present = targets[..., 4] == CENTRE
    result, start = {"presence": round(float(presence.mean()), 4)}, 1
    for position, (name, values) in enumerate(ATTRIBUTES.items()):
        found = logits[..., start : start + len(values)].argmax(axis=-1)
        result[name] = round(float((found == targets[..., position])[present].mean()), 4)
        start += len(values)
    return result


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
