"""Read a SavedModel and make of it one graph without variables, calls or control edges, its weights beside it.

The interface of this project is the SavedModel directory, not a Keras object: whatever wrote it
(``keras.Model.export``, ``tf.saved_model.save``, TensorFlow 1), explanations are computed from the file alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed, shortened
from attribution.files import find_saved_model
from attribution.graph import view as graph_view
from attribution.graph._tf_internals import UnliftableError, convert_to_constants, without_collection
from attribution.graph.view import GraphView, inline_calls, node_of, pure_subgraph, set_placeholder
from attribution.model import _gradient_support
from attribution.model.loader import SavedFile


@dataclasses.dataclass(frozen=True)
class FrozenModel:
    """One signature of a SavedModel as a pure graph.

    Attributes
    ----------
    graph : attribution.graph.view.GraphView
        Nodes that the output depends on, functions inlined, constants and weights in place of variables.
    inputs
        Name of an input as the signature calls it, to its ``tf.TensorSpec`` (batch axis first).
    input_nodes
        The same names to the placeholder's node name.
    output
        Tensor name of the chosen output.
    output_shape
        Its shape as the file says it.
    aliases
        Names of identities of a TensorFlow 1 file, whole and by their last component, to the node whose values they
        repeat. Freezing removes identities, and TensorFlow 1 networks like to name their layers by them.
    loaded
        The function as it was loaded, from one tensor per input to the output, where the graph's gradients are not
        known to be the file's; else ``None``.
    inexact
        The operation for which they are not, as a message says it.
    held
        What must live as long as the graph: tables that it looks things up in.
    numbered
        Whether the name scope of every layer ends in a number that the layer's name has not, as Keras 3 writes it.
    """

    graph: GraphView
    inputs: dict[str, tf.TensorSpec]
    input_nodes: dict[str, str]
    output: str
    output_shape: tf.TensorShape
    aliases: dict[str, str]
    loaded: Callable[..., Any] | None = None
    inexact: str | None = None
    held: object = None
    numbered: bool = False


def fingerprint(directory: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a SavedModel's graph, variables and assets as 64 hexadecimal digits."""
    directory = find_saved_model(directory)
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory)
        if path.is_file() and relative.parts[0] in ("saved_model.pb", "variables", "assets"):
            digest.update(relative.as_posix().encode() + b"\0")
            digest.update(path.read_bytes())
    return digest.hexdigest()


def load(path: str | os.PathLike[str], signatures: Iterable[str] | None = None, tensors: Iterable[str] = ()) -> Any:
    """Load what some signatures of a SavedModel (tag ``serve``) use, with its variables.

    Parameters
    ----------
    path
        See ``find_saved_model``.
    signatures
        Names of signatures; by default all.
    tensors
        Of a TensorFlow 1 file: names of tensors that are loaded too, such as ``"dense:0"``.

    Returns
    -------
    object
        As ``tf.saved_model.load`` returns it, without what the signatures do not use.

    Raises
    ------
    BadInput
        If the file cannot be read, or would do more than compute (``attribution.model.op_allowlist``).
    """
    return _load(SavedFile(find_saved_model(path)), path, signatures, tensors)


def _load(file: SavedFile, path: Any, signatures: Iterable[str] | None = None, tensors: Iterable[str] = ()) -> Any:
    try:
        return file.load(signatures, tensors)
    except BadInput:
        raise
    except Exception as error:  # a damaged file fails in many ways, all of them meaning the same to the user
        raise BadInput(f"'{path}' cannot be read as a SavedModel with the tag 'serve': {_gist(error)}") from error


@without_collection()
def freeze(
    path: str | os.PathLike[str],
    signature: str | None = None,
    inputs: Any = None,
    output: str | None = None,
    loaded: Any = None,
) -> FrozenModel:
    """Load a SavedModel and freeze one signature, or one pair of tensors, of it.

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
    loaded
        What ``load`` gave of the path, where it is there already; its variables count as they are now.

    Raises
    ------
    BadInput
        If the file cannot be read, or the signature, input or output does not exist or is ambiguous.
    """
    _check_names(signature, inputs, output)
    if loaded is None:
        loaded = _load_chosen(path, signature, inputs, output)
    function, input_names, chosen, place = _chosen_function(loaded, path, signature, inputs, output)

    graph_def, weights, renamed, state = _without_variables(function)
    tensor = function.outputs[place].name
    tensor = renamed.get(tensor, tensor)
    placeholders = function.inputs[: len(input_names)]
    nodes = [placeholder.op.name for placeholder in placeholders]
    specs = {
        name: tf.TensorSpec(placeholder.shape, placeholder.dtype)
        for name, placeholder in zip(input_names, placeholders, strict=True)
    }
    pure = pure_subgraph(graph_def, [tensor], keep=nodes)
    by_name = () if inputs else input_names
    _check_computes(path, pure, state, lambda: _leaves_state(function, placeholders, by_name))
    view = GraphView(pure, weights)
    inexact = _gradient_support.first_inexact(view, nodes, tensor)
    if inexact:
        view = GraphView(pure)  # the loaded function has the weights

    def as_loaded(*arrays: Any) -> Any:
        return function(**dict(zip(by_name, arrays, strict=True)))[chosen] if by_name else function(*arrays)[0]

    return FrozenModel(
        graph=view,
        inputs=specs,
        input_nodes=dict(zip(input_names, nodes, strict=True)),
        output=tensor,
        output_shape=function.outputs[place].shape,
        aliases=_identities(loaded.graph) if hasattr(loaded, "prune") else {},
        loaded=as_loaded if inexact else None,
        inexact=inexact,
        numbered=_is_numbered(function, graph_def),
        held=loaded if inexact or any(weight.dtype == tf.resource for weight in view.weights.values()) else None,
    )


def _chosen_function(
    loaded: Any, path: Any, signature: str | None, inputs: Any, output: str | None
) -> tuple[Any, list[str], str, int]:
    """Return a concrete function, the names of its inputs, and the name and place of the output to explain."""
    if inputs:
        function, input_names, output_names = _prune(loaded, path, list(inputs), output)
    else:
        function, input_names, output_names = _signature(loaded, path, signature)
        if output is None and len(output_names) > 1:
            choice = f"choose one with output= (--output_tensor=): {listed(output_names)}"
            raise BadInput(f"'{path}' has several outputs; {choice}")
    chosen = output or output_names[0]
    if chosen not in output_names:
        raise BadInput(f"'{path}' has no output '{chosen}'; its outputs are {listed(output_names)}")
    return function, input_names, chosen, output_names.index(chosen)


def _check_computes(
    path: Any, graph_def: tf.compat.v1.GraphDef, state: Collection[str], leaves_state: Callable[[], bool]
) -> None:
    """Raise ``BadInput`` for a graph that cannot be differentiated or gives other scores at every call.

    ``leaves_state`` returns whether calls leave the ``state`` as it was; it is called if nothing else is random.
    """
    if frame := next((node.name for node in graph_def.node if node.op in ("Enter", "RefEnter")), None):
        raise BadInput(
            f"'{path}' has a loop of TensorFlow 1's control flow ('{frame}'), which cannot be differentiated once "
            "loaded; export it after tf.compat.v1.enable_control_flow_v2()"
        )
    random = _gradient_support.first_random(graph_def, state)
    if random and not _gradient_support.first_random(graph_def, ()) and leaves_state():
        return  # an export on JAX writes the state of a trained network back as it was
    if random:
        raise BadInput(
            f"'{path}' gives other scores at every call, because of {random}; export it for inference, with dropout "
            "and augmentation off"
        )


def _leaves_state(function: Any, inputs: Any, names: Sequence[str]) -> bool:
    """Tell whether calls on random inputs leave every variable of a function as it was, to the bit.

    Names are those of a signature's inputs; empty where they go by their place.
    """
    generator = np.random.default_rng(0)
    arrays = []
    for tensor in inputs:
        shape = [2 if size is None else size for size in (tensor.shape if tensor.shape.rank is not None else ())]
        if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
            return False
        numbers = generator.normal(size=shape) if tensor.dtype.is_floating else np.zeros(shape)
        arrays.append(tf.cast(tf.constant(numbers), tensor.dtype))
    before = [variable.numpy() for variable in function.variables]
    try:
        for _ in range(2):
            function(**dict(zip(names, arrays, strict=True))) if names else function(*arrays)
    except (TypeError, ValueError, tf.errors.OpError):
        return False
    after = [variable.numpy() for variable in function.variables]
    return all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def _without_variables(function: Any) -> tuple[tf.compat.v1.GraphDef, dict[str, Any], dict[str, str], set[str]]:
    """Take the variables and calls out of a function.

    Returns
    -------
    graph_def
        The function's graph without variables and calls.
    weights
        Tensors of the graph's placeholders, by node name.
    renamed
        New names of the function's tensors where they have changed.
    state
        Nodes that read what the graph itself writes.
    """
    variables = {id(variable.handle): variable for variable in function.graph.variables}
    captured = {placeholder.op.name: variables.get(id(handle)) for handle, placeholder in function.graph.captures}
    arrays = {name for name, variable in captured.items() if variable is not None and _is_array(variable)}
    converted = _converter(function, kept=arrays)
    sources = _identity_sources(converted.graph_def)
    # What is read as a whole can stay a tensor; what is passed to a loop or looked up row by row is left to the
    # conversion to constants, and taken out of the graph afterwards. What is written to cannot be a constant.
    written, used_otherwise = _written_and_used(converted.graph_def, sources)
    written &= set(captured)
    kept = (arrays - used_otherwise) | written
    if kept != arrays:
        converted = _converter(function, kept=kept)
    graph_def, indices = convert_to_constants._replace_variables_by_constants(converted)
    _retype_outputs_of_loops(graph_def)
    if graph_def.library.function:  # TensorFlow has to know the changed functions; else this is slow and for nothing
        convert_to_constants._construct_concrete_function(function, graph_def, indices)
    graph_def, renamed = inline_calls(graph_def)
    _gradient_support.restore(graph_def)
    tables = {
        placeholder.op.name: handle
        for handle, placeholder in function.graph.captures
        if captured[placeholder.op.name] is None and handle.dtype == tf.resource
    }
    read = {
        node.name: sources(node.input[0])
        for node in graph_def.node
        if node.op == "ReadVariableOp" and sources(node.input[0]) in kept
    }
    weights = _take_weights(graph_def, {name: captured[variable] for name, variable in read.items()})
    return graph_def, tables | weights, renamed, {name for name in read if read[name] in written}


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


def _written_and_used(graph_def: tf.compat.v1.GraphDef, sources: Callable[[str], str]) -> tuple[set[str], set[str]]:
    """Return the nodes that the graph writes to, and those that it uses otherwise than by reading them as a whole."""
    written = {sources(node.input[0]) for node in graph_def.node if node.op in _WRITES and node.input}
    used = {
        sources(name) for node in graph_def.node if node.op not in ("ReadVariableOp", "Identity") for name in node.input
    }
    return written, used


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


# Operations that write to a variable.
_WRITES = (
    "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "RngReadAndSkip", "RngSkip",
    "StatefulUniform", "StatefulStandardNormalV2", "StatefulRandomBinomial", "StatefulTruncatedNormal",
)  # fmt: skip


def _is_array(variable: Any) -> bool:
    return variable.dtype.is_floating and (variable.shape.num_elements() or 0) >= graph_view.WEIGHT


def _converter(function: Any, kept: Collection[str]) -> Any:
    return convert_to_constants._FunctionConverterDataInEager(
        function, lower_control_flow=False, aggressive_inlining=False, variable_names_denylist=kept
    )


def _identity_sources(graph_def: tf.compat.v1.GraphDef) -> Callable[[str], str]:
    """Return the function from an input entry to the node whose value it is, identities left aside."""
    behind = {node.name: node.input[0] for node in graph_def.node if node.op == "Identity"}

    def source(name: str) -> str:
        name = node_of(name)
        while name in behind:
            name = node_of(behind[name])
        return name

    return source


def default_signature(names: Iterable[str]) -> str | None:
    """Return the signature that is explained by default, or ``None`` if there is a choice."""
    names = list(names)
    known = [name for name in ("serving_default", "serve") if name in names]
    return known[0] if known else names[0] if len(names) == 1 else None


def _check_names(signature: Any, inputs: Any, output: Any) -> None:
    """Raise ``BadInput`` where what should be a name, or a list of names, is of another type."""
    for what, name in (("signature", signature), ("output", output)):
        if not isinstance(name, (str, type(None))):
            raise BadInput(f"{what} must be a name, not {name!r}")
    if isinstance(inputs, (list, tuple)) and all(isinstance(name, str) for name in inputs):
        if len(set(inputs)) < len(inputs):
            raise BadInput(f"inputs names a tensor twice: {listed(inputs)}")
    elif inputs is not None:
        raise BadInput(f"inputs must be a list of tensors' names, such as ['input_tensor:0'], not {inputs!r}")


def _load_chosen(path: Any, signature: str | None, inputs: Sequence[str], output: str | None) -> Any:
    """Load what a signature or some tensors need of a file; see ``freeze``."""
    file = SavedFile(find_saved_model(path))
    if file.has_objects and not file.signatures:
        raise BadInput(f"'{path}' has no signature; export it with keras.Model.export, or with a signature")
    if file.has_objects and inputs:
        raise BadInput(f"inputs= names tensors of a TensorFlow 1 file, and '{path}' is none; leave it out")
    if inputs:
        return _load(file, path, [], [*inputs, *([output] if output else [])])
    return _load(file, path, [_chosen_signature(file.signatures, path, signature)], ())


def _chosen_signature(available: Mapping[str, Any], path: Any, name: str | None) -> str:
    """Return the name of the signature to explain."""
    if not available:
        raise BadInput(
            f"'{path}' has no signature; name its tensors, as in inputs=['input_tensor:0'], output='dense:0', "
            "or export it with keras.Model.export"
        )
    chosen = name or default_signature(available)
    if chosen is None or chosen not in available:
        wanted = f"has no signature '{name}'" if name else "has several signatures; choose one with signature="
        raise BadInput(f"'{path}' {wanted}; its signatures are {listed(available)}")
    if isinstance(available, dict) and available[chosen].composite:
        raise BadInput(
            f"signature '{chosen}' of '{path}' takes the ragged or sparse tensor '{available[chosen].composite}', "
            "whose rows have no common shape; export a signature that takes a dense (padded) tensor"
        )
    return chosen


def _signature(loaded: Any, path: Any, name: str | None) -> tuple[Any, list[str], list[str]]:
    """Return a signature's concrete function with the names of its inputs and outputs, in tensor order."""
    name = _chosen_signature(loaded.signatures, path, name)
    function = loaded.signatures[name]
    # Nested structures are flattened in the order of their sorted keys.
    input_names = sorted(function.structured_input_signature[1])
    if not input_names:
        raise BadInput(f"signature '{name}' of '{path}' takes no input")
    return function, input_names, sorted(function.structured_outputs)


def _prune(loaded: Any, path: Any, inputs: list[str], output: str | None) -> tuple[Any, list[str], list[str]]:
    """Return the function between named tensors of a TensorFlow 1 SavedModel."""
    if not hasattr(loaded, "prune"):
        raise BadInput(f"'{path}' is not a TensorFlow 1 file: address it by signature=, not by tensor names")
    if output is None:
        raise BadInput("inputs= names tensors, so output= must name one too, as in 'resnet_model/final_dense:0'")
    try:
        function = loaded.prune(inputs, [output])
    except (KeyError, ValueError, UnliftableError) as error:
        names = SavedFile(find_saved_model(path)).placeholders()
        raise BadInput(
            f"'{path}': {_gist(error)}; its placeholders are {listed(names)}, inputs= names those needed"
        ) from error
    return function, [name.split(":")[0] for name in inputs], [output]


def _identities(imported: Any) -> dict[str, str]:
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


def _is_numbered(function: Any, graph_def: tf.compat.v1.GraphDef) -> bool:
    """Return whether name scopes are layers' names with a number added, by the layers that have variables."""
    layers = {variable.name.split("/")[-2] for variable in function.graph.variables if "/" in variable.name}
    scopes = {component for node in graph_def.node for component in node.name.split("/")[:-1]}
    numbered = {match[1] for match in (re.fullmatch(r"(.+)_\d+", scope) for scope in scopes) if match}
    return bool(layers & numbered) and not (layers - numbered) & scopes


def _gist(error: Exception) -> str:
    """Return the first words of an exception that may be pages long."""
    return shortened(re.sub(r"\{\{function_node .*?\}\}", "", str(error))) or type(error).__name__
