"""Make of a SavedModel one graph without variables, calls or control edges, its weights beside it.

The interface of this project is the SavedModel directory, not a Keras object: whatever wrote it
(``keras.Model.export``, ``tf.saved_model.save``, TensorFlow 1), explanations are computed from the file alone. A loaded
function answers with scores and gradients of its inputs only: its layers are inside of nested calls, and its variables
are resources that no rule of relevance can read. Freezing makes one plain graph of it, in which layers have names,
relevance can be passed on by any rule, and gradients can be replaced.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.batching import random_arrays, shown
from attribution.errors import BadInput, listed
from attribution.graph import _tf_internals
from attribution.graph.view import (
    MODULE,
    WEIGHT,
    GraphView,
    Untranslatable,
    inline_calls,
    node_of,
    pure_subgraph,
    set_placeholder,
)
from attribution.savedmodel import _gradient_support, _module_check, scores
from attribution.savedmodel.branches import take_branches, with_values
from attribution.savedmodel.file import SavedFile, Target, find_target

PARSING = ("ParseExample", "ParseExampleV2")  # operations from serialized examples to columns
# Operations that write to a variable.
_WRITES = (
    "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceStridedSliceAssign",
    "RngReadAndSkip", "RngSkip",
    "StatefulUniform", "StatefulStandardNormalV2", "StatefulRandomBinomial", "StatefulTruncatedNormal",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class FrozenGraph:
    """One signature of a SavedModel as a pure graph, with its scores.

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
        Its shape as inferred, as the file says it, or as two runs show it.
    head
        The scores that the output gives.
    num_classes
        How many there are for each input.
    position
        Of an output with axes between batch and classes: where its scores are taken, a number for each axis.
    aliases
        Names of identities of a TensorFlow 1 file, whole and by their last component, to the node behind them.
    other_outputs
        Names of the signature's other outputs.
    held
        What must live as long as the graph: tables that it looks things up in.
    numbered
        Whether the name scope of every layer ends in a number that the layer's name has not, as Keras 3 writes it.
    compared
        Of a translated module of JAX or PyTorch: why its gradient could not be compared with the file's; empty if it
        is the same.
    kept
        Why a module is not translated; empty if there is none.
    """

    graph: GraphView
    inputs: dict[str, tf.TensorSpec]
    input_nodes: dict[str, str]
    output: str
    output_shape: tf.TensorShape
    head: scores.Head
    num_classes: int = 0
    position: tuple[int, ...] = ()
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    other_outputs: tuple[str, ...] = ()
    held: object = None
    numbered: bool = False
    compared: str | None = None
    kept: str = ""

    @property
    def logits(self) -> str:
        """Tensor of the logits; of the output where the graph has none."""
        return self.head.logits

    @property
    def score_names(self) -> tuple[str, ...]:
        """Which scores the file is known to give, the default first."""
        if self.num_classes == 1 and self.head.activation is None and scores.LOGITS in self.head.names:
            return (scores.LOGITS,)
        return self.head.names

    def score(self, wanted: str | None) -> str:
        """Return the score to explain, by default the logits, else the output.

        Raises
        ------
        BadInput
            If the file is not known to give the wanted one.
        """
        names = self.score_names
        if wanted is None:
            return names[0]
        if wanted in (*names, scores.OUTPUT):
            return wanted
        if wanted == scores.LOGITS and names == (scores.OUTPUT,):
            return scores.OUTPUT
        raise BadInput(
            "the model's output is not known to be probabilities: it ends in no softmax, sigmoid or log-softmax; load "
            f"it with score='{names[0]}'"
        )

    def at_position(self, position: Any) -> FrozenGraph:
        """Return the graph with the scores at one position of its output; ``None`` where that has no positions.

        Raises
        ------
        BadInput
            If the output has not one score for each class there.
        """
        if position is not None:
            scores.check_classes_are_last(self.graph, self.output)
        dtype, shape = self.graph.dtype(self.output), self.output_shape
        numbers = np.atleast_1d(np.asarray([] if position is None else position))
        if numbers.ndim != 1 or (numbers.size and not np.issubdtype(numbers.dtype, np.integer)):
            raise BadInput(
                f"position must be whole numbers, one for each axis between batch and classes, not {position!r}"
            )
        position = tuple(numbers.tolist())
        if not dtype.is_floating:
            kind = "class numbers or counts" if dtype.is_integer else "values of this type"
            raise BadInput(
                f"the model's output is of type {dtype.name}; scores of floating point are needed, not {kind}; export "
                "them, or choose another output with output= (--output_tensor=)"
            )
        if shape.rank is None:
            raise BadInput(
                "the file does not declare the shape of its output; give it by tf.ensure_shape in the network"
            )
        classes = scores.classes_of(shape, position)
        if classes is None:
            given = f" at position {position}" if position else ""
            more = "; choose a number for each axis between with position=" if shape.rank > 2 else ""
            if self.other_outputs:
                more += f"; or choose another output with output= (--output_tensor=): {listed(self.other_outputs)}"
            raise BadInput(
                f"the model's output has shape {shown(shape)}; scores of shape (batch, classes) are needed{given}{more}"
            )
        for index, size in zip(position, shape[1:], strict=False):
            if index < 0 or (size is not None and index >= size):
                raise BadInput(f"position {position} is outside the model's output of shape {shown(shape)}")
        return dataclasses.replace(self, position=position, num_classes=classes)


@_tf_internals.without_collection()
def freeze(
    directory: str | os.PathLike[str],
    signature: str | None = None,
    inputs: Any = None,
    output: str | None = None,
    loaded: Any = None,
    given: Any = None,
    position: Any = None,
    path: Any = None,
) -> FrozenGraph:
    """Load a SavedModel and freeze one signature, or one pair of tensors, of it.

    Parameters
    ----------
    directory
        Holds ``saved_model.pb``; see ``find_saved_model``.
    signature
        Name of the signature; by default ``serving_default``, ``serve``, or the only one.
    inputs
        For a TensorFlow 1 file without a fitting signature: tensor names such as ``["input_tensor:0"]``.
    output
        Name of one of the signature's outputs; with ``inputs``, a tensor name such as ``"dense:0"``.
    loaded
        What ``SavedFile.load`` gave of the path, where it is there already; its variables count as they are now.
    given
        Name to value of inputs that are constants from now on.
    position
        See ``FrozenGraph.at_position``.
    path
        How messages name the file; by default the directory.

    Raises
    ------
    BadInput
        If the file cannot be read, or the signature, input or output does not exist or is ambiguous.
    """
    file = SavedFile(directory)
    target = find_target(file, path or directory, signature, inputs, output, loaded, given)
    definition = target.function.graph.as_graph_def()
    bodies = [definition.node, *(body.node_def for body in definition.library.function)]
    if any(node.op == MODULE for body in bodies for node in body):
        view, tensor, kept, compared = _translated(target)
    else:
        (view, tensor), kept, compared = _as_view(target, translated=False), "", None
    view = scores.with_moved_logits(view, tensor)
    has_tables = any(weight.dtype == tf.resource for weight in view.weights.values())
    return FrozenGraph(
        graph=view,
        inputs=target.inputs,
        input_nodes=target.nodes,
        output=tensor,
        output_shape=scores.shape_of_output(view.shape(tensor), target.declared.shape),
        head=scores.find_head(view, tensor),
        aliases=target.aliases,
        other_outputs=target.other_outputs,
        numbered=_is_numbered(target.function, view.graph_def),
        held=target.loaded if has_tables else None,
        compared=compared,
        kept=kept,
    ).at_position(position)


def _translated(target: Target) -> tuple[GraphView, str, str, str | None]:
    """Return a function's graph with its modules translated, why not if they are not, and how its gradient compares.

    A translation that is wrong in one operation would give plausible maps. So each is compared with the module. Where a
    module cannot be translated, or gives something else then, it stays.
    """
    try:
        view, tensor = _as_view(target, translated=True)
        difference = _module_check.difference(view, list(target.nodes.values()), tensor, target.inputs, target.call)
        if difference in _module_check.MATCHES:
            return view, tensor, "", difference
    except Untranslatable as error:
        difference = f"{error} has no translation"
    return *_as_view(target, translated=False), difference, None


def _as_view(target: Target, translated: bool) -> tuple[GraphView, str]:
    """Return a function as a pure graph, modules of JAX and PyTorch ``translated`` or not, and its output's name."""
    graph_def, weights, renamed, state = _without_variables(target.function, target.constants, translated)
    tensor = renamed.get(target.output.name, target.output.name)
    # Control edges order reads and writes of variables, of which none are left that count.
    pure = pure_subgraph(graph_def, [tensor], keep=target.nodes.values())
    if any(node.op == "DecodeCSV" for node in pure.node):
        raise BadInput(f"'{target.path}' parses CSV by DecodeCSV; export a signature that takes the columns as numbers")
    pure = _with_columns(pure)

    def gives_file_scores() -> bool:  # as of state that is changed and changed back
        view, nodes = GraphView(pure, weights), list(target.nodes.values())
        found = _module_check.difference(view, nodes, tensor, target.inputs, target.call)
        return found != _module_check.OTHER_SCORES

    _check_not_random(target, pure, state, gives_file_scores)
    view = GraphView(pure, weights)
    _check_precision(target, view)
    return view, tensor


def _without_variables(
    function: Any, constants: Mapping[str, np.ndarray], translated: bool
) -> tuple[tf.compat.v1.GraphDef, dict[str, Any], dict[str, str], set[str]]:
    """Take the variables and calls out of a function.

    Variables do not become constants of the graph, where they would be copied some ten times while it is read, compiled
    and optimised. Each becomes a placeholder, whose tensor is stored with the graph and shared by all functions made of
    it. TensorFlow's own conversion to constants does the rest: it removes variables that a loop carries or that are
    looked up row by row, and inlines calls.

    ``constants`` are values of inputs by node name; ``translated`` is as for ``_as_view``.

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
        if variable is not None and variable.dtype.is_floating and (variable.shape.num_elements() or 0) >= WEIGHT
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
            if value.size >= WEIGHT:
                weights[node.name] = tf.constant(value)
        if node.name in weights:
            set_placeholder(node, weights[node.name].dtype, weights[node.name].shape)
    return weights


def _check_precision(target: Target, view: GraphView) -> None:
    """Refuse a network that computes in half precision, in which gradients and relevance are too coarse."""
    behind = [view.nodes[name] for name in view.below(view.nodes.keys() & target.nodes.values())]
    nodes = itertools.chain(behind, *(function.node_def for function in view.graph_def.library.function))
    types = {one for node in nodes for value in node.attr.values() for one in (value.type, *value.list.type)}
    if found := [dtype.name for dtype in (tf.float16, tf.bfloat16) if dtype.as_datatype_enum in types]:
        raise BadInput(
            f"'{target.path}' computes in {found[0]}, which is too coarse for gradients; export it in float32"
        )


def _check_not_random(
    target: Target, pure: tf.compat.v1.GraphDef, state: Collection[str], gives_file_scores: Callable[[], bool]
) -> None:
    """Refuse a file that gives other scores at every call, or that cannot be differentiated.

    A map would be of no single score. ``pure`` is what the output needs of the graph, ``state`` the nodes that read
    what the graph itself writes. ``gives_file_scores`` returns whether ``pure`` computes the scores of the file; it is
    called where all that seems random is state.
    """
    if frame := next((node.name for node in pure.node if node.op in ("Enter", "RefEnter")), None):
        raise BadInput(
            f"'{target.path}' has a loop of TensorFlow 1's control flow ('{frame}'), which cannot be differentiated "
            "once loaded; export it after tf.compat.v1.enable_control_flow_v2()"
        )
    definitions = ((node.name, _tf_internals.operation_definition(node.op)) for node in pure.node)
    if writer := next((name for name, one in definitions if one and any(arg.is_ref for arg in one.input_arg)), None):
        raise BadInput(
            f"'{target.path}' changes a reference variable of TensorFlow 1 where it computes ('{writer}'); export it "
            "for inference, without that change"
        )
    random = _gradient_support.first_random(pure, state)
    if random is None or (
        _gradient_support.first_random(pure, ()) is None and _leaves_state(target) and gives_file_scores()
    ):
        return
    remedy = "export it for inference, with dropout and augmentation off"
    if random.endswith(_gradient_support.CHANGED):
        remedy += ", and recurrent layers without stateful=True"
    if single := [name for name, spec in target.inputs.items() if spec.shape.rank in (None, 0)]:
        example = f"{{'{single[0]}': False}}, --given={single[0]}=False"
        remedy += f", or load it with given= for {listed(single)} where that turns them off, as in given={example}"
    raise BadInput(f"'{target.path}' gives other scores at every call, because of {random}; {remedy}")


def _leaves_state(target: Target) -> bool:
    """Tell whether a call on random inputs leaves every variable as it was, to the bit."""
    specs = target.inputs.values()
    if not all(spec.dtype.is_floating or spec.dtype.is_integer for spec in specs):
        return False
    variables = list(target.function.variables)
    before = [variable.read_value() for variable in variables]
    try:
        target.call(*map(tf.constant, random_arrays(specs, 2, 2)))
    except (TypeError, ValueError, tf.errors.OpError):
        return False
    pairs = zip(before, variables, strict=True)
    return all(bool(tf.reduce_all(one == variable.read_value())) for one, variable in pairs)


def _with_columns(graph_def: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Return a pure graph in which each column of numbers parsed from examples is a node with its name.

    Serialized examples have no gradient, so that their columns are what can be explained, and need names.
    """
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


def _is_numbered(function: Any, graph_def: tf.compat.v1.GraphDef) -> bool:
    """Return whether name scopes are layers' names with a number added, by the layers that have variables."""
    layers = {variable.name.split("/")[-2] for variable in function.graph.variables if "/" in variable.name}
    scopes = {component for node in graph_def.node for component in node.name.split("/")[:-1]}
    numbered = {match[1] for match in (re.fullmatch(r"(.+)_\d+", scope) for scope in scopes) if match}
    return bool(layers & numbered) and not (layers - numbered) & scopes
