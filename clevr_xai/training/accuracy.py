"""How much a Relation Network in training gets right: answers, programs, and what cells show."""

from __future__ import annotations

import keras
import numpy as np

from clevr_xai.training import batches, phrases
from clevr_xai.training.batches import CENTRE
from clevr_xai.training.training_set import TrainingSet
from clevr_xai.vocabulary import ATTRIBUTES


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
    """Return the accuracies on simple and on complex questions and, under ``families``, on each file of families.

    Where the questions are in several wordings, also on each kind in each of them.
    """
    right = accuracy(network, data, rows)
    files = np.array([family.rsplit(" ", 1)[0] for family in data.families[rows]])
    simple, wordings = files == "simple", data.wordings[rows]
    groups = {"simple": simple, "complex": ~simple}
    known = np.unique(wordings)
    if len(known) > 1:
        groups |= {f"{kind} {wording}": groups[kind] & (wordings == wording) for kind in groups for wording in known}
    result = {name: round(float(right[chosen].mean()), 4) for name, chosen in groups.items() if chosen.any()}
    result["families"] = {str(name): round(float(right[files == name].mean()), 3) for name in np.unique(files)}
    return result


def program_accuracy(reading: keras.Model, data: TrainingSet, num_questions: int = 1000) -> float:
    """Return the share of questions, drawn over all files, all of whose program's nodes are named rightly."""
    rows = np.random.default_rng(0).permutation(len(data.tokens))[:num_questions]
    logits = reading.predict({"question": data.tokens[rows].astype(np.int32)}, batch_size=100, verbose=0)["program"]
    return round(float((logits.argmax(axis=-1) == data.programs[rows]).all(axis=-1).mean()), 4)


def phrase_accuracy(reading: keras.Model, data: TrainingSet, num_questions: int = 1000) -> dict:
    """Return the share of questions all of whose phrases are told rightly, of each file of families."""
    rows = np.random.default_rng(0).permutation(len(data.tokens))[:num_questions]
    logits = reading.predict({"question": data.tokens[rows].astype(np.int32)}, batch_size=100, verbose=0)["phrases"]
    wanted, right, start = phrases.phrases(data.programs[rows]), np.ones(len(rows), bool), 0
    for entry, size in enumerate(phrases.SIZES):
        right &= (logits[..., start : start + size].argmax(axis=-1) == wanted[..., entry]).all(axis=-1)
        start += size
    files = np.array([family.rsplit(" ", 1)[0] for family in data.families[rows]])
    return {str(name): round(float(right[files == name].mean()), 3) for name in np.unique(files)}


def cell_accuracy(seeing: keras.Model, data: TrainingSet, num_images: int = 400) -> dict:
    """Return the accuracy of each attribute over the cells with an object's centre, and of presence over all cells."""
    some = slice(num_images)
    logits = seeing.predict({"image": data.images[some]}, batch_size=50, verbose=0)["cells"]
    targets = batches.cell_targets(data.centres[some], data.owners[some], data.attributes[some])
    presence = (logits[..., 0] > 0) == (targets[..., 0] >= 0)
    present = targets[..., 4] == CENTRE
    result, start = {"presence": round(float(presence.mean()), 4)}, 1
    for position, (name, values) in enumerate(ATTRIBUTES.items()):
        found = logits[..., start : start + len(values)].argmax(axis=-1)
        result[name] = round(float((found == targets[..., position])[present].mean()), 4)
        start += len(values)
    return result
