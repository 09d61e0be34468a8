"""Functions of one variable: activations that were written as polynomials, exponentials and choices."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from attribution.graph.recognize.rewriting import Graph, is_first, resolution
from attribution.graph.view import GraphView, node_of

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


# As Keras on TensorFlow writes them; the first that fits is taken. The names are those of Keras.
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": tf.nn.relu, "relu6": tf.nn.relu6, "elu": tf.nn.elu, "selu": tf.nn.selu, "softplus": tf.nn.softplus,
    "softsign": tf.nn.softsign, "tanh": tf.tanh, "sigmoid": tf.sigmoid, "silu": lambda x: x * tf.sigmoid(x),
    "gelu": lambda x: tf.nn.gelu(x, approximate=False),
    "approximate gelu": lambda x: tf.nn.gelu(x, approximate=True),
    "mish": lambda x: x * tf.tanh(tf.nn.softplus(x)), "erf": tf.math.erf, "erfc": tf.math.erfc,
    "hard_sigmoid": _hard_sigmoid, "hard_silu": lambda x: x * _hard_sigmoid(x),
    "hard_tanh": lambda x: tf.clip_by_value(x, tf.constant(-1, x.dtype), tf.constant(1, x.dtype)),
    "log_sigmoid": tf.math.log_sigmoid, "square": tf.square,
}  # fmt: skip
_OF_LOOP = re.compile(r"while(_\d+)?$|TensorArray")  # a part of a node's name
_RECTIFIERS = ("relu", "relu6", "leaky_relu")


@functools.cache
def _known_values() -> np.ndarray:
    with tf.init_scope(), tf.device("CPU"):
        return np.array([function(tf.constant(_GRID)).numpy() for function in _FUNCTIONS.values()])


@functools.lru_cache(64)
def _operations(function: Callable[[Any], Any]) -> list[str]:
    """Return the operations by which TensorFlow writes a function, in alphabetical order."""
    with tf.Graph().as_default() as graph:
        function(tf.compat.v1.placeholder(tf.float32))
    return sorted(one.type for one in graph.get_operations() if one.type not in ("Const", "Placeholder"))


def find_functions(graph: Graph) -> None:
    """Recognize functions of one variable, those inside others first."""
    for found in _regions(graph):
        if found.spelled_out:
            graph.replace(graph.nodes[found.nodes[-1]], found.function, [graph.nodes[found.source]])
    graph.refresh()


def operations_named(view: GraphView, names: Sequence[str], output: str) -> list[str]:
    """Return the operations of nodes for an error message, in the order of the nodes.

    Nodes that together are an activation have one entry, with its name in Keras and their layer, as "gelu (dense)".
    Those of a loop have one entry, as "loop (lstm)". Others are "Sin (dense/Sin)".

    Parameters
    ----------
    view
        A frozen graph.
    names
        Nodes between an input and ``output``.
    output
        Node of the scores.
    """
    labels: dict[str, str] = {}
    for found in _regions(Graph(view.graph_def, view.weights, [output])):
        if found.title not in _RECTIFIERS:  # these are named where they are written otherwise, such as by Maximum
            labels.update(dict.fromkeys(found.nodes, f"{found.title} ({_layer(found.nodes)})"))
    return list(dict.fromkeys(labels.get(name) or _label(view.nodes[name].op, name) for name in names))


def _label(op: str, name: str) -> str:
    """Return an operation and its node; "loop" and its layer for what a loop consists of."""
    parts = [part for part in name.split("/") if not part.endswith("PartitionedCall")]
    layer = list(itertools.takewhile(lambda part: not _OF_LOOP.match(part), parts))
    return f"loop ({'/'.join(layer) or name})" if len(layer) < len(parts) else f"{op} ({name})"


def _layer(nodes: Sequence[str]) -> str:
    """Return the common scope of an activation's nodes without that of its function; the last node if there is none."""
    paths = [name.split("/") for name in nodes]
    common = [parts[0] for parts in itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))]
    scope = [part for part in common if not part.endswith("PartitionedCall") and part != "Gelu"]
    return "/".join(scope) or nodes[-1]


class _Region(NamedTuple):
    """Nodes that are a known function of one variable, the last of them its value."""

    source: str
    nodes: list[str]
    title: str
    function: Callable[[Any], Any]
    spelled_out: bool  # by other operations than TensorFlow's


def _regions(graph: Graph) -> Iterator[_Region]:
    """Yield the functions of a graph, those inside others first; the caller may replace the last node of each."""
    chains: dict[str, list[str]] = {}
    for name in list(graph.nodes):
        node = graph.nodes[name]
        chains[name] = [name, *_common(graph, node, chains)] if _is_elementwise(node) else [name]
        # A cast at the end would lower the precision in which the function is computed.
        may_be_one = not graph.is_constant(node) and node.op not in ("Cast", "Identity") and graph.dtype_is_float(node)
        for source in chains[name][1:] if may_be_one else ():
            nodes = _region(graph, name, source)
            known = _function(graph, nodes, source)
            if known is None:
                continue
            spelled_out = sorted(graph.nodes[one].op for one in nodes) != _operations(known[1])
            yield _Region(source, nodes, *known, spelled_out)
            if spelled_out:
                chains[name] = [name, *chains[source] * _is_elementwise(graph.nodes[name])][:_REACH]
                break


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


def _function(graph: Graph, region: Sequence[str], source: str) -> tuple[str, Callable[[Any], Any]] | None:
    """Return name and function, as TensorFlow writes it, that a region computes of its source; ``None`` if unknown."""
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
    return [*_FUNCTIONS.items(), ("leaky_relu", lambda x: tf.nn.leaky_relu(x, slope))][best]


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
