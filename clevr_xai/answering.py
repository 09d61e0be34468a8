"""A network that answers questions about images, from its SavedModel."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

import attribution
from attribution.errors import BadInput
from clevr_xai import tokens

INPUTS = ("image", "question")


class Answering:
    """A SavedModel with the signature of the Relation Network, its words and its answers.

    Parameters
    ----------
    path
        Directory of the SavedModel; its assets are described in ``tokens.read_assets``.

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
        self.words, self.answers = tokens.read_assets(self.model.path)
        if len(self.answers) != self.model.num_classes:
            raise BadInput(
                f"{path} gives {self.model.num_classes} logits, but its {tokens.ANSWERS_FILE} lists "
                f"{len(self.answers)} answers"
            )
        self.size = int(shape[1])

    def inputs(self, images: np.ndarray, questions: Sequence[str]) -> dict[str, np.ndarray]:
        """Return images, (N, side, side, 3) uint8, and sentences as the network takes them."""
        return {"image": scaled(images), "question": self.encoded(questions)}

    def encoded(self, questions: Sequence[str]) -> np.ndarray:
        """Return sentences as the network takes them, (N, words) int32."""
        width = self.model.inputs["question"].shape[1]  # None unless the signature is of so many words
        return tokens.encode(questions, self.words, None if width is None else int(width))

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
