"""Compare the translation of a module of JAX or PyTorch with the module itself, before anything is explained by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.view import GraphView
from attribution.model._loading_checks import random_arrays

# Compiling the stored gradient of a larger module takes tens of seconds; ``inspect`` does it for every module.
MOST_NODES = 600
_TOLERANCE = 1e-5  # of the largest value; where the network computes in shorter numbers, their resolution
_SHORT = {tf.float16.as_datatype_enum: 2.0**-10, tf.bfloat16.as_datatype_enum: 2.0**-7}
_ROWS, _SIZE = 2, 16  # where the file leaves sizes open


def difference(
    graph: GraphView,
    inputs: Sequence[str],
    output: str,
    specs: Mapping[str, tf.TensorSpec],
    loaded: Callable[..., Any],
    most_nodes: int = MOST_NODES,
) -> str:
    """Return what a translated graph computes otherwise than the file, empty if nothing.

    The scores of random inputs are compared, and the gradient of a random combination of them where the file has one.
    It may be another: ``custom_vjp`` and ``stop_gradient`` of JAX leave no trace in the module of the scores.

    Parameters
    ----------
    graph
        The translation.
    inputs, output
        Nodes of its inputs, and its tensor.
    specs
        The inputs' shapes and types, in the same order.
    loaded
        The function from them to the output, as the file has it.
    most_nodes
        Of a graph whose gradient is compared.
    """
    arrays = [tf.constant(array) for array in random_arrays(specs.values(), _ROWS, _SIZE)]
    types = [value.type for node in graph.nodes.values() for value in node.attr.values()]
    tolerance = max(_SHORT.get(one, _TOLERANCE) for one in types)

    def translated(*given: Any) -> Any:
        (found,), _ = graph.import_on(dict(zip(inputs, given, strict=True)), [output])
        return found

    try:
        if not _agree(tf.function(translated, autograph=False)(*arrays), loaded(*arrays), tolerance):
            return "the translation gives other scores"
    except (TypeError, ValueError, tf.errors.OpError) as error:
        return f"the translation cannot be compared with the module ({type(error).__name__})"
    # In shorter numbers rounding alone moves gradients by more than another definition would.
    if len(graph.nodes) > most_nodes or tolerance > _TOLERANCE:
        return ""
    try:
        theirs = _gradients(loaded, arrays)
    except LookupError:  # the file has none
        return ""
    agree = all(_agree(*pair, tolerance) for pair in zip(_gradients(translated, arrays), theirs, strict=True))
    return "" if agree else "the translation has another gradient"


def _gradients(function: Callable[..., Any], arrays: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the gradients of a random combination of a function's scores."""

    def gradients(*given: Any) -> Any:
        scores = function(*given)
        combined = tf.reduce_sum(tf.cast(scores, tf.float32) * tf.random.stateless_normal(tf.shape(scores), (0, 0)))
        floating = [array for array in given if array.dtype.is_floating]
        return tf.gradients(combined, floating, unconnected_gradients="zero")

    return list(tf.function(gradients, autograph=False)(*arrays))


def _agree(one: tf.Tensor, other: tf.Tensor, tolerance: float) -> bool:
    """Return whether two results are equal but for rounding; ``tolerance`` is relative to the largest value."""
    if one.shape != other.shape:
        return False
    first, second = (tf.cast(result, tf.float64).numpy() for result in (one, other))
    return bool((np.abs(first - second) <= tolerance * np.abs(second).max(initial=0.0)).all())
