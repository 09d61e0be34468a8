"""Whether a frozen graph computes what the file computes: the same scores at every call, the same gradients.

Both are decided by lists of what is known to be so. A graph with gradients that are not known to be the file's is not
refused: its gradients come from the loaded function.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attribution.graph.inlining import CALLS
from attribution.graph.nodes import functions_of, node_of
from attribution.graph.view import GraphView
from attribution.model import custom_gradients, tf_internals

# Operations that keep something or may have side effects, and yet always give the same for the same inputs.
_STATEFUL = (
    *CALLS, "ReadVariableOp", "ResourceGather", "VarHandleOp", "VariableV2", "HashTable", "HashTableV2",
    "LookupTableFind", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2", "While", "If", "Case",
    "XlaCallModule", "StatefulCase", "Assert", "DecodeProtoV2", "DeviceIndex",
)  # fmt: skip
# Operations that run functions and whose gradients TensorFlow builds from them.
_CONTROL_FLOW = ("While", "StatelessWhile", "If", "StatelessIf")


def first_frame(graph_def: tf.compat.v1.GraphDef) -> str | None:
    """Return the first node that enters a loop of TensorFlow 1, whose steps are edges in a circle, or ``None``."""
    return next((node.name for node in graph_def.node if node.op in ("Enter", "RefEnter")), None)


def first_random(graph_def: tf.compat.v1.GraphDef, state: Any) -> str | None:
    """Return the first operation because of which a graph may give other scores at every call, or ``None``.

    Parameters
    ----------
    graph_def
        A pure graph.
    state
        Nodes that read what the whole graph writes.
    """
    for node in _all_nodes(graph_def):
        if node.name in state:
            return f"'{node.name}', which reads what each call changes"
        if not _is_deterministic(node):
            return f"the operation {node.op} ('{node.name}')"
    return None


def _is_deterministic(node) -> bool:
    if node.op in ("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"):  # random by dropout alone
        return node.attr["dropout"].f == 0
    return node.op in _STATEFUL or tf_internals.is_known_and_stateless(node.op)


def first_inexact(view: GraphView, inputs: Any, output: str) -> str | None:
    """Return the first operation whose gradient in a frozen graph is not known to be the file's, or ``None``.

    Parameters
    ----------
    view : attribution.graph.view.GraphView
        The frozen graph.
    inputs
        Names of its input nodes.
    output
        Name of the tensor that is differentiated.
    """
    below, stack, reached = view.below(inputs), [node_of(output)], set(inputs)
    while stack:
        name = stack.pop()
        if name in reached or name not in below:
            continue
        reached.add(name)
        node = view.nodes[name]
        # Lists of tensors are of a type of their own, and may hold numbers.
        before = [
            node_of(tensor)
            for tensor in custom_gradients.differentiated_inputs(node)
            if node_of(tensor) in below and (view.is_float(tensor) or view.dtype(tensor) == tf.variant)
        ]
        if not before:
            continue  # whole numbers and strings have no gradient that could get lost
        stack.extend(before)
        if not _has_own_gradient(node) or (
            functions_of(node)
            and (
                node.op not in _CONTROL_FLOW
                or any(
                    inner.op in CALLS or not _has_own_gradient(inner)
                    for inner in _all_nodes(view.graph_def, functions_of(node))
                )
            )
        ):
            return f"{node.op} ('{name}')"
    return None


def _has_own_gradient(node) -> bool:
    """Return whether a gradient follows from the kind of operation alone, or was restored."""
    if custom_gradients.ATTRIBUTE in node.attr:
        return node.attr[custom_gradients.ATTRIBUTE].s.decode() == custom_gradients.RESTORED
    try:
        tf_internals.registered_gradient(node.op)
    except LookupError:
        # No gradient at all: what takes no numbers and gives none needs none.
        return not _computes_with_numbers(node)
    return True


def _computes_with_numbers(node) -> bool:
    values = list(node.attr.values())
    types = [value.type for value in values if value.HasField("type")]
    types += [one for value in values for one in value.list.type]
    return any(tf.as_dtype(one).is_floating for one in types)


def _all_nodes(graph_def, functions=None):
    """Yield the nodes of a graph, or of some functions, and of all functions that they run."""
    library = {function.signature.name: function for function in graph_def.library.function}
    waiting, seen = list(functions or ()), set()
    if functions is None:
        for node in graph_def.node:
            waiting.extend(functions_of(node))
            yield node
    while waiting:
        name = waiting.pop()
        if name not in seen and name in library:
            seen.add(name)
            for node in library[name].node_def:
                waiting.extend(functions_of(node))
                yield node
