"""Which two objects a question compares, and the pairs of cells that show just these two.

"Is the cube of the same color as the sphere?" is decided by one pair of cells. From the answer alone a network hardly
finds out which: without being told, the one that was trained first answered 52.9 % of these questions. Told, a network
that learned on for 9,000 steps answers 55.4 %; after 5,500 of them it named 61 % of the compared pairs rightly.
"""

from __future__ import annotations

import numpy as np

from clevr_xai.training.operands import asked_sets
from clevr_xai.training.training_set import NODES
from clevr_xai.vocabulary import ANSWERS

OTHER, ALIKE, UNLIKE = 0, 1, 2  # what a pair of cells is to a question that compares; -1 where none is told
_COMPARE = [NODES.index(name) for name in NODES if name.startswith("equal_") and name != "equal_integer"]
_QUERY = [NODES.index(name) for name in NODES if name.startswith("query_")]
_YES = ANSWERS.index("yes")


def compared_objects(programs: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Return the two objects of each question that compares an attribute of two.

    Parameters
    ----------
    programs : (..., 24) int
        Positions in ``NODES``, the last node first.
    sets : (..., 24) int
        Which objects each node finds, object k as bit k.

    Returns
    -------
    (..., 2) int64
        Their positions in the scene, -1 twice for any other question and for a program longer than 24 nodes.
    """
    queries = np.isin(programs, _QUERY)
    both = asked_sets(programs, sets, queries)[1]
    told = np.isin(programs[..., 0], _COMPARE) & (queries.sum(axis=-1) == 2) & (both > 0).all(axis=-1)
    objects = np.log2(np.maximum(both, 1)).round().astype(np.int64)
    return np.where(told[..., None], objects, -1)


def pair_targets(
    objects: np.ndarray, answers: np.ndarray, cells: np.ndarray, pairs: np.ndarray, counted: np.ndarray
) -> np.ndarray:
    """Return what each pair of cells is to each question.

    Parameters
    ----------
    objects : (B, questions, 2)
        From ``compared_objects``.
    answers : (B, questions)
    cells : (B, objects)
        Of each object's centre, -1 for none.
    pairs : (B, P, 2)
    counted : (B, P) bool
        Pairs of two cells with centres.

    Returns
    -------
    (B, questions, P) int32
        ``ALIKE`` or ``UNLIKE`` for the two pairs of the compared objects' cells, ``OTHER`` for other counted pairs; -1
        for pairs that are not counted, questions that do not compare, and objects whose cells cannot be told apart.
    """
    places = np.take_along_axis(cells[:, None], np.maximum(objects, 0), axis=2)
    shared = (cells[:, None, None] == places[..., None]).sum(axis=-1)  # objects with their centres in the same cell
    known = (objects >= 0).all(axis=-1) & (places >= 0).all(axis=-1) & (shared == 1).all(axis=-1)
    these = np.zeros((*known.shape, pairs.shape[1]), bool)
    for way in (places, places[..., ::-1]):
        these |= (pairs[:, None] == way[:, :, None]).all(axis=-1)
    verdict = np.where(answers == _YES, ALIKE, UNLIKE)[..., None]
    told = known[..., None] & counted[:, None]
    return np.where(told, np.where(these, verdict, OTHER), -1).astype(np.int32)
