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


def guided_backprop_in_convolutions(queries: ModelQueries) -> np.ndarray:
    """Guided Backprop of the convolutions' ReLUs, the gradient of those of g and f; of the inputs' shape."""
    return queries.input_gradient(_guided_in_convolutions)


def guided_backprop_outside_g(queries: ModelQueries) -> np.ndarray:
    """Guided Backprop of the ReLUs of the convolutions and of f, the gradient of those of g; of the inputs' shape."""
    return queries.input_gradient(_guided_outside_g)


def guided_grad_cam_in_convolutions(queries: ModelQueries) -> np.ndarray:
    """Upsampled Grad-CAM times ``guided_backprop_in_convolutions``; of the inputs' shape."""
    return grad_cam(queries)[..., np.newaxis] * guided_backprop_in_convolutions(queries)


def deconvnet_in_convolutions(queries: ModelQueries) -> np.ndarray:
    """Deconvnet of the convolutions' ReLUs, the gradient of those of g and f; of the inputs' shape."""
    return queries.input_gradient(_deconvnet_in_convolutions)


def deconvnet_outside_g(queries: ModelQueries) -> np.ndarray:
    """Deconvnet of the ReLUs of the convolutions and of f, the gradient of those of g; of the inputs' shape."""
    return queries.input_gradient(_deconvnet_outside_g)


def within(rules: Callable[[Any, str, str], dict[str, str]], parts: tuple[str, ...]) -> Callable:
    """Return rules that change the rectifiers of some parts of a Relation Network alone.

    Parameters
    ----------
    rules
        For all of them, such as ``modified_relu.guided_rules``.
    parts
        Of ``PARTS``.

    Returns
    -------
    Callable
        What ``ModelQueries.input_gradient`` takes. It raises ``BadInput`` for a network that has not all three parts.
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


for _candidate in (
    guided_backprop_in_convolutions,
    guided_backprop_outside_g,
    guided_grad_cam_in_convolutions,
    deconvnet_in_convolutions,
    deconvnet_outside_g,
):
    _candidate.family = METHODS["guided_backprop"].family

# The passes know rules again by their identity, so that each is made once.
_guided_in_convolutions = within(guided_rules, ("convolutions",))
_guided_outside_g = within(guided_rules, ("convolutions", "f"))
_deconvnet_in_convolutions = within(deconvnet_rules, ("convolutions",))
_deconvnet_outside_g = within(deconvnet_rules, ("convolutions", "f"))
