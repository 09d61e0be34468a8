"""Replace the loops of LSTM layers by TensorFlow's operation for a whole sequence.

TensorFlow runs a recurrent layer as a ``While`` of small operations, forward and backward. ``BlockLSTMV2`` computes all
steps of an LSTM (Hochreiter and Schmidhuber 1997) at once and has a gradient. A loop is replaced where its body is that
cell, with sigmoid and tanh, the gates in the order i, f, c, o, and no mask. Any other loop stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from attribution.graph.unroll_rnn import LOOPS, Body, UnknownError, value_of, with_declared_sizes
from attribution.graph.view import GraphView, insert_body, node_of

# Kinds of an operation and patterns of its inputs; a text is the name of any tensor.
_STATE = (
    "AddV2",
    ("Mul", ("Sigmoid", "gate 1"), "state"),
    ("Mul", ("Sigmoid", "gate 0"), ("Tanh", "gate 2")),
)
_OUTPUT = ("Mul", ("Sigmoid", "gate 3"), ("Tanh", "new state"))
_SUMS = ("AddV2", "Add", "BiasAdd")
_COMMUTATIVE = ("AddV2", "Mul")
_GRADIENT = "AttributionLSTM"
# Most weights for which the gradient of the whole sequence is the fastest one: it has that of the weights, too.
_SMALL = 2**16
_INPUTS = ("seq_len_max", "x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
_OUTPUTS = ("i", "cs", "f", "o", "ci", "co", "h")


def fuse_lstm(graph: GraphView) -> GraphView:
    """Return a graph with the same scores in which the loops of LSTM layers are single operations.

    Nodes that read a loop's outputs keep their names and values; ``altered`` has the loops. The same graph is returned
    if it has no such loop.
    """
    for name in [name for name, node in graph.nodes.items() if node.op in LOOPS]:
        try:
            graph = _Loop(graph, name).fused()
        except UnknownError:
            continue
    return graph


@tf.RegisterGradient(_GRADIENT)  # type: ignore[untyped-decorator]
def _gradient(operation: Any, *upstream: Any) -> tuple[Any, ...]:
    """Return the gradients of the operation; those that TensorFlow registers assume another order of the gates."""
    inputs = dict(zip(_INPUTS, operation.inputs, strict=True))
    outputs = dict(zip(_OUTPUTS, operation.outputs, strict=True))
    of_state, of_output = upstream[1], upstream[6]
    if inputs["w"].shape.num_elements() <= _SMALL:
        of_outputs = {"cs_grad": of_state, "h_grad": of_output, "use_peephole": False}
        return None, *tf.raw_ops.BlockLSTMGradV2(**inputs, **outputs, **of_outputs)
    return None, *_gradient_by_steps(inputs, outputs, of_state, of_output), None, None, None, None, None


def _gradient_by_steps(inputs: dict[str, Any], outputs: dict[str, Any], of_state: Any, of_output: Any) -> list[Any]:
    """Return the gradients at the input, the first state and the first output, without those at the weights."""
    weights = {name: inputs[name] for name in ("w", "wci", "wcf", "wco", "b")}
    x, output, values = inputs["x"], inputs["h_prev"], [outputs[name] for name in _OUTPUTS[:6]]
    before = tf.concat([inputs["cs_prev"][tf.newaxis], outputs["cs"][:-1]], 0)
    # The gradients of a step's gates are in the order i, c, f, o.
    ordered = tf.concat([tf.split(weights["w"], 4, 1)[number] for number in (0, 2, 1, 3)], 1)
    units = ordered.shape[1] // 4
    of_gates = tf.TensorArray(x.dtype, tf.shape(x)[0], element_shape=(None, 4 * units))

    def step(time: Any, state: Any, output_gradient: Any, found: Any) -> tuple[Any, ...]:
        state, gates, *_ = tf.raw_ops.LSTMBlockCellGrad(
            x=x[time], cs_prev=before[time], h_prev=output, **weights,  # x and h_prev are read for their shapes alone
            **dict(zip(_OUTPUTS, (value[time] for value in values), strict=False)),
            cs_grad=state + of_state[time], h_grad=output_gradient + of_output[time], use_peephole=False,
        )  # fmt: skip
        return time - 1, state, tf.matmul(gates, ordered[-units:], transpose_b=True), found.write(time, gates)

    start = tf.shape(x)[0] - 1, tf.zeros_like(output), tf.zeros_like(output), of_gates
    _, *ends, of_gates = tf.while_loop(lambda time, *_: time >= 0, step, start, parallel_iterations=1)
    of_gates = tf.reshape(of_gates.stack(), (-1, 4 * units))
    return [tf.reshape(tf.matmul(of_gates, ordered[:-units], transpose_b=True), tf.shape(x)), *ends]


class _Loop:
    """A loop, read as an LSTM; ``UnknownError`` where it is not one."""

    def __init__(self, graph: GraphView, name: str) -> None:
        self._graph, self._sized = graph, with_declared_sizes(graph)
        self._loop = graph.nodes[name]
        functions = {function.signature.name: function for function in graph.graph_def.library.function}
        self._body, self._condition = (Body(functions[self._loop.attr[one].func.name]) for one in ("body", "cond"))

    def fused(self) -> GraphView:
        """Return the graph with one operation in place of the loop."""
        item = self._only([node for node in self._body.graph.nodes.values() if node.op == "TensorListSetItem"])
        output, found = self._skip(item.input[2]), {}
        _check(self._matches(_OUTPUT, output, found) and self._matches(_STATE, found["new state"], found))
        gates = self._body.graph.nodes[node_of(found["gate 0"])]
        _check(gates.op == "Split" and gates.attr["num_split"].i == 4)
        _check([found[f"gate {number}"] for number in range(4)] == [gates.name, *(f"{gates.name}:{n}" for n in (1, 2, 3))])
        axis = self._body.graph.constant(gates.input[0])
        _check(axis is not None and int(axis) in (1, -1))
        products, biases = [], []
        for term in self._terms(gates.input[1]):
            node = self._body.graph.nodes[node_of(term)]
            (products if node.op == "MatMul" else biases).append(node)
        _check(len(products) == 2 and len(biases) < 2)
        _check(not any(node.attr[one].b for node in products for one in ("transpose_a", "transpose_b")))
        read = self._only([node for node in self._body.graph.nodes.values() if node.op == "TensorListGetItem"])
        of_input, of_output = sorted(products, key=lambda node: self._skip(node.input[0]) != read.name)
        _check(self._skip(of_input.input[0]) == read.name)

        places = {
            "list": self._place(item.input[0], item.name),
            "output": self._place(of_output.input[0], output),
            "state": self._place(found["state"], found["new state"]),
        }
        source = self._sized.nodes[node_of(self._given(read.input[0]))]
        _check(source.op == "TensorListFromTensor")
        given = [source.input[0], self._loop.input[places["output"]], self._loop.input[places["state"]]]
        given += [self._given(node.input[1]) for node in (of_input, of_output)]
        given += [self._given(node.name) for node in biases]
        self._check_shapes(given)
        _check(self._counts(read.input[1]))
        all_steps = self._skip(item.input[1]) == self._skip(read.input[1])
        reserved = self._sized.nodes[node_of(self._loop.input[places["list"]])]
        _check(reserved.op == "TensorListReserve")
        if all_steps:
            _check(self._is_length(reserved.input[1], source.input[0]))
        else:
            _check(self._body.graph.constant(item.input[1]) == 0 and self._value(reserved.input[1]) == 1)
        _check(all(self._bounds(source.input[0])))
        return self._with_operation(given, list(places.values()), all_steps)

    def _with_operation(self, given: list[str], places: list[int], all_steps: bool) -> GraphView:
        """Return the graph with the operation, on the outer tensors given, that gives the loop's outputs at places."""
        name = self._loop.name
        with tf.Graph().as_default() as body:
            x, output, state, kernel, recurrent, *bias = (
                tf.compat.v1.placeholder(tf.float32, self._sized.shape(tensor), f"argument_{number}")
                for number, tensor in enumerate(given)
            )
            units = int(recurrent.shape[0])
            unused = tf.zeros([units])
            weights = tf.concat([kernel, recurrent], 0), *[unused] * 3, bias[0] if bias else tf.zeros([4 * units])
            inputs = zip(_INPUTS, (tf.shape(x, tf.int64)[0], x, state, output, *weights), strict=True)
            with body.gradient_override_map({"BlockLSTMV2": _GRADIENT}):
                steps = tf.raw_ops.BlockLSTMV2(**dict(inputs))
            ends = steps.h if all_steps else steps.h[-1:], steps.h[-1], steps.cs[-1]
        result = tf.compat.v1.GraphDef()
        result.versions.CopyFrom(self._graph.graph_def.versions)
        result.library.CopyFrom(self._graph.graph_def.library)
        call = tf.compat.v1.NodeDef(name=name, input=given)
        outputs = [(end.name, tf.float32.as_datatype_enum) for end in ends]
        arguments = [f"argument_{number}" for number in range(len(given))]
        renamed = insert_body(result, call, body.as_graph_def().node, arguments, outputs)
        named = {places[0]: name, places[1]: renamed[f"{name}:1"], places[2]: renamed[f"{name}:2"]}
        for node in self._graph.nodes.values():
            if node.name == name:
                continue
            copy = result.node.add()
            copy.CopyFrom(node)
            for number, tensor in enumerate(node.input):
                if node_of(tensor) == name:
                    place = int(tensor.partition(":")[2] or 0)
                    _check(place in named and (place != places[0]) == (node.op != "TensorListStack"))
                    copy.input[number] = named[place]
            if node.op == "TensorListStack" and copy.input[0] == name:
                del copy.input[1:]
                copy.op = "Identity"
                copy.attr.clear()
                copy.attr["T"].type = tf.float32.as_datatype_enum
        return GraphView(result, self._graph.weights, self._graph.altered | {name})

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

    def _terms(self, tensor: str) -> Iterator[str]:
        """Yield the terms of a sum in the body."""
        tensor = self._skip(tensor)
        node = self._body.graph.nodes[node_of(tensor)]
        if node.op in _SUMS:
            for term in node.input:
                yield from self._terms(term)
        else:
            yield tensor

    def _bounds(self, x: str) -> Iterator[bool]:
        """Yield, of each comparison by which the loop continues, whether it is that of a step with the length of x."""
        stack = [self._condition.results[0]]
        while stack:
            node = self._condition.graph.nodes[node_of(self._condition.graph.skip_identities(stack.pop()))]
            if node.op == "LogicalAnd":
                stack.extend(node.input)
                continue
            _check(node.op == "Less")
            counter, bound = (self._condition.graph.skip_identities(tensor) for tensor in node.input)
            _check(node_of(counter) in self._condition.arguments)
            yield self._counts(self._body.arguments[self._condition.arguments.index(node_of(counter))])
            known = self._condition.graph.constant(bound)
            if known is not None:
                yield bool(known == self._sized.shape(x)[0])
            else:
                _check(node_of(bound) in self._condition.arguments)
                argument = self._body.arguments[self._condition.arguments.index(node_of(bound))]
                yield self._is_length(self._given(argument), x)

    def _counts(self, tensor: str) -> bool:
        """Return whether a tensor of the body is 0 in the first step and one more in each further one."""
        argument = self._skip(tensor)
        if argument not in self._body.arguments:
            return False
        place = self._body.arguments.index(argument)
        following = self._body.graph.nodes[node_of(self._skip(self._body.results[place]))]
        terms = [self._skip(term) for term in following.input]
        steps = [self._body.graph.constant(term) for term in terms if term != argument]
        return following.op == "AddV2" and argument in terms and steps == [1] and self._value(self._loop.input[place]) == 0

    def _is_length(self, tensor: str, x: str) -> bool:
        """Return whether a tensor outside the loop is the number of steps in x."""
        steps = self._sized.shape(x)[0]
        if steps is not None:
            return bool(self._value(tensor) == steps)
        part = self._sized.nodes[node_of(self._sized.skip_identities(tensor))]
        shape = self._sized.nodes[node_of(part.input[0])] if part.op == "StridedSlice" else part
        return (
            shape.op == "Shape"
            and self._sized.skip_identities(shape.input[0]) == self._sized.skip_identities(x)
            and part.attr["shrink_axis_mask"].i == 1
            and self._value(part.input[1]) == 0
        )

    def _check_shapes(self, given: list[str]) -> None:
        """Raise ``UnknownError`` unless the tensors outside the loop are an LSTM's in single precision."""
        x, output, state, kernel, recurrent, *bias = map(self._sized.shape, given)
        units = recurrent[0] if recurrent.rank == 2 else None
        _check(units is not None and x.rank == 3 and output.rank == state.rank == 2)
        _check(recurrent == (units, 4 * units) and kernel.rank == 2 and kernel[1] == 4 * units)
        _check(all(one == (4 * units,) for one in bias))
        _check(all(self._sized.dtype(tensor) == tf.float32 for tensor in given))

    def _skip(self, tensor: str) -> str:
        """Return the tensor of the body that reaches this one unchanged."""
        return self._body.graph.skip_identities(tensor).removesuffix(":0")

    def _place(self, argument: str, result: str) -> int:
        """Return the place of an argument of the body, in which the next step has this result."""
        argument = self._skip(argument)
        _check(argument in self._body.arguments)
        place = self._body.arguments.index(argument)
        _check(self._skip(self._body.results[place]) == result)
        return place

    def _given(self, tensor: str) -> str:
        """Return the tensor outside the loop of one in the body that is the same in all steps."""
        argument = self._skip(tensor)
        return str(self._loop.input[self._place(argument, argument)])

    def _value(self, tensor: str) -> Any:
        return value_of(self._sized.graph_def, tensor)

    def _only(self, nodes: list[Any]) -> Any:
        _check(len(nodes) == 1)
        return nodes[0]


def _check(condition: bool) -> None:
    if not condition:
        raise UnknownError("that is not an LSTM's")
