"""Loops of a frozen graph: their functions, and what is known of their values before they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph import _tf_internals
from attribution.graph.view import GraphView, constant, node_of, pure_subgraph

LOOPS = ("While", "StatelessWhile")
OPEN = (
    "whose number of steps is not in the file; export the model for a fixed number of steps, or its recurrent layers "
    "with unroll=True"
)


class Body:
    """A function of a loop: its arguments and results, and what the whole numbers among them come to."""

    def __init__(self, function: Any) -> None:
        graph_def, flat = _tf_internals.function_body(function)
        self.arguments = [argument.name for argument in function.signature.input_arg]
        self.types = [tf.as_dtype(argument.type) for argument in function.signature.input_arg]
        self.results = [flat[function.ret[output.name]] for output in function.signature.output_arg]
        self.graph = with_declared_sizes(GraphView(pure_subgraph(graph_def, self.results, keep=self.arguments)))
        self._functions: dict[Any, Callable[[Iterable[np.ndarray]], list[np.ndarray]]] = {}

    def needs(self, place: int) -> set[int]:
        """Return the places of the arguments that a result depends on."""
        above = self.graph.above([node_of(self.results[place])])
        return {number for number, name in enumerate(self.arguments) if name in above}

    def evaluate(self, arguments: Mapping[int, np.ndarray], places: Sequence[int]) -> list[np.ndarray]:
        """Return results from the arguments at some places."""
        key = tuple(arguments), tuple(places)
        if key not in self._functions:  # one session for all steps
            if not all(self.needs(place) <= set(arguments) for place in places):
                raise UnknownError(OPEN)
            wanted = [self.results[place] for place in places]
            given = [self.arguments[place] for place in arguments]
            self._functions[key] = _function(pure_subgraph(self.graph.graph_def, wanted), given, wanted)
        return self._functions[key](arguments.values())


class UnknownError(Exception):
    """A loop is not of the kind that can be unrolled; the text says why."""


def value_of(graph_def: tf.compat.v1.GraphDef, tensor: str) -> np.ndarray | None:
    """Return the value of a tensor that depends on no input and no weight, or ``None``."""
    alone = pure_subgraph(graph_def, [tensor])
    if any(one.op in ("Placeholder", *LOOPS) for one in alone.node):
        return None
    return _function(alone, [], [tensor])([])[0]


def with_declared_sizes(graph: GraphView) -> GraphView:
    """Return a graph in which nodes that read axes of declared size from a shape are constants.

    A Reshape to such sizes and one open axis, as Keras computes a dense layer over time, has them as its shape. That
    gives further nodes sizes, so that all are read again until nothing changes.
    """
    while True:
        sizes = _Sizes(graph)
        graph_def = tf.compat.v1.GraphDef()
        graph_def.CopyFrom(graph.graph_def)
        changed = False
        for node in list(graph_def.node):
            found = sizes.of(node.name) if node.op in _SIZES else None
            if found is not None and None not in found.flat:
                node.CopyFrom(constant(node.name, found.astype(graph.dtype(node.name).as_numpy_dtype)))
                changed = True
            elif node.op == "Reshape" and graph.constant(node.input[1]) is None:
                shape = sizes.of(node.input[1])
                if shape is not None and list(shape.flat).count(None) == 1:
                    one_open = np.array([-1 if size is None else size for size in shape], np.int32)
                    graph_def.node.append(constant(f"{node.name}/declared_shape", one_open))
                    node.input[1], node.attr["Tshape"].type = f"{node.name}/declared_shape", tf.int32.as_datatype_enum
                    changed = True
        if not changed:
            return graph
        graph = GraphView(graph_def, graph.weights)


# Operations that read sizes from a shape and put them together.
_SIZES = ("Shape", "StridedSlice", "GatherV2", "ConcatV2", "Pack", "Prod")


class _Sizes:
    """The sizes that a graph computes with, ``None`` for those that the file leaves open."""

    def __init__(self, graph: GraphView) -> None:
        self.graph = graph

    def of(self, tensor: str) -> np.ndarray | None:
        """Return a tensor's sizes as an array of objects; ``None`` for what is not computed from shapes."""
        node = self.graph.nodes[node_of(self.graph.skip_identities(tensor))]
        if node.op == "Const":
            value = tf.make_ndarray(node.attr["value"].tensor)
            return value.astype(object) if np.issubdtype(value.dtype, np.integer) and value.ndim < 2 else None
        if node.op == "Shape":
            shape = self.graph.shape(node.input[0])
            return None if shape.rank is None else np.array(shape.as_list(), object)
        if node.op not in _SIZES:
            return None
        if node.op in ("ConcatV2", "Pack"):
            parts = [self.of(each) for each in (node.input[:-1] if node.op == "ConcatV2" else node.input)]
            known = [part for part in parts if part is not None and part.ndim == (node.op == "ConcatV2")]
            return np.concatenate([np.atleast_1d(part) for part in known]) if len(known) == len(parts) else None
        sizes, others = self.of(node.input[0]), [self.graph.constant(each) for each in node.input[1:]]
        if sizes is None or sizes.ndim != 1:
            return None
        if node.op == "StridedSlice":
            part = _sliced(node, *others)
            return None if part is None else np.array(sizes[part], object)
        if others[0] is None:
            return None
        if node.op == "GatherV2":
            return np.array(sizes[others[0]], object)
        return np.array(None if None in sizes else np.prod(sizes), object)  # Prod, over its only axis


def _sliced(node: Any, begin: np.ndarray | None, end: np.ndarray | None, step: np.ndarray | None) -> slice | int | None:
    """Return the place or the slice that a StridedSlice reads of a vector, or ``None`` where it is not constant."""
    masks = node.attr["new_axis_mask"].i | node.attr["ellipsis_mask"].i
    if begin is None or end is None or step is None or len(begin) != 1 or masks:
        return None
    if node.attr["shrink_axis_mask"].i:
        return int(begin[0])
    first = None if node.attr["begin_mask"].i else int(begin[0])
    return slice(first, None if node.attr["end_mask"].i else int(end[0]), int(step[0]))


def called(graph: GraphView, node: Any) -> Body:
    """Return the function of a step that a node calls."""
    name = node.attr["f"].func.name
    return Body(next(one for one in graph.graph_def.library.function if one.signature.name == name))


def _function(
    graph_def: tf.compat.v1.GraphDef, given: Sequence[str], tensors: Sequence[str]
) -> Callable[[Iterable[np.ndarray]], list[np.ndarray]]:
    """Return the function from the values of some nodes to those of tensors of a small graph."""
    present = {node.name for node in graph_def.node}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    session = tf.compat.v1.Session(graph=graph)
    names = [tensor if ":" in tensor else f"{tensor}:0" for tensor in tensors]
    run = session.make_callable(names, feed_list=[f"{name}:0" for name in given if name in present])
    return lambda values: run(*(value for name, value in zip(given, values, strict=True) if name in present))
