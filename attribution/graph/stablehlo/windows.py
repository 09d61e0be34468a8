"""Convolutions and pooling of StableHLO as operations of TensorFlow, computed with channels last."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.stablehlo import operations
from attribution.graph.stablehlo.operations import REDUCTIONS, joining, padded
from attribution.graph.stablehlo.text import Operation
from attribution.graph.stablehlo.values import Value, cast, ordered, run, vector
from attribution.graph.view import Untranslatable


@dataclasses.dataclass(frozen=True)
class _Window:
    """How a window moves over axes: sizes, steps, padding and gaps, one number an axis."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilation: tuple[int, ...]

    @classmethod
    def of(cls, operation: Operation, size: tuple[int, ...], names: Sequence[str]) -> _Window:
        """Return the window of an operation whose steps, padding and gaps have these names."""
        count = len(size)
        stride, pads, dilation = (operation.integers(name) for name in names)
        pads = pads or (0,) * 2 * count
        return cls(size, stride or (1,) * count, pads[0::2], pads[1::2], dilation or (1,) * count)

    def over(self, axes: Sequence[int]) -> _Window:
        """Return the window over some of its axes."""
        return _Window(*(tuple(one[axis] for axis in axes) for one in dataclasses.astuple(self)))

    def padding(self, lengths: Sequence[int | None]) -> str:
        """Return ``"VALID"`` or ``"SAME"`` if TensorFlow pads axes of these lengths so, else an empty text."""
        if not any(self.low + self.high):
            return "VALID"
        for length, stride, size, gap, low, high in zip(
            lengths, self.stride, self.size, self.dilation, self.low, self.high, strict=True
        ):
            if length is None and stride != 1:
                return ""
            total = (size - 1) * gap
            if length is not None:
                total = max(total + 1 + (-(-length // stride) - 1) * stride - length, 0)
            if (low, high) != (total // 2, total - total // 2):
                return ""
        return "SAME"

    def padded(self, x: Any, value: float = 0) -> Any:
        """Return a tensor ``(batch, positions..., channels)`` with what the window sees beyond its borders."""
        border = np.array(value, x.dtype.as_numpy_dtype)
        return padded(x, border, (0, *self.low, 0), (0, *self.high, 0))


def _convolution(operation: Operation, operands: list[Value]) -> Value:
    left, right, out = _axes(operation)
    positions = sorted(set(left) - {"b", "f"})
    kernel = ordered(operands[1].full(), right, [*positions, "i", "o"])
    size = tuple(int(one) for one in kernel.shape[: len(positions)])
    operand, window = operands[0], _Window.of(operation, size, ("stride", "pad", "rhs_dilate"))
    x = ordered(operand.full(), left, ["b", *positions, "f"])
    groups = operation.integers("feature_group_count", (1,))[0]
    spread, kind = operation.integers("lhs_dilate"), operation.types[0]
    if any(step > 1 for step in spread):
        lengths = [kind.sizes[out.index(axis)] for axis in positions]
        result = _transposed(x, kernel, window, spread, lengths if groups == 1 else ())
    else:
        result = _convolved(x, kernel, window, groups)
    sizes = [operand.sizes[left.index("b")] if axis == "b" else kind.sizes[place] for place, axis in enumerate(out)]
    return Value(kind, cast(ordered(result, ["b", *positions, "f"], out), kind), sizes=sizes)


def _axes(operation: Operation) -> list[list[str]]:
    """Return the axes of a convolution's input, kernel and output: ``b``, ``f``, ``i``, ``o`` and positions."""
    found = re.search(r"dim_numbers = \[(.*?)\]x\[(.*?)\]->\[(.*?)\]", operation.text)
    reversed_ = "true" in operation.text.partition("reverse = ")[2].partition("]")[0]
    axes = [[axis.strip() for axis in group.split(",")] for group in found.groups()] if found else [[]]
    if reversed_ or operation.integers("batch_group_count", (1,)) != (1,) or not 3 <= len(axes[0]) <= 5:
        raise Untranslatable("stablehlo.convolution of another form")
    return axes


def _convolved(x: Any, kernel: Any, window: _Window, groups: int) -> Any:
    """Return a convolution as Keras on TensorFlow writes it."""
    count, strides, dilations = len(window.size), window.stride, window.dilation
    padding = window.padding(x.shape[1:-1])
    if not padding:
        x, padding = window.padded(x), "VALID"
    if count == 3:
        if groups > 1 or set(dilations) != {1}:
            raise Untranslatable("stablehlo.convolution over 3 axes with groups or gaps")
        return tf.nn.conv3d(x, kernel, (1, *strides, 1), padding)
    # TensorFlow's depthwise convolution has equal strides, which are 1 beside gaps.
    has_strides = len(set(strides)) == 1 and (strides[0] == 1 or set(dilations) == {1})
    is_depthwise = groups > 1 and groups == x.shape[-1] and has_strides
    if is_depthwise:
        kernel = run(tf.reshape, kernel, [*window.size, groups, kernel.shape[-1] // groups])
    if count == 1:
        x, kernel = tf.expand_dims(x, 1), run(tf.expand_dims, kernel, 0)
        strides, dilations = ((strides[0],) * 2 if is_depthwise else (1, strides[0])), (1, dilations[0])
    convolve = tf.nn.depthwise_conv2d if is_depthwise else tf.nn.conv2d
    found = convolve(x, kernel, (1, *strides, 1), padding, dilations=dilations)
    return tf.squeeze(found, 1) if count == 1 else found


def _transposed(x: Any, kernel: Any, window: _Window, spread: Sequence[int], lengths: Sequence[Any]) -> Any:
    """Return a transposed convolution, one over values that were spread apart, of an image."""
    forward = _forward(x, window, spread, lengths)
    if forward is None:
        raise Untranslatable("stablehlo.convolution that is transposed in groups, with gaps or not over an image")
    flipped = run(lambda k: tf.transpose(tf.reverse(k, [0, 1]), [0, 1, 3, 2]), kernel)
    named = forward.padding(lengths)
    paddings = [0, 0, forward.low[0], forward.high[0], forward.low[1], forward.high[1], 0, 0]
    return tf.raw_ops.Conv2DBackpropInput(
        input_sizes=vector([tf.shape(x)[0], *lengths, kernel.shape[-1]]), filter=flipped, out_backprop=x,
        strides=[1, *spread, 1], padding=named or "EXPLICIT", explicit_paddings=[] if named else paddings,
    )  # fmt: skip


def _forward(x: Any, window: _Window, spread: Sequence[int], lengths: Sequence[Any]) -> _Window | None:
    """Return the window of the convolution whose transpose this is, ``None`` if TensorFlow has it not."""
    if len(lengths) != 2 or {*window.stride, *window.dilation} != {1} or None in lengths:
        return None
    low = tuple(size - 1 - before for size, before in zip(window.size, window.low, strict=True))
    facts = zip(x.shape[1:-1], spread, window.size, lengths, low, strict=True)
    high = tuple((count - 1) * step + size - length - before for count, step, size, length, before in facts)
    return _Window(window.size, tuple(spread), low, high, window.dilation) if min(*low, *high) >= 0 else None


def _reduce_window(operation: Operation, operands: list[Value]) -> Value:
    """Return the largest values, or the sums, of windows."""
    joined, operand, kind = joining(operation, operands[1]), operands[0], operation.types[0]
    names = ("window_strides", "padding", "window_dilations")
    window = _Window.of(operation, operation.integers("window_dimensions"), names)
    gaps = {*window.dilation, *operation.integers("base_dilations", (1,))}
    if len(operands) != 2 or joined not in _POOLS or gaps != {1}:
        raise Untranslatable("stablehlo.reduce_window with gaps, or of another kind")
    moves = zip(operand.sizes, kind.sizes, window.size, window.stride, window.low, window.high, strict=True)
    sizes = [known if tuple(move) == (1, 1, 0, 0) else size for known, size, *move in moves]
    value = Value(kind, sizes=sizes, window=(operand, window) if joined == "add" else ())
    value.later = lambda: _pooled(operand, window, joined)
    return value


def _pooled(operand: Value, window: _Window, joined: str) -> Any:
    if joined == "add" and isinstance(known := operand.full(), np.ndarray):
        return _sums(known, window)
    x, inner, back = _in_the_middle(operand, window)
    padding = inner.padding(x.shape[1:-1])
    if not padding or (joined == "add" and padding == "SAME"):  # where TensorFlow averages fewer values
        x, padding = inner.padded(x, REDUCTIONS[joined][1]), "VALID"
    return back(_POOLS[joined](x, inner, padding))


# By the operation that joins.
_POOLS: dict[str, Callable[[Any, _Window, str], Any]] = {
    "maximum": lambda x, window, padding: tf.nn.max_pool(x, window.size, window.stride, padding),
    "add": lambda x, window, padding: _average(x, window, padding) * tf.constant(math.prod(window.size), x.dtype),
}


def _average(x: Any, window: _Window, padding: str) -> Any:
    return tf.nn.avg_pool(x, window.size, window.stride, padding)


def _in_the_middle(operand: Value, window: _Window) -> tuple[Any, _Window, Callable[[Any], Any]]:
    """Return a tensor with the axes that a window moves over in the middle, the window there, and the way back."""
    axes = range(operand.rank)
    moving = [axis for axis in axes if (window.size[axis], window.stride[axis]) != (1, 1)]
    for axis in (*axes[1:-1], *axes[1:], *axes):  # at least one, and all but two
        if axis not in moving and len(moving) < max(operand.rank - 2, 1):
            moving = sorted([*moving, axis])
    others = [axis for axis in axes if axis not in moving]
    if len(others) != 2 or len(moving) > 3:
        raise Untranslatable("stablehlo.reduce_window over these axes")
    order = [others[0], *moving, others[1]]
    return ordered(operand.full(), axes, order), window.over(moving), lambda x: ordered(x, order, axes)


def _sums(x: np.ndarray, window: _Window) -> np.ndarray:
    """Return the sums of windows of an array."""
    x = np.pad(x, list(zip(window.low, window.high, strict=True)))
    views = np.lib.stride_tricks.sliding_window_view(x, window.size)
    steps = tuple(slice(None, None, stride) for stride in window.stride)
    return np.asarray(views[steps].sum(axis=tuple(range(x.ndim, 2 * x.ndim)), dtype=x.dtype))


def _divide(operation: Operation, operands: list[Value]) -> Value:
    """Return a quotient: of a sum over windows by the number of values in each, average pooling."""
    counts = operands[1].constant() if operands[0].window else None
    if counts is not None and (averaged := _averaged(operands[0].window, counts)) is not None:
        return Value(operation.types[0], averaged, sizes=list(operands[0].sizes))
    return operations.elementwise(operation, operands)


def _averaged(summed: tuple[Any, ...], counts: np.ndarray) -> Any:
    """Return average pooling if that is what division of a sum over windows gives, else ``None``."""
    operand, window = summed
    x, inner, back = _in_the_middle(operand, window)
    padding = inner.padding(x.shape[1:-1])
    if padding == "SAME" and None not in x.shape[1:-1]:
        moves = zip(operand.type.sizes, window.size, window.low, window.high, strict=True)
        ones = np.ones([length if tuple(move) != (1, 0, 0) else 1 for length, *move in moves])
        if np.equal(_sums(ones, window), counts).all():
            return back(_average(x, inner, padding))
    if not (counts == math.prod(inner.size)).all():
        return None
    return back(_average(x if padding == "VALID" else inner.padded(x), inner, "VALID"))


TRANSLATIONS: dict[str, Callable[[Operation, list[Value]], Any]] = {
    "convolution": _convolution, "reduce_window": _reduce_window, "divide": _divide,
}  # fmt: skip
