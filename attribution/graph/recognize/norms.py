"""Means, normalization and softmax, from the sums and quotients that they were written as."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from attribution.graph.recognize.rewriting import MOVES, RESHAPES, Graph, Rules, Unfit, origin


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


MEANS: Rules = {**dict.fromkeys(RESHAPES, (_kept_axes,)), "RealDiv": (_mean,), "Mul": (_mean,)}

NORMS: Rules = {"Mean": (_variance,), "Sub": (_variance_of_squares,), "AddV2": (_batch_norm, _layer_norm)}

SOFTMAXES: Rules = {"RealDiv": (_softmax,), "Sub": (_log_softmax,)}
