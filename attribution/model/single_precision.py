"""A graph in half precision, computed in single precision: relevance divides by numbers that are next to nothing.

The weights are those of the file; what changes is that results are no longer rounded to float16 or bfloat16 on the way.
"""

from __future__ import annotations

import tensorflow as tf

from attribution.graph.nodes import node_of
from attribution.graph.view import GraphView

_HALF = (tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum)
_SINGLE = tf.float32.as_datatype_enum


def in_single_precision(graph: GraphView) -> GraphView:
    """Return a graph in which every float16 and bfloat16 is a float32 but the inputs, which are cast.

    Parameters
    ----------
    graph
        A frozen graph.

    Returns
    -------
    GraphView
        The same object if there is no half precision in it.
    """
    result = tf.compat.v1.GraphDef()
    result.CopyFrom(graph.graph_def)
    weights = {
        name: tf.cast(weight, tf.float32) if weight.dtype.as_datatype_enum in _HALF else weight
        for name, weight in graph.weights.items()
    }
    inputs = {
        node.name: node.attr["dtype"].type
        for node in result.node
        if node.op == "Placeholder" and node.name not in weights and node.attr["dtype"].type in _HALF
    }
    changed = [_convert(node) for node in result.node if node.name not in inputs]
    for function in result.library.function:
        changed += [_convert(node) for node in function.node_def]
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            if argument.type in _HALF:
                argument.type = _SINGLE
    if not any(changed) and not inputs:
        return graph
    for node in result.node:
        if node.op == "Cast" and node.attr["SrcT"].type == node.attr["DstT"].type:
            dtype = node.attr["SrcT"].type
            node.op = "Identity"  # so that normalisation behind it is found
            node.attr.clear()
            node.attr["T"].type = dtype
        for position, tensor in enumerate(node.input):
            if node_of(tensor) in inputs:
                node.input[position] = f"{node_of(tensor)}/single"
    for name, dtype in inputs.items():
        cast = result.node.add(name=f"{name}/single", op="Cast", input=[name])
        cast.attr["SrcT"].type, cast.attr["DstT"].type = dtype, _SINGLE
    return GraphView(result, weights, graph.altered)


def _convert(node) -> bool:
    """Put single in place of half precision in a node's attributes; return whether there was any."""
    found = False
    for name in list(node.attr):
        value = node.attr[name]
        kind = value.WhichOneof("value")
        if kind == "type" and value.type in _HALF:
            value.type, found = _SINGLE, True
        elif kind == "list" and any(dtype in _HALF for dtype in value.list.type):
            types = [_SINGLE if dtype in _HALF else dtype for dtype in value.list.type]
            del value.list.type[:]
            value.list.type.extend(types)
            found = True
        elif kind == "tensor" and value.tensor.dtype in _HALF:
            array = tf.make_ndarray(value.tensor).astype("float32")
            value.tensor.CopyFrom(tf.make_tensor_proto(array))
            found = True
    return found
