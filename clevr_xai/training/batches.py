"""Batches for the Relation Network: questions, augmented images, or both with the pairs of cells that a step sums.

A batch is a function of the data and of a random generator alone.

Colours are augmented because a network that saw one exposure only extrapolates wildly to others. Integrated Gradients
goes from black or gray to the image, so some images are faded to an even picture. Half of the images keep their
colours: with only 24 channels, a network that sees altered ones alone distinguishes fewer shapes.

A step sums g over a sample of the 2,401 pairs of cells. It includes all pairs of two objects' centres. The others are
sampled from three strata (pairs of two cells that show objects, of one, and of none) and weighted by the stratum's size
over the sample's. The weighted sum is unbiased, and the weights always add up to 2,401: a term that is the same for all
pairs adds no noise.

Targets of the auxiliary losses follow from a question's program and a scene:

- ``cell_targets``: the object in each cell of the last feature map.
- ``phrase_targets``: the attributes and the relation of each noun phrase. The list of a program's nodes puts a phrase
  at positions that depend on the phrases after it; here each phrase has a fixed slot. A program is a trunk, from its
  last node to the scene or to the node that joins two branches. Each of these is a chain of phrases, from the described
  objects to those that describe them: "the cube | left of | the ball".
- ``comparison_targets``: which pairs of cells show the two objects that a question compares. The answer alone hardly
  teaches which pair decides: without this target a network answered 52.9 % of such questions, with it 55.4 % after
  9,000 further steps.
- ``operand_targets``: the two compared values or numbers. Yes or no alone hardly teaches to find either of them.
"""

from __future__ import annotations

import numpy as np

from clevr_xai.training.training_set import CELLS, MAX_NODES, MAX_OBJECTS, NODES, TrainingSet, cell_of
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, FIRST_WORD, INTEGERS, QUESTION_WORDS, RELATIONS

MIN_PIXELS = 26  # a tenth of a cell's square, from which on a cell shows an object
CENTRE, PART = 1, 0  # last entry of ``cell_targets``: the cell has the object's centre, or only some of its pixels

CHAIN = 4  # phrases of a chain: three relations
SLOTS = 1 + 2 * CHAIN  # the trunk's first phrase, then two branches; a trunk alone is the first branch
_RELATIONS = [*(f"relate {name}" for name in RELATIONS), *(f"same_{name}" for name in ATTRIBUTES)]
SLOT_SIZES = (*(len(values) + 1 for values in ATTRIBUTES.values()), len(_RELATIONS) + 1)  # 0 is none
_JOIN = np.array([name in ("union", "intersect") for name in NODES])
_SCENE = NODES.index("scene")
_RELATION = np.array([_RELATIONS.index(name) + 1 if name in _RELATIONS else 0 for name in NODES])
_FILTER = np.array(
    [
        [values.index(name.partition(" ")[2]) + 1 if name.startswith(f"filter_{attribute} ") else 0 for name in NODES]
        for attribute, values in ATTRIBUTES.items()
    ]
)

OTHER, EQUAL, DIFFERENT = 0, 1, 2  # relation of a pair of cells to a question that compares; -1 if unknown
_EQUAL = [NODES.index(name) for name in NODES if name.startswith("equal_") and name != "equal_integer"]
_QUERY = [NODES.index(name) for name in NODES if name.startswith("query_")]
_YES = ANSWERS.index("yes")

OPERANDS = 2
_ATTRIBUTE_OF = np.full(len(NODES), -1)
for _position, _name in enumerate(ATTRIBUTES):
    _ATTRIBUTE_OF[NODES.index(f"query_{_name}")] = _position
_COUNT = NODES.index("count")
_FIRST_NUMBER = ANSWERS.index(str(INTEGERS[0]))
_ANSWER_OF = np.array(  # (attribute, value) -> position in ANSWERS
    [
        [ANSWERS.index(value) for value in values] + [-1] * (max(map(len, ATTRIBUTES.values())) - len(values))
        for values in ATTRIBUTES.values()
    ]
)


def cell_targets(centres: np.ndarray, segmentation: np.ndarray, attributes: np.ndarray) -> np.ndarray:
    """Return the object that each cell shows.

    Parameters
    ----------
    centres : (B, objects, 2)
        Column and row, nan for none.
    segmentation, attributes
        Rows of a ``TrainingSet``.

    Returns
    -------
    (B, 49, 5) int32
        The attributes of the object that has its centre in the cell, else of the one with most pixels, if they are
        26 or more; then ``CENTRE`` or ``PART``. -1 five times where no object is visible. Of two centres in one cell
        that of the object listed first counts.
    """
    dominant = dominant_objects(segmentation)
    centred = np.full((len(centres), CELLS**2 + 1), -1, np.int64)
    rows, cells = np.arange(len(centres)), cell_of(centres)
    for position in reversed(range(cells.shape[1])):
        centred[rows, cells[:, position]] = np.where(cells[:, position] < 0, -1, position)
    centred = centred[:, :-1]
    item = np.where(centred >= 0, centred, dominant)
    values = np.take_along_axis(attributes, np.maximum(item, 0)[..., None], axis=1)
    kind = np.where(centred >= 0, CENTRE, PART)[..., None]
    return np.where(item[..., None] >= 0, np.concatenate([values, kind], axis=-1), -1).astype(np.int32)


def dominant_objects(segmentation: np.ndarray) -> np.ndarray:
    """Return the object with most pixels in each cell's square, (B, 49), -1 where they are fewer than 26."""
    line = np.arange(segmentation.shape[1])
    nearest = cell_of(np.stack(np.meshgrid(line, line), axis=-1))
    cell = np.arange(len(segmentation))[:, None, None] * CELLS**2 + nearest
    kinds = MAX_OBJECTS + 1
    counts = np.bincount((cell * kinds + segmentation).ravel(), minlength=len(segmentation) * CELLS**2 * kinds)
    counts = counts.reshape(len(segmentation), CELLS**2, kinds)[..., 1:]
    return np.where(counts.max(axis=-1) >= MIN_PIXELS, counts.argmax(axis=-1), -1)


def phrase_targets(programs: np.ndarray) -> np.ndarray:
    """Return the content of the phrases of programs, (N, 24) int as in a ``TrainingSet``.

    It is (N, 9, 5) int32: for each slot the number from 1 of the named size, color, material and shape, and of the
    relation to the next phrase; 0 for none.
    """
    found = np.zeros((len(programs), SLOTS, len(SLOT_SIZES)), np.int32)
    joined = _JOIN[programs].any(axis=1)
    rows = np.arange(len(programs))
    slot = np.where(joined, 0, 1)
    for node in programs.T:
        for entry, table in enumerate((*_FILTER, _RELATION)):
            values = table[node]
            named = values > 0
            found[rows[named], slot[named], entry] = values[named]
        slot = np.where(_RELATION[node] > 0, np.minimum(slot + 1, SLOTS - 1), slot)
        slot = np.where(_JOIN[node], 1, slot)
        slot = np.where(node == _SCENE, 1 + CHAIN, slot)  # another branch, or nothing more
    return found


def compared_objects(programs: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Return the two objects whose attribute a question compares, from (..., 24) ``programs`` and ``sets``.

    They are (..., 2) int64 positions in the scene, -1 twice for any other question and for a program longer than 24
    nodes.
    """
    queries = np.isin(programs, _QUERY)
    both = _first_two(programs, sets, queries)[1]
    known = np.isin(programs[..., 0], _EQUAL) & (queries.sum(axis=-1) == 2) & (both > 0).all(axis=-1)
    objects = np.log2(np.maximum(both, 1)).round().astype(np.int64)
    return np.where(known[..., None], objects, -1)


def comparison_targets(
    objects: np.ndarray, answers: np.ndarray, cells: np.ndarray, pairs: np.ndarray, counted: np.ndarray
) -> np.ndarray:
    """Return the relation of each pair of cells to each question.

    Parameters
    ----------
    objects : (B, questions, 2)
        From ``compared_objects``.
    answers : (B, questions)
    cells : (B, objects)
        Of each object's centre, -1 for none.
    pairs, counted : (B, P, 2) and (B, P)
        Pairs, and whether each is of two cells with centres.

    Returns
    -------
    (B, questions, P) int32
        ``EQUAL`` or ``DIFFERENT`` for the two pairs of the compared objects' cells, ``OTHER`` for other counted pairs.
        -1 for pairs that are not counted, questions that do not compare, and objects that share their cell.
    """
    places = np.take_along_axis(cells[:, None], np.maximum(objects, 0), axis=2)
    shared = (cells[:, None, None] == places[..., None]).sum(axis=-1)  # objects with their centres in the same cell
    known = (objects >= 0).all(axis=-1) & (places >= 0).all(axis=-1) & (shared == 1).all(axis=-1)
    these = np.zeros((*known.shape, pairs.shape[1]), bool)
    for order in (places, places[..., ::-1]):
        these |= (pairs[:, None] == order[:, :, None]).all(axis=-1)
    verdict = np.where(answers == _YES, EQUAL, DIFFERENT)[..., None]
    known = known[..., None] & counted[:, None]
    return np.where(known, np.where(these, verdict, OTHER), -1).astype(np.int32)


def operand_targets(programs: np.ndarray, sets: np.ndarray, attributes: np.ndarray) -> np.ndarray:
    """Return the two operands of each question that compares; ``attributes`` are (..., objects, 4) of its scene.

    They are (..., 2) int32 positions in ``vocabulary.ANSWERS``, the operand that the program computes last first; -1
    twice for questions that compare nothing and for programs longer than 24 nodes.
    """
    computed = (_ATTRIBUTE_OF[programs] >= 0) | (programs == _COUNT)
    nodes, which = _first_two(programs, sets, computed)
    size = sum(which >> bit & 1 for bit in range(attributes.shape[-2]))
    item = np.log2(np.maximum(which & -which, 1)).astype(np.int64)  # the only one where the node is a query
    attribute = np.maximum(_ATTRIBUTE_OF[nodes], 0)
    values = np.take_along_axis(attributes, item[..., None], axis=-2)
    value = _ANSWER_OF[attribute, np.take_along_axis(values, attribute[..., None], axis=-1)[..., 0]]
    both = np.where(which < 0, -1, np.where(nodes == _COUNT, _FIRST_NUMBER + size, value))
    known = (computed.sum(axis=-1) == OPERANDS) & (both >= 0).all(axis=-1)
    return np.where(known[..., None], both, -1).astype(np.int32)


def _first_two(programs: np.ndarray, sets: np.ndarray, selected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two selected nodes and the sets that are their inputs, (..., 2) each.

    Neither means anything where fewer than two nodes are selected by ``selected``, (..., 24) bool.
    """
    order = np.cumsum(selected, axis=-1)
    place = np.stack([(order == number).argmax(axis=-1) for number in range(1, OPERANDS + 1)], axis=-1)
    after = np.minimum(place + 1, MAX_NODES - 1)
    return np.take_along_axis(programs, place, axis=-1), np.take_along_axis(sets.astype(np.int64), after, axis=-1)


LENGTHS = 8  # of questions in a batch are multiples of this: a graph is compiled for each length
MIRRORED, SHIFT = 0.5, 6  # share of mirrored images; largest translation along each axis in pixels
JITTERED = 0.5  # share of the images whose colours are altered
GAIN = 1.6  # exposure is divided or multiplied by up to this
CONTRAST = 0.25  # of each image around its mean, more or less by up to this
TEMPERATURE = 0.12  # red is multiplied, blue divided, by up to 1 plus this, or the reverse
NOISE = 4.0  # largest standard deviation, in gray levels
FADED = 0.24  # share of these that are mixed with an even picture
EVEN = 0.2  # share of the faded images of which nothing is left
BLACK = 0.5  # share of the even pictures that are black; the others have one random gray level
# Shares of the sampled pairs: pairs of cells that show objects vary most, pairs of empty cells least.
TWO_VISIBLE, NONE_VISIBLE = 0.5, 0.15
Batch = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


def reading_batch(data: TrainingSet, rng: np.random.Generator, num_questions: int) -> Batch:
    """Sample questions, half of them with left and right exchanged.

    Their ``question`` is (num_questions, L) int32; the targets are ``program`` (num_questions, 24) and ``phrases``
    (num_questions, 9, 5) int32.
    """
    rows = rng.integers(0, len(data.tokens), num_questions)
    mirrored = rng.random(num_questions) < 0.5
    words, programs = data.tokens[rows], data.programs[rows]
    words[mirrored] = MIRRORED_TOKENS[words[mirrored]]
    programs[mirrored] = MIRRORED_NODES[programs[mirrored]]
    length = -(-int((words > 0).any(axis=0).sum()) // LENGTHS) * LENGTHS
    words = np.pad(words, ((0, 0), (0, LENGTHS)))[:, :length]
    return {"question": words.astype(np.int32)}, {
        "program": programs.astype(np.int32),
        "phrases": phrase_targets(programs),
    }


def seeing_batch(data: TrainingSet, rng: np.random.Generator, num_images: int) -> Batch:
    """Sample augmented images: ``image`` (num_images, 128, 128, 3) uint8 and ``cells`` of ``cell_targets``."""
    images, shown, _, _ = _augmented_images(data, rng, rng.integers(0, len(data.images), num_images))
    return {"image": images}, {"cells": shown}


def answering_batch(
    data: TrainingSet, rng: np.random.Generator, num_images: int, num_questions: int, num_pairs: int
) -> Batch:
    """Sample augmented images, ``num_questions`` about each by their codes, and pairs of cells (``sample_pairs``).

    Returns
    -------
    inputs : dict
        ``image`` (B, 128, 128, 3) uint8, ``pairs`` (B, num_pairs, 2) int32, ``pair_weights`` (B, num_pairs) float32,
        ``code`` (B, num_questions, 128) float32, ``rows`` (B, 10, num_pairs) float32: 1 for the pairs of an object's
        centre, first, with each object's.
    targets : dict
        ``answer`` (B, num_questions), ``cells`` (B, 49, 5) and ``members`` (B, num_questions, 10, 24), int32: whether
        an object is in the set that a node of the program finds, -1 for no object or no set. ``compared``
        (B, num_questions, num_pairs) int32, see ``comparison_targets``; ``operands`` (B, num_questions, 2)
        int32.
    """
    chosen = rng.integers(0, len(data.images), num_images)
    images, shown, mirrored, cells = _augmented_images(data, rng, chosen)
    kinds = np.where(shown[..., 0] < 0, -1, shown[..., 4])
    centred = kinds == CENTRE
    pairs, weights = sample_pairs(centred, kinds >= 0, num_pairs, rng)
    counted = np.take_along_axis(centred, pairs[..., 1], axis=1)
    of_centres = counted & np.take_along_axis(centred, pairs[..., 0], axis=1)
    about = [slice(*data.first_question[image : image + 2]) for image in chosen]
    rows = np.stack([each.start + _weighted_sample(rng, data.sampling_weights[each], num_questions) for each in about])
    inputs = {
        "image": images,
        "pairs": pairs,
        "pair_weights": weights,
        "code": data.codes[mirrored.astype(np.int64)[:, None], rows],
        "rows": ((pairs[:, None, :, 0] == cells[:, :, None]) & counted[:, None]).astype(np.float32),
    }
    members = data.sets[rows][:, :, None] >> np.arange(MAX_OBJECTS)[:, None] & 1
    known = (data.sets[rows] >= 0)[:, :, None] & (cells >= 0)[:, None, :, None]
    objects = compared_objects(data.programs[rows], data.sets[rows])
    attributes = np.repeat(data.attributes[chosen][:, None], num_questions, axis=1)
    return inputs, {
        "cells": shown,
        "answer": data.answers[rows].astype(np.int32),
        "members": np.where(known, members, -1).astype(np.int32),
        "compared": comparison_targets(objects, data.answers[rows], cells, pairs, of_centres),
        "operands": operand_targets(data.programs[rows], data.sets[rows], attributes),
    }


def _augmented_images(
    data: TrainingSet, rng: np.random.Generator, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return augmented images of the rows ``chosen``, their ``cell_targets``, which are mirrored, and objects' cells.

    They are (B, 128, 128, 3) uint8, (B, 49, 5) int32, (B,) bool and (B, 10) int64, -1 for no object.
    """
    mirrored = rng.random(len(chosen)) < MIRRORED
    images, segmentation, centres = move(
        data.images[chosen], data.segmentation[chosen], data.centres[chosen], rng, mirrored
    )
    shown = cell_targets(centres, segmentation, data.attributes[chosen])
    altered = rng.random(len(images)) < JITTERED
    images[altered] = jitter_colors(images[altered], rng)
    return images, shown, mirrored, cell_of(centres)


def move(images, segmentation, centres, rng: np.random.Generator, mirrored: np.ndarray):
    """Return images, segmentations and centres after a random translation, some of them mirrored.

    The border is repeated outside the image.
    """
    size = images.shape[1]
    border = ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT))
    moves = rng.integers(0, 2 * SHIFT + 1, (len(images), 2))
    results = []
    for pixels in (images, segmentation):
        padded = np.pad(pixels, (*border, *[(0, 0)] * (pixels.ndim - 3)), mode="edge")
        moved = np.empty_like(pixels)
        for row, (down, right) in enumerate(moves):
            moved[row] = padded[row, down : down + size, right : right + size]
        moved[mirrored] = moved[mirrored, :, ::-1]
        results.append(moved)
    centres = centres + (SHIFT - moves[:, None, ::-1])
    centres[mirrored, :, 0] = size - 1 - centres[mirrored, :, 0]
    return *results, centres


def jitter_colors(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return (B, height, width, 3) uint8 images with another exposure, contrast, temperature and noise, some faded."""
    number = len(images)

    def uniform(low, high):
        return rng.uniform(low, high, (number, 1, 1, 1)).astype(np.float32)

    gain = GAIN ** uniform(-1, 1)
    warmth = (1 + TEMPERATURE) ** uniform(-1, 1)
    color = np.concatenate([warmth, np.ones_like(warmth), 1 / warmth], axis=-1)
    values = images * (gain * color)
    mean = values.mean(axis=(1, 2, 3), keepdims=True)
    values = mean + (values - mean) * uniform(1 - CONTRAST, 1 + CONTRAST)
    values += rng.standard_normal(images.shape, np.float32) * uniform(0, NOISE)
    even = np.where(uniform(0, 1) < BLACK, 0, uniform(0, 255))
    share = np.where(uniform(0, 1) < FADED, np.minimum(uniform(0, 1 / (1 - EVEN)), 1), 0)
    values += share * (even - values)
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def sample_pairs(
    centres: np.ndarray, visible: np.ndarray, number: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sample pairs of cells with their weights.

    Parameters
    ----------
    centres, visible : (B, cells) bool
        Cells with an object's centre, all of whose pairs are included, and cells that show an object, these among them.
    number
        Of the pairs an image, at least three more than any image has pairs of centres, at most all.

    Returns
    -------
    pairs : (B, number, 2) int32
        First and second cell.
    weights : (B, number) float32
        Number of pairs that each represents.

    Raises
    ------
    ValueError
        If the number is too small.
    """
    batch, cells = centres.shape
    certain = centres[:, :, None] & centres[:, None, :]
    either = visible[:, :, None].astype(np.int8) + visible[:, None, :]
    stratum = np.where(certain, 0, 3 - either).reshape(batch, cells**2)  # 1: two visible, 2: one, 3: none
    sizes = (stratum[:, :, None] == np.arange(4)).sum(axis=1)
    quotas = _quotas(sizes, number)
    order = np.argsort(stratum + rng.random(stratum.shape, np.float32), axis=1)
    stratum = np.sort(stratum, axis=1)
    rank = np.arange(cells**2) - np.take_along_axis(np.cumsum(sizes, axis=1) - sizes, stratum, axis=1)
    chosen = rank < np.take_along_axis(quotas, stratum, axis=1)
    pairs = np.stack(np.divmod(order[chosen].reshape(batch, number), cells), axis=-1)
    weights = np.take_along_axis(sizes / np.maximum(quotas, 1), stratum, axis=1)[chosen].reshape(batch, number)
    return pairs.astype(np.int32), weights.astype(np.float32)


def _quotas(sizes: np.ndarray, number: int) -> np.ndarray:
    """Return the number of pairs to sample of each stratum, (B, 4); at least one of each that has any."""
    left = number - sizes[:, 0]
    if left.min() < 3 and number < sizes[0].sum():
        raise ValueError(f"{number} pairs are too few for images with {sizes[:, 0].max()} pairs of centres")
    quotas = sizes.copy()
    for column, share in ((1, TWO_VISIBLE), (3, NONE_VISIBLE)):
        quotas[:, column] = np.minimum(sizes[:, column], np.maximum((left * share).astype(np.int64), 1))
    for column in (2, 1, 3):  # these get the remainder, in this order
        others = quotas.sum(axis=1) - quotas[:, column]
        quotas[:, column] = np.minimum(sizes[:, column], number - others)
        if column == 2:
            quotas[:, column] = np.maximum(quotas[:, column], 0)
    return quotas


def _weighted_sample(rng: np.random.Generator, weights: np.ndarray, number: int) -> np.ndarray:
    """Return ``number`` positions, sampled by weight without replacement as long as there are enough.

    Efraimidis and Spirakis (2006): the order of exponential arrival times at the rates ``weights``.
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
