"""Compare the translation of a module of JAX or PyTorch with the module itself when a file is loaded.

XLA compiles the module for that, which takes most of the time of loading: 10 CPU seconds for ResNet-50.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.batching import random_arrays
from attribution.errors import BadInput
from attribution.graph._tf_internals import unoptimized
from attribution.graph.view import GraphView

OTHER_SCORES = "the translation gives other scores"
NO_GRADIENT = "the file has no gradient to compare with"  # nor another than the translation's
MATCHES = ("", NO_GRADIENT)
_TOLERANCE = 1e-5  # of the largest value
_ROUNDINGS = 8  # how much more than one change of all last digits the roundings of a pass may do
_ROWS, _SIZE = 2, 16  # where the file leaves sizes open
_SIGNS = 4093  # random ones, repeated: weights are many


@unoptimized()
def difference(
    graph: GraphView,
    inputs: Sequence[str],
    output: str,
    specs: Mapping[str, tf.TensorSpec],
    loaded: Callable[..., Any],
) -> str:
    """Return what a translated graph computes otherwise than the file, one of ``MATCHES`` if nothing.

    The scores of random inputs are compared, and the gradient of a random combination of them where the file has one.
    It may be another: ``custom_vjp`` and ``stop_gradient`` of JAX leave no trace in the module of the scores.

    ``inputs`` and ``output`` are nodes and the tensor of the translation, ``specs`` the inputs' shapes and types in the
    same order, and ``loaded`` is the function from them to the output, as the file has it.
    """
    arrays = [tf.constant(array) for array in random_arrays(specs.values(), _ROWS, _SIZE)]
    function = _function(graph, inputs, output)
    translated = functools.partial(function, graph.weights)

    def rounded() -> Callable[..., Any]:
        return functools.partial(function, {name: _last_digits(weight) for name, weight in graph.weights.items()})

    try:
        scores, again = translated(*arrays), lambda: rounded()(*map(_last_digits, arrays))
        if not _agree(loaded(*arrays), scores, again):
            return OTHER_SCORES
    except (TypeError, ValueError, tf.errors.OpError) as error:
        return f"the translation cannot be compared with the module ({type(error).__name__})"
    return _difference_of_gradients(loaded, translated, rounded, arrays)


def _difference_of_gradients(
    loaded: Callable[..., Any],
    translated: Callable[..., Any],
    rounded: Callable[[], Callable[..., Any]],
    arrays: Sequence[tf.Tensor],
) -> str:
    try:
        of_file = _gradients(loaded, arrays)
    except LookupError:
        return NO_GRADIENT
    except (TypeError, ValueError, tf.errors.OpError) as error:
        return f"the module's gradient cannot be computed ({type(error).__name__})"
    try:
        pairs = [*zip(of_file, _gradients(translated, arrays), strict=True)]
    except (BadInput, LookupError):
        return "the translation has no gradient, and the file has one"
    except (TypeError, ValueError, tf.errors.OpError) as error:
        return f"the translation's gradient cannot be compared with the module's ({type(error).__name__})"
    again = functools.cache(lambda: _gradients(rounded(), [*map(_last_digits, arrays)]))
    for place, pair in enumerate(pairs):
        if not _agree(*pair, functools.partial(lambda place: again()[place], place)):
            return "the translation has another gradient"
    return ""


def _function(graph: GraphView, inputs: Sequence[str], output: str) -> Callable[..., Any]:
    """Return the function of a graph's weights and inputs, traced once for all weights."""

    def function(weights: Mapping[str, Any], *given: Any) -> Any:
        view = GraphView(graph.graph_def, weights)
        (found,), _ = view.import_on(dict(zip(inputs, given, strict=True)), [output])
        return found

    compiled: Callable[..., Any] = tf.function(function, autograph=False)
    return compiled


def _last_digits(x: Any) -> Any:
    """Return numbers of floating point with other last digits."""
    x = tf.convert_to_tensor(x) if x.dtype.is_floating else x
    if x.dtype not in (tf.float32, tf.float64):
        return x
    size, dtype = x.shape.num_elements(), x.dtype.as_numpy_dtype
    factors = 1 + np.random.default_rng(0).choice([-1, 1], min(size, _SIGNS)) * np.finfo(dtype).eps
    return x * np.resize(factors.astype(dtype), size).reshape(x.shape)


def _gradients(function: Callable[..., Any], arrays: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the gradients of a random combination of a function's scores."""

    def gradients(*given: Any) -> Any:
        scores = function(*given)
        combined = tf.reduce_sum(tf.cast(scores, tf.float32) * tf.random.stateless_normal(tf.shape(scores), (0, 0)))
        floating = [array for array in given if array.dtype.is_floating]
        return tf.gradients(combined, floating, unconnected_gradients="zero")

    return list(tf.function(gradients, autograph=False)(*arrays))


def _agree(one: tf.Tensor, other: tf.Tensor, rounded: Callable[[], Any]) -> bool:
    """Return whether two results are equal but for rounding.

    ``rounded`` computes the second from numbers with other last digits: a network can amplify these.
    """
    if one.shape != other.shape:
        return False
    first, second = (tf.cast(result, tf.float64).numpy() for result in (one, other))
    differences = np.abs(first - second)
    if (differences <= _TOLERANCE * np.abs(first).max(initial=0.0)).all():
        return True
    amplified = np.abs(tf.cast(rounded(), tf.float64).numpy() - second).max()
    return bool((differences <= min(_ROUNDINGS * amplified, 1e-3 * np.abs(first).max(initial=0.0))).all())
