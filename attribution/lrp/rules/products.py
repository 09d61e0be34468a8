"""Products of two factors that both depend on the explained input: which of them takes the relevance.

Denominators (of LayerNorm, RMSNorm, of any quotient) take none: Ali et al. 2022; Achtibat et al. 2024, proposition 3.4.
Gates take none where ``Composite.products`` is "signal" (Arras et al. 2017, for the gates of an LSTM), attention none
where ``Composite.softmax`` is "constant" (Ali et al. 2022). Otherwise each factor takes half: Achtibat et al. 2024,
propositions 3.2 and 3.3.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from attribution.graph.nodes import rebuild
from attribution.lrp.composite import Rule
from attribution.lrp.rules import operations as ops
from attribution.lrp.rules.bounds import LayerInputs
from attribution.lrp.rules.formulae import divide, fit, parts

_DENOMINATORS = ("Rsqrt", "Sqrt", "Reciprocal")
_PASSED = (*ops.MOVES, "Cast", "StopGradient", "Neg")
_BOUNDED = ("Minimum", "Maximum", "ClipByValue")


class Products:
    """Knows which factors of a product take relevance.

    Parameters
    ----------
    walk : attribution.lrp.engine.Walk
        The walk through the graph.
    """

    def __init__(self, walk):
        self._walk = walk
        self._gates = ("Sigmoid",) * (walk.composite.products == "signal")
        self._gates += ("Softmax",) * (walk.composite.softmax == "constant")

    def signals(self, operation: tf.Operation) -> list[int]:
        """Return at which places of a product's inputs relevance goes on; a sum over one operand has its place 0."""
        if len(operation.inputs) == 1:
            return [0]
        places = [place for place in ops.factors(operation) if not self._walk.is_constant(operation.inputs[place])]
        if operation.type == "RealDiv":
            if places == [1]:
                self._walk.refuse(operation, "of a constant by what depends on the input")
            return places[:1]
        if len(places) == 1:
            is_first_state = self._is_state(operation, 1 - places[0])
            return [] if is_first_state and self._is_gate(operation.inputs[places[0]], self._gates) else places
        for kinds in (_DENOMINATORS, self._gates):
            gates = [place for place in places if self._is_gate(operation.inputs[place], kinds)]
            if len(gates) == 1:
                return [place for place in places if place not in gates]
        return places

    def share_scaling(self, operation: tf.Operation, given: tf.Tensor) -> Any:
        """Share the relevance of an elementwise product or quotient: to the signal, or half each."""
        places = self.signals(operation)
        for place in places:
            tensor = operation.inputs[place]
            self._walk.add(tensor, fit(given / len(places), tensor))

    def share_both(self, operation: tf.Operation, given: tf.Tensor, rule: Rule) -> Any:
        """Share the relevance of a product of two matrices, half to each."""
        if rule.kind not in ("z_plus", "alpha_beta"):  # the others' formulae tell inputs from weights
            rule = dataclasses.replace(rule, kind="epsilon")
        places = ops.factors(operation)
        left, right = (operation.inputs[place] for place in places)
        for part in parts(rule):
            total: Any = 0.0
            leaves: list = []
            for factors in part.pairs(left, right, LayerInputs(self._walk, left)):
                factors = [tf.identity(factor) for factor in factors]
                leaves += zip((left, right), factors, strict=True)
                inputs = list(operation.inputs)
                for place, factor in zip(places, factors, strict=True):
                    inputs[place] = factor
                total += rebuild(operation, inputs)
            share = tf.cast(part.weight, total.dtype) * divide(given / 2, total, rule)
            gradients = tf.gradients(total, [factor for _, factor in leaves], grad_ys=share)
            for (tensor, factor), gradient in zip(leaves, gradients, strict=True):
                self._walk.add(tensor, factor * gradient)

    def core(self, tensor: tf.Tensor) -> Any:
        """Return the tensor behind scalings by constants and denominators, and behind reshapes."""
        while True:
            operation = tensor.op
            if operation.type in ("Reshape", "ExpandDims", "Squeeze", "BroadcastTo", "Identity", "Cast", "Neg"):
                tensor = operation.inputs[0]
            elif operation.type in ops.SCALES and len(self.signals(operation)) == 1:
                tensor = operation.inputs[self.signals(operation)[0]]
            else:
                return tensor

    def _is_gate(self, tensor, kinds) -> bool:
        """Return whether a factor is one of these operations, moved, shifted, scaled and clipped by constants."""
        scale, bounds = 1.0, []
        while True:
            operation = tensor.op
            if operation.type in kinds:
                return True
            if "Sigmoid" in kinds and (
                sorted(bounds) == [0.0, 1.0] or (operation.type == "Relu6" and abs(6 * scale - 1) < 1e-3)
            ):
                return True  # a hard sigmoid: clipped to [0, 1], or a sixth of Relu6
            if operation.type == "RealDiv" and self._walk.is_constant(operation.inputs[0]):
                return "Reciprocal" in kinds
            moving = [one for one in operation.inputs if not self._walk.is_constant(one)]
            constants = [_number(one) for one in operation.inputs if self._walk.is_constant(one)]
            if operation.type in _PASSED or operation.type == "RealDiv":
                moving = moving[:1]
            elif operation.type not in (*ops.SUMS, "Mul", *_BOUNDED) or len(moving) != 1:
                return False
            if operation.type == "Mul":
                scale *= constants[0]
            elif operation.type == "RealDiv":
                scale /= constants[0] if constants else float("nan")
            elif operation.type in _BOUNDED:
                bounds += constants
            tensor = moving[0]

    def _is_state(self, operation, place) -> bool:
        """Return whether a constant factor has a value for each input, as a recurrent network's first state has."""
        shapes = [operation.inputs[one].shape for one in (place, 1 - place)] if operation.type == "Mul" else []
        return bool(shapes and shapes[0].rank and shapes[0].rank == shapes[1].rank and shapes[0][0] != 1)


def _number(tensor) -> float:
    """Return the value of a constant that is a single number; NaN for any other."""
    value = tf.get_static_value(tensor)
    return float(value) if value is not None and value.dtype.kind == "f" and value.size == 1 else float("nan")
