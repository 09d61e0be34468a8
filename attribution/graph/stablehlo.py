"""Turn the StableHLO modules of JAX and PyTorch into operations of TensorFlow.

Keras on JAX, ``jax2tf``, orbax-export and the exporters of PyTorch put a whole network into one operation,
``XlaCallModule``, in which no layer can be seen. Here each operation of such a module becomes the operation that Keras
on TensorFlow writes for it, so that nothing downstream knows of the difference. What is not translated stays in its
module.

Two things are done while translating, because they are lost afterwards. A broadcast is delayed until something needs
all its values, since TensorFlow's own arithmetic broadcasts: a bias stays a vector. Numbers that only count, such as
sizes and the steps of a loop, are computed here and now as far as they are known, and loops are unrolled.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import described
from attribution.graph import _tf_internals
from attribution.graph._stablehlo_text import Operation, Region, Type, Unreadable, array, read
from attribution.graph.view import outside, without_nodes

MODULE = "XlaCallModule"
MOST_OPERATIONS = 50_000  # of a module, its loops unrolled
_MOST_ITEMS = 64  # numbers that count, in a vector
_MOST_FOLDED = 1 << 20  # elements of a constant that is computed here
_IGNORED = ("shape_assertion", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape")


class Untranslatable(ValueError):
    """A module holds something without a translation; the message names it."""


@dataclasses.dataclass(eq=False)
class Value:
    """What an operation of a module computes.

    Attributes
    ----------
    type
        Its sizes and its type.
    array
        Its values, a tensor or an array; axes that are still to be broadcast have size 1, or are missing at the front.
        ``None`` for numbers that count until they are asked for.
    stretched
        Axes that are still to be broadcast.
    sizes
        Its sizes as numbers or scalar tensors, ``None`` where they are not known yet.
    items
        Numbers that count, of a scalar or a vector: each a number or a scalar tensor.
    window
        Of a sum over windows: its input, sizes, strides and padding.
    pieces
        Of an array that is being written step by step: its axis, and each step's place and values.
    """

    type: Type
    array: Any = None
    stretched: frozenset[int] = frozenset()
    sizes: list[Any] = dataclasses.field(default_factory=list)
    items: list[Any] | None = None
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

    def short(self) -> Any:
        """Return the values, not yet broadcast."""
        if self.array is None and self.items is not None:
            self.array = _from_items(self)
        elif self.array is None:
            self.array = _joined(self)
        return self.array

    def full(self) -> Any:
        """Return all values."""
        short = self.short()
        if self.stretched:
            sizes = [self.size(axis) for axis in range(self.rank)]
            self.array = _run(tf.broadcast_to, short, _vector(sizes))
            self.stretched = frozenset()
        return self.array

    def constant(self) -> np.ndarray | None:
        """Return the values if they are known here, not yet broadcast."""
        short = self.short()
        return short if isinstance(short, np.ndarray) else None


def lower(graph_def: tf.compat.v1.GraphDef) -> tuple[tf.compat.v1.GraphDef, dict[str, str]]:
    """Replace the modules of a graph by operations of TensorFlow.

    Parameters
    ----------
    graph_def
        A graph without calls at its top level.

    Returns
    -------
    lowered
        The same graph if it has no module.
    renamed
        New names of the modules' outputs but the first, by tensor name.

    Raises
    ------
    Untranslatable
        If a module holds something without a translation, or cannot be read; the message says what.
    """
    bodies = {node.name: _translated(node) for node in graph_def.node if node.op == MODULE}
    if not bodies:
        return graph_def, {}
    result = without_nodes(graph_def, bodies)
    renamed: dict[str, str] = {}
    for node in graph_def.node:
        if node.name in bodies:
            renamed |= _insert(result, node, *bodies[node.name])
    for node in result.node:
        for position, tensor in enumerate(node.input):
            node.input[position] = renamed.get(tensor, tensor)
    return result, renamed


def _insert(result: Any, call: Any, body: Any, outputs: Sequence[str]) -> dict[str, str]:
    """Add a module's body to a graph in place of its call; return the new names of outputs but the first."""
    arguments = [name for name in call.input if not name.startswith("^")]
    given = {f"argument_{number}": name for number, name in enumerate(arguments)}
    for inner in body.node:
        if inner.name not in given:
            copy = result.node.add()
            copy.CopyFrom(inner)
            copy.name = f"{call.name}/{inner.name}"
            del copy.input[:]
            copy.input.extend(outside(tensor, call.name, given) for tensor in inner.input)
    renamed = {}
    for number, (tensor, dtype) in enumerate(zip(outputs, call.attr["Tout"].list.type, strict=True)):
        identity = result.node.add(name=f"{call.name}/output_{number}" if number else call.name, op="Identity")
        identity.attr["T"].type = dtype
        identity.input.append(outside(tensor, call.name, given))
        if number:
            renamed[f"{call.name}:{number}"] = f"{identity.name}:0"
    return renamed


def _translated(node: Any) -> tuple[tf.compat.v1.GraphDef, list[str]]:
    """Return a module as a graph, whose inputs are ``argument_0`` and so on, and the names of its outputs."""
    text = _tf_internals.stablehlo_text(node.attr["module"].s, inlined=True)
    if text is None:
        raise Untranslatable("a module that TensorFlow cannot read")
    try:
        arguments, body = read(text)
        if len(arguments) != len([name for name in node.input if not name.startswith("^")]):
            raise Untranslatable("a module that is called with other arguments than it has")
        with tf.Graph().as_default() as graph:
            given = [
                Value(kind, tf.compat.v1.placeholder(kind.dtype, kind.sizes, f"argument_{number}"))
                for number, kind in enumerate(arguments)
            ]
            outputs = [tf.convert_to_tensor(value.full()) for value in _Translator().run(body, given)]
    except Unreadable as error:
        raise Untranslatable(str(error)) from error
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, tf.errors.OpError) as error:
        if isinstance(error, Untranslatable):
            raise
        raise Untranslatable(f"a module of a form that is not known ({described(error)})") from error
    return graph.as_graph_def(), [output.name for output in outputs]


class _Translator:
    """Translates the operations of one module into the graph that is being built."""

    def __init__(self) -> None:
        self._count = 0
        self._values: dict[str, Value] = {}

    def run(self, region: Region, given: Iterable[Value]) -> list[Value]:
        """Translate a region on values for its arguments; return what it returns."""
        self._values.update(zip(region.arguments, given, strict=True))
        for operation in region.operations:
            self._count += 1
            if self._count > MOST_OPERATIONS:
                raise Untranslatable(f"more than {MOST_OPERATIONS:,} operations, its loops unrolled")
            operands = [self._values[name] for name in operation.operands]
            if operation.kind in ("return", "stablehlo.return", "func.return"):
                return operands
            with tf.name_scope(_scope(operation)):
                found = self._translate(operation, operands)
            self._values.update(zip(operation.results, found, strict=True))
        raise Untranslatable("a region that returns nothing")

    def _translate(self, operation: Operation, operands: list[Value]) -> list[Value]:
        if operation.kind == "stablehlo.while":
            return self._unrolled(operation, operands)
        kind = operation.kind.partition(".")[2]
        if all(operand.items is not None for operand in operands) and kind in _COUNTING:
            counted = _COUNTING[kind](operation, operands)
            if counted is not None:
                return [Value(operation.types[0], items=counted)]
        if kind in _ELEMENTWISE:
            return [_elementwise(operation, operands, _ELEMENTWISE[kind])]
        if kind not in _OTHERS:
            raise Untranslatable(f"{operation.kind}{_callee(operation)}")
        found = _OTHERS[kind](operation, operands)
        return found if isinstance(found, list) else [found]

    def _unrolled(self, loop: Operation, state: list[Value]) -> list[Value]:
        """Return what a loop's variables are at its end; the number of its steps must not depend on the input."""
        condition, body = loop.regions
        while True:
            goes_on = self.run(condition, state)[0].constant()
            if goes_on is None:
                raise Untranslatable("stablehlo.while whose number of steps depends on the input")
            if not goes_on:
                return state
            state = self.run(body, state)


def _scope(operation: Operation) -> str:
    """Return the scope of TensorFlow's names for an operation: its maker's, without the names of programs."""
    parts = [re.sub(r"[^\w.-]", "_", part) for part in operation.scope.split("/") if "(" not in part]
    parts = [part for part in parts[:-1] if part and part[0].isalnum()]
    return "/".join(parts) + "/" if parts else ""


def _callee(operation: Operation) -> str:
    found = re.search(r"@[\w.\"]+", operation.text)
    return f" {found[0]}" if found else ""


# Tensors and arrays


def _run(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return a function's result: an array if all arguments are known here, else a tensor of the graph."""
    known = all(not tf.is_tensor(one) for one in tf.nest.flatten(arguments))
    if not known:
        return function(*arguments, **options)
    with _tf_internals.eagerly(), tf.device("CPU"):
        result = np.asarray(function(*arguments, **options))
    return result if result.size <= _MOST_FOLDED else function(*arguments, **options)


def _vector(items: Sequence[Any]) -> Any:
    """Return sizes as a vector: of numbers where all are known."""
    if all(isinstance(item, int) for item in items):
        return np.array(items, np.int32)
    return tf.stack([tf.cast(item, tf.int32) if tf.is_tensor(item) else tf.constant(item, tf.int32) for item in items])


def _from_items(value: Value) -> Any:
    dtype, items = value.type.dtype, value.items or []
    if all(isinstance(item, int) for item in items):
        return np.array(items, dtype.as_numpy_dtype).reshape(value.type.sizes)
    tensors = [tf.cast(item, dtype) if tf.is_tensor(item) else tf.constant(item, dtype) for item in items]
    return tensors[0] if value.rank == 0 else tf.stack(tensors)


def _joined(value: Value) -> Any:
    """Return an array that was written in pieces."""
    axis, pieces = value.pieces or (0, {})
    found, place = [], 0
    for start in sorted(pieces):
        if start != place:
            raise Untranslatable("stablehlo.dynamic_update_slice that leaves gaps")
        found.append(pieces[start].full())
        place = start + pieces[start].type.sizes[axis]
    if place != value.type.sizes[axis]:
        raise Untranslatable("stablehlo.dynamic_update_slice that leaves gaps")
    return _run(tf.concat, found, axis)


def _like(kind: Type, operands: Sequence[Value]) -> list[Any]:
    """Return the sizes of a result that has those of its operands."""
    sizes: list[Any] = list(kind.sizes)
    for axis, size in enumerate(sizes):
        if size is None:
            known = (one.sizes[axis] for one in operands if one.rank == len(sizes) and one.sizes[axis] is not None)
            sizes[axis] = next(known, None)
    return sizes


# Numbers that count

_ITEM_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "maximum": max, "minimum": min,
    "divide": lambda a, b: int(a / b) if abs(a) < 1 << 50 else a // b, "remainder": math.fmod,
    "and": operator.and_, "or": operator.or_,
}  # fmt: skip
_TENSOR_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": tf.add, "subtract": tf.subtract, "multiply": tf.multiply, "maximum": tf.maximum, "minimum": tf.minimum,
    "divide": tf.truncatediv, "remainder": tf.truncatemod, "and": tf.bitwise.bitwise_and, "or": tf.bitwise.bitwise_or,
}  # fmt: skip
_COMPARISONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "EQ": (operator.eq, tf.equal), "NE": (operator.ne, tf.not_equal), "LT": (operator.lt, tf.less),
    "LE": (operator.le, tf.less_equal), "GT": (operator.gt, tf.greater), "GE": (operator.ge, tf.greater_equal),
}  # fmt: skip


def _item(kind: str, a: Any, b: Any) -> Any:
    """Return a sum, a product and so on of two numbers, known or not."""
    if isinstance(a, int) and isinstance(b, int):
        return int(_ITEM_OPERATIONS[kind](a, b))
    if a is b and kind in ("subtract", "maximum", "minimum"):
        return 0 if kind == "subtract" else a
    if kind == "add" and 0 in (a if isinstance(a, int) else None, b if isinstance(b, int) else None):
        return b if isinstance(a, int) else a
    if kind == "multiply" and 1 in (a if isinstance(a, int) else None, b if isinstance(b, int) else None):
        return b if isinstance(a, int) else a
    if isinstance(b, int) and ((kind == "subtract" and b == 0) or (kind == "divide" and b == 1)):
        return a
    dtype = a.dtype if tf.is_tensor(a) else b.dtype
    return _TENSOR_OPERATIONS[kind](tf.cast(a, dtype), tf.cast(b, dtype))


def _count_binary(operation: Operation, operands: list[Value]) -> list[Any] | None:
    kind = operation.kind.partition(".")[2]
    first, second = (operand.items or [] for operand in operands)
    return [_item(kind, a, b) for a, b in zip(first, second, strict=True)]


def _count_clamp(_: Operation, operands: list[Value]) -> list[Any] | None:
    low, value, high = (operand.items or [] for operand in operands)
    count = len(value)
    low, high = (bound * count if len(bound) == 1 else bound for bound in (low, high))
    return [
        _item("minimum", _item("maximum", a, b), c) if not (b == 0 and isinstance(a, int) and c == 0) else 0
        for a, b, c in zip(low, value, high, strict=True)
    ]


def _count_compare(operation: Operation, operands: list[Value]) -> list[Any] | None:
    first, second = (operand.items or [] for operand in operands)
    compare, _ = _COMPARISONS[_direction(operation)]
    if any(not isinstance(item, int) for item in first + second):
        return None
    return [int(compare(a, b)) for a, b in zip(first, second, strict=True)]


def _count_select(_: Operation, operands: list[Value]) -> list[Any] | None:
    chosen, first, second = (operand.items or [] for operand in operands)
    if any(not isinstance(item, int) for item in chosen):
        return None
    chosen = chosen * len(first) if len(chosen) == 1 else chosen
    return [a if one else b for one, a, b in zip(chosen, first, second, strict=True)]


def _count_same(operation: Operation, operands: list[Value]) -> list[Any] | None:
    items = operands[0].items or []
    if operation.types[0].dtype.is_floating:
        return None
    count = math.prod(operation.types[0].sizes) if operation.types[0].sizes else 1  # type: ignore[arg-type]
    if len(operation.types[0].sizes) > 1 or count > _MOST_ITEMS:
        return None
    return items * count if len(items) == 1 and count > 1 else items


def _count_concatenate(_: Operation, operands: list[Value]) -> list[Any] | None:
    items = [item for operand in operands for item in operand.items or []]
    return items if len(items) <= _MOST_ITEMS else None


def _count_slice(operation: Operation, operands: list[Value]) -> list[Any] | None:
    (part,) = _slices(operation)
    return (operands[0].items or [])[part]


_COUNTING: dict[str, Callable[[Operation, list[Value]], list[Any] | None]] = {
    **dict.fromkeys(_ITEM_OPERATIONS, _count_binary),
    "clamp": _count_clamp, "compare": _count_compare, "select": _count_select, "convert": _count_same,
    "reshape": _count_same, "broadcast_in_dim": _count_same, "concatenate": _count_concatenate,
    "slice": _count_slice,
}  # fmt: skip


# Elementwise operations


def _direction(operation: Operation) -> str:
    return operation.text.split(",")[0].split()[0]


def _relu(a: Any, b: Any) -> Any:
    """Return the larger of two values: what is compared with 0 is a ReLU."""
    for x, zero in ((a, b), (b, a)):
        if isinstance(zero, np.ndarray) and tf.is_tensor(x) and x.dtype.is_floating and not zero.any():
            return tf.nn.relu(x)
    return tf.maximum(a, b)


def _compare(a: Any, b: Any, operation: Operation) -> Any:
    return _COMPARISONS[_direction(operation)][1](a, b)


def _divide(a: Any, b: Any) -> Any:
    dtype = tf.as_dtype(a.dtype)
    return tf.truncatediv(a, b) if dtype.is_integer else tf.divide(a, b)


def _remainder(a: Any, b: Any) -> Any:
    dtype = tf.as_dtype(a.dtype)
    if dtype.is_floating and dtype.size == 2:  # without a kernel
        return tf.cast(tf.truncatemod(tf.cast(a, tf.float32), tf.cast(b, tf.float32)), dtype)
    return tf.truncatemod(a, b)


def _logical(of_bool: Any, of_integers: Any) -> Callable[..., Any]:
    return lambda *values: (of_bool if tf.as_dtype(values[0].dtype).is_bool else of_integers)(*values)


def _clamp(low: Any, x: Any, high: Any) -> Any:
    if isinstance(low, np.ndarray) and isinstance(high, np.ndarray) and tf.is_tensor(x) and x.dtype.is_floating:
        if not low.any() and (high == 6).all():
            return tf.nn.relu6(x)
    return tf.minimum(tf.maximum(x, low), high)


def _convert(x: Any, operation: Operation) -> Any:
    return tf.cast(x, operation.types[0].dtype)


def _cbrt(x: Any) -> Any:
    return tf.sign(x) * tf.pow(tf.abs(x), tf.constant(1 / 3, x.dtype))


# Functions from values that broadcast as TensorFlow does; those that look at the operation have it as last argument.
_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": tf.add, "subtract": tf.subtract, "multiply": tf.multiply, "divide": _divide, "remainder": _remainder,
    "maximum": _relu, "minimum": tf.minimum, "power": tf.pow, "atan2": tf.atan2, "negate": tf.negative,
    "abs": tf.abs, "exponential": tf.exp, "exponential_minus_one": tf.math.expm1, "log": tf.math.log,
    "log_plus_one": tf.math.log1p, "logistic": tf.sigmoid, "tanh": tf.tanh, "sqrt": tf.sqrt, "rsqrt": tf.math.rsqrt,
    "cbrt": _cbrt, "sine": tf.sin, "cosine": tf.cos, "tan": tf.tan, "sign": tf.sign, "floor": tf.floor,
    "ceil": tf.math.ceil, "round_nearest_even": tf.round, "is_finite": tf.math.is_finite, "erf": tf.math.erf,
    "erfc": tf.math.erfc, "square": tf.square, "erf_inv": tf.math.erfinv, "lgamma": tf.math.lgamma,
    "digamma": tf.math.digamma, "sinh": tf.sinh, "cosh": tf.cosh, "asin": tf.asin, "acos": tf.acos, "atan": tf.atan,
    "asinh": tf.asinh, "acosh": tf.acosh, "atanh": tf.atanh,
    "and": _logical(tf.logical_and, tf.bitwise.bitwise_and), "or": _logical(tf.logical_or, tf.bitwise.bitwise_or),
    "xor": _logical(tf.math.logical_xor, tf.bitwise.bitwise_xor), "not": _logical(tf.logical_not, tf.bitwise.invert),
    "shift_left": tf.bitwise.left_shift, "shift_right_logical": tf.bitwise.right_shift,
    "shift_right_arithmetic": tf.bitwise.right_shift, "select": tf.where, "clamp": _clamp, "compare": _compare,
    "convert": _convert, "real": tf.math.real, "imag": tf.math.imag, "complex": tf.complex,
    "optimization_barrier": tf.identity,
}  # fmt: skip
_LOOKS = (_compare, _convert)


def _elementwise(operation: Operation, operands: list[Value], function: Callable[..., Any]) -> Value:
    """Return a result whose values depend on the operands' values at the same place."""
    kind = operation.types[0]
    if operation.kind == "stablehlo.divide" and operands[0].window and (pooled := _average_pool(operation, operands)):
        return pooled
    looks = (operation,) if function in _LOOKS else ()
    result = _run(function, *(operand.short() for operand in operands), *looks)
    stretched = frozenset.intersection(
        *(operand.stretched if operand.rank else frozenset(range(len(kind.sizes))) for operand in operands)
    )
    return Value(kind, result, stretched, _like(kind, operands))


# Shapes


def _constant(operation: Operation, _: list[Value]) -> Value:
    kind = operation.types[0]
    found = array(operation.text, kind)
    if kind.dtype.is_floating or kind.dtype.is_complex or len(kind.sizes) > 1 or found.size > _MOST_ITEMS:
        if found.size > 1 and not any(found.strides):  # one number everywhere
            return Value(kind, found.ravel()[0].reshape(()), frozenset(range(found.ndim)))
        return Value(kind, found)
    return Value(kind, found, items=[int(one) for one in found.ravel()])


def _dimension_size(operation: Operation, operands: list[Value]) -> Value:
    return Value(operation.types[0], items=[operands[0].size(operation.integers("dim")[0])])


def _broadcast(operation: Operation, operands: list[Value]) -> Value:
    """Return a value with other axes, of which those that are new or have one place are stretched."""
    kind, operand, places = operation.types[0], operands[0], operation.integers("dims")
    rank = len(kind.sizes)
    sizes = _sizes_of(kind, operands[1] if len(operands) > 1 else None)
    for axis, place in enumerate(places):
        if sizes[place] is None or operand.type.sizes[axis] is None:
            sizes[place] = operand.size(axis)
    stretched = {places[axis] for axis in operand.stretched} | (set(range(rank)) - set(places))
    stretched |= {place for axis, place in enumerate(places) if operand.type.sizes[axis] == 1 != kind.sizes[place]}
    short = operand.short()
    if places != tuple(range(rank - operand.rank, rank)) and len(short.shape):
        short = _placed(short, operand.rank, places, rank)
    return Value(kind, short, frozenset(stretched), sizes)


def _placed(short: Any, axes: int, places: Sequence[int], rank: int) -> Any:
    """Return a value with its axes at some places, behind each other, and new ones of size 1 between and after them."""
    if list(places) != sorted(places):
        raise Untranslatable("stablehlo.broadcast_in_dim that transposes")
    places = places[axes - len(short.shape) :]  # the first ones may be missing
    for new in range(places[0], rank):
        if new not in places:
            short = _run(tf.expand_dims, short, new - places[0])
    return short


def _sizes_of(kind: Type, shape: Value | None) -> list[Any]:
    """Return the sizes of a result whose shape another value gives."""
    sizes: list[Any] = list(kind.sizes)
    for axis, size in enumerate(sizes):
        if size is None and shape is not None:
            sizes[axis] = shape.items[axis] if shape.items is not None else shape.full()[axis]
    return sizes


def _reshape(operation: Operation, operands: list[Value]) -> Value:
    kind, operand = operation.types[0], operands[0]
    sizes = _sizes_of(kind, operands[1] if len(operands) > 1 else None)
    if operand.sizes == sizes and operand.rank == len(sizes):
        return operand
    if (
        operand.stretched and not operand.short().shape.rank
        if tf.is_tensor(operand.short())
        else operand.short().ndim == 0
    ):
        return Value(kind, operand.short(), frozenset(range(len(sizes))), sizes)
    open_ = [axis for axis, size in enumerate(kind.sizes) if size is None]
    if len(open_) == 1 and 0 not in kind.sizes:
        shape: Any = np.array([-1 if size is None else size for size in kind.sizes], np.int32)
        before = [size for size in operand.sizes if not isinstance(size, int)]
        if len(before) == 1 and before[0] is not None and _known(operand.type.sizes) == _known(kind.sizes):
            sizes[open_[0]] = before[0]
    else:
        shape = _vector([sizes[axis] for axis in range(len(sizes))])
    return Value(kind, _run(tf.reshape, operand.full(), shape), sizes=sizes)


def _known(sizes: Sequence[int | None]) -> int:
    return math.prod(size for size in sizes if size is not None)


def _transpose(operation: Operation, operands: list[Value]) -> Value:
    order, operand = operation.integers("dims"), operands[0]
    sizes = [operand.sizes[axis] for axis in order]
    if list(order) == sorted(order):
        return operand
    return Value(operation.types[0], _run(tf.transpose, operand.full(), list(order)), sizes=sizes)


def _concatenate(operation: Operation, operands: list[Value]) -> Value:
    axis, kind = operation.integers("dim")[0], operation.types[0]
    sizes = _like(kind, operands)
    if kind.sizes[axis] is None:
        sizes[axis] = functools.reduce(lambda a, b: _item("add", a, b), [one.size(axis) for one in operands])
    return Value(kind, _run(tf.concat, [operand.full() for operand in operands], axis), sizes=sizes)


def _slices(operation: Operation) -> list[slice]:
    inside = re.search(r"\[(.*)\]", operation.text)
    parts = [] if not inside or not inside[1] else inside[1].split(",")
    return [slice(*(int(number) for number in part.split(":"))) for part in parts]


def _slice(operation: Operation, operands: list[Value]) -> Value:
    operand = operands[0]
    return _cut(operation.types[0], operand, _slices(operation))


def _cut(kind: Type, operand: Value, parts: list[slice]) -> Value:
    """Return a part of a value; a step that was written as a whole is returned as it is."""
    if operand.pieces is not None and operand.array is None:
        axis, pieces = operand.pieces
        if (found := pieces.get(parts[axis].start or 0)) is not None and found.type == kind:
            return found
    sizes = [
        operand.sizes[axis] if part == slice(None) else size
        for axis, (part, size) in enumerate(zip(parts, kind.sizes, strict=True))
    ]
    return Value(kind, _run(lambda x: x[tuple(parts)], operand.full()), sizes=sizes)


def _real_dynamic_slice(operation: Operation, operands: list[Value]) -> Value:
    """Return a slice whose bounds are values."""
    operand, kind = operands[0], operation.types[0]
    starts, limits, strides = (bound.items if bound.items is not None else None for bound in operands[1:])
    if starts is None or limits is None or strides is None:
        raise Untranslatable("stablehlo.real_dynamic_slice between bounds that are computed")
    parts = []
    for axis, (start, limit, stride) in enumerate(zip(starts, limits, strides, strict=True)):
        whole = start == 0 and isinstance(start, int) and stride == 1 and limit is operand.sizes[axis]
        parts.append(slice(None) if whole else slice(start, limit, stride))
    return _cut(kind, operand, parts)


def _dynamic_slice(operation: Operation, operands: list[Value]) -> Value:
    """Return a slice of fixed sizes whose start is a value, moved to where it fits."""
    operand, kind = operands[0], operation.types[0]
    sizes = operation.integers("sizes")
    parts = []
    for axis, (start, size) in enumerate(zip(operands[1:], sizes, strict=True)):
        item = start.items[0] if start.items is not None else start.full()
        last = _item("subtract", operand.size(axis), size)
        item = 0 if last == 0 and isinstance(last, int) else _item("minimum", _item("maximum", item, 0), last)
        whole = isinstance(item, int) and item == 0 and operand.sizes[axis] == size
        parts.append(slice(None) if whole else slice(item, _item("add", item, size)))
    return _cut(kind, operand, parts)


def _dynamic_update_slice(operation: Operation, operands: list[Value]) -> Value:
    """Return an array of which one step is replaced: what a loop collects."""
    operand, update, kind = operands[0], operands[1], operation.types[0]
    starts = [start.items[0] if start.items is not None else None for start in operands[2:]]
    changed = [axis for axis in range(operand.rank) if update.type.sizes[axis] != operand.type.sizes[axis]]
    if not changed:
        return update
    axis = changed[0]
    if len(changed) > 1 or not isinstance(starts[axis], int) or None in (update.type.sizes[axis], kind.sizes[axis]):
        raise Untranslatable("stablehlo.dynamic_update_slice at a place that is computed")
    length, step = kind.sizes[axis], update.type.sizes[axis]
    start = min(max(starts[axis], 0), length - step)
    if operand.pieces is not None and operand.pieces[0] == axis and operand.array is None:
        pieces = dict(operand.pieces[1])
    elif length % step == 0:
        cut = [slice(None)] * operand.rank
        pieces = {}
        for place in range(0, length, step):
            parts = list(cut)
            parts[axis] = slice(place, place + step)
            pieces[place] = _cut_later(update.type, operand, parts)
    else:
        raise Untranslatable("stablehlo.dynamic_update_slice of uneven steps")
    if start not in pieces or pieces[start].type.sizes[axis] != step:
        raise Untranslatable("stablehlo.dynamic_update_slice of uneven steps")
    pieces[start] = update
    return Value(kind, sizes=_like(kind, [operand]), pieces=(axis, pieces))


class _Part(Value):
    """A part of an array, cut when it is asked for: a loop replaces most."""

    def __init__(self, kind: Type, whole: Value, parts: list[slice]) -> None:
        super().__init__(
            kind,
            sizes=[
                size if part != slice(None) else known
                for size, part, known in zip(kind.sizes, parts, whole.sizes, strict=True)
            ],
        )
        self._whole, self._parts = whole, parts

    def short(self) -> Any:
        """Return the values."""
        if self.array is None:
            self.array = _cut(self.type, self._whole, self._parts).full()
        return self.array


def _cut_later(kind: Type, operand: Value, parts: list[slice]) -> Value:
    return _Part(kind, operand, parts)


def _pad(operation: Operation, operands: list[Value]) -> Value:
    low, high, interior = (operation.integers(name) for name in ("low", "high", "interior"))
    operand, value = operands[0], operands[1].full()
    result = _padded(operand.full(), value, low, high, interior)
    unchanged = [not (a or b or c) for a, b, c in zip(low, high, interior, strict=True)]
    sizes = [
        known if same else size
        for known, same, size in zip(operand.sizes, unchanged, operation.types[0].sizes, strict=True)
    ]
    return Value(operation.types[0], result, sizes=sizes)


def _padded(x: Any, value: Any, low: Sequence[int], high: Sequence[int], interior: Sequence[int] = ()) -> Any:
    """Return a tensor with values before, after and between those of each axis; negative counts cut."""
    for axis, gap in enumerate(interior):
        if gap:
            x = _spread(x, value, axis, gap)
    before, after = ([max(count, 0) for count in counts] for counts in (low, high))
    if any(before) or any(after):
        paddings = list(zip(before, after, strict=True))
        is_zero = isinstance(value, np.ndarray) and not value.any()
        x = (
            _run(tf.pad, x, paddings)
            if is_zero
            else _run(lambda a, b: tf.pad(a, paddings, constant_values=b), x, value)
        )
    if any(count < 0 for count in (*low, *high)):
        parts = tuple(slice(max(-a, 0), min(b, 0) or None) for a, b in zip(low, high, strict=True))
        x = _run(lambda a: a[parts], x)
    return x


def _spread(x: Any, value: Any, axis: int, gap: int) -> Any:
    """Return a tensor with ``gap`` values between any two of an axis."""
    rank, length = len(x.shape), x.shape[axis]
    paddings = [(0, 0)] * (rank + 1)
    paddings[axis + 1] = (0, gap)
    wide = _run(lambda a, b: tf.pad(tf.expand_dims(a, axis + 1), paddings, constant_values=b), x, value)
    shape = [-1 if size is None else size for size in x.shape]
    shape[axis] = length * (gap + 1)
    whole = _run(tf.reshape, wide, shape)
    return _run(lambda a: a[(slice(None),) * axis + (slice(0, length * (gap + 1) - gap),)], whole)


def _iota(operation: Operation, operands: list[Value]) -> Value:
    kind = operation.types[0]
    axis = operation.integers("dim")[0]
    sizes = _sizes_of(kind, operands[0] if operands else None)
    numbers = _run(tf.cast, _run(tf.range, sizes[axis]), kind.dtype)
    for _ in range(len(sizes) - axis - 1):
        numbers = _run(tf.expand_dims, numbers, -1)
    items = None
    if len(sizes) == 1 and kind.dtype.is_integer and isinstance(numbers, np.ndarray) and numbers.size <= _MOST_ITEMS:
        items = [int(number) for number in numbers]
    return Value(kind, numbers, frozenset(range(len(sizes))) - {axis}, sizes, items)


def _reverse(operation: Operation, operands: list[Value]) -> Value:
    axes = operation.integers("dims")
    return Value(operation.types[0], _run(tf.reverse, operands[0].full(), list(axes)), sizes=list(operands[0].sizes))


def _same(operation: Operation, operands: list[Value]) -> list[Value]:
    return list(operands)


# Sums and products


def _reducer(operation: Operation) -> str:
    """Return the operation by which a reduction joins two values, empty if it does more."""
    if found := re.search(r"applies [\w]+\.(\w+)", operation.text):
        return found[1]
    body = operation.regions[0] if operation.regions else None
    if body is None or len(body.operations) != 2 or set(body.operations[0].operands) != set(body.arguments):
        return ""
    return body.operations[0].kind.partition(".")[2]


# By the operation that joins: TensorFlow's, and the value that changes nothing.
_REDUCTIONS: dict[str, tuple[Callable[..., Any], float]] = {
    "add": (tf.reduce_sum, 0), "maximum": (tf.reduce_max, -math.inf), "minimum": (tf.reduce_min, math.inf),
    "multiply": (tf.reduce_prod, 1), "and": (tf.reduce_all, 1), "or": (tf.reduce_any, 0),
}  # fmt: skip


def _reduce(operation: Operation, operands: list[Value]) -> Any:
    axes = operation.integers("dimensions")
    if len(operands) == 4:
        return _arg_extreme(operation, operands, axes)
    joined = _reducer(operation)
    if joined not in _REDUCTIONS or len(operands) != 2:
        raise Untranslatable(f"stablehlo.reduce by {joined or 'a function of its own'}")
    operand, start = operands[0], operands[1].constant()
    function, neutral = _REDUCTIONS[joined]
    if start is None or not _is_neutral(start, neutral):
        raise Untranslatable("stablehlo.reduce that does not start from its neutral value")
    kind = operation.types[0]
    sizes = [size for axis, size in enumerate(operand.sizes) if axis not in axes]
    return Value(kind, _run(function, operand.full(), list(axes)), sizes=sizes)


def _is_neutral(start: np.ndarray, neutral: float) -> bool:
    if start.dtype.kind in "iu" and math.isinf(neutral):
        limits = np.iinfo(start.dtype)
        return bool(start == (limits.max if neutral > 0 else limits.min))
    return bool(start == neutral)


def _arg_extreme(operation: Operation, operands: list[Value], axes: Sequence[int]) -> list[Value]:
    """Return the largest or least values and their places, if that is what a reduction of pairs finds."""
    kinds = [inner for inner in operation.regions[0].operations if inner.kind == "stablehlo.compare"]
    directions = {_direction(inner) for inner in kinds} & {"GT", "LT", "GE", "LE"}
    if len(axes) != 1 or len(directions) != 1:
        raise Untranslatable("stablehlo.reduce of two values")
    largest = directions.pop() in ("GT", "GE")
    x, value_type, place_type = operands[0].full(), *operation.types
    value = _run(tf.reduce_max if largest else tf.reduce_min, x, list(axes))
    place = _run(tf.argmax if largest else tf.argmin, x, axes[0])
    sizes = [size for axis, size in enumerate(operands[0].sizes) if axis not in axes]
    place = _run(tf.cast, place, place_type.dtype)
    return [Value(value_type, value, sizes=list(sizes)), Value(place_type, place, sizes=list(sizes))]


def _dot_general(operation: Operation, operands: list[Value]) -> Value:
    batching, contracting = operation.pairs("batching_dims"), operation.pairs("contracting_dims")
    left, right = operands
    kind = operation.types[0]
    kept = [
        [axis for axis in range(value.rank) if axis not in batch + sums]
        for value, batch, sums in zip(operands, batching, contracting, strict=True)
    ]
    sizes = [left.sizes[axis] for axis in batching[0]]
    sizes += [left.sizes[axis] for axis in kept[0]] + [right.sizes[axis] for axis in kept[1]]
    if (left.rank, right.rank, batching[0]) == (2, 2, ()) and len(contracting[0]) == 1:
        across, along = contracting[0][0] == 0, contracting[1][0] == 1
        found = _run(lambda a, b: tf.matmul(a, b, transpose_a=across, transpose_b=along), left.full(), right.full())
        return Value(kind, _cast(found, kind), sizes=sizes)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names: list[dict[int, str]] = [{}, {}]
    for pairs in (batching, contracting):
        for first, second in zip(*pairs, strict=True):
            names[0][first] = names[1][second] = next(letters)
    for side in (0, 1):
        names[side].update((axis, next(letters)) for axis in kept[side])
    inputs = ["".join(names[side][axis] for axis in range(operands[side].rank)) for side in (0, 1)]
    output = "".join(names[0][axis] for axis in batching[0]) + "".join(
        names[side][axis] for side in (0, 1) for axis in kept[side]
    )
    equation = f"{inputs[0]},{inputs[1]}->{output}"
    found = _run(lambda a, b: tf.raw_ops.Einsum(inputs=[a, b], equation=equation), left.full(), right.full())
    return Value(kind, _cast(found, kind), sizes=sizes)


def _cast(x: Any, kind: Type) -> Any:
    return x if tf.as_dtype(x.dtype) == kind.dtype else _run(tf.cast, x, kind.dtype)


@dataclasses.dataclass(frozen=True)
class _Window:
    """How a window moves over positions: sizes, steps, padding and gaps, one number a position."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilation: tuple[int, ...]

    def padding(self, positions: Sequence[int | None]) -> str:
        """Return ``"VALID"`` or ``"SAME"`` if TensorFlow pads in this way, else an empty text."""
        if not any(self.low + self.high):
            return "VALID"
        for size, stride, low, high, gap, length in zip(
            self.size, self.stride, self.low, self.high, self.dilation, positions, strict=True
        ):
            reach = (size - 1) * gap + 1
            if length is None and stride != 1:
                return ""
            total = reach - 1 if stride == 1 else max((-(-length // stride) - 1) * stride + reach - length, 0)  # type: ignore[operator]
            if (low, high) != (total // 2, total - total // 2):
                return ""
        return "SAME"


def _numbers_or(found: tuple[int, ...], default: int, count: int) -> tuple[int, ...]:
    return found or (default,) * count


def _convolution(operation: Operation, operands: list[Value]) -> Value:
    """Return a convolution, computed with channels last."""
    found = re.search(r"dim_numbers = \[(.*?)\]x\[(.*?)\]->\[(.*?)\]", operation.text)
    if not found or operation.integers("batch_group_count", (1,)) != (1,):
        raise Untranslatable("stablehlo.convolution of another form")
    left, right, out = ([axis.strip() for axis in group.split(",")] for group in found.groups())
    count = len(left) - 2
    if not 1 <= count <= 3 or "true" in operation.text.partition("reverse")[2].partition("]")[0]:
        raise Untranslatable("stablehlo.convolution of another form")
    positions = [str(axis) for axis in range(count)]
    x = _ordered(operands[0].full(), left, ["b", *positions, "f"])
    kernel = _ordered(operands[1].full(), right, [*positions, "i", "o"])
    pads = _numbers_or(operation.integers("pad"), 0, 2 * count)
    window = _Window(
        tuple(int(size) for size in kernel.shape[:count]), _numbers_or(operation.integers("stride"), 1, count),
        pads[0::2], pads[1::2], _numbers_or(operation.integers("rhs_dilate"), 1, count),
    )  # fmt: skip
    groups = operation.integers("feature_group_count", (1,))[0]
    spread = operation.integers("lhs_dilate")
    kind = operation.types[0]
    sizes = [operands[0].sizes[left.index("b")] if axis == "b" else kind.sizes[place] for place, axis in enumerate(out)]
    if any(step > 1 for step in spread):
        lengths = [kind.sizes[out.index(axis)] for axis in positions]
        result = _transposed(x, kernel, window, spread, lengths, groups)
    else:
        result = _convolved(x, kernel, window, groups)
    return Value(kind, _cast(_ordered(result, ["b", *positions, "f"], out), kind), sizes=sizes)


def _ordered(x: Any, given: Sequence[str], wanted: Sequence[str]) -> Any:
    order = [given.index(axis) for axis in wanted]
    return x if order == sorted(order) else _run(tf.transpose, x, order)


def _convolved(x: Any, kernel: Any, window: _Window, groups: int) -> Any:
    """Return a convolution with channels last, as Keras on TensorFlow writes it."""
    count, channels = len(window.size), x.shape[-1]
    padding = window.padding(x.shape[1:-1])
    if not padding:
        x = _padded(x, np.zeros((), x.dtype.as_numpy_dtype), (0, *window.low, 0), (0, *window.high, 0))
        padding = "VALID"
    is_depthwise = count < 3 and groups > 1 and groups == channels and _depthwise_is_defined(window)
    if is_depthwise:
        kernel = _run(tf.reshape, kernel, [*window.size, groups, kernel.shape[-1] // groups])
    if count == 3:
        if groups > 1 or set(window.dilation) != {1}:
            raise Untranslatable("stablehlo.convolution of three positions with groups or dilation")
        return tf.nn.conv3d(x, kernel, (1, *window.stride, 1), padding)
    strides, dilations = window.stride, window.dilation
    if count == 1:
        x, kernel = tf.expand_dims(x, 1), _run(tf.expand_dims, kernel, 0)
        # TensorFlow's depthwise convolution has equal strides.
        strides, dilations = ((strides[0],) * 2 if is_depthwise else (1, strides[0])), (1, dilations[0])
    if is_depthwise:
        found = tf.nn.depthwise_conv2d(x, kernel, (1, *strides, 1), padding, dilations=dilations)
    else:
        found = tf.nn.conv2d(x, kernel, (1, *strides, 1), padding, dilations=dilations)
    return tf.squeeze(found, 1) if count == 1 else found


def _depthwise_is_defined(window: _Window) -> bool:
    """Return whether TensorFlow has the depthwise convolution: equal strides, and no strides with gaps."""
    return len(set(window.stride)) == 1 and (set(window.dilation) == {1} or set(window.stride) == {1})


def _transposed(
    x: Any, kernel: Any, window: _Window, spread: Sequence[int], lengths: Sequence[Any], groups: int
) -> Any:
    """Return a transposed convolution: one over values that were spread apart."""
    count = len(window.size)
    backward = [size - 1 - low for size, low in zip(window.size, window.low, strict=True)]
    plain = set(window.stride) == {1} and set(window.dilation) == {1} and groups == 1 and None not in lengths
    if not plain or count != 2 or min(backward) < 0:
        gaps = (0, *(step - 1 for step in spread), 0)
        zero = (0,) * (count + 2)
        return _convolved(_padded(x, np.zeros((), x.dtype.as_numpy_dtype), zero, zero, gaps), kernel, window, groups)
    after = [
        (size - 1) * step + width - length - low
        for size, step, width, length, low in zip(x.shape[1:-1], spread, window.size, lengths, backward, strict=True)
    ]
    flipped = _run(lambda k: tf.transpose(tf.reverse(k, [0, 1]), [0, 1, 3, 2]), kernel)
    shape = _vector([tf.shape(x)[0], *lengths, kernel.shape[-1]])
    paddings = [[0, 0], *zip(backward, after, strict=True), [0, 0]]
    as_forward = _Window(window.size, tuple(spread), tuple(backward), tuple(after), window.dilation)
    named = as_forward.padding(lengths)
    if not named and min(after) < 0:
        raise Untranslatable("stablehlo.convolution, transposed, with this padding")
    return tf.raw_ops.Conv2DBackpropInput(
        input_sizes=shape, filter=flipped, out_backprop=x, strides=[1, *spread, 1], padding=named or "EXPLICIT",
        explicit_paddings=[] if named else list(itertools.chain(*paddings)),
    )  # fmt: skip


def _reduce_window(operation: Operation, operands: list[Value]) -> Value:
    """Return the largest values, or the sums, of windows."""
    joined, operand, start = _reducer(operation), operands[0], operands[1].constant()
    if len(operands) != 2 or joined not in ("maximum", "minimum", "add") or start is None:
        raise Untranslatable(f"stablehlo.reduce_window by {joined or 'a function of its own'}")
    rank, kind = operand.rank, operation.types[0]
    pads = _numbers_or(operation.integers("padding"), 0, 2 * rank)
    window = _Window(
        operation.integers("window_dimensions"), _numbers_or(operation.integers("window_strides"), 1, rank),
        pads[0::2], pads[1::2], _numbers_or(operation.integers("window_dilations"), 1, rank),
    )  # fmt: skip
    spread = operation.integers("base_dilations")
    if (
        set(window.dilation) != {1}
        or any(step > 1 for step in spread)
        or not _is_neutral(start, _REDUCTIONS[joined][1])
    ):
        raise Untranslatable("stablehlo.reduce_window with gaps, or from another start")
    unmoved = [one == (1, 1, 0, 0) for one in zip(window.size, window.stride, window.low, window.high, strict=True)]
    sizes = [known if same else size for known, same, size in zip(operand.sizes, unmoved, kind.sizes, strict=True)]
    value = Value(kind, sizes=sizes, window=(operand, window) if joined == "add" else ())
    if joined == "add" and isinstance(operand.full(), np.ndarray):
        value.array = _sums_of(operand.full(), window)
    else:
        value.array = _pooled(operand, window, joined)
    return value


def _sums_of(x: np.ndarray, window: _Window) -> np.ndarray:
    """Return the sums of windows of an array."""
    x = np.pad(x, list(zip(window.low, window.high, strict=True)))
    views = np.lib.stride_tricks.sliding_window_view(x, window.size)
    steps = tuple(slice(None, None, stride) for stride in window.stride)
    return np.asarray(views[steps].sum(axis=tuple(range(x.ndim, 2 * x.ndim)), dtype=x.dtype))


def _pooled(operand: Value, window: _Window, joined: str) -> Any:
    """Return TensorFlow's pooling over the axes that a window moves over, with those axes in the middle."""
    moving = [axis for axis in range(operand.rank) if (window.size[axis], window.stride[axis]) != (1, 1)]
    others = [axis for axis in range(operand.rank) if axis not in moving]
    if not moving:
        return operand.full()
    if len(moving) > 3 or len(others) != 2:
        raise Untranslatable("stablehlo.reduce_window over these axes")
    order = [others[0], *moving, others[1]]
    at = {
        name: tuple(getattr(window, name)[axis] for axis in moving)
        for name in ("size", "stride", "low", "high", "dilation")
    }
    inner = _Window(**at)
    x = _ordered(operand.full(), range(operand.rank), order)  # type: ignore[arg-type]
    named = inner.padding(x.shape[1:-1])
    if not named or (joined == "add" and named == "SAME"):
        border = _REDUCTIONS[joined][1]
        value = np.array(border, x.dtype.as_numpy_dtype)
        x, named = _padded(x, value, (0, *inner.low, 0), (0, *inner.high, 0)), "VALID"
    if joined == "minimum":
        result = -tf.nn.max_pool(-x, inner.size, inner.stride, named)
    elif joined == "maximum":
        result = tf.nn.max_pool(x, inner.size, inner.stride, named)
    else:
        result = _mean_pool(x, inner, named) * tf.constant(math.prod(inner.size), x.dtype)
    return _ordered(result, order, range(operand.rank))  # type: ignore[arg-type]


def _mean_pool(x: Any, window: _Window, padding: str) -> Any:
    return tf.nn.avg_pool(x, window.size, window.stride, padding)


def _average_pool(operation: Operation, operands: list[Value]) -> Value | None:
    """Return average pooling in place of a sum over windows divided by how many values each has."""
    operand, window = operands[0].window
    counts = operands[1].constant()
    moving = [axis for axis in range(operand.rank) if (window.size[axis], window.stride[axis]) != (1, 1)]
    others = [axis for axis in range(operand.rank) if axis not in moving]
    if counts is None or len(others) != 2 or not 1 <= len(moving) <= 3:
        return None
    order = [others[0], *moving, others[1]]
    inner = _Window(
        *(
            tuple(getattr(window, name)[axis] for axis in moving)
            for name in ("size", "stride", "low", "high", "dilation")
        )
    )
    lengths = [operand.type.sizes[axis] for axis in moving]
    named = inner.padding(lengths)
    count = math.prod(inner.size)
    x = _ordered(operand.full(), range(operand.rank), order)  # type: ignore[arg-type]
    if named == "SAME" and None not in lengths:
        ones = np.ones([1 if axis in others else operand.type.sizes[axis] for axis in range(operand.rank)], np.float32)
        if not np.array_equal(
            np.broadcast_to(_sums_of(ones, window), np.broadcast_shapes(counts.shape, _sums_of(ones, window).shape)),
            np.broadcast_to(counts, np.broadcast_shapes(counts.shape, _sums_of(ones, window).shape)),
        ):
            named = ""
    elif named != "VALID":
        named = ""
    if named != "SAME":
        if not (counts == count).all():
            return None
        if not named:
            x = _padded(x, np.zeros((), x.dtype.as_numpy_dtype), (0, *inner.low, 0), (0, *inner.high, 0))
        named = "VALID"
    result = _ordered(_mean_pool(x, inner, named), order, range(operand.rank))  # type: ignore[arg-type]
    return Value(operation.types[0], result, sizes=list(operands[0].sizes))


def _gather(operation: Operation, operands: list[Value]) -> Value:
    """Return rows of a table: slices of full size but on the axes that indices choose from."""
    operand, indices, kind = operands[0], operands[1], operation.types[0]
    offsets, collapsed, axes = (
        operation.integers(name) for name in ("offset_dims", "collapsed_slice_dims", "start_index_map")
    )
    last = operation.integers("index_vector_dim", (0,))[0]
    sizes = operation.integers("slice_sizes")
    whole = [axis for axis in range(operand.rank) if axis not in collapsed]
    chosen = "batching" in operation.text or last not in (indices.rank - 1, indices.rank) or set(axes) != set(collapsed)
    if (
        chosen
        or any(sizes[axis] != operand.type.sizes[axis] for axis in whole)
        or any(sizes[axis] != 1 for axis in collapsed)
    ):
        raise Untranslatable("stablehlo.gather of this form")
    places = indices.full() if last < indices.rank else _run(tf.expand_dims, indices.full(), -1)
    limits = [operand.type.sizes[axis] for axis in axes]
    if None in limits:
        raise Untranslatable("stablehlo.gather from an axis of open size")
    bound = np.array([limit - 1 for limit in limits], tf.as_dtype(places.dtype).as_numpy_dtype)  # type: ignore[operator]
    places = _run(lambda at: tf.minimum(tf.maximum(at, tf.zeros_like(bound)), bound), places)
    batch = len(places.shape) - 1
    if len(axes) == 1:
        table = _ordered(operand.full(), range(operand.rank), [axes[0], *whole])  # type: ignore[arg-type]
        found = _run(lambda t, at: tf.gather(t, at[..., 0]), table, places)
    else:
        table = _ordered(operand.full(), range(operand.rank), [*axes, *whole])  # type: ignore[arg-type]
        found = _run(tf.gather_nd, table, places)
    order: list[int] = []
    rows, slices = iter(range(batch)), iter(range(batch, batch + len(whole)))
    for axis in range(len(kind.sizes)):
        order.append(next(slices) if axis in offsets else next(rows))
    result = found if order == sorted(order) else _run(tf.transpose, found, order)
    index_sizes = iter([size for axis, size in enumerate(indices.sizes) if axis != last])
    known = [kind.sizes[axis] if axis in offsets else next(index_sizes) for axis in range(len(kind.sizes))]
    return Value(kind, result, sizes=known)


def _custom_call(operation: Operation, operands: list[Value]) -> list[Value]:
    name = _callee(operation).strip(' @"')
    if name == "shape_assertion":
        return []
    if name in _IGNORED:
        return list(operands)
    short = name.partition(".")[2]
    if short in _ELEMENTWISE and len(operation.types) == 1:
        return [_elementwise(operation, operands, _ELEMENTWISE[short])]
    raise Untranslatable(f"stablehlo.custom_call @{name}")


_OTHERS: dict[str, Callable[[Operation, list[Value]], Any]] = {
    "constant": _constant, "get_dimension_size": _dimension_size, "broadcast_in_dim": _broadcast,
    "dynamic_broadcast_in_dim": _broadcast, "reshape": _reshape, "dynamic_reshape": _reshape, "transpose": _transpose,
    "concatenate": _concatenate, "slice": _slice, "real_dynamic_slice": _real_dynamic_slice,
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice, "pad": _pad, "iota": _iota,
    "dynamic_iota": _iota, "reverse": _reverse, "reduce": _reduce, "dot_general": _dot_general,
    "convolution": _convolution, "reduce_window": _reduce_window, "gather": _gather, "custom_call": _custom_call,
}  # fmt: skip
