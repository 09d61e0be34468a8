"""What is known of a layer's inputs without their values."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attribution.errors import BadInput
from attribution.graph.nodes import rebuild
from attribution.lrp.rules.operations import ACTIVATIONS, AVERAGES, MOVES, NORMALISATIONS, SCALES, SELECTS, SUMS

_MONOTONE = (*MOVES, *SELECTS, *AVERAGES, *SUMS, *SCALES, *NORMALISATIONS, *ACTIVATIONS, "Cast", "Neg")


class LayerInputs:
    """The inputs of a layer.

    Parameters
    ----------
    walk : attribution.lrp.engine.Walk
        The walk through the graph.
    tensor
        The inputs.
    """

    def __init__(self, walk, tensor):
        self._walk = walk
        self._tensor = tensor

    def is_nonnegative(self) -> bool:
        """Whether no input can be negative, so that half of z+ need not be computed."""
        tensor = self._tensor
        while tensor.op.type in (*MOVES, "MaxPool", "AvgPool", "Pad"):
            tensor = tensor.op.inputs[0]
        return tensor.op.type in ("Relu", "Relu6", "Softmax", "Sigmoid", "Square", "Abs")

    def bounds(self, low: float, high: float) -> Any:
        """Return the least and greatest values of the layer's inputs if the explained input is in [low, high]."""
        return self._bounds(self._tensor, low, high)

    def _bounds(self, tensor, low, high):
        operation = tensor.op
        if operation.name == self._walk.source.name:
            shape, dtype = tf.shape(tensor), tensor.dtype
            return tf.fill(shape, tf.cast(low, dtype)), tf.fill(shape, tf.cast(high, dtype))
        if operation.name not in self._walk.near_input:
            return tensor, tensor
        # What lies before the first layer (padding, scaling) must be monotone in each value.
        moving = [source for source in operation.inputs if not self._walk.is_constant(source)]
        if operation.type not in _MONOTONE or (operation.type in SUMS + SCALES and len(moving) > 1):
            raise BadInput(
                f"the box rule cannot tell the range of {operation.type} (node '{self._walk.name(operation)}') "
                "before the first layer; use another rule there"
            )
        sources = [self._bounds(source, low, high) for source in operation.inputs]
        ends = [rebuild(operation, [source[end] for source in sources]) for end in (0, 1)]
        return tf.minimum(*ends), tf.maximum(*ends)
