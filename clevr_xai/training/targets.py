"""Targets of the auxiliary losses, which a question's program and a scene determine.

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

from clevr_xai.training.training_set import CELLS, MAX_NODES, MAX_OBJECTS, NODES, cell_of
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, INTEGERS, RELATIONS

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
