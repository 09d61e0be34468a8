"""DeepLIFT's rescale rule: (x - b) times multipliers, which ``attribution.model._deeplift_rules`` defines."""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.methods import gradients
from attribution.methods.queries import ModelQueries


def deeplift(queries: ModelQueries, *, baseline: Any = 0.0) -> np.ndarray:
    """DeepLIFT, rescale rule (Shrikumar et al. 2017): (x - b) times the multipliers; the sum is f(x) - f(b) exactly.

    Products of two variables, maxima and softmax follow SHAP's DeepExplainer (Lundberg and Lee 2017): a product's
    multiplier is the mean of the other factor's two values, and softmax is a quotient of exponentials. Normalization
    and other quotients follow the formula at the head of the module of the rules. f is the logit. What the network
    computes is distributed, whatever custom gradients its file has; rounding is refused.

    Parameters
    ----------
    baseline
        Reference input b, as in ``gradients.integrated_gradients``.
    """
    start = gradients.start_of(queries, baseline)
    maps: np.ndarray = (queries.inputs - start) * queries.multipliers(start)
    return maps
