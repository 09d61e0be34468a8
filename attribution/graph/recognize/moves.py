"""Transposes and axes of size 1, which move down until they meet others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.recognize.functions import ELEMENTWISE
from attribution.graph.recognize.rewriting import RESHAPES, Graph, Rules, again, with_sizes

_BINARY = ("Mul", "RealDiv", "Add", "AddV2", "Sub", "Select", "SelectV2", "Maximum", "Minimum")


def order_of(graph: Graph, node: Any) -> list[int]:
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
    order, x = order_of(graph, node), graph.up(node.input[0])
    if not order:
        return False
    if order == sorted(order):
        return graph.replace(node, lambda x: x, [x])
    if inner := order_of(graph, x):
        joined = [inner[axis] for axis in order]
        return graph.replace(node, lambda x: tf.transpose(x, joined), [graph.up(x.input[0])])
    if x.op != "Einsum" or graph.uses(x.name) > 1:
        return False
    *inputs, output = letters_of(x)
    return write_einsum(graph, node, inputs, [output[axis] for axis in order], graph.inputs(x))


def _units_below_transpose(graph: Graph, node: Any) -> bool:
    """Write a transpose that moves only axes of size 1 as a reshape; move such axes below other transposes."""
    order, x, target = order_of(graph, node), graph.up(node.input[0]), graph.shape(node)
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


def _elementwise_below(graph: Graph, node: Any) -> bool:
    """Move a transpose to channels first, or axes of size 1 of a product, below an elementwise operation."""
    inputs = graph.inputs(node)
    moved = [one for one in inputs if order_of(graph, one) == _channels_first(len(graph.shape(node)))]
    if moved and _is_spatial(graph, moved[0]):
        return _transposed_below(graph, node, inputs, order_of(graph, moved[0]))
    units = [one for one in inputs if _unit_reshaped(graph, one) is not None]
    return len(units) == 1 and node.op in _BINARY and _widened_below(graph, node, inputs, units[0])


def _widened_below(graph: Graph, node: Any, inputs: Sequence[Any], widened: Any) -> bool:
    """Add axes of size 1 behind an operation with others that have none there."""
    source, sizes, wide = _unit_reshaped(graph, widened), graph.shape(node), graph.shape(widened)
    if 1 in graph.shape(source) or len(wide) != len(sizes) or sizes.count(None) > 1:
        return False
    sources, shapes = [], []
    for one in inputs:
        shape = [1] * (len(wide) - len(graph.shape(one))) + graph.shape(one)
        if any(a == 1 != b for a, b in zip(wide, shape, strict=True)):
            return False
        sources.append(source if one is widened else one)
        shapes.append(None if one is widened or graph.single(one) is not None else _without_units(shape, wide))

    def below(*given: Any) -> Any:
        narrow = [x if shape is None else with_sizes(x, shape) for x, shape in zip(given, shapes, strict=True)]
        return with_sizes(again(node, narrow), sizes)

    return graph.replace(node, below, sources)


def _without_units(sizes: Sequence[int | None], wide: Sequence[int | None]) -> list[int | None]:
    return [size for size, other in zip(sizes, wide, strict=True) if other != 1]


def _channels_first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _is_spatial(graph: Graph, node: Any) -> bool:
    """Return whether a transpose is that of images, not of tokens and their features."""
    return len(graph.shape(node)) > 3


def _transposed_below(graph: Graph, node: Any, inputs: Sequence[Any], order: list[int]) -> bool:
    """Transpose behind an elementwise operation; its other inputs are transposed back, which must cost nothing."""
    back = [int(axis) for axis in np.argsort(order)]
    sources, shapes = [], []
    for one in inputs:
        sizes = [1] * (len(order) - len(graph.shape(one))) + graph.shape(one)
        is_moved = order_of(graph, one) == order
        if not (is_moved or _is_vector(sizes)):
            return False
        sources.append(graph.up(one.input[0]) if is_moved else one)
        shapes.append(None if is_moved or graph.single(one) is not None else [sizes[axis] for axis in back])

    def below(*given: Any) -> Any:
        moved = [x if sizes is None else with_sizes(x, sizes) for x, sizes in zip(given, shapes, strict=True)]
        return tf.transpose(again(node, moved), order)

    return graph.replace(node, below, sources)


def _is_vector(sizes: Sequence[int | None]) -> bool:
    """Return whether no more than one axis behind the batch is longer than 1."""
    return len(_long(sizes[1:])) <= 1


def _reduced_below(graph: Graph, node: Any) -> bool:
    """Reduce the axes of positions before a transpose to channels first."""
    x, axes = graph.up(node.input[0]), graph.axes(node)
    order = order_of(graph, x)
    if not order or order != _channels_first(len(order)) or not _is_spatial(graph, x):
        return False
    places = [order[axis] for axis in axes]
    keep = node.attr["keep_dims"].b
    if not keep and sorted(places) != list(range(1, len(order) - 1)):
        return False
    constant = np.array(places, np.int32)
    return graph.replace(
        node,
        lambda x: tf.transpose(again(node, [x, constant]), order) if keep else again(node, [x, tf.constant(constant)]),
        [graph.up(x.input[0])],
    )


def _padded_below(graph: Graph, node: Any) -> bool:
    """Pad before a transpose to channels first."""
    x, paddings, *value = graph.inputs(node)
    order, known = order_of(graph, x), graph.value(paddings)
    if known is None or not order or order != _channels_first(len(order)):
        return False
    moved = known[np.argsort(order)]
    return graph.replace(
        node, lambda x, *value: tf.transpose(again(node, [x, tf.constant(moved), *value]), order),
        [graph.up(x.input[0]), *value],
    )  # fmt: skip


def letters_of(node: Any) -> list[list[str]]:
    """Return the letters of an Einsum's inputs, and of its output."""
    inputs, output = node.attr["equation"].s.decode().split("->")
    return [list(one) for one in (*inputs.split(","), output)]


def write_einsum(
    graph: Graph, node: Any, inputs: Any, output: Any, sources: Sequence[Any], reshaped: Mapping[int, Any] = {}
) -> bool:
    """Let a node be an Einsum of sources, some of them ``reshaped`` to sizes by their places."""
    equation = f"{','.join(map(''.join, inputs))}->{''.join(output)}"
    sizes = graph.shape(node)

    def function(*given: Any) -> Any:
        factors = [with_sizes(x, reshaped[i]) if i in reshaped else x for i, x in enumerate(given)]
        return with_sizes(tf.raw_ops.Einsum(inputs=factors, equation=equation), sizes)

    return graph.replace(node, function, sources)


def _einsum_of_units(graph: Graph, node: Any) -> bool:
    """Take axes of size 1 out of an Einsum."""
    *inputs, output = letters_of(node)
    sources = graph.inputs(node)
    for place, one in enumerate(sources):
        source = _unit_reshaped(graph, one)
        if source is not None and 1 not in graph.shape(source) and graph.shape(node).count(None) <= 1:
            sizes = graph.shape(one)
            kept = [letter for letter, size in zip(inputs[place], sizes, strict=True) if size != 1]
            dropped = set(inputs[place]) - set(kept) - set(inputs[1 - place])
            inputs[place], sources[place] = kept, source
            return write_einsum(graph, node, inputs, [one for one in output if one not in dropped], sources)
    return False


MOVING: Rules = {
    **dict.fromkeys((*ELEMENTWISE, "Elu", "Selu", "LeakyRelu", "Softsign"), (_elementwise_below,)),
    "Transpose": (_merged_transpose, _units_below_transpose), **dict.fromkeys(RESHAPES, (_merged_reshape,)),
    "Softmax": (_softmax_below,), "Einsum": (_einsum_of_units,),
    **dict.fromkeys(("Mean", "Max", "Sum"), (_reduced_below,)), **dict.fromkeys(("Pad", "PadV2"), (_padded_below,)),
}  # fmt: skip
