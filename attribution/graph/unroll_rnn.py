"""Unroll the loops of recurrent layers, so that rules of single operations apply to them.

A recurrent layer is a ``While`` over time that reads from one tensor list and writes to another. Where the number of
steps is in the file, as a constant or as the declared size of an axis, the graph
returned has its body once for each step and no lists. Any other loop stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph._loops import LOOPS, OPEN, Body, UnknownError, value_of, with_declared_sizes
from attribution.graph.view import CALLS, GraphView, constant, node_of, pure_subgraph, set_placeholder

_MOST_STEPS = 2000  # a longer loop is not a recurrent layer over one input
_JOINED = "whose steps are not alike"
_LONG = f"of more than {_MOST_STEPS} steps"
_LISTS = "whose lists of tensors are not read and written one item a step"


_STEPS: dict[Any, Any] = {}  # functions of steps by what they compute; a graph finds them by name as long as they live
# Operations that may use a tensor which enters a step: rules do not join them with what is before the step.
_ENTRIES = ("MatMul", "Mul", "Select", "SelectV2")
# Operations that may give a state to the next step: no rule depends on which of them a factor or a sum comes from.
_STATES = ("Add", "AddV2", "BiasAdd", "Mul", "Relu", "Select", "SelectV2", "Tanh")


def unroll_loops(graph: GraphView, source: str, target: str, calls: bool = False) -> GraphView:
    """Return a graph with the same scores without loops between two nodes, as far as their length is known.

    It is the same object if there is nothing to unroll. With ``calls`` each step may be a call of one function
    (``Body``), which is then traced once for all steps.
    """
    known = set()
    while True:
        loop = next((n for n in graph.between(source, target) if graph.nodes[n].op in LOOPS and n not in known), None)
        if loop is None:
            return graph
        known.add(loop)
        for as_calls in (True, False) if calls else (False,):
            with contextlib.suppress(UnknownError):
                graph = _Unrolling(graph, loop, as_calls).run()
                break


def why_kept(graph: GraphView, path: Sequence[str]) -> str:
    """Return why the first loop on a path through what ``unroll_loops`` returned is kept; empty where there is none."""
    for name in path:
        if graph.nodes[name].op in LOOPS:
            try:
                _Unrolling(graph, name).run()
            except UnknownError as error:
                return f"of a loop {error}"
    return ""


class _Unrolling:
    """The new graph: nodes copied so far, and the replacement of each tensor and each list of the old graph."""

    def __init__(self, graph: GraphView, loop: str, calls: bool = False) -> None:
        self.calls = calls
        self.graph = graph = with_declared_sizes(graph)
        self.loop = loop
        self.nodes = tf.compat.v1.GraphDef()
        self.nodes.versions.CopyFrom(graph.graph_def.versions)
        self.nodes.library.CopyFrom(graph.graph_def.library)
        self.made: dict[str, Any] = {}  # node name -> node
        # Tensor name to the names of its items, or to the name of the tensor that it was made from.
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
        steps = _Step(self, body, loop, counters) if self.calls else None
        for step in range(_MOST_STEPS + 1):
            if not condition.evaluate(counters, [0])[0]:
                return state
            following = body.evaluate(counters, sorted(counters))
            state = self._step(body, f"{loop.name}/step_{step}", state, counters, steps)
            counters = dict(zip(sorted(counters), following, strict=True))
        raise UnknownError(_LONG)

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

    def _step(
        self, body: Body, prefix: str, state: Sequence[str], counters: Mapping[int, np.ndarray], step: _Step | None
    ) -> list[str]:
        """Copy a loop's body once, or call the function of a step; return the names of what it gives."""
        given: dict[str, str] = dict(zip(body.arguments, state, strict=True))
        for place, value in counters.items():
            given[body.arguments[place]] = f"{prefix}/counter_{place}"
            self._put(constant(given[body.arguments[place]], value))
        called: dict[str, str] = {}

        def outside(tensor: str) -> str:
            name, _, number = tensor.partition(":")
            tensor = name if number in ("", "0") else tensor
            return called.get(tensor) or given.get(name) or f"{prefix}/{tensor}"

        def copy(names: Iterable[str]) -> None:
            for name in names:
                node = body.graph.nodes[name]
                self._copy(node, f"{prefix}/{name}", [outside(tensor) for tensor in node.input])

        if step is None:
            copy(name for name in body.graph.nodes if name not in given)
        else:
            copy(step.before)
            self._put(step.call(f"{prefix}/call", [outside(tensor) for tensor in step.inputs]))
            called.update(
                (name, f"{prefix}/call:{n}" if n else f"{prefix}/call") for n, name in enumerate(step.outputs)
            )
            copy(step.after)
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


class _Step:
    """What a loop's body computes, without lists and counters, as one function.

    Attributes
    ----------
    before, after : list[str]
        Nodes of the body that are copied before the call, which read from lists, and after it, which write to them.
    inputs, outputs : list[str]
        Tensors of the body that the function takes and gives.
    """

    def __init__(self, unrolling: _Unrolling, body: Body, loop: Any, counters: Mapping[int, np.ndarray]) -> None:
        self._unrolling, self._body, self._loop, self._counters = unrolling, body, loop, counters
        graph, inside = body.graph, {*body.arguments}
        items = [node for node in graph.nodes.values() if node.op in ("TensorListGetItem", "TensorListSetItem")]
        self._reads = {node.name: node for node in items if node.op == "TensorListGetItem"}
        lists = {name for name in graph.nodes if graph.dtype(name) == tf.variant} - self._reads.keys()
        around = graph.above(node_of(node.input[1]) for node in items) | self._reads.keys()
        self.before = list(filter((around - inside).__contains__, graph.nodes))
        self.after = list(filter((lists - inside).__contains__, graph.nodes))
        given = [tensor for place, tensor in enumerate(body.results) if place not in counters]
        given += [node.input[2] for node in items if node.name not in self._reads]
        computed = [tensor.removesuffix(":0") for tensor in given if node_of(tensor) not in inside | lists]
        self.outputs = list(dict.fromkeys(computed))
        self.inputs = self._entries(inside | around)
        self._call = self._define({name: self._spec(name) for name in self.inputs})

    def _spec(self, name: str) -> tf.TensorSpec:
        """Return the type and shape of an input; ``UnknownError`` where steps have to be seen as one."""
        body, graph = self._body, self._unrolling.graph
        dtype, place = body.graph.dtype(name), body.arguments.index(name) if name in body.arguments else None
        if place is None:
            return tf.TensorSpec(self._shape_of_item(name), dtype)
        tensor = self._loop.input[place]
        if body.results[place].removesuffix(":0") != name and place not in self._counters:
            tensor = f"{self._loop.name}:{place}"  # the first state may have fewer rows
            following = body.graph.nodes[node_of(body.graph.skip_identities(body.results[place]))]
            if following.op not in _STATES or not self._may_enter(name):
                raise UnknownError(_JOINED)
        if dtype == tf.variant:
            raise UnknownError(_JOINED)
        return tf.TensorSpec(graph.shape(tensor), dtype)

    def _shape_of_item(self, name: str) -> tf.TensorShape:
        """Return the shape of what is read from a list that was made from a tensor."""
        handle = node_of(self._reads[name].input[0]) if name in self._reads else ""
        outside = dict(zip(self._body.arguments, self._loop.input, strict=True)).get(handle, "")
        tensor = self._unrolling.lists.get(outside)
        if not isinstance(tensor, str) or (self._body.graph.is_float(name) and not self._may_enter(name)):
            raise UnknownError(_JOINED)
        return self._unrolling.graph.shape(tensor)[1:]

    def _define(self, specs: Mapping[str, tf.TensorSpec]) -> tf.compat.v1.NodeDef:
        """Return the node of a call of the function, which is added to the new graph's."""
        if any("_gradient_op_type" in node.attr for node in self._body.graph.nodes.values()):
            raise UnknownError(_JOINED)  # relevance needs a change inside, of custom gradients
        alone = tf.compat.v1.GraphDef()
        alone.CopyFrom(self._body.graph.graph_def)
        for node in alone.node:
            if node.name in specs:
                set_placeholder(node, specs[node.name].dtype, specs[node.name].shape)
        view = GraphView(pure_subgraph(alone, self.outputs, keep=self.inputs))
        elements = [name if ":" in name else f"{name}:0" for name in self.outputs]

        def step(*tensors: tf.Tensor) -> list[tf.Tensor]:
            return [*map(tf.identity, view.import_on(dict(zip(specs, tensors, strict=True)), elements)[0])]

        key = view.graph_def.SerializeToString(deterministic=True), *specs, *elements
        if key not in _STEPS:
            options = {"autograph": False, "experimental_attributes": {"_noinline": True}}
            with tf.init_scope():
                _STEPS.setdefault(key, tf.function(step, [*specs.values()], **options).get_concrete_function())
        traced = _STEPS[key]
        self._unrolling.nodes.library.function.add().CopyFrom(traced.function_def)
        call = tf.compat.v1.NodeDef(op=CALLS[0])
        call.attr["f"].func.name = traced.function_def.signature.name
        call.attr["Tin"].list.type.extend(one.dtype.as_datatype_enum for one in specs.values())
        call.attr["Tout"].list.type.extend(one.dtype.as_datatype_enum for one in traced.outputs)
        call.attr["_output_shapes"].list.shape.extend(one.shape.as_proto() for one in traced.outputs)
        return call

    def call(self, name: str, inputs: Iterable[str]) -> tf.compat.v1.NodeDef:
        """Return the node of a call."""
        node = tf.compat.v1.NodeDef()
        node.CopyFrom(self._call)
        node.name = name
        node.input.extend(inputs)
        return node

    def _entries(self, outer: set[str]) -> list[str]:
        """Return the nodes among some outer ones that the outputs depend on."""
        nodes = self._body.graph.nodes
        found, seen, stack = [], set(), [node_of(tensor) for tensor in self.outputs]
        while stack:
            name = stack.pop()
            if name not in seen:
                seen.add(name)
                enters = name in outer and nodes[name].op != "Const"
                found += [name] if enters else []
                stack += [] if enters else map(node_of, nodes[name].input)
        return sorted(found)

    def _may_enter(self, name: str) -> bool:
        """Return whether no rule depends, at any use of a tensor in the step, on how it was computed."""
        graph = self._body.graph
        uses = {user: graph.nodes[user].op for user in graph.uses(name) if user not in {*self.before, *self.after}}
        return all(self._may_enter(user) if kind == "Identity" else kind in _ENTRIES for user, kind in uses.items())
