"""One function over many items as work in blocks; what it writes itself, such as pictures, is no result."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attribution.errors import BadInput
from attribution_benchmarks.beam.work import Computed, Lacking, Results, WorksMaker, digest_of

_RETURNED = "returned"  # the only series


@dataclasses.dataclass(frozen=True)
class Applied:
    """A ``scale.work.Maker`` of one work.

    Attributes
    ----------
    name
        Of the work.
    function
        Of a module, or ``functools.partial`` of one: from an item to plain JSON.
    code
        Function of a module, from a function to a hash of its code and of the libraries that it uses.
    claim
        A file in the directory that the function writes to, and a hash of its content.
    """

    name: str
    function: Callable[[Any], Any] = dataclasses.field(compare=False)
    code: Callable[[Callable], str] = dataclasses.field(compare=False)
    claim: tuple[str, str]

    def __call__(self) -> WorksMaker:
        """Return what makes the work in a worker."""
        return {self.name: Mapped(self)}.__getitem__


class Mapped:
    """A ``scale.work.Work``.

    Parameters
    ----------
    applied
        What is done with each item.
    items
        Plain JSON, of which no two are alike.
    """

    rows = 1

    def __init__(self, applied: Applied, items: Sequence = ()):
        self.name, self.items, self._applied = applied.name, items, applied
        self._kept = tempfile.TemporaryFile("w+", encoding="utf-8") if items else None

    @functools.cached_property
    def key(self) -> str:
        """A hash of code, libraries and the directory written to."""
        function = getattr(self._applied.function, "func", self._applied.function)
        return digest_of([self.name, self._applied.code(function), self._applied.claim])

    def lacking(self, items: Sequence) -> Lacking:
        """Tell that all lack: what the function has written, it finds itself."""
        return Lacking([digest_of(item) for item in items], {})

    def compute(self, items: Sequence, held: Mapping[str, Any], halvings: int = 0) -> Computed:
        """Call the function, unless the directory that it writes to is another one here."""
        file, content = self._applied.claim
        if digest_of_file(file) != content:
            raise BadInput(f"a worker does not see {file} as it was written; the directory must be mounted there")
        names = self.lacking(items).names
        returned = {name: self._applied.function(item) for name, item in zip(names, items, strict=True)}
        return Computed(names, {_RETURNED: returned})

    def keep(self, results: Results) -> None:
        """Keep what was returned of a block, on the disk: there may be more than memory holds."""
        for returned in results[_RETURNED].values():
            self._kept.write(json.dumps(returned) + "\n")

    def returned(self) -> Iterator[Any]:
        """Yield what was returned of all items that were kept, in their order."""
        self._kept.seek(0)
        yield from map(json.loads, self._kept)


def digest_of_file(path: str) -> str:
    """Return a hash of what a text file holds; empty where there is none."""
    try:
        return digest_of(pathlib.Path(path).read_text("utf-8"))
    except OSError:
        return ""
