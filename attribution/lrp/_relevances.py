"""The relevance that has arrived at the tensors of a graph, and the facts about the graph that the rules need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from attribution.errors import BadInput
from attribution.graph._loops import LOOPS
from attribution.graph.unroll_rnn import why_kept
from attribution.graph.view import SHAPES
from attribution.lrp import composite as ops
from attribution.lrp.composite import Composite


class Relevances:
    """Relevance by tensor.

    Attributes
    ----------
    graph : attribution.graph.view.GraphView
        The frozen graph.
    composite
        Rule of each kind of layer.
    source : tf.Operation
        The explained input.
    near_input : set[str]
        Names of imported operations between the input and the first layers.
    """

    near_input: set[str]

    def __init__(
        self,
        graph: Any,
        operations: Mapping[str, tf.Operation],
        source: tf.Operation,
        path: Sequence[str],
        variable: set[str],
        composite: Composite,
    ) -> None:
        self.graph = graph
        self.composite = composite
        self.source = source
        self._operations = operations
        self._names: dict[str, str] = {operation.name: name for name, operation in operations.items()}
        self._path = path
        self._variable = variable
        self._on_path = {operations[name].name for name in path}
        self._relevance: dict[Any, tf.Tensor] = {}

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
