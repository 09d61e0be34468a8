"""The number of rows of a pass where the caller does not say: as many as have a moderate number of values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from attribution.graph._loops import LOOPS
from attribution.graph._tf_internals import function_body
from attribution.savedmodel.freeze import FrozenGraph

# More rows make passes of small networks up to five times faster, and those of large ones slower.
_VALUES = 16 * 2**20  # 64 MB in float32
_FEWEST, _MOST = 32, 2048


def rows_of_pass(frozen: FrozenGraph) -> int:
    """Return the rows of a pass for which a network computes 16 million values of floating point, 32 to 2048.

    Values of a loop count once for each step. Where a file leaves the size of an input open, there are 32 rows.
    """
    shapes = {frozen.input_nodes[name]: spec.shape for name, spec in frozen.inputs.items()}
    if not all(shape.rank is not None and shape[1:].is_fully_defined() for shape in shapes.values()):
        return _FEWEST
    outputs = [frozen.graph.shape(name) for name in frozen.graph.nodes if frozen.graph.is_float(name)]
    of_row = sum(math.prod(size or 1 for size in shape[1:]) for shape in outputs if shape.rank and shape[0] is None)
    if of_row * _FEWEST <= _VALUES:  # a reading of a graph less; what is folded into the batch counts only below
        try:
            one, two = (_values(frozen.graph.graph_def, shapes, rows) for rows in (1, 2))
        except ValueError:  # the file has other sizes than it declares, which a pass reports
            return _FEWEST
        of_row = two - one  # without values that all rows share, such as weights
    return min(max(_VALUES // max(of_row, 1), _FEWEST), _MOST)


def _values(graph_def: tf.compat.v1.GraphDef, shapes: Mapping[str, Any], rows: int) -> int:
    """Return how many numbers of floating point a graph computes from inputs of some shapes, with open sizes ``rows``.

    A step of a loop needs a list that was made from a tensor, whose first axis is time.
    """
    sized = tf.compat.v1.GraphDef()
    sized.CopyFrom(graph_def)
    for node in sized.node:
        node.attr.pop("_output_shapes", None)
        if node.name in shapes:
            sizes = [size or rows for size in shapes[node.name]]
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(sizes).as_proto())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(sized, name="")
    functions = {function.signature.name: function for function in sized.library.function}
    total, steps = 0, 1
    for operation in graph.get_operations():
        for output in operation.outputs:
            if output.dtype.is_floating and output.shape.rank is not None:
                total += math.prod(size or rows for size in output.shape)
        if operation.type == "TensorListFromTensor":
            steps = max(steps, (operation.inputs[0].shape or [1])[0] or 1)
        if operation.type in LOOPS:
            function = functions[operation.get_attr("body").name]
            body, _ = function_body(function)
            arguments = zip(function.signature.input_arg, operation.inputs, strict=True)
            given = {one.name: tensor.shape for one, tensor in arguments if tensor.shape.rank is not None}
            total += steps * _values(body, given, rows)
    return total
