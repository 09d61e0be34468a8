"""Layers, attention and moves of values, as Keras on TensorFlow writes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.recognize.moves import letters_of, write_einsum
from attribution.graph.recognize.rewriting import RESHAPES, Graph, Rules, again, origin, with_sizes


def _einsum_in_order(graph: Graph, node: Any) -> bool:
    """Exchange the factors of an Einsum whose last axis is the first one's, as of attention, whose values come last."""
    first, second, output = letters_of(node)
    sources = graph.inputs(node)
    is_reversed = output[-1:] != [] and output[-1] in first and output[-1] not in second
    if not is_reversed or any(map(graph.is_constant, sources)):
        return False
    return write_einsum(graph, node, [second, first], output, sources[::-1])


def _einsum_of_copies(graph: Graph, node: Any) -> bool:
    """Use weights once that were copied along an axis, as PyTorch does for a stack of products."""
    *inputs, output = letters_of(node)
    sources = graph.inputs(node)
    for place, one in enumerate(sources):
        if one.op == "BroadcastTo" and graph.is_constant(one):
            sources[place] = graph.up(one.input[0])
            sizes, shape = graph.shape(one), graph.shape(sources[place])
            before = [*[1] * (len(sizes) - len(shape)), *shape]
            kept = {letter: a for letter, a, b in zip(inputs[place], before, sizes, strict=True) if a == b}
            is_given = set(inputs[place]) <= {*kept, *inputs[1 - place]}
            inputs[place] = list(kept)
            return is_given and write_einsum(graph, node, inputs, output, sources, {place: list(kept.values())})
    return False


def _resize(graph: Graph, node: Any) -> bool:
    """Recognize bilinear interpolation: a product with a matrix for either axis, or with weights of windows."""
    x, sizes = node, graph.shape(node)
    while x.op in ("Einsum", "GatherNd", "Transpose"):
        variable = [one for one in graph.inputs(x) if not graph.is_constant(one)]
        if len(variable) != 1:
            return False
        x = variable[0]
    given = graph.shape(x)
    if not len(sizes) == len(given) == 4 or None in sizes[1:3] or sizes[1:3] == given[1:3] or sizes[3] != given[3]:
        return False

    def resized(x: Any) -> Any:
        return tf.image.resize(x, sizes[1:3])

    return graph.is_equal(x, x, node, resized) and graph.replace(node, resized, [x])


def _dense(graph: Graph, node: Any) -> bool:
    """Write an Einsum with weights as a product of matrices, as layers are written."""
    *inputs, output = letters_of(node)
    pairs = sorted(zip(graph.inputs(node), inputs, strict=True), key=lambda one: graph.is_constant(one[0]))
    (x, given), (kernel, weights) = pairs
    summed, ahead, free = _roles(given, weights, output)
    if not summed or not graph.is_constant(kernel) or graph.shape(node).count(None) > 1:
        return False
    sizes = dict(zip([*given, *output], [*graph.shape(x), *graph.shape(node)], strict=True))

    def function(x: Any, w: Any) -> Any:
        x, w = _ordered(x, given, ahead + summed), _ordered(w, weights, summed + free)
        product = _product(x, w, len(summed), [sizes[letter] for letter in ahead + free])
        return _ordered(product, ahead + free, output)

    return graph.replace(node, function, [x, kernel])


def _roles(given: Sequence[str], weights: Sequence[str], output: Sequence[str]) -> tuple[list[str], ...]:
    """Return the axes that a layer sums over, those that it leaves, and those that it makes; none if it is no layer."""
    summed = [letter for letter in given if letter in weights and letter not in output]
    ahead = [letter for letter in given if letter not in summed]
    free = [letter for letter in output if letter not in ahead]
    is_layer = set(weights) == {*summed, *free} and set(output) == {*ahead, *free}
    return (summed, ahead, free) if is_layer else ([], [], [])


def _product(x: Any, weights: Any, summed: int, sizes: list[int | None]) -> Any:
    """Return the sum over the last ``summed`` axes of a tensor, and the first of its weights, in these sizes.

    As in Keras, the tensor stays a stack of matrices where weights have more than two axes.
    """
    inner = math.prod(weights.shape[:summed])
    rows = [None] if weights.shape.rank == 2 else sizes[: x.shape.rank - summed]
    x = x if x.shape.rank == len(rows) + 1 else with_sizes(x, [*rows, inner])
    weights = weights if weights.shape.rank == 2 else tf.reshape(weights, [inner, -1])
    product = tf.matmul(x, weights)
    return product if product.shape.rank == len(sizes) else with_sizes(product, sizes)


def _ordered(x: Any, given: Sequence[str], wanted: Sequence[str]) -> Any:
    order = [given.index(letter) for letter in wanted]
    return x if order == sorted(order) else tf.transpose(x, order)


def _tile(graph: Graph, node: Any) -> bool:
    """Write a broadcast of axes of size 1, but the batch, as copies."""
    x, sizes = graph.up(node.input[0]), graph.shape(node)
    before = graph.shape(x)
    if graph.is_constant(x) or len(before) != len(sizes) or before[:1] != sizes[:1] or None in sizes[1:] + before[1:]:
        return False
    copies = [1, *(after // size for size, after in zip(before[1:], sizes[1:], strict=True))]  # type: ignore[operator]
    return graph.replace(node, lambda x: tf.tile(x, copies), [x])


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


def _repeated_constant(graph: Graph, node: Any) -> bool:
    """Use a constant once for all inputs that was copied for each, as PyTorch does for a fixed batch."""
    sources = graph.inputs(node)
    copied = [one for one in sources if _is_copied(graph, one, graph.shape(node))]
    if len(copied) != 1:
        return False
    parts = [slice(1) if one is copied[0] else slice(None) for one in sources]

    def function(*given: Any) -> Any:
        return again(node, [x if part == slice(None) else x[part] for part, x in zip(parts, given, strict=True)])

    return graph.replace(node, function, sources)


def _is_copied(graph: Graph, node: Any, shape: Sequence[int | None]) -> bool:
    """Return whether a constant has equal values for each of several inputs, by a broadcast."""
    if not graph.is_constant(node) or origin(graph, node, RESHAPES).op != "BroadcastTo":
        return False
    rows, values = graph.shape(node)[:1], graph.constant(node)
    is_per_input = len(shape) == len(graph.shape(node)) and rows == list(shape[:1]) and rows not in ([1], [])
    return is_per_input and values is not None and bool((values == values[:1]).all())


def _lookup(graph: Graph, node: Any) -> bool:
    """Leave out the NaN of a lookup outside its table."""
    _, found, other = graph.inputs(node)
    value = graph.value(other)
    if value is None or value.dtype.kind != "f" or not np.isnan(value).all() or found.op != "GatherV2":
        return False
    return graph.shape(found) == graph.shape(node) and graph.replace(node, lambda x: x, [found])


def _row(graph: Graph, node: Any) -> bool:
    """Look up by the numbers that are given, in their shape, without clipping those outside the table."""
    lookup = origin(graph, node, RESHAPES)
    if lookup.op != "GatherV2":
        return False
    table, places, axis = graph.inputs(lookup)
    (rows, *row), flat = graph.shape(table), [-1 if size is None else size for size in graph.shape(places)]
    found = [one for one in _whole_numbers_above(graph, places) if [*graph.shape(one), *row] == graph.shape(node)]
    if not found or not rows or graph.value(axis) != 0 or flat.count(-1) > 1:
        return False
    if not graph.is_equal(found[-1], found[-1], places, lambda at: tf.reshape(at, flat), whole=rows):
        return False
    return graph.replace(node, lambda t, at: tf.gather(t, at), [table, found[-1]])


def _whole_numbers_above(graph: Graph, node: Any) -> Iterator[Any]:
    """Yield nodes of whole numbers from which a node was computed, the nearest first."""
    while node.op != "Placeholder":
        variable = [one for one in graph.inputs(node) if not graph.is_constant(one) and graph.dtype(one).is_integer]
        if not variable:
            return
        node = variable[0]
        yield node


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
    given, weights, output = letters_of(product)
    if not graph.is_constant(kernel) or weights[:1] != given[-1:] or output != [*given[:-1], *weights[1:]]:
        return False
    sizes = [*graph.shape(node)[:-1], graph.shape(x)[-1]]
    bounds = [graph.value(graph.up(tensor)) for tensor in sliced.input[1:]]

    def cell(x: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
        return tf.matmul(with_sizes(again(sliced, [x, *map(tf.constant, bounds)]), sizes), kernel) + recurrent + bias

    return graph.replace(node, cell, [x, kernel, recurrent, bias])


PRODUCTS: Rules = {
    "Einsum": (_einsum_in_order, _einsum_of_copies, _resize),
    "AddV2": (_step_of_a_cell,),
}

LAYERS: Rules = {
    "Einsum": (_dense,), "SelectV2": (_lookup,), **dict.fromkeys(("GatherV2", *RESHAPES), (_row,)),
    "BroadcastTo": (_tile,), "ConcatV2": (_roll,), **dict.fromkeys(("Mul", "AddV2", "Sub"), (_repeated_constant,)),
}  # fmt: skip
