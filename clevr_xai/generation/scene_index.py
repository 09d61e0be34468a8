"""A scene as bit sets: bit i stands for object i, so that filters and relations are single machine operations."""

from __future__ import annotations

import functools
import itertools

from clevr_xai.vocabulary import ATTRIBUTES, RELATIONS

_NAMES = tuple(ATTRIBUTES)
# Which attributes a description names: all 16 choices.
_NAMED = tuple(itertools.product((False, True), repeat=len(_NAMES)))

Description = tuple  # (size, color, material, shape), None where unnamed


class SceneIndex:
    """The sets of objects that descriptions and relations select in one scene.

    Parameters
    ----------
    scene
        In CLEVR's JSON form.
    """

    def __init__(self, scene: dict):
        objects = [tuple(item[name] for name in _NAMES) for item in scene["objects"]]
        self.attributes = objects
        self.everything = (1 << len(objects)) - 1
        self.having = [
            {value: self._bits(objects, position, value) for value in values}
            for position, values in enumerate(ATTRIBUTES.values())
        ]
        self.described: dict[Description, int] = {}
        for index, values in enumerate(objects):
            for named in _NAMED:
                key = tuple(value if name else None for value, name in zip(values, named, strict=True))
                self.described[key] = self.described.get(key, 0) | 1 << index
        self.related = {
            name: [sum(1 << other for other in others) for others in scene["relationships"][name]] for name in RELATIONS
        }
        # Asked for again by many families; kept as long as the scene.
        self.descriptions = functools.cache(self._descriptions)
        self.relations = functools.cache(self._relations)

    @staticmethod
    def _bits(objects, position, value) -> int:
        return sum(1 << index for index, values in enumerate(objects) if values[position] == value)

    def select(self, description: Description, among: int) -> int:
        """Return the objects among a set that fit a description, which need not fit any object."""
        for having, value in zip(self.having, description, strict=True):
            if value is not None:
                among &= having[value]
        return among

    def same(self, position: int, index: int) -> int:
        """Return the other objects that share an attribute (by its position) with an object."""
        return self.having[position][self.attributes[index][position]] & ~(1 << index)

    def _descriptions(self, unnamed: tuple[int, ...]) -> list[tuple[Description, int]]:
        """Return the descriptions that fit some object and leave out some attributes, with what they select."""
        return [
            (key, objects)
            for key, objects in self.described.items()
            if all(key[position] is None for position in unnamed)
        ]

    def _relations(self, index: int, unnamed: tuple[int, ...]) -> tuple[list, list]:
        """Return what can be said with a relation to an object.

        Returns
        -------
        two lists of ((relation, description), objects)
            Those in which the relation matters, and the trivial ones, in which all objects that fit the
            description already stand so.
        """
        useful, trivial = [], []
        for name in RELATIONS:
            standing = self.related[name][index]
            for key, fitting in self.descriptions(unnamed):
                objects = standing & fitting
                (trivial if objects == fitting else useful).append(((name, key), objects))
        return useful, trivial
