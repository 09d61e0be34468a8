"""Accuracy of a Relation Network: of its answers and of its auxiliary heads, and its logits on blank images.

Integrated Gradients from black explains f(image) - f(black). If f(black) is far outside the range of f(image), most of
such a map goes to the background. A network without confident answers leaves the subset of confident answers empty.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import keras
import numpy as np

from clevr_xai.answering import confidences
from clevr_xai.subsets import CONFIDENCE
from clevr_xai.training import targets
from clevr_xai.training.training_set import MAX_OBJECTS, TrainingSet
from clevr_xai.vocabulary import ATTRIBUTES

PIXEL_BANDS = (0, 40, 100, 200)  # visible pixels of 128x128 at which a band begins


def correct_answers(network: keras.Model, data: TrainingSet, rows: np.ndarray, batch_size: int = 64) -> np.ndarray:
    """Return whether a network answers some questions correctly, (len(rows),) bool, with all pairs of cells."""
    return _logits(network, data, rows, batch_size).argmax(axis=-1) == data.answers[rows]


def _logits(network, data, rows, batch_size, level=None) -> np.ndarray:
    """Return logits of questions about their images, or about blank ones of a level in [0, 1]."""
    found = []
    for start in range(0, len(rows), batch_size):
        chosen = np.resize(rows[start : start + batch_size], min(batch_size, len(rows)))  # one shape, one graph
        images = data.images[data.image_of[chosen]].astype(np.float32) / 255
        images = images if level is None else np.full_like(images, level)
        found.append(np.asarray(network.predict_on_batch([images, data.tokens[chosen].astype(np.int32)])))
    return np.concatenate(found)[: len(rows)]


def accuracy_by_kind(network: keras.Model, data: TrainingSet, rows: np.ndarray) -> dict:
    """Return the accuracies on simple and on complex questions and, under ``families``, on each file of families.

    Where the questions are in several wordings, also on each kind in each of them.
    """
    correct = correct_answers(network, data, rows)
    groups = {name: chosen[rows] for name, chosen in question_groups(data).items()}
    result: dict = {name: round(float(correct[chosen].mean()), 4) for name, chosen in groups.items() if chosen.any()}
    return result | {"families": _by_file(data.files[rows], correct)}


def question_groups(data: TrainingSet) -> dict[str, np.ndarray]:
    """Return which questions, (Q,) bool, are of each kind and, if they are in several wordings, of each in each."""
    groups = {"simple": data.files == "simple", "complex": data.files != "simple"}
    known = np.unique(data.wordings)
    if len(known) > 1:
        groups |= {f"{kind} {name}": groups[kind] & (data.wordings == name) for kind in groups for name in known}
    return groups


def _by_file(files: np.ndarray, correct: np.ndarray) -> dict[str, float]:
    return {str(name): round(float(correct[files == name].mean()), 3) for name in np.unique(files)}


def reading_accuracy(reading: keras.Model, data: TrainingSet, num_questions: int = 1000) -> dict:
    """Return the share of sampled questions all of whose program's nodes are predicted correctly, as ``programs``.

    And, as ``phrases``, the share of those all of whose phrases are, by file of families.
    """
    rows = np.random.default_rng(0).permutation(len(data.tokens))[:num_questions]
    logits = reading.predict({"question": data.tokens[rows].astype(np.int32)}, batch_size=100, verbose=0)
    programs = (logits["program"].argmax(axis=-1) == data.programs[rows]).all(axis=-1)
    parts = np.split(logits["phrases"], np.cumsum(targets.SLOT_SIZES)[:-1], axis=-1)
    found = np.stack([part.argmax(axis=-1) for part in parts], axis=-1)
    phrases = (found == targets.phrase_targets(data.programs[rows])).all(axis=(1, 2))
    return {"programs": round(float(programs.mean()), 4), "phrases": _by_file(data.files[rows], phrases)}


def cell_accuracy(seeing: keras.Model, data: TrainingSet, num_images: int = 400) -> dict:
    """Return the accuracy of each attribute over the cells with an object's centre, and of presence over all cells."""
    some = slice(num_images)
    logits = seeing.predict({"image": data.images[some]}, batch_size=50, verbose=0)["cells"]
    wanted = targets.cell_targets(data.centres[some], data.segmentation[some], data.attributes[some])
    presence = (logits[..., 0] > 0) == (wanted[..., 0] >= 0)
    present = wanted[..., 4] == targets.CENTRE
    result = {"presence": round(float(presence.mean()), 4)}
    parts = np.split(logits[..., 1:], np.cumsum([len(values) for values in ATTRIBUTES.values()])[:-1], axis=-1)
    for position, (name, part) in enumerate(zip(ATTRIBUTES, parts, strict=True)):
        result[name] = round(float((part.argmax(axis=-1) == wanted[..., position])[present].mean()), 4)
    return result


def visible_pixels(data: TrainingSet, rows: np.ndarray) -> np.ndarray:
    """Return how many of 128x128 pixels show the object that simple questions are about, (Q,) int64."""
    found = data.sets[rows]
    queried = found[np.arange(len(rows)), (found > 0).argmax(axis=1)]  # by the node nearest to the answer: "unique"
    position = np.round(np.log2(queried)).astype(np.int64)
    counts = np.array([np.bincount(image.ravel(), minlength=MAX_OBJECTS + 1) for image in data.segmentation])
    return counts[data.image_of[rows], position + 1]


def by_visible_pixels(data: TrainingSet, rows: np.ndarray, correct: np.ndarray) -> dict[str, np.ndarray]:
    """Split ``correct``, (Q,) bool, of the simple questions ``rows`` by the visible pixels of the queried object."""
    band = np.searchsorted(PIXEL_BANDS, visible_pixels(data, rows), side="right") - 1
    names = [f"{low} to {high - 1}" for low, high in itertools.pairwise(PIXEL_BANDS)] + [f"{PIXEL_BANDS[-1]} or more"]
    return {name: correct[band == number] for number, name in enumerate(names)}


def spread_rows(data: TrainingSet, number: int) -> dict[str, np.ndarray]:
    """Return the positions of ``number`` questions of each kind at most, spread evenly over the images."""
    return {
        kind: rows[np.linspace(0, len(rows) - 1, min(number, len(rows))).round().astype(np.int64)]
        for kind, rows in data.rows_of_kind().items()
    }


class BlankLogits(NamedTuple):
    """The logit f of the correct answer on images and on blank images, over ``number`` questions.

    ``correct`` of them are answered correctly, ``confident`` of these with a softmax above .99999. ``largest`` and
    ``median`` are those of f(image). ``black`` and ``gray`` are the largest |f| of an image of level 0 and .5.
    """

    number: int
    correct: int
    largest: float
    median: float
    black: float
    gray: float
    confident: int


def blank_logits(network: keras.Model, data: TrainingSet, rows: np.ndarray, batch_size: int = 64) -> BlankLogits:
    """Evaluate a network on some questions about their images, about black and about mid-gray."""
    levels = {"image": None, "black": 0.0, "gray": 0.5}
    logits = {
        name: _logits(network, data, rows, batch_size, level).astype(np.float64) for name, level in levels.items()
    }
    answers = data.answers[rows]
    scores = {name: values[np.arange(len(rows)), answers] for name, values in logits.items()}
    correct = logits["image"].argmax(axis=1) == answers
    largest = [float(np.abs(scores[name]).max()) for name in ("black", "gray")]
    confident = int((confidences(logits["image"])[correct] > CONFIDENCE).sum())
    image = scores["image"]
    return BlankLogits(len(rows), int(correct.sum()), float(image.max()), float(np.median(image)), *largest, confident)
