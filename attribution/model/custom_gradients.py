"""Gradients that a model brings with it: ``tf.custom_gradient`` in a frozen graph.

An operation with a gradient of its own is an ``IdentityN`` whose attribute ``_gradient_op_type`` names a function. The
function was loaded with the file and reads values from inside the function that was loaded with it, so that it cannot
be used on a frozen copy as it is. Here it is: those values become inputs of the ``IdentityN``, from where the gradient
takes them. Swish needs none of this, because its gradient is the derivative of what it computes.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attribution.graph.nodes import node_of
from attribution.model.tf_internals import loaded_gradient

ATTRIBUTE = "_gradient_op_type"
_FUNCTION = "_attribution_gradient"  # attribute that names the loaded function
RESTORED = "AttributionCustomGradient"


def restore(graph_def: tf.compat.v1.GraphDef) -> None:
    """Make the custom gradients of a frozen graph work on it, in place.

    What cannot be restored keeps its attribute, which names a function that does not work here.

    Parameters
    ----------
    graph_def
        A frozen graph with all its nodes.
    """
    nodes = {node.name: node for node in graph_def.node}
    custom = [node for node in graph_def.node if node.op == "IdentityN" and ATTRIBUTE in node.attr]
    swishes = [node for node in custom if _is_swish(node, nodes)]
    others = [node for node in custom if node not in swishes]
    _make_plain(swishes, graph_def)
    read = _Readings(nodes)
    for node in others:
        name = node.attr[ATTRIBUTE].s.decode()
        captured = read.by(name, node)
        if captured is not None:
            node.input.extend(tensor for tensor, _ in captured)
            node.attr["T"].list.type.extend(dtype.as_datatype_enum for _, dtype in captured)
            node.attr[_FUNCTION].s = name.encode()
            node.attr[ATTRIBUTE].s = RESTORED.encode()


def _is_swish(node, nodes) -> bool:
    """Return whether a node passes on x · σ(β x), x and perhaps β and nothing else."""
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


def _make_plain(swishes, graph_def) -> None:
    """Turn each IdentityN into an Identity of its first input; whoever used another output uses that input."""
    others = {}
    for node in swishes:
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


def differentiated_inputs(node: Any) -> list[str]:
    """Return the inputs of a node that its gradient passes on to."""
    if node.op != "IdentityN" or node.attr[ATTRIBUTE].s.decode() != RESTORED:
        return list(node.input)
    outputs = tf.nest.flatten(loaded_gradient(node.attr[_FUNCTION].s.decode()).structured_outputs)
    return [tensor for tensor, gradient in zip(node.input, outputs, strict=False) if gradient is not None]


class _Readings:
    """What loaded gradients read inside the loaded function, as tensors of the frozen graph."""

    def __init__(self, nodes):
        self._nodes = nodes
        self._operations = {}
        self._outside = {}

    def by(self, name: str, node):
        """Return the tensors, with their types, that the gradient of a node reads; ``None`` if one is missing."""
        function = loaded_gradient(name)
        captures = [] if function is None else [tensor for tensor, _ in function.graph.captures]
        graphs = {id(tensor.graph): tensor.graph for tensor in captures if hasattr(tensor, "graph")}
        if function is None or len(graphs) > 1 or any(not hasattr(tensor, "graph") for tensor in captures):
            return None
        if not graphs:
            return []
        (graph,) = graphs.values()
        if id(graph) not in self._operations:
            self._operations[id(graph)] = {_gradient_name(operation): operation for operation in graph.get_operations()}
        local = self._operations[id(graph)].get(name)
        if local is None or not node.name.endswith(local.name):
            return None
        outside = self._names_outside(graph, node.name[: -len(local.name)])
        captured = [(outside.get(tensor.name), tensor.dtype) for tensor in captures]
        return None if any(tensor is None for tensor, _ in captured) else captured

    def _names_outside(self, graph, prefix: str):
        """Return the frozen names of a loaded function's tensors.

        A function's arguments have other names outside it: whoever uses them there says which.
        """
        if (id(graph), prefix) not in self._outside:
            outside = {}
            for operation in graph.get_operations():
                frozen = self._nodes.get(prefix + operation.name)
                if frozen is not None:
                    outside.update(zip((tensor.name for tensor in operation.inputs), frozen.input, strict=False))
                    if operation.type != "Placeholder":
                        outside.update((tensor.name, prefix + tensor.name) for tensor in operation.outputs)
            self._outside[id(graph), prefix] = outside
        return self._outside[id(graph), prefix]


def _gradient_name(operation) -> str | None:
    definition = operation.node_def
    return definition.attr[ATTRIBUTE].s.decode() if ATTRIBUTE in definition.attr else None


@tf.RegisterGradient(RESTORED)
def _restored(operation, *given):
    """Return what the loaded function gives for the gradients of an IdentityN's outputs."""
    function = loaded_gradient(operation.get_attr(_FUNCTION).decode())
    placeholders = [tensor for _, tensor in function.graph.captures]
    own = len(operation.inputs) - len(placeholders)
    arguments = [tensor for tensor in function.graph.inputs if all(tensor is not other for other in placeholders)]
    upstream = [
        tf.zeros_like(output) if gradient is None else gradient
        for gradient, output in zip(given[:own], operation.outputs[:own], strict=True)
    ]
    read = zip(placeholders, operation.inputs[own:], strict=True)
    results = iter(
        tf.graph_util.import_graph_def(
            function.graph.as_graph_def(),
            input_map={placeholder.name: tensor for placeholder, tensor in [*zip(arguments, upstream), *read]},  # noqa: B905
            return_elements=[tensor.name for tensor in function.graph.outputs],
            name="custom_gradient",
        )
    )
    gradients = [
        None if structured is None else next(results) for structured in tf.nest.flatten(function.structured_outputs)
    ]
    return gradients + [None] * len(placeholders)
