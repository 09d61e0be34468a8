"""Gradients and determinism of a frozen graph.

An operation with a custom gradient (``tf.custom_gradient``) is an ``IdentityN`` whose attribute ``_gradient_op_type``
names a function. That function was loaded with the file and reads tensors of the loaded function, so that it does not
work on a frozen copy. ``restore`` makes these tensors inputs of the ``IdentityN``. Where that is not possible, the
graph still has the file's scores: only a gradient that passes through such an operation is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from attribution.errors import BadInput
from attribution.graph import _tf_internals
from attribution.graph._tf_internals import loaded_gradient
from attribution.graph.view import CALLS, MODULE, GraphView, functions_of, node_of

CHANGED = ", which reads what each call changes"
_ATTRIBUTE = "_gradient_op_type"
_FUNCTION = "_attribution_gradient"  # attribute that names the loaded function
_RESTORED, _UNKNOWN = "AttributionCustomGradient", "AttributionUnknownGradient"
# Operations that TensorFlow declares stateful and that always give the same outputs for the same inputs.
_STATEFUL = (
    *CALLS, "ReadVariableOp", "ResourceGather", "VarHandleOp", "VariableV2", "HashTable", "HashTableV2",
    "LookupTableFind", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2", "While", "If", "Case",
    "XlaCallModule", "StatefulCase", "Assert", "DecodeProtoV2", "DeviceIndex",
)  # fmt: skip


def restore(graph_def: tf.compat.v1.GraphDef) -> None:
    """Make the custom gradients of a frozen graph work on it, in place, or refuse where they are needed."""
    nodes = {node.name: node for node in graph_def.node}
    custom = [node for node in graph_def.node if node.op == "IdentityN" and _ATTRIBUTE in node.attr]
    swishes = [node for node in custom if _is_custom_swish(node, nodes)]
    # The gradient that JAX stores beside a module is that of the module, which is translated now.
    modules = [] if any(node.op == MODULE for node in graph_def.node) else [*filter(_has_module_as_gradient, custom)]
    _make_plain([*swishes, *modules], graph_def)
    captures = _Captures(nodes)
    for node in custom:
        if node.op != "IdentityN":  # its gradient is the derivative of what it computes
            continue
        name = node.attr[_ATTRIBUTE].s.decode()
        captured = captures.of(name, node)
        if captured is not None:
            node.input.extend(tensor for tensor, _ in captured)
            node.attr["T"].list.type.extend(dtype.as_datatype_enum for _, dtype in captured)
            node.attr[_FUNCTION].s = name.encode()
            node.attr[_ATTRIBUTE].s = _RESTORED.encode()
        else:
            node.attr[_ATTRIBUTE].s = _UNKNOWN.encode()
    for function in graph_def.library.function:  # of loops and branches
        for node in function.node_def:
            if _ATTRIBUTE in node.attr or node.op in CALLS:  # TensorFlow would ignore custom gradients inside a call
                node.attr[_ATTRIBUTE].s = _UNKNOWN.encode()


def by_values(graph: GraphView, target: str) -> GraphView:
    """Return a graph without custom gradients, whose nodes pass on what they compute; the same one if it has none.

    Relevance and DeepLIFT distribute what a network computes, whatever its gradient: reversed, clipped or rewritten to
    be stable. The arguments and the tensors that only such a gradient reads take no part in it. The node ``target``, of
    the scores, stays.
    """
    graph_def = tf.compat.v1.GraphDef()
    graph_def.CopyFrom(graph.graph_def)
    custom = [node for node in graph_def.node if node.op == "IdentityN" and _ATTRIBUTE in node.attr]
    if not custom:
        return graph
    _make_plain([node for node in custom if node.name != target], graph_def)
    for node in custom:
        node.attr.pop(_ATTRIBUTE, None)
    return GraphView(graph_def, graph.weights, graph.altered)


def _has_module_as_gradient(node: Any) -> bool:
    function = loaded_gradient(node.attr[_ATTRIBUTE].s.decode())
    return function is not None and any(operation.type == MODULE for operation in function.graph.get_operations())


def _is_custom_swish(node: Any, nodes: Mapping[str, Any]) -> bool:
    """Return whether a node passes on x · σ(β x), with x, perhaps β, and no other input."""
    value, x, *beta = node.input
    product = nodes[node_of(value)]
    if product.op != "Mul" or x not in product.input or len(beta) > 1:
        return False
    gate = next((nodes[node_of(tensor)] for tensor in product.input if tensor != x), None)
    if gate is None or gate.op != "Sigmoid":
        return False
    inner = gate.input[0]
    if inner == x:
        return True
    scaled = nodes[node_of(inner)]
    return scaled.op == "Mul" and sorted(scaled.input) == sorted([x, *beta])


def _make_plain(nodes: Iterable[Any], graph_def: tf.compat.v1.GraphDef) -> None:
    """Turn each IdentityN into an Identity of its first input, and its other outputs into its other inputs."""
    others: dict[str, str] = {}
    for node in nodes:
        others.update((f"{node.name}:{number}", tensor) for number, tensor in enumerate(node.input) if number)
        dtype = node.attr["T"].list.type[0]
        del node.input[1:]
        node.op = "Identity"
        node.attr.clear()
        node.attr["T"].type = dtype
    for user in graph_def.node if others else ():
        for position, tensor in enumerate(user.input):
            while tensor in others:
                tensor = user.input[position] = others[tensor]


class _Captures:
    """The tensors of the loaded function that loaded gradients read, as tensors of the frozen graph."""

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        self._nodes = nodes
        self._operations: dict[int, dict[str | None, Any]] = {}
        self._outside: dict[tuple[int, str], dict[str, str]] = {}

    def of(self, name: str, node: Any) -> list[tuple[str, tf.DType]] | None:
        """Return the tensors, with their types, that the gradient of a node reads; ``None`` if one is missing."""
        function = loaded_gradient(name)
        if function is None:
            return None
        captures = [tensor for tensor, _ in function.graph.captures]
        if any(not hasattr(tensor, "graph") for tensor in captures):
            return None
        graphs = list({id(tensor.graph): tensor.graph for tensor in captures}.values())
        if not graphs:
            return []
        prefix = self._prefix(name, node, graphs[0]) if len(graphs) == 1 else None
        if prefix is None:
            return None
        outside = self._names_outside(graphs[0], prefix)
        captured = [(outside[tensor.name], tensor.dtype) for tensor in captures if tensor.name in outside]
        return captured if len(captured) == len(captures) else None

    def _prefix(self, name: str, node: Any, graph: Any) -> str | None:
        """Return what the frozen graph puts before the names of a loaded function."""
        if id(graph) not in self._operations:
            self._operations[id(graph)] = {_gradient_name(operation): operation for operation in graph.get_operations()}
        local = self._operations[id(graph)].get(name)
        if local is None or not node.name.endswith(local.name):
            return None
        return str(node.name[: -len(local.name)])

    def _names_outside(self, graph: Any, prefix: str) -> dict[str, str]:
        """Return the frozen names of a loaded function's tensors.

        The arguments of a function have other names outside it, which the inputs of their users give.
        """
        if (id(graph), prefix) not in self._outside:
            outside: dict[str, str] = {}
            for operation in graph.get_operations():
                frozen = self._nodes.get(prefix + operation.name)
                if frozen is not None:
                    outside.update(zip((tensor.name for tensor in operation.inputs), frozen.input, strict=False))
                    if operation.type != "Placeholder":
                        outside.update((tensor.name, prefix + tensor.name) for tensor in operation.outputs)
            self._outside[id(graph), prefix] = outside
        return self._outside[id(graph), prefix]


def _gradient_name(operation: Any) -> str | None:
    definition = operation.node_def
    return definition.attr[_ATTRIBUTE].s.decode() if _ATTRIBUTE in definition.attr else None


@tf.RegisterGradient(_RESTORED)  # type: ignore[untyped-decorator]
def _restored(operation: Any, *upstream: Any) -> list[Any]:
    """Return the loaded function's result for the gradients of an IdentityN's outputs."""
    function = loaded_gradient(operation.get_attr(_FUNCTION).decode())
    placeholders = [tensor for _, tensor in function.graph.captures]
    original = len(operation.inputs) - len(placeholders)
    arguments = [tensor for tensor in function.graph.inputs if all(tensor is not other for other in placeholders)]
    given = [
        tf.zeros_like(output) if gradient is None else gradient
        for gradient, output in zip(upstream[:original], operation.outputs[:original], strict=True)
    ]
    # The function may ignore the gradients of the last outputs, hence strict=False.
    pairs = [*zip(arguments, given, strict=False), *zip(placeholders, operation.inputs[original:], strict=True)]
    results = iter(
        tf.graph_util.import_graph_def(
            function.graph.as_graph_def(),
            input_map={placeholder.name: tensor for placeholder, tensor in pairs},
            return_elements=[tensor.name for tensor in function.graph.outputs],
            name="custom_gradient",
        )
    )
    structure = tf.nest.flatten(function.structured_outputs)
    gradients = [None if structured is None else next(results) for structured in structure]
    return gradients + [None] * len(placeholders)


@tf.RegisterGradient(_UNKNOWN)  # type: ignore[untyped-decorator]
def _unknown(operation: Any, *_: Any) -> Any:
    name = operation.name.removeprefix("model/")
    raise BadInput(
        f"the gradient of {operation.type} ('{name}') cannot be taken out of the file; methods that need scores "
        "alone, such as occlusion and RISE, can explain it"
    )


def first_random(graph_def: tf.compat.v1.GraphDef, state: Collection[str]) -> str | None:
    """Return the first operation that may give other scores at every call, or ``None``.

    ``state`` are the nodes that read variables which the whole graph writes.
    """
    for node in _all_nodes(graph_def):
        if node.name in state:
            return f"'{node.name}'{CHANGED}"
        if not _is_deterministic(node):
            return f"the operation {node.op} ('{node.name}')"
    return None


def _is_deterministic(node: Any) -> bool:
    if node.op in ("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"):  # random by dropout alone
        return bool(node.attr["dropout"].f == 0)
    return node.op in _STATEFUL or _tf_internals.is_known_and_stateless(node.op)


def _all_nodes(graph_def: tf.compat.v1.GraphDef) -> Iterator[Any]:
    """Yield the nodes of a graph and of all functions that they run."""
    library = {function.signature.name: function for function in graph_def.library.function}
    waiting, seen = [graph_def.node], set()
    while waiting:
        for node in waiting.pop():
            yield node
            for function in functions_of(node):
                if function.name not in seen and function.name in library:
                    seen.add(function.name)
                    waiting.append(library[function.name].node_def)
