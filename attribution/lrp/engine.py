"""Propagate relevance from a score back to an input, operation by operation, on an imported graph.

The graph is walked from the score backwards; ``attribution.lrp.rules`` has what each kind of operation does. Operations
that only move, copy or select values hand relevance on by their gradient. What has no rule is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import tensorflow as tf

from attribution.errors import BadInput
from attribution.graph.unroll_rnn import LOOPS, why_kept
from attribution.graph.view import SHAPES
from attribution.lrp.composite import Composite
from attribution.lrp.rules import operations as ops
from attribution.lrp.rules.activations import Activations
from attribution.lrp.rules.formulae import fit
from attribution.lrp.rules.products import Products
from attribution.lrp.rules.softmax import share_softmax
from attribution.lrp.rules.sums import Sums


def propagate(
    graph: Any,
    operations: Mapping[str, tf.Operation],
    inputs: Any,
    source: Any,
    target: Any,
    start: Any,
    composite: Composite,
) -> dict:
    """Return the relevance of every tensor on the way from a score to an input.

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
        Which rule holds where.

    Returns
    -------
    dict
        Node name to the relevance of its first output, of that output's shape.

    Raises
    ------
    BadInput
        If an operation on the way has no rule.
    """
    return Walk(graph, operations, inputs, source, target.split(":")[0], composite).run(target, start)


class Walk:
    """A walk from a score to an input, and what the rules ask of the graph on the way.

    Attributes
    ----------
    graph : attribution.graph.view.GraphView
        The frozen graph.
    composite : Composite
        Which rule holds where.
    source : tf.Operation
        The explained input.
    near_input : set[str]
        Names of imported operations that the input reaches through no layer yet.
    """

    def __init__(self, graph, operations, inputs, source, target, composite):
        self.graph = graph
        self.composite = composite
        self.source = operations[source]
        self._operations = operations
        self._names = {operation.name: name for name, operation in operations.items()}
        self._path = graph.between(source, target)
        self._variable = {operations[name].name for name in graph.below({*inputs, source})}
        self._on_path = {operations[name].name for name in self._path}
        self._relevance = {}
        self.near_input = set()
        for name in self._path:
            operation = operations[name]
            above = {tensor.op.name for tensor in operation.inputs} & self._on_path
            if name == source or (above <= self.near_input and operation.type not in ops.LAYERS):
                self.near_input.add(operation.name)
        self._products = Products(self)
        self._sums = Sums(self, self._products)
        self._activations = Activations(self)

    def run(self, target: Any, start: Any) -> dict:
        """Return node name to relevance, from the relevance ``start`` of the tensor called ``target``."""
        node, _, number = target.partition(":")
        self._relevance[self._operations[node].outputs[int(number or 0)].ref()] = start
        for name in reversed(self._path):
            operation = self._operations[name]
            given = [self._relevance.get(output.ref()) for output in operation.outputs]
            arrived = [one for one in given if one is not None]
            if operation.name != self.source.name and arrived:
                # What a rule needs beside the forward pass's values is computed when relevance arrives, not as soon as
                # it could be: kept from the forward pass on it would take as much memory again.
                with tf.control_dependencies(arrived):
                    self._share_out(operation, given)
        return {
            name: self._relevance[self._operations[name].outputs[0].ref()]
            for name in self._path
            if self._operations[name].outputs and self._operations[name].outputs[0].ref() in self._relevance
        }

    def add(self, tensor: tf.Tensor, relevance: tf.Tensor) -> None:
        """Give relevance to a tensor; a constant, or a branch the input does not reach, keeps it."""
        if tensor.op.name not in self._on_path:
            return
        relevance = tf.convert_to_tensor(relevance)  # what is gathered has sparse gradients
        if relevance.dtype != tensor.dtype and tensor.dtype.is_floating:
            relevance = tf.cast(relevance, tensor.dtype)
        known = self._relevance.get(tensor.ref())
        self._relevance[tensor.ref()] = relevance if known is None else known + relevance

    def is_constant(self, tensor: tf.Tensor) -> bool:
        """Return whether a tensor depends on no input."""
        return tensor.op.name not in self._variable

    def has_one_use(self, tensor: tf.Tensor) -> bool:
        """Return whether one operation of the graph alone uses a tensor's values."""
        uses = [use for use in tensor.consumers() if use.name in self._names and use.type not in SHAPES]
        return len(uses) == 1

    def name(self, operation: tf.Operation) -> str:
        """Return the graph's name of an imported operation."""
        return self._names[operation.name]

    def refuse(self, operation: tf.Operation, how: str = "") -> NoReturn:
        """Say that an operation has no rule.

        Raises
        ------
        BadInput
            Always.
        """
        if operation.type in LOOPS or operation.type.startswith("TensorList"):
            how = why_kept(self.graph, self._path)
        what = f"{operation.type} {how}".strip()
        raise BadInput(f"no relevance rule for the operation {what} (node '{self.name(operation)}')")

    def _share_out(self, operation, given):
        kind = operation.type
        source = self._activations.source(operation)
        if source is not None:
            self.add(source, fit(given[0], source))
        elif kind in ops.LAYERS + ops.AVERAGES + ops.SUMS:
            self._sums.share_out(operation, given[0])
        elif kind in ops.NORMALISATIONS:
            self._sums.share_normalisation(operation, given[0])
        elif kind in ops.SCALES:
            self._products.share_scaling(operation, given[0])
        elif kind == "Neg":
            self.add(operation.inputs[0], given[0])
        elif kind == "Softplus":
            self._activations.share_softplus(operation, given[0])
        elif kind == "Cast" and operation.inputs[0].dtype.is_floating:
            self.add(operation.inputs[0], given[0])
        elif kind == "IdentityN":
            for tensor, relevance in zip(operation.inputs, given, strict=True):
                if relevance is not None:
                    self.add(tensor, relevance)
        elif kind == "Softmax" and self.composite.softmax == "taylor":
            share_softmax(self, operation, given[0])
        elif kind == "Sigmoid" and self.composite.products == "half":
            self.add(operation.inputs[0], given[0])  # as any function of one value: Achtibat et al. 2024, section 3.1
        elif kind in ops.MOVES + ops.SELECTS:
            self._follow_gradient(operation, given)
        else:
            self.refuse(operation)

    def _follow_gradient(self, operation, given):
        outputs = [output for output, one in zip(operation.outputs, given, strict=True) if one is not None]
        sources = [tensor for tensor in operation.inputs if tensor.dtype.is_floating]
        gradients = tf.gradients(
            outputs, sources, grad_ys=[one for one in given if one is not None], stop_gradients=sources
        )
        for tensor, gradient in zip(sources, gradients, strict=True):
            if gradient is not None:
                self.add(tensor, gradient)
