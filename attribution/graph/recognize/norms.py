"""Means, normalization and softmax, from the sums and quotients that they were written as."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from attribution.graph.recognize.rewriting import MOVES, RESHAPES, Graph, Rules, origin


def _known_choice(graph: Graph, node: Any) -> bool:
    """Take the branch that a constant condition chooses."""
    condition, *branches = graph.inputs(node)
    value = graph.value(condition)
    if value is None or value.size != 1 or None in branches:
        return False
    chosen = branches[0 if value.item() else 1]
    return graph.shape(chosen) == graph.shape(node) and graph.replace(node, lambda x: x, [chosen])


def _no_bound(graph: Graph, node: Any) -> bool:
    """Leave out the maximum of a tensor and -∞."""
    first, second = graph.inputs(node)
    for bound, x in ((first, second), (second, first)):
        if x is not None and graph.single(bound) == -math.inf:
            return graph.replace(node, lambda x: x, [x])
    return False


def _no_broadcast(graph: Graph, node: Any) -> bool:
    """Leave out a broadcast to the same sizes; an open one is the batch, which a constant does not have."""
    x = graph.up(node.input[0])
    shape = graph.shape(node)
    same = x is not None and x.name in graph.variable and shape == graph.shape(x) and shape.count(None) <= 1
    return same and shape[:1].count(None) == shape.count(None) and graph.replace(node, lambda x: x, [x])


def _kept_axes(graph: Graph, node: Any) -> bool:
    """Write a reduction followed by new axes of size 1 where it reduced as one that keeps them."""
    reduced = origin(graph, node, RESHAPES)
    if reduced is None or reduced.op not in ("Sum", "Max", "Min", "Mean") or reduced.attr["keep_dims"].b:
        return False
    x, axes = graph.up(reduced.input[0]), graph.axes(reduced)
    if x is None or not axes:
        return False
    kept = [1 if axis in axes else size for axis, size in enumerate(graph.shape(x))]
    function = {"Sum": tf.reduce_sum, "Max": tf.reduce_max, "Min": tf.reduce_min, "Mean": tf.reduce_mean}[reduced.op]
    return kept == graph.shape(node) and graph.replace(node, lambda x: function(x, axes, keepdims=True), [x])


def _mean(graph: Graph, node: Any) -> bool:
    """Write a sum divided by the number of its summands as a mean."""
    total, divisor = graph.inputs(node)
    number = graph.single(divisor)
    if total is None or total.op != "Sum" or not number:
        return False
    x, axes = graph.up(total.input[0]), graph.axes(total)
    sizes = [graph.shape(x)[axis] for axis in axes]
    count = number if node.op == "RealDiv" else 1 / number
    if not sizes or None in sizes or abs(count - math.prod(sizes)) > 1e-6 * count:  # type: ignore[arg-type]
        return False
    keep = total.attr["keep_dims"].b
    return graph.replace(node, lambda x: tf.reduce_mean(x, axes, keepdims=keep), [x])


def _variance(graph: Graph, node: Any) -> bool:
    """Write the mean of squared differences from a mean as normalization does, whose gradient leaves that mean out."""
    square = graph.up(node.input[0])
    is_square = square is not None and (square.op == "Square" or (square.op == "Mul" and len(set(square.input)) == 1))
    difference = graph.up(square.input[0]) if is_square else None
    if difference is None or difference.op != "Sub":
        return False
    x, mean = graph.inputs(difference)
    if mean is None or mean.op != "Mean" or graph.up(mean.input[0]) is not x or not mean.attr["keep_dims"].b:
        return False
    axes, keep = graph.axes(node), node.attr["keep_dims"].b

    def variance(x: Any, mean: Any) -> Any:
        return tf.reduce_mean(tf.math.squared_difference(x, tf.stop_gradient(mean)), axes, keepdims=keep)

    return axes != [] and sorted(axes) == sorted(graph.axes(mean)) and graph.replace(node, variance, [x, mean])


def _batch_norm(graph: Graph, node: Any) -> bool:
    """Write (x - m) s + b with constants as x s + (b - m s), which has one bias."""
    product, shift = graph.inputs(node)
    product, shift = (
        (shift, product) if product is not None and product.name not in graph.variable else (product, shift)
    )
    if product is None or product.op != "Mul" or shift is None or shift.name in graph.variable:
        return False
    difference, scale = sorted(graph.inputs(product), key=lambda one: one is None or one.op != "Sub")
    if difference is None or difference.op != "Sub" or scale is None or scale.name in graph.variable:
        return False
    x, mean = graph.inputs(difference)
    uses = [graph.uses(one.name) for one in (product, difference)]
    if x is None or mean is None or mean.name in graph.variable or uses != [1, 1]:
        return False
    return graph.replace(node, lambda x, m, s, b: x * s + (b - m * s), [x, mean, scale, shift])


def _softmax(graph: Graph, node: Any) -> bool:
    """Recognize exp(x - max x) / Σ exp(x - max x)."""
    power, total = graph.inputs(node)
    if power is None or power.op != "Exp" or total is None or total.op not in ("Sum", *MOVES):
        return False
    return _is_softmax_of(graph, node, graph.up(power.input[0]), total, tf.nn.softmax)


def _log_softmax(graph: Graph, node: Any) -> bool:
    """Recognize (x - max x) - log Σ exp(x - max x)."""
    shifted, logarithm = graph.inputs(node)
    if shifted is None or logarithm is None or logarithm.op != "Log":
        return False
    return _is_softmax_of(graph, node, shifted, logarithm, tf.nn.log_softmax)


def _is_softmax_of(graph: Graph, node: Any, shifted: Any, total: Any, function: Callable[..., Any]) -> bool:
    if shifted is None or shifted.op != "Sub":
        return False
    x, largest = graph.inputs(shifted)
    if x is None or largest is None or origin(graph, x, MOVES) is not origin(graph, largest, (*MOVES, "Max")):
        return False
    shape = graph.shape(x)
    axes = [axis for axis, size in enumerate(graph.shape(total)) if size == 1 and shape[axis] != 1] or [len(shape) - 1]
    if len(axes) == 1 and graph.is_equal(origin(graph, x, MOVES), x, node, lambda x: function(x, axes[0])):
        return graph.replace(node, lambda x: function(x, axes[0]), [x])
    return False


SIMPLE: Rules = {
    "SelectV2": (_known_choice,), "Maximum": (_no_bound,), "BroadcastTo": (_no_broadcast,),
}  # fmt: skip


MEANS: Rules = {**dict.fromkeys(RESHAPES, (_kept_axes,)), "RealDiv": (_mean,), "Mul": (_mean,)}


NORMS: Rules = {"Mean": (_variance,), "AddV2": (_batch_norm,)}


SOFTMAXES: Rules = {"RealDiv": (_softmax,), "Sub": (_log_softmax,)}
