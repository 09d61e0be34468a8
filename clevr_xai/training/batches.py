"""Batches for the Relation Network: questions, altered images, or both with the pairs of cells that a step sums.

Each batch follows from the data and a generator of random numbers alone.
"""

from __future__ import annotations

import numpy as np

from clevr_xai.tokens import FIRST_WORD
from clevr_xai.training import augmentation, compared, operands, pair_samples, phrases
from clevr_xai.training.training_set import MOST_OBJECTS, NODES, TrainingSet, cell_of
from clevr_xai.vocabulary import QUESTION_WORDS

CELLS = 7
SEEN = 26  # pixels, a tenth of a cell's square, from which on a cell shows an object

Batch = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


def reading_batch(data: TrainingSet, rng: np.random.Generator, num_questions: int) -> Batch:
    """Draw questions, half of them with left and right exchanged.

    Returns
    -------
    inputs : dict
        ``question`` (num_questions, L) int32.
    targets : dict
        ``program`` (num_questions, 24) int32, and ``phrases`` (num_questions, 9, 5) int32, see ``phrases.phrases``.
    """
    rows = rng.integers(0, len(data.tokens), num_questions)
    mirrored = rng.random(num_questions) < 0.5
    words, programs = data.tokens[rows], data.programs[rows]
    words[mirrored] = MIRRORED_TOKENS[words[mirrored]]
    programs[mirrored] = MIRRORED_NODES[programs[mirrored]]
    length = -(-int((words > 0).any(axis=0).sum()) // 8) * 8  # few different lengths: each is compiled once
    words = np.pad(words, ((0, 0), (0, 8)))[:, :length]
    return {"question": words.astype(np.int32)}, {
        "program": programs.astype(np.int32),
        "phrases": phrases.phrases(programs),
    }


def seeing_batch(
    data: TrainingSet,
    rng: np.random.Generator,
    num_images: int,
    mirror: float = 0.5,
    shift: int = 6,
    relit: bool = True,
) -> Batch:
    """Draw images.

    Returns
    -------
    inputs : dict
        ``image`` (num_images, 128, 128, 3) uint8.
    targets : dict
        ``cells`` (num_images, 49, 5) int32, see ``cell_targets``.
    """
    images, targets, _, _, _ = _views(data, rng, num_images, mirror, shift, relit)
    return {"image": images}, {"cells": targets}


def answering_batch(
    data: TrainingSet,
    rng: np.random.Generator,
    num_images: int,
    num_questions: int,
    num_pairs: int,
    mirror: float = 0.5,
    shift: int = 6,
    relit: bool = True,
) -> Batch:
    """Draw images, questions about each by their codes, and pairs of cells.

    Parameters
    ----------
    data
        With ``codes``.
    rng
    num_images, num_questions
        Images, and questions about each.
    num_pairs
        See ``pair_samples.draw``.
    mirror
        Share of mirrored images.
    shift
        Most pixels by which an image is moved along each axis.
    relit
        Whether images come under another light, see ``light.relit``.

    Returns
    -------
    inputs : dict
        ``image`` (B, 128, 128, 3) uint8, ``pairs`` (B, num_pairs, 2) int32, ``pair_weights`` (B, num_pairs) float32,
        ``code`` (B, num_questions, 128) float32, ``rows`` (B, 10, num_pairs) float32: 1 for the pairs of an object's
        centre, first, with each object's.
    targets : dict
        ``answer`` (B, num_questions), ``cells`` (B, 49, 5) and ``members`` (B, num_questions, 10, 24), int32: whether
        an object is in the set that a node of the program finds, -1 for no object or no set. ``compared``
        (B, num_questions, num_pairs) int32, see ``compared.pair_targets``; ``operands`` (B, num_questions, 2) int32,
        see ``operands.operands``.
    """
    images, targets, chosen, mirrored, cells = _views(data, rng, num_images, mirror, shift, relit)
    centred = targets[..., 4] == CENTRE
    pairs, weights = pair_samples.draw(centred, targets[..., 0] >= 0, num_pairs, rng)
    counted = np.take_along_axis(centred, pairs[..., 1], axis=1) & (weights > 0)
    of_centres = counted & np.take_along_axis(centred, pairs[..., 0], axis=1)
    about = [slice(*data.first_question[image : image + 2]) for image in chosen]
    rows = np.stack([each.start + _some(rng, question_weights(data.families[each]), num_questions) for each in about])
    inputs = {
        "image": images,
        "pairs": pairs,
        "pair_weights": weights,
        "code": data.codes[mirrored.astype(np.int64)[:, None], rows],
        "rows": ((pairs[:, None, :, 0] == cells[:, :, None]) & counted[:, None]).astype(np.float32),
    }
    members = data.sets[rows][:, :, None] >> np.arange(MOST_OBJECTS)[:, None] & 1
    known = (data.sets[rows] >= 0)[:, :, None] & (cells >= 0)[:, None, :, None]
    return inputs, {
        "answer": data.answers[rows].astype(np.int32),
        "cells": targets,
        "members": np.where(known, members, -1).astype(np.int32),
        "compared": compared.pair_targets(
            compared.compared_objects(data.programs[rows], data.sets[rows]),
            data.answers[rows],
            cells,
            pairs,
            of_centres,
        ),
        "operands": operands.operands(
            data.programs[rows],
            data.sets[rows],
            np.repeat(data.attributes[chosen][:, None], num_questions, axis=1),
        ),
    }


CENTRE, PART = 1, 0  # what ``cell_targets`` says last: whether an object has its centre in a cell, or only some pixels


def cell_targets(centres: np.ndarray, owners: np.ndarray, attributes: np.ndarray) -> np.ndarray:
    """Return what each cell shows.

    Parameters
    ----------
    centres : (B, objects, 2)
        Column and row, nan for none.
    owners : (B, 128, 128) uint8
        1 plus the position of the object a pixel shows, 0 for none.
    attributes : (B, objects, 4)

    Returns
    -------
    (B, 49, 5) int32
        The attributes of the object that has its centre in the cell, else of the one with most pixels, if they are
        26 or more; then ``CENTRE`` or ``PART``. -1 five times where no object is shown. Of two centres in one cell
        that of the object listed first counts.
    """
    shown = shown_objects(owners)
    centred = np.full((len(centres), CELLS**2 + 1), -1, np.int64)
    rows, cells = np.arange(len(centres)), cell_of(centres)
    for position in reversed(range(cells.shape[1])):
        centred[rows, cells[:, position]] = np.where(cells[:, position] < 0, -1, position)
    centred = centred[:, :-1]
    item = np.where(centred >= 0, centred, shown)
    values = np.take_along_axis(attributes, np.maximum(item, 0)[..., None], axis=1)
    kind = np.where(centred >= 0, CENTRE, PART)[..., None]
    return np.where(item[..., None] >= 0, np.concatenate([values, kind], axis=-1), -1).astype(np.int32)


def shown_objects(owners: np.ndarray) -> np.ndarray:
    """Return the object with most pixels in each cell's square, (B, 49), -1 where they are fewer than 26."""
    line = np.arange(owners.shape[1])
    nearest = cell_of(np.stack(np.meshgrid(line, line), axis=-1))
    place = np.arange(len(owners))[:, None, None] * CELLS**2 + nearest
    kinds = MOST_OBJECTS + 1
    counts = np.bincount((place * kinds + owners).ravel(), minlength=len(owners) * CELLS**2 * kinds)
    counts = counts.reshape(len(owners), CELLS**2, kinds)[..., 1:]
    return np.where(counts.max(axis=-1) >= SEEN, counts.argmax(axis=-1), -1)


def augmented(images, owners, centres, rng, mirrored: np.ndarray, shift: int):
    """Return images moved by up to ``shift`` pixels along each axis, some mirrored, with the places of their objects.

    What comes in at the borders repeats the border.
    """
    size = images.shape[1]
    border = ((0, 0), (shift, shift), (shift, shift))
    moves = rng.integers(0, 2 * shift + 1, (len(images), 2))
    results = []
    for pixels in (images, owners):
        padded = np.pad(pixels, (*border, *[(0, 0)] * (pixels.ndim - 3)), mode="edge")
        moved = np.empty_like(pixels)
        for row, (down, right) in enumerate(moves):
            moved[row] = padded[row, down : down + size, right : right + size]
        moved[mirrored] = moved[mirrored, :, ::-1]
        results.append(moved)
    centres = centres + (shift - moves[:, None, ::-1])
    centres[mirrored, :, 0] = size - 1 - centres[mirrored, :, 0]
    return *results, centres


def _views(data: TrainingSet, rng, num_images: int, mirror: float, shift: int, relit: bool):
    """Return augmented images, what their cells show, which images they are, which are mirrored, objects' cells."""
    chosen = rng.integers(0, len(data.images), num_images)
    mirrored = rng.random(num_images) < mirror
    images, owners, centres = augmented(
        data.images[chosen], data.owners[chosen], data.centres[chosen], rng, mirrored, shift
    )
    cells = cell_targets(centres, owners, data.attributes[chosen])
    return augmentation.relit(images, rng) if relit else images, cells, chosen, mirrored, cell_of(centres)


# How often questions of a file of families are drawn, beside 1: simple ones are few, and those that follow two phrases
# are learnt last.
DRAWN = {"simple": 2, "comparison": 3, "compare_integer": 2, "single_and": 2, "single_or": 2}


def question_weights(families: np.ndarray) -> np.ndarray:
    """Return how often each question is drawn beside others about its image, (Q,)."""
    return np.select([np.char.startswith(families, f"{name} ") for name in DRAWN], list(DRAWN.values()), 1)


def _some(rng, weights: np.ndarray, number: int) -> np.ndarray:
    """Return the places of ``number`` of some questions, none twice as long as there are enough.

    The order is that of a race in which each arrives after a time drawn from an exponential distribution at its weight:
    the first ones are a draw by weight without putting back (Efraimidis and Spirakis, 2006).
    """
    return np.resize(np.argsort(rng.exponential(size=len(weights)) / weights), number)


def _exchange(names, first: str, second: str, offset: int = 0) -> np.ndarray:
    """Return the numbers of ``names``, from ``offset`` on, with two of them exchanged."""
    table = np.arange(len(names) + offset)
    one, two = names.index(first) + offset, names.index(second) + offset
    table[[one, two]] = table[[two, one]]
    return table


MIRRORED_TOKENS = _exchange(QUESTION_WORDS, "left", "right", FIRST_WORD)
MIRRORED_NODES = _exchange(NODES, "relate left", "relate right")
