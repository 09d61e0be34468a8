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
import tempfile
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from attribution.errors import BadInput, listed
from attribution.graph import _tf_internals
from attribution.graph.view import MODULE, node_of
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

    @property
    def operations(self) -> set[str]:
        """Names of the operations that the file says it uses."""
        return {operation.name for operation in self._graph.meta_info_def.stripped_op_list.op}

    @functools.cached_property
    def signatures(self) -> dict[str, Signature]:
        """The signatures by name."""
        try:
            composite = _used_parts.composite_inputs(self._graph)
        except (IndexError, RecursionError) as error:
            raise BadInput(f"'{self.directory}' cannot be read as a SavedModel: it is damaged") from error
        return {
            name: _signature(definition, composite.get(name, ()))
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

    def ends(self) -> dict[str, tuple[tf.TensorSpec, list[str]]]:
        """Return the tensors of a TensorFlow 1 graph that can be scores, by tensor name, each with the inputs it needs.

        They have rows of floating point, depend on a placeholder, and are not used by another node. A single value with
        a default is not needed.
        """
        nodes = {node.name: node for node in self._graph.graph_def.node}
        inputs = {node_of(name): spec for name, spec in self.placeholders().items()}
        needed = [name for name, spec in inputs.items() if not _is_optional(nodes[name], spec)]
        ends = {name: _first_output(nodes[name]) for name in _unused(nodes) if name not in inputs}
        found = {}
        for name, spec in ends.items():
            above = _used_parts.ancestors(nodes, [name], ends=inputs) if _can_be_score(spec) else set()
            if above.intersection(needed):
                found[f"{name}:0"] = spec, [f"{one}:0" for one in needed if one in above]
        return found

    def load(
        self, signatures: Iterable[str] | None = None, tensors: Iterable[str] = (), inputs: Iterable[str] = ()
    ) -> Any:
        """Load what some signatures use, with its variables.

        Parameters
        ----------
        signatures
            Their names; by default all.
        tensors
            Names of tensors of a TensorFlow 1 graph, such as ``"dense:0"``, that are loaded too.
        inputs
            Names of tensors of a TensorFlow 1 graph that are given; what computes them is not loaded.

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
            reads = _used_parts.copy_used_nodes(self._graph, names, tensors, inputs, self.directory, used)
        library = {function.signature.name: function.node_def for function in used.graph_def.library.function}
        if len(library) < len(used.graph_def.library.function):
            raise BadInput(f"'{self.directory}' cannot be read as a SavedModel: two of its functions have one name")
        bodies = {_used_parts.in_function(name): nodes for name, nodes in library.items()}
        _refuse_by_name(self.directory, itertools.chain(used.graph_def.node, *library.values()))
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


def _unused(nodes: Mapping[str, Any]) -> list[str]:
    """Return the nodes whose values no other node uses."""
    used = {node_of(tensor) for node in nodes.values() for tensor in node.input if not tensor.startswith("^")}
    return [name for name in nodes if name not in used]


def _is_optional(node: Any, spec: tf.TensorSpec) -> bool:
    """Return whether an input is a single value with a default."""
    return spec.shape.rank == 0 and bool(node.op == _used_parts.WITH_DEFAULT)


def _can_be_score(spec: tf.TensorSpec) -> bool:
    """Return whether a tensor has rows of floating point."""
    return spec.dtype.is_floating and spec.shape.rank not in (0, 1)


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


def _signature(definition: Any, parts: Collection[int]) -> Signature:
    """Return a signature; ``parts`` are the places of its sorted inputs that are parts of ragged or sparse tensors."""
    inputs, outputs = (
        {name: _spec(info.tensor_shape, info.dtype) for name, info in sorted(infos.items())}
        for infos in (definition.inputs, definition.outputs)
    )
    composite = [
        name
        for place, (name, info) in enumerate(sorted(definition.inputs.items()))
        if info.WhichOneof("encoding") != "name" or place in parts
    ]
    return Signature(inputs, outputs, composite[0] if composite else "")


def _spec(shape: Any, dtype: int) -> tf.TensorSpec:
    """Return a shape and a type as a file gives them; what does not exist is a variant of any shape."""
    try:
        return tf.TensorSpec(tf.TensorShape(shape), tf.as_dtype(dtype))
    except (TypeError, ValueError):
        return tf.TensorSpec(None, tf.variant)


def _first_output(node: Any) -> tf.TensorSpec:
    """Return shape and type of a node's first output as the file says them; see ``_spec``."""
    kind, shape = next(iter(_used_parts.outputs_of(node)), (0, None))
    return _spec(shape, kind)
