"""The plan: a command's inputs in fixed blocks, of which those that lack nothing are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attribution.errors import BadInput
from attribution_benchmarks.beam.work import Task, Work, digest_of
from attribution_benchmarks.core.manifest import versions

BATCHES = 8  # of a block by default


def block_size_of(work: Work, asked: int) -> int:
    """Return how many inputs of a work make a block.

    Parameters
    ----------
    work
        The work.
    asked
        What the user asks for; 0 for ``BATCHES`` batches.

    Raises
    ------
    BadInput
        If blocks of that size would cut batches, and so change the last digits of what is computed.
    """
    if asked % work.rows:
        raise BadInput(
            f"--block_size={asked} is no multiple of --batch_size={work.rows}; blocks of whole batches are needed, "
            f"such as {max(1, round(asked / work.rows)) * work.rows}"
        )
    return asked or BATCHES * work.rows


def tasks_of(works: Sequence[Work], block_size: int) -> Iterator[Task]:
    """Yield the blocks that lack something, in the order of the works and of their inputs.

    Parameters
    ----------
    works
        Of one command.
    block_size
        As for ``block_size_of``.
    """
    place = 0
    for work in works:
        size = block_size_of(work, block_size)
        for start in range(0, len(work.items), size):
            items = list(work.items[start : start + size])
            lacking = work.lacking(items)
            if lacking:
                yield Task(place, work.name, work.key, items, digest_of(list(lacking.names)), dict(lacking.held))
            place += 1


def fingerprint(door: str, works: Sequence[Work], block_size: int) -> str:
    """Return a hash of all that blocks depend on besides the inputs: works, size of the blocks, versions.

    The number of workers is no part of it.
    """
    sizes = [[work.name, work.key, work.rows, block_size_of(work, block_size)] for work in works]
    return digest_of({"door": door, "works": sizes, "versions": versions()})[:24]
