"""Guided Backprop and Deconvnet: the backward pass of the rectifiers is another one.

Both are published for ReLU, f(z) = max(z, 0). With a gradient g of the rectifier's output, the gradient passes back
g f'(z), Deconvnet g f'(g), Guided Backprop g f'(z) f'(g). No publication has other rectifiers; here the same formulae
hold for LeakyReLU and PReLU, whose slope is α below 0: with α = 1, where they are linear, all three agree. For Relu6,
f'(g) is that of ReLU: its ceiling bounds values, and a gradient is none.

Maps have the inputs' shape and keep their signs. Only rectifiers between the explained input and the score are
changed; a branch that the input does not reach (a language model beside an image) keeps its gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.methods.queries import ModelQueries

_PASS_ON = "AttributionPassOn"


def guided_backprop(queries: ModelQueries) -> np.ndarray:
    """Guided Backprop (Springenberg et al. 2015): ReLU passes g · [z > 0] · [g > 0] back."""
    return queries.input_gradient(guided_rules)


def deconvnet(queries: ModelQueries) -> np.ndarray:
    """Deconvnet (Zeiler and Fergus 2014): ReLU passes max(g, 0) back, without the forward gate."""
    return queries.input_gradient(deconvnet_rules)


def guided_rules(graph: Any, source: str, target: str) -> dict[str, str]:
    """Return Guided Backprop's gradient for every rectifier between two nodes; see ``ModelQueries.input_gradient``."""
    found = _rectifiers(graph, source, target, "guided_backprop")
    return {name: f"AttributionGuided{kind}" for name, kind in found.items()}


def deconvnet_rules(graph: Any, source: str, target: str) -> dict[str, str]:
    """Return Deconvnet's gradient for every rectifier between two nodes; see ``ModelQueries.input_gradient``."""
    from attribution.graph.rectifiers import PRELU, prelu_halves

    found = _rectifiers(graph, source, target, "deconvnet")
    rules = {name: f"AttributionDeconvnet{kind}" for name, kind in found.items()}
    # A PReLU's sum hands all on to its first ReLU, which lets it pass.
    return rules | {prelu_halves(graph, name)[0]: _PASS_ON for name, kind in found.items() if kind == PRELU}


def _rectifiers(graph, source, target, method):
    # Imported here, because the registry of methods imports no TensorFlow.
    from attribution.graph.rectifiers import find_rectifiers

    found = find_rectifiers(graph, source, target, method)
    _register()
    return found


_registered = False


def _register():
    """Register the gradients with TensorFlow, once."""
    global _registered
    if _registered:
        return
    import tensorflow as tf

    def rectified(op, gradient):
        return tf.nn.relu(gradient)

    def leaky(op, gradient):
        return tf.nn.leaky_relu(gradient, op.get_attr("alpha"))

    def prelu(op, gradient):
        return _as_prelu(tf, op, gradient)

    @tf.RegisterGradient("AttributionGuidedRelu")
    def guided_relu(op, gradient):
        return tf.raw_ops.ReluGrad(gradients=rectified(op, gradient), features=op.outputs[0])

    @tf.RegisterGradient("AttributionGuidedRelu6")
    def guided_relu6(op, gradient):
        return tf.raw_ops.Relu6Grad(gradients=rectified(op, gradient), features=op.outputs[0])

    @tf.RegisterGradient("AttributionGuidedLeakyRelu")
    def guided_leaky_relu(op, gradient):
        return tf.raw_ops.LeakyReluGrad(
            gradients=leaky(op, gradient), features=op.inputs[0], alpha=op.get_attr("alpha")
        )

    @tf.RegisterGradient("AttributionGuidedPRelu")
    def guided_prelu(op, gradient):
        gradient = prelu(op, gradient)
        return gradient, -gradient if op.type == "Sub" else gradient

    tf.RegisterGradient("AttributionDeconvnetRelu")(rectified)
    tf.RegisterGradient("AttributionDeconvnetRelu6")(rectified)
    tf.RegisterGradient("AttributionDeconvnetLeakyRelu")(leaky)

    @tf.RegisterGradient("AttributionDeconvnetPRelu")
    def deconvolved_prelu(op, gradient):
        gradient = prelu(op, gradient)
        return [gradient if term.op.type == "Relu" else None for term in op.inputs]

    @tf.RegisterGradient(_PASS_ON)
    def pass_on(_, gradient):
        return gradient

    _registered = True


def _as_prelu(tf, op, gradient):
    """Return relu(g) ± c relu(-g), as the sum that ends a PReLU does with its own input."""
    (product,) = (term.op for term in op.inputs if term.op.type == "Mul")
    (constant,) = (factor for factor in product.inputs if factor.op.type != "Relu")
    below = constant * tf.nn.relu(-gradient)
    return tf.nn.relu(gradient) - below if op.type == "Sub" else tf.nn.relu(gradient) + below
