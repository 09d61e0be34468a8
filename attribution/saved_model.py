"""Read a SavedModel and make of it one graph without variables, calls or control edges, its weights beside it.

The interface of this project is the SavedModel directory, not a Keras object: whatever wrote it
(``keras.Model.export``, ``tf.saved_model.save``, TensorFlow 1), explanations are computed from the file alone.
This file is the only one that touches TensorFlow's graph internals.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib

import tensorflow as tf

# Not public API; tests/attribution/test_saved_model.py names the TensorFlow versions it was tried on.
from tensorflow.python.framework import convert_to_constants

from attribution import graph_nodes, trust
from attribution.graph import GraphView
from attribution_benchmarks.command_line import BadInput, listed


@dataclasses.dataclass(frozen=True)
class FrozenModel:
    """One signature of a SavedModel as a pure graph.

    Attributes
    ----------
    graph : attribution.graph.GraphView
        Nodes that the output depends on, functions inlined, constants and weights in place of variables.
    inputs
        Name of an input as the signature calls it, to its ``tf.TensorSpec`` (batch axis first).
    input_nodes
        The same names to the placeholder's node name.
    output
        Tensor name of the chosen output.
    aliases
        Names of identities of a TensorFlow 1 file, whole and by their last component, to the node whose values they
        repeat. Freezing removes identities, and TensorFlow 1 networks like to name their layers by them.
    """

    graph: GraphView
    inputs: dict[str, tf.TensorSpec]
    input_nodes: dict[str, str]
    output: str
    aliases: dict[str, str]


def find_saved_model(path) -> pathlib.Path:
    """Return the directory that holds ``saved_model.pb``.

    Parameters
    ----------
    path
        That directory itself, or a parent with numbered versions (``.../1/``), of which the highest is taken.

    Raises
    ------
    BadInput
        If there is no SavedModel.
    """
    directory = pathlib.Path(path)
    if (directory / "saved_model.pb").is_file():
        return directory
    if directory.is_dir():
        versions = [
            child for child in directory.iterdir() if child.name.isdecimal() and (child / "saved_model.pb").is_file()
        ]
        if versions:
            return max(versions, key=lambda child: int(child.name))
        raise BadInput(
            f"'{path}' is not a SavedModel: no saved_model.pb in it or in a numbered version directory below it"
        )
    if directory.is_file():
        raise BadInput(
            f"'{path}' is a file; a SavedModel is a directory, which keras.Model.export or tf.saved_model.save writes"
        )
    raise BadInput(f"'{path}' does not exist; a directory with saved_model.pb is needed")


def fingerprint(directory) -> str:
    """Return the SHA-256 of a SavedModel's graph, variables and assets as 64 hexadecimal digits."""
    directory = find_saved_model(directory)
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory)
        if path.is_file() and relative.parts[0] in ("saved_model.pb", "variables", "assets"):
            digest.update(relative.as_posix().encode() + b"\0")
            digest.update(path.read_bytes())
    return digest.hexdigest()


def freeze(path, signature=None, inputs=None, output=None) -> FrozenModel:
    """Load a SavedModel (tag ``serve``) and freeze one signature, or one pair of tensors, of it.

    Parameters
    ----------
    path
        See ``find_saved_model``.
    signature
        Name of the signature; by default ``serving_default``, ``serve``, or the only one.
    inputs
        For a TensorFlow 1 file without a fitting signature: tensor names such as ``["input_tensor:0"]``.
    output
        Name of one of the signature's outputs; with ``inputs``, a tensor name such as ``"dense:0"``.

    Raises
    ------
    BadInput
        If the file cannot be read, or the signature, input or output does not exist or is ambiguous.
    """
    directory = find_saved_model(path)
    trust.check(directory)
    try:
        loaded = tf.saved_model.load(str(directory), tags=["serve"])
    except Exception as error:  # a damaged file fails in many ways, all of them meaning the same to the user
        raise BadInput(f"'{path}' cannot be read as a SavedModel with the tag 'serve': {_gist(error)}") from error
    if inputs:
        function, input_names, output_names = _prune(loaded, path, list(inputs), output)
    else:
        function, input_names, output_names = _signature(loaded, path, signature)
        if output is None and len(output_names) > 1:
            raise BadInput(f"'{path}' has several outputs; choose one with output=: {listed(output_names)}")
    chosen = output or output_names[0]
    if chosen not in output_names:
        raise BadInput(f"'{path}' has no output '{chosen}'; its outputs are {listed(output_names)}")

    frozen, graph_def, weights = _without_variables(function)
    tensor = frozen.outputs[output_names.index(chosen)].name
    nodes = [tensor_.name.split(":")[0] for tensor_ in frozen.inputs[: len(input_names)]]
    specs = {
        name: tf.TensorSpec(tensor_.shape, tensor_.dtype)
        for name, tensor_ in zip(input_names, frozen.inputs, strict=False)
    }
    return FrozenModel(
        graph=GraphView(graph_nodes.pure_subgraph(graph_def, [tensor], keep=nodes), weights),
        inputs=specs,
        input_nodes=dict(zip(input_names, nodes, strict=True)),
        output=tensor,
        aliases=_identities(loaded.graph) if hasattr(loaded, "prune") else {},
    )


def _without_variables(function):
    """Return a function and its graph with functions inlined and variables replaced, and the graph's weights."""
    variables = {id(variable.handle): variable for variable in function.graph.variables}
    large = {
        placeholder.op.name: variables[id(handle)]
        for handle, placeholder in function.graph.captures
        if id(handle) in variables and _is_large(variables[id(handle)])
    }
    converted = _converter(function, kept=set(large))
    sources = _identity_sources(converted.graph_def)
    # What is read as a whole can stay a tensor; what is passed to a loop or looked up row by row is left to the
    # conversion to constants, and taken out of the graph afterwards.
    used_otherwise = {
        sources(name)
        for node in converted.graph_def.node
        if node.op not in ("ReadVariableOp", "Identity")
        for name in node.input
    }
    if used_otherwise & set(large):
        converted = _converter(function, kept=set(large) - used_otherwise)
    graph_def, indices = convert_to_constants._replace_variables_by_constants(converted)
    frozen = convert_to_constants._construct_concrete_function(function, graph_def, indices)
    weights = {}
    for node in graph_def.node:
        if node.op == "ReadVariableOp":
            weights[node.name] = large[sources(node.input[0])].read_value()
        elif node.op == "Const" and node.attr["value"].tensor.ByteSize() >= graph_nodes.WEIGHT:
            value = tf.constant(tf.make_ndarray(node.attr["value"].tensor))
            if value.dtype.is_floating:
                weights[node.name] = value
        if node.name in weights:
            graph_nodes.set_placeholder(node, weights[node.name].dtype, weights[node.name].shape)
    return frozen, graph_def, weights


def _is_large(variable) -> bool:
    size = variable.shape.num_elements()
    return variable.dtype.is_floating and size is not None and size * variable.dtype.size >= graph_nodes.WEIGHT


def _converter(function, kept):
    return convert_to_constants._FunctionConverterDataInEager(
        function, lower_control_flow=False, aggressive_inlining=False, variable_names_denylist=kept
    )


def _identity_sources(graph_def):
    """Return the function from an input entry to the node whose value it is, identities left aside."""
    behind = {node.name: node.input[0] for node in graph_def.node if node.op == "Identity"}

    def source(name):
        name = graph_nodes.node_of(name)
        while name in behind:
            name = graph_nodes.node_of(behind[name])
        return name

    return source


def _signature(loaded, path, name):
    """Return a signature's concrete function with the names of its inputs and outputs, in tensor order."""
    available = list(loaded.signatures)
    if not available:
        raise BadInput(
            f"'{path}' has no signature; name its tensors, as in inputs=['input_tensor:0'], output='dense:0', "
            "or export it with keras.Model.export"
        )
    if name is None:
        name = next((known for known in ("serving_default", "serve") if known in available), None)
        if name is None and len(available) == 1:
            name = available[0]
    if name not in available:
        wanted = f"has no signature '{name}'" if name else "has several signatures; choose one with signature="
        raise BadInput(f"'{path}' {wanted}; its signatures are {listed(available)}")
    function = loaded.signatures[name]
    # Nested structures are flattened in the order of their sorted keys.
    input_names = sorted(function.structured_input_signature[1])
    if not input_names:
        raise BadInput(f"signature '{name}' of '{path}' takes no input")
    return function, input_names, sorted(function.structured_outputs)


def _prune(loaded, path, inputs, output):
    """Return the function between named tensors of a TensorFlow 1 SavedModel."""
    if not hasattr(loaded, "prune"):
        raise BadInput(f"'{path}' is not a TensorFlow 1 file: address it by signature=, not by tensor names")
    if output is None:
        raise BadInput("inputs= names tensors, so output= must name one too, as in 'resnet_model/final_dense:0'")
    try:
        function = loaded.prune(inputs, [output])
    except (KeyError, ValueError) as error:
        names = [op.name + ":0" for op in loaded.graph.get_operations() if op.type == "Placeholder"]
        raise BadInput(f"'{path}': {_gist(error)}; its placeholders are {listed(names)}") from error
    return function, [name.split(":")[0] for name in inputs], [output]


def _identities(imported) -> dict[str, str]:
    """Return name -> node behind it, for every identity of a graph."""
    aliases = {}
    for operation in imported.get_operations():
        behind = operation
        while behind.type == "Identity":
            behind = behind.inputs[0].op
        if behind is not operation:
            aliases.setdefault(operation.name.split("/")[-1], behind.name)
            aliases[operation.name] = behind.name
    return aliases


def _gist(error: Exception, limit: int = 160) -> str:
    """Return the first words of an exception that may be pages long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."
