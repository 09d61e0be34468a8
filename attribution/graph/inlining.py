"""Put the bodies of called functions in place of the calls.

TensorFlow inlines most calls itself when a graph is frozen. It leaves those of functions that are to be compiled as a
whole, as Keras calls its grouped convolutions, and these have no gradient outside the program that wrote them.
"""

from __future__ import annotations

import tensorflow as tf

from attribution.graph.nodes import node_of
from attribution.model import tf_internals

CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def inline_calls(graph_def: tf.compat.v1.GraphDef) -> tuple[tf.compat.v1.GraphDef, dict[str, str]]:
    """Return a graph without calls at its top level, and the new names of tensors that are called otherwise now.

    Parameters
    ----------
    graph_def
        A graph. What only loops and branches call is left as it is.
    """
    renamed: dict[str, str] = {}
    while any(_is_call(node, graph_def) for node in graph_def.node):
        graph_def, new = _inline_once(graph_def)
        renamed = {old: new.get(name, name) for old, name in renamed.items()} | new
    return graph_def, renamed


def _is_call(node, graph_def) -> bool:
    return node.op in CALLS and any(node.attr["f"].func.name == f.signature.name for f in graph_def.library.function)


def _inline_once(graph_def):
    functions = {function.signature.name: function for function in graph_def.library.function}
    result = tf.compat.v1.GraphDef()
    result.versions.CopyFrom(graph_def.versions)
    result.library.CopyFrom(graph_def.library)
    renamed: dict[str, str] = {}
    for node in graph_def.node:
        if not _is_call(node, graph_def):
            result.node.add().CopyFrom(node)
            continue
        function = functions[node.attr["f"].func.name]
        body, flat = tf_internals.function_body(function)
        arguments = [argument.name for argument in function.signature.input_arg]
        given = dict(zip(arguments, (name for name in node.input if not name.startswith("^")), strict=True))
        for inner in body.node:
            if inner.name in given:
                continue
            copy = result.node.add()
            copy.CopyFrom(inner)
            copy.name = f"{node.name}/{inner.name}"
            del copy.input[:]
            copy.input.extend(_inside(tensor, node.name, given) for tensor in inner.input)
        # The first output keeps the call's name, which the graph around it knows.
        for number, output in enumerate(function.signature.output_arg):
            identity = result.node.add(name=f"{node.name}/output_{number}" if number else node.name, op="Identity")
            identity.attr["T"].type = output.type or node.attr["Tout"].list.type[number]
            identity.input.append(_inside(flat[function.ret[output.name]], node.name, given))
            if number:
                renamed[f"{node.name}:{number}"] = f"{identity.name}:0"
    for node in result.node:
        for position, tensor in enumerate(node.input):
            if tensor in renamed:
                node.input[position] = renamed[tensor]
    return result, renamed


def _inside(tensor: str, prefix: str, given: dict[str, str]) -> str:
    """Return the name that a tensor inside a function has outside it."""
    name = node_of(tensor)
    if tensor.startswith("^"):
        return f"^{node_of(given[name])}" if name in given else f"^{prefix}/{name}"
    return given[name] if name in given else f"{prefix}/{tensor}"
