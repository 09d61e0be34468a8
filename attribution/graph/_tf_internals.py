"""The parts of TensorFlow's private API that this package uses; tests name the supported versions."""

from __future__ import annotations

import contextlib
import copy
import gc
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compiler.mlir.stablehlo import stablehlo
from tensorflow.python import _pywrap_mlir
from tensorflow.python.checkpoint import checkpoint, checkpoint_options, graph_view
from tensorflow.python.eager.context import FunctionCallOptions, context
from tensorflow.python.eager.context import eager_mode as eagerly
from tensorflow.python.framework import convert_to_constants, function_def_to_graph, op_def_registry, ops
from tensorflow.python.ops.op_selector import UnliftableError
from tensorflow.python.saved_model import load, load_options, load_v1_in_v2, path_helpers

__all__ = [
    "UnliftableError", "converter", "eagerly", "function_body", "gradients_of", "is_known_and_stateless",
    "load_message", "loaded_gradient", "newer_stablehlo", "operation_definition", "register_functions",
    "registered_gradient", "stablehlo_text", "unoptimized", "variables_as_constants", "with_captures",
    "without_collection",
]  # fmt: skip


def function_body(function_def: Any) -> Any:
    """Return a function of a library as a graph, and its tensors' names there by their names in the function."""
    return function_def_to_graph.function_def_to_graph_def(function_def)


def converter(function: Any, kept: Iterable[str]) -> Any:
    """Return TensorFlow's conversion of a concrete function to constants, which leaves some captured variables."""
    return convert_to_constants._FunctionConverterDataInEager(
        function, lower_control_flow=False, aggressive_inlining=False, variable_names_denylist=kept
    )


def variables_as_constants(converted: Any) -> tuple[Any, Any]:
    """Return the converted graph, and which captured tensors became constants, for ``register_functions``."""
    graph_def, indices = convert_to_constants._replace_variables_by_constants(converted)
    return graph_def, indices


def register_functions(function: Any, graph_def: Any, indices: Any) -> None:
    """Make the functions of a converted graph known to TensorFlow."""
    convert_to_constants._construct_concrete_function(function, graph_def, indices)


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Pause Python's garbage collector: a graph is many objects, and each full pass over TensorFlow's takes 0.2 s."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def unoptimized() -> Iterator[None]:
    """Run functions as they are traced: to rewrite a graph takes longer than a faster single run saves."""
    before = context().function_call_options
    config = tf.compat.v1.ConfigProto.FromString(before.config_proto_serialized)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    context().function_call_options = FunctionCallOptions(before.executor_type, config)
    try:
        yield
    finally:
        context().function_call_options = before


def load_message(message: Any, directory: str, has_objects: bool) -> Any:
    """Return a SavedModel as ``tf.saved_model.load`` does, which takes a directory and not a message.

    Parameters
    ----------
    message : SavedModel
        With one ``MetaGraphDef``. It is changed.
    directory
        Where the variables and assets are.
    has_objects
        Whether TensorFlow 2 wrote the file.
    """
    with ops.init_scope():
        if has_objects:
            objects = message.meta_graphs[0].object_graph_def
            options = checkpoint_options.CheckpointOptions(), load_options.LoadOptions()
            return _ObjectLoader(objects, message, directory, *options, filters=None).get(0)
        return _MessageLoader(message, directory).load(message.meta_graphs[0].meta_info_def.tags)


class _ObjectLoader(load.Loader):  # type: ignore[misc]
    """TensorFlow's loader of TensorFlow 2 files, without its warning about variables that are not used."""

    def _restore_checkpoint(self) -> None:
        path = path_helpers.get_variables_path(self._export_dir)
        saver = checkpoint.TrackableSaver(graph_view.ObjectGraphView(self.get(0)))
        with tf.device("CPU"):
            saver._file_prefix_placeholder = tf.constant(path)
        saver.restore(path, self._checkpoint_options).assert_existing_objects_matched().expect_partial()


class _MessageLoader(load_v1_in_v2._EagerSavedModelLoader):  # type: ignore[misc]
    """TensorFlow's loader of TensorFlow 1 files, for a message in place of a file."""

    def __init__(self, message: Any, directory: str) -> None:  # in place of TensorFlow's, which reads the file
        self._export_dir = directory
        self._variables_path = path_helpers.get_variables_path(directory)
        self._saved_model = message


def with_captures(function: Any, tensors: Iterable[tf.Tensor]) -> Any:
    """Return a concrete function that runs the same graph on other tensors in place of those that it captured."""
    other = copy.copy(function)
    other.set_external_captures(list(tensors))
    other.original = function  # lives as long
    return other


def operation_definition(kind: str) -> Any:
    """Return the ``OpDef`` of a kind of operation, or ``None`` if this TensorFlow does not have it."""
    return op_def_registry.get(kind)


def stablehlo_text(module: bytes, inlined: bool = False) -> str | None:
    """Return a serialized StableHLO module as text, or ``None`` if TensorFlow cannot read it.

    ``inlined`` is for a module without calls, simplified, with the names of places in the program behind it.
    """
    try:
        text = stablehlo.deserialize_portable_artifact_str(module)
        return str(
            _pywrap_mlir.ExperimentalRunPassPipeline(text, "inline,canonicalize,cse" if inlined else "", inlined)
        )
    except Exception:  # of C++, in several types
        return None


def newer_stablehlo(module: bytes) -> str:
    """Return the version of a serialized StableHLO module if it is newer than TensorFlow reads, and TensorFlow's."""
    version = re.search(rb"StableHLO_v(\d+\.\d+\.\d+)", module[:40])  # at its beginning
    written, known = (version[1].decode() if version else "0"), stablehlo.get_current_version()
    is_newer = [int(part) for part in written.split(".")] > [int(part) for part in known.split(".")]
    return f"{written}, newer than {known}" if is_newer and stablehlo_text(module) is None else ""


def is_known_and_stateless(kind: str) -> bool:
    """Return whether a kind of operation has no state and no side effects."""
    definition = operation_definition(kind)
    return definition is not None and not definition.is_stateful


def registered_gradient(kind: str) -> Any:
    """Return the gradient registered for a kind of operation, ``None`` if it has none by definition.

    Raises
    ------
    LookupError
        If nothing is registered.
    """
    return ops.gradient_registry.lookup(kind)


def gradients_of(operation: tf.Operation, upstream: Sequence[tf.Tensor | None]) -> list[Any]:
    """Return the gradient at each input of an operation, ``None`` where there is none, from those of its outputs.

    Raises
    ------
    LookupError
        If no gradient is registered.
    """
    gradient = ops.get_gradient_function(operation)
    if gradient is None:
        return [None] * len(operation.inputs)
    given = [
        tf.zeros_like(output) if one is None and output.dtype.is_floating else one
        for output, one in zip(operation.outputs, upstream, strict=True)
    ]
    with operation.graph._original_op(operation):
        found = gradient(operation, *given)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def loaded_gradient(name: str) -> Any:
    """Return the concrete function behind a custom gradient that was loaded with a file, or ``None``."""
    try:
        gradient = registered_gradient(name)
    except LookupError:
        return None
    function = inspect.getclosurevars(gradient).nonlocals.get("func") if inspect.isfunction(gradient) else None
    return function if hasattr(function, "graph") else None
