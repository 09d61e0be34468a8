"""Recognize in a graph what its writer spelled out, and write it as Keras on TensorFlow does.

The exporters of JAX and PyTorch write activations, softmax, means, attention and layers as arithmetic: GELU as a
polynomial with cases, a mean as a sum and a quotient, attention with axes of size 1 and transposes. Rules of relevance,
of DeepLIFT and of class activation maps know operations. What is recognized by its structure is verified by its values:
a function of one variable on a grid, everything else on random numbers. What does not match stays as it is.

Only graphs that ``attribution.graph.stablehlo`` made are changed. TensorFlow's own stay, to the bit.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

from attribution.graph.view import GraphView, node_of, pure_subgraph, set_placeholder

_ROUNDS = 8  # of rules that move transposes and axes of size 1 down, at most
_REACH = 8  # tensors further up that may be a function's variable
_MOVES = ("Identity", "Transpose", "ExpandDims", "Reshape", "Squeeze", "StopGradient")
_RESHAPES = ("Reshape", "ExpandDims", "Squeeze")


def recognize(
    graph_def: tf.compat.v1.GraphDef, weights: Mapping[str, Any], outputs: Iterable[str]
) -> tf.compat.v1.GraphDef:
    """Return a graph with the same outputs, in which functions and layers are the operations of TensorFlow.

    Parameters
    ----------
    graph_def
        A graph that was lowered from StableHLO, without calls.
    weights
        Tensors of the graph's placeholders that are not inputs, by node name.
    outputs
        Names of the tensors that stay, by the same names; what they do not depend on may go.

    Returns
    -------
    tf.compat.v1.GraphDef
        The graph.
    """
    graph = _Graph(graph_def, weights, outputs)
    for rules in (_SIMPLE, _MEANS):
        graph.apply(rules)
    _functions(graph)
    for rules in (_VARIANCES, _SOFTMAXES):
        graph.apply(rules)
    for _ in range(_ROUNDS):
        if not graph.apply(_MOVING):
            break
    for rules in (_PRODUCTS, _LAYERS):
        graph.apply(rules)
    return graph.result()


class _Graph:
    """A graph that is being changed: nodes by name, in topological order, and what their first outputs are."""

    def __init__(self, graph_def: Any, weights: Mapping[str, Any], outputs: Iterable[str]) -> None:
        self._weights = dict(weights)
        self._outputs = list(outputs)
        self._number = itertools.count()
        self._inputs = [node.name for node in graph_def.node if node.op == "Placeholder" and node.name not in weights]
        self._set(pure_subgraph(graph_def, self._outputs, keep=self._inputs), None)

    def _set(self, graph_def: Any, outputs: Any) -> None:
        self._view = view = GraphView(graph_def, self._weights, outputs=outputs)
        self.nodes: dict[str, Any] = dict(view.nodes)
        self.variable = view.below(self._inputs)
        self._specs = {name: view._outputs_of(name) for name in view.nodes}

    def result(self) -> tf.compat.v1.GraphDef:
        """Return the graph without what its outputs do not need."""
        changed = tf.compat.v1.GraphDef()
        changed.versions.CopyFrom(self._view.graph_def.versions)
        changed.library.CopyFrom(self._view.graph_def.library)
        changed.node.extend(self.nodes.values())
        return pure_subgraph(changed, self._outputs, keep=self._inputs)

    def apply(self, rules: Mapping[str, Sequence[Callable[[_Graph, Any], bool]]]) -> bool:
        """Apply rules, by operation, to each node that depends on an input; return whether anything changed."""
        changed = False
        for name, node in list(self.nodes.items()):
            if name in self.variable and any(rule(self, self.nodes[name]) for rule in rules.get(node.op, ())):
                changed = True
        if changed:
            self.refresh()
        return changed

    def refresh(self) -> None:
        """Forget what is no longer used."""
        self._set(self.result(), None)

    def up(self, tensor: str) -> Any:
        """Return the node of a tensor, identities left aside; ``None`` for a node's second or later output."""
        node = self.nodes[node_of(tensor)]
        while node.op == "Identity" and _is_first(tensor):
            tensor = node.input[0]
            node = self.nodes[node_of(tensor)]
        return node if _is_first(tensor) else None

    def inputs(self, node: Any) -> list[Any]:
        """Return the nodes of a node's inputs."""
        return [self.up(tensor) for tensor in node.input]

    def shape(self, node: Any) -> list[int | None]:
        """Return the sizes of a node's first output; an empty list if not even their number is known."""
        shape = self._specs[node.name][0].shape
        return [] if shape.rank is None else list(shape.as_list())

    def dtype(self, node: Any) -> tf.DType:
        """Return the type of a node's first output."""
        return self._specs[node.name][0].dtype

    def value(self, node: Any) -> np.ndarray | None:
        """Return the value of a constant that is stored in the graph."""
        return tf.make_ndarray(node.attr["value"].tensor) if node is not None and node.op == "Const" else None

    def single(self, node: Any) -> float | None:
        """Return a constant that is one number of floating point, or one truth."""
        is_number = node is not None and node.op == "Const" and not self.dtype(node).is_integer
        value = tf.make_ndarray(node.attr["value"].tensor) if is_number else np.zeros(0)
        return value.item() if value.size == 1 else None

    def dtype_is_float(self, node: Any) -> bool:
        """Return whether a node's first output is of floating point."""
        return bool(self._specs[node.name]) and self.dtype(node).is_floating

    def uses(self, name: str) -> int:
        """Return how often a node was used before the rules of this round."""
        return len(self._view.uses(name)) if name in self._view.nodes else 0

    def replace(self, node: Any, function: Callable[..., Any], sources: Sequence[Any]) -> bool:
        """Let a node be a function of others, as TensorFlow writes it."""
        with tf.Graph().as_default() as built:
            given = [tf.compat.v1.placeholder(self.dtype(one), self._specs[one.name][0].shape) for one in sources]
            result = function(*given)
            if any(result is one for one in given):
                result = tf.identity(result)
        names = {tensor.op.name: source.name for tensor, source in zip(given, sources, strict=True)}
        names[result.op.name] = node.name
        prefix = f"{node.name}/recognized_{next(self._number)}"
        for operation in built.get_operations():
            if operation.type == "Placeholder":
                continue
            new = tf.compat.v1.NodeDef()
            new.CopyFrom(operation.node_def)
            new.name = names.setdefault(operation.name, f"{prefix}/{operation.name}")
            del new.input[:]
            new.input.extend(_renamed(tensor.name, names) for tensor in operation.inputs)
            self.nodes[new.name] = new
            self._specs[new.name] = [tf.TensorSpec(one.shape, one.dtype) for one in operation.outputs]
            self.variable.add(new.name)
        return True

    def is_equal(self, source: Any, through: Any, target: Any, function: Callable[[Any], Any], whole: int = 0) -> bool:
        """Return whether a node is a function of the node ``through``, as random numbers at ``source`` show.

        With ``whole`` they are whole numbers below it.
        """
        shape = [3 if size is None else size for size in self.shape(source)]
        random = np.random.default_rng(0)
        numbers = random.integers(0, whole, shape) if whole else 3 * random.standard_normal(shape)
        given = tf.constant(numbers, self.dtype(source))
        try:
            with tf.init_scope(), tf.device("CPU"):
                found, wanted = self._run(source, target, given), function(self._run(source, through, given)).numpy()
        except (KeyError, ValueError, tf.errors.OpError):
            return False
        tolerance = 0 if whole else 32 * _resolution(found.dtype)
        values = np.asarray(found, float)
        close = found.shape == wanted.shape and np.abs(values - wanted) <= tolerance * (1 + np.abs(wanted))
        return bool(np.all(close))

    def _run(self, source: Any, target: Any, given: tf.Tensor) -> Any:
        part, stack = {source.name}, [target.name]
        while stack:
            name = stack.pop()
            if name not in part:
                part.add(name)
                stack.extend(node_of(tensor) for tensor in self.nodes[name].input)
        cut = tf.compat.v1.GraphDef()
        cut.versions.CopyFrom(self._view.graph_def.versions)
        cut.node.extend(self.nodes[name] for name in part)
        for node in cut.node:
            if node.name == source.name:
                set_placeholder(node, given.dtype, given.shape)
        view = GraphView(cut, self._weights)
        return tf.function(
            lambda x: view.import_on({source.name: x}, [f"{target.name}:0"])[0][0], autograph=False
        )(given)


def _is_first(tensor: str) -> bool:
    return ":" not in tensor or tensor.endswith(":0")


def _renamed(tensor: str, names: Mapping[str, str]) -> str:
    name, _, number = tensor.partition(":")
    return names[name] if number == "0" else f"{names[name]}:{number}"


def _resolution(dtype: tf.DType) -> float:
    return float(ml_dtypes.finfo(dtype.as_numpy_dtype).eps)


# Functions of one variable

_UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": np.abs, "Cast": lambda x: x, "Erf": np.vectorize(math.erf, [float]), "Erfc": np.vectorize(math.erfc, [float]),
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
_ELEMENTWISE = _UNARY | _JOINING
# Close together, so that equal values mean equal slopes, and far away, where the writers of approximations cut them.
_GRID = np.concatenate([np.linspace(-9, 9, 361), *(sign * np.geomspace(10, 1e4, 20) for sign in (-1, 1))])
_ONE = int(np.flatnonzero(_GRID == -1)[0])


def _hard_sigmoid(x: Any) -> Any:
    return tf.nn.relu6(x + tf.constant(3, x.dtype)) / tf.constant(6, x.dtype)


# As Keras on TensorFlow writes them; the first that fits is taken.
_FUNCTIONS: tuple[Callable[[Any], Any], ...] = (
    tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.selu, tf.nn.softplus, tf.nn.softsign, tf.tanh, tf.sigmoid,
    lambda x: x * tf.sigmoid(x), lambda x: tf.nn.gelu(x, approximate=False), lambda x: tf.nn.gelu(x, approximate=True),
    lambda x: x * tf.tanh(tf.nn.softplus(x)), tf.math.erf, tf.math.erfc, _hard_sigmoid, lambda x: x * _hard_sigmoid(x),
    lambda x: tf.clip_by_value(x, tf.constant(-1, x.dtype), tf.constant(1, x.dtype)), tf.math.log_sigmoid,
    tf.square,
)  # fmt: skip


@functools.cache
def _known_values() -> np.ndarray:
    with tf.init_scope(), tf.device("CPU"):
        return np.array([function(tf.constant(_GRID)).numpy() for function in _FUNCTIONS])


def _functions(graph: _Graph) -> None:
    """Recognize functions of one variable, those inside others first."""
    chains: dict[str, list[str]] = {}
    for name in list(graph.nodes):
        node = graph.nodes[name]
        chains[name] = [name, *_common(graph, node, chains)] if node.op in _ELEMENTWISE else [name]
        for source in chains[name][1:] if name in graph.variable and graph.dtype_is_float(node) else ():
            if (function := _function(graph, _region(graph, name, source), source)) is not None:
                graph.replace(node, function, [graph.nodes[source]])
                chains[name] = [name, *chains[source]][:_REACH]
                break
    graph.refresh()


def _common(graph: _Graph, node: Any, chains: Mapping[str, list[str]]) -> list[str]:
    """Return the nodes through which all paths of elementwise operations to a node lead, the nearest first."""
    moving = [tensor for tensor in node.input if graph.single(graph.nodes[node_of(tensor)]) is None]
    if not moving or not all(map(_is_first, moving)):
        return []
    first, *others = (chains[node_of(tensor)] for tensor in moving)
    return [one for one in first if all(one in other for other in others)][:_REACH]


def _region(graph: _Graph, name: str, source: str) -> list[str]:
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


def _function(graph: _Graph, region: Sequence[str], source: str) -> Callable[[Any], Any] | None:
    """Return the function, as TensorFlow writes it, that a region computes of its source; ``None`` if none is known."""
    is_single = len(region) == 1 and graph.nodes[region[0]].op in _UNARY
    if is_single or graph.dtype(graph.nodes[source]) != graph.dtype(graph.nodes[region[-1]]):
        return None
    values: dict[str, Any] = {source: _GRID}
    with np.errstate(all="ignore"):
        for name in region:
            node = graph.nodes[name]
            single = (graph.single(graph.nodes[node_of(tensor)]) for tensor in node.input)
            given = [values[node_of(t)] if one is None else one for t, one in zip(node.input, single, strict=True)]
            values[name] = _ELEMENTWISE[node.op](*given)
    found = values[region[-1]]
    if found.dtype != float or not np.isfinite(found).all():
        return None
    close = 8 * _resolution(graph.dtype(graph.nodes[source]))
    known = _known_values()
    differences = (np.abs(known - found) / (1 + np.abs(known))).max(axis=1)
    if differences.min() <= close:
        return _FUNCTIONS[int(differences.argmin())]
    slope = -float(found[_ONE])
    if 0 < slope < 1 and np.abs(np.maximum(_GRID, slope * _GRID) - found).max() <= close * _GRID.max():
        return lambda x: tf.nn.leaky_relu(x, slope)
    return None


# Constants, maxima and means


def _known_choice(graph: _Graph, node: Any) -> bool:
    """Take the branch that a constant condition chooses."""
    condition, *branches = graph.inputs(node)
    value = graph.value(condition)
    if value is None or value.size != 1 or None in branches:
        return False
    chosen = branches[0 if value.item() else 1]
    return graph.shape(chosen) == graph.shape(node) and graph.replace(node, lambda x: x, [chosen])


def _no_bound(graph: _Graph, node: Any) -> bool:
    """Leave out the maximum of a tensor and -∞."""
    first, second = graph.inputs(node)
    for bound, x in ((first, second), (second, first)):
        if x is not None and graph.single(bound) == -math.inf:
            return graph.replace(node, lambda x: x, [x])
    return False


def _no_broadcast(graph: _Graph, node: Any) -> bool:
    """Leave out a broadcast to the same sizes; an open one is the batch, which a constant does not have."""
    x = graph.up(node.input[0])
    shape = graph.shape(node)
    same = x is not None and x.name in graph.variable and shape == graph.shape(x) and shape.count(None) <= 1
    return same and shape[:1].count(None) == shape.count(None) and graph.replace(node, lambda x: x, [x])


def _kept_axes(graph: _Graph, node: Any) -> bool:
    """Write a reduction followed by new axes of size 1 where it reduced as one that keeps them."""
    reduced = _origin(graph, node, _RESHAPES)
    if reduced is None or reduced.op not in ("Sum", "Max", "Min", "Mean") or reduced.attr["keep_dims"].b:
        return False
    x, axes = graph.up(reduced.input[0]), graph.value(graph.up(reduced.input[1]))
    if x is None or axes is None or not graph.shape(x):
        return False
    axes = [int(axis) % len(graph.shape(x)) for axis in axes.ravel()]
    kept = [1 if axis in axes else size for axis, size in enumerate(graph.shape(x))]
    function = {"Sum": tf.reduce_sum, "Max": tf.reduce_max, "Min": tf.reduce_min, "Mean": tf.reduce_mean}[reduced.op]
    return kept == graph.shape(node) and graph.replace(node, lambda x: function(x, axes, keepdims=True), [x])


def _mean(graph: _Graph, node: Any) -> bool:
    """Write a sum divided by the number of its summands as a mean."""
    total, divisor = graph.inputs(node)
    number = graph.single(divisor)
    if total is None or total.op != "Sum" or not number:
        return False
    x, axes = graph.up(total.input[0]), graph.value(graph.up(total.input[1]))
    sizes = [] if x is None or axes is None else [graph.shape(x)[int(axis)] for axis in axes.ravel()]
    count = number if node.op == "RealDiv" else 1 / number
    if not sizes or None in sizes or abs(count - math.prod(sizes)) > 1e-6 * count:  # type: ignore[arg-type]
        return False
    keep = total.attr["keep_dims"].b
    return graph.replace(node, lambda x: tf.reduce_mean(x, axes.ravel().tolist(), keepdims=keep), [x])


def _variance(graph: _Graph, node: Any) -> bool:
    """Write the mean of squared differences from a mean as normalization does, whose gradient leaves that mean out."""
    square, axes = graph.inputs(node)
    difference = graph.up(square.input[0]) if square is not None and square.op == "Square" else None
    if difference is None or difference.op != "Sub" or graph.value(axes) is None:
        return False
    x, mean = graph.inputs(difference)
    if mean is None or mean.op != "Mean" or graph.up(mean.input[0]) is not x or not mean.attr["keep_dims"].b:
        return False
    rank = len(graph.shape(x))
    places = [[int(axis) % rank for axis in graph.value(graph.up(one.input[1])).ravel()] for one in (mean, node)]
    keep = node.attr["keep_dims"].b

    def variance(x: Any, mean: Any) -> Any:
        return tf.reduce_mean(tf.math.squared_difference(x, tf.stop_gradient(mean)), places[0], keepdims=keep)

    return sorted(places[0]) == sorted(places[1]) and graph.replace(node, variance, [x, mean])


_SIMPLE = {
    "SelectV2": [_known_choice], "Maximum": [_no_bound], "BroadcastTo": [_no_broadcast],
}  # fmt: skip
_MEANS = {**dict.fromkeys(_RESHAPES, [_kept_axes]), "RealDiv": [_mean], "Mul": [_mean]}
_VARIANCES = {"Mean": [_variance]}


# Softmax


def _softmax(graph: _Graph, node: Any) -> bool:
    """Recognize exp(x - max x) / Σ exp(x - max x)."""
    power, total = graph.inputs(node)
    if power is None or power.op != "Exp" or total is None or total.op not in ("Sum", *_MOVES):
        return False
    return _is_softmax_of(graph, node, graph.up(power.input[0]), total, tf.nn.softmax)


def _log_softmax(graph: _Graph, node: Any) -> bool:
    """Recognize (x - max x) - log Σ exp(x - max x)."""
    shifted, logarithm = graph.inputs(node)
    if shifted is None or logarithm is None or logarithm.op != "Log":
        return False
    return _is_softmax_of(graph, node, shifted, logarithm, tf.nn.log_softmax)


def _is_softmax_of(graph: _Graph, node: Any, shifted: Any, total: Any, function: Callable[..., Any]) -> bool:
    if shifted is None or shifted.op != "Sub":
        return False
    x, largest = graph.inputs(shifted)
    if x is None or largest is None or _origin(graph, x, _MOVES) is not _origin(graph, largest, (*_MOVES, "Max")):
        return False
    shape = graph.shape(x)
    axes = [axis for axis, size in enumerate(graph.shape(total)) if size == 1 and shape[axis] != 1] or [len(shape) - 1]
    if len(axes) == 1 and graph.is_equal(_origin(graph, x, _MOVES), x, node, lambda x: function(x, axes[0])):
        return graph.replace(node, lambda x: function(x, axes[0]), [x])
    return False


def _origin(graph: _Graph, node: Any, passed: Sequence[str]) -> Any:
    while node is not None and node.op in passed:
        node = graph.up(node.input[0])
    return node


_SOFTMAXES = {"RealDiv": [_softmax], "Sub": [_log_softmax]}


# Transposes and axes of size 1, which move down until they meet others


def _with_sizes(x: Any, sizes: Sequence[int | None]) -> Any:
    return tf.reshape(x, [-1 if size is None else size for size in sizes])


def _order(graph: _Graph, node: Any) -> list[int]:
    """Return the order of a transpose's axes, empty for anything else."""
    found = graph.value(graph.up(node.input[1])) if node is not None and node.op == "Transpose" else None
    return [] if found is None else [int(axis) for axis in found]


def _unit_reshaped(graph: _Graph, node: Any) -> Any:
    """Return the node of which a node has the values, with axes of size 1 more or less; ``None`` if it is none."""
    x = graph.up(node.input[0]) if node is not None and node.op in _RESHAPES else None
    if x is None or node.name not in graph.variable:
        return None
    before, after = ([size for size in graph.shape(one) if size != 1] for one in (x, node))
    return x if before and before == after and before.count(None) <= 1 else None


def _merged_transpose(graph: _Graph, node: Any) -> bool:
    """Join a transpose with one above it, or with an Einsum; move axes of size 1 below it."""
    order, x = _order(graph, node), graph.up(node.input[0])
    if not order or x is None:
        return False
    if order == sorted(order):
        return graph.replace(node, lambda x: x, [x])
    if inner := _order(graph, x):
        joined = [inner[axis] for axis in order]
        return graph.replace(node, lambda x: tf.transpose(x, joined), [graph.up(x.input[0])])
    if x.op == "Einsum" and graph.uses(x.name) == 1:
        *inputs, output = _letters(x)
        return _new_einsum(graph, node, inputs, [output[axis] for axis in order], graph.inputs(x))
    sizes, target = graph.shape(x), graph.shape(node)
    moving = [axis for axis, size in enumerate(sizes) if size != 1]
    if moving == [axis for axis in order if axis in moving] and sizes.count(None) <= 1:
        return graph.replace(node, lambda x: _with_sizes(x, target), [x])
    if (source := _unit_reshaped(graph, x)) is None:
        return False
    places = [axis for axis, size in enumerate(graph.shape(source)) if size != 1]
    new = list(range(len(graph.shape(source))))
    for place, axis in zip(places, (axis for axis in order if sizes[axis] != 1), strict=True):
        new[place] = places[moving.index(axis)]
    return graph.replace(node, lambda x: _with_sizes(tf.transpose(x, new) if new != sorted(new) else x, target), [source])


def _merged_reshape(graph: _Graph, node: Any) -> bool:
    """Join a reshape with one above it that only adds or removes axes of size 1."""
    x, sizes = graph.up(node.input[0]), graph.shape(node)
    source = _unit_reshaped(graph, x)
    if source is None or sizes.count(None) > 1 or not sizes:
        return False
    same = sizes == graph.shape(source)
    return graph.replace(node, lambda x: x if same else _with_sizes(x, sizes), [source])


def _again(node: Any, tensors: Sequence[Any]) -> Any:
    """Return the output of an operation like a node's, of other tensors."""
    single = tf.compat.v1.GraphDef()
    copy = single.node.add()
    copy.CopyFrom(node)
    copy.name = node.op
    del copy.input[:]
    copy.input.extend(f"given_{place}" for place in range(len(tensors)))
    given = {f"given_{place}:0": tensor for place, tensor in enumerate(tensors)}
    return tf.graph_util.import_graph_def(single, given, [f"{node.op}:0"], name="")[0]


def _softmax_below(graph: _Graph, node: Any) -> bool:
    """Move a transpose, or axes of size 1, below a softmax over the last axis."""
    x = graph.up(node.input[0])
    order, source, sizes = _order(graph, x), _unit_reshaped(graph, x), graph.shape(node)
    if order and order[-1] == len(order) - 1:
        return graph.replace(node, lambda x: tf.transpose(tf.nn.softmax(x), order), [graph.up(x.input[0])])
    if source is None or sizes[-1] == 1 or graph.shape(source)[-1] != sizes[-1]:
        return False
    return graph.replace(node, lambda x: _with_sizes(tf.nn.softmax(x), sizes), [source])


def _elementwise_below(graph: _Graph, node: Any) -> bool:
    """Move a transpose to channels first, or axes of size 1 of a product, below an elementwise operation."""
    inputs = graph.inputs(node)
    if None in inputs:
        return False
    moved = [one for one in inputs if _order(graph, one) == _channels_first(len(graph.shape(node)))]
    if moved and _is_spatial(graph, moved[0]):
        return _transposed_below(graph, node, inputs, _order(graph, moved[0]))
    units = [one for one in inputs if _unit_reshaped(graph, one) is not None]
    return len(units) == 1 and node.op in _BINARY and _widened_below(graph, node, inputs, units[0])


_BINARY = ("Mul", "RealDiv", "Add", "AddV2", "Sub", "Select", "SelectV2", "Maximum", "Minimum")


def _widened_below(graph: _Graph, node: Any, inputs: Sequence[Any], widened: Any) -> bool:
    """Add axes of size 1 behind an operation with others that have none there."""
    source, sizes, wide = _unit_reshaped(graph, widened), graph.shape(node), graph.shape(widened)
    if 1 in graph.shape(source) or len(wide) != len(sizes) or sizes.count(None) > 1:
        return False
    sources, shapes = [], []
    for one in inputs:
        shape = [1] * (len(wide) - len(graph.shape(one))) + graph.shape(one)
        if any(a == 1 != b for a, b in zip(wide, shape, strict=True)):
            return False
        sources.append(source if one is widened else one)
        shapes.append(None if one is widened or graph.single(one) is not None else _without_units(shape, wide))

    def below(*given: Any) -> Any:
        narrow = [x if shape is None else _with_sizes(x, shape) for x, shape in zip(given, shapes, strict=True)]
        return _with_sizes(_again(node, narrow), sizes)

    return graph.replace(node, below, sources)


def _without_units(sizes: Sequence[int | None], wide: Sequence[int | None]) -> list[int | None]:
    return [size for size, other in zip(sizes, wide, strict=True) if other != 1]


def _channels_first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _is_spatial(graph: _Graph, node: Any) -> bool:
    """Return whether a transpose is that of images, not of tokens and their features."""
    return len(graph.shape(node)) > 3


def _transposed_below(graph: _Graph, node: Any, inputs: Sequence[Any], order: list[int]) -> bool:
    back = list(np.argsort(order))
    rank = len(order)
    sources, changes = [], []
    for one in inputs:
        sizes = graph.shape(one)
        is_constant = one.name not in graph.variable
        if _order(graph, one) == order:
            sources.append(graph.up(one.input[0]))
            changes.append(lambda x: x)
        elif graph.single(one) is not None:
            sources.append(one)
            changes.append(lambda x: x)
        elif is_constant or (len(sizes) == rank and len([size for size in sizes[1:] if size != 1]) <= 1):
            sources.append(one)
            wide = [1] * (rank - len(sizes)) + sizes
            changes.append(lambda x, wide=wide: _moved(x, wide, back))
        else:
            return False

    def below(*given: Any) -> Any:
        return tf.transpose(_again(node, [change(x) for change, x in zip(changes, given, strict=True)]), order)

    return graph.replace(node, below, sources)


def _moved(x: Any, sizes: list[int | None], order: Sequence[int]) -> Any:
    """Return a tensor with these sizes, transposed, by a reshape if no more than one axis is longer than 1."""
    target = [sizes[axis] for axis in order]
    if len([size for size in sizes[1:] if size != 1]) <= 1:
        return _with_sizes(x, target)
    return tf.transpose(_with_sizes(x, sizes), order)


def _reduced_below(graph: _Graph, node: Any) -> bool:
    """Reduce the axes of positions before a transpose to channels first."""
    x, axes = graph.up(node.input[0]), graph.value(graph.up(node.input[1]))
    order = _order(graph, x)
    if axes is None or not order or order != _channels_first(len(order)) or not _is_spatial(graph, x):
        return False
    places = [order[int(axis)] for axis in axes.ravel()]
    keep = node.attr["keep_dims"].b
    if not keep and sorted(places) != list(range(1, len(order) - 1)):
        return False
    constant = np.array(places, np.int32)
    return graph.replace(
        node,
        lambda x: tf.transpose(_again(node, [x, constant]), order) if keep else _again(node, [x, tf.constant(constant)]),
        [graph.up(x.input[0])],
    )


def _padded_below(graph: _Graph, node: Any) -> bool:
    """Pad before a transpose to channels first."""
    x, paddings, *value = graph.inputs(node)
    order, known = _order(graph, x), graph.value(paddings)
    if known is None or not order or order != _channels_first(len(order)):
        return False
    moved = known[np.argsort(order)]
    return graph.replace(
        node, lambda x, *value: tf.transpose(_again(node, [x, tf.constant(moved), *value]), order),
        [graph.up(x.input[0]), *value],
    )  # fmt: skip


# Layers and attention


def _letters(node: Any) -> list[list[str]]:
    """Return the letters of an Einsum's inputs, and of its output."""
    inputs, output = node.attr["equation"].s.decode().split("->")
    return [list(one) for one in (*inputs.split(","), output)]


def _new_einsum(
    graph: _Graph, node: Any, inputs: Any, output: Any, sources: Sequence[Any], reshaped: Mapping[int, Any] | None = None
) -> bool:
    equation = f"{','.join(map(''.join, inputs))}->{''.join(output)}"
    sizes = graph.shape(node)
    same = len(output) == len(sizes)

    def function(*given: Any) -> Any:
        factors = [_with_sizes(x, reshaped[i]) if i in (reshaped or {}) else x for i, x in enumerate(given)]
        product = tf.raw_ops.Einsum(inputs=factors, equation=equation)
        return product if same else _with_sizes(product, sizes)

    return graph.replace(node, function, sources)


def _einsum_of_units(graph: _Graph, node: Any) -> bool:
    """Take axes of size 1 out of an Einsum."""
    *inputs, output = _letters(node)
    sources = graph.inputs(node)
    for place, one in enumerate(sources):
        source = _unit_reshaped(graph, one)
        if source is not None and 1 not in graph.shape(source) and graph.shape(node).count(None) <= 1:
            sizes = graph.shape(one)
            kept = [letter for letter, size in zip(inputs[place], sizes, strict=True) if size != 1]
            dropped = set(inputs[place]) - set(kept) - set(inputs[1 - place])
            inputs[place], sources[place] = kept, source
            return _new_einsum(graph, node, inputs, [one for one in output if one not in dropped], sources)
    return False


def _einsum_of_transposed(graph: _Graph, node: Any) -> bool:
    """Take transposes above an Einsum of two tensors that depend on the input into its equation."""
    *inputs, output = _letters(node)
    sources = graph.inputs(node)
    for place, one in enumerate(sources):
        if (order := _order(graph, one)) and all(source.name in graph.variable for source in sources):
            inputs[place] = [inputs[place][order.index(axis)] for axis in range(len(order))]
            sources[place] = graph.up(one.input[0])
            return _new_einsum(graph, node, inputs, output, sources)
    return False


def _einsum_of_copies(graph: _Graph, node: Any) -> bool:
    """Use weights once that were copied along an axis, as PyTorch does for a stack of products."""
    *inputs, output = _letters(node)
    sources = graph.inputs(node)
    for place, one in enumerate(sources):
        source = graph.up(one.input[0]) if one.op == "BroadcastTo" and one.name not in graph.variable else None
        if source is not None:
            sizes = graph.shape(one)
            before = [1] * (len(sizes) - len(graph.shape(source))) + graph.shape(source)
            copied = [letter for letter, a, b in zip(inputs[place], before, sizes, strict=True) if a != b]
            kept = [size for letter, size in zip(inputs[place], before, strict=True) if letter not in copied]
            inputs[place], sources[place] = [letter for letter in inputs[place] if letter not in copied], source
            if set(copied) <= set(inputs[1 - place]):
                return _new_einsum(graph, node, inputs, output, sources, {place: kept})
    return False


def _resize(graph: _Graph, node: Any) -> bool:
    """Recognize bilinear interpolation, written as a product with a matrix for either axis."""
    x, sizes = node, graph.shape(node)
    for _ in range(2):
        variable = [] if x is None or x.op != "Einsum" else [one for one in graph.inputs(x) if one.name in graph.variable]
        x = variable[0] if len(variable) == 1 else None
    if x is None or len(sizes) != 4 or len(graph.shape(x)) != 4 or None in sizes[1:3]:
        return False

    def resized(x: Any) -> Any:
        return tf.image.resize(x, sizes[1:3])

    return graph.is_equal(x, x, node, resized) and graph.replace(node, resized, [x])


def _dense(graph: _Graph, node: Any) -> bool:
    """Write an Einsum with weights as a product of matrices, as layers are written."""
    *inputs, output = _letters(node)
    sources = graph.inputs(node)
    constant = [place for place, one in enumerate(sources) if one.name not in graph.variable]
    if len(constant) != 1 or len(inputs) != 2 or graph.shape(node).count(None) > 1:
        return False
    x, kernel, given, weights = *(sources[1 - constant[0]], sources[constant[0]]), *inputs[:: 1 - 2 * (constant[0] == 0)]
    summed = [letter for letter in given if letter in weights and letter not in output]
    ahead = [letter for letter in given if letter not in summed]
    free = [letter for letter in output if letter not in ahead]
    if not summed or set(weights) != set(summed + free) or set(output) != set(ahead + free):
        return False
    sizes = {**dict(zip(given, graph.shape(x), strict=True)), **dict(zip(output, graph.shape(node), strict=True))}
    inner = math.prod(sizes[letter] for letter in summed)  # type: ignore[misc]
    rows = [] if len(weights) == 2 else [sizes[letter] for letter in ahead]  # Keras has a stack of products there

    def function(x: Any, w: Any) -> Any:
        x, w = _ordered(x, given, ahead + summed), _ordered(w, weights, summed + free)
        x = x if len(x.shape) == 2 or (rows and len(summed) == 1) else _with_sizes(x, [*(rows or [None]), inner])
        w = w if len(weights) == 2 else tf.reshape(w, [inner, -1])
        product = tf.matmul(x, w)
        whole = [sizes[letter] for letter in ahead + free]
        product = product if len(product.shape) == len(whole) else _with_sizes(product, whole)
        return _ordered(product, ahead + free, output)

    return graph.replace(node, function, [x, kernel])


def _ordered(x: Any, given: Sequence[str], wanted: Sequence[str]) -> Any:
    order = [given.index(letter) for letter in wanted]
    return x if order == sorted(order) else tf.transpose(x, order)


def _tile(graph: _Graph, node: Any) -> bool:
    """Write a broadcast of axes of size 1, but the batch, as copies."""
    x, sizes = graph.up(node.input[0]), graph.shape(node)
    before = [] if x is None or x.name not in graph.variable else graph.shape(x)
    if len(before) != len(sizes) or not sizes or before[0] != sizes[0] or None in sizes[1:] or None in before[1:]:
        return False
    copies = [1, *(after // size for size, after in zip(before[1:], sizes[1:], strict=True))]  # type: ignore[operator]
    return graph.replace(node, lambda x: tf.tile(x, copies), [x])


def _roll(graph: _Graph, node: Any) -> bool:
    """Recognize two parts of a tensor that were exchanged along an axis."""
    parts = graph.inputs(node)[:-1]
    if len(parts) != 2 or any(one is None or one.op not in ("StridedSlice", "Slice") for one in parts):
        return False
    x, axis = graph.up(parts[0].input[0]), graph.value(graph.up(node.input[-1]))
    if x is not graph.up(parts[1].input[0]) or x is None or axis is None or graph.shape(x) != graph.shape(node):
        return False
    shift = graph.shape(parts[0])[int(axis)]

    def rolled(x: Any) -> Any:
        return tf.roll(x, shift, int(axis))

    return shift is not None and graph.is_equal(x, x, node, rolled) and graph.replace(node, rolled, [x])


def _lookup(graph: _Graph, node: Any) -> bool:
    """Leave out the NaN of a lookup outside its table."""
    condition, found, other = graph.inputs(node)
    value = graph.value(other)
    if value is None or value.dtype.kind != "f" or not np.isnan(value).all() or found is None or found.op != "GatherV2":
        return False
    return graph.shape(found) == graph.shape(node) and graph.replace(node, lambda x: x, [found])


def _row(graph: _Graph, node: Any) -> bool:
    """Look up by the numbers that are given, without clipping those outside the table."""
    table, places, axis = graph.inputs(node)
    rows = graph.shape(table)[:1]
    if graph.value(axis) != 0 or rows in ([], [None]):
        return False
    source, found = places, None
    while source.op not in ("Placeholder", "Cast", "Const") and not graph.dtype_is_float(source):
        variable = [one for one in graph.inputs(source) if one is not None and one.name in graph.variable]
        if not variable:
            break
        source = next((one for one in variable if graph.dtype(one).is_integer), None)
        if source is None or len(graph.shape(source)) < 1:
            break
        if graph.shape(source) == graph.shape(places):
            found = source
    if found is None or not graph.is_equal(found, found, places, tf.identity, whole=rows[0]):  # type: ignore[arg-type]
        return False
    return graph.replace(node, lambda t, at: tf.gather(t, at), [table, found])


_MOVING = {
    **dict.fromkeys((*_ELEMENTWISE, "Elu", "Selu", "LeakyRelu", "Softsign"), [_elementwise_below]),
    "Transpose": [_merged_transpose], **dict.fromkeys(_RESHAPES, [_merged_reshape]), "Softmax": [_softmax_below],
    "Einsum": [_einsum_of_units], **dict.fromkeys(("Mean", "Max", "Sum"), [_reduced_below]),
    **dict.fromkeys(("Pad", "PadV2"), [_padded_below]),
}  # fmt: skip
_PRODUCTS = {"Einsum": [_einsum_of_transposed, _einsum_of_copies, _resize]}
_LAYERS = {
    "Einsum": [_dense], "SelectV2": [_lookup], "GatherV2": [_row],
    "BroadcastTo": [_tile], "ConcatV2": [_roll],
}  # fmt: skip
