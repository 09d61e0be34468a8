"""Propagate relevance from a score back to an input, operation by operation, on an imported graph.

The graph is walked from the score backwards; ``attribution.lrp.rules`` has the rule of each kind of operation.
Operations that only move, copy or select values pass relevance on by their gradient. Others are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from attribution.errors import BadInput
from attribution.graph import tf_internals
from attribution.graph.unroll_rnn import LOOPS, why_kept
from attribution.graph.view import SHAPES
from attribution.lrp.composite import Composite
from attribution.lrp.rules import operations as ops
from attribution.lrp.rules.activations import Activations
from attribution.lrp.rules.formulae import fit
from attribution.lrp.rules.products import Products
from attribution.lrp.rules.sums import Sums


def propagate(
    graph: Any,
    operations: Mapping[str, tf.Operation],
    inputs: Iterable[str],
    source: str,
    target: str,
    start: tf.Tensor,
    composite: Composite,
) -> dict[str, tf.Tensor]:
    """Return the relevance of every tensor between a score and an input.

    Parameters
    ----------
    graph : attribution.graph.view.GraphView
        The frozen graph.
    operations
        Its node names to imported ``tf.Operation``.
    inputs
        Names of all its input nodes.
    source
        Node name of the explained input.
    target
        Tensor name of the scores, ``(N, classes)``.
    start
        Their relevance, of the same shape.
    composite
        Rule of each kind of layer.

    Returns
    -------
    dict
        Node name to the relevance of its first output, of that output's shape.

    Raises
    ------
    BadInput
        If an operation between input and score has no rule.
    """
    return Walk(graph, operations, inputs, source, target.split(":")[0], composite).run(target, start)


class Walk:
    """A walk from a score to an input, and the facts about the graph that the rules need; see ``propagate``.

    Attributes
    ----------
    graph, composite
        As given.
    source : tf.Operation
        The explained input.
    near_input : set[str]
        Names of imported operations between the input and the first layers.
    """

    def __init__(
        self,
        graph: Any,
        operations: Mapping[str, tf.Operation],
        inputs: Iterable[str],
        source: str,
        target: str,
        composite: Composite,
    ) -> None:
        self.graph = graph
        self.composite = composite
        self.source = operations[source]
        self._operations = operations
        self._names: dict[str, str] = {operation.name: name for name, operation in operations.items()}
        # A gate of the largest values is a constant, as all choices are: it takes no relevance.
        inputs = {*inputs, source}
        gates = graph.below(inputs) - graph.below(inputs, choices=False)
        self._path = [name for name in graph.between(source, target) if name not in gates]
        self._variable = {operations[name].name for name in graph.below(inputs) - gates}
        self._on_path = {operations[name].name for name in self._path}
        self._relevance: dict[Any, tf.Tensor] = {}
        self.near_input = self._operations_before_layers()
        self._activations = Activations(self)
        self._rules = self._rules_by_operation()

    def run(self, target: str, start: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return node name to relevance, from the relevance ``start`` of the tensor called ``target``."""
        node, _, number = target.partition(":")
        self._relevance[self._operations[node].outputs[int(number or 0)].ref()] = start
        for name in reversed(self._path):
            operation = self._operations[name]
            if operation.name != self.source.name:
                self._share(operation)
        first_outputs = {
            name: self._operations[name].outputs[0] for name in self._path if self._operations[name].outputs
        }
        relevance = {name: self._relevance.get(output.ref()) for name, output in first_outputs.items()}
        return {name: one for name, one in relevance.items() if one is not None}

    def _operations_before_layers(self) -> set[str]:
        found: set[str] = set()
        for operation in map(self._operations.__getitem__, self._path):
            above = {tensor.op.name for tensor in operation.inputs} & self._on_path
            if operation.name == self.source.name or (above <= found and operation.type not in ops.LAYERS):
                found.add(operation.name)
        return found

    def _rules_by_operation(self) -> dict[str, Callable[[tf.Operation, tf.Tensor], None]]:
        products = Products(self)
        sums = Sums(self, products)
        rules: dict[str, Callable[[tf.Operation, tf.Tensor], None]] = {
            **dict.fromkeys(ops.LAYERS + ops.AVERAGES + ops.SUMS, sums.share),
            **dict.fromkeys(ops.NORMALIZATIONS, sums.share_normalization),
            **dict.fromkeys(ops.SCALES, products.share_scaling),
            "Softplus": self._activations.share_softplus,
            "Neg": self._pass_on,
            "Abs": self._pass_on,  # |x| is relu(x) + relu(-x), as a PReLU of slope -1
            "Square": self._pass_on,  # x · x, half to each factor
            "Cast": self._pass_on,
        }
        if self.composite.softmax == "taylor":
            rules["Softmax"] = self._activations.share_softmax
        if self.composite.products == "half":
            rules["Sigmoid"] = self._pass_on  # any function of one value: Achtibat et al. 2024, section 3.1
        return rules

    def add(self, tensor: tf.Tensor, relevance: tf.Tensor) -> None:
        """Give relevance to a tensor; a constant, or a branch that the input does not reach, absorbs it."""
        if tensor.op.name not in self._on_path:
            return
        relevance = tf.convert_to_tensor(relevance)  # gathered values have sparse gradients
        if relevance.dtype != tensor.dtype and tensor.dtype.is_floating:
            relevance = tf.cast(relevance, tensor.dtype)
        known = self._relevance.get(tensor.ref())
        self._relevance[tensor.ref()] = relevance if known is None else known + relevance

    def add_contributions(
        self, leaves: Sequence[tuple[tf.Tensor, tf.Tensor]], total: tf.Tensor, share: tf.Tensor
    ) -> None:
        """Give each tensor its contributions to a total, times ``share``, the relevance per unit of the total.

        ``leaves`` are pairs of a tensor and a copy of it, or of a part of it, from which the total is computed.
        """
        gradients = tf.gradients(total, [copy for _, copy in leaves], grad_ys=share)
        for (tensor, copy), gradient in zip(leaves, gradients, strict=True):
            self.add(tensor, copy * gradient)

    def is_constant(self, tensor: tf.Tensor) -> bool:
        """Return whether a tensor depends on no input."""
        return tensor.op.name not in self._variable

    def variable_inputs(self, operation: tf.Operation) -> list[tf.Tensor]:
        """Return the inputs of an operation that are not constant."""
        return [tensor for tensor in operation.inputs if not self.is_constant(tensor)]

    def has_one_use(self, tensor: tf.Tensor) -> bool:
        """Return whether exactly one operation of the graph uses a tensor's values."""
        uses = [use for use in tensor.consumers() if use.name in self._names and use.type not in SHAPES]
        return len(uses) == 1

    def name(self, operation: tf.Operation) -> str:
        """Return the graph's name of an imported operation."""
        return self._names[operation.name]

    def refuse(self, operation: tf.Operation, how: str = "") -> NoReturn:
        """Raise ``BadInput``, because an operation has no rule."""
        if operation.type in LOOPS or operation.type.startswith("TensorList"):
            how = why_kept(self.graph, self._path)
        what = f"{operation.type} {how}".strip()
        raise BadInput(f"no relevance rule for the operation {what} (node '{self.name(operation)}'){ops.WITHOUT_RULES}")

    def _share(self, operation: tf.Operation) -> None:
        """Distribute the relevance of an operation's outputs, if any arrived, among its inputs."""
        given = [self._relevance.get(output.ref()) for output in operation.outputs]
        arrived = [one for one in given if one is not None]
        if arrived:
            # Intermediate results of a rule are computed when relevance arrives, not as soon as possible: held from
            # the forward pass on they would double the memory.
            with tf.control_dependencies(arrived):
                self._apply_rule(operation, given)

    def _apply_rule(self, operation: tf.Operation, given: Sequence[tf.Tensor | None]) -> None:
        source = self._activations.source(operation)
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

    def _pass_on(self, operation: tf.Operation, given: tf.Tensor) -> None:
        if not operation.inputs[0].dtype.is_floating:  # a cast of integers
            self.refuse(operation)
        self.add(operation.inputs[0], given)

    def _follow_gradient(self, operation: tf.Operation, given: Sequence[tf.Tensor | None]) -> None:
        # tf.gradients would look at everything behind the operation, so that time would grow as the square of a graph.
        gradients = tf_internals.gradients_of(operation, given)
        for tensor, gradient in zip(operation.inputs, gradients, strict=True):
            if gradient is not None and tensor.dtype.is_floating:
                self.add(tensor, gradient)
