"""What a comparison compares: two values of an attribute, or two numbers of objects.

"Is the cube left of the ball as large as the red thing?" is answered by two sizes, each a question of its own. The
answer alone, yes or no, hardly teaches a network to find either: it would have to find both before one of them helps.
So they are told, read linearly from the sum over pairs that f sees.
"""

from __future__ import annotations

import numpy as np

from clevr_xai.training.training_set import MOST_NODES, NODES
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, INTEGERS

NUMBER = 2
_ATTRIBUTES = list(ATTRIBUTES)
_ATTRIBUTE_OF = np.full(len(NODES), -1)
for _name in _ATTRIBUTES:
    _ATTRIBUTE_OF[NODES.index(f"query_{_name}")] = _ATTRIBUTES.index(_name)
_COUNT = NODES.index("count")
_FIRST_NUMBER = ANSWERS.index(str(INTEGERS[0]))
_ANSWER_OF = np.array(  # (attribute, value) -> position in ANSWERS
    [
        [ANSWERS.index(value) for value in values] + [-1] * (max(map(len, ATTRIBUTES.values())) - len(values))
        for values in ATTRIBUTES.values()
    ]
)


def operands(programs: np.ndarray, sets: np.ndarray, attributes: np.ndarray) -> np.ndarray:
    """Return the two operands of each question that compares.

    Parameters
    ----------
    programs : (..., 24) int
        Positions in ``NODES``, the last node first.
    sets : (..., 24) int
        Which objects each node finds, object k as bit k.
    attributes : (..., objects, 4) int
        Of the objects of each question's scene.

    Returns
    -------
    (..., 2) int32
        Positions in ``vocabulary.ANSWERS``, the operand that the program computes last first; -1 twice for questions
        that compare nothing and for programs longer than 24 nodes.
    """
    asked = (_ATTRIBUTE_OF[programs] >= 0) | (programs == _COUNT)
    nodes, which = asked_sets(programs, sets, asked)
    size = sum(which >> bit & 1 for bit in range(attributes.shape[-2]))
    item = np.log2(np.maximum(which & -which, 1)).astype(np.int64)  # the only one where an attribute is asked
    attribute = np.maximum(_ATTRIBUTE_OF[nodes], 0)
    values = np.take_along_axis(attributes, item[..., None], axis=-2)
    value = _ANSWER_OF[attribute, np.take_along_axis(values, attribute[..., None], axis=-1)[..., 0]]
    both = np.where(which < 0, -1, np.where(nodes == _COUNT, _FIRST_NUMBER + size, value))
    told = (asked.sum(axis=-1) == NUMBER) & (both >= 0).all(axis=-1)
    return np.where(told[..., None], both, -1).astype(np.int32)


def asked_sets(programs: np.ndarray, sets: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two nodes that ask something and the sets that they ask it of.

    Parameters
    ----------
    programs, sets : (..., 24) int
        See ``operands``.
    asked : (..., 24) bool
        Which nodes ask.

    Returns
    -------
    nodes : (..., 2)
    which : (..., 2) int64
        Of the node after each; neither means anything where fewer than two ask.
    """
    order = np.cumsum(asked, axis=-1)
    place = np.stack([(order == number).argmax(axis=-1) for number in range(1, NUMBER + 1)], axis=-1)
    after = np.minimum(place + 1, MOST_NODES - 1)
    return np.take_along_axis(programs, place, axis=-1), np.take_along_axis(sets.astype(np.int64), after, axis=-1)
