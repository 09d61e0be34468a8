"""Layers, attention and moves of values, as Keras on TensorFlow writes them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.recognize.moves import letters_of, order_of, write_einsum
from attribution.graph.recognize.rewriting import RESHAPES, Graph, Rules, again, origin, with_sizes


def _einsum_of_transposed(graph: Graph, node: Any) -> bool:
    """Take transposes above an Einsum of two tensors that depend on the input into its equation."""
    *inputs, output = letters_of(node)
    sources = graph.inputs(node)
    for place, one in enumerate(sources):
        if (order := order_of(graph, one)) and all(source.name in graph.variable for source in sources):
            inputs[place] = [inputs[place][order.index(axis)] for axis in range(len(order))]
            sources[place] = graph.up(one.input[0])
            return write_einsum(graph, node, inputs, output, sources)
    return False


def _einsum_in_order(graph: Graph, node: Any) -> bool:
    """Exchange the factors of an Einsum whose last axis is the first one's, as of attention, whose values come last."""
    first, second, output = letters_of(node)
    sources = graph.inputs(node)
    is_reversed = output[-1:] != [] and output[-1] in first and output[-1] not in second
    if not is_reversed or any(one.name not in graph.variable for one in sources):
        return False
    return write_einsum(graph, node, [second, first], output, sources[::-1])


def _einsum_of_copies(graph: Graph, node: Any) -> bool:
    """Use weights once that were copied along an axis, as PyTorch does for a stack of products."""
    *inputs, output = letters_of(node)
    sources = graph.inputs(node)
    for place, one in enumerate(sources):
        source = graph.up(one.input[0]) if one.op == "BroadcastTo" and one.name not in graph.variable else None
        if source is not None:
            sizes = graph.shape(one)
            before = [1] * (len(sizes) - len(graph.shape(source))) + graph.shape(source)
            copied = [letter for letter, a, b in zip(inputs[place], before, sizes, strict=True) if a != b]
            kept = [size for letter, size in zip(inputs[place], before, strict=True) if letter not in copied]
            inputs[place], sources[place] = [letter for letter in inputs[place] if letter not in copied], source
            if set(copied) <= set(inputs[1 - place]):
                return write_einsum(graph, node, inputs, output, sources, {place: kept})
    return False


def _resize(graph: Graph, node: Any) -> bool:
    """Recognize bilinear interpolation, written as a product with a matrix for either axis."""
    x, sizes = node, graph.shape(node)
    for _ in range(2):
        variable = (
            [] if x is None or x.op != "Einsum" else [one for one in graph.inputs(x) if one.name in graph.variable]
        )
        x = variable[0] if len(variable) == 1 else None
    if x is None or len(sizes) != 4 or len(graph.shape(x)) != 4 or None in sizes[1:3]:
        return False

    def resized(x: Any) -> Any:
        return tf.image.resize(x, sizes[1:3])

    return graph.is_equal(x, x, node, resized) and graph.replace(node, resized, [x])


def _dense(graph: Graph, node: Any) -> bool:
    """Write an Einsum with weights as a product of matrices, as layers are written."""
    *inputs, output = letters_of(node)
    sources = graph.inputs(node)
    constant = [place for place, one in enumerate(sources) if one.name not in graph.variable]
    if len(constant) != 1 or len(inputs) != 2 or graph.shape(node).count(None) > 1:
        return False
    x, kernel, given, weights = (
        *(sources[1 - constant[0]], sources[constant[0]]),
        *inputs[:: 1 - 2 * (constant[0] == 0)],
    )
    summed = [letter for letter in given if letter in weights and letter not in output]
    ahead = [letter for letter in given if letter not in summed]
    free = [letter for letter in output if letter not in ahead]
    if not summed or set(weights) != set(summed + free) or set(output) != set(ahead + free):
        return False
    sizes = {**dict(zip(given, graph.shape(x), strict=True)), **dict(zip(output, graph.shape(node), strict=True))}
    inner = math.prod(sizes[letter] for letter in summed)  # type: ignore[misc]
    rows = [] if len(weights) == 2 else [sizes[letter] for letter in ahead]  # Keras has a stack of products there

    def function(x: Any, w: Any) -> Any:
        x, w = _ordered(x, given, ahead + summed), _ordered(w, weights, summed + free)
        x = x if len(x.shape) == 2 or (rows and len(summed) == 1) else with_sizes(x, [*(rows or [None]), inner])
        w = w if len(weights) == 2 else tf.reshape(w, [inner, -1])
        product = tf.matmul(x, w)
        whole = [sizes[letter] for letter in ahead + free]
        product = product if len(product.shape) == len(whole) else with_sizes(product, whole)
        return _ordered(product, ahead + free, output)

    return graph.replace(node, function, [x, kernel])


def _ordered(x: Any, given: Sequence[str], wanted: Sequence[str]) -> Any:
    order = [given.index(letter) for letter in wanted]
    return x if order == sorted(order) else tf.transpose(x, order)


def _tile(graph: Graph, node: Any) -> bool:
    """Write a broadcast of axes of size 1, but the batch, as copies."""
    x, sizes = graph.up(node.input[0]), graph.shape(node)
    before = [] if x is None or x.name not in graph.variable else graph.shape(x)
    if len(before) != len(sizes) or not sizes or before[0] != sizes[0] or None in sizes[1:] or None in before[1:]:
        return False
    copies = [1, *(after // size for size, after in zip(before[1:], sizes[1:], strict=True))]  # type: ignore[operator]
    return graph.replace(node, lambda x: tf.tile(x, copies), [x])


def _roll(graph: Graph, node: Any) -> bool:
    """Recognize two parts of a tensor that were exchanged along an axis."""
    parts = graph.inputs(node)[:-1]
    if len(parts) != 2 or any(one is None or one.op not in ("StridedSlice", "Slice") for one in parts):
        return False
    x, axis = graph.up(parts[0].input[0]), graph.value(graph.up(node.input[-1]))
    if x is not graph.up(parts[1].input[0]) or x is None or axis is None or graph.shape(x) != graph.shape(node):
        return False
    shift = graph.shape(parts[0])[int(axis)]

    def rolled(x: Any) -> Any:
        return tf.roll(x, shift, int(axis))

    return shift is not None and graph.is_equal(x, x, node, rolled) and graph.replace(node, rolled, [x])


def _padded_layer(graph: Graph, node: Any) -> bool:
    """Let a convolution pad as it would by itself, where zeros are added ahead of it."""
    padding = graph.up(node.input[0])
    if padding is None or padding.op != "Pad" or node.attr["padding"].s != b"VALID":
        return False
    x, counts, sizes = graph.up(padding.input[0]), graph.value(graph.up(padding.input[1])), graph.shape(node)
    if x is None or counts is None or node.attr["data_format"].s != b"NHWC" or None in sizes[1:3] + graph.shape(x)[1:3]:
        return False
    same = tf.compat.v1.NodeDef()
    same.CopyFrom(node)
    same.attr["padding"].s = b"SAME"
    kernel, steps = graph.shape(graph.up(node.input[1])), node.attr["strides"].list.i
    wanted = [[0, 0]]
    for axis in (1, 2):
        reach = (kernel[axis - 1] - 1) * node.attr["dilations"].list.i[axis] + 1  # type: ignore[operator]
        places = -(-graph.shape(x)[axis] // steps[axis])  # type: ignore[operator]
        total = max((places - 1) * steps[axis] + reach - graph.shape(x)[axis], 0)
        wanted.append([total // 2, total - total // 2])
    matches = counts.tolist() == [*wanted, [0, 0]]
    return matches and graph.replace(node, lambda *given: again(same, given), [x, graph.up(node.input[1])])


def _repeated_constant(graph: Graph, node: Any) -> bool:
    """Use a constant once for all inputs that was copied for each, as PyTorch does for a fixed batch."""
    sources = graph.inputs(node)
    for one in sources:
        copied = origin(graph, one, RESHAPES) if one is not None and one.name not in graph.variable else None
        if copied is None or copied.op != "BroadcastTo" or len(graph.shape(one)) != len(graph.shape(node)):
            continue
        rows = graph.shape(one)[0]
        values = graph.constant(one)
        if rows != 1 and rows == graph.shape(node)[0] and values is not None and (values == values[:1]).all():
            parts = [slice(1) if other is one else slice(None) for other in sources]
            return graph.replace(node, functools.partial(_of_parts, node, parts), sources)
    return False


def _of_parts(node: Any, parts: Sequence[slice], *given: Any) -> Any:
    return again(node, [x if part == slice(None) else x[part] for part, x in zip(parts, given, strict=True)])


def _lookup(graph: Graph, node: Any) -> bool:
    """Leave out the NaN of a lookup outside its table."""
    _, found, other = graph.inputs(node)
    value = graph.value(other)
    if value is None or value.dtype.kind != "f" or not np.isnan(value).all() or found is None or found.op != "GatherV2":
        return False
    return graph.shape(found) == graph.shape(node) and graph.replace(node, lambda x: x, [found])


def _row(graph: Graph, node: Any) -> bool:
    """Look up by the numbers that are given, without clipping those outside the table."""
    table, places, axis = graph.inputs(node)
    rows = graph.shape(table)[:1]
    if graph.value(axis) != 0 or rows in ([], [None]):
        return False
    source, found = places, None
    while source.op not in ("Placeholder", "Cast", "Const") and not graph.dtype_is_float(source):
        variable = [one for one in graph.inputs(source) if one is not None and one.name in graph.variable]
        if not variable:
            break
        source = next((one for one in variable if graph.dtype(one).is_integer), None)
        if source is None or len(graph.shape(source)) < 1:
            break
        if graph.shape(source) == graph.shape(places):
            found = source
    if found is None or not graph.is_equal(found, found, places, tf.identity, whole=rows[0]):  # type: ignore[arg-type]
        return False
    return graph.replace(node, lambda t, at: tf.gather(t, at), [table, found])


PRODUCTS: Rules = {"Einsum": (_einsum_of_transposed, _einsum_in_order, _einsum_of_copies, _resize)}


LAYERS: Rules = {
    "Einsum": (_dense,), "SelectV2": (_lookup,), "GatherV2": (_row,),
    "BroadcastTo": (_tile,), "ConcatV2": (_roll,), **dict.fromkeys(("Mul", "AddV2", "Sub"), (_repeated_constant,)),
    **dict.fromkeys(("Conv2D", "DepthwiseConv2dNative"), (_padded_layer,)),
}  # fmt: skip
