"""How a graph treats the rows of its inputs: how many values it computes for each, and whether it keeps them apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tensorflow as tf

from attribution.graph._loops import LOOPS
from attribution.graph.layers import ELEMENTWISE
from attribution.graph.view import CONVOLUTIONS, NORMALIZATIONS, SHAPES, GraphView, node_of

ROWS = 10_007  # for which sizes are read. It is a prime: a size that is its multiple grows with the rows
# Operations that never combine two rows if what they read and give has the rows on its first axis.
_BY_ROW = {
    *ELEMENTWISE, "AvgPool", "AvgPool3D", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "BroadcastTo", "Cast",
    "ConcatV2", "DepthToSpace", "Equal", "ExpandDims", "Fill", "Greater", "GreaterEqual", "Identity", "IdentityN",
    "Less", "LessEqual", "LogSoftmax", "LogicalAnd", "LogicalNot", "LogicalOr", "MatMul", "Max", "MaxPool", "MaxPool3D",
    "MaxPoolV2", "Mean", "Min", "MirrorPad", "NotEqual", "OneHot", "OnesLike", "Pack", "Pad", "PadV2", "Prod",
    "Reshape", "ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor", "Slice", "SpaceToDepth", "Split", "SplitV",
    "Squeeze", "StopGradient", "Sum", "Tile", "Transpose", "Unpack", "ZerosLike",
}  # fmt: skip
# Places of those inputs that are sizes.
_SIZES = {
    "BroadcastTo": {1}, "Conv2DBackpropInput": {0}, "Fill": {0}, "Reshape": {1}, "ResizeBilinear": {1},
    "ResizeNearestNeighbor": {1}, "StridedSlice": {1, 2}, "Tile": {1},
}  # fmt: skip


def import_for_rows(view: GraphView, shapes: Mapping[str, tf.TensorShape]) -> tf.Graph | None:
    """Return a graph as TensorFlow infers its sizes for ``ROWS`` rows; ``None`` where it infers nothing."""
    if any(shape.rank is None for shape in shapes.values()):
        return None
    graph_def = tf.compat.v1.GraphDef()
    graph_def.CopyFrom(view.graph_def)
    for node in graph_def.node:
        node.attr.pop("_output_shapes", None)
        if node.name in shapes:
            sizes = [size or ROWS for size in shapes[node.name][:1]] + shapes[node.name][1:].as_list()
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(sizes).as_proto())
    try:
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
    except ValueError:  # the file has other sizes than it declares, which a pass reports
        return None
    return graph


def values_of_row(view: GraphView, graph: tf.Graph) -> tuple[float, float]:
    """Return how many values of floating point a graph of ``import_for_rows`` has of a row, and its largest tensor."""
    nodes = {function.signature.name: len(function.node_def) for function in view.graph_def.library.function}
    total, largest, steps = 0, 0, 1
    for operation in graph.get_operations():
        is_loop = operation.type in LOOPS  # each node of a step may have as many values as what enters it
        tensors = operation.inputs if is_loop else operation.outputs
        sizes = [tensor.shape.num_elements() for tensor in tensors if tensor.dtype.is_floating]
        # A size that is not known is at most that of the tensors before it.
        of_rows = [largest if size is None else size for size in sizes if size is None or size % ROWS == 0]
        largest = max([largest, *of_rows])
        if operation.type == "TensorListFromTensor":
            steps = max(steps, (operation.inputs[0].shape or [1])[0] or 1)
        in_step = nodes[operation.get_attr("body").name] * max(of_rows, default=0) if is_loop else 0
        total += steps * in_step if is_loop else sum(of_rows)
    return total / ROWS, largest / ROWS


def keeps_rows_apart(view: GraphView, graph: tf.Graph, inputs: Iterable[str], output: str) -> bool:
    """Return whether a row of the output node is known to be a function of the same row of the input nodes alone.

    Every tensor between them must have the rows on its first axis and on no other one: as one entry each, or as several
    that follow each other, such as its tokens. It must be computed of such tensors by an operation that then computes
    entry by entry, or be a reshape. A mean over the rows has another shape; their number and their order come from
    other operations. ``graph`` is as ``import_for_rows`` returns it. False means that nothing is known.
    """
    with_rows, sizes = set(inputs), set()  # the second: what is computed from shapes of the first
    needed = view.above([output])
    for name, node in view.nodes.items():
        sources = [node_of(tensor) for tensor in node.input]
        of_rows = {place for place, source in enumerate(sources) if source in with_rows}
        of_sizes = {place for place, source in enumerate(sources) if source in sizes}
        if name not in needed or not of_rows | of_sizes:
            continue
        operation = graph.get_operation_by_name(name)
        first = operation.outputs[0]
        if node.op in SHAPES or (not of_rows and not first.dtype.is_floating):
            sizes.add(name)
            continue
        if first.shape.rank is None or first.shape[:1] == [None]:
            return False
        grows = [place for place, size in enumerate(first.shape.as_list()) if size is None or size % ROWS == 0]
        if grows != [0] or not of_sizes <= _SIZES.get(node.op, set()) or not _is_by_row(view, operation, of_rows):
            return False
        with_rows.add(name)
    return output in with_rows and graph.get_operation_by_name(output).outputs[0].shape[0] == ROWS


def _is_by_row(view: GraphView, operation: tf.Operation, of_rows: set[int]) -> bool:
    """Return whether an operation, whose inputs at some places and whose result have rows, computes row by row."""
    kind, entries = operation.type, operation.outputs[0].shape[0]
    if kind != "Reshape" and any(operation.inputs[place].shape[0] != entries for place in of_rows):
        return False
    if kind in NORMALIZATIONS:
        return of_rows == {0} and not operation.get_attr("is_training")
    if kind in (*CONVOLUTIONS, "GatherV2"):  # not with kernels or tables that are computed of the rows
        return len(of_rows) == 1
    if kind == "Einsum":
        terms, result = operation.get_attr("equation").decode().split("->")
        return "." not in result and all(terms.split(",")[place][:1] == result[:1] for place in of_rows)
    if kind == "StridedSlice":  # not from the last row to the first
        steps = view.constant(view.nodes[operation.name].input[3])
        return of_rows == {0} and steps is not None and bool((steps > 0).all())
    return kind in _BY_ROW and (kind not in ("Softmax", "LogSoftmax") or len(operation.outputs[0].shape) > 1)
