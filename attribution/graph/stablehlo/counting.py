"""Numbers that count: sizes, the steps of a loop and where they write, computed while a module is translated.

A vector of them is a list, each of them a number or, where it depends on the size of a batch, a scalar tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.stablehlo.text import Operation
from attribution.graph.stablehlo.values import Value, run

MOST_ITEMS = 64  # numbers in a vector


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": tf.add, "subtract": tf.subtract, "multiply": tf.multiply, "maximum": tf.maximum, "minimum": tf.minimum,
    "divide": tf.truncatediv, "remainder": tf.truncatemod, "and": tf.bitwise.bitwise_and, "or": tf.bitwise.bitwise_or,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": tf.equal, "NE": tf.not_equal, "LT": tf.less, "LE": tf.less_equal, "GT": tf.greater, "GE": tf.greater_equal,
}  # fmt: skip
_OF_EQUALS: dict[str, Callable[[Any], Any]] = {"subtract": lambda a: 0, "maximum": lambda a: a, "minimum": lambda a: a}
_LEAVES = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}  # the second number that changes nothing


def counted(operation: Operation, operands: list[Value]) -> list[Any] | None:
    """Return the result of an operation on numbers that count; ``None`` if it is none, or must be computed later."""
    items = [
        [one.full()] if one.items is None and one.rank == 0 and one.type.dtype.is_integer else one.items
        for one in operands
    ]
    if operation.name not in _COUNTING or not items or None in items:
        return None
    return _COUNTING[operation.name](operation, items)


def combined(kind: str, a: Any, b: Any) -> Any:
    """Return a sum, a product and so on of two numbers, known or not."""
    if isinstance(a, int) and isinstance(b, int):
        return _of_known(_BINARY[kind], a, b)
    if a is b and kind in _OF_EQUALS:
        return _OF_EQUALS[kind](a)
    if isinstance(a, int) and kind in ("add", "multiply"):
        a, b = b, a
    if isinstance(b, int) and _LEAVES.get(kind) == b:
        return a
    dtype = a.dtype if tf.is_tensor(a) else b.dtype
    return _BINARY[kind](tf.cast(a, dtype), tf.cast(b, dtype))


def _of_known(function: Callable[[Any, Any], Any], a: int, b: int) -> int:
    return int(run(function, np.int64(a), np.int64(b)))


def clamped(low: Any, item: Any, high: Any) -> Any:
    """Return a number between two others, of which the second is not less than the first."""
    if low == high or (isinstance(low, int) and isinstance(item, int) and item <= low):
        return low
    return combined("minimum", combined("maximum", item, low), high)


def _all_known(items: list[Any]) -> bool:
    return all(isinstance(item, int) for item in items)


def _binary(operation: Operation, items: list[Any]) -> list[Any] | None:
    return [combined(operation.name, a, b) for a, b in zip(*items, strict=True)]


def _clamp(_: Operation, items: list[Any]) -> list[Any] | None:
    low, value, high = (one * len(items[1]) if len(one) == 1 else one for one in items)
    return [clamped(*three) for three in zip(low, value, high, strict=True)]


def _compare(operation: Operation, items: list[Any]) -> list[Any] | None:
    if not _all_known(items[0] + items[1]):
        return None
    return [_of_known(COMPARISONS[operation.direction], a, b) for a, b in zip(*items, strict=True)]


def _select(_: Operation, items: list[Any]) -> list[Any] | None:
    chosen, first, second = items
    chosen = chosen * len(first) if len(chosen) == 1 else chosen
    if not _all_known(chosen):
        return None
    return [a if one else b for one, a, b in zip(chosen, first, second, strict=True)]


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
    **dict.fromkeys(_BINARY, _binary), "clamp": _clamp, "compare": _compare, "select": _select, "convert": _same,
    "reshape": _same, "broadcast_in_dim": _same, "concatenate": _concatenate,
}  # fmt: skip
