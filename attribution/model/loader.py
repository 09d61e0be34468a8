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

import collections
import dataclasses
import functools
import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2, struct_pb2

from attribution.errors import BadInput, listed
from attribution.graph import _tf_internals
from attribution.graph.view import node_of
from attribution.model import _used_parts, op_allowlist
from attribution.reading import opened

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
    composite
        Name of the first input that is a ragged or sparse tensor, which a signature takes apart; empty if there is
        none.
    """

    inputs: dict[str, tf.TensorSpec]
    outputs: dict[str, tf.TensorSpec]
    composite: str = ""


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

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        with opened(directory / "saved_model.pb", "SavedModel") as file:
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
        functions = self._graph.object_graph_def.concrete_functions.values()
        composite = any(_is_composite(function.canonicalized_input_signature) for function in functions)
        return {
            name: _signature(definition, composite)
            for name, definition in sorted(self._graph.signature_def.items())
            if not name.startswith(_RESERVED)
        }

    def placeholders(self) -> dict[str, tf.TensorSpec]:
        """Return the placeholders of a TensorFlow 1 graph by tensor name."""
        return {
            f"{node.name}:0": _spec(node.attr["shape"].shape, node.attr["dtype"].type)
            for node in self._graph.graph_def.node
            if node.op == "Placeholder"
        }

    def ends(self) -> dict[str, tf.TensorSpec]:
        """Return the tensors of a TensorFlow 1 graph that can be scores, by tensor name.

        These are (N, K) and of floating point, depend on a placeholder, and are not used by another node.
        """
        nodes = {node.name: node for node in self._graph.graph_def.node}
        users = collections.defaultdict(list)
        for node in nodes.values():
            for tensor in node.input:
                if not tensor.startswith("^"):
                    users[node_of(tensor)].append(node.name)
        waiting, reached = [name for name, node in nodes.items() if node.op == "Placeholder"], set()
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += users.get(name, ())
        specs = {f"{name}:0": _first_output(node) for name, node in nodes.items() if name in reached - users.keys()}
        return {name: spec for name, spec in specs.items() if spec is not None and spec.dtype.is_floating}

    def load(self, signatures: Iterable[str] | None = None, tensors: Iterable[str] = ()) -> Any:
        """Load what some signatures use, with its variables.

        Parameters
        ----------
        signatures
            Their names; by default all.
        tensors
            Names of tensors of a TensorFlow 1 graph, such as ``"dense:0"``, that are loaded too.

        Returns
        -------
        object
            As ``tf.saved_model.load`` returns it.

        Raises
        ------
        BadInput
            If something that would be loaded is not allowed (``attribution.model.op_allowlist``), a file of the
            variables is not an ordinary one, or the signatures are not functions.
        """
        message = saved_model_pb2.SavedModel()
        used = message.meta_graphs.add(meta_info_def=self._graph.meta_info_def)
        names = list(self.signatures if signatures is None else signatures)
        if self.has_objects:
            reads = _used_parts.copy_used_objects(self._graph, names, self.directory, used)
        else:
            reads = _used_parts.copy_used_nodes(self._graph, names, tensors, self.directory, used)
        library = {function.signature.name: function.node_def for function in used.graph_def.library.function}
        if len(library) < len(used.graph_def.library.function):
            raise BadInput(f"'{self.directory}' cannot be read as a SavedModel: two of its functions have one name")
        bodies = {_used_parts.in_function(name): nodes for name, nodes in library.items()}
        op_allowlist.check(self.directory, {_used_parts.IN_GRAPH: used.graph_def.node, **bodies}, library, reads)
        for path in self.directory.glob("variables/variables*"):
            if not path.is_dir():
                with opened(path, "checkpoint"):  # TensorFlow would wait for a pipe
                    pass
        loaded = _tf_internals.load_message(message, _without_patterns(self.directory), self.has_objects)
        if not _are_functions(getattr(loaded, "signatures", None), names):
            raise BadInput(
                f"'{self.directory}' cannot be read as a SavedModel with the tag '{TAG}': its signatures are not "
                "functions"
            )
        return loaded


def _without_patterns(directory: pathlib.Path) -> str:
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


def _are_functions(signatures: Any, names: Iterable[str]) -> bool:
    """Return whether signatures map some names to concrete functions; those of other names may be cut off."""
    return isinstance(signatures, Mapping) and all(
        isinstance(signatures.get(name), tf.types.experimental.ConcreteFunction) for name in names
    )


def _signature(definition: Any, has_composites: bool) -> Signature:
    inputs, outputs = (
        {name: _spec(info.tensor_shape, info.dtype) for name, info in sorted(infos.items())}
        for infos in (definition.inputs, definition.outputs)
    )
    composite = [name for name, info in sorted(definition.inputs.items()) if info.WhichOneof("encoding") != "name"]
    if has_composites:
        composite += [name for name in inputs if f"{name}_1" in inputs]
    return Signature(inputs, outputs, composite[0] if composite else "")


def _spec(shape: Any, dtype: int) -> tf.TensorSpec:
    """Return a shape and a type as a file gives them; what does not exist is a variant of any shape."""
    try:
        return tf.TensorSpec(tf.TensorShape(shape), tf.as_dtype(dtype))
    except (TypeError, ValueError):
        return tf.TensorSpec(None, tf.variant)


def _is_composite(value: Any) -> bool:
    """Return whether a structure of types, as a file describes it, has a ragged or sparse tensor in it."""
    if value.HasField("type_spec_value"):
        return value.type_spec_value.type_spec_class in (
            struct_pb2.TypeSpecProto.RAGGED_TENSOR_SPEC,
            struct_pb2.TypeSpecProto.SPARSE_TENSOR_SPEC,
        )
    inner = [*value.tuple_value.values, *value.list_value.values, *value.dict_value.fields.values()]
    return any(_is_composite(each) for each in [*inner, *(pair.value for pair in value.named_tuple_value.values)])


def _first_output(node: Any) -> tf.TensorSpec | None:
    """Return shape and type of a node's first output; ``None`` if it cannot be scores."""
    definition = _tf_internals.operation_definition(node.op)
    if definition is None or not definition.output_arg:
        return None
    output = definition.output_arg[0]
    dtype = output.type or node.attr[output.type_attr].type if output.type_attr in ("", *node.attr) else 0
    shapes = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
    spec = _spec(shapes[0] if shapes else None, dtype)
    return spec if spec.shape.rank in (None, 2) else None
