"""What is done in blocks: the contract between who computes numbers and who spreads the computing over processes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

Results = Mapping[str, Mapping[str, Any]]  # series -> input -> record of plain JSON


@dataclasses.dataclass(frozen=True)
class Lacking:
    """Inputs of a block that lack results.

    Attributes
    ----------
    names
        Names of all the block's inputs; they change with everything that an input's results depend on.
    held
        What of their results is there already, plain JSON, as the work itself understands it; empty where nothing is.
    """

    names: Sequence[str]
    held: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Computed:
    """Results of a block.

    Attributes
    ----------
    names
        Of its inputs, as in ``Lacking``.
    results
        Series -> input -> record, in the order in which one process alone would have written them.
    passes
        Passes that went through a model.
    """

    names: Sequence[str]
    results: Results
    passes: int = 0


class Work(Protocol):
    """Results of many inputs, of which every block can be computed by itself.

    ``compute`` is a pure function of what the work was made from and of its arguments: two that compute the same block
    get the same results.
    """

    @property
    def name(self) -> str:
        """What tells it from other works of the same command; letters, digits, dots and dashes."""

    @property
    def key(self) -> str:
        """A hash of all that results depend on besides the inputs: code, parameters, models, seed."""

    @property
    def items(self) -> Sequence:
        """All inputs in their order, as whole numbers or words."""

    @property
    def rows(self) -> int:
        """Inputs that are computed together; blocks hold a multiple of it, so that no batch has another border."""

    def lacking(self, items: Sequence) -> Lacking | None:
        """Tell what some inputs lack; None where nothing does."""

    def compute(self, items: Sequence, held: Mapping[str, Any], halvings: int) -> Computed:
        """Compute what is not held, with batches halved so many times."""

    def keep(self, results: Results) -> None:
        """Keep results of a block; those of inputs that have some stay as they are."""


class Maker(Protocol):
    """What a worker makes the works of a command from; plain data that can be pickled, and hashed."""

    @property
    def name(self) -> str:
        """What tells it from others, in the fingerprint of a plan."""

    def __call__(self) -> WorksMaker:
        """Return a function from a work's name to the work."""


@dataclasses.dataclass(frozen=True)
class Job:
    """What a worker needs.

    Attributes
    ----------
    maker
        Makes the works of a command again.
    directory
        Of the block files.
    """

    maker: Maker
    directory: str


@dataclasses.dataclass(frozen=True)
class Task:
    """One block of one work.

    Attributes
    ----------
    place
        Its number among all blocks of a plan; merging follows it.
    work, key
        Of the work.
    items
        Inputs of the block.
    names
        Hash of the inputs' names.
    held
        As in ``Lacking``.
    """

    place: int
    work: str
    key: str
    items: Sequence
    names: str
    held: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """A hash of all that the block's results depend on, its place left out."""
        return digest_of({**dataclasses.asdict(self), "place": 0})

    @property
    def file(self) -> str:
        """Name of the block's file."""
        return f"{self.place:06d}-{self.digest[:24]}.jsonl"

    def to_line(self) -> str:
        """Return the task as one line of JSON."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, allow_nan=False)

    @staticmethod
    def from_line(line: str) -> Task:
        """Return the task that ``to_line`` wrote."""
        return Task(**json.loads(line))


def digest_of(value: Any) -> str:
    """Return the SHA-256 of plain JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


WorksMaker = Callable[[str], Work]
