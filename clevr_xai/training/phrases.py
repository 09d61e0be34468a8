"""What each noun phrase of a question says, wherever its words and its program's nodes stand.

A program's list of nodes names a phrase's color here or there, depending on how long the phrases after it are. A layer
that sees the question's code once, as the first of g does, can hardly look for it. Here every phrase has its place: a
program is a trunk, from its last node to the scene or to the node that joins two branches, and each of these goes from
the objects that are told of to those that they are found by: "the cube | left of | the ball".
"""

from __future__ import annotations

import numpy as np

from clevr_xai.training.training_set import NODES
from clevr_xai.vocabulary import ATTRIBUTES, RELATIONS

STEPS = 4  # phrases of a chain: three relations
PLACES = (
    1 + 2 * STEPS
)  # the trunk's first phrase, or the phrases of the two branches; a trunk alone is the first branch
_RELATED = [*(f"relate {name}" for name in RELATIONS), *(f"same_{name}" for name in ATTRIBUTES)]
SIZES = (*(len(values) + 1 for values in ATTRIBUTES.values()), len(_RELATED) + 1)  # of each place's entries; 0 for none
_JOIN = np.array([name in ("union", "intersect") for name in NODES])
_SCENE = NODES.index("scene")
_RELATION = np.array([_RELATED.index(name) + 1 if name in _RELATED else 0 for name in NODES])
_FILTER = np.zeros((len(ATTRIBUTES), len(NODES)), np.int64)
for _row, (_name, _values) in enumerate(ATTRIBUTES.items()):
    for _number, _value in enumerate(_values, 1):
        _FILTER[_row, NODES.index(f"filter_{_name} {_value}")] = _number


def phrases(programs: np.ndarray) -> np.ndarray:
    """Return what the phrases of programs say.

    Parameters
    ----------
    programs : (N, 24) int
        Positions in ``NODES``, the last node first.

    Returns
    -------
    (N, 9, 5) int32
        At each of the places, the number from 1 of the size, the color, the material and the shape that is named, and
        of the relation to the next phrase; 0 where none is.
    """
    programs = np.asarray(programs)
    found = np.zeros((len(programs), PLACES, len(SIZES)), np.int32)
    joined = _JOIN[programs].any(axis=1)
    rows = np.arange(len(programs))
    place = np.where(joined, 0, 1)
    for node in programs.T:
        for entry, table in enumerate((*_FILTER, _RELATION)):
            named = table[node]
            said = named > 0
            found[rows[said], place[said], entry] = named[said]
        place = np.where(_RELATION[node] > 0, np.minimum(place + 1, PLACES - 1), place)
        place = np.where(_JOIN[node], 1, place)
        place = np.where(node == _SCENE, 1 + STEPS, place)  # another branch, or nothing more
    return found
