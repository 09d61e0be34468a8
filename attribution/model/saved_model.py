"""Read a SavedModel and make of it one graph without variables, calls or control edges, its weights beside it.

The interface of this project is the SavedModel directory, not a Keras object: whatever wrote it
(``keras.Model.export``, ``tf.saved_model.save``, TensorFlow 1), explanations are computed from the file alone.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed, shortened
from attribution.graph import view as graph_view
from attribution.graph._tf_internals import (
    UnliftableError,
    convert_to_constants,
    operation_definition,
    without_collection,
)
from attribution.graph.view import (
    MODULE,
    GraphView,
    Untranslatable,
    inline_calls,
    node_of,
    pure_subgraph,
    set_placeholder,
)
from attribution.model import _given_values, _gradient_support
from attribution.model._loading_checks import random_arrays
from attribution.model.batching import Expected, checked_feed
from attribution.model.loader import SavedFile, Signature
from attribution.model_paths import content_of, find_saved_model


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
        Its shape as the file says it, or as two runs show it.
    aliases
        Names of identities of a TensorFlow 1 file, whole and by their last component, to the node whose values they
        repeat. Freezing removes identities, and TensorFlow 1 networks like to name their layers by them.
    loaded
        The function as it was loaded, from one tensor per input to the output, where the graph's gradients are not
        known to be the file's; else ``None``.
    inexact
        The operation for which they are not, as a message says it.
    other_outputs
        Names of the signature's other outputs.
    held
        What must live as long as the graph: tables that it looks things up in.
    numbered
        Whether the name scope of every layer ends in a number that the layer's name has not, as Keras 3 writes it.
    compared
        Of a translated module of JAX or PyTorch: returns what the graph computes otherwise, its gradient included.
    kept
        Why a module is not translated; empty if there is none.
    """

    graph: GraphView
    inputs: dict[str, tf.TensorSpec]
    input_nodes: dict[str, str]
    output: str
    output_shape: tf.TensorShape
    aliases: dict[str, str]
    loaded: Callable[..., Any] | None = None
    inexact: str | None = None
    other_outputs: tuple[str, ...] = ()
    held: object = None
    numbered: bool = False
    compared: Callable[..., str] | None = None
    kept: str = ""


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


def _load(
    file: SavedFile,
    path: Any,
    signatures: Iterable[str] | None = None,
    tensors: Iterable[str] = (),
    inputs: Iterable[str] = (),
) -> Any:
    try:
        return file.load(signatures, tensors, inputs)
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
    given: Any = None,
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
    given
        Name to value of inputs that are constants from now on.

    Raises
    ------
    BadInput
        If the file cannot be read, or the signature, input or output does not exist or is ambiguous.
    """
    _check_names(signature, inputs, output)
    file, content = None, ""
    if loaded is None:
        file = SavedFile(find_saved_model(path))
        content = _content(file, given)
        loaded = _load_chosen(file, path, signature, inputs, output)
    function, placeholders, chosen, result = _chosen_function(loaded, path, signature, inputs, output)
    declared = Signature({}, {}) if inputs else _declaration(file, loaded, path, signature, placeholders, result)
    specs, fixed = _open_and_fixed(path, placeholders, declared, given)
    nodes = {name: placeholders[name].op.name for name in specs}
    call = _caller(function, placeholders, fixed, chosen, by_name=not inputs)
    constants = {placeholders[name].op.name: value for name, value in fixed.items()}
    as_view = functools.partial(_as_view, path, function, placeholders, specs, constants, result.name, call)
    names = list(nodes.values())
    if _has_modules(function):
        source = (file and file.directory, content, signature, inputs, output, specs)
        view, tensor, kept, compared = _translated(as_view, names, specs, call, source)
    else:
        (view, tensor), kept, compared = as_view(translated=False), "", None
    inexact = _gradient_support.first_inexact(view, names, tensor)
    if kept:
        inexact = f"{inexact or MODULE}, which is not translated: {kept}"
    return FrozenModel(
        graph=GraphView(view.graph_def) if inexact else view,  # the loaded function has the weights
        inputs=specs,
        input_nodes=nodes,
        output=tensor,
        output_shape=_output_shape(result, declared.outputs.get(chosen), specs.values(), call),
        aliases=_identities(loaded),
        loaded=call if inexact else None,
        other_outputs=tuple(name for name in declared.outputs if name != chosen),
        inexact=inexact,
        numbered=_is_numbered(function, view.graph_def),
        held=loaded if inexact or compared or _has_tables(view) else None,
        compared=compared,
        kept=kept,
    )


def _content(file: SavedFile, given: Any) -> str:
    """Return a file's content for ``_module_check.remembered``: empty without a module, or with inputs given."""
    return "" if given or MODULE not in file.operations else content_of(file.directory)


def _translated(
    as_view: Callable[..., tuple[GraphView, str]],
    inputs: Sequence[str],
    specs: Mapping[str, tf.TensorSpec],
    call: Callable[..., Any],
    source: Sequence[Any],
) -> tuple[GraphView, str, str, Callable[..., str] | None]:
    """Return a function's graph with its modules translated, and what compares it with the file.

    Where a graph in which layers were recognized gives something else, it is used without. Where a module cannot be
    translated, or gives something else then, it stays, and the third value says why. ``source`` has the arguments of
    ``_module_check.remembered``.
    """
    from attribution.model import _module_check  # few files have a module

    kept = ""
    for recognized in (True, False):
        try:
            view, tensor = as_view(translated=True, recognized=recognized)
        except Untranslatable as error:
            return *as_view(translated=False), f"{error} has no translation", None
        compared = functools.partial(_module_check.difference, view, inputs, tensor, specs, call)
        if (difference := _module_check.remembered(compared, *source, recognized)) in _module_check.MATCHES:
            return view, tensor, "", compared
        kept = kept or difference
    return *as_view(translated=False), kept, None


def _as_view(
    path: Any,
    function: Any,
    placeholders: Mapping[str, Any],
    specs: Mapping[str, tf.TensorSpec],
    constants: Mapping[str, np.ndarray],
    output: str,
    call: Callable[..., Any],
    translated: bool,
    recognized: bool = False,
) -> tuple[GraphView, str]:
    """Return a function as a pure graph, and the output's name in it.

    Parameters
    ----------
    path, function, placeholders
        The file, its function, and the tensors of its inputs by name.
    specs
        The inputs that stay.
    constants
        Values of the others, by node name.
    output
        The function's tensor.
    call
        The function from the inputs that stay to that output.
    translated
        Whether modules of JAX and PyTorch become operations of TensorFlow.
    recognized
        Whether layers are recognized among these.
    """
    nodes = {name: placeholders[name].op.name for name in specs}
    graph_def, weights, renamed, state = _without_variables(function, constants, translated)
    tensor = renamed.get(output, output)
    pure = pure_subgraph(graph_def, [tensor], keep=nodes.values())
    if any(node.op == "DecodeCSV" for node in pure.node):
        raise BadInput(f"'{path}' parses CSV by DecodeCSV; export a signature that takes the columns as numbers")
    pure = _with_columns(pure)
    pure = _given_values.without_idle_noise(pure, tensor)

    def leaves_state() -> bool:
        from attribution.model import _module_check  # few files write to their variables

        compared = functools.partial(_module_check.difference, GraphView(pure, weights), list(nodes.values()), tensor)
        left = _leaves_state(function.variables, specs.values(), call)
        return left and compared(specs, call) != _module_check.OTHER_SCORES  # as of what is changed and changed back

    if random := _first_random(path, pure, state, leaves_state):
        _refuse_random(path, random, _given_values.settling(graph_def, specs, nodes, tensor))
    _check_ranks(path, specs)
    _declare_ranks(pure, specs, placeholders)
    return GraphView(_recognized(pure, weights, tensor) if recognized else pure, weights), tensor


def _recognized(graph_def: Any, weights: dict[str, Any], output: str) -> Any:
    """Return a translated graph with its layers recognized, or as it is if it has a form that was not expected."""
    from attribution.graph.recognize import recognize  # few files have a module

    try:
        return recognize(graph_def, weights, [output])
    except (ArithmeticError, LookupError, TypeError, ValueError, tf.errors.OpError):
        return graph_def


def _has_modules(function: Any) -> bool:
    definition = function.graph.as_graph_def()
    bodies = [definition.node, *(body.node_def for body in definition.library.function)]
    return any(node.op == MODULE for body in bodies for node in body)


def _has_tables(graph: GraphView) -> bool:
    return any(weight.dtype == tf.resource for weight in graph.weights.values())


def _declared(tensor: Any, declared: tf.TensorSpec | None) -> tf.TensorSpec:
    """Return shape and type of a tensor of the graph, with the sizes that the signature alone knows."""
    if declared is not None and tensor.shape.is_compatible_with(declared.shape):
        return tf.TensorSpec(tensor.shape.merge_with(declared.shape), tensor.dtype)
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def _declaration(
    file: SavedFile | None, loaded: Any, path: Any, signature: str | None, placeholders: Mapping[str, Any], result: Any
) -> Signature:
    """Return a signature as its file declares it; without a ``file``, only where the tensors leave shapes open."""
    is_open = any(tensor.shape.rank is None for tensor in placeholders.values()) or not _shows_classes(result.shape)
    if file is None and not is_open:
        return Signature({}, {})
    file = file or SavedFile(find_saved_model(path))
    return file.signatures[_chosen_signature(loaded.signatures, path, signature)]


def _caller(
    function: Any, placeholders: Mapping[str, Any], fixed: Mapping[str, Any], output: str, by_name: bool
) -> Callable[..., Any]:
    """Return the function from the inputs that are not fixed to an output."""
    open_ = [name for name in placeholders if name not in fixed]

    def call(*arrays: Any) -> Any:
        values = {**fixed, **dict(zip(open_, arrays, strict=True))}
        ordered = {name: tf.convert_to_tensor(values[name], tensor.dtype) for name, tensor in placeholders.items()}
        return function(**ordered)[output] if by_name else function(*ordered.values())[0]

    return call


def _open_and_fixed(
    path: Any, placeholders: Mapping[str, Any], declared: Signature, given: Any
) -> tuple[dict[str, tf.TensorSpec], dict[str, np.ndarray]]:
    """Return the inputs that stay, and the values of those that a caller fixes, in the types that the file takes."""
    specs = {name: _declared(tensor, declared.inputs.get(name)) for name, tensor in placeholders.items()}
    if given is None:
        return specs, {}
    if not isinstance(given, Mapping) or not set(given) < set(specs):
        raise BadInput(
            f"given must be values of some inputs of '{path}' by name, as in given={{'training': False}}, not "
            f"{given!r}; its inputs are {listed(specs)}"
        )
    fixed = {}
    for name in given:
        shape, dtype = specs[name].shape, specs[name].dtype.as_numpy_dtype
        expected = Expected(dtype, shape.is_compatible_with, str(shape), is_single=True)
        fixed |= checked_feed({name: given[name]}, {name: expected}, f"'{path}'")
    return {name: spec for name, spec in specs.items() if name not in fixed}, fixed


def _check_ranks(path: Any, specs: Mapping[str, tf.TensorSpec]) -> None:
    for name, spec in specs.items():
        if spec.shape.rank is None:
            raise BadInput(
                f"input '{name}' of '{path}' has no declared rank; export it with its shape, as in "
                f"tf.TensorSpec((None, 8), tf.{spec.dtype.name}), or fix its value with given= (--given=)"
            )


def _declare_ranks(graph_def: Any, specs: Mapping[str, tf.TensorSpec], placeholders: Mapping[str, Any]) -> None:
    """Give the placeholders of unknown rank the shapes that the signature knows."""
    inputs = [(placeholders[name], spec) for name, spec in specs.items()]
    unknown = {placeholder.op.name: spec for placeholder, spec in inputs if placeholder.shape.rank is None}
    for node in graph_def.node:
        if node.name in unknown:
            set_placeholder(node, unknown[node.name].dtype, unknown[node.name].shape)


def _output_shape(
    output: Any, declared: tf.TensorSpec | None, specs: Iterable[tf.TensorSpec], call: Callable[..., Any]
) -> tf.TensorShape:
    """Return an output's shape: as inferred, as the signature declares it, and else as two runs show it."""
    shape = _declared(output, declared).shape
    if _shows_classes(shape):
        return shape
    try:
        first, second = (call(*_random_tensors(specs, rows, size)).shape for rows, size in ((2, 64), (3, 96)))
    except (TypeError, ValueError, tf.errors.OpError):
        return shape
    if first.rank != second.rank:
        return shape
    found = tf.TensorShape([one if one == other else None for one, other in zip(first, second, strict=True)])
    return shape.merge_with(found) if shape.is_compatible_with(found) else shape


def _shows_classes(shape: tf.TensorShape) -> bool:
    return shape.rank == 0 or (shape.rank is not None and shape[-1] is not None)


def _random_tensors(specs: Iterable[tf.TensorSpec], rows: int, size: int) -> list[tf.Tensor]:
    return [tf.constant(array) for array in random_arrays(specs, rows, size)]


def _chosen_function(
    loaded: Any, path: Any, signature: str | None, inputs: Any, output: str | None
) -> tuple[Any, dict[str, Any], str, Any]:
    """Return a concrete function, the tensors of its inputs by name, and the name and tensor of its output."""
    if not hasattr(loaded, "signatures"):
        raise BadInput(f"loaded must be what attribution.model.saved_model.load returned, not {loaded!r}")
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
    placeholders = dict(zip(input_names, function.inputs, strict=False))  # what follows are variables
    return function, placeholders, chosen, function.outputs[output_names.index(chosen)]


def _first_random(
    path: Any, graph_def: tf.compat.v1.GraphDef, state: Collection[str], leaves_state: Callable[[], bool]
) -> str | None:
    """Return why a graph gives other scores at every call, if it does; refuse one that cannot be differentiated.

    ``leaves_state`` returns whether calls leave the ``state`` as it was; it is called if nothing else is random.
    """
    if frame := next((node.name for node in graph_def.node if node.op in ("Enter", "RefEnter")), None):
        raise BadInput(
            f"'{path}' has a loop of TensorFlow 1's control flow ('{frame}'), which cannot be differentiated once "
            "loaded; export it after tf.compat.v1.enable_control_flow_v2()"
        )
    if writer := next((node for node in graph_def.node if _writes_to_reference(node)), None):
        raise BadInput(
            f"'{path}' changes a reference variable of TensorFlow 1 where it computes ('{writer.name}'); export it for "
            "inference, without that change"
        )
    random = _gradient_support.first_random(graph_def, state)
    if random and not _gradient_support.first_random(graph_def, ()) and leaves_state():
        return None
    return random


def _writes_to_reference(node: Any) -> bool:
    definition = operation_definition(node.op)
    return definition is not None and any(argument.is_ref for argument in definition.input_arg)


def _refuse_random(path: Any, random: str, settling: Mapping[str, Any]) -> None:
    """Raise ``BadInput`` for a file that is random, but for these values of inputs, if there are any."""
    condition, remedy = "", "export it for inference, with dropout and augmentation off"
    if random.endswith(_gradient_support.CHANGED):
        remedy += ", and recurrent layers without stateful=True"
    if settling:
        others = [
            f"'{name}' is {str(not value).lower() if isinstance(value, bool) else f'not {value}'}"
            for name, value in settling.items()
        ]
        condition = f" if {' or '.join(others)}"
        written = ",".join(f"{name}={value}" for name, value in settling.items())
        remedy = f"load it with given={settling!r} (--given={written})"
    raise BadInput(f"'{path}' gives other scores at every call{condition}, because of {random}; {remedy}")


def _leaves_state(variables: Iterable[Any], specs: Collection[tf.TensorSpec], call: Callable[..., Any]) -> bool:
    """Tell whether a call on random inputs leaves every variable as it was, to the bit."""
    if not all(spec.dtype.is_floating or spec.dtype.is_integer for spec in specs):
        return False
    arrays, variables = _random_tensors(specs, 2, 2), list(variables)
    before = [variable.read_value() for variable in variables]
    try:
        call(*arrays)
    except (TypeError, ValueError, tf.errors.OpError):
        return False
    pairs = zip(before, variables, strict=True)
    return all(bool(tf.reduce_all(one == variable.read_value())) for one, variable in pairs)


def _with_columns(graph_def: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Return a pure graph in which each column of numbers parsed from examples is a node with its name."""
    columns = {}
    nodes = {node.name: node for node in graph_def.node}
    for node in graph_def.node:
        for name, number in _columns_of(node, nodes):
            columns[f"{node.name}:{number}" if number else node.name] = (
                name if name not in nodes else f"{node.name}/{name}"
            )
    if not columns:
        return graph_def
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for node in changed.node:
        for position, tensor in enumerate(node.input):
            node.input[position] = columns.get(tensor.removesuffix(":0"), tensor)
    for tensor, name in columns.items():
        identity = changed.node.add(name=name, op="Identity", input=[tensor])
        identity.attr["T"].type = tf.float32.as_datatype_enum
    return changed


PARSING = ("ParseExample", "ParseExampleV2")  # operations from serialized examples to columns


def _columns_of(node: Any, nodes: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the columns of float32 that a node parses from examples: names, and numbers of outputs."""
    if node.op == "ParseExampleV2":
        sparse, keys = node.attr["num_sparse"].i, nodes[node_of(node.input[3])]
        names = tf.make_ndarray(keys.attr["value"].tensor) if keys.op == "Const" else []
    elif node.op == "ParseExample":
        sparse, first = node.attr["Nsparse"].i, 2 + node.attr["Nsparse"].i
        keys = [nodes[node_of(tensor)] for tensor in node.input[first : first + node.attr["Ndense"].i]]
        names = [tf.make_ndarray(key.attr["value"].tensor).item() for key in keys if key.op == "Const"]
    else:
        return []
    found = zip(names, node.attr["Tdense"].list.type, strict=False)
    return [(name.decode(), 3 * sparse + i) for i, (name, kind) in enumerate(found) if kind == tf.float32]


def _without_variables(
    function: Any, constants: Mapping[str, np.ndarray], translated: bool
) -> tuple[tf.compat.v1.GraphDef, dict[str, Any], dict[str, str], set[str]]:
    """Take the variables and calls out of a function.

    Parameters
    ----------
    function
        The function.
    constants
        Values of its inputs, by node name.
    translated
        Whether modules of JAX and PyTorch become operations of TensorFlow.

    Returns
    -------
    graph_def
        The function's graph without variables and calls.
    weights
        Tensors of the graph's placeholders, by node name.
    renamed
        New names of the function's tensors where they have changed.
    state
        Nodes that read what the graph itself writes, but for what it writes back as it was read.
    """
    variables = {id(variable.handle): variable for variable in function.graph.variables}
    captured = {placeholder.op.name: variables.get(id(handle)) for handle, placeholder in function.graph.captures}
    converted, kept = _conversion(function, captured)
    sources = _identity_sources(converted.graph_def)
    written = _written(converted.graph_def, sources)
    graph_def, indices = convert_to_constants._replace_variables_by_constants(converted)
    _retype_outputs_of_loops(graph_def)
    if graph_def.library.function:  # TensorFlow has to know the changed functions; else this is slow and for nothing
        convert_to_constants._construct_concrete_function(function, graph_def, indices)
    graph_def, renamed = inline_calls(_given_values.with_values(graph_def, constants))
    if translated:
        from attribution.graph import stablehlo  # few files have a module

        graph_def, lowered = stablehlo.lower(graph_def)
        renamed = {old: lowered.get(name, name) for old, name in renamed.items()} | lowered
    if constants or _has_choices(graph_def):
        graph_def = _given_values.take_branches(graph_def)
    _gradient_support.restore(graph_def)
    values = _identity_sources(graph_def)
    reads = {
        node.name: variable
        for node in graph_def.node
        if node.op == "ReadVariableOp" and (variable := values(node.input[0])) in kept
    }
    written &= _changed(graph_def, reads, values)
    state = {name for name, variable in reads.items() if variable in written}
    weights = _take_weights(graph_def, {name: captured[variable] for name, variable in reads.items()})
    return graph_def, _tables(function, captured) | weights, renamed, state


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


def _conversion(function: Any, captured: Mapping[str, Any]) -> tuple[Any, set[str]]:
    """Return TensorFlow's converter of a function to constants, and the variables it keeps.

    What is read as a whole can stay a tensor; what is passed to a loop or looked up row by row is left to the
    conversion to constants, and taken out of the graph afterwards. What is written to cannot be a constant.
    """
    arrays = {name for name, variable in captured.items() if variable is not None and _is_array(variable)}
    converted = _converter(function, kept=arrays)
    sources = _identity_sources(converted.graph_def)
    used_otherwise = {
        sources(name)
        for node in converted.graph_def.node
        if node.op not in ("ReadVariableOp", "Identity")
        for name in node.input
    }
    kept = (arrays - used_otherwise) | captured.keys() & _written(converted.graph_def, sources)
    return converted if kept == arrays else _converter(function, kept=kept), kept


def _has_choices(graph_def: tf.compat.v1.GraphDef) -> bool:
    """Return whether a graph has branches of TensorFlow 1, or something random that a branch could rule out."""
    return any(node.op == "Merge" for node in graph_def.node) or bool(_gradient_support.first_random(graph_def, ()))


def _tables(function: Any, captured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables that a function captures, and no variables, by node name."""
    handles = {placeholder.op.name: handle for handle, placeholder in function.graph.captures}
    return {name: one for name, one in handles.items() if captured[name] is None and one.dtype == tf.resource}


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


def _written(graph_def: tf.compat.v1.GraphDef, sources: Callable[[str], str]) -> set[str]:
    """Return the nodes that the graph writes to, or passes to a function where functions write."""
    written = {sources(node.input[0]) for node in graph_def.node if _writes(node) and node.input}
    if any(_writes(node) for body in graph_def.library.function for node in body.node_def):
        calls = [node for node in graph_def.node if any(value.HasField("func") for value in node.attr.values())]
        written |= {sources(name) for node in calls for name in node.input}
    return written


def _writes(node: Any) -> bool:
    return node.op in _WRITES or node.op.startswith(("ResourceApply", "ResourceScatter", "ResourceSparseApply"))


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
    "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceStridedSliceAssign",
    "RngReadAndSkip", "RngSkip",
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


def _load_chosen(file: SavedFile, path: Any, signature: str | None, inputs: Sequence[str], output: str | None) -> Any:
    """Load what a signature or some tensors need of a file; see ``freeze``."""
    if file.has_objects and not file.signatures:
        raise BadInput(f"'{path}' has no signature; export it with keras.Model.export, or with a signature")
    if file.has_objects and inputs:
        raise BadInput(f"inputs= names tensors of a TensorFlow 1 file, and '{path}' is none; leave it out")
    if inputs:
        return _load(file, path, [], [output] if output else [], inputs)
    return _load(file, path, [_chosen_signature(file.signatures, path, signature)])


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
    nodes = [name.split(":")[0] for name in inputs]
    return function, nodes if len(set(nodes)) == len(nodes) else inputs, [output]


def _identities(loaded: Any) -> dict[str, str]:
    """Return name -> node behind it, for every identity of a TensorFlow 1 file; none of another file."""
    aliases: dict[str, str] = {}
    for operation in loaded.graph.get_operations() if hasattr(loaded, "prune") else ():
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
