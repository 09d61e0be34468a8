"""Unroll the loops of recurrent layers, so that rules of single operations apply to them.

A recurrent layer is a ``While`` over time that reads from one tensor list and writes to another. Where the number of
steps is in the file, as a constant or as the declared size of an axis, the graph returned has its body once for each
step and no lists. Any other loop stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph import _tf_internals
from attribution.graph.view import GraphView, node_of, pure_subgraph

LOOPS = ("While", "StatelessWhile")
OPEN = (
    "whose number of steps is not in the file; export the model for a fixed number of steps, or its recurrent layers "
    "with unroll=True"
)
_MOST_STEPS = 2000  # a longer loop is not a recurrent layer over one input
_LISTS = "whose lists of tensors are not read and written one item a step"


def unroll_loops(graph: GraphView, source: str, target: str) -> GraphView:
    """Return a graph with the same scores without loops between two nodes, as far as their length is known.

    Parameters
    ----------
    graph
        A frozen graph.
    source, target
        Node names of the explained input and of the scores.

    Returns
    -------
    GraphView
        The same object if there is nothing to unroll.
    """
    known = set()
    while True:
        loop = next((n for n in graph.between(source, target) if graph.nodes[n].op in LOOPS and n not in known), None)
        if loop is None:
            return graph
        known.add(loop)
        with contextlib.suppress(UnknownError):
            graph = _Unrolling(graph, loop).run()


def why_kept(graph: GraphView, path: Sequence[str]) -> str:
    """Return why the first loop among some nodes cannot be unrolled; empty where there is none.

    Parameters
    ----------
    graph
        What ``unroll_loops`` returned.
    path
        Names of nodes, first to last.
    """
    for name in path:
        if graph.nodes[name].op in LOOPS:
            try:
                _Unrolling(graph, name).run()
            except UnknownError as error:
                return f"of a loop {error}"
    return ""


class _Unrolling:
    """The new graph: nodes copied so far, and the replacement of each tensor and each list of the old graph."""

    def __init__(self, graph: GraphView, loop: str) -> None:
        self.graph = graph = with_declared_sizes(graph)
        self.loop = loop
        self.nodes = tf.compat.v1.GraphDef()
        self.nodes.versions.CopyFrom(graph.graph_def.versions)
        self.nodes.library.CopyFrom(graph.graph_def.library)
        self.made: dict[str, Any] = {}  # node name -> node
        # tensor name -> names of its items, or the name of the tensor that it was made from
        self.lists: dict[str, Any] = {}
        self.unpacked: dict[str, list[str]] = {}  # tensor -> its parts along the first axis

    def run(self) -> GraphView:
        """Return the graph without the loop; ``UnknownError`` if its length or its lists are not known."""
        renamed = {}
        for name, node in self.graph.nodes.items():
            if name == self.loop:
                for number, tensor in enumerate(self._unroll(node)):
                    renamed[f"{name}:{number}" if number else name] = tensor
            else:
                self._copy(node, name, [renamed.get(tensor, tensor) for tensor in node.input])
        return GraphView(pure_subgraph(self.nodes, self._outputs(), self._inputs()), self.graph.weights)

    def _outputs(self) -> list[str]:
        """Return the nodes that nothing uses, lists aside; the scores are among them."""
        return [name for name in self.graph.nodes if not self.graph.consumers[name] and name in self.made]

    def _inputs(self) -> list[str]:
        return [name for name, node in self.graph.nodes.items() if node.op == "Placeholder"]

    def _unroll(self, loop: Any) -> list[str]:
        functions = {function.signature.name: function for function in self.graph.graph_def.library.function}
        body = Body(functions[loop.attr["body"].func.name])
        condition = Body(functions[loop.attr["cond"].func.name])
        state = list(loop.input)
        counters = self._counters(body, state)
        for step in range(_MOST_STEPS + 1):
            if not condition.evaluate(counters, [0])[0]:
                return state
            following = body.evaluate(counters, sorted(counters))
            state = self._step(body, f"{loop.name}/step_{step}", state, counters)
            counters = dict(zip(sorted(counters), following, strict=True))
        raise UnknownError(f"of more than {_MOST_STEPS} steps")

    def _counters(self, body: Body, state: Sequence[str]) -> dict[int, np.ndarray]:
        """Return the whole numbers among a loop's values that follow from themselves alone, by their place."""
        known = {}
        for place, (tensor, dtype) in enumerate(zip(state, body.types, strict=True)):
            if dtype.is_integer or dtype.is_bool:
                value = self._value(tensor)
                if value is not None:
                    known[place] = value
        while True:
            kept = {place: value for place, value in known.items() if body.needs(place) <= set(known)}
            if len(kept) == len(known):
                return kept
            known = kept

    def _step(self, body: Body, prefix: str, state: Sequence[str], counters: Mapping[int, np.ndarray]) -> list[str]:
        """Copy a loop's body once; return the names of what it gives."""
        given: dict[str, str] = dict(zip(body.arguments, state, strict=True))
        for place, value in counters.items():
            given[body.arguments[place]] = f"{prefix}/counter_{place}"
            self._put(_constant(given[body.arguments[place]], value))

        def outside(tensor: str) -> str:
            name, _, number = tensor.partition(":")
            tensor = name if number in ("", "0") else tensor
            return given.get(name) or f"{prefix}/{tensor}"

        for name, node in body.graph.nodes.items():
            if name not in given:
                self._copy(node, f"{prefix}/{name}", [outside(tensor) for tensor in node.input])
        return [outside(tensor) for tensor in body.results]

    def _copy(self, node: Any, name: str, inputs: list[str]) -> None:
        """Copy a node, or what it does to a list."""
        inputs = [tensor[:-2] if tensor.endswith(":0") else tensor for tensor in inputs]
        if node.op == "TensorListReserve" and (size := self._value(inputs[1])) is not None:
            self.lists[name] = [None] * int(size)  # otherwise of a later loop, over what this one gives
        elif node.op == "TensorListFromTensor":
            self.lists[name] = inputs[0]
        elif node.op == "TensorListSetItem":
            self.lists[name] = self._with_item(node, *inputs)
        elif node.op == "TensorListGetItem":
            dtype = node.attr["element_dtype"].type
            self._identity(name, self._item(inputs[0], int(self._known(inputs[1])), dtype), dtype)
        elif node.op == "TensorListStack" and inputs[0] in self.lists:
            self._stack(name, inputs[0], node.attr["element_dtype"].type)
        elif node.op == "Identity" and inputs[0] in self.lists:
            self.lists[name] = self.lists[inputs[0]]
        elif node.op not in LOOPS and any(tensor in self.lists for tensor in inputs):
            raise UnknownError(_LISTS)
        else:
            self._copy_as_it_is(node, name, inputs)
        if name in self.lists and all(node_of(tensor) in self.made for tensor in inputs):
            self._copy_as_it_is(node, name, inputs)  # for other loops

    def _copy_as_it_is(self, node: Any, name: str, inputs: list[str]) -> None:
        if any(tensor in self.lists and tensor not in self.made for tensor in inputs):
            raise UnknownError(_LISTS)  # another loop goes on with a list of this one
        copy = tf.compat.v1.NodeDef()
        copy.CopyFrom(node)
        copy.name = name
        del copy.input[:]
        copy.input.extend(inputs)
        self._put(copy)

    def _put(self, node: Any) -> None:
        self.made[node.name] = self.nodes.node.add()
        self.made[node.name].CopyFrom(node)

    def _identity(self, name: str, tensor: str, dtype: int) -> None:
        node = tf.compat.v1.NodeDef(name=name, op="Identity", input=[tensor])
        node.attr["T"].type = dtype
        self._put(node)

    def _items(self, handle: str) -> list[str | None]:
        items = self.lists.get(handle)
        if not isinstance(items, list):
            made = self.made.get(node_of(handle))
            raise UnknownError(OPEN if made is not None and made.op == "TensorListReserve" else _LISTS)
        return items

    def _with_item(self, node: Any, handle: str, place: str, value: str) -> list[str | None]:
        items, index = list(self._items(handle)), int(self._known(place))
        if node.attr["resize_if_index_out_of_bounds"].b:
            items += [None] * (index + 1 - len(items))
        if not 0 <= index < len(items):
            raise UnknownError(_LISTS)
        items[index] = value
        return items

    def _item(self, handle: str, index: int, dtype: int) -> str:
        items = self.lists.get(handle)
        if isinstance(items, list):
            if not 0 <= index < len(items) or items[index] is None:
                raise UnknownError(_LISTS)
            return str(items[index])
        if items is None:
            raise UnknownError(_LISTS)
        if items not in self.unpacked:
            self.unpacked[items] = self._unpack(items, f"{self.loop}/{node_of(handle)}/unpacked", dtype)
        if not 0 <= index < len(self.unpacked[items]):
            raise UnknownError(_LISTS)
        return self.unpacked[items][index]

    def _unpack(self, tensor: str, name: str, dtype: int) -> list[str]:
        """Split a tensor along its first axis, which is time."""
        shape = self.graph.shape(node_of(tensor)) if node_of(tensor) in self.graph.nodes else None
        if not shape or shape[0] is None or ":" in tensor:
            raise UnknownError(OPEN)
        node = tf.compat.v1.NodeDef(name=name, op="Unpack", input=[tensor])
        node.attr["num"].i, node.attr["axis"].i = shape[0], 0
        node.attr["T"].type = dtype
        self._put(node)
        return [f"{node.name}:{number}" if number else node.name for number in range(shape[0])]

    def _stack(self, name: str, handle: str, dtype: int) -> None:
        items = self.lists.get(handle)
        if isinstance(items, str):
            self._identity(name, items, dtype)
            return
        if not items or None in items:
            raise UnknownError(_LISTS)
        node = tf.compat.v1.NodeDef(name=name, op="Pack", input=items)
        node.attr["N"].i, node.attr["axis"].i, node.attr["T"].type = len(items), 0, dtype
        self._put(node)

    def _known(self, tensor: str) -> np.ndarray:
        value = self._value(tensor)
        if value is None:
            raise UnknownError(OPEN)
        return value

    def _value(self, tensor: str) -> np.ndarray | None:
        """Return the value of a tensor that depends on no input, or ``None``."""
        node = self.made.get(node_of(tensor))
        if node is not None and node.op == "Const":
            return np.asarray(tf.make_ndarray(node.attr["value"].tensor))
        return None if node is None else value_of(self.nodes, tensor)


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
                node.CopyFrom(_constant(node.name, found.astype(graph.dtype(node.name).as_numpy_dtype)))
                changed = True
            elif node.op == "Reshape" and graph.constant(node.input[1]) is None:
                shape = sizes.of(node.input[1])
                if shape is not None and list(shape.flat).count(None) == 1:
                    one_open = np.array([-1 if size is None else size for size in shape], np.int32)
                    graph_def.node.append(_constant(f"{node.name}/declared_shape", one_open))
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


def _constant(name: str, value: np.ndarray) -> tf.compat.v1.NodeDef:
    node = tf.compat.v1.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return node


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
