"""Results of blocks on any file system that Beam knows: one file a block, whole or not there, with its checksum.

A file is written under a name of its own and renamed, and on object stores, which know no renaming, put at once. So two
workers that compute the same block at the same time leave one whole file. Nothing is ever appended to.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from attribution_benchmarks.command_line.files import unfinished_name
from attribution_benchmarks.scale.work import Results, Task

FAILED = ".failed"  # behind a block's name: why it has no results
_RENAMING = (None, "hdfs")  # schemes of file systems on which renaming is one step


class Damaged(Exception):
    """A file that holds no whole block, with what is wrong."""


@dataclasses.dataclass(frozen=True)
class BlockFile:
    """What the file of a block holds.

    Attributes
    ----------
    results
        As in ``work.Computed``.
    told
        What is known of the computing: inputs, passes, retries, halvings, seconds, cpu_seconds, device.
    """

    results: Results
    told: Mapping[str, Any]


def write_block(directory: str, task: Task, block: BlockFile) -> None:
    """Write the results of a block; a file that is there gives way to one that says the same."""
    lines = [json.dumps({"task": task.digest, "told": dict(block.told)}, sort_keys=True)]
    # Pairs, not a mapping: the order of inputs is that of the store.
    lines += [json.dumps([series, list(records.items())], allow_nan=False) for series, records in block.results.items()]
    content = "".join(f"{line}\n" for line in lines).encode()
    put(join(directory, task.file), content + f"{hashlib.sha256(content).hexdigest()}\n".encode())


def read_block(directory: str, task: Task) -> BlockFile | None:
    """Return the results of a block; None where there is no file.

    Raises
    ------
    Damaged
        If the file is not whole, or of another block.
    """
    content = get(join(directory, task.file))
    if content is None:
        return None
    whole, _, last = content.rstrip(b"\n").rpartition(b"\n")
    whole += b"\n"
    if hashlib.sha256(whole).hexdigest().encode() != last:
        raise Damaged("its checksum is another one")
    header, *lines = whole.decode().splitlines()
    head = json.loads(header)
    if head["task"] != task.digest:
        raise Damaged("it is of another block")
    return BlockFile({series: dict(pairs) for series, pairs in map(json.loads, lines)}, head["told"])


def write_failure(directory: str, task: Task, reason: str, names: Sequence[str]) -> None:
    """Write down why a block has no results."""
    text = json.dumps({"reason": reason, "inputs": list(names)}) + "\n"
    put(join(directory, task.file + FAILED), text.encode())


def read_failure(directory: str, task: Task) -> dict[str, Any] | None:
    """Return ``reason`` and ``inputs`` of a block that failed; None of one that did not."""
    content = get(join(directory, task.file + FAILED))
    try:
        return None if content is None else dict(json.loads(content))
    except ValueError:
        return {"reason": "unknown: what was written of it is damaged", "inputs": list(task.items)}


def there(directory: str) -> set[str]:
    """Return the names of the files in a directory; none where it is missing."""
    from apache_beam.io.filesystems import FileSystems

    (found,) = FileSystems.match([join(directory, "*")])
    return {os.path.basename(entry.path) for entry in found.metadata_list}


def remove(directory: str, names: Sequence[str]) -> None:
    """Remove files."""
    from apache_beam.io.filesystems import FileSystems

    if names:
        FileSystems.delete([join(directory, name) for name in names])


def join(directory: str, name: str) -> str:
    """Return the path of a file in a directory of any file system."""
    from apache_beam.io.filesystems import FileSystems

    return str(FileSystems.join(directory, name))


def get(path: str) -> bytes | None:
    """Return what a file of any file system holds; None where there is none."""
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return bytes(file.read())


def put(path: str, content: bytes) -> None:
    """Write a file of any file system, whole or not at all."""
    from apache_beam.io.filesystem import BeamIOError, CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    renamed = FileSystems.get_scheme(path) in _RENAMING
    first = path
    if renamed:
        directory, name = FileSystems.split(path)
        first = join(directory, unfinished_name(name))
    with FileSystems.create(first, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        file.write(content)
    if not renamed:
        return
    try:
        FileSystems.rename([first], [path])
    except BeamIOError:
        FileSystems.delete([first])
        if not FileSystems.exists(path):  # HDFS renames to no name that is taken; what is there says the same
            raise
