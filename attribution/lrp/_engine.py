"""Propagate relevance from a score back to an input, operation by operation, on an imported graph.

The graph is walked from the score backwards; ``attribution.lrp._rules`` has the rules of sums and products. Operations
that only move, copy or select values pass relevance on by their gradient. Others are refused by name.

Activations, elementwise functions that are 0 at 0 and have the sign of their input, pass relevance unchanged.
TensorFlow has operations for a few of them. Graphs compose the others: GELU of Erf, Erfc or Tanh, swish of Sigmoid,
PReLU of two ReLUs, leaky ReLU of a choice. They are recognised by their values: all elementwise paths upwards from an
operation meet in one tensor, and the function between both obeys the law.

A square root of what is never negative obeys the law as well; |x| and x² do not, and pass relevance unchanged as the
sum of two ReLUs and as a product of two equal factors. So ‖x‖ = √(Σ x²), which is homogeneous, gives Gradient x Input.

Softplus and sigmoid are not 0 at 0. They are the sum of softplus(x) - log 2 or sigmoid(x) - 1/2, which obey the law,
and of log 2 or 1/2, a bias.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph import _tf_internals
from attribution.graph._loops import Body, called
from attribution.graph.view import CALLS, GraphView, node_of
from attribution.lrp import composite as ops
from attribution.lrp._relevances import Relevances
from attribution.lrp._rules import Products, Sums, fit, share_with_constant
from attribution.lrp.composite import Composite


class Walk(Relevances):
    """A walk from a score to an input.

    Parameters
    ----------
    graph : attribution.graph.view.GraphView
        The frozen graph.
    operations
        Its node names to imported ``tf.Operation``.
    inputs
        Names of all its input nodes.
    source, target
        Node names of the explained input and of the scores; several of a step of a recurrent layer.
    composite
        Rule of each kind of layer.
    before_layers
        Sources without a layer between the explained input and them; by default all.
    """

    def __init__(
        self,
        graph: Any,
        operations: Mapping[str, tf.Operation],
        inputs: Iterable[str],
        source: str | Sequence[str],
        target: str | Sequence[str],
        composite: Composite,
        before_layers: Iterable[str] | None = None,
    ) -> None:
        sources = [source] if isinstance(source, str) else list(source)
        # A gate of the largest values is a constant, as all choices are: it takes no relevance.
        inputs = {*inputs, *sources}
        gates = graph.below(inputs) - graph.below(inputs, choices=False)
        path = [name for name in graph.between(source, target) if name not in gates]
        variable = {operations[name].name for name in graph.below(inputs) - gates}
        super().__init__(graph, operations, operations[sources[0]], path, variable, composite)
        self._sources = {operations[name].name for name in sources}
        self._steps: dict[Any, Any] = {}
        self.near_input = self._operations_before_layers(sources if before_layers is None else before_layers)
        self._activations = Activations(self)
        self._rules = self._rules_by_operation()

    def run(self, start: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the relevance of every tensor between the scores and the input.

        Parameters
        ----------
        start
            Tensor name of the scores, ``(N, classes)``, to their relevance, of the same shape.

        Returns
        -------
        dict[str, tf.Tensor]
            Node name to the relevance of its first output, of that output's shape.

        Raises
        ------
        BadInput
            If an operation between input and score has no rule.
        """
        for target, relevance in start.items():
            node, _, number = target.partition(":")
            self._relevance[self._operations[node].outputs[int(number or 0)].ref()] = relevance
        for name in reversed(self._path):
            operation = self._operations[name]
            if operation.name not in self._sources:
                self._share(operation)
        first_outputs = {
            name: self._operations[name].outputs[0] for name in self._path if self._operations[name].outputs
        }
        relevance = {name: self._relevance.get(output.ref()) for name, output in first_outputs.items()}
        return {name: one for name, one in relevance.items() if one is not None}

    def _operations_before_layers(self, sources: Iterable[str]) -> set[str]:
        found = {self._operations[name].name for name in sources}
        for operation in map(self._operations.__getitem__, self._path):
            above = {tensor.op.name for tensor in operation.inputs} & self._on_path
            if operation.name not in self._sources and above <= found and operation.type not in ops.LAYERS + CALLS:
                found.add(operation.name)
        return found

    def _rules_by_operation(self) -> dict[str, Callable[[tf.Operation, tf.Tensor], None]]:
        products = Products(self)
        sums = Sums(self, products)
        rules: dict[str, Callable[[tf.Operation, tf.Tensor], None]] = {
            **dict.fromkeys(ops.LAYERS + ops.AVERAGES + ops.INTERPOLATIONS + ops.SUMS, sums.share),
            **dict.fromkeys(ops.NORMALIZATIONS, sums.share_normalization),
            **dict.fromkeys(ops.SCALES, products.share_scaling),
            "Sigmoid": self._activations.share_above_zero,
            "Softplus": self._activations.share_above_zero,
            "Neg": self._pass_on,
            "Abs": self._pass_on,  # |x| is relu(x) + relu(-x), as a PReLU of slope -1
            "Square": self._pass_on,  # x · x, half to each factor
            "Cast": self._pass_on,
        }
        if self.composite.softmax == "taylor":
            rules["Softmax"] = self._activations.share_softmax
        return rules

    def _share(self, operation: tf.Operation) -> None:
        """Distribute the relevance of an operation's outputs, if any arrived, among its inputs."""
        given = [self._relevance.get(output.ref()) for output in operation.outputs]
        arrived = [one for one in given if one is not None]
        if arrived:
            # Intermediate results of a rule are computed when relevance arrives, not as soon as possible: held from
            # the forward pass on they would double the memory.
            with tf.control_dependencies(arrived):
                share = self._share_step if operation.type in CALLS else self._apply_rule
                share(operation, given)

    def _apply_rule(self, operation: tf.Operation, given: Sequence[tf.Tensor | None]) -> None:
        is_first = given[0] is not None and not any(one is not None for one in given[1:])
        source = self._activations.source(operation) if is_first else None  # of the first output
        if source is not None:
            self.add(source, fit(given[0], source))
        elif operation.type in self._rules:
            self._rules[operation.type](operation, given[0])
        elif operation.type == "IdentityN":
            for tensor, relevance in zip(operation.inputs, given, strict=True):
                if relevance is not None:
                    self.add(tensor, relevance)
        elif operation.type in ops.MOVES + ops.SELECTS:
            self._follow_gradient(operation, given)
        else:
            self.refuse(operation)

    def _share_step(self, operation: tf.Operation, given: Sequence[tf.Tensor | None]) -> None:
        """Distribute the relevance of a step of an unrolled loop by a walk that is traced once for all like it."""
        body = called(self.graph, self.graph.nodes[self.name(operation)])
        inputs = dict(zip(body.arguments, operation.inputs, strict=True))
        moving = tuple(name for name, tensor in inputs.items() if tensor.op.name in self._on_path)
        variable = tuple(name for name, tensor in inputs.items() if not self.is_constant(tensor))
        near = tuple(name for name in moving if inputs[name].op.name in self.near_input)
        arrived = [(name, one) for name, one in zip(body.results, given, strict=True) if one is not None]
        targets = tuple(name for name, _ in arrived)
        key = operation.get_attr("f").name, moving, variable, near, targets
        if key not in self._steps:
            options = {"autograph": False, "experimental_attributes": {"_noinline": True}}
            walk = functools.partial(self._walk_step, body, moving, variable, near, targets)
            self._steps[key] = tf.function(walk, reduce_retracing=True, **options)
        shares = self._steps[key](list(inputs.values()), [one for _, one in arrived])
        for name, share in zip(moving, shares, strict=True):
            if share is not None:
                self.add(inputs[name], share)

    def _walk_step(
        self,
        body: Body,
        moving: tuple[str, ...],
        variable: tuple[str, ...],
        near: tuple[str, ...],
        targets: tuple[str, ...],
        tensors: Sequence[tf.Tensor],
        relevance: Sequence[tf.Tensor],
    ) -> list[tf.Tensor | None]:
        """Return the relevance of some arguments of a step from that of some results."""
        given = dict(zip(body.arguments, tensors, strict=True))
        names = [name for name in body.graph.nodes if name not in given]
        found, _ = body.graph.import_on(given, names)
        operations = dict(zip(names, found, strict=True)) | {name: one.op for name, one in given.items()}
        ends = [*map(node_of, targets)]
        walk = Walk(body.graph, operations, variable, moving, ends, self.composite, near)
        relevances = walk.run(dict(zip(targets, relevance, strict=True)))
        return [relevances.get(name) for name in moving]

    def _pass_on(self, operation: tf.Operation, given: tf.Tensor) -> None:
        if not operation.inputs[0].dtype.is_floating:  # a cast of integers
            self.refuse(operation)
        self.add(operation.inputs[0], given)

    def _follow_gradient(self, operation: tf.Operation, given: Sequence[tf.Tensor | None]) -> None:
        # tf.gradients would look at everything behind the operation, so that time would grow as the square of a graph.
        gradients = _tf_internals.gradients_of(operation, given)
        for tensor, gradient in zip(operation.inputs, gradients, strict=True):
            if gradient is not None and tensor.dtype.is_floating:
                self.add(tensor, gradient)


_AFFINE = ("Identity", "IdentityN", "Cast", "Neg", "Mul", "RealDiv", "Add", "AddV2", "AddN", "Sub", "StopGradient")
_CURVED = (
    *ops.ACTIVATIONS, "Abs", "Asinh", "Atan", "Cos", "Cosh", "Erf", "Erfc", "Exp", "Expm1", "Log", "Log1p", "Pow",
    "Reciprocal", "Rsqrt", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Square",
    "SquaredDifference", "ClipByValue", "Maximum", "Minimum", "Select", "SelectV2", "Greater", "GreaterEqual", "Less",
    "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "ZerosLike", "OnesLike",
)  # fmt: skip
_ELEMENTWISE = _AFFINE + _CURVED
_MAGNITUDES = np.concatenate([[0.0], np.geomspace(1e-3, 50, 24)])
_REACH = 4  # number of tensors further up that are tried


class Activations:
    """Finds the tensor of which an operation is an activation."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._above: dict[Any, list[tf.Tensor]] = {}

    def source(self, operation: tf.Operation) -> Any:
        """Return the tensor of which an operation's first output is an activation, or ``None``."""
        if operation.type in ops.ACTIVATIONS:
            return operation.inputs[0]
        moving = self._walk.variable_inputs(operation)
        if operation.type not in _ELEMENTWISE or (operation.type not in _CURVED and len(moving) < 2):
            return None
        for tensor in self._chain(operation.outputs[0])[1 : 1 + _REACH]:
            region = self._between(tensor, operation)
            if self._is_curved(region) and self._obeys_the_law(tensor, operation, region):
                return tensor
        return None

    def share_above_zero(self, operation: tf.Operation, given: tf.Tensor) -> None:
        """Distribute the relevance of a softplus or a sigmoid between its input and its value at 0, a bias."""
        source, output = operation.inputs[0], operation.outputs[0]
        at_zero = tf.constant(np.log(2) if operation.type == "Softplus" else 0.5, output.dtype)
        share_with_constant(self._walk, self._walk.composite.merge, source, output - at_zero, at_zero, given, output)

    def share_softmax(self, operation: tf.Operation, given: tf.Tensor) -> None:
        """Distribute a softmax's relevance by R_i = x_i (R_i - s_i Σ_j R_j) (Achtibat et al. 2024, proposition 3.1)."""
        tensor, values = operation.inputs[0], operation.outputs[0]
        change = given - values * tf.reduce_sum(given, axis=-1, keepdims=True)
        # Masked values are -∞, and get nothing.
        self._walk.add(tensor, tf.math.multiply_no_nan(tensor, change))

    def _chain(self, tensor: tf.Tensor) -> list[tf.Tensor]:
        """Return the tensor and those above it through which all elementwise paths to it lead, nearest first."""
        stack = [tensor]
        while stack:  # without recursion, since networks are deeper than Python's stack
            last = stack[-1]
            sources = self._elementwise_inputs(last)
            waiting = [source for source in sources if source.ref() not in self._above]
            if waiting:
                stack += waiting
                continue
            common = _common([self._above[source.ref()] for source in sources])
            self._above[last.ref()] = [last, *common[: 2 * _REACH]]
            stack.pop()
        return self._above[tensor.ref()]

    def _elementwise_inputs(self, tensor: tf.Tensor) -> list[tf.Tensor]:
        is_elementwise = tensor.op.type in _ELEMENTWISE and tensor.value_index == 0
        return self._walk.variable_inputs(tensor.op) if is_elementwise else []

    def _between(self, tensor: tf.Tensor, operation: tf.Operation) -> list[tf.Operation]:
        """Return the operations below a tensor, down to one operation."""
        found, stack = {}, [operation]
        while stack:
            current = stack.pop()
            if current.name not in found and current.name != tensor.op.name:
                found[current.name] = current
                stack.extend(source.op for source in self._walk.variable_inputs(current))
        return list(found.values())

    def _is_curved(self, region: Sequence[tf.Operation]) -> bool:
        return any(
            one.type in _CURVED or (one.type in ops.SCALES and len(self._walk.variable_inputs(one)) > 1)
            for one in region
        )

    def _obeys_the_law(self, tensor: tf.Tensor, operation: tf.Operation, region: Sequence[tf.Operation]) -> bool:
        """Return whether an elementwise function is 0 at 0 and never of the other sign than its input, on a grid."""
        if not tensor.dtype.is_floating or tensor.value_index != 0 or tensor.shape.rank is None:
            return False
        signs = [1] if _is_nonnegative(tensor, through_sums=operation.type == "Sqrt") else [-1, 1]
        grid = np.concatenate([sign * _MAGNITUDES for sign in signs])
        rank = max([tensor.shape.rank, *(one.outputs[0].shape.rank or 0 for one in region)])
        source, target = self._walk.name(tensor.op), self._walk.name(operation)
        graph = self._walk.graph
        # Constants of a file with a fixed batch may have rows: then the grid has an axis in front of theirs.
        for axes in (rank, rank + 1):
            grid = grid.reshape((-1, *[1] * (axes - 1)))
            cut = graph.between_alone(source, target, tf.TensorSpec(grid.shape, tensor.dtype))
            graph.depends_on_values |= bool(cut.weights)
            with tf.init_scope():  # values, while a function is being built
                values = _values(cut, source, target, tf.constant(grid, tensor.dtype))
            if values is not None and values.ndim == axes:
                return _keeps_sign(grid, values)
        return False


def _is_nonnegative(tensor: tf.Tensor, through_sums: bool) -> bool:
    """Return whether an operation gives no negative values, or only sums and means such values."""
    while through_sums and tensor.op.type in (*ops.MOVES, "Sum", "Mean", "AvgPool", "MaxPool", "Max"):
        tensor = tensor.op.inputs[0]
    is_square = tensor.op.type == "Mul" and tensor.op.inputs[0] is tensor.op.inputs[1]
    return tensor.op.type in ("Relu", "Relu6", "Sigmoid", "Softmax", "Abs", "Square") or (through_sums and is_square)


def _keeps_sign(grid: np.ndarray, values: np.ndarray) -> bool:
    at_zero = values[np.flatnonzero(grid.ravel() == 0)]
    return bool(np.isfinite(values).all() and np.abs(at_zero).max() <= 1e-6 and (values * grid).min() >= -1e-6)


def _common(chains: Sequence[Sequence[tf.Tensor]]) -> list[tf.Tensor]:
    """Return the tensors that all chains contain, in the order of the first."""
    if not chains:
        return []
    return [one for one in chains[0] if all(any(other is one for other in chain) for chain in chains[1:])]


def _values(graph: GraphView, source: str, target: str, grid: tf.Tensor) -> np.ndarray | None:
    """Return a node's values for values of another node, or ``None`` if TensorFlow cannot compute them."""
    evaluate = tf.function(lambda x: graph.import_on({source: x}, [f"{target}:0"])[0][0], autograph=False)
    try:
        return np.asarray(evaluate(grid).numpy(), float)
    except (tf.errors.OpError, ValueError):
        return None
