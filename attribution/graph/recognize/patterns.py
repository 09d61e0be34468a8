"""Means, normalization, softmax and layers, from the sums, quotients and moves that they were written as."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.recognize.rewriting import MOVES, RESHAPES, Graph, Rules, Unfit, again, origin, with_sizes


def _kept_axes(graph: Graph, node: Any) -> bool:
    """Write a reduction followed by new axes of size 1 where it reduced as one that keeps them."""
    reduced = origin(graph, node, RESHAPES)
    if reduced.op not in ("Sum", "Max", "Min", "Mean") or reduced.attr["keep_dims"].b:
        return False
    x, axes = graph.up(reduced.input[0]), graph.axes(reduced)
    kept = [1 if axis in axes else size for axis, size in enumerate(graph.shape(x))]
    function = {"Sum": tf.reduce_sum, "Max": tf.reduce_max, "Min": tf.reduce_min, "Mean": tf.reduce_mean}[reduced.op]
    return kept == graph.shape(node) and graph.replace(node, lambda x: function(x, axes, keepdims=True), [x])


def _mean(graph: Graph, node: Any) -> bool:
    """Write a sum divided by the number of its summands as a mean."""
    total, divisor = graph.inputs(node)
    number = graph.single(divisor)
    if total.op != "Sum" or not number:
        return False
    x, axes = graph.up(total.input[0]), graph.axes(total)
    sizes = [graph.shape(x)[axis] for axis in axes]
    count = number if node.op == "RealDiv" else 1 / number
    if None in sizes or abs(count - math.prod(sizes)) > 1e-6 * count:  # type: ignore[arg-type]
        return False
    keep = total.attr["keep_dims"].b
    return graph.replace(node, lambda x: tf.reduce_mean(x, axes, keepdims=keep), [x])


def _variance(graph: Graph, node: Any) -> bool:
    """Recognize the mean of squared differences from a mean."""
    x, mean = _difference(graph, _squared(graph, graph.up(node.input[0])))
    return _write_variance(graph, node, x, mean, node)


def _variance_of_squares(graph: Graph, node: Any) -> bool:
    """Recognize the mean of squares less the square of the mean."""
    mean_of_squares, square_of_mean = graph.inputs(node)
    if mean_of_squares.op != "Mean":
        return False
    x = _squared(graph, graph.up(mean_of_squares.input[0]))
    return _write_variance(graph, node, x, _squared(graph, square_of_mean), mean_of_squares)


def _squared(graph: Graph, node: Any) -> Any:
    if node.op not in ("Square", "Mul") or len(set(node.input)) != 1:
        raise Unfit
    return graph.up(node.input[0])


def _write_variance(graph: Graph, node: Any, x: Any, mean: Any, reduced: Any) -> bool:
    """Write a variance as normalization does, whose gradient leaves the mean out."""
    if mean.op != "Mean" or graph.up(mean.input[0]) is not x or not mean.attr["keep_dims"].b:
        return False
    axes, keep = graph.axes(reduced), reduced.attr["keep_dims"].b

    def variance(x: Any, mean: Any) -> Any:
        return tf.reduce_mean(tf.math.squared_difference(x, tf.stop_gradient(mean)), axes, keepdims=keep)

    return sorted(axes) == sorted(graph.axes(mean)) and graph.replace(node, variance, [x, mean])


def _difference(graph: Graph, node: Any) -> list[Any]:
    if node.op != "Sub":
        raise Unfit
    return graph.inputs(node)


def _with_constant(graph: Graph, node: Any, kind: str) -> list[Any]:
    """Return the two inputs of an operation of a kind, of which the second alone is constant."""
    inputs = sorted(graph.inputs(node), key=graph.is_constant)
    if node.op != kind or [graph.is_constant(one) for one in inputs] != [False, True]:
        raise Unfit
    return inputs


def _batch_norm(graph: Graph, node: Any) -> bool:
    """Write (x - m) s + b with constants as x s + (b - m s), which has one bias."""
    product, shift = _with_constant(graph, node, "AddV2")
    difference, scale = _with_constant(graph, product, "Mul")
    x, mean = _difference(graph, difference)
    uses = [graph.uses(one.name) for one in (product, difference)]
    if not graph.is_constant(mean) or uses != [1, 1]:
        return False
    return graph.replace(node, lambda x, m, s, b: x * s + (b - m * s), [x, mean, scale, shift])


def _layer_norm(graph: Graph, node: Any) -> bool:
    """Write (x r + n r) s + b with constants s and b as x (r s) + (n (r s) + b), as Keras does."""
    product, shift = _with_constant(graph, node, "AddV2")
    total, scale = _with_constant(graph, product, "Mul")
    parts = [graph.inputs(one) for one in graph.inputs(total) if one.op == "Mul"]
    if total.op != "AddV2" or len(parts) != 2:
        return False

    def normalized(x: Any, mean: Any, r: Any, s: Any, b: Any) -> Any:
        return x * (r * s) + (mean * (r * s) + b)

    for (x, root), (mean, other) in itertools.product(*map(itertools.permutations, parts)):
        if root is other and not graph.is_constant(root):
            return graph.replace(node, normalized, [x, mean, root, scale, shift])
    return False


def _softmax(graph: Graph, node: Any) -> bool:
    """Recognize exp(x - max x) / Σ exp(x - max x)."""
    power, total = graph.inputs(node)
    if power.op != "Exp" or total.op not in ("Sum", *MOVES):
        return False
    return _is_softmax_of(graph, node, graph.up(power.input[0]), total, tf.nn.softmax)


def _log_softmax(graph: Graph, node: Any) -> bool:
    """Recognize (x - max x) - log Σ exp(x - max x)."""
    shifted, logarithm = graph.inputs(node)
    return logarithm.op == "Log" and _is_softmax_of(graph, node, shifted, logarithm, tf.nn.log_softmax)


def _is_softmax_of(graph: Graph, node: Any, shifted: Any, total: Any, function: Callable[..., Any]) -> bool:
    x, largest = _difference(graph, shifted)
    source = origin(graph, x, MOVES)
    if origin(graph, largest, (*MOVES, "Max")) is not source:
        return False
    shape = graph.shape(x)
    reduced = [axis for axis, size in enumerate(graph.shape(total)) if size == 1 != shape[axis]] or [len(shape) - 1]

    def found(x: Any) -> Any:
        return function(x, reduced[0])

    return len(reduced) == 1 and graph.is_equal(source, x, node, found) and graph.replace(node, found, [x])


def _softmax_without_units(graph: Graph, node: Any) -> bool:
    """Write a softmax without axes of size 1 that attention and classes do not have.

    JAX's attention has a fifth axis; a convolution as classifier leaves positions of size 1.
    """
    sizes, x = graph.shape(node), graph.up(node.input[0])
    units = [axis for axis, size in enumerate(sizes[:-1]) if size == 1]
    dropped = units if len(sizes) - len(units) == 2 else units[: max(len(sizes) - 4, 0)]
    kept = [size for axis, size in enumerate(sizes) if axis not in dropped]
    if not dropped or kept.count(None) > 1:
        return False
    return graph.replace(node, lambda x: with_sizes(tf.nn.softmax(with_sizes(x, kept)), sizes), [x])


def _resize(graph: Graph, node: Any) -> bool:
    """Recognize bilinear interpolation: a product with a matrix for either axis, or with weights of windows."""
    x, sizes, products = node, graph.shape(node), 0
    while x.op in ("Einsum", "GatherNd", "Transpose"):
        products += x.op == "Einsum"
        variable = [one for one in graph.inputs(x) if not graph.is_constant(one)]
        if len(variable) != 1:
            return False
        x = variable[0]
    given = graph.shape(x)
    if not products or not len(sizes) == len(given) == 4 or None in sizes[1:3]:
        return False
    if sizes[1:3] == given[1:3] or sizes[3] != given[3]:
        return False

    def resized(x: Any) -> Any:
        return tf.image.resize(x, sizes[1:3])

    return graph.is_equal(x, x, node, resized) and graph.replace(node, resized, [x])


def _roll(graph: Graph, node: Any) -> bool:
    """Recognize two parts of a tensor that were exchanged along an axis."""
    parts = graph.inputs(node)[:-1]
    if [one.op for one in parts] != ["StridedSlice", "StridedSlice"]:
        return False
    x, axis = graph.up(parts[0].input[0]), graph.value(graph.up(node.input[-1]))
    if x is not graph.up(parts[1].input[0]) or axis is None or graph.shape(x) != graph.shape(node):
        return False
    shift = graph.shape(parts[0])[int(axis)]

    def rolled(x: Any) -> Any:
        return tf.roll(x, shift, int(axis))

    return shift is not None and graph.is_equal(x, x, node, rolled) and graph.replace(node, rolled, [x])


def _lookup(graph: Graph, node: Any) -> bool:
    """Leave out the NaN of a lookup outside its table."""
    _, found, other = graph.inputs(node)
    value = graph.value(other)
    if value is None or value.dtype.kind != "f" or not np.isnan(value).all() or found.op != "GatherV2":
        return False
    return graph.shape(found) == graph.shape(node) and graph.replace(node, lambda x: x, [found])


def _step_of_a_cell(graph: Graph, node: Any) -> bool:
    """Multiply one step alone, where a recurrent cell takes it from a product and bias of all steps.

    Keras on PyTorch writes its LSTM so. Its other backends add the bias after both products of a step.
    """
    step, recurrent = sorted(graph.inputs(node), key=lambda one: one.op == "MatMul")
    sliced = origin(graph, step, RESHAPES)
    total = graph.up(sliced.input[0]) if sliced.op == "StridedSlice" else sliced
    if (recurrent.op, sliced.op, total.op) != ("MatMul", "StridedSlice", "AddV2"):
        return False
    product, bias = sorted(graph.inputs(total), key=graph.is_constant)
    width = graph.shape(node)[-1:]
    if product.op != "Einsum" or graph.shape(bias) != width or graph.shape(sliced)[-1:] != width:
        return False
    x, kernel = graph.inputs(product)
    given, weights, output = map(list, re.split(",|->", product.attr["equation"].s.decode()))  # letters of axes
    if kernel.op == "BroadcastTo":  # a copy for each step
        kernel, weights = graph.up(kernel.input[0]), weights[-2:]
    is_one = all(size == 1 for size in graph.shape(kernel)[:-2]) and graph.is_constant(kernel)
    if not is_one or weights[:1] != given[-1:] or output != [*given[:-1], *weights[1:]]:
        return False
    sizes = [*graph.shape(node)[:-1], graph.shape(x)[-1]]
    bounds = [graph.value(graph.up(tensor)) for tensor in sliced.input[1:]]

    def cell(x: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
        kernel = with_sizes(kernel, kernel.shape[-2:])
        return tf.matmul(with_sizes(again(sliced, [x, *map(tf.constant, bounds)]), sizes), kernel) + recurrent + bias

    return graph.replace(node, cell, [x, kernel, recurrent, bias])


MEANS: Rules = {**dict.fromkeys(RESHAPES, (_kept_axes,)), "RealDiv": (_mean,), "Mul": (_mean,)}

# One after the other, where functions of one variable are known.
LAYERS: tuple[Rules, ...] = (
    {"Mean": (_variance,), "Sub": (_variance_of_squares,), "AddV2": (_batch_norm, _layer_norm)},
    {"RealDiv": (_softmax,), "Sub": (_log_softmax,)},
    {"Softmax": (_softmax_without_units,), "Einsum": (_resize,), "Transpose": (_resize,), "AddV2": (_step_of_a_cell,),
     "SelectV2": (_lookup,), "ConcatV2": (_roll,)},
)  # fmt: skip
