"""Axes of size 1 that other writers do not have, layers that move values, and a step of a recurrent layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.recognize.rewriting import RESHAPES, Graph, Rules, again, origin, with_sizes


def _unit_reshaped(graph: Graph, node: Any) -> Any:
    """Return the node of which a node has the values, with axes of size 1 more or less; ``None`` if it is none."""
    if node.op not in RESHAPES or graph.is_constant(node):
        return None
    x = graph.up(node.input[0])
    before, after = (_long(graph.shape(one)) for one in (x, node))
    return x if before and before == after and before.count(None) <= 1 else None


def _long(sizes: Sequence[int | None]) -> list[int | None]:
    return [size for size in sizes if size != 1]


def _merged_reshape(graph: Graph, node: Any) -> bool:
    """Join a reshape with one above it that only adds or removes axes of size 1."""
    x, sizes = graph.up(node.input[0]), graph.shape(node)
    source = _unit_reshaped(graph, x)
    if source is None or sizes.count(None) > 1:
        return False
    return graph.replace(node, lambda x: with_sizes(x, sizes), [source])


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


def _letters_of(node: Any) -> list[list[str]]:
    """Return the letters of an Einsum's inputs, and of its output."""
    inputs, output = node.attr["equation"].s.decode().split("->")
    return [list(one) for one in (*inputs.split(","), output)]


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
    given, weights, output = _letters_of(product)
    if kernel.op == "BroadcastTo":  # a copy for each step
        kernel, weights = graph.up(kernel.input[0]), weights[-2:]
    is_one = math.prod(graph.shape(kernel)[:-2]) == 1 and graph.is_constant(kernel)
    if not is_one or weights[:1] != given[-1:] or output != [*given[:-1], *weights[1:]]:
        return False
    sizes = [*graph.shape(node)[:-1], graph.shape(x)[-1]]
    bounds = [graph.value(graph.up(tensor)) for tensor in sliced.input[1:]]

    def cell(x: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
        kernel = with_sizes(kernel, kernel.shape[-2:])
        return tf.matmul(with_sizes(again(sliced, [x, *map(tf.constant, bounds)]), sizes), kernel) + recurrent + bias

    return graph.replace(node, cell, [x, kernel, recurrent, bias])


SOFTMAXES: Rules = {"Softmax": (_softmax_without_units,)}

LAYERS: Rules = {
    **dict.fromkeys(RESHAPES, (_merged_reshape,)), **dict.fromkeys(("Einsum", "Transpose"), (_resize,)),
    "AddV2": (_step_of_a_cell,), "SelectV2": (_lookup,), "ConcatV2": (_roll,),
}  # fmt: skip
