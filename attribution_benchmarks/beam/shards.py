"""Results of blocks on any file system that Beam knows: one file a block, whole or not there, with its checksum.

A file is written under a name of its own and renamed, and on object stores, which know no renaming, put at once. So two
workers that compute the same block at the same time leave one whole file. Nothing is ever appended to.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from attribution_benchmarks.beam.file_systems import get, join, put
from attribution_benchmarks.beam.work import Results, Task

FAILED = ".failed"  # behind a block's name: why it has no results


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
