"""Work that is split into blocks of inputs: the protocol, the plan of blocks without results, and the files of results.

A shard is the file of one block, with its results and a checksum. It is written under a temporary name and renamed. Two
workers that compute the same block at the same time leave one complete shard.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from attribution.errors import BadInput, installation
from attribution.files import atomic_write
from attribution.reading import opened
from attribution_benchmarks.core.manifest import versions

BATCHES = 8  # in a block by default
Results = Mapping[str, Mapping[str, Any]]  # series -> input -> record of plain JSON


@dataclasses.dataclass(frozen=True)
class MissingWork:
    """Names of a block's inputs, of which some lack results."""

    names: Sequence[str]  # one for each input. A name changes with everything that the results of its input depend on.
    # Results that exist already, as plain JSON that the work itself understands; empty if there are none.
    held: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Computed:
    """Results of a block."""

    names: Sequence[str]  # of its inputs, as in ``MissingWork``
    results: Results  # series -> input -> record, in the order in which a single process would have written them


class Work(Protocol):
    """Results of many inputs that can be computed in independent blocks."""

    @property
    def name(self) -> str:
        """Unique name within a command, of letters, digits, dots and dashes."""

    @property
    def key(self) -> str:
        """Hash of everything but the inputs that results depend on: code, parameters, models, seed."""

    @property
    def items(self) -> Sequence[Any]:
        """All inputs in order, as plain JSON."""

    @property
    def batch_size(self) -> int:
        """Batch size. Blocks hold whole batches, so that batches do not depend on the blocks."""

    def missing(self, items: Sequence[Any]) -> MissingWork | None:
        """Return what to compute for some inputs; None if all their results exist."""

    def compute(self, items: Sequence[Any], held: Mapping[str, Any]) -> Computed:
        """Compute the results that are not held. Must be a pure function."""

    def save(self, results: Results) -> None:
        """Save results of a block. Existing results of an input remain."""


class WorkFactory(Protocol):
    """Creates the works of a command in a worker. It can be pickled and hashed."""

    @property
    def name(self) -> str:
        """Unique name, for the fingerprint of a plan."""

    def __call__(self) -> Callable[[str], Work]:
        """Return a function from a work's name to the work."""


@dataclasses.dataclass(frozen=True)
class Job:
    """What a worker needs: a factory of the works, and the directory of the shards."""

    factory: WorkFactory
    directory: str


@dataclasses.dataclass(frozen=True)
class Task:
    """One block of one work."""

    place: int  # its number in the plan; shards are merged in this order
    work: str  # name and key of the work
    key: str
    items: Sequence[Any]  # inputs of the block
    names: str  # hash of the inputs' names
    held: Mapping[str, Any]  # as in ``MissingWork``

    @property
    def digest(self) -> str:
        """Hash of everything that the block's results depend on, which excludes its place."""
        return digest_of({**dataclasses.asdict(self), "place": 0})

    @property
    def file(self) -> str:
        """Name of the block's shard."""
        return f"{self.place:06d}-{self.digest[:24]}.jsonl"


def import_beam() -> Any:
    """Import Apache Beam without its warnings about missing clients of clouds, and return it."""
    logging.disable(logging.WARNING)
    try:
        return importlib.import_module("apache_beam")
    except ImportError as error:
        raise BadInput(f"--runner=beam needs Apache Beam: {installation('beam')}") from error
    finally:
        logging.disable(logging.NOTSET)


def digest_of(value: Any) -> str:
    """Return the SHA-256 of plain JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _block_size_of(work: Work, requested: int) -> int:
    """Return the number of inputs of a block, ``BATCHES`` batches if ``requested`` is 0.

    Raises ``BadInput`` if it is not a multiple of the batch size: other batches would change the last digits.
    """
    if requested % work.batch_size:
        raise BadInput(
            f"--block_size={requested} is not a multiple of --batch_size={work.batch_size}; blocks hold whole batches, "
            f"for example {max(1, round(requested / work.batch_size)) * work.batch_size} inputs"
        )
    return requested or BATCHES * work.batch_size


def plan_tasks(works: Sequence[Work], block_size: int) -> Iterator[Task]:
    """Yield the blocks with missing results, in the order of the works and of their inputs."""
    place = 0
    for work in works:
        size = _block_size_of(work, block_size)
        for start in range(0, len(work.items), size):
            items = list(work.items[start : start + size])
            missing = work.missing(items)
            if missing:
                yield Task(place, work.name, work.key, items, digest_of(list(missing.names)), dict(missing.held))
            place += 1


def plan_fingerprint(factory: str, works: Sequence[Work], block_size: int) -> str:
    """Return a hash of everything but the inputs that blocks depend on. The number of workers is not part of it."""
    sizes = [[work.name, work.key, work.batch_size, _block_size_of(work, block_size)] for work in works]
    return digest_of({"factory": factory, "works": sizes, "versions": versions()})[:24]


FAILED = ".failed"  # suffix of the file with the reason why a block has no results


class DamagedShard(Exception):
    """A shard that is incomplete or belongs to another block."""


def write_shard(directory: str, task: Task, results: Results) -> None:
    """Write the shard of a block; an existing one is replaced."""
    # Pairs instead of a mapping, because the store keeps the order of inputs.
    lines = [json.dumps([series, list(records.items())], allow_nan=False) for series, records in results.items()]
    content = "".join(f"{line}\n" for line in [json.dumps(task.digest), *lines]).encode()
    atomic_write(os.path.join(directory, task.file), content + f"{hashlib.sha256(content).hexdigest()}\n".encode())


def read_shard(directory: str, task: Task) -> Results | None:
    """Return the results in the shard of a block, or None if there is none.

    Raises ``DamagedShard`` if the file is incomplete or belongs to another block.
    """
    content = read(os.path.join(directory, task.file))
    if content is None:
        return None
    body, _, checksum = content.rstrip(b"\n").rpartition(b"\n")
    body += b"\n"
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        raise DamagedShard("wrong checksum")
    digest, *lines = map(json.loads, body.decode().splitlines())
    if digest != task.digest:
        raise DamagedShard("it belongs to another block")
    return {series: dict(pairs) for series, pairs in lines}


def write_failure(directory: str, task: Task, reason: str) -> None:
    """Write the reason why a block has no results."""
    atomic_write(os.path.join(directory, task.file + FAILED), reason.encode())


def read_failure(directory: str, task: Task) -> str | None:
    """Return why a block has no results; None if it did not fail."""
    content = read(os.path.join(directory, task.file + FAILED))
    return None if content is None else content.decode(errors="replace")


def read(path: str) -> bytes | None:
    """Return the content of a file; None if it is missing."""
    if not os.path.exists(path):
        return None
    with opened(path, "block") as file:
        return file.read()
