"""Activations: elementwise functions that are 0 at 0 and have the sign of their input. Relevance passes unchanged.

TensorFlow has operations for a few of them; graphs spell the others out: GELU with Erf, Erfc or Tanh, swish with
Sigmoid, PReLU with two ReLUs, leaky ReLU with a choice. They are recognised by what they are: all paths from one
operation upwards through elementwise operations meet in one tensor, and what lies between obeys the law.

Softplus is not 0 at 0. It is the sum of softplus(x) - log 2, which obeys the law, and of log 2, which does not depend
on the input: a bias, which takes the share that a bias takes.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from attribution.graph.nodes import node_of, set_placeholder
from attribution.graph.view import GraphView
from attribution.lrp.rules import operations as ops
from attribution.lrp.rules.bounds import LayerInputs
from attribution.lrp.rules.formulae import divide, parts

_AFFINE = ("Identity", "IdentityN", "Cast", "Neg", "Mul", "RealDiv", "Add", "AddV2", "AddN", "Sub", "StopGradient")
_CURVED = (
    *ops.ACTIVATIONS, "Abs", "Asinh", "Atan", "Cos", "Cosh", "Erf", "Erfc", "Exp", "Expm1", "Log", "Log1p", "Pow",
    "Reciprocal", "Rsqrt", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Square",
    "SquaredDifference", "ClipByValue", "Maximum", "Minimum", "Select", "SelectV2", "Greater", "GreaterEqual", "Less",
    "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "ZerosLike", "OnesLike",
)  # fmt: skip
_ELEMENTWISE = _AFFINE + _CURVED
_MAGNITUDES = np.concatenate([[0.0], np.geomspace(1e-3, 50, 24)])
_REACH = 4  # tensors further up that are tried


class Activations:
    """Finds the tensor of which an operation is an activation.

    Parameters
    ----------
    walk : attribution.lrp.engine.Walk
        The walk through the graph.
    """

    def __init__(self, walk):
        self._walk = walk
        self._above = {}

    def source(self, operation: tf.Operation) -> tf.Operation | None:
        """Return the tensor of which an operation's first output is an activation, or ``None``."""
        if operation.type in ops.ACTIVATIONS:
            return operation.inputs[0]
        moving = self._moving(operation)
        if operation.type not in _ELEMENTWISE or (operation.type not in _CURVED and len(moving) < 2):
            return None
        for tensor in self._chain(operation.outputs[0])[1 : 1 + _REACH]:
            region = self._between(tensor, operation)
            if self._is_curved(region) and self._obeys_the_law(tensor, operation, region):
                return tensor
        return None

    def share_softplus(self, operation: tf.Operation, given: tf.Tensor) -> None:
        """Share the relevance of a softplus out between its input and its value at 0, a bias."""
        source, at_zero = operation.inputs[0], tf.math.log(tf.constant(2, operation.outputs[0].dtype))
        varying, rule = operation.outputs[0] - at_zero, self._walk.composite.merge
        for part in parts(rule):
            pairs = part.pairs(varying, tf.ones((), varying.dtype), LayerInputs(self._walk, source))
            contribution = tf.add_n([value * weight for value, weight in pairs])
            total = contribution + part.bias(at_zero)
            share = tf.cast(part.weight, total.dtype) * divide(given, total, rule)
            self._walk.add(source, contribution * share)

    def _moving(self, operation):
        return [tensor for tensor in operation.inputs if not self._walk.is_constant(tensor)]

    def _chain(self, tensor) -> list:
        """Return the tensors above one through which all elementwise paths to it lead, itself and nearest first."""
        stack = [tensor]
        while stack:  # by hand, since networks are deeper than Python's calls
            last = stack[-1]
            sources = self._moving(last.op) if last.op.type in _ELEMENTWISE and last.value_index == 0 else []
            waiting = [source for source in sources if source.ref() not in self._above]
            if waiting:
                stack += waiting
                continue
            chains = [self._above[source.ref()] for source in sources]
            common = [one for one in chains[0] if all(_has(chain, one) for chain in chains[1:])] if chains else []
            self._above[last.ref()] = [last, *common[: 2 * _REACH]]
            stack.pop()
        return self._above[tensor.ref()]

    def _between(self, tensor, operation) -> list:
        """Return the operations below a tensor, down to one operation."""
        found, stack = {}, [operation]
        while stack:
            current = stack.pop()
            if current.name not in found and current.name != tensor.op.name:
                found[current.name] = current
                stack.extend(source.op for source in self._moving(current))
        return list(found.values())

    def _is_curved(self, region) -> bool:
        return any(one.type in _CURVED or (one.type in ops.SCALES and len(self._moving(one)) > 1) for one in region)

    def _obeys_the_law(self, tensor, operation, region) -> bool:
        """Return whether an elementwise function is 0 at 0 and never of the other sign than its input, on a grid."""
        if not tensor.dtype.is_floating or tensor.value_index != 0 or tensor.shape.rank is None:
            return False
        signs = [1] if tensor.op.type in ("Relu", "Relu6", "Sigmoid", "Softmax", "Abs", "Square") else [-1, 1]
        grid = np.concatenate([sign * _MAGNITUDES for sign in signs])
        rank = max([tensor.shape.rank, *(one.outputs[0].shape.rank or 0 for one in region)])
        grid = grid.reshape((-1, *[1] * (rank - 1)))
        cut = _cut(self._walk.graph, self._walk.name(tensor.op), self._walk.name(operation), tensor.dtype, grid.shape)
        with tf.init_scope():  # values, while a function is built
            values = _values(cut, self._walk.name(tensor.op), self._walk.name(operation), grid)
        if values is None or values.ndim != rank:
            return False
        products = values * grid
        at_zero = values[np.flatnonzero(grid.ravel() == 0)]
        return bool(np.isfinite(values).all() and np.abs(at_zero).max() <= 1e-6 and products.min() >= -1e-6)


def _has(chain, tensor) -> bool:
    return any(one is tensor for one in chain)


def _cut(graph: GraphView, source: str, target: str, dtype, shape) -> GraphView:
    """Return the graph between two nodes, with a placeholder for the first."""
    names, stack = {source}, [target]
    while stack:
        name = stack.pop()
        if name not in names:
            names.add(name)
            stack.extend(node_of(tensor) for tensor in graph.nodes[name].input)
    cut = tf.compat.v1.GraphDef()
    cut.versions.CopyFrom(graph.graph_def.versions)
    for name in graph.nodes:
        if name in names:
            node = cut.node.add()
            node.CopyFrom(graph.nodes[name])
            if name == source:
                set_placeholder(node, dtype, shape)
    return GraphView(cut, graph.weights)


def _values(graph: GraphView, source: str, target: str, grid: np.ndarray) -> np.ndarray | None:
    """Return a node's values where another node's are these, or ``None`` where TensorFlow cannot compute them."""
    dtype = tf.as_dtype(graph.nodes[source].attr["dtype"].type)

    @tf.function(autograph=False)
    def evaluate(x):
        return graph.import_on({source: x}, [f"{target}:0"])[0][0]

    try:
        return evaluate(tf.constant(grid, dtype)).numpy().astype(float)
    except (tf.errors.OpError, ValueError):
        return None
