"""Read ``saved_model.pb`` once, drop what the wanted signatures do not use, check the rest, and load exactly that.

TensorFlow's own loader creates and runs everything in a file: the optimizer, training functions, every table. Here a
file is first cut down to what some of its signatures use, so that:

- a file saved with a compiled Keras 2 model loads without Keras (its optimizer has slot variables, which TensorFlow
  cannot create without the optimizer's class);
- operations that no signature reaches are not checked, and cannot run;
- the message that was checked is the one that is loaded, even if the file changes meanwhile.

The directory is never changed, and variables are read from where they are.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from attribution.batching import Expected, checked_feed
from attribution.errors import BadInput, listed, shortened
from attribution.graph import _tf_internals
from attribution.graph.view import MODULE, node_of
from attribution.reading import opened
from attribution.savedmodel import _used_parts, op_allowlist
from attribution.savedmodel.paths import file_states, fingerprint

MOST_BYTES = 2 << 30  # protocol buffers are not larger
TAG = "serve"
_PATTERNS = frozenset("[]*?\\")
_RESERVED = "__saved_model_"  # signatures that TensorFlow itself uses


@dataclasses.dataclass(frozen=True)
class Signature:
    """What a signature takes and returns, as the file declares it.

    Attributes
    ----------
    inputs, outputs : dict[str, tf.TensorSpec]
        By name, sorted by name.
    """

    inputs: dict[str, tf.TensorSpec]
    outputs: dict[str, tf.TensorSpec]


class SavedFile:
    """The message in ``saved_model.pb``, of which nothing has been run.

    Parameters
    ----------
    directory
        Holds ``saved_model.pb``.

    Raises
    ------
    BadInput
        If it cannot be read, or has neither a graph with the tag ``serve`` nor a single graph with a single tag.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = pathlib.Path(directory)
        with opened(self.directory / "saved_model.pb", "SavedModel") as file:
            message = saved_model_pb2.SavedModel()
            try:
                message.ParseFromString(file.read(MOST_BYTES + 1))
            except DecodeError as error:
                raise ValueError("it is damaged") from error
        found = [graph for graph in message.meta_graphs if set(graph.meta_info_def.tags) == {TAG}]
        if not found and len(message.meta_graphs) == 1:
            only = message.meta_graphs[0]
            # One tag of its maker's own, or one graph for both training and serving.
            found = [only] if len(set(only.meta_info_def.tags) - {"train"}) == 1 else []
        if not found:
            tags = ["+".join(graph.meta_info_def.tags) for graph in message.meta_graphs]
            raise BadInput(
                f"'{directory}' cannot be read as a SavedModel with the tag '{TAG}': its tags are "
                f"{listed(tags) or 'none'}"
            )
        self._graph = found[0]
        # The same test as TensorFlow's loader makes.
        self.has_objects = len(message.meta_graphs) == 1 and self._graph.HasField("object_graph_def")

    @functools.cached_property
    def signatures(self) -> dict[str, Signature]:
        """The signatures by name."""
        return {
            name: _signature(definition)
            for name, definition in sorted(self._graph.signature_def.items())
            if not name.startswith(_RESERVED)
        }

    def placeholders(self) -> dict[str, tf.TensorSpec]:
        """Return the placeholders of a TensorFlow 1 graph by tensor name, without those of its checkpoint."""
        nodes = {node.name: node for node in self._graph.graph_def.node}
        of_checkpoint = _used_parts.ancestors(nodes, [self._graph.saver_def.filename_tensor_name])
        return {
            f"{name}:0": _first_output(node)
            for name, node in nodes.items()
            if node.op in _used_parts.INPUTS and name not in of_checkpoint
        }

    def ends(self) -> dict[str, tf.TensorSpec]:
        """Return the tensors of a TensorFlow 1 graph that can be scores, by tensor name.

        They have rows of floating point, depend on a placeholder, and are not used by another node.
        """
        nodes = {node.name: node for node in self._graph.graph_def.node}
        inputs = {node_of(name) for name in self.placeholders()}
        used = {node_of(tensor) for node in nodes.values() for tensor in node.input if not tensor.startswith("^")}
        ends = {name: _first_output(node) for name, node in nodes.items() if name not in used | inputs}
        return {
            f"{name}:0": spec
            for name, spec in ends.items()
            if spec.dtype.is_floating
            and spec.shape.rank not in (0, 1)
            and inputs & _used_parts.ancestors(nodes, [name], ends=inputs)
        }

    def load(
        self, signatures: Iterable[str] | None = None, tensors: Iterable[str] = (), inputs: Iterable[str] = ()
    ) -> Any:
        """Load what some signatures use, with its variables, and nothing else.

        Parameters
        ----------
        signatures
            Their names; by default all.
        tensors
            Names of tensors of a TensorFlow 1 graph, such as ``"dense:0"``, that are loaded too.
        inputs
            Names of tensors of a TensorFlow 1 graph that are given in place of their defaults.

        Returns
        -------
        object
            As ``tf.saved_model.load`` returns it.

        Raises
        ------
        BadInput
            If the file is damaged, something that would be loaded is not allowed
            (``attribution.savedmodel.op_allowlist``), a file of the variables is not an ordinary one, or the signatures
            are not functions.
        """
        names = list(self.signatures if signatures is None else signatures)
        try:
            message = self._checked(names, tensors, inputs)
            for path in self.directory.glob("variables/variables*"):
                if not path.is_dir():
                    with opened(path, "checkpoint"):  # TensorFlow would wait for a pipe
                        pass
            # The message that was checked is loaded, and not the file, which may have changed meanwhile.
            loaded = _tf_internals.load_message(message, without_patterns(self.directory), self.has_objects)
        except BadInput:
            raise
        except Exception as error:  # a damaged file fails in many ways, all of them meaning the same to the user
            raise BadInput(f"{self._cannot_be_read()} with the tag '{TAG}': {gist(error)}") from error
        found = getattr(loaded, "signatures", None)
        function = tf.types.experimental.ConcreteFunction
        if not isinstance(found, Mapping) or not all(isinstance(found.get(name), function) for name in names):
            raise BadInput(f"{self._cannot_be_read()} with the tag '{TAG}': its signatures are not functions")
        return loaded

    def _checked(self, names: list[str], tensors: Iterable[str], inputs: Iterable[str]) -> Any:
        """Return the message of what some signatures and tensors use, all of which is allowed."""
        message = saved_model_pb2.SavedModel()
        used = message.meta_graphs.add(meta_info_def=self._graph.meta_info_def)
        if self.has_objects:
            reads = _used_parts.copy_used_objects(self._graph, names, self.directory, used)
        else:
            reads = _used_parts.copy_used_nodes(self._graph, names, tensors, inputs, self.directory, used)
        library = {function.signature.name: function.node_def for function in used.graph_def.library.function}
        if len(library) < len(used.graph_def.library.function):
            raise BadInput(f"{self._cannot_be_read()}: two of its functions have one name")
        bodies = {_used_parts.in_function(name): nodes for name, nodes in library.items()}
        _refuse_by_name(self.directory, itertools.chain(used.graph_def.node, *library.values()))
        op_allowlist.check(self.directory, {_used_parts.IN_GRAPH: used.graph_def.node, **bodies}, library, reads)
        return message

    def _cannot_be_read(self) -> str:
        return f"'{self.directory}' cannot be read as a SavedModel"


class Source:
    """A SavedModel on disk, as it was when a model was loaded from it.

    Parameters
    ----------
    directory
        Holds ``saved_model.pb``.
    temporary
        What deletes the directory, once no model of it lives any more.

    Attributes
    ----------
    write : Callable or None
        Of a network with changed weights, which is on disk from the first access to ``path`` on: writes it to a
        ``tempfile.TemporaryDirectory``.
    live_network : Callable or None
        Returns the live network of a model of the file; see ``attribution.methods.third_party.offer``.
    """

    def __init__(self, directory: pathlib.Path, temporary: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self.write: Callable[[], tempfile.TemporaryDirectory[str]] | None = None
        self.live_network: Callable[[Any], Any] | None = None
        self._path, self._temporary = directory, temporary
        self._loaded = directory, file_states(directory)
        self._is_trusted = op_allowlist.is_trusted()

    @property
    def path(self) -> pathlib.Path:
        """The directory that holds the network."""
        if self.write is not None:
            self._temporary, self.write = self.write(), None
            self._path = pathlib.Path(self._temporary.name)
        return self._path

    def load(self, tensors: Iterable[str] = ()) -> Any:
        """Load the file again, with all its signatures and its variables; see ``SavedFile.load``."""
        with op_allowlist.trusted(self._is_trusted):
            return SavedFile(self.path).load(tensors=tensors)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the files that were loaded.

        Raises
        ------
        BadInput
            If they have changed since.
        """
        path, states = self._loaded
        if self.path == path and file_states(path) != states:
            raise BadInput(f"the files in {path} have changed since the model was loaded; load it again")
        return fingerprint(self.path)


def gist(error: Exception) -> str:
    """Return the first words of an exception that may be pages long."""
    return shortened(re.sub(r"\{\{function_node .*?\}\}", "", str(error))) or type(error).__name__


def _refuse_by_name(directory: pathlib.Path, nodes: Iterable[Any]) -> None:
    """Raise ``BadInput`` for what TensorFlow cannot run here, whoever is trusted."""
    for node in nodes:
        if node.op.startswith("TRTEngine"):
            raise BadInput(f"'{directory}' was converted by TF-TRT; name the SavedModel that it was converted from")
        if node.op == MODULE and (newer := _tf_internals.newer_stablehlo(node.attr["module"].s)):
            raise BadInput(
                f"'{directory}' has a module of StableHLO {newer}, the newest that TensorFlow {tf.__version__} reads; "
                "load it with a newer TensorFlow, or write it with an older JAX or PyTorch"
            )


def without_patterns(directory: pathlib.Path) -> str:
    """Return a path to a directory that TensorFlow does not take for a pattern of names, as it does ``run[1]``."""
    if not _PATTERNS.intersection(os.fspath(directory)):
        return os.fspath(directory)
    return os.path.join(_folder_with_link(os.path.abspath(directory)).name, "model")


@functools.cache
def _folder_with_link(directory: str) -> tempfile.TemporaryDirectory[str]:
    """Return a folder with a link to a directory; tables may read the model's assets until the program ends."""
    folder = tempfile.TemporaryDirectory(prefix="attribution_")
    os.symlink(directory, os.path.join(folder.name, "model"), target_is_directory=True)
    return folder


def _signature(definition: Any) -> Signature:
    """Return a signature."""
    return Signature(
        *(
            {name: _spec(info.tensor_shape, info.dtype) for name, info in sorted(infos.items())}
            for infos in (definition.inputs, definition.outputs)
        )
    )


def _spec(shape: Any, dtype: int) -> tf.TensorSpec:
    """Return a shape and a type as a file gives them; what does not exist is a variant of any shape."""
    try:
        return tf.TensorSpec(tf.TensorShape(shape), tf.as_dtype(dtype))
    except (TypeError, ValueError):
        return tf.TensorSpec(None, tf.variant)


def _first_output(node: Any) -> tf.TensorSpec:
    """Return shape and type of a node's first output as its attributes say them; see ``_spec``."""
    definition = _tf_internals.operation_definition(node.op)
    if definition is None or not definition.output_arg:
        return _spec(None, 0)
    output, attributes = definition.output_arg[0], dict(node.attr)
    types = attributes[output.type_list_attr].list.type[:1] if output.type_list_attr in attributes else []
    kind = attributes[output.type_attr].type if output.type_attr in attributes else output.type
    shapes = [attributes["shape"].shape] if "shape" in attributes and node.op in _used_parts.INPUTS else []
    shapes += attributes["_output_shapes"].list.shape if "_output_shapes" in attributes else []
    return _spec(shapes[0] if shapes else None, types[0] if types else kind)


@dataclasses.dataclass(frozen=True)
class Target:
    """The function that is explained, as it was loaded.

    Attributes
    ----------
    path
        Of the file, as messages name it.
    loaded
        What was loaded of the file; the function's variables live no longer.
    function
        The concrete function.
    placeholders
        Name of an input as the signature calls it, to its tensor in the function's graph.
    inputs
        Shapes and types of the inputs that are not fixed, by these names.
    constants
        Values of the fixed ones, by the nodes of their placeholders.
    output
        The function's tensor that is explained.
    declared
        Shape and type of the output as the signature declares them, with the sizes that only it knows.
    other_outputs
        Names of the signature's other outputs.
    call
        The function from the inputs that are not fixed to the output.
    """

    path: Any
    loaded: Any
    function: Any
    placeholders: dict[str, Any]
    inputs: dict[str, tf.TensorSpec]
    constants: dict[str, np.ndarray]
    output: Any
    declared: tf.TensorSpec
    other_outputs: tuple[str, ...]
    call: Callable[..., Any]

    @property
    def nodes(self) -> dict[str, str]:
        """Name of an input that is not fixed, to its node."""
        return {name: self.placeholders[name].op.name for name in self.inputs}

    @property
    def aliases(self) -> dict[str, str]:
        """Name to the node behind it, of every identity of a TensorFlow 1 file; none of another file.

        Freezing removes identities, and networks of TensorFlow 1 like to name their layers by them.
        """
        aliases: dict[str, str] = {}
        for operation in self.loaded.graph.get_operations() if hasattr(self.loaded, "prune") else ():
            behind = operation
            while behind.type == "Identity":
                behind = behind.inputs[0].op
            if behind is not operation:
                aliases.setdefault(operation.name.split("/")[-1], behind.name)
                aliases[operation.name] = behind.name
        return aliases


def find_target(
    file: SavedFile,
    path: Any,
    signature: str | None = None,
    inputs: Any = None,
    output: str | None = None,
    loaded: Any = None,
    given: Any = None,
) -> Target:
    """Return the function that is explained; the arguments are those of ``freeze.freeze``.

    Raises
    ------
    BadInput
        If the signature, an input or the output does not exist or is ambiguous.
    """
    _check_names(signature, inputs, output)
    if loaded is not None and not hasattr(loaded, "signatures"):
        raise BadInput(f"loaded must be what SavedFile.load returned of this path, not {loaded!r}")
    if inputs:
        if file.has_objects:
            raise BadInput(f"inputs= names tensors of a TensorFlow 1 file, and '{path}' is none; leave it out")
        if output is None:
            raise BadInput("inputs= names tensors, so output= must name one too, as in 'resnet_model/final_dense:0'")
        loaded = file.load([], [output], inputs) if loaded is None else loaded
        function, declared = _between_tensors(loaded, file, path, list(inputs), output), Signature({}, {})
        nodes = [name.split(":")[0] for name in inputs]
        names, outputs = nodes if len(set(nodes)) == len(nodes) else list(inputs), [output]
    else:
        name = _chosen_signature(file, path, signature)
        loaded = file.load([name]) if loaded is None else loaded
        function, declared = loaded.signatures[name], file.signatures[name]
        # Nested structures are flattened in the order of their sorted keys.
        names, outputs = sorted(function.structured_input_signature[1]), sorted(function.structured_outputs)
        if not names:
            raise BadInput(f"signature '{name}' of '{path}' takes no input")
        if output is None and len(outputs) > 1:
            raise BadInput(
                f"'{path}' has several outputs; choose one with output= (--output_tensor=): {listed(outputs)}"
            )
    chosen = output or outputs[0]
    if chosen not in outputs:
        raise BadInput(f"'{path}' has no output '{chosen}'; its outputs are {listed(outputs)}")
    placeholders = dict(zip(names, function.inputs, strict=False))  # what follows are variables
    specs = {name: _declared(tensor, declared.inputs.get(name)) for name, tensor in placeholders.items()}
    fixed = _fixed(path, specs, given)
    if open_ := [name for name, tensor in placeholders.items() if name not in fixed and tensor.shape.rank is None]:
        raise BadInput(
            f"input '{open_[0]}' of '{path}' has no declared rank; export it with its shape, as in "
            f"tf.TensorSpec((None, 8), tf.{specs[open_[0]].dtype.name}), or fix its value with given= (--given=)"
        )

    def call(*arrays: Any) -> Any:
        values = {**fixed, **dict(zip((name for name in specs if name not in fixed), arrays, strict=True))}
        ordered = {name: tf.convert_to_tensor(values[name], tensor.dtype) for name, tensor in placeholders.items()}
        return function(*ordered.values())[0] if inputs else function(**ordered)[chosen]

    result = function.outputs[outputs.index(chosen)]
    return Target(
        path=path,
        loaded=loaded,
        function=function,
        placeholders=placeholders,
        inputs={name: spec for name, spec in specs.items() if name not in fixed},
        constants={placeholders[name].op.name: value for name, value in fixed.items()},
        output=result,
        declared=_declared(result, declared.outputs.get(chosen)),
        other_outputs=tuple(name for name in declared.outputs if name != chosen),
        call=call,
    )


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


def _chosen_signature(file: SavedFile, path: Any, name: str | None) -> str:
    """Return the name of the signature to explain: the one wanted, ``serving_default``, ``serve``, or the only one."""
    names = list(file.signatures)
    if not names:
        way = "" if file.has_objects else "name its tensors, as in inputs=['input_tensor:0'], output='dense:0', or "
        raise BadInput(f"'{path}' has no signature; {way}export it with keras.Model.export, or with a signature")
    known = [one for one in ("serving_default", "serve") if one in names]
    chosen = name or (known[0] if known else names[0] if len(names) == 1 else None)
    if chosen is None or chosen not in names:
        wanted = f"has no signature '{name}'" if name else "has several signatures; choose one with signature="
        raise BadInput(f"'{path}' {wanted}; its signatures are {listed(names)}")
    return chosen


def _between_tensors(loaded: Any, file: SavedFile, path: Any, inputs: list[str], output: str) -> Any:
    """Return the function between named tensors of a TensorFlow 1 file."""
    try:
        return loaded.prune(inputs, [output])
    except (KeyError, ValueError, _tf_internals.UnliftableError) as error:
        raise BadInput(
            f"'{path}': {gist(error)}; its placeholders are {listed(file.placeholders())}, inputs= names those needed"
        ) from error


def _declared(tensor: Any, declared: tf.TensorSpec | None) -> tf.TensorSpec:
    """Return shape and type of a tensor of the graph, with the sizes that the signature alone knows."""
    if declared is not None and tensor.shape.is_compatible_with(declared.shape):
        return tf.TensorSpec(tensor.shape.merge_with(declared.shape), tensor.dtype)
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def _fixed(path: Any, specs: Mapping[str, tf.TensorSpec], given: Any) -> dict[str, np.ndarray]:
    """Return the values of the inputs that a caller fixes, in the types that the file takes."""
    if given is None:
        return {}
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
    return fixed
