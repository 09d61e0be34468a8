"""Numbers that count, such as sizes, of which some depend on the size of a batch.

A vector of them is a list, each of them a number or a scalar tensor. What is known altogether is an array elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.stablehlo.text import Operation
from attribution.graph.stablehlo.values import MOST_ITEMS, Value, run

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": tf.add, "subtract": tf.subtract, "multiply": tf.multiply, "maximum": tf.maximum, "minimum": tf.minimum,
    "divide": tf.truncatediv, "remainder": tf.truncatemod, "and": tf.bitwise.bitwise_and, "or": tf.bitwise.bitwise_or,
}  # fmt: skip
_OF_EQUALS: dict[str, Callable[[Any], Any]] = {"subtract": lambda a: 0, "maximum": lambda a: a, "minimum": lambda a: a}
_LEAVES = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}  # the second number that changes nothing


def counted(operation: Operation, operands: list[Value]) -> list[Any] | None:
    """Return the result of an operation on numbers that count; ``None`` if it is none, or all of them are known."""
    if operation.name not in _COUNTING or not all(one.type.dtype.is_integer for one in operands):
        return None
    items = [one.counts() or ([one.full()] if one.rank == 0 else None) for one in operands]
    if None in items or all(isinstance(item, int) for one in items for item in one or ()):
        return None
    return _COUNTING[operation.name](operation, items)


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


def _binary(operation: Operation, items: list[Any]) -> list[Any] | None:
    return [combined(operation.name, a, b) for a, b in zip(*items, strict=True)]


def _same(operation: Operation, items: list[Any]) -> list[Any] | None:
    kind = operation.types[0]
    if kind.dtype.is_floating or len(kind.sizes) > 1 or None in kind.sizes:
        return None
    count = math.prod(kind.sizes)
    if count > MOST_ITEMS or len(items[0]) not in (1, count):
        return None
    return list(items[0] * count if len(items[0]) == 1 else items[0])


def _concatenate(_: Operation, items: list[Any]) -> list[Any] | None:
    joined = [item for one in items for item in one]
    return joined if len(joined) <= MOST_ITEMS else None


_COUNTING: dict[str, Callable[[Operation, list[Any]], list[Any] | None]] = {
    **dict.fromkeys(_BINARY, _binary), **dict.fromkeys(("convert", "reshape", "broadcast_in_dim"), _same),
    "concatenate": _concatenate,
}  # fmt: skip
