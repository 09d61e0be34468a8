"""Operations on the nodes of a ``GraphDef``: subgraphs, constants, replaced nodes, inlined calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph import tf_internals

# Least number of elements of a weight. Single numbers, such as ε, stay in the graph, where rules read them.
WEIGHT = 2
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# Attributes that a copy of a node does not share.
_APART = ("_output_shapes", "_gradient_op_type")


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


def with_placeholder(graph_def: tf.compat.v1.GraphDef, name: str, dtype: tf.DType, shape: Any) -> tf.compat.v1.GraphDef:
    """Return a copy of a graph in which a node is given instead of computed."""
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for node in changed.node:
        if node.name == name:
            set_placeholder(node, dtype, shape)
    return changed


def with_channels_last(
    graph_def: tf.compat.v1.GraphDef, name: str, dtype: tf.DType, shape: Any
) -> tuple[tf.compat.v1.GraphDef, str]:
    """Return a copy of a graph whose input has its channels last, and the new input's node.

    Parameters
    ----------
    graph_def
        A pure graph.
    name
        Node of an input ``(batch, channels, positions...)``.
    dtype, shape
        Of that input.
    """
    changed = without_nodes(graph_def, [name])
    rank, new, order = len(shape), f"{name}_channels_last", f"{name}_channels_first/order"
    placeholder = changed.node.add(name=new)
    set_placeholder(placeholder, dtype, [shape[0], *shape[2:], shape[1]])
    constant(changed.node, {}, order, np.array([0, rank - 1, *range(1, rank - 1)], np.int32))
    transpose = changed.node.add(name=name, op="Transpose")
    transpose.input.extend([new, order])
    transpose.attr["T"].type = dtype.as_datatype_enum
    transpose.attr["Tperm"].type = tf.int32.as_datatype_enum
    return changed, new


def with_joined_inputs(
    graph_def: tf.compat.v1.GraphDef, specs: Mapping[str, tf.TensorSpec], new: str, dtype: tf.DType
) -> tf.compat.v1.GraphDef:
    """Return a copy of a graph that takes several inputs as one vector, which it splits, reshapes and casts.

    Parameters
    ----------
    graph_def
        A pure graph.
    specs
        Shape and type of each of these inputs by node, with no axis of unknown size but the first.
    new
        Node of the new input.
    dtype
        Type of the new input.
    """
    changed = without_nodes(graph_def, specs)
    sizes = [spec.shape[1:].num_elements() for spec in specs.values()]
    set_placeholder(changed.node.add(name=new), dtype, [next(iter(specs.values())).shape[0], sum(sizes)])
    counts = constant(changed.node, {}, f"{new}/sizes", np.array(sizes, np.int32))
    axis = constant(changed.node, {}, f"{new}/axis", np.int32(1))
    split = changed.node.add(name=f"{new}/split", op="SplitV", input=[new, counts, axis])
    split.attr["T"].type, split.attr["Tlen"].type = dtype.as_datatype_enum, tf.int32.as_datatype_enum
    split.attr["num_split"].i = len(sizes)
    for number, (name, spec) in enumerate(specs.items()):
        shape = constant(changed.node, {}, f"{name}/shape", np.array([-1, *spec.shape[1:]], np.int32))
        is_cast = spec.dtype != dtype
        part = changed.node.add(name=f"{name}/part" if is_cast else name, op="Reshape")
        part.input.extend([f"{split.name}:{number}", shape])
        part.attr["T"].type, part.attr["Tshape"].type = dtype.as_datatype_enum, tf.int32.as_datatype_enum
        if is_cast:
            cast = changed.node.add(name=name, op="Cast", input=[part.name])
            cast.attr["SrcT"].type, cast.attr["DstT"].type = dtype.as_datatype_enum, spec.dtype.as_datatype_enum
    return changed


def with_gradients(graph_def: tf.compat.v1.GraphDef, rules: Mapping[str, str]) -> tf.compat.v1.GraphDef:
    """Return a copy of a graph with other gradients, the names of registered ones by node name."""
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for node in changed.node:
        if node.name in rules:
            node.attr["_gradient_op_type"].s = rules[node.name].encode()
    return changed


def constant(nodes: Any, weights: Any, name: str, value: Any) -> str:
    """Add a constant to the ``nodes`` of a ``GraphDef``, an array of floats to ``weights`` instead; return its name."""
    value = np.asarray(value)
    dtype = tf.as_dtype(value.dtype)
    node = nodes.add(name=name, op="Const")
    node.attr["dtype"].type = dtype.as_datatype_enum
    if value.size >= WEIGHT and dtype.is_floating:
        set_placeholder(node, dtype, value.shape)
        weights[name] = tf.constant(value)
    else:
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return name


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
    body, flat = tf_internals.function_body(function)
    arguments = [argument.name for argument in function.signature.input_arg]
    given = dict(zip(arguments, (name for name in call.input if not name.startswith("^")), strict=True))
    for inner in body.node:
        if inner.name not in given:
            copy = result.node.add()
            copy.CopyFrom(inner)
            copy.name = f"{call.name}/{inner.name}"
            del copy.input[:]
            copy.input.extend(_outside(tensor, call.name, given) for tensor in inner.input)
    renamed = {}
    # The first output keeps the call's name, by which the rest of the graph refers to it.
    for number, output in enumerate(function.signature.output_arg):
        identity = result.node.add(name=f"{call.name}/output_{number}" if number else call.name, op="Identity")
        identity.attr["T"].type = output.type or call.attr["Tout"].list.type[number]
        identity.input.append(_outside(flat[function.ret[output.name]], call.name, given))
        if number:
            renamed[f"{call.name}:{number}"] = f"{identity.name}:0"
    return renamed


def _outside(tensor: str, prefix: str, given: Mapping[str, str]) -> str:
    """Return the name outside a function of a tensor inside it."""
    name = node_of(tensor)
    if tensor.startswith("^"):
        return f"^{node_of(given[name])}" if name in given else f"^{prefix}/{name}"
    return given[name] if name in given else f"{prefix}/{tensor}"
