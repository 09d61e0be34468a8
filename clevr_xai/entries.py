"""Questions and scenes in memory as the text that they are in their files: a fifth of what dictionaries take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence


class Entries(Sequence):
    """A list of JSON objects, each made anew whenever it is asked for.

    Parameters
    ----------
    entries
        The objects.
    """

    def __init__(self, entries: Iterable[dict]):
        self._texts = [_text(entry) for entry in entries]

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, row: int) -> dict:
        return json.loads(self._texts[row])

    def __setitem__(self, row: int, entry: dict) -> None:
        self._texts[row] = _text(entry)


class NamedEntries(Mapping):
    """A mapping from names to JSON objects, each made anew likewise.

    Parameters
    ----------
    entries
        The objects.
    key
        Which of their values is the name.
    """

    def __init__(self, entries: Iterable[dict], key: str):
        self._texts = {entry[key]: _text(entry) for entry in entries}

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __getitem__(self, name: str) -> dict:
        return json.loads(self._texts[name])


def _text(entry: dict) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode()
