"""Functions of one variable: activations that were written as polynomials, exponentials and choices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.recognize.rewriting import Graph, is_first, resolution
from attribution.graph.view import node_of

_REACH = 8  # tensors further up that may be a function's variable

_UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": np.abs, "Cast": lambda x: x, "Erf": np.vectorize(math.erf, [float]),
    "Erfc": np.vectorize(math.erfc, [float]),
    "Exp": np.exp, "Expm1": np.expm1, "Identity": lambda x: x, "IsFinite": np.isfinite, "Log": np.log,
    "Log1p": np.log1p, "LogicalNot": np.logical_not, "Neg": np.negative, "Reciprocal": lambda x: 1 / x,
    "Relu": lambda x: np.maximum(x, 0), "Relu6": lambda x: np.clip(x, 0, 6), "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Sign": np.sign, "Softplus": lambda x: np.logaddexp(x, 0),
    "Sqrt": np.sqrt, "Square": np.square, "Tanh": np.tanh,
}  # fmt: skip

_JOINING: dict[str, Callable[..., Any]] = {
    "Add": np.add, "AddV2": np.add, "Equal": np.equal, "Greater": np.greater, "GreaterEqual": np.greater_equal,
    "Less": np.less, "LessEqual": np.less_equal, "LogicalAnd": np.logical_and, "LogicalOr": np.logical_or,
    "Maximum": np.maximum, "Minimum": np.minimum, "Mul": np.multiply, "NotEqual": np.not_equal, "Pow": np.power,
    "RealDiv": np.divide, "Select": np.where, "SelectV2": np.where, "Sub": np.subtract,
}  # fmt: skip

ELEMENTWISE = _UNARY | _JOINING

# Close together, so that equal values mean equal slopes, and far away, where the writers of approximations cut them.
_GRID = np.concatenate([np.linspace(-9, 9, 361), *(sign * np.geomspace(10, 1e4, 20) for sign in (-1, 1))])

_ONE = int(np.flatnonzero(_GRID == -1)[0])


def _hard_sigmoid(x: Any) -> Any:
    return tf.nn.relu6(x + tf.constant(3, x.dtype)) / tf.constant(6, x.dtype)


# As Keras on TensorFlow writes them; the first that fits is taken.
_FUNCTIONS: tuple[Callable[[Any], Any], ...] = (
    tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.selu, tf.nn.softplus, tf.nn.softsign, tf.tanh, tf.sigmoid,
    lambda x: x * tf.sigmoid(x), lambda x: tf.nn.gelu(x, approximate=False),
    lambda x: tf.nn.gelu(x, approximate=True), lambda x: x * tf.tanh(tf.nn.softplus(x)), tf.math.erf, tf.math.erfc,
    _hard_sigmoid, lambda x: x * _hard_sigmoid(x),
    lambda x: tf.clip_by_value(x, tf.constant(-1, x.dtype), tf.constant(1, x.dtype)), tf.math.log_sigmoid, tf.square,
)  # fmt: skip


@functools.cache
def _known_values() -> np.ndarray:
    with tf.init_scope(), tf.device("CPU"):
        return np.array([function(tf.constant(_GRID)).numpy() for function in _FUNCTIONS])


@functools.lru_cache(64)
def _operations(function: Callable[[Any], Any]) -> list[str]:
    """Return the operations by which TensorFlow writes a function, in alphabetical order."""
    with tf.Graph().as_default() as graph:
        function(tf.compat.v1.placeholder(tf.float32))
    return sorted(one.type for one in graph.get_operations() if one.type not in ("Const", "Placeholder"))


def find_functions(graph: Graph) -> None:
    """Recognize functions of one variable, those inside others first."""
    chains: dict[str, list[str]] = {}
    for name in list(graph.nodes):
        node = graph.nodes[name]
        chains[name] = [name, *_common(graph, node, chains)] if _is_elementwise(node) else [name]
        # A cast at the end would lower the precision in which the function is computed.
        may_be_one = not graph.is_constant(node) and node.op not in ("Cast", "Identity") and graph.dtype_is_float(node)
        for source in chains[name][1:] if may_be_one else ():
            region = _region(graph, name, source)
            function = _function(graph, region, source)
            if function is not None and sorted(graph.nodes[one].op for one in region) != _operations(function):
                graph.replace(node, function, [graph.nodes[source]])
                chains[name] = [name, *chains[source] * _is_elementwise(graph.nodes[name])][:_REACH]
                break
    graph.refresh()


def _is_elementwise(node: Any) -> bool:
    """Return whether a node's values are known from the values at the same place, which a cast must not cut."""
    types = [tf.as_dtype(node.attr[name].type) for name in ("SrcT", "DstT")] if node.op == "Cast" else []
    return node.op in ELEMENTWISE and all(dtype.is_floating for dtype in types)


def _common(graph: Graph, node: Any, chains: Mapping[str, list[str]]) -> list[str]:
    """Return the nodes through which all paths of elementwise operations to a node lead, the nearest first."""
    moving = [tensor for tensor in node.input if graph.single(graph.nodes[node_of(tensor)]) is None]
    if not moving or not all(map(is_first, moving)):
        return []
    first, *others = (chains[node_of(tensor)] for tensor in moving)
    return [one for one in first if all(one in other for other in others)][:_REACH]


def _region(graph: Graph, name: str, source: str) -> list[str]:
    """Return the nodes between two, the last included, in an order in which they can be computed."""
    found: dict[str, None] = {}
    stack = [name]
    while stack:
        node = graph.nodes[stack[-1]]
        above = [node_of(tensor) for tensor in node.input if node_of(tensor) not in found]
        waiting = [one for one in above if one != source and graph.single(graph.nodes[one]) is None]
        if waiting:
            stack += waiting
        else:
            found[stack.pop()] = None
    return list(found)


def _function(graph: Graph, region: Sequence[str], source: str) -> Callable[[Any], Any] | None:
    """Return the function, as TensorFlow writes it, that a region computes of its source; ``None`` if unknown."""
    is_named = len(region) == 1 and graph.nodes[region[0]].op not in ("Maximum", "Pow")
    if is_named or graph.dtype(graph.nodes[source]) != graph.dtype(graph.nodes[region[-1]]):
        return None
    found = _values(graph, region, source)
    if not np.isfinite(found).all():
        return None
    slope = -float(found[_ONE])
    known = np.stack([*_known_values(), np.maximum(_GRID, slope * _GRID)])
    differences = (np.abs(known - found) / (1 + np.abs(known))).max(axis=1)
    differences[-1] = differences[-1] if 0 < slope < 1 else np.inf
    best = int(differences.argmin())
    if differences[best] > 8 * resolution(graph.dtype(graph.nodes[source])):
        return None
    return (*_FUNCTIONS, lambda x: tf.nn.leaky_relu(x, slope))[best]


def _values(graph: Graph, region: Sequence[str], source: str) -> np.ndarray:
    """Return what a region computes from the grid."""
    values: dict[str, Any] = {source: _GRID}
    with np.errstate(all="ignore"):
        for name in region:
            node = graph.nodes[name]
            single = (graph.single(graph.nodes[node_of(tensor)]) for tensor in node.input)
            given = [values[node_of(t)] if one is None else one for t, one in zip(node.input, single, strict=True)]
            values[name] = ELEMENTWISE[node.op](*given)
    return np.asarray(values[region[-1]], float)
