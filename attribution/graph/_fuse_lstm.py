"""Replace the loops of LSTM layers by TensorFlow's operation for a whole sequence.

TensorFlow runs a recurrent layer as a ``While`` of small operations, forward and backward. ``BlockLSTM`` computes all
steps of an LSTM (Hochreiter and Schmidhuber 1997) at once and has a gradient. A loop is replaced where its body is that
cell, with sigmoid and tanh, the gates in the order i, f, c, o, and no mask. Any other loop stays, and large ones.
"""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from attribution.graph._loops import LOOPS, Body, UnknownError, value_of, with_declared_sizes
from attribution.graph.view import GraphView, insert_body, node_of, without_nodes

# An operation and patterns of its inputs; a text is the name of any tensor.
_READ = ("TensorListGetItem", "sequence", "time", "shape of an item")
_SUM = ("AddV2", ("MatMul", _READ, "kernel"), ("MatMul", "hidden", "recurrent kernel"))
_GATES = ("Split", "axis", ("BiasAdd", _SUM, "bias")), ("Split", "axis", _SUM)
_STATE = (
    "AddV2",
    ("Mul", ("Sigmoid", "gate 1"), "state"),
    ("Mul", ("Sigmoid", "gate 0"), ("Tanh", "gate 2")),
)
_OUTPUT = ("Mul", ("Sigmoid", "gate 3"), ("Tanh", "new state"))
_WRITE = ("TensorListSetItem", "list", "written", "new hidden")
_COMMUTATIVE = ("AddV2", "Mul")
# Most weights for which the operation is faster than the loop: its gradient computes that of the weights, too.
_SMALL = 2**16


def fuse_lstm(graph: GraphView) -> GraphView:
    """Return a graph with the same scores in which the loops of LSTM layers are single operations.

    Nodes that read a loop's outputs keep their names and values; ``altered`` has the loops. The same graph is returned
    if it has no such loop.
    """
    for name in [name for name, node in graph.nodes.items() if node.op in LOOPS]:
        with contextlib.suppress(UnknownError):
            graph = _Loop(graph, name).fused()
    return graph


class _Loop:
    """A loop, read as an LSTM; ``UnknownError`` where it is not one."""

    def __init__(self, graph: GraphView, name: str) -> None:
        self._graph, self._sized = graph, with_declared_sizes(graph)
        self._loop = graph.nodes[name]
        functions = {function.signature.name: function for function in graph.graph_def.library.function}
        self._body, self._condition = (Body(functions[self._loop.attr[one].func.name]) for one in ("body", "cond"))
        self._found: dict[str, str] = {}

    def fused(self) -> GraphView:
        """Return the graph with one operation in place of the loop."""
        self._read_cell()
        found = self._found
        places = [
            self._place(found["list"], found["new list"]),
            self._place(found["hidden"], found["new hidden"]),
            self._place(found["state"], found["new state"]),
        ]
        source, reserved = (
            self._sized.nodes[node_of(tensor)]
            for tensor in (self._given(found["sequence"]), self._loop.input[places[0]])
        )
        _check(source.op == "TensorListFromTensor" and reserved.op == "TensorListReserve")
        given = [source.input[0], self._loop.input[places[1]], self._loop.input[places[2]]]
        given += [self._given(found[name]) for name in ("kernel", "recurrent kernel", "bias") if name in found]
        self._check_given(given)
        all_steps = found["written"] == found["time"]
        if all_steps:
            _check(self._is_length(reserved.input[1], given[0]))
        else:
            _check(self._body.graph.constant(found["written"]) == 0 and self._value(reserved.input[1]) == 1)
        _check(self._counts(found["time"]) and self._runs_through(given[0], self._condition.results[0]))
        return self._with_operation(given, places, all_steps)

    def _read_cell(self) -> None:
        """Find the tensors of the body by name, of which one step is the cell."""
        nodes, found = self._body.graph.nodes, self._found
        writes = [name for name, node in nodes.items() if node.op == "TensorListSetItem"]
        _check(len(writes) == 1)
        found["new list"] = writes[0]
        _check(self._matches(_WRITE, writes[0], found))
        _check(self._matches(_OUTPUT, found["new hidden"], found) and self._matches(_STATE, found["new state"], found))
        split = node_of(found["gate 0"])
        _check([found[f"gate {number}"] for number in range(4)] == [split, *(f"{split}:{one}" for one in (1, 2, 3))])
        _check(any(self._matches(pattern, split, found) for pattern in _GATES))
        _check(self._body.graph.constant(found["axis"]) in (1, -1) and nodes[split].attr["num_split"].i == 4)
        _check(not any(node.attr[side].b for node in nodes.values() for side in ("transpose_a", "transpose_b")))

    def _matches(self, pattern: Any, tensor: str, found: dict[str, str]) -> bool:
        """Return whether a tensor of the body has a pattern; ``found`` receives the names in it."""
        tensor = self._skip(tensor)
        if isinstance(pattern, str):
            return found.setdefault(pattern, tensor) == tensor
        node = self._body.graph.nodes[node_of(tensor)]
        if node.op != pattern[0]:
            return False
        for inputs in [node.input, node.input[::-1]][: 2 if node.op in _COMMUTATIVE else 1]:
            trial = dict(found)
            if all(map(self._matches, pattern[1:], inputs, [trial] * len(inputs))):
                found.update(trial)
                return True
        return False

    def _with_operation(self, given: list[str], places: list[int], all_steps: bool) -> GraphView:
        """Return the graph with the operation, on the outer tensors given, that gives the loop's outputs at places."""
        name = self._loop.name
        body, ends = _operation([self._sized.shape(tensor) for tensor in given], all_steps)
        result = without_nodes(self._graph.graph_def, [name])
        call = tf.compat.v1.NodeDef(name=name, input=given)
        arguments = [f"argument_{number}" for number in range(len(given))]
        renamed = insert_body(result, call, body.node, arguments, [(end, tf.float32.as_datatype_enum) for end in ends])
        named = dict(zip(places, (name, *renamed.values()), strict=True))
        for node in result.node:
            for number, tensor in enumerate(node.input if node.name in self._graph.nodes else ()):
                if node_of(tensor) == name and node.name != name:
                    self._replace_input(node, number, named, places[0])
        return GraphView(result, self._graph.weights, self._graph.altered | {name})

    def _replace_input(self, node: Any, number: int, named: dict[int, str], of_list: int) -> None:
        """Let a node read a new output instead of the loop's; a stack of the list becomes what it stacks."""
        place = int(node.input[number].partition(":")[2] or 0)
        _check(place in named and (place == of_list) == (node.op == "TensorListStack"))
        node.input[number] = named[place]
        if place == of_list:
            del node.input[1:]
            node.op = "Identity"
            node.attr.clear()
            node.attr["T"].type = tf.float32.as_datatype_enum

    def _runs_through(self, x: str, tensor: str) -> bool:
        """Return whether a tensor of the condition is that counters are below the length of x, and nothing else."""
        condition = self._condition.graph
        node = condition.nodes[node_of(condition.skip_identities(tensor))]
        if node.op == "LogicalAnd":
            return all(self._runs_through(x, one) for one in node.input)
        if node.op != "Less":
            return False
        counter, bound = map(condition.skip_identities, node.input)
        return self._counts(self._in_body(counter)) and self._is_bound(bound, x)

    def _is_bound(self, bound: str, x: str) -> bool:
        known = self._condition.graph.constant(bound)
        if known is not None:
            return bool(known == self._sized.shape(x)[0])
        return self._is_length(self._given(self._in_body(bound)), x)

    def _in_body(self, argument: str) -> str:
        """Return the body's argument in the place of one of the condition."""
        _check(node_of(argument) in self._condition.arguments)
        return str(self._body.arguments[self._condition.arguments.index(node_of(argument))])

    def _counts(self, argument: str) -> bool:
        """Return whether an argument of the body is 0 in the first step and one more in each further one."""
        _check(argument in self._body.arguments)
        place = self._body.arguments.index(argument)
        found = {"counter": argument}
        counts = self._matches(("AddV2", "counter", "one"), self._body.results[place], found)
        one = self._body.graph.constant(found["one"]) if counts else None
        return bool(one == 1 and self._value(self._loop.input[place]) == 0)

    def _is_length(self, tensor: str, x: str) -> bool:
        """Return whether a tensor outside the loop is the number of steps in x."""
        steps = self._sized.shape(x)[0]
        if steps is not None:
            return bool(self._value(tensor) == steps)
        part = self._sized.nodes[node_of(self._sized.skip_identities(tensor))]
        _check(part.op == "StridedSlice" and part.attr["shrink_axis_mask"].i == 1)
        shape = self._sized.nodes[node_of(part.input[0])]
        same = shape.op == "Shape" and self._sized.skip_identities(shape.input[0]) == self._sized.skip_identities(x)
        return bool(same and self._value(part.input[1]) == 0)

    def _check_given(self, given: list[str]) -> None:
        """Raise ``UnknownError`` unless the tensors outside the loop are an LSTM's in single precision."""
        x, hidden, state, kernel, recurrent, *bias = map(self._sized.shape, given)
        _check(x.rank == 3 and [one.rank for one in (hidden, state, kernel, recurrent)] == [2] * 4)
        _check({hidden[0], state[0]} <= {x[1], None})  # one state for all inputs is not broadcast
        _check({kernel[1], *(one[0] for one in bias)} == {recurrent[1]} and recurrent[1] == 4 * (recurrent[0] or 0))
        _check((kernel[0] or _SMALL) * kernel[1] + recurrent.num_elements() <= _SMALL)
        _check(all(self._sized.dtype(tensor) == tf.float32 for tensor in given))

    def _skip(self, tensor: str) -> str:
        """Return the tensor of the body that reaches this one unchanged."""
        return self._body.graph.skip_identities(tensor).removesuffix(":0")

    def _place(self, argument: str, result: str) -> int:
        """Return the place of an argument of the body, in which the next step has this result."""
        _check(argument in self._body.arguments)
        place = self._body.arguments.index(argument)
        _check(self._skip(self._body.results[place]) == result)
        return place

    def _given(self, argument: str) -> str:
        """Return the tensor outside the loop of an argument of the body that is the same in all steps."""
        return str(self._loop.input[self._place(argument, argument)])

    def _value(self, tensor: str) -> Any:
        return value_of(self._sized.graph_def, tensor)


def _operation(shapes: list[tf.TensorShape], all_steps: bool) -> tuple[tf.compat.v1.GraphDef, list[str]]:
    """Return a graph of the operation on ``argument_0``, ... and its outputs: the list's items, both last states."""
    with tf.Graph().as_default() as graph:
        x, hidden, state, kernel, recurrent, *bias = (
            tf.compat.v1.placeholder(tf.float32, shape, f"argument_{number}") for number, shape in enumerate(shapes)
        )
        units = int(recurrent.shape[0])
        unused = tf.zeros([units])
        # The gates of BlockLSTM are i, c, f, o. TensorFlow's gradient of BlockLSTMV2 assumes that order, too, wrongly.
        weights, *bias = (
            tf.concat([tf.split(one, 4, -1)[number] for number in (0, 2, 1, 3)], -1)
            for one in (tf.concat([kernel, recurrent], 0), *bias)
        )
        steps = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.shape(x, tf.int64)[0], x=x, cs_prev=state, h_prev=hidden, w=weights, wci=unused, wcf=unused,
            wco=unused, b=bias[0] if bias else tf.zeros([4 * units]), forget_bias=0, cell_clip=0,
        )  # fmt: skip
        ends = steps.h if all_steps else steps.h[-1:], steps.h[-1], steps.cs[-1]
    return graph.as_graph_def(), [end.name for end in ends]


def _check(condition: bool) -> None:
    if not condition:
        raise UnknownError("that is not an LSTM's")
