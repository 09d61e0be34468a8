"""The gradient of swish, x · σ(x), from x alone.

As a product and a sigmoid it would need both factors, which are kept from the forward pass on: twice the memory of the
activations of a network like EfficientNet. σ(x) is computed again when the gradient arrives, which is cheap.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import tensorflow as tf

from attribution.graph.nodes import node_of

_NAMES = ("AttributionSwishFirst", "AttributionSwishSecond")  # by which factor x is


def swish_rules(graph: Any, apart: Collection[str] = ()) -> dict[str, str]:
    """Return the gradient of each product that is a swish.

    Parameters
    ----------
    graph : attribution.graph.view.GraphView
    apart
        Nodes whose own gradients are wanted; a swish with one of them inside keeps its two factors.

    Returns
    -------
    dict
        Node name to the name of a registered gradient, for ``GraphView.import_on``.
    """
    found = {}
    for name, node in graph.nodes.items():
        if node.op == "Mul" and len(node.input) == 2:
            factors = [graph.skip_identities(tensor) for tensor in node.input]
            for place, (x, gate) in enumerate((factors, factors[::-1])):
                if _is_gate(graph, gate, x) and not (apart and _inside(graph, x, name) & set(apart)):
                    found[name] = _NAMES[place]
    return found


def _inside(graph, x, product):
    return set(graph.between(node_of(x), product)) - {node_of(x), product}


def _is_gate(graph, gate, x):
    """Return whether a tensor is σ(x), perhaps with a factor of 1 as TensorFlow's swish has it."""
    node = graph.nodes[node_of(gate)]
    if node.op != "Sigmoid":
        return False
    inner = graph.skip_identities(node.input[0])
    product = graph.nodes[node_of(inner)]
    if inner == x or product.op != "Mul":
        return inner == x
    factors = [graph.skip_identities(tensor) for tensor in product.input]
    return x in factors and any(
        factor != x and (value := graph.constant(factor)) is not None and value.shape == () and value == 1
        for factor in factors
    )


def _gradient(operation, given, place):
    x = operation.inputs[place]
    with tf.control_dependencies([given]):  # otherwise it is computed, and kept, as soon as x is known
        gate = tf.sigmoid(x)
        slope = gate * (1 + x * (1 - gate))
    gradients = [None, None]
    gradients[place] = given * slope
    return gradients


for _place, _name in enumerate(_NAMES):
    tf.RegisterGradient(_name)(lambda operation, given, place=_place: _gradient(operation, given, place))
