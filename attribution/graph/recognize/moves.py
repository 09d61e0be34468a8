"""Transposes and axes of size 1, which move down until they meet others; layers that move values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.recognize.rewriting import RESHAPES, Graph, Rules, again, origin, with_sizes

_BINARY = ("Add", "AddV2", "Maximum", "Minimum", "Mul", "RealDiv", "Select", "SelectV2", "Sub")


def _order_of(graph: Graph, node: Any) -> list[int]:
    """Return the order of a transpose's axes, empty for anything else."""
    found = graph.value(graph.up(node.input[1])) if node.op == "Transpose" else None
    return [] if found is None else [int(axis) for axis in found]


def _unit_reshaped(graph: Graph, node: Any) -> Any:
    """Return the node of which a node has the values, with axes of size 1 more or less; ``None`` if it is none."""
    if node.op not in RESHAPES or graph.is_constant(node):
        return None
    x = graph.up(node.input[0])
    before, after = (_long(graph.shape(one)) for one in (x, node))
    return x if before and before == after and before.count(None) <= 1 else None


def _long(sizes: Sequence[int | None]) -> list[int | None]:
    return [size for size in sizes if size != 1]


def _merged_transpose(graph: Graph, node: Any) -> bool:
    """Join a transpose with one above it, or with an Einsum."""
    order, x = _order_of(graph, node), graph.up(node.input[0])
    if not order:
        return False
    if inner := _order_of(graph, x):
        joined = [inner[axis] for axis in order]
        return graph.replace(node, lambda x: tf.transpose(x, joined), [graph.up(x.input[0])])
    if x.op != "Einsum" or graph.uses(x.name) > 1:
        return False
    *inputs, output = _letters_of(x)
    return _write_einsum(graph, node, inputs, [output[axis] for axis in order], graph.inputs(x))


def _units_below_transpose(graph: Graph, node: Any) -> bool:
    """Write a transpose that moves only axes of size 1 as a reshape; move such axes below other transposes."""
    order, x, target = _order_of(graph, node), graph.up(node.input[0]), graph.shape(node)
    if not order:
        return False
    sizes = graph.shape(x)
    before, after = ([axis for axis in one if sizes[axis] != 1] for one in (range(len(sizes)), order))
    if before == after and sizes.count(None) <= 1:
        return graph.replace(node, lambda x: with_sizes(x, target), [x])
    source = _unit_reshaped(graph, x)
    if source is None:
        return False
    new = _moved_axes(graph.shape(source), [before.index(axis) for axis in after])
    return graph.replace(node, lambda x: with_sizes(tf.transpose(x, new), target), [source])


def _moved_axes(sizes: Sequence[int | None], order: Sequence[int]) -> list[int]:
    """Return an order of all axes in which those of size 1 stay and the others have an order of their own."""
    new = list(range(len(sizes)))
    places = [axis for axis in new if sizes[axis] != 1]
    for place, number in zip(places, order, strict=True):
        new[place] = places[number]
    return new


def _merged_reshape(graph: Graph, node: Any) -> bool:
    """Join a reshape with one above it that only adds or removes axes of size 1."""
    x, sizes = graph.up(node.input[0]), graph.shape(node)
    source = _unit_reshaped(graph, x)
    if source is None or sizes.count(None) > 1:
        return False
    return graph.replace(node, lambda x: with_sizes(x, sizes), [source])


def _softmax_below(graph: Graph, node: Any) -> bool:
    """Move axes of size 1 below a softmax over the last axis."""
    source, sizes = _unit_reshaped(graph, graph.up(node.input[0])), graph.shape(node)
    if source is None or sizes[-1] == 1 or graph.shape(source)[-1] != sizes[-1]:
        return False
    return graph.replace(node, lambda x: with_sizes(tf.nn.softmax(x), sizes), [source])


def _widened_below(graph: Graph, node: Any) -> bool:
    """Add axes of size 1 behind an operation with others that have none there."""
    inputs, sizes = graph.inputs(node), graph.shape(node)
    units = [one for one in inputs if _unit_reshaped(graph, one) is not None]
    if len(units) != 1 or sizes.count(None) > 1:
        return False
    source, wide = _unit_reshaped(graph, units[0]), graph.shape(units[0])
    if 1 in graph.shape(source) or len(wide) != len(sizes):
        return False
    sources, shapes = [], []
    for one in inputs:
        shape = [1] * (len(wide) - len(graph.shape(one))) + graph.shape(one)
        if any(a == 1 != b for a, b in zip(wide, shape, strict=True)):
            return False
        sources.append(source if one is units[0] else one)
        shapes.append(None if one is units[0] or graph.single(one) is not None else _without_units(shape, wide))

    def below(*given: Any) -> Any:
        narrow = [x if shape is None else with_sizes(x, shape) for x, shape in zip(given, shapes, strict=True)]
        return with_sizes(again(node, narrow), sizes)

    return graph.replace(node, below, sources)


def _without_units(sizes: Sequence[int | None], wide: Sequence[int | None]) -> list[int | None]:
    return [size for size, other in zip(sizes, wide, strict=True) if other != 1]


def _letters_of(node: Any) -> list[list[str]]:
    """Return the letters of an Einsum's inputs, and of its output."""
    inputs, output = node.attr["equation"].s.decode().split("->")
    return [list(one) for one in (*inputs.split(","), output)]


def _write_einsum(graph: Graph, node: Any, inputs: Any, output: Any, sources: Sequence[Any]) -> bool:
    equation = f"{','.join(map(''.join, inputs))}->{''.join(output)}"
    sizes = graph.shape(node)

    def function(*factors: Any) -> Any:
        return with_sizes(tf.raw_ops.Einsum(inputs=factors, equation=equation), sizes)

    return graph.replace(node, function, sources)


def _einsum_of_units(graph: Graph, node: Any) -> bool:
    """Take axes of size 1 out of an Einsum."""
    *inputs, output = _letters_of(node)
    sources = graph.inputs(node)
    for place, one in enumerate(sources):
        source = _unit_reshaped(graph, one)
        if source is not None and 1 not in graph.shape(source) and graph.shape(node).count(None) <= 1:
            sizes = graph.shape(one)
            kept = [letter for letter, size in zip(inputs[place], sizes, strict=True) if size != 1]
            dropped = set(inputs[place]) - set(kept) - set(inputs[1 - place])
            inputs[place], sources[place] = kept, source
            return _write_einsum(graph, node, inputs, [one for one in output if one not in dropped], sources)
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
    given, weights, output = _letters_of(product)
    if not graph.is_constant(kernel) or weights[:1] != given[-1:] or output != [*given[:-1], *weights[1:]]:
        return False
    sizes = [*graph.shape(node)[:-1], graph.shape(x)[-1]]
    bounds = [graph.value(graph.up(tensor)) for tensor in sliced.input[1:]]

    def cell(x: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
        return tf.matmul(with_sizes(again(sliced, [x, *map(tf.constant, bounds)]), sizes), kernel) + recurrent + bias

    return graph.replace(node, cell, [x, kernel, recurrent, bias])


MOVING: Rules = {
    **dict.fromkeys(_BINARY, (_widened_below,)),
    "Transpose": (_merged_transpose, _units_below_transpose), **dict.fromkeys(RESHAPES, (_merged_reshape,)),
    "Softmax": (_softmax_below,), "Einsum": (_einsum_of_units,),
}  # fmt: skip

LAYERS: Rules = {"Einsum": (_resize,), "AddV2": (_step_of_a_cell,), "SelectV2": (_lookup,), "ConcatV2": (_roll,)}
