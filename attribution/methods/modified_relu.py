"""Guided Backprop and Deconvnet: another backward pass of the rectifiers.

Both are published for ReLU, f(z) = max(z, 0). With a gradient g of the rectifier's output, the true gradient is
g f'(z), Deconvnet's g f'(g), Guided Backprop's g f'(z) f'(g). No publication has other rectifiers; here the same
formulae hold for LeakyReLU and PReLU, whose slope is α below 0: with α = 1, where they are linear, all three agree. For
Relu6, f'(g) is that of ReLU: its upper limit applies to values, not to gradients.

Maps have the inputs' shape and keep their signs. Only rectifiers between the explained input and the score are
changed; a branch that the input does not reach (a language model next to an image) keeps its gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.methods.queries import ModelQueries


def guided_backprop(queries: ModelQueries) -> np.ndarray:
    """Guided Backprop (Springenberg et al. 2015): ReLU passes g · [z > 0] · [g > 0] back."""
    return queries.input_gradient(guided_rules)


def deconvnet(queries: ModelQueries) -> np.ndarray:
    """Deconvnet (Zeiler and Fergus 2014): ReLU passes max(g, 0) back, without the forward gate."""
    return queries.input_gradient(_deconvnet_rules)


def guided_rules(graph: Any, source: str, target: str) -> dict[str, str]:
    """Return Guided Backprop's gradient for every rectifier between two nodes; see ``ModelQueries.input_gradient``."""
    rectifiers = _rectifiers(graph, source, target, "guided_backprop")
    return {name: f"AttributionGuided{kind}" for name, kind in rectifiers.items()}


def _deconvnet_rules(graph: Any, source: str, target: str) -> dict[str, str]:
    """Return Deconvnet's gradient for every rectifier between two nodes; see ``ModelQueries.input_gradient``."""
    from attribution.model._registered_gradients import PRELU, prelu_halves

    rectifiers = _rectifiers(graph, source, target, "deconvnet")
    rules = {name: f"AttributionDeconvnet{kind}" for name, kind in rectifiers.items()}
    for name, kind in rectifiers.items():
        if kind == PRELU and (halves := prelu_halves(graph, name)) is not None:
            rules[halves[0]] = "AttributionPassOn"  # the sum passes the whole gradient to its first ReLU
    return rules


def _rectifiers(graph: Any, source: str, target: str, method: str) -> dict[str, str]:
    # Imported here, where it registers them, because the registry of methods imports no TensorFlow.
    from attribution.model._registered_gradients import find_rectifiers

    return find_rectifiers(graph, source, target, method)
