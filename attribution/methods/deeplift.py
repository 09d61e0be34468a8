"""DeepLIFT's rescale rule: (x - b) times multipliers, which ``attribution.model._deeplift_rules`` defines."""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.methods import gradients
from attribution.methods.queries import ModelQueries


def deeplift(queries: ModelQueries, *, baseline: Any = 0.0, maxima: str = "cross") -> np.ndarray:
    """DeepLIFT, rescale rule (Shrikumar et al. 2017): (x - b) times the multipliers; the sum is f(x) - f(b) exactly.

    Products of two variables, maxima and softmax follow SHAP's DeepExplainer (Lundberg and Lee 2017): a product's
    multiplier is the mean of the other factor's two values, and softmax is a quotient of exponentials. Normalization
    and other quotients follow the formula at the head of the module of the rules. f is the logit. What the network
    computes is distributed, whatever custom gradients its file has; rounding is refused.

    Parameters
    ----------
    baseline
        Reference input b, as in ``gradients.integrated_gradients``.
    maxima
        ``"cross"``: the difference of a maximum goes in two parts to the winners at x and at b. ``"winner"``: the
        winner at x has the multiplier 1 and the others 0, so that the sum is f(x) - f(b) only where the winners of x
        and b are the same.
    """
    if maxima not in ("cross", "winner"):
        raise BadInput(f"no maxima '{maxima}'; there are 'cross' and 'winner'")
    start = gradients.start_of(queries, baseline)
    maps: np.ndarray = (queries.inputs - start) * queries.multipliers(start, maxima == "cross")
    return maps
