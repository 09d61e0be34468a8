"""The inputs of a benchmark with one network, with the truth about them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, LazyBatch


@dataclasses.dataclass(frozen=True)
class Examples:
    """N inputs with the truth about them.

    Attributes
    ----------
    inputs
        (N, ...) numbers, as the network takes them; of a network with several inputs the explained one.
    masks
        Name of a ground truth -> (N, positions...), where a map should be; empty where nothing is known. Bool, or
        numbers that are 0 and 1, or 0 and 255 as image files have them; kept as bool.
    targets
        (N,) classes to explain; None for the predicted ones.
    truth
        Anything else that metrics need: name -> (N, ...) array.
    names
        N names; "0" to "N - 1" where empty.
    clusters
        N names of groups of dependent inputs, such as their image; None for independent inputs.
    explained, others
        Of a network with several inputs: the name of the explained one, and name -> (N, ...) array of the others.
    folder
        Of saved maps, in that of their method, where several networks explain the same inputs.
    """

    inputs: np.ndarray
    masks: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    targets: np.ndarray | None = None
    truth: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    names: Sequence[str] = ()
    clusters: Sequence[str] | None = None
    explained: str = ""
    others: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    folder: str = ""

    def __post_init__(self) -> None:
        count = len(self.inputs)
        if not self.names:
            object.__setattr__(self, "names", tuple(map(str, range(count))))
        for what, column in (("names", self.names), ("targets", self.targets), ("clusters", self.clusters),
                             *self.masks.items(), *self.truth.items()):  # fmt: skip
            if column is not None and len(column) != count:
                raise BadInput(f"{what!r} has {len(column)} entries for {count} inputs")
        shape = np.shape(self.inputs)
        for name, mask in self.masks.items():
            if np.shape(mask) not in (shape, shape[:-1]):
                raise BadInput(
                    f"the mask {name!r} has the shape {np.shape(mask)}; expected {shape[:-1]} for inputs of the shape "
                    f"{shape}, or {shape}"
                )
        object.__setattr__(self, "masks", {name: _as_bool(name, mask) for name, mask in self.masks.items()})

    @property
    def feed(self) -> np.ndarray | dict[str, np.ndarray]:
        """All inputs of the network, by name where there are several."""
        explained = np.asarray(self.inputs)
        return {**self.others, self.explained: explained} if self.explained else explained

    def batches(self, size: int, chosen: Sequence[int] | None = None) -> Iterator[LazyBatch]:
        """Yield all inputs, or those of some rows, in batches of ``size``."""
        chosen = range(len(self.inputs)) if chosen is None else chosen
        files = [f"{self.folder}/{name}" if self.folder else name for name in self.names]
        whole = Batch(self.feed, list(self.names), self.targets, self.explained, self.masks,
                      {**self.truth, "file": files})  # fmt: skip
        for start in range(0, len(chosen), size):
            rows = chosen[start : start + size]
            names = [self.names[row] for row in rows]
            digests = (self._digest(row) for row in rows)
            yield LazyBatch(
                [f"{name} {digest}" for name, digest in zip(names, digests, strict=True)],
                [files[row] for row in rows],
                functools.partial(whole.take, rows),
            )

    def without(self, rows: Iterable[int]) -> Examples:
        """Return all inputs except those of some rows."""
        gone = set(rows)
        left = [row for row in range(len(self.inputs)) if row not in gone]

        def taken(column: Any) -> np.ndarray:
            return np.asarray(np.asarray(column)[left])

        return Examples(
            np.asarray(self.inputs)[left],
            {name: taken(mask) for name, mask in self.masks.items()},
            None if self.targets is None else taken(self.targets),
            {name: taken(column) for name, column in self.truth.items()},
            [self.names[row] for row in left],
            None if self.clusters is None else [self.clusters[row] for row in left],
            self.explained,
            {name: taken(array) for name, array in self.others.items()},
            self.folder,
        )

    def _digest(self, row: int) -> str:
        """Return a hash of an input and the truth about it."""
        digest = hashlib.sha256()
        for column in (self.inputs, self.targets, *self.masks.values(), *self.truth.values(), *self.others.values()):
            if column is not None:
                value = np.asarray(column[row])
                digest.update(f"{value.dtype} {value.shape} ".encode() + value.tobytes())
        return digest.hexdigest()[:16]


def _as_bool(name: str, mask: np.ndarray) -> np.ndarray:
    """Return a mask as bool; raise ``BadInput`` if it has other values than 0 and 1, or 0 and 255."""
    mask = np.asarray(mask)
    if mask.dtype != bool:
        if not any(np.isin(mask, pair).all() for pair in ((0, 1), (0, 255))):
            raise BadInput(f"the mask {name!r} has other values than 0 and 1, or 0 and 255; threshold it, as bool")
    return mask.astype(bool)
