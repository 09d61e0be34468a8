"""The classes of the objects: each allows some combinations of the variants of five parts.

Five kinds of classes need different reasoning: one part decides, either of two parts is enough, two parts decide
jointly like an exclusive or, any two parts of a prototype identify it, or all five parts must be ordinary.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from attribution_benchmarks.stats.coalitions import coalitions

PARTS = ("crest", "eye", "feet", "tail", "wing")
_ORDINARY, _MARK = (0, 1), 2  # variants of a part; two more are those of prototypes
# Any two of these differ in three or four places, and each shares disjoint pairs of parts with two others.
_PROTOTYPES = ((3, 3, 3, 3, 3), (4, 4, 4, 3, 3), (3, 3, 4, 4, 4), (4, 4, 3, 4, 4))
_CREST, _EYE, _FEET, _TAIL, _WING = range(len(PARTS))


def _with(**chosen: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all combinations of the given variants by part; other parts are ordinary."""
    return itertools.product(*(chosen.get(part, _ORDINARY) for part in PARTS))


def _unequal(combination: tuple[int, ...]) -> bool:
    return combination[_WING] != combination[_FEET]


CLASSES: dict[str, tuple[tuple[int, ...], ...]] = {  # name -> its combinations, variants in the order of ``PARTS``
    "one_crest": tuple(_with(crest=(_MARK,))),
    "one_tail": tuple(_with(tail=(_MARK,))),
    "either": (*_with(wing=(_MARK,)), *_with(feet=(_MARK,)), *2 * tuple(_with(wing=(_MARK,), feet=(_MARK,)))),
    "unequal": tuple(filter(_unequal, _with(eye=(_MARK,)))),
    "equal": tuple(itertools.filterfalse(_unequal, _with(eye=(_MARK,)))),
    **{f"prototype_{number}": (variants,) for number, variants in enumerate(_PROTOTYPES, start=1)},
    "ordinary": tuple(_with()),
}


_COMBINATIONS = np.array([one for each in CLASSES.values() for one in each])  # of variants, (M, 5)
_LABELS = np.repeat(np.arange(len(CLASSES)), [len(each) for each in CLASSES.values()])  # class of each, (M,)


def allowed(variants: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return which classes the present parts, (N, 5) bool, of objects, (N, 5) int, allow, (N, classes) bool."""
    agrees = (~present[:, np.newaxis] | (variants[:, np.newaxis] == _COMBINATIONS)).all(axis=2)
    return np.stack([agrees[:, _LABELS == number].any(axis=1) for number in np.unique(_LABELS)], axis=1)


def sufficient_sets(variants: np.ndarray) -> np.ndarray:
    """Return which sets of parts are minimal sufficient ones of objects, (N, 32) bool in order of ``coalitions``.

    A sufficient set leaves one class. It is minimal if no proper subset is sufficient.
    """
    sets = coalitions(len(PARTS))
    one_left = [allowed(variants, np.broadcast_to(each, variants.shape)).sum(axis=1) == 1 for each in sets]
    return minimal(np.stack(one_left, axis=1))


def shared_pair(variants: np.ndarray, label: int) -> tuple[list[int], np.ndarray]:
    """Return two other classes that share two parts each with an object, without overlap, and these parts, (2, 5).

    Classes with one combination count only. Without such classes both are -1.
    """
    shared = _COMBINATIONS == variants
    single = np.bincount(_LABELS)[_LABELS] == 1
    candidates = np.flatnonzero(single & (_LABELS != label) & (shared.sum(axis=1) == 2))
    for pair in itertools.combinations(candidates, 2):
        if not shared[list(pair)].all(axis=0).any():
            return _LABELS[list(pair)].tolist(), shared[list(pair)]
    return [-1, -1], np.zeros((2, len(PARTS)), bool)


def minimal(sufficient: np.ndarray) -> np.ndarray:
    """Return which sets of parts are sufficient while no proper subset is, (N, 2^parts) bool."""
    numbers = np.arange(sufficient.shape[1])
    smaller = ((numbers[:, np.newaxis] & numbers) == numbers) & (numbers[:, np.newaxis] != numbers)
    return sufficient & ~(sufficient[:, np.newaxis] & smaller).any(axis=2)
