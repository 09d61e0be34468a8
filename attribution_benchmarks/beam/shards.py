"""Shards: one file per block with its results and a checksum, on paths, gs://, s3:// and hdfs:// by Apache Beam.

A shard is written under a temporary name and renamed, or put in one step on object stores. Two workers that compute the
same block at the same time leave one complete shard.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attribution.files import UNFINISHED, atomic_write
from attribution.reading import opened
from attribution_benchmarks.beam.work import Results, Task

FAILED = ".failed"  # suffix of the file with the reason why a block has no results


class DamagedShard(Exception):
    """A shard that is incomplete or belongs to another block."""


class Shard(NamedTuple):
    """Results of a block, as in ``work.Computed``, and how they were computed: inputs, passes, seconds, device, ..."""

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

    Raises ``DamagedShard`` if the file is incomplete or belongs to another block.
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


def names_in(directory: str) -> set[str]:
    """Return the names of the files in a directory; an empty set if it is missing."""
    from apache_beam.io.filesystems import FileSystems

    (found,) = FileSystems.match([join(directory, "*")])
    return {os.path.basename(entry.path) for entry in found.metadata_list}


def remove(directory: str, names: list[str]) -> None:
    """Remove files of a directory."""
    from apache_beam.io.filesystems import FileSystems

    if names:
        FileSystems.delete([join(directory, name) for name in names])


def join(directory: str, name: str) -> str:
    """Return the path of a file in a directory."""
    from apache_beam.io.filesystems import FileSystems

    return str(FileSystems.join(directory, name))


def read(path: str) -> bytes | None:
    """Return the content of a file; None if it is missing."""
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    if not FileSystems.exists(path):
        return None
    if FileSystems.get_scheme(path) is None:
        with opened(path, "block") as file:
            return file.read()
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return bytes(file.read())


def write(path: str, content: bytes) -> None:
    """Write a file completely or not at all."""
    from apache_beam.io.filesystem import BeamIOError, CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    scheme = FileSystems.get_scheme(path)
    if scheme is None:
        atomic_write(path, content)
        return
    renamed = scheme == "hdfs"  # an object store writes a file in one step
    directory, name = FileSystems.split(path)
    first = join(directory, f".{name}.{secrets.token_hex(6)}{UNFINISHED}") if renamed else path
    with FileSystems.create(first, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        file.write(content)
    if renamed:
        try:
            FileSystems.rename([first], [path])
        except BeamIOError:
            FileSystems.delete([first])
            if not FileSystems.exists(path):  # HDFS does not rename to an existing file, which has the same content
                raise
