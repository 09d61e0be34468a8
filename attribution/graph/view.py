"""Frozen graphs: dependencies, shapes, types and constant values, and changes of their nodes.

A graph here is a ``GraphDef`` without control edges, function calls or variables, as ``savedmodel.freeze`` makes
it. Its arrays of floating point, the *weights*, are stored beside it and are placeholders in it: a constant is
copied some ten times while a graph is read, compiled and optimised, and a tensor is shared. Networks with equal graphs
share the functions that are traced from them.
A *tensor name* is ``node`` or ``node:0``; node names are used wherever the first output is meant.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import itertools
import re
import weakref
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph import _tf_internals
from attribution.graph._tf_internals import with_captures

# Least number of elements of a weight. Single numbers, such as ε, stay in the graph, where rules read them.
WEIGHT = 2
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
MODULE = "XlaCallModule"  # a whole program of JAX or PyTorch
# Attributes that a copy of a node does not share.
_APART = ("_output_shapes", "_gradient_op_type")


class Untranslatable(ValueError):
    """A module holds something without a translation; the message names it."""


def node_of(tensor: str) -> str:
    """Return the node that a tensor name or an entry of ``node.input`` refers to."""
    return tensor.lstrip("^").split(":")[0]


def pure_subgraph(
    graph_def: tf.compat.v1.GraphDef, outputs: Iterable[str], keep: Iterable[str] = ()
) -> tf.compat.v1.GraphDef:
    """Return the nodes that the outputs depend on, without control edges.

    A frozen graph computes without side effects, so that the control edges that once ordered the reading of
    variables have no meaning left; the inputs named in ``keep`` stay even where nothing depends on them.
    """
    nodes = {node.name: node for node in graph_def.node}
    wanted, stack = set(keep), [node_of(tensor) for tensor in outputs]
    while stack:
        name = stack.pop()
        if name not in wanted:
            wanted.add(name)
            stack.extend(node_of(tensor) for tensor in nodes[name].input if not tensor.startswith("^"))
    pure = _empty_like(graph_def)
    for node in graph_def.node:
        if node.name in wanted:
            copy = pure.node.add()
            copy.CopyFrom(node)
            del copy.input[:]
            copy.input.extend(tensor for tensor in node.input if not tensor.startswith("^"))
            copy.attr.pop("_class", None)  # colocation with nodes that may be gone
    return pure


def _empty_like(graph_def: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Return a graph without nodes, of the same version and with the same functions."""
    empty = tf.compat.v1.GraphDef()
    empty.versions.CopyFrom(graph_def.versions)
    empty.library.CopyFrom(graph_def.library)
    return empty


def without_nodes(graph_def: tf.compat.v1.GraphDef, names: Iterable[str]) -> tf.compat.v1.GraphDef:
    """Return a graph without some nodes; what they gave has to come from elsewhere."""
    remaining = _empty_like(graph_def)
    remaining.node.extend(node for node in graph_def.node if node.name not in names)
    return remaining


def constant(name: str, value: np.ndarray) -> tf.compat.v1.NodeDef:
    """Return the node of a constant."""
    node = tf.compat.v1.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return node


def set_placeholder(node: Any, dtype: tf.DType, shape: Any) -> None:
    """Turn a node into a placeholder."""
    name = node.name
    node.Clear()
    node.name, node.op = name, "Placeholder"
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())


def rebuild(operation: tf.Operation, inputs: Sequence[tf.Tensor], output: int = 0) -> tf.Tensor:
    """Return an output, by default the first, of an operation of the same kind and attributes on other inputs.

    Must be called while the operation's graph is being built.
    """
    return operation.graph.create_op(
        operation.type,
        list(inputs),
        [output.dtype.base_dtype for output in operation.outputs],
        attrs={name: value for name, value in operation.node_def.attr.items() if name not in _APART},
    ).outputs[output]


def functions_of(node: Any) -> list[Any]:
    """Return the functions that a node runs, as messages with a ``name``."""
    values = list(node.attr.values())
    called = [value.func for value in values if value.HasField("func")]
    return called + [function for value in values for function in value.list.func]


def inline_calls(graph_def: tf.compat.v1.GraphDef) -> tuple[tf.compat.v1.GraphDef, dict[str, str]]:
    """Return a graph without calls at its top level, and the new names of tensors that are renamed.

    TensorFlow inlines most calls itself when it freezes a graph. It leaves those of functions that are compiled as a
    whole, as Keras' grouped convolutions are; these have no gradient outside the program that wrote them. Calls inside
    loops and branches stay.
    """
    renamed: dict[str, str] = {}
    while any(_is_call(node, graph_def) for node in graph_def.node):
        graph_def, new = _inline_once(graph_def)
        renamed = {old: new.get(name, name) for old, name in renamed.items()} | new
    return graph_def, renamed


def _is_call(node: Any, graph_def: tf.compat.v1.GraphDef) -> bool:
    return node.op in CALLS and any(node.attr["f"].func.name == f.signature.name for f in graph_def.library.function)


def _inline_once(graph_def: tf.compat.v1.GraphDef) -> tuple[tf.compat.v1.GraphDef, dict[str, str]]:
    functions = {function.signature.name: function for function in graph_def.library.function}
    result = _empty_like(graph_def)
    renamed: dict[str, str] = {}
    for node in graph_def.node:
        if _is_call(node, graph_def):
            renamed |= _add_body(result, node, functions[node.attr["f"].func.name])
        else:
            result.node.add().CopyFrom(node)
    for node in result.node:
        for position, tensor in enumerate(node.input):
            if tensor in renamed:
                node.input[position] = renamed[tensor]
    return result, renamed


def _add_body(result: tf.compat.v1.GraphDef, call: Any, function: Any) -> dict[str, str]:
    """Add the nodes of a called function to a graph; return the new names of the call's outputs but the first."""
    body, flat = _tf_internals.function_body(function)
    arguments = [argument.name for argument in function.signature.input_arg]
    types = call.attr["Tout"].list.type
    outputs = [
        (flat[function.ret[output.name]], output.type or types[number])
        for number, output in enumerate(function.signature.output_arg)
    ]
    return insert_body(result, call, body.node, arguments, outputs)


def insert_body(
    result: tf.compat.v1.GraphDef, call: Any, body: Any, arguments: Iterable[str], outputs: Iterable[tuple[str, int]]
) -> dict[str, str]:
    """Add nodes in place of a call of them; return the new names of the call's outputs but the first.

    Parameters
    ----------
    result
        The graph to which they are added.
    call
        The node that is replaced.
    body
        The nodes, among them those named by ``arguments``, in whose place are the call's inputs.
    outputs
        Tensor name and type of each output.
    """
    given = dict(zip(arguments, (name for name in call.input if not name.startswith("^")), strict=True))
    for inner in body:
        if inner.name not in given:
            copy = result.node.add()
            copy.CopyFrom(inner)
            copy.name = f"{call.name}/{inner.name}"
            del copy.input[:]
            copy.input.extend(_outside(tensor, call.name, given) for tensor in inner.input)
    renamed = {}
    # The first output keeps the call's name, by which the rest of the graph refers to it.
    for number, (tensor, dtype) in enumerate(outputs):
        identity = result.node.add(name=f"{call.name}/output_{number}" if number else call.name, op="Identity")
        identity.attr["T"].type = dtype
        identity.input.append(_outside(tensor, call.name, given))
        if number:
            renamed[f"{call.name}:{number}"] = f"{identity.name}:0"
    return renamed


def _outside(tensor: str, prefix: str, given: Mapping[str, str]) -> str:
    """Return the name outside a function of a tensor inside it."""
    name = node_of(tensor)
    if tensor.startswith("^"):
        return f"^{node_of(given[name])}" if name in given else f"^{prefix}/{name}"
    return given[name] if name in given else f"{prefix}/{tensor}"


CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "Conv3DBackpropInputV2")
NORMALIZATIONS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
ACTIVATIONS = ("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign", "Tanh", "Sigmoid", "Swish")

_OF_LOOP = re.compile(r"while(_\d+)?$|TensorArray")  # a part of a node's name
_TRACES: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()  # concrete functions
# Operations that look at a shape and not at values.
SHAPES = ("Shape", "ShapeN", "Size", "Rank")


class GraphView:
    """A frozen graph with its edges both ways and its nodes in topological order.

    Parameters
    ----------
    graph_def
        A pure graph.
    weights
        Tensors of the placeholders that are not inputs, by node name.
    altered
        Nodes that have other values than in the graph that this one was made from.
    outputs
        Outputs of nodes, as far as they are known.
    """

    def __init__(
        self,
        graph_def: tf.compat.v1.GraphDef,
        weights: Mapping[str, tf.Tensor] | None = None,
        altered: Iterable[str] = (),
        outputs: Mapping[str, list[tf.TensorSpec]] | None = None,
    ) -> None:
        self.graph_def = graph_def
        self.altered = frozenset(altered)
        weights = weights or {}
        self.weights = {node.name: weights[node.name] for node in graph_def.node if node.name in weights}
        by_name = {node.name: node for node in graph_def.node}
        self.consumers: dict[str, list[str]] = collections.defaultdict(list)
        waiting = {}
        for node in graph_def.node:
            sources = {node_of(tensor) for tensor in node.input}
            waiting[node.name] = len(sources)
            for source in sources:
                self.consumers[source].append(node.name)
        ready = collections.deque(name for name, count in waiting.items() if count == 0)
        self.nodes: dict[str, tf.compat.v1.NodeDef] = {}
        while ready:
            name = ready.popleft()
            self.nodes[name] = by_name[name]
            for consumer in self.consumers[name]:
                waiting[consumer] -= 1
                if waiting[consumer] == 0:
                    ready.append(consumer)
        self.outputs = dict(outputs or {})
        self.depends_on_values = False  # whether a function was built by what the values of weights are
        self._evaluated: Any = None

    @functools.cached_property
    def _structure(self) -> Hashable:
        """Everything but the values of weights."""
        return _digest(self.graph_def), *self.weights

    def traced(self, key: Hashable, function: Any) -> Any:
        """Return the concrete function of a ``tf.function`` that imports this graph.

        It is traced once for all networks whose graphs are equal but for the values of weights, and called with each
        network's weights. A trace lives as long as a function of one of them, and so do the weights of the first.

        Parameters
        ----------
        key
            Everything else that the function depends on.
        function
            Has an input signature.
        """
        if any(isinstance(weight, tf.Variable) for weight in self.weights.values()):
            return function  # built into another function, which is exported
        shared = _TRACES.get((self._structure, key))
        if shared is None:
            shared = function.get_concrete_function()
            names = {id(weight): name for name, weight in self.weights.items()}
            shared.weights = [names.get(id(tensor)) for tensor in shared.captured_inputs]
            if self.depends_on_values or None in shared.weights or len(names) < len(self.weights):
                return shared
            _TRACES[self._structure, key] = shared
        return with_captures(shared, [self.weights[name] for name in shared.weights])

    def below(self, names: Iterable[str], choices: bool = True) -> set[str]:
        """Return the given nodes and all nodes that depend on their values, not only on their shapes.

        Parameters
        ----------
        names
            Nodes.
        choices
            Whether dependence through the place of a largest value counts, as of a gate in a mixture of experts.
        """
        seen, stack = set(), list(names)
        while stack:
            name = stack.pop()
            if name not in seen and self.nodes[name].op not in SHAPES:
                seen.add(name)
                stack.extend(user for user in self.consumers[name] if choices or self._uses_values(user, name))
        return seen

    def _uses_values(self, user: str, name: str) -> bool:
        """Return whether a node uses another otherwise than by the places that it chooses."""
        tensors = [tensor for tensor in self.nodes[user].input if node_of(tensor) == name]
        chosen = {"ArgMax": [name, f"{name}:0"], "ArgMin": [name, f"{name}:0"], "TopKV2": [f"{name}:1"]}
        return not set(tensors) <= set(chosen.get(self.nodes[name].op, ()))

    def above(self, names: Iterable[str]) -> set[str]:
        """Return the given nodes and all nodes they depend on."""
        seen, stack = set(), list(names)
        while stack:
            name = stack.pop()
            if name not in seen:
                seen.add(name)
                stack.extend(node_of(tensor) for tensor in self.nodes[name].input)
        return seen

    def between(self, source: str | Iterable[str], target: str | Iterable[str]) -> list[str]:
        """Return the nodes on any path from one or more nodes to others, both included, in topological order."""
        sources, targets = ([one] if isinstance(one, str) else list(one) for one in (source, target))
        on_path = self.below(sources) & self.above(targets)
        return [name for name in self.nodes if name in on_path]

    def shape(self, tensor: str) -> tf.TensorShape:
        """Return the static shape of a tensor, a node's first output or another, as far as TensorFlow infers it."""
        return self._output(tensor).shape

    def dtype(self, tensor: str) -> tf.DType:
        """Return the type of a tensor."""
        return self._output(tensor).dtype

    def is_float(self, tensor: str) -> bool:
        """Return whether a tensor has numbers of floating point; a node without outputs has none."""
        return bool(self._outputs_of(node_of(tensor))) and self.dtype(tensor).is_floating

    def _output(self, tensor: str) -> tf.TensorSpec:
        node, _, number = tensor.partition(":")
        return self._outputs_of(node)[int(number or 0)]

    def _outputs_of(self, node: str) -> list[tf.TensorSpec]:
        if node not in self.outputs:
            with tf.Graph().as_default() as imported:
                tf.import_graph_def(self.graph_def, name="")
            self.outputs = {
                operation.name: [tf.TensorSpec(output.shape, output.dtype) for output in operation.outputs]
                for operation in imported.get_operations()
            }
        return self.outputs[node]

    def uses(self, name: str) -> list[str]:
        """Return the nodes that use a node's values, one entry for each use."""
        return [
            consumer
            for consumer in self.consumers[name]
            if self.nodes[consumer].op not in SHAPES
            for tensor in self.nodes[consumer].input
            if node_of(tensor) == name
        ]

    def constant_values(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Return the values of floating-point nodes that depend on no input."""
        names = sorted(set(names))
        if not names:
            return {}
        constants = GraphView(pure_subgraph(self.graph_def, names), self.weights)

        @tf.function(input_signature=[], autograph=False)  # type: ignore[untyped-decorator]
        def evaluate() -> Any:
            return constants.import_on({}, [f"{name}:0" for name in names])[0]

        self._evaluated = constants.traced(("constant values", *names), evaluate)  # for the next network
        values = zip(names, self._evaluated(), strict=True)
        return {name: _shared(value) for name, value in values if value.dtype.is_floating}

    def import_on(
        self,
        inputs: Mapping[str, tf.Tensor],
        elements: Iterable[str],
        rules: Mapping[str, str] | None = None,
        name: str = "model",
    ) -> tuple[list[Any], dict[str, Any]]:
        """Import the graph into the one that is being built, a ``tf.function``'s.

        Parameters
        ----------
        inputs
            Tensors in place of input nodes, by node name.
        elements
            Names of tensors and operations to return.
        rules
            Gradient registered with ``tf.RegisterGradient`` under each of these names, by node name, in place of the
            true one.
        name
            Name scope of the imported nodes.

        Returns
        -------
        found
            The elements.
        given : dict[str, tf.Tensor]
            Tensors of the inputs and of the weights that are used, by node name.
        """
        graph_def = _with_gradients(self.graph_def, rules) if rules else self.graph_def
        elements = list(elements)
        used = {node_of(tensor) for node in graph_def.node for tensor in node.input}
        wanted = used.union(map(node_of, elements))
        # The identity makes a capture of a tensor that exists outside the function. Folding leaves weights unused.
        weights = {name: tf.identity(weight) for name, weight in self.weights.items() if name in wanted}
        given = dict(inputs) | weights
        # Placeholders would stay behind in the graph that is built, where XLA cannot compile them.
        found = iter(
            tf.graph_util.import_graph_def(
                without_nodes(graph_def, {*inputs, *self.weights}),
                input_map={f"{name}:0": tensor for name, tensor in given.items() if name in used},
                return_elements=[element for element in elements if node_of(element) not in given],
                name=name,
            )
        )
        return [given[node_of(element)] if node_of(element) in given else next(found) for element in elements], given

    def between_alone(
        self, source: str, target: str, spec: tf.TensorSpec, nodes: Mapping[str, Any] | None = None
    ) -> GraphView:
        """Return the graph between two nodes, with a placeholder for the first; ``nodes`` take the place of its own."""
        nodes, names, stack = nodes or self.nodes, {source}, [target]
        while stack:
            name = stack.pop()
            if name not in names:
                names.add(name)
                stack.extend(node_of(tensor) for tensor in nodes[name].input)
        kept = [node for name, node in nodes.items() if name in names]
        alone = tf.compat.v1.GraphDef(node=kept, versions=self.graph_def.versions)
        for node in alone.node:
            if node.name == source:
                set_placeholder(node, spec.dtype, spec.shape)
        return GraphView(alone, self.weights)

    def skip_identities(self, tensor: str) -> str:
        """Return the tensor that reaches this one unchanged, as an input entry names it."""
        while self.nodes[node_of(tensor)].op == "Identity":
            tensor = self.nodes[node_of(tensor)].input[0]
        return tensor

    def constant(self, tensor: str) -> np.ndarray | None:
        """Return the value of a constant or a weight, identities left aside; ``None`` for anything else."""
        node = self.nodes[node_of(self.skip_identities(tensor))]
        if node.name in self.weights and self.weights[node.name].dtype.is_floating:
            with tf.init_scope():  # also where a function is being built
                return np.asarray(self.weights[node.name].numpy())
        return tf.make_ndarray(node.attr["value"].tensor) if node.op == "Const" else None


def operations_named(graph: GraphView, names: Iterable[str]) -> list[str]:
    """Return operations for an error message, as "Sin (dense/Sin)"; those of a loop have one entry, "loop (lstm)"."""
    return list(dict.fromkeys(_label(graph.nodes[name].op, name) for name in names))


def _label(op: str, name: str) -> str:
    parts = [part for part in name.split("/") if not part.endswith("PartitionedCall")]
    layer = list(itertools.takewhile(lambda part: not _OF_LOOP.match(part), parts))
    return f"loop ({'/'.join(layer) or name})" if len(layer) < len(parts) else f"{op} ({name})"


def _with_gradients(graph_def: tf.compat.v1.GraphDef, rules: Mapping[str, str]) -> tf.compat.v1.GraphDef:
    """Return a copy of a graph with other gradients, the names of registered ones by node name."""
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for node in changed.node:
        if node.name in rules:
            node.attr["_gradient_op_type"].s = rules[node.name].encode()
    return changed


def _shared(value: tf.Tensor) -> np.ndarray:
    """Return a tensor's values read-only, without a copy where NumPy knows the type: weights take much memory."""
    if value.dtype in (tf.float32, tf.float64):
        with tf.device("/CPU:0"):
            return np.asarray(memoryview(tf.identity(value)))
    return np.asarray(value.numpy())


def _digest(graph_def: tf.compat.v1.GraphDef) -> bytes:
    """Return a digest of a graph and of its functions, whose names differ from file to file."""
    copied = tf.compat.v1.GraphDef()
    copied.CopyFrom(graph_def)
    for node in copied.node:
        node.ClearField("experimental_debug_info")
    if not any(map(functions_of, copied.node)):
        copied.ClearField("library")
    return hashlib.sha256(copied.SerializeToString(deterministic=True)).digest()
