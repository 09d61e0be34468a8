"""What the authors may have computed under the names of Guided Backprop and Deconvnet: candidates, unproven.

Where a network's every ReLU follows Deconvnet's rule, its map is the same for every image: no gate is the image's. On
the poster it has .18 of its mass on the object, a uniform map .03 here, so the authors' rule left some ReLUs alone, or
acted otherwise. These methods apply a rule to a part of the Relation Network and leave the true gradient in the others.
Their parts were found by trying several and keeping the two that brought Guided Backprop nearest to the poster, which
agrees with anything now and then, and a second network does not bear it out: docs/clevr_xai_table.md has the figures.

    python -m clevr_xai.evaluate --methods=guided_backprop,research.clevr_xai.candidates:guided_backprop_in_convolutions
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from attribution import METHODS
from attribution.errors import BadInput, listed
from attribution.methods.cam import grad_cam
from attribution.methods.modified_relu import deconvnet_rules, guided_rules
from attribution.methods.queries import ModelQueries

PARTS = ("convolutions", "relations", "f")  # of a network that ``relation_network.build`` made, as its layers are named


def within(rules: Callable[[Any, str, str], dict[str, str]], parts: tuple[str, ...]) -> Callable:
    """Return rules, such as ``modified_relu.guided_rules``, in the rectifiers of some ``PARTS`` of a Relation Network.

    ``ModelQueries.input_gradient`` takes them; they raise ``BadInput`` for a network that has not all three parts.
    """

    def of_parts(graph: Any, source: str, target: str) -> dict[str, str]:
        found = {name: (_part(name), rule) for name, rule in rules(graph, source, target).items()}
        if {part for part, _ in found.values()} != set(PARTS):
            raise BadInput(
                f"a rule by parts takes a Relation Network with ReLUs in its layers {listed(PARTS)}, as "
                "scripts/train_relation_network.py exports it"
            )
        return {name: rule for name, (part, rule) in found.items() if part in parts}

    return of_parts


def _part(name: str) -> str:
    """Return the part that a node belongs to, "" for none; TensorFlow may have numbered the layer ("f_1")."""
    found = re.search(rf"(?:^|/)({'|'.join(PARTS)})(?:_\d+)?/", name)
    return found[1] if found else ""


def _candidate(name: str, rules: Callable, parts: tuple[str, ...]) -> Callable[[ModelQueries], np.ndarray]:
    """Return the method of a rule in some parts; the queries know rules again by identity, so each is made once."""
    of_parts = within(rules, parts)

    def method(queries: ModelQueries) -> np.ndarray:
        return queries.input_gradient(of_parts)

    method.__name__ = method.__qualname__ = name
    method.family = METHODS["guided_backprop"].family
    return method


# Maps of the inputs' shape: the rule in the ReLUs of the convolutions, or also in those of f, the gradient elsewhere.
guided_backprop_in_convolutions = _candidate("guided_backprop_in_convolutions", guided_rules, ("convolutions",))
guided_backprop_outside_g = _candidate("guided_backprop_outside_g", guided_rules, ("convolutions", "f"))
deconvnet_in_convolutions = _candidate("deconvnet_in_convolutions", deconvnet_rules, ("convolutions",))
deconvnet_outside_g = _candidate("deconvnet_outside_g", deconvnet_rules, ("convolutions", "f"))


def guided_grad_cam_in_convolutions(queries: ModelQueries) -> np.ndarray:
    """Upsampled Grad-CAM times ``guided_backprop_in_convolutions``; of the inputs' shape."""
    return grad_cam(queries)[..., np.newaxis] * guided_backprop_in_convolutions(queries)


guided_grad_cam_in_convolutions.family = METHODS["guided_backprop"].family
