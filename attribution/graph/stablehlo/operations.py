"""Arithmetic, moves, sums and products of StableHLO as operations of TensorFlow."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.stablehlo.text import Operation, Type, array
from attribution.graph.stablehlo.values import (
    Value,
    cast,
    clamped,
    combined,
    ordered,
    run,
    sizes_from,
    sizes_like,
    vector,
)  # fmt: skip
from attribution.graph.view import Untranslatable

# Elementwise operations


def _larger(a: Any, b: Any) -> Any:
    """Return the larger of two values: what is compared with 0 is a ReLU."""
    for x, zero in ((a, b), (b, a)):
        if isinstance(zero, np.ndarray) and tf.is_tensor(x) and x.dtype.is_floating and not zero.any():
            return tf.nn.relu(x)
    return tf.maximum(a, b)


def _quotient(a: Any, b: Any) -> Any:
    return tf.truncatediv(a, b) if tf.as_dtype(a.dtype).is_integer else tf.divide(a, b)


def _by_type(of_bool: Any, of_integers: Any) -> Callable[..., Any]:
    return lambda *values: (of_bool if tf.as_dtype(values[0].dtype).is_bool else of_integers)(*values)


def _between(low: Any, x: Any, high: Any) -> Any:
    return tf.minimum(_larger(x, low), high)


# Functions of values, which broadcast as TensorFlow does.
_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": tf.add, "subtract": tf.subtract, "multiply": tf.multiply, "divide": _quotient, "remainder": tf.truncatemod,
    "maximum": _larger, "minimum": tf.minimum, "power": tf.pow, "atan2": tf.atan2, "negate": tf.negative,
    "abs": tf.abs, "exponential": tf.exp, "exponential_minus_one": tf.math.expm1, "log": tf.math.log,
    "log_plus_one": tf.math.log1p, "logistic": tf.sigmoid, "tanh": tf.tanh, "sqrt": tf.sqrt, "rsqrt": tf.math.rsqrt,
    "sine": tf.sin, "cosine": tf.cos, "tan": tf.tan, "sign": tf.sign, "floor": tf.floor,
    "ceil": tf.math.ceil, "round_nearest_even": tf.round, "is_finite": tf.math.is_finite, "erf": tf.math.erf,
    "erfc": tf.math.erfc, "square": tf.square, "erf_inv": tf.math.erfinv, "lgamma": tf.math.lgamma,
    "digamma": tf.math.digamma, "sinh": tf.sinh, "cosh": tf.cosh, "asin": tf.asin, "acos": tf.acos, "atan": tf.atan,
    "asinh": tf.asinh, "acosh": tf.acosh, "atanh": tf.atanh, "select": tf.where, "clamp": _between,
    "and": _by_type(tf.logical_and, tf.bitwise.bitwise_and), "or": _by_type(tf.logical_or, tf.bitwise.bitwise_or),
    "xor": _by_type(tf.math.logical_xor, tf.bitwise.bitwise_xor), "not": _by_type(tf.logical_not, tf.bitwise.invert),
    "shift_left": tf.bitwise.left_shift, "shift_right_logical": tf.bitwise.right_shift,
}  # fmt: skip


def elementwise(operation: Operation, operands: list[Value]) -> Value:
    """Return a result whose values depend on the operands' values at the same place."""
    if operation.name not in _ELEMENTWISE:
        raise Untranslatable(operation.kind)
    return _at_each_place(operation.types[0], operands, _ELEMENTWISE[operation.name])


def _at_each_place(kind: Type, operands: list[Value], function: Callable[..., Any]) -> Value:
    result = run(function, *(operand.short() for operand in operands))
    everywhere = frozenset(range(len(kind.sizes)))
    stretched = everywhere.intersection(*(one.stretched if one.rank else everywhere for one in operands))
    return Value(kind, result, stretched, sizes_like(kind, operands))


def _maximum(operation: Operation, operands: list[Value]) -> Value:
    for value, bound in (operands, operands[::-1]):
        if _is_everywhere(bound, -math.inf):
            return value
    return elementwise(operation, operands)


def _select(operation: Operation, operands: list[Value]) -> Value:
    """Return a choice at each place, or what a known condition chooses."""
    condition = operands[0].constant()
    if condition is not None and condition.size == 1:
        return operands[1 if condition.item() else 2]
    return elementwise(operation, operands)


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": tf.equal, "NE": tf.not_equal, "LT": tf.less, "LE": tf.less_equal, "GT": tf.greater, "GE": tf.greater_equal,
}  # fmt: skip


def _compare(operation: Operation, operands: list[Value]) -> Value:
    return _at_each_place(operation.types[0], operands, _COMPARISONS[operation.direction])


def _convert(operation: Operation, operands: list[Value]) -> Value:
    kind = operation.types[0]
    return _at_each_place(kind, operands, lambda x: tf.cast(x, kind.dtype))


def _custom_call(operation: Operation, operands: list[Value]) -> list[Value]:
    found = re.search(r"@\"?([\w.]+)", operation.text)
    name = found[1] if found else ""
    if name == "shape_assertion":
        return []
    function = _ELEMENTWISE.get(name.partition(".")[2])
    if function is None or len(operation.types) != 1:
        raise Untranslatable(f"stablehlo.custom_call @{name}")
    return [_at_each_place(operation.types[0], operands, function)]


# Shapes


def _constant(operation: Operation, _: list[Value]) -> Value:
    kind = operation.types[0]
    found = array(operation.text, kind)
    if found.size > 1 and not any(found.strides):  # one number everywhere
        return Value(kind, np.asarray(found.flat[0]), frozenset(range(found.ndim)))
    return Value(kind, found)


def _broadcast(operation: Operation, operands: list[Value]) -> Value:
    """Return a value with other axes, of which those that are new or have one place are stretched."""
    kind, operand, places = operation.types[0], operands[0], operation.integers("dims")
    rank, short = len(kind.sizes), operand.short()
    sizes = sizes_from(kind, operands[1:])
    for axis, place in enumerate(places):
        if operand.type.sizes[axis] is None:
            sizes[place] = operand.size(axis)
    stretched = {places[axis] for axis in operand.stretched} | (set(range(rank)) - set(places))
    stretched |= {place for axis, place in enumerate(places) if operand.type.sizes[axis] == 1 != kind.sizes[place]}
    if len(short.shape):
        short = _placed(short, places[operand.rank - len(short.shape) :], rank)
    return Value(kind, short, frozenset(stretched), sizes)


def _placed(short: Any, places: Sequence[int], rank: int) -> Any:
    """Return a value with its axes at some places, and new ones of size 1 between and after them."""
    if list(places) != sorted(places):
        raise Untranslatable("stablehlo.broadcast_in_dim that transposes")
    for place in range(places[0], rank):
        if place not in places:
            short = run(tf.expand_dims, short, place - places[0])
    return short


def _reshape(operation: Operation, operands: list[Value]) -> Value:
    return reshaped(operation.types[0], operands[0], operands[1:])


def reshaped(kind: Type, operand: Value, shape: Sequence[Value] = ()) -> Value:
    """Return a value in another shape; after several reshapes the first and the last count."""
    operand = operand.origin or operand
    if operand.type == kind and kind.sizes.count(None) < 2:
        return operand
    sizes = sizes_from(kind, shape)
    if len(operand.short().shape) == 0 and operand.rank:  # one number everywhere
        return Value(kind, operand.short(), frozenset(range(len(sizes))), sizes)
    if kind.sizes.count(None) != 1 or 0 in kind.sizes:
        return Value(kind, sizes=sizes, origin=operand, later=lambda: run(tf.reshape, operand.full(), vector(sizes)))
    # The one open size is the operand's if all others have the same product.
    before = [size for size in operand.sizes if not isinstance(size, int)]
    known = {math.prod(size for size in one.sizes if size is not None) for one in (operand.type, kind)}
    sizes[kind.sizes.index(None)] = before[0] if len(before) == len(known) == 1 else None
    numbers = np.array([-1 if size is None else size for size in kind.sizes], np.int32)
    return Value(kind, sizes=sizes, origin=operand, later=lambda: run(tf.reshape, operand.full(), numbers))


def _transpose(operation: Operation, operands: list[Value]) -> Value:
    order = operation.integers("dims")
    sizes = [operands[0].sizes[axis] for axis in order]
    return Value(operation.types[0], ordered(operands[0].full(), range(len(order)), order), sizes=sizes)


def _concatenate(operation: Operation, operands: list[Value]) -> Value:
    axis, kind = operation.integers("dim")[0], operation.types[0]
    sizes = sizes_like(kind, operands)
    if kind.sizes[axis] is None:
        lengths = [one.size(axis) for one in operands]
        sizes[axis] = functools.reduce(functools.partial(combined, "add"), lengths)
    return Value(kind, run(tf.concat, [operand.full() for operand in operands], axis), sizes=sizes)


def _cut(kind: Type, operand: Value, parts: list[slice], taken: Sequence[Any] = ()) -> Value:
    """Return a part of a value, ``taken`` its sizes; a step that was written as a whole is returned as it is."""
    if operand.pieces is not None and operand.array is None:
        axis, pieces = operand.pieces
        piece = pieces.get(parts[axis].start or 0)
        if piece is not None and piece.type == kind:
            return piece
    known = zip(parts, taken or kind.sizes, operand.sizes, strict=True)
    sizes = [whole if part == slice(None) else size for part, size, whole in known]
    return Value(kind, run(lambda x: x[tuple(parts)], operand.full()), sizes=sizes)


def _real_dynamic_slice(operation: Operation, operands: list[Value]) -> Value:
    """Return a slice whose bounds are values."""
    bounds = [bound.counts() or tf.unstack(bound.full()) for bound in operands[1:]]
    parts = [slice(*three) for three in zip(*bounds, strict=True)]
    for axis, part in enumerate(parts):
        size = operands[0].sizes[axis]
        # The size of an axis of an argument is the batch's, wherever another open size was computed from it.
        is_batch = size is None and tf.is_tensor(part.stop) and part.stop.op.type == "StridedSlice"
        if (part.start, part.step) == (0, 1) and (part.stop is size or is_batch):
            parts[axis] = slice(None)
    return _cut(operation.types[0], operands[0], parts)


def _dynamic_slice(operation: Operation, operands: list[Value]) -> Value:
    """Return a slice of fixed sizes whose start is a value."""
    starts = [(start.counts() or [start.full()])[0] for start in operands[1:]]
    return _part(operands[0], dict(enumerate(starts)), operation.integers("sizes"), operation.types[0])


def _part(table: Value, places: Mapping[int, Any], taken: Sequence[Any], kind: Type, left: Sequence[int] = ()) -> Value:
    """Return one part of an array, such as a loop's last step, without the axes ``left`` out, of one place each.

    Places by axis are moved to where the part fits.
    """
    parts, fixed = [], list(kind.sizes)
    for axis, size in enumerate(taken):
        is_whole = size is table.sizes[axis] or size == table.type.sizes[axis]
        last = 0 if is_whole else combined("subtract", table.size(axis), size)
        start = clamped(0, places.get(axis, 0), last)
        parts.append(slice(None) if is_whole else slice(start, combined("add", start, size)))
        if axis in left:
            fixed.insert(axis, 1)
    part = _cut(Type(tuple(fixed), kind.dtype), table, parts, taken)
    rest = [part.size(axis) for axis in range(table.rank) if axis not in left]
    return reshaped(kind, part, [Value(Type((len(rest),), tf.int32), items=rest)]) if left else part


def _dynamic_update_slice(operation: Operation, operands: list[Value]) -> Value:
    """Return an array of which one step is replaced: what a loop collects."""
    whole, update, kind = operands[0], operands[1], operation.types[0]
    changed = [axis for axis in range(whole.rank) if update.type.sizes[axis] != whole.type.sizes[axis]]
    if not changed:
        return update
    axis = changed[0]
    place, length = operands[2 + axis].counts(), kind.sizes[axis]
    if len(changed) > 1 or place is None or not all(isinstance(size, int) for size in (*place, length)):
        raise Untranslatable("stablehlo.dynamic_update_slice at a place that is computed")
    if update.type.sizes[axis] != 1:
        raise Untranslatable("stablehlo.dynamic_update_slice of more than one step")
    pieces = _pieces(whole, update.type, axis) | {min(max(place[0], 0), length - 1): update}

    def joined() -> Any:
        return run(tf.concat, [pieces[start].full() for start in sorted(pieces)], axis)

    return Value(kind, sizes=sizes_like(kind, [whole]), pieces=(axis, pieces), later=joined)


def _pieces(whole: Value, kind: Type, axis: int) -> dict[int, Value]:
    """Return an array's steps by their place; those of an array that was not written so are cut when needed."""
    if whole.pieces is not None and whole.pieces[0] == axis and whole.pieces[1][0].type == kind:
        return whole.pieces[1]
    found = {}
    for start in range(whole.type.sizes[axis]):
        parts = [slice(None)] * whole.rank
        parts[axis] = slice(start, start + 1)
        later = functools.partial(lambda parts: _cut(kind, whole, parts).full(), parts)
        found[start] = Value(kind, sizes=sizes_like(kind, [whole]), later=later)
    return found


def _pad(operation: Operation, operands: list[Value]) -> Value:
    low, high, interior = (operation.integers(name) for name in ("low", "high", "interior"))
    if any(interior):
        raise Untranslatable("stablehlo.pad between values")
    changes = zip(operands[0].sizes, operation.types[0].sizes, low, high, strict=True)
    sizes = [size if any(counts) else known for known, size, *counts in changes]
    return Value(operation.types[0], padded(operands[0].full(), operands[1].full(), low, high), sizes=sizes)


def padded(x: Any, value: Any, low: Sequence[int], high: Sequence[int]) -> Any:
    """Return a tensor with values before and after those of each axis; negative counts cut."""
    paddings = [(max(before, 0), max(after, 0)) for before, after in zip(low, high, strict=True)]
    if any(map(any, paddings)):
        x = run(lambda x, value: tf.pad(x, paddings, constant_values=value), x, value)
    parts = tuple(slice(max(-a, 0), min(b, 0) or None) for a, b in zip(low, high, strict=True))
    return run(lambda a: a[parts], x) if any(part != slice(0, None) for part in parts) else x


def _iota(operation: Operation, operands: list[Value]) -> Value:
    kind, axis = operation.types[0], operation.integers("dim")[0]
    sizes = sizes_from(kind, operands)
    numbers = run(tf.cast, run(tf.range, sizes[axis]), kind.dtype)
    for _ in range(len(sizes) - axis - 1):
        numbers = run(tf.expand_dims, numbers, -1)
    return Value(kind, numbers, frozenset(range(len(sizes))) - {axis}, sizes)


def _reverse(operation: Operation, operands: list[Value]) -> Value:
    result = run(tf.reverse, operands[0].full(), list(operation.integers("dims")))
    return Value(operation.types[0], result, sizes=list(operands[0].sizes))


# Sums and products

# By the operation that joins two values: TensorFlow's, and the value that changes nothing.
REDUCTIONS: dict[str, tuple[Callable[..., Any], float]] = {
    "add": (tf.reduce_sum, 0), "maximum": (tf.reduce_max, -math.inf), "minimum": (tf.reduce_min, math.inf),
    "multiply": (tf.reduce_prod, 1), "and": (tf.reduce_all, 1), "or": (tf.reduce_any, 0),
}  # fmt: skip


def joining(operation: Operation, start: Value) -> str:
    """Return the operation by which a reduction joins two values and does no more, starting from its neutral value."""
    found = re.search(r"applies [\w]+\.(\w+)", operation.text)
    body = operation.regions[0].operations if operation.regions else []
    name = found[1] if found else body[0].name if len(body) == 2 else ""
    is_plain = found or (body and set(body[0].operands) == set(operation.regions[0].arguments))
    if name not in REDUCTIONS or not is_plain:
        raise Untranslatable(f"{operation.kind} by a function of its own")
    if not _is_neutral(start.constant(), REDUCTIONS[name][1]):
        raise Untranslatable(f"{operation.kind} that does not start from its neutral value")
    return name


def _is_neutral(start: np.ndarray | None, neutral: float) -> bool:
    if start is None:
        return False
    if start.dtype.kind in "iu" and math.isinf(neutral):
        limits = np.iinfo(start.dtype)
        return bool(start == (limits.max if neutral > 0 else limits.min))
    if math.isinf(neutral) and start.dtype.kind == "f":  # PyTorch begins with the least finite number
        return bool(start == neutral or start == math.copysign(np.finfo(start.dtype).max, neutral))
    return bool(start == neutral)


def _reduce(operation: Operation, operands: list[Value]) -> Value:
    axes = operation.integers("dimensions")
    if len(operands) != 2:
        raise Untranslatable("stablehlo.reduce of several values")
    function, _ = REDUCTIONS[joining(operation, operands[1])]
    sizes = [size for axis, size in enumerate(operands[0].sizes) if axis not in axes]
    return Value(operation.types[0], run(function, operands[0].full(), list(axes)), sizes=sizes)


def _dot_general(operation: Operation, operands: list[Value]) -> Value:
    batching, contracting = operation.pairs("batching_dims"), operation.pairs("contracting_dims")
    kept = [
        [axis for axis in range(operand.rank) if axis not in batching[side] + contracting[side]]
        for side, operand in enumerate(operands)
    ]
    sizes = [operands[0].sizes[axis] for axis in (*batching[0], *kept[0])] + [
        operands[1].sizes[axis] for axis in kept[1]
    ]
    product = _product([operand.rank for operand in operands], batching, contracting, kept)
    kind, factors = operation.types[0], [operand.full() for operand in operands]
    if kind.dtype.is_integer:  # TensorFlow multiplies no short ones, and has the result's type in the factors
        factors = [cast(factor, kind) for factor in factors]
    return Value(kind, cast(run(product, *factors), kind), sizes=sizes)


def _product(ranks: Sequence[int], batching: Any, contracting: Any, kept: Any) -> Callable[..., Any]:
    """Return a product of matrices, as one or as a sum over axes by their letters."""
    if list(ranks) == [2, 2] and len(contracting[0]) == 1 and not batching[0]:
        across, along = contracting[0][0] == 0, contracting[1][0] == 1
        return functools.partial(tf.matmul, transpose_a=across, transpose_b=along)
    equation = _equation(ranks, batching, contracting, kept)
    return lambda left, right: tf.raw_ops.Einsum(inputs=[left, right], equation=equation)


def _equation(ranks: Sequence[int], batching: Any, contracting: Any, kept: Any) -> str:
    """Return a product of matrices as ``tf.einsum`` writes it."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names: tuple[dict[int, str], dict[int, str]] = ({}, {})
    for pairs in (batching, contracting):
        for first, second in zip(*pairs, strict=True):
            names[0][first] = names[1][second] = next(letters)
    for side in (0, 1):
        names[side].update((axis, next(letters)) for axis in kept[side])
    left, right = ("".join(names[side][axis] for axis in range(ranks[side])) for side in (0, 1))
    result = [names[0][axis] for axis in batching[0]] + [names[side][axis] for side in (0, 1) for axis in kept[side]]
    return f"{left},{right}->{''.join(result)}"


def _gather(operation: Operation, operands: list[Value]) -> Value:
    """Return rows of a table, or windows of it: slices of full size but on the axes that indices choose from."""
    table, indices, kind = operands[0], operands[1], operation.types[0]
    axes, last = operation.integers("start_index_map"), operation.integers("index_vector_dim", (0,))[0]
    taken = operation.integers("slice_sizes") if len(operands) == 2 else operands[2].counts() or [None] * table.rank
    collapsed, batch = operation.integers("collapsed_slice_dims"), operation.integers("operand_batching_dims")
    if (indices.rank, last) == (1, 0) and None not in taken:
        starts = indices.counts() or tf.unstack(indices.full())
        return _part(table, dict(zip(axes, starts, strict=True)), taken, kind, collapsed)
    chosen = sorted(axis for axis in axes if axis in collapsed or taken[axis] != table.sizes[axis]) or axes[:1]
    whole = [axis for axis in range(table.rank) if axis not in (*chosen, *batch)]
    windows = {axis: taken[axis] for axis in chosen if axis not in collapsed}
    is_known = all(isinstance(taken[axis], int) for axis in chosen) and all(taken[a] == table.sizes[a] for a in whole)
    if last < indices.rank - 1 or not (is_known and {*collapsed} <= {*chosen}):
        raise Untranslatable("stablehlo.gather of other things than rows and windows")
    bounds = [combined("subtract", table.size(axis), taken[axis]) for axis in chosen]
    along = operation.integers("start_indices_batching_dims")
    order = [*along, *(axis for axis in range(last) if axis not in along)]
    places = _places(indices, last, [axes.index(axis) for axis in chosen], bounds)
    places = ordered(places, range(last + 1), [*order, last])
    if windows:
        places = _in_windows(places, windows, chosen)
    found = run(_rows, ordered(table.full(), range(table.rank), [*batch, *chosen, *whole]), places, len(batch))
    return _gathered(kind, found, indices.sizes[:last], order, [*windows, *whole], operation.integers("offset_dims"))


def _gathered(
    kind: Type, found: Any, rows: Sequence[Any], order: Sequence[int], sliced: Sequence[int], offsets: Sequence[int]
) -> Value:
    """Return what was found with its axes in order: it has those of ``rows`` in another, then those ``sliced``."""
    before = [axis for axis in range(len(kind.sizes)) if axis not in offsets]
    known, place_of = dict(zip(before, rows, strict=True)), dict(zip(sorted(sliced), offsets, strict=True))
    sizes = [known.get(axis, size) for axis, size in enumerate(kind.sizes)]
    given = [*(before[axis] for axis in order), *map(place_of.get, sliced)]
    return Value(kind, ordered(found, given, range(len(sizes))), sizes=sizes)


def _in_windows(places: Any, sizes: Mapping[int, int], axes: Sequence[int]) -> Any:
    """Return all places ``(..., sizes, axes)`` of windows of sizes by axis that start at places ``(..., axes)``."""
    steps = np.stack(np.meshgrid(*(np.arange(sizes.get(axis, 1)) for axis in axes), indexing="ij"), -1)
    steps = steps.reshape([*sizes.values(), len(axes)])
    for _ in sizes:
        places = run(tf.expand_dims, places, -2)
    return run(lambda at: at + tf.cast(steps, at.dtype), places)


def _places(indices: Value, axis: int, chosen: list[int], last: Sequence[Any]) -> Any:
    """Return the chosen ones of the indices along the last axis, moved to where a table has rows, as XLA does."""
    places = indices.full() if axis < indices.rank else run(tf.expand_dims, indices.full(), -1)
    if tf.as_dtype(places.dtype).is_unsigned:  # TensorFlow looks up by numbers that have a sign
        places = run(tf.cast, places, tf.int64)
    if chosen != [*range(places.shape[-1])]:
        places = run(lambda at: tf.gather(at, chosen, axis=-1), places)
    bound = run(tf.cast, vector(last), places.dtype)
    return run(lambda at: tf.minimum(tf.maximum(at, tf.zeros_like(bound)), bound), places)


def _rows(table: Any, places: Any, batch: int) -> Any:
    if places.shape[-1] == 1:
        return tf.gather(table, places[..., 0], axis=batch, batch_dims=batch)
    return tf.gather_nd(table, places, batch)


def _epsilon(operation: Operation) -> float:
    return float(operation.text.partition("epsilon = ")[2].split()[0])


def _normalized(operation: Operation, operands: list[Value]) -> Value:
    """Return batch normalization by known averages."""
    x, *vectors = operands
    shape = [1] * x.rank
    shape[operation.integers("feature_index")[0]] = -1
    scale, offset, mean, variance = (run(tf.reshape, vector_.full(), shape) for vector_ in vectors)
    result = tf.nn.batch_normalization(x.full(), mean, variance, offset, scale, _epsilon(operation))
    return Value(operation.types[0], result, sizes=list(x.sizes))


def _normalized_alone(operation: Operation, operands: list[Value]) -> list[Value]:
    """Return normalization by averages of the values themselves, as PyTorch writes that of a layer or of groups."""
    x, axis = operands[0], operation.integers("feature_index")[0]
    if not (_is_everywhere(operands[1], 1) and _is_everywhere(operands[2], 0)):
        raise Untranslatable("stablehlo.batch_norm_training with weights")
    source, axes = x, [place for place in range(x.rank) if place != axis]
    if x.origin is not None and (x.rank, axis) == (3, 1) and x.origin.type.sizes[-1] == x.type.sizes[-1]:
        source, axes = x.origin, [x.origin.rank - 1]
    mean, variance = tf.nn.moments(source.full(), axes, keepdims=True)
    normal = tf.nn.batch_normalization(source.full(), mean, variance, None, None, _epsilon(operation))
    result = reshaped(x.type, Value(source.type, normal, sizes=list(source.sizes)))
    moments = [run(tf.reshape, moment, [-1]) for moment in (mean, variance)]
    return [result, *(Value(kind, moment) for kind, moment in zip(operation.types[1:], moments, strict=True))]


def _is_everywhere(value: Value, number: float) -> bool:
    known = value.constant()
    return known is not None and bool((known == number).all())


TRANSLATIONS: dict[str, Callable[[Operation, list[Value]], Any]] = {
    "maximum": _maximum, "select": _select, "compare": _compare, "convert": _convert,
    "custom_call": _custom_call, "constant": _constant,
    "get_dimension_size": lambda one, operands: Value(one.types[0], items=[operands[0].size(one.integers("dim")[0])]),
    "broadcast_in_dim": _broadcast, "dynamic_broadcast_in_dim": _broadcast,
    "reshape": _reshape, "dynamic_reshape": _reshape, "transpose": _transpose, "concatenate": _concatenate,
    "slice": lambda operation, operands: _cut(operation.types[0], operands[0], operation.slices),
    "real_dynamic_slice": _real_dynamic_slice, "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice, "pad": _pad, "iota": _iota, "dynamic_iota": _iota,
    "batch_norm_inference": _normalized, "batch_norm_training": _normalized_alone, "reverse": _reverse,
    "reduce": _reduce, "dot_general": _dot_general, "gather": _gather, "dynamic_gather": _gather,
    "optimization_barrier": lambda _, operands: operands,
}  # fmt: skip
