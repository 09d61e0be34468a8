"""Guided Backprop and Deconvnet: the backward pass of the ReLUs is another one.

Maps have the inputs' shape and keep their signs. Only ReLUs between the explained input and the score are
changed; a branch that the input does not reach (a language model beside an image) keeps its gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.passes import Passes
from attribution_benchmarks.command_line import BadInput, listed

# Nonlinear operations for which neither method is defined, in the form TensorFlow's graphs have them, and
# operations that hide others from sight. Left unchanged they would turn the map silently into another one.
_UNDEFINED = (
    "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign", "Tanh", "Sigmoid", "Erf", "Erfc", "Exp", "Maximum",
    "_FusedConv2D", "_FusedMatMul", "While", "StatelessWhile", "If", "StatelessIf",
    "PartitionedCall", "StatefulPartitionedCall",
)  # fmt: skip


def guided_backprop(passes: Passes) -> np.ndarray:
    """Guided Backprop (Springenberg et al. 2015): ReLU passes g · [z > 0] · [g > 0] back."""
    return passes.input_gradient(guided_rules)


def deconvnet(passes: Passes) -> np.ndarray:
    """Deconvnet (Zeiler and Fergus 2014): ReLU passes max(g, 0) back, without the forward gate."""
    return passes.input_gradient(deconvnet_rules)


def guided_rules(graph: Any, source: str, target: str) -> dict[str, str]:
    """Return Guided Backprop's gradient for every ReLU between two nodes; see ``Passes.input_gradient``."""
    return _relus(graph, source, target, "AttributionGuidedRelu", "guided_backprop")


def deconvnet_rules(graph: Any, source: str, target: str) -> dict[str, str]:
    """Return Deconvnet's gradient for every ReLU between two nodes; see ``Passes.input_gradient``."""
    return _relus(graph, source, target, "AttributionDeconvnetRelu", "deconvnet")


def _relus(graph, source, target, gradient, method):
    path = graph.between(source, target)
    refused = [f"{graph.nodes[name].op} ({name})" for name in path if graph.nodes[name].op in _UNDEFINED]
    if refused:
        more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
        raise BadInput(f"{method} is defined for ReLU networks alone; this one has {listed(refused[:5])}{more}")
    relus = [name for name in path if graph.nodes[name].op == "Relu"]
    if not relus:
        raise BadInput(f"{method} changes the gradient of Relu operations and this model has none; use gradient")
    _register()
    return dict.fromkeys(relus, gradient)


_registered = False


def _register():
    """Register both gradients with TensorFlow, once."""
    global _registered
    if _registered:
        return
    import tensorflow as tf

    @tf.RegisterGradient("AttributionGuidedRelu")
    def guided(op, gradient):
        return tf.raw_ops.ReluGrad(gradients=tf.nn.relu(gradient), features=op.outputs[0])

    @tf.RegisterGradient("AttributionDeconvnetRelu")
    def deconvolved(_, gradient):
        return tf.nn.relu(gradient)

    _registered = True
