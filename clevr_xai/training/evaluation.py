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
    correct = np.zeros(len(rows), bool)
    batch_size = min(batch_size, len(rows))
    for start in range(0, len(rows), max(batch_size, 1)):
        chosen = rows[start : start + batch_size]
        padded = np.resize(chosen, batch_size)
        images = data.images[data.image_of[padded]].astype(np.float32) / 255
        logits = network.predict_on_batch([images, data.tokens[padded].astype(np.int32)])
        correct[start : start + batch_size] = (logits.argmax(axis=-1) == data.answers[padded])[: len(chosen)]
    return correct


def accuracy_by_kind(network: keras.Model, data: TrainingSet, rows: np.ndarray) -> dict:
    """Return the accuracies on simple and on complex questions and, under ``families``, on each file of families.

    Where the questions are in several wordings, also on each kind in each of them.
    """
    correct = correct_answers(network, data, rows)
    files, wordings = data.files[rows], data.wordings[rows]
    groups = {"simple": files == "simple", "complex": files != "simple"}
    known = np.unique(wordings)
    if len(known) > 1:
        groups |= {f"{kind} {wording}": groups[kind] & (wordings == wording) for kind in groups for wording in known}
    result = {name: round(float(correct[chosen].mean()), 4) for name, chosen in groups.items() if chosen.any()}
    result["families"] = {str(name): round(float(correct[files == name].mean()), 3) for name in np.unique(files)}
    return result


def program_accuracy(reading: keras.Model, data: TrainingSet, num_questions: int = 1000) -> float:
    """Return the share of sampled questions all of whose program's nodes are predicted correctly."""
    rows, predicted = _read_sample(reading, data, num_questions, "program")
    return round(float((predicted.argmax(axis=-1) == data.programs[rows]).all(axis=-1).mean()), 4)


def phrase_accuracy(reading: keras.Model, data: TrainingSet, num_questions: int = 1000) -> dict:
    """Return the share of sampled questions all of whose phrases are predicted correctly, by file of families."""
    rows, logits = _read_sample(reading, data, num_questions, "phrases")
    wanted, correct, start = targets.phrase_targets(data.programs[rows]), np.ones(len(rows), bool), 0
    for entry, size in enumerate(targets.SLOT_SIZES):
        correct &= (logits[..., start : start + size].argmax(axis=-1) == wanted[..., entry]).all(axis=-1)
        start += size
    files = data.files[rows]
    return {str(name): round(float(correct[files == name].mean()), 3) for name in np.unique(files)}


def _read_sample(reading: keras.Model, data: TrainingSet, number: int, output: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a random sample of questions, and an output of the reading model for them."""
    rows = np.random.default_rng(0).permutation(len(data.tokens))[:number]
    outputs = reading.predict({"question": data.tokens[rows].astype(np.int32)}, batch_size=100, verbose=0)
    return rows, outputs[output]


def cell_accuracy(seeing: keras.Model, data: TrainingSet, num_images: int = 400) -> dict:
    """Return the accuracy of each attribute over the cells with an object's centre, and of presence over all cells."""
    some = slice(num_images)
    logits = seeing.predict({"image": data.images[some]}, batch_size=50, verbose=0)["cells"]
    wanted = targets.cell_targets(data.centres[some], data.segmentation[some], data.attributes[some])
    presence = (logits[..., 0] > 0) == (wanted[..., 0] >= 0)
    present = wanted[..., 4] == targets.CENTRE
    result, start = {"presence": round(float(presence.mean()), 4)}, 1
    for position, (name, values) in enumerate(ATTRIBUTES.items()):
        found = logits[..., start : start + len(values)].argmax(axis=-1)
        result[name] = round(float((found == wanted[..., position])[present].mean()), 4)
        start += len(values)
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


def spread_rows(data: TrainingSet, number: int) -> np.ndarray:
    """Return the positions of ``number`` questions of each kind at most, spread evenly over the images."""
    return np.concatenate(
        [
            rows[np.linspace(0, len(rows) - 1, min(number, len(rows))).round().astype(np.int64)]
            for rows in data.rows_of_kind().values()
        ]
    )


class BlankLogits(NamedTuple):
    """The logit f of the correct answer on images and on blank images, over ``number`` questions.

    ``correct`` of them are answered correctly, ``confident`` of these with a softmax above .99999. ``largest`` and
    ``median`` are those of f(image). ``black`` and ``grey`` are the largest |f| of an image of level 0 and .5.
    """

    number: int
    correct: int
    largest: float
    median: float
    black: float
    grey: float
    confident: int


def blank_logits(network: keras.Model, data: TrainingSet, rows: np.ndarray, batch_size: int = 64) -> BlankLogits:
    """Evaluate a network on some questions about their images, about black and about mid-grey."""
    levels = {"black": 0.0, "grey": 0.5}
    found: dict[str, list[np.ndarray]] = {name: [] for name in ("image", *levels)}
    for start in range(0, len(rows), batch_size):
        chosen = rows[start : start + batch_size]
        images = data.images[data.image_of[chosen]].astype(np.float32) / 255
        tokens = data.tokens[chosen].astype(np.int32)
        found["image"].append(np.asarray(network.predict_on_batch([images, tokens])))
        for name, level in levels.items():
            found[name].append(np.asarray(network.predict_on_batch([np.full_like(images, level), tokens])))
    logits = {name: np.concatenate(parts).astype(np.float64) for name, parts in found.items()}
    answers = data.answers[rows]
    scores = {name: values[np.arange(len(rows)), answers] for name, values in logits.items()}
    correct = logits["image"].argmax(axis=1) == answers
    return BlankLogits(
        len(rows),
        int(correct.sum()),
        float(scores["image"].max()),
        float(np.median(scores["image"])),
        float(np.abs(scores["black"]).max()),
        float(np.abs(scores["grey"]).max()),
        int((confidences(logits["image"])[correct] > CONFIDENCE).sum()),
    )
