"""What this package uses of TensorFlow that is not public API; tests name the versions that it was tried on."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.framework import convert_to_constants, function_def_to_graph, op_def_registry, ops
from tensorflow.python.ops.op_selector import UnliftableError

__all__ = [
    "UnliftableError", "convert_to_constants", "function_body", "is_known_and_stateless", "loaded_gradient",
    "registered_gradient",
]  # fmt: skip


def function_body(function_def) -> tuple[tf.compat.v1.GraphDef, dict[str, str]]:
    """Return a function of a library as a graph, and its tensors' names there by their names in the function."""
    return function_def_to_graph.function_def_to_graph_def(function_def)


def is_known_and_stateless(kind: str) -> bool:
    """Return whether a kind of operation keeps nothing from call to call and has no side effects."""
    definition = op_def_registry.get(kind)
    return definition is not None and not definition.is_stateful


def registered_gradient(kind: str) -> Callable | None:
    """Return the gradient registered for a kind of operation, ``None`` if it has none by definition.

    Raises
    ------
    LookupError
        If nothing is registered.
    """
    return ops.gradient_registry.lookup(kind)


def loaded_gradient(name: str):
    """Return the concrete function behind a custom gradient that was loaded with a file, or ``None``."""
    try:
        gradient = registered_gradient(name)
    except LookupError:
        return None
    function = inspect.getclosurevars(gradient).nonlocals.get("func") if inspect.isfunction(gradient) else None
    return function if hasattr(function, "graph") else None
