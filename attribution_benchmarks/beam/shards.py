"""Shards: one file per block with its results and a checksum, on any file system that Apache Beam supports.

A shard is written under a temporary name and renamed, or put in one step on object stores. Two workers that compute the
same block at the same time leave one complete shard.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from attribution_benchmarks.beam.file_systems import join, read, write
from attribution_benchmarks.beam.work import Results, Task

FAILED = ".failed"  # suffix of the file with the reason why a block has no results


class DamagedShard(Exception):
    """A shard that is incomplete or belongs to another block."""


@dataclasses.dataclass(frozen=True)
class Shard:
    """Content of a shard.

    Attributes
    ----------
    results
        As in ``work.Computed``.
    statistics
        Inputs, passes, retries, halvings, seconds, cpu_seconds and device of the computation.
    """

    results: Results
    statistics: Mapping[str, Any]


def write_shard(directory: str, task: Task, shard: Shard) -> None:
    """Write the shard of a block; an existing one is replaced."""
    lines = [json.dumps({"task": task.digest, "statistics": dict(shard.statistics)}, sort_keys=True)]
    # Pairs instead of a mapping, because the store keeps the order of inputs.
    lines += [json.dumps([series, list(records.items())], allow_nan=False) for series, records in shard.results.items()]
    content = "".join(f"{line}\n" for line in lines).encode()
    write(join(directory, task.file), content + f"{hashlib.sha256(content).hexdigest()}\n".encode())


def read_shard(directory: str, task: Task) -> Shard | None:
    """Return the shard of a block, or None if there is none.

    Raises
    ------
    DamagedShard
        If the file is incomplete or belongs to another block.
    """
    content = read(join(directory, task.file))
    if content is None:
        return None
    body, _, checksum = content.rstrip(b"\n").rpartition(b"\n")
    body += b"\n"
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        raise DamagedShard("wrong checksum")
    header, *lines = body.decode().splitlines()
    head = json.loads(header)
    if head["task"] != task.digest:
        raise DamagedShard("it belongs to another block")
    return Shard({series: dict(pairs) for series, pairs in map(json.loads, lines)}, head["statistics"])


def write_failure(directory: str, task: Task, reason: str, names: Sequence[str]) -> None:
    """Write the reason why a block has no results."""
    text = json.dumps({"reason": reason, "inputs": list(names)}) + "\n"
    write(join(directory, task.file + FAILED), text.encode())


def read_failure(directory: str, task: Task) -> dict[str, Any] | None:
    """Return ``reason`` and ``inputs`` of a failed block; None if it did not fail."""
    content = read(join(directory, task.file + FAILED))
    try:
        return None if content is None else dict(json.loads(content))
    except ValueError:
        return {"reason": "unknown: the file with the reason is damaged", "inputs": list(task.items)}
