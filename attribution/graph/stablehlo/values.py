"""What the operations of a StableHLO module compute, as tensors of the graph that is being built.

Two things are done while translating, because they are lost afterwards. A broadcast is delayed until something needs
all its values, since TensorFlow's own arithmetic broadcasts: a bias stays a vector. Arrays and numbers that are known
are computed here and now. Of a vector of sizes, some may be known and others depend on the size of a batch: it is a
list, each of them a number or a scalar tensor.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph import _tf_internals
from attribution.graph.stablehlo.text import Operation, Type

MOST_ITEMS = 64  # numbers in a vector that counts
_MOST_FOLDED = 1 << 20  # elements of a constant that is computed here
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": tf.add, "subtract": tf.subtract, "multiply": tf.multiply, "maximum": tf.maximum, "minimum": tf.minimum,
    "divide": tf.truncatediv, "remainder": tf.truncatemod, "and": tf.bitwise.bitwise_and, "or": tf.bitwise.bitwise_or,
}  # fmt: skip
_OF_EQUALS: dict[str, Callable[[Any], Any]] = {"subtract": lambda a: 0, "maximum": lambda a: a, "minimum": lambda a: a}
_LEAVES = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}  # the second number that changes nothing


@dataclasses.dataclass(eq=False)
class Value:
    """What an operation computes.

    Attributes
    ----------
    type
        Its sizes and its type.
    array
        Its values, a tensor, or an array where they are known; axes that are still to be broadcast have size 1, or are
        missing at the front. ``None`` until they are first read.
    stretched
        Axes that are still to be broadcast.
    sizes
        Its sizes as numbers or scalar tensors, ``None`` where they are not known yet.
    items
        Of a scalar or a vector that counts: numbers, or scalar tensors where they are not known.
    later
        Makes ``array``.
    origin
        Of what a reshape gives: what it was given.
    window
        Of a sum over windows: its input and the window.
    pieces
        Of an array that is written step by step: its axis, and each step's values by their place.
    """

    type: Type
    array: Any = None
    stretched: frozenset[int] = frozenset()
    sizes: list[Any] = dataclasses.field(default_factory=list)
    items: list[Any] | None = None
    later: Callable[[], Any] | None = None
    origin: Value | None = None
    window: tuple[Any, ...] = ()
    pieces: tuple[int, dict[int, Value]] | None = None

    def __post_init__(self) -> None:
        self.sizes = self.sizes or list(self.type.sizes)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.type.sizes)

    def size(self, axis: int) -> Any:
        """Return a size: a number or a scalar tensor."""
        if self.sizes[axis] is None:
            self.sizes[axis] = tf.shape(self.full())[axis]
        return self.sizes[axis]

    def counts(self) -> list[Any] | None:
        """Return the whole numbers of a scalar or a vector, as far as they are known; ``None`` for anything else."""
        is_small = self.rank < 2 and None not in self.type.sizes and math.prod(self.type.sizes) <= MOST_ITEMS
        if self.items is None and is_small and self.type.dtype.is_integer and self.constant() is not None:
            self.items = [int(number) for number in np.ravel(self.full())]
        return self.items

    def short(self) -> Any:
        """Return the values, not yet broadcast."""
        if self.array is None:
            self.array = self.later() if self.later else _from_items(self)
        return self.array

    def full(self) -> Any:
        """Return all values."""
        short = self.short()
        if self.stretched:
            if all(self.type.sizes[axis] == 1 for axis in self.stretched):
                for _ in range(self.rank - len(short.shape)):
                    short = run(tf.expand_dims, short, 0)
                self.array = short
            else:
                sizes = [self.size(axis) for axis in range(self.rank)]
                known = [size for size in sizes if isinstance(size, int)]
                # Small programs can hold huge constants: those stay a broadcast.
                is_huge = math.prod(known) > _MOST_FOLDED
                broadcast = tf.broadcast_to if is_huge else functools.partial(run, tf.broadcast_to)
                self.array = broadcast(short, vector(sizes))
            self.stretched = frozenset()
        return self.array

    def constant(self) -> np.ndarray | None:
        """Return the values if they are known here, not yet broadcast."""
        short = self.short()
        return short if isinstance(short, np.ndarray) else None


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function's result: an array if all arguments are known here, else a tensor of the graph."""
    if any(tf.is_tensor(one) for one in tf.nest.flatten(arguments)):
        return function(*arguments)
    with _tf_internals.eagerly(), tf.device("CPU"):
        result = np.asarray(function(*arguments))
    return result if result.size <= _MOST_FOLDED else function(*arguments)


def vector(items: Sequence[Any]) -> Any:
    """Return sizes as a vector: of numbers where all are known."""
    if all(isinstance(item, int) for item in items):
        return np.array(items, np.int32)
    return tf.stack([tf.cast(item, tf.int32) for item in items])


def _from_items(value: Value) -> Any:
    dtype, items = value.type.dtype, value.items or []
    if all(isinstance(item, int) for item in items):
        return np.array(items, dtype.as_numpy_dtype).reshape(value.type.sizes)
    tensors = [tf.cast(item, dtype) for item in items]
    return tf.stack(tensors) if value.rank else tensors[0]


def sizes_like(kind: Type, operands: Sequence[Value]) -> list[Any]:
    """Return the sizes of a result that has those of its operands."""
    sizes = list(kind.sizes)
    for axis, size in enumerate(sizes):
        if size is None:
            known = (one.sizes[axis] for one in operands if one.rank == len(sizes) and one.sizes[axis] is not None)
            sizes[axis] = next(known, None)
    return sizes


def sizes_from(kind: Type, shape: Sequence[Value]) -> list[Any]:
    """Return the sizes of a result whose shape another value, if there is one, gives."""
    if not shape:
        return list(kind.sizes)
    given = shape[0].counts() or tf.unstack(shape[0].full())
    return [known if known is not None else one for known, one in zip(kind.sizes, given, strict=True)]


def ordered(x: Any, given: Sequence[Any], wanted: Sequence[Any]) -> Any:
    """Return a tensor whose axes are named ``given`` with its axes in the order wanted; transposes are joined."""
    order = [list(given).index(axis) for axis in wanted]
    while tf.is_tensor(x) and x.op.type == "Transpose":
        inner = tf.get_static_value(x.op.inputs[1])
        x, order = x.op.inputs[0], [int(inner[axis]) for axis in order]
    return x if order == sorted(order) else run(tf.transpose, x, order)


def cast(x: Any, kind: Type) -> Any:
    """Return values in the type that an operation declares."""
    return x if tf.as_dtype(x.dtype) == kind.dtype else run(tf.cast, x, kind.dtype)


def counted(operation: Operation, operands: list[Value]) -> list[Any] | None:
    """Return the result of an operation on numbers that count; ``None`` if it is none, or all of them are known."""
    if operation.name not in (*_BINARY, "concatenate", "convert", "reshape", "broadcast_in_dim"):
        return None
    kind = operation.types[0]
    types = {one.dtype.is_integer for one in (kind, *(operand.type for operand in operands))}
    if types != {True} or len(kind.sizes) > 1 or None in kind.sizes:
        return None
    items = [one.counts() or ([one.full()] if one.rank == 0 else None) for one in operands]
    if None in items or all(isinstance(item, int) for one in items for item in one or ()):
        return None
    if operation.name in _BINARY:
        return [combined(operation.name, a, b) for a, b in zip(*items, strict=True)]
    joined, count = [item for one in items for item in one or ()], math.prod(kind.sizes)
    return joined * (count // len(joined)) if count <= MOST_ITEMS else None


def combined(kind: str, a: Any, b: Any) -> Any:
    """Return a sum, a product and so on of two numbers, known or not."""
    if isinstance(a, int) and isinstance(b, int):
        return int(run(_BINARY[kind], np.int64(a), np.int64(b)))
    if a is b and kind in _OF_EQUALS:
        return _OF_EQUALS[kind](a)
    if isinstance(a, int) and kind in ("add", "multiply"):
        a, b = b, a
    if isinstance(b, int) and _LEAVES.get(kind) == b:
        return a
    dtype = a.dtype if tf.is_tensor(a) else b.dtype
    return _BINARY[kind](tf.cast(a, dtype), tf.cast(b, dtype))


def clamped(low: Any, item: Any, high: Any) -> Any:
    """Return a number between two others, of which the second is not less than the first."""
    if low == high or (isinstance(low, int) and isinstance(item, int) and item <= low):
        return low
    return combined("minimum", combined("maximum", item, low), high)
