"""Where records begin in a file, by name: eight bytes each, since many files are of the same names."""

from __future__ import annotations

import array
from collections.abc import Iterator


class Places:
    """A mapping from names to places above zero that can only grow.

    Parameters
    ----------
    numbers
        Of all names, in the order in which they came; shared with other mappings, which number new names, too.
    """

    def __init__(self, numbers: dict[str, int]):
        self._numbers = numbers
        self._first = 0  # number of the first name that has a place
        self._places = array.array("q")  # of it and those after it; zero for names that have none
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: str) -> bool:
        return self._place(name) > 0

    def __getitem__(self, name: str) -> int:
        place = self._place(name)
        if not place:
            raise KeyError(name)
        return place

    def __iter__(self) -> Iterator[str]:
        """Yield names in the order of their places."""
        names = [name for name in self._numbers if name in self]
        return iter(sorted(names, key=self._place))

    def add(self, name: str, place: int) -> None:
        """Give a name its place; one that has a place keeps it."""
        number = self._numbers.setdefault(name, len(self._numbers))
        if not self._count:
            self._first = number
        if number < self._first:
            self._places = _none(self._first - number) + self._places
            self._first = number
        self._places.extend(_none(number - self._first + 1 - len(self._places)))
        if not self._places[number - self._first]:
            self._places[number - self._first] = place
            self._count += 1

    def _place(self, name: str) -> int:
        number = self._numbers.get(name, -1) - self._first
        return self._places[number] if 0 <= number < len(self._places) else 0


def _none(count: int) -> array.array:
    return array.array("q", bytes(8 * max(0, count)))
