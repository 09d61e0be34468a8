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
VARIANTS = 5  # of a part: two ordinary ones, one that is a mark of some classes, two of prototypes
_ORDINARY, _MARK = (0, 1), 2
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
KINDS = {  # kind of reasoning -> its classes
    "one part": ("one_crest", "one_tail"),
    "either of two": ("either",),
    "exclusive or": ("unequal", "equal"),
    "prototype": tuple(name for name in CLASSES if name.startswith("prototype")),
    "all five": ("ordinary",),
}
_COMBINATIONS = np.array([one for each in CLASSES.values() for one in each])
_CLASS_OF = np.repeat(np.arange(len(CLASSES)), [len(each) for each in CLASSES.values()])


def allowed_classes(variants: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return which classes the present parts of objects allow, (N, classes) bool.

    Parameters
    ----------
    variants
        (N, 5) int, the variant of each part.
    present
        (N, 5) bool, which parts are visible.
    """
    agrees = (~present[:, np.newaxis] | (variants[:, np.newaxis] == _COMBINATIONS)).all(axis=2)
    return np.stack([agrees[:, _CLASS_OF == number].any(axis=1) for number in range(len(CLASSES))], axis=1)


def sufficient_sets(variants: np.ndarray) -> np.ndarray:
    """Return which sets of parts are minimal sufficient ones of objects, (N, 32) bool in the order of ``coalitions``.

    A sufficient set leaves one class. It is minimal if no proper subset is sufficient.
    """
    sets = coalitions(len(PARTS))
    sufficient = np.stack(
        [allowed_classes(variants, np.broadcast_to(each, variants.shape)).sum(axis=1) == 1 for each in sets], axis=1
    )
    return minimal(sufficient)


def minimal(sufficient: np.ndarray) -> np.ndarray:
    """Return which sets of parts are sufficient while no proper subset is, (N, 2^parts) bool."""
    numbers = np.arange(sufficient.shape[1])
    smaller = ((numbers[:, np.newaxis] & numbers) == numbers) & (numbers[:, np.newaxis] != numbers)
    return sufficient & ~(sufficient[:, np.newaxis] & smaller).any(axis=2)


def shared_pairs(variants: np.ndarray, label: int) -> tuple[tuple[int, np.ndarray], tuple[int, np.ndarray]] | None:
    """Return two other classes that share two parts each with an object, without overlap; None if there are none.

    Each is a class and its shared parts, (5,) bool. Classes with one combination count only.
    """
    alone = [number for number in range(len(CLASSES)) if (_CLASS_OF == number).sum() == 1 and number != label]
    shared = [(number, _COMBINATIONS[_CLASS_OF == number][0] == variants) for number in alone]
    pairs = [(number, parts) for number, parts in shared if parts.sum() == 2]
    for first, second in itertools.combinations(pairs, 2):
        if not (first[1] & second[1]).any():
            return first, second
    return None
