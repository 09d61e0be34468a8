"""Products of two factors that both depend on the explained input: the factors that take the relevance.

Denominators (of LayerNorm, RMSNorm, of any quotient) take none: Ali et al. 2022; Achtibat et al. 2024, proposition 3.4.
Gates take none if ``Composite.products`` is "signal" (Arras et al. 2017, for the gates of an LSTM), attention none if
``Composite.softmax`` is "constant" (Ali et al. 2022). Otherwise each factor takes half: Achtibat et al. 2024,
propositions 3.2 and 3.3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from attribution.graph.nodes import rebuild
from attribution.lrp.composite import Rule
from attribution.lrp.rules import operations as ops
from attribution.lrp.rules.formulae import LayerInputs, fit, parts

if TYPE_CHECKING:
    from attribution.lrp.engine import Walk

_DENOMINATORS = ("Rsqrt", "Sqrt", "Reciprocal")
_PASSED = (*ops.MOVES, "Cast", "StopGradient", "Neg")
_BOUNDED = ("Minimum", "Maximum", "ClipByValue")


class Products:
    """Determines which factors of a product take relevance, and distributes it.

    Parameters
    ----------
    walk
        The walk through the graph.
    """

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._gates = ("Sigmoid",) * (walk.composite.products == "signal")
        self._gates += ("Softmax",) * (walk.composite.softmax == "constant")

    def signals(self, operation: tf.Operation) -> list[int]:
        """Return the positions of a product's inputs that take relevance; ``[0]`` for an operation of one input."""
        if len(operation.inputs) == 1:
            return [0]
        places = self._variable_factors(operation)
        if operation.type == "RealDiv":
            if places == [1]:
                self._walk.refuse(operation, "of a constant by a divisor that depends on the input")
            return places[:1]
        if len(places) == 1:
            gates_state = self._is_state(operation, 1 - places[0]) and self._gates_at(operation, places, self._gates)
            return [] if gates_state else places
        for kinds in (_DENOMINATORS, self._gates):
            gates = self._gates_at(operation, places, kinds)
            if len(gates) == 1:
                places.remove(gates[0])
                break
        return places

    def share_scaling(self, operation: tf.Operation, given: tf.Tensor) -> None:
        """Pass the relevance of an elementwise product or quotient to the signal, or half to each factor."""
        places = self.signals(operation)
        for place in places:
            tensor = operation.inputs[place]
            self._walk.add(tensor, fit(given / len(places), tensor))

    def share_both(self, operation: tf.Operation, given: tf.Tensor, rule: Rule) -> None:
        """Distribute the relevance of a product of two matrices, half to each."""
        if rule.kind not in ("z_plus", "alpha_beta"):  # the other formulae treat inputs and weights differently
            rule = dataclasses.replace(rule, kind="epsilon")
        places = ops.factors(operation)
        left, right = (operation.inputs[place] for place in places)
        for part in parts(rule):
            total: Any = 0.0
            leaves: list[tuple[tf.Tensor, tf.Tensor]] = []
            for pair in part.pairs(left, right, LayerInputs(self._walk, left)):
                factors = [tf.identity(factor) for factor in pair]
                leaves += zip((left, right), factors, strict=True)
                inputs = list(operation.inputs)
                for place, factor in zip(places, factors, strict=True):
                    inputs[place] = factor
                total += rebuild(operation, inputs)
            share = part.share(given / 2, total, rule, operation.outputs[0])
            self._walk.add_contributions(leaves, total, share)

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

    def _variable_factors(self, operation: tf.Operation) -> list[int]:
        return [place for place in ops.factors(operation) if not self._walk.is_constant(operation.inputs[place])]

    def _gates_at(self, operation: tf.Operation, places: list[int], kinds: tuple[str, ...]) -> list[int]:
        """Return the positions at which an operation's inputs are gates of these kinds."""
        return [place for place in places if self._is_gate(operation.inputs[place], kinds)]

    def _is_gate(self, tensor: tf.Tensor, kinds: tuple[str, ...]) -> bool:
        """Return whether a factor is one of these operations, moved, shifted, scaled and clipped by constants."""
        for operation, scale, bounds in self._affine_chain(tensor):
            if operation.type in kinds or ("Sigmoid" in kinds and _is_hard_sigmoid(operation, scale, bounds)):
                return True
            if operation.type == "RealDiv" and self._walk.is_constant(operation.inputs[0]):
                return "Reciprocal" in kinds
        return False

    def _affine_chain(self, tensor: tf.Tensor) -> Iterator[tuple[tf.Operation, float, list[float]]]:
        """Yield the operations above a tensor that constants move, shift, scale or clip, with scale and bounds."""
        scale = 1.0
        bounds: list[float] = []
        while True:
            operation = tensor.op
            yield operation, scale, bounds
            moving = self._walk.variable_inputs(operation)
            constants = [_number(one) for one in operation.inputs if self._walk.is_constant(one)]
            if operation.type in (*ops.SUMS, "Mul", *_BOUNDED) and len(moving) != 1:
                return
            if operation.type == "Mul":
                scale *= constants[0]
            elif operation.type == "RealDiv":
                scale /= _number(operation.inputs[1])
            elif operation.type in _BOUNDED:
                bounds += constants
            elif operation.type not in (*_PASSED, *ops.SUMS):
                return
            tensor = moving[0]

    def _is_state(self, operation: tf.Operation, place: int) -> bool:
        """Return whether a constant factor has a value for each input, as a recurrent network's initial state has."""
        if operation.type != "Mul":
            return False
        state, other = operation.inputs[place].shape, operation.inputs[1 - place].shape
        return bool(state.rank and state.rank == other.rank and state[0] != 1)


def _is_hard_sigmoid(operation: tf.Operation, scale: float, bounds: list[float]) -> bool:
    """Return whether an operation is clipped to [0, 1], or is a sixth of Relu6."""
    return sorted(bounds) == [0.0, 1.0] or (operation.type == "Relu6" and abs(6 * scale - 1) < 1e-3)


def _number(tensor: tf.Tensor) -> float:
    """Return the value of a constant that is a single number; NaN for any other."""
    value = tf.get_static_value(tensor)
    return float(value) if value is not None and value.dtype.kind == "f" and value.size == 1 else float("nan")
