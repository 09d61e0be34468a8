"""What the passes of a model take and return: of ``attribution.model.model.Model``, and of a model behind a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

NodeRules = Mapping[str, str]  # node of the graph -> name of the registered gradient that replaces the true one
Rules = Callable[[Any, str, str], NodeRules]  # from (graph, input node, score node)


class Backward(NamedTuple):
    """Results of a backward pass over R rows.

    Attributes
    ----------
    scores
        ``(R, classes)`` float32.
    input_gradient
        Of the input's shape; ``None`` unless requested.
    values, gradients
        Layer name to array ``(R, ...)`` of the layer's shape.
    """

    scores: np.ndarray
    input_gradient: np.ndarray | None
    values: Mapping[str, np.ndarray]
    gradients: Mapping[str, np.ndarray]
