"""The methods of SVEA's table and their settings: the only place where SVEA differs from the registry's defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import attribution
from attribution.errors import BadInput
from attribution.methods.queries import ModelQueries

# In the order of the paper's Table 1; SmoothGrad is in its text only.
METHODS = (
    "gradient", "smoothgrad", "xgrad_cam", "score_cam", "grad_cam", "grad_cam_plus_plus", "sise",
    "integrated_gradients", "rise",
)  # fmt: skip
# Variant -> the row of Table 1 that it may explain. Printed beside that row's figures, compared with no other method.
CANDIDATES = {"score_cam_constant_masks": "score_cam"}
RISE_MASKS = 1000
COSTLY = ("rise",)  # not tried on networks of random weights: as many masks on each would cost more than all else


def _absolute_gradient(queries: ModelQueries) -> np.ndarray:
    """Vanilla Gradient as SVEA ranks it: the absolute value of the gradient, of the inputs' shape."""
    return np.abs(queries.input_gradient())


def settings(names: Sequence[str], rise_masks: int = RISE_MASKS, layer: str = "") -> dict[str, tuple]:
    """Return the methods with SVEA's settings, as ``attribution.explain_many`` takes them: name -> (method, overrides).

    ``names`` are of the registry, or ``module:function`` of the user's own; what SVEA has no settings for runs with its
    defaults. ``layer`` is that of class activation maps; a model's default when empty. Raises ``BadInput`` if there is
    no such method, or none at all, or one twice.
    """
    overrides: Mapping[str, dict] = {
        "integrated_gradients": {"points": 51, "quadrature": "uniform"},
        "rise": {"masks": rise_masks},
    }
    chosen = {}
    for name in names:
        if name in chosen:
            raise BadInput(f"--methods names '{name}' twice")
        method: Any = attribution.resolve_method(name)
        placed = {"layer": layer} if layer and "layer" in method.defaults else {}
        if name == "gradient":
            method = _absolute_gradient
        chosen[name] = method, {**overrides.get(name, {}), **placed}
    if not chosen:
        raise BadInput("--methods is empty; leave it out for SVEA's nine methods")
    return chosen
