"""Softmax as a layer of its own, where it is no constant."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def share_softmax(walk: Any, operation: tf.Operation, given: tf.Tensor) -> Any:
    """Share a softmax's relevance out by R_i = x_i (R_i - s_i Σ_j R_j) (Achtibat et al. 2024, proposition 3.1)."""
    tensor, values = operation.inputs[0], operation.outputs[0]
    change = given - values * tf.reduce_sum(given, axis=-1, keepdims=True)
    # What is masked out is -∞, and gets nothing.
    walk.add(tensor, tf.math.multiply_no_nan(tensor, change))
