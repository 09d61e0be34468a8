"""One function over many items, whoever computes: processes of this machine, or blocks on Beam.

The function writes its pictures itself, whole, unless they are there, and returns plain JSON. So what is on the disk is
the record: a run that was killed makes what is missing, and a block that runs twice leaves the same. Block files only
carry what functions return, and go when all has come.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from absl import flags

from attribution.errors import BadInput
from attribution.file_io.paths import cache_directory
from attribution_benchmarks.beam.file_systems import is_elsewhere
from attribution_benchmarks.beam.flags import check_beam_flags
from attribution_benchmarks.beam.map_job import Applied, Mapped, digest_of_file
from attribution_benchmarks.beam.precompute import Ahead
from attribution_benchmarks.cli.workers import available_cores, processes

BLOCK = 64  # pictures of a block by default


class Each(Protocol):
    """Applies a function to items."""

    def __call__(self, title: str, function: Callable[[Any], Any], items: Sequence, pictures: int = 1) -> Iterable[Any]:
        """Yield what a function returns of each item, in their order.

        Parameters
        ----------
        title
            What is made, for a bar.
        function
            Of a module, or ``functools.partial`` of one: from an item to plain JSON. It may run twice, at once.
        items
            Plain JSON, of which no two are alike.
        pictures
            Of an item.
        """


@contextlib.contextmanager
def here(number: int = 1, chunk: int = 1) -> Iterator[Each]:
    """Yield what computes in processes of this machine, or in this one.

    Parameters
    ----------
    number
        Of processes.
    chunk
        Items that a process takes at a time, at most; fewer than two chunks are not worth a process.
    """
    import tqdm

    with processes(number) as mapped:

        def each(title: str, function: Callable[[Any], Any], items: Sequence, pictures: int = 1) -> Iterable[Any]:
            taken = max(1, min(chunk, len(items) // (4 * max(1, number))))
            found = mapped(function, items, taken) if len(items) >= 2 * chunk else map(function, items)
            return tqdm.tqdm(found, title, len(items), mininterval=1.0, leave=False)

        yield each


def one_by_one(title: str, function: Callable[[Any], Any], items: Sequence, pictures: int = 1) -> Iterable[Any]:
    """Apply a function in this process, as an ``Each``, with no bar."""
    return map(function, items)


@dataclasses.dataclass(frozen=True)
class OnBeam:
    """An ``Each`` whose items are computed on Beam, in blocks.

    Attributes
    ----------
    code, claim
        As of ``mapped.Applied``; ``claim`` is the file alone.
    directory
        Where block files go.
    workers, block_size, options
        Of the run; ``options`` are Beam's.
    """

    code: Callable[[Callable], str]
    claim: str
    directory: str
    workers: int = 1
    block_size: int = 0
    options: tuple[str, ...] = ()

    def __call__(self, title: str, function: Callable[[Any], Any], items: Sequence, pictures: int = 1) -> Iterator[Any]:
        """Compute all items, and yield what the function returns; see ``Each``."""
        applied = Applied(title.replace(" ", "-"), function, self.code, (self.claim, digest_of_file(self.claim)))
        size = max(1, (self.block_size or BLOCK) // pictures)
        work = Mapped(applied, items)
        Ahead(applied, self.directory, self.workers, size, options=self.options, resumes=False)([work])
        return work.returned()


def asked_each(
    flag_values: flags.FlagValues, processes_flag: str, chunk: int, code: Callable[[Callable], str], claim: str
) -> contextlib.AbstractContextManager[Each]:
    """Return, by a command's flags, what applies functions to items.

    Parameters
    ----------
    flag_values
        Of the command.
    processes_flag
        Says how many processes ``--runner=local`` takes; 0 is one a core.
    chunk
        As for ``here``.
    code, claim
        As for ``OnBeam``.

    Raises
    ------
    BadInput
        As ``flags.check_beam_flags``, or if ``claim`` is on no file system that can be mounted.
    """
    if not check_beam_flags(flag_values, processes_flag):
        return here(flag_values[processes_flag].value or available_cores(), chunk)
    if is_elsewhere(claim):
        raise BadInput(f"{os.path.dirname(claim)} is no directory; pictures need one that is mounted on all workers")
    from attribution_benchmarks.beam.launch import pipeline_of

    options = tuple(flag_values.runner_options)
    pipeline_of(flag_values.workers, options)  # refuses options that are none
    directory = flag_values.blocks_dir or str(cache_directory("blocks"))
    beam = OnBeam(code, os.path.abspath(claim), directory, flag_values.workers, flag_values.block_size, options)
    return contextlib.nullcontext(beam)
