"""A function's graph without variables and calls.

Variables do not become constants of the graph, where they would be copied some ten times while it is read, compiled and
optimised. Each becomes a placeholder, whose tensor is stored with the graph and shared by all functions made of it.
TensorFlow's own conversion to constants does the rest: it removes variables that a loop carries or that are looked up
row by row, and inlines calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph import _tf_internals
from attribution.graph import view as graph_view
from attribution.graph.view import inline_calls, node_of, set_placeholder
from attribution.savedmodel import _gradient_support
from attribution.savedmodel.branches import take_branches, with_values

# Operations that write to a variable.
_WRITES = (
    "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceStridedSliceAssign",
    "RngReadAndSkip", "RngSkip",
    "StatefulUniform", "StatefulStandardNormalV2", "StatefulRandomBinomial", "StatefulTruncatedNormal",
)  # fmt: skip


def without_variables(
    function: Any, constants: Mapping[str, np.ndarray], translated: bool
) -> tuple[tf.compat.v1.GraphDef, dict[str, Any], dict[str, str], set[str]]:
    """Take the variables and calls out of a function.

    Parameters
    ----------
    function
        The concrete function.
    constants
        Values of its inputs, by node name.
    translated
        Whether modules of JAX and PyTorch become operations of TensorFlow.

    Returns
    -------
    graph_def
        The function's graph without variables and calls. It still has control edges.
    weights
        Tensors of the graph's placeholders, by node name.
    renamed
        New names of the function's tensors where they have changed.
    state
        Nodes that read what the graph itself writes, but for what it writes back as it was read.
    """
    variables = {id(variable.handle): variable for variable in function.graph.variables}
    captured: dict[str, Any] = {
        placeholder.op.name: variables.get(id(handle)) for handle, placeholder in function.graph.captures
    }
    converted, kept = _conversion(function, captured)
    written = _written(converted.graph_def, _identity_sources(converted.graph_def))
    graph_def, indices = _tf_internals.variables_as_constants(converted)
    _retype_outputs_of_loops(graph_def)
    if graph_def.library.function:  # TensorFlow has to know the changed functions; else this is slow and for nothing
        _tf_internals.register_functions(function, graph_def, indices)
    graph_def, renamed = inline_calls(with_values(graph_def, constants) if constants else graph_def)
    if translated:
        from attribution.graph.stablehlo import lower  # few files have a module

        known = {name: captured[variable] for name, variable in _reads(graph_def, kept).items()}
        values = {name: variable.read_value() for name, variable in known.items() if variable is not None}
        graph_def, lowered = lower(graph_def, values)
        renamed = {old: lowered.get(name, name) for old, name in renamed.items()} | lowered
    has_merge = any(node.op == "Merge" for node in graph_def.node)
    if constants or has_merge or _gradient_support.first_random(graph_def, ()):  # which a branch could rule out
        graph_def = take_branches(graph_def)
    _gradient_support.restore(graph_def)
    reads = _reads(graph_def, kept)
    written &= _changed(graph_def, reads, _identity_sources(graph_def))
    state = {name for name, variable in reads.items() if variable in written}
    weights = _take_weights(graph_def, {name: captured[variable] for name, variable in reads.items()})
    handles = {placeholder.op.name: handle for handle, placeholder in function.graph.captures}
    tables = {name: one for name, one in handles.items() if captured[name] is None and one.dtype == tf.resource}
    return graph_def, tables | weights, renamed, state


def _conversion(function: Any, captured: Mapping[str, Any]) -> tuple[Any, set[str]]:
    """Return TensorFlow's converter of a function to constants, and the variables it keeps.

    What is read as a whole can stay a tensor; what is passed to a loop or looked up row by row is left to the
    conversion to constants, and taken out of the graph afterwards. What is written to cannot be a constant.
    """
    arrays = {
        name
        for name, variable in captured.items()
        if variable is not None
        and variable.dtype.is_floating
        and (variable.shape.num_elements() or 0) >= graph_view.WEIGHT
    }
    converted = _tf_internals.converter(function, arrays)
    sources = _identity_sources(converted.graph_def)
    used_otherwise = {
        sources(name)
        for node in converted.graph_def.node
        if node.op not in ("ReadVariableOp", "Identity")
        for name in node.input
    }
    kept = (arrays - used_otherwise) | captured.keys() & _written(converted.graph_def, sources)
    return converted if kept == arrays else _tf_internals.converter(function, kept), kept


def _reads(graph_def: tf.compat.v1.GraphDef, variables: Collection[str]) -> dict[str, str]:
    """Return the nodes that read some variables, each with its variable."""
    source = _identity_sources(graph_def)
    found = {node.name: source(node.input[0]) for node in graph_def.node if node.op == "ReadVariableOp"}
    return {name: variable for name, variable in found.items() if variable in variables}


def _identity_sources(graph_def: tf.compat.v1.GraphDef) -> Callable[[str], str]:
    """Return the function from an input entry to the node whose value it is, identities left aside."""
    behind = {node.name: node.input[0] for node in graph_def.node if node.op == "Identity"}

    def source(name: str) -> str:
        name = node_of(name)
        while name in behind:
            name = node_of(behind[name])
        return name

    return source


def _written(graph_def: tf.compat.v1.GraphDef, sources: Callable[[str], str]) -> set[str]:
    """Return the nodes that the graph writes to, or passes to a function where functions write."""
    written = {sources(node.input[0]) for node in graph_def.node if _writes(node) and node.input}
    if any(_writes(node) for body in graph_def.library.function for node in body.node_def):
        calls = [node for node in graph_def.node if any(value.HasField("func") for value in node.attr.values())]
        written |= {sources(name) for node in calls for name in node.input}
    return written


def _writes(node: Any) -> bool:
    return node.op in _WRITES or node.op.startswith(("ResourceApply", "ResourceScatter", "ResourceSparseApply"))


def _changed(graph_def: tf.compat.v1.GraphDef, reads: Mapping[str, str], values: Callable[[str], str]) -> set[str]:
    """Return the nodes that a graph uses otherwise than by reading them, or writing back what was read of them.

    An export on JAX writes the state of a trained network back as it was.
    """

    def leaves(node: Any) -> bool:
        if node.op in ("ReadVariableOp", "Identity"):
            return True
        return node.op == "AssignVariableOp" and values(node.input[0]) == reads.get(values(node.input[1]))

    return {
        values(name) for node in graph_def.node if not leaves(node) for name in node.input if not name.startswith("^")
    }


def _retype_outputs_of_loops(graph_def: tf.compat.v1.GraphDef) -> None:
    """Give identities behind a loop the type that the loop has now.

    TensorFlow 2.0 passes a layer's variables through its loop; their conversion to constants forgets these nodes.
    """
    loops = {node.name: node.attr["T"].list.type for node in graph_def.node if node.op in ("While", "StatelessWhile")}
    for node in graph_def.node:
        if node.op == "Identity" and node.attr["T"].type == tf.resource.as_datatype_enum:
            loop, _, place = node.input[0].partition(":")
            if loop in loops:
                node.attr["T"].type = loops[loop][int(place or 0)]


def _take_weights(graph_def: tf.compat.v1.GraphDef, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Replace nodes that read variables, and arrays of floats, by placeholders; return their tensors by node name."""
    weights = {}
    for node in graph_def.node:
        if node.name in variables:
            weights[node.name] = variables[node.name].read_value()
        elif node.op == "Const" and tf.as_dtype(node.attr["dtype"].type).is_floating:
            value = tf.make_ndarray(node.attr["value"].tensor)
            if value.size >= graph_view.WEIGHT:
                weights[node.name] = tf.constant(value)
        if node.name in weights:
            set_placeholder(node, weights[node.name].dtype, weights[node.name].shape)
    return weights
