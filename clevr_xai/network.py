"""A network that answers questions about images, from its SavedModel, and the live Keras network behind it."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import attribution
from attribution.errors import BadInput
from clevr_xai import vocabulary

if TYPE_CHECKING:
    import keras

    from attribution.model.model import Model

INPUTS = ("image", "question")


class Answering:
    """A SavedModel with the signature of the Relation Network, its words and its answers.

    Parameters
    ----------
    path
        Directory of the SavedModel; its assets are described in ``vocabulary.read_assets``.

    Attributes
    ----------
    model : attribution.model.model.Model
        Loaded to explain logits.
    words, answers : list of str
        In the order of the tokens and of the logits.
    size : int
        Height and width of its images.

    Raises
    ------
    BadInput
        If there is no such SavedModel, it takes other inputs, or does not carry its words and answers.
    """

    def __init__(self, path: str | pathlib.Path):
        self.model = attribution.load_model(path, score="logits")
        given = self.model.inputs
        shape = given["image"].shape if set(given) == set(INPUTS) else None
        if shape is None or shape.rank != 4 or shape[1] is None or shape[1] != shape[2] or shape[3] != 3:
            shown = ", ".join(f"{name} {tuple(one.shape)}" for name, one in given.items())
            raise BadInput(
                f"{path} takes {shown}; a network for CLEVR-XAI takes image (batch, side, side, 3) and question "
                "(batch, words)"
            )
        self.words, self.answers = vocabulary.read_assets(self.model.path)
        if len(self.answers) != self.model.num_classes:
            raise BadInput(
                f"{path} gives {self.model.num_classes} logits, but its {vocabulary.ANSWERS_FILE} lists "
                f"{len(self.answers)} answers"
            )
        self.size = int(shape[1])

    def inputs(self, images: np.ndarray, questions: Sequence[str]) -> dict[str, np.ndarray]:
        """Return images, (N, side, side, 3) uint8, and sentences as the network takes them."""
        return {"image": scaled(images), "question": self.encoded(questions)}

    def encoded(self, questions: Sequence[str]) -> np.ndarray:
        """Return sentences as the network takes them, (N, words) int32."""
        width = self.model.inputs["question"].shape[1]  # None unless the signature is of so many words
        return vocabulary.encode(questions, self.words, None if width is None else int(width))

    def targets(self, answers: Sequence[str]) -> np.ndarray:
        """Return the logits' places of answers, (N,) int64; -1 for one that the network cannot give."""
        places = {answer: place for place, answer in enumerate(self.answers)}
        return np.array([places.get(answer, -1) for answer in answers], np.int64)


def scaled(images: np.ndarray) -> np.ndarray:
    """Return uint8 images as float32 in [0, 1]."""
    return images.astype(np.float32) / 255


def confidences(logits: np.ndarray) -> np.ndarray:
    """Return the softmax of each row's highest logit, (N,) float64."""
    logits = np.asarray(logits, np.float64)
    return 1 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)


def live_network(model: Model) -> keras.Model:
    """Return the live network behind a Relation Network of any width, of two inputs, ``image`` and ``question``.

    Raises
    ------
    BadInput
        If the SavedModel is of another architecture.
    """
    from clevr_xai import relation_network

    loaded = model.load_file()  # a variable, since its variables live no longer than it
    variables = loaded.signatures["serving_default"].variables
    values = {variable_name(variable.name.split(":")[0]): variable for variable in variables}
    widths = _widths(values, "relations/g1_question/kernel", "relations/g{}/kernel")
    head = _widths(values, "f/f1/kernel", "f/f{}/kernel")
    channels, size = _widths(values, "convolutions/conv1/kernel", ""), model.inputs["image"].shape[1]
    live = relation_network.build(widths, head, channels[0], size) if widths and head and channels else None
    if live is None or _shapes(values) != {variable_name(weight.path): tuple(weight.shape) for weight in live.weights}:
        raise BadInput(
            f"this method needs the live Keras network behind '{model.path}', which is not a Relation Network exported "
            "by scripts/train_relation_network.py; no other network of CLEVR-XAI has one"
        )
    live.set_weights([values[variable_name(weight.path)].numpy() for weight in live.weights])
    return _without_networks_inside(live)


def _without_networks_inside(live: keras.Model) -> keras.Model:
    """Return the same function without networks as layers, in which tf-keras-vis finds no convolution."""
    import keras

    def applied(name: str, values: Any) -> Any:
        return functools.reduce(lambda found, layer: layer(found), live.get_layer(name).layers, values)

    image, question = live.inputs
    cells = live.get_layer("coordinates")(applied("convolutions", image))
    related = live.get_layer("relations")(cells, live.get_layer("question_encoder")(question))
    return keras.Model([image, question], applied("f", related))


def variable_name(path: str) -> str:
    """Return a variable's name without the number that Keras gives a layer built for the second time in a process."""
    return re.sub(r"_\d+(?=/recurrent)", "", path)


def _shapes(values) -> dict[str, tuple]:
    return {name: tuple(value.shape) for name, value in values.items()}


def _widths(values, first: str, pattern: str) -> list[int]:
    """Return the last axis of the kernels of a chain of layers, from the first on, as far as they exist."""
    found, name = [], first
    while name in values:
        found.append(int(values[name].shape[-1]))
        name = pattern.format(len(found) + 1)
    return found
