"""Apply a function to many items, in processes of this machine or in blocks on Beam.

The function writes its files itself, completely and only if they are missing, and returns plain JSON. The files on the
disk are therefore the record: after a kill only the missing ones are made. Shards only carry return values, and are
removed when all have been read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from attribution.errors import BadInput
from attribution_benchmarks.beam.precompute import Precompute
from attribution_benchmarks.beam.work import Computed, MissingWork, Results, Work, digest_of
from attribution_benchmarks.beam.workers import processes

BLOCK = 64  # files of a block by default
_RETURNED = "returned"  # the only series


class ParallelMap(Protocol):
    """Applies a function to items."""

    def __call__(self, title: str, function: Callable[[Any], Any], items: Sequence, files: int = 1) -> Iterable[Any]:
        """Yield the return value of each item, in their order.

        Parameters
        ----------
        title
            What is made, for a progress bar.
        function
            Of a module, or ``functools.partial`` of one: from an item to plain JSON. It may run twice for an item, also
            at the same time.
        items
            Distinct items of plain JSON.
        files
            Number of files that the function writes for an item.
        """


@contextlib.contextmanager
def local_map(number: int = 1, chunk: int = 1) -> Iterator[ParallelMap]:
    """Yield a ``ParallelMap`` over ``number`` processes of this machine; 1 is this process.

    A process takes at most ``chunk`` items at a time. Fewer than two chunks are computed in this process.
    """
    import tqdm

    with processes(number) as mapped:

        def parallel_map(title: str, function: Callable[[Any], Any], items: Sequence, files: int = 1) -> Iterable[Any]:
            taken = max(1, min(chunk, len(items) // (4 * max(1, number))))
            returned = mapped(function, items, taken) if len(items) >= 2 * chunk else map(function, items)
            return tqdm.tqdm(returned, title, len(items), mininterval=1.0, delay=1.0, leave=False)

        yield parallel_map


def serial_map(title: str, function: Callable[[Any], Any], items: Sequence, files: int = 1) -> Iterable[Any]:
    """Apply a function in this process, without a progress bar; a ``ParallelMap``."""
    return map(function, items)


@dataclasses.dataclass(frozen=True)
class BeamMap:
    """A ``ParallelMap`` in blocks on Beam."""

    code: Callable[[Callable], str]  # of a module: a hash of a function's code and of the libraries that it uses
    claim: str  # a file in the directory that functions write to; a worker that sees other content computes nothing
    directory: str  # of the shards
    workers: int = 1
    block_size: int = 0
    options: tuple[str, ...] = ()  # Beam's

    def __call__(self, title: str, function: Callable[[Any], Any], items: Sequence, files: int = 1) -> Iterator[Any]:
        """Compute all items, then yield their return values; see ``ParallelMap``."""
        factory = _MapFactory(title.replace(" ", "-"), function, self.code, (self.claim, _digest_of_file(self.claim)))
        size = max(1, (self.block_size or BLOCK) // files)
        work = _MapWork(factory, items)
        Precompute(factory, self.directory, self.workers, size, options=self.options, resumes=False)([work])
        return work.returned()


@dataclasses.dataclass(frozen=True)
class _MapFactory:
    """A ``work.WorkFactory`` of one ``_MapWork``; ``claim`` is a path and a hash of its content."""

    name: str
    function: Callable[[Any], Any] = dataclasses.field(compare=False)
    code: Callable[[Callable], str] = dataclasses.field(compare=False)
    claim: tuple[str, str]

    def __call__(self) -> Callable[[str], Work]:
        return {self.name: _MapWork(self)}.__getitem__


class _MapWork:
    """A ``work.Work`` that applies a function to each item."""

    rows = 1

    def __init__(self, factory: _MapFactory, items: Sequence = ()):
        self.name, self.items, self._factory = factory.name, items, factory
        # Return values may need more than the memory.
        self._returned = tempfile.TemporaryFile("w+", encoding="utf-8") if items else None

    @functools.cached_property
    def key(self) -> str:
        """Hash of the code, the libraries and the claim."""
        function = getattr(self._factory.function, "func", self._factory.function)
        return digest_of([self.name, self._factory.code(function), self._factory.claim])

    def missing(self, items: Sequence) -> MissingWork:
        """Return all items: the function itself finds the files that exist."""
        return MissingWork([digest_of(item) for item in items], {})

    def compute(self, items: Sequence, held: Mapping[str, Any], halvings: int = 0) -> Computed:
        """Call the function, unless this worker sees another claim."""
        file, content = self._factory.claim
        if _digest_of_file(file) != content:
            raise BadInput(f"a worker does not see {file} as it was written; mount the directory there")
        names = self.missing(items).names
        returned = {name: self._factory.function(item) for name, item in zip(names, items, strict=True)}
        return Computed(names, {_RETURNED: returned})

    def save(self, results: Results) -> None:
        """Save return values of a block."""
        for returned in results[_RETURNED].values():
            self._returned.write(json.dumps(returned) + "\n")

    def returned(self) -> Iterator[Any]:
        """Yield all saved return values, in the order of the items."""
        self._returned.seek(0)
        yield from map(json.loads, self._returned)


def _digest_of_file(path: str) -> str:
    """Return a hash of a text file; empty if there is none."""
    try:
        return digest_of(pathlib.Path(path).read_text("utf-8"))
    except OSError:
        return ""
