"""Layer-wise relevance propagation (LRP) and Excitation Backprop: the composites that have a name.

Every function takes the queries of a batch of inputs and returns maps of the inputs' shape, float32, in units of the
logit. ``attribution.lrp.composite`` has the rules and their formulae. Common parameters:

``epsilon, stabiliser``
    ε, and whether it is "absolute" or "relative" to the layer's values; see ``Rule``.
``batch_norm``
    "pass" or "fold"; see ``Composite``.
``sums``
    "separate", as in zennit: a residual block's sum gives each of its branches the relevance of its value, and the
    layers in them share that by their rules. "joint": the layers that end in the sum share its relevance as one layer,
    so that their positive biases take part of all of it.
``start``
    Relevance of the target's score: "score", its value, or "one".
"""

from __future__ import annotations

import numpy as np

from attribution.errors import BadInput
from attribution.lrp.composite import Composite, Rule
from attribution.methods.queries import ModelQueries


def lrp_epsilon(
    queries: ModelQueries, *, epsilon: float = 1e-6, batch_norm: str = "fold", start: str = "score"
) -> np.ndarray:
    """LRP-ε everywhere (Bach et al. 2015). On a ReLU network it is input times gradient as ε goes to 0.

    Biases and ε take their share: the map's sum is the logit less that.
    """
    rule = Rule("epsilon", epsilon=epsilon)
    return queries.relevance(Composite(rule, rule, rule, batch_norm=batch_norm, norm="epsilon", start=start))


def lrp_epsilon_plus(
    queries: ModelQueries,
    *,
    epsilon: float = 1e-6,
    batch_norm: str = "fold",
    sums: str = "separate",
    start: str = "score",
    beta: float = 0.0,
    merge: str = "z_plus",
) -> np.ndarray:
    """LRP-ε in dense layers, LRP-z+ in convolutions (Montavon et al. 2019).

    ``beta`` above 0 is the weight β of negative contributions in convolutions, α1+β-β (Bach et al. 2015). ``merge`` is
    the rule of sums of layers and of means, "z_plus" or "epsilon", which differ where these have both signs.
    """
    plus, dense = Rule("z_plus", epsilon=epsilon), Rule("epsilon", epsilon=epsilon)
    convolution = Rule("alpha_beta", epsilon=epsilon, alpha=1 + beta, beta=beta)
    return queries.relevance(
        Composite(
            convolution if beta else plus, dense, {"z_plus": plus, "epsilon": dense}[merge], batch_norm=batch_norm,
            norm="epsilon", sums=sums, start=start,
        )
    )  # fmt: skip


def lrp_alpha1beta0(
    queries: ModelQueries, *, epsilon: float = 1e-6, batch_norm: str = "fold", sums: str = "separate"
) -> np.ndarray:
    """LRP-α1β0, which is LRP-z+, everywhere (Bach et al. 2015; Montavon et al. 2017).

    Positive biases take their share, so that the map's sum is less than the logit. With separate sums a branch that
    lowers a residual block's sum gets negative relevance.
    """
    plus = Rule("z_plus", epsilon=epsilon)
    return queries.relevance(Composite(plus, plus, plus, batch_norm=batch_norm, sums=sums))


def lrp_gamma(
    queries: ModelQueries, *, gamma: float = 0.25, epsilon: float = 1e-6, batch_norm: str = "fold"
) -> np.ndarray:
    """LRP-γ in convolutions and dense layers: contributions of the sign of their sum count 1 + γ times.

    The general form (Andéol et al. 2021), as in zennit. Where activations are non-negative and sums positive it is the
    published rule (Montavon et al. 2019), in which positive weights count 1 + γ times. Between LRP-ε (γ = 0) and LRP-z+
    of non-negative activations (γ to infinity).
    """
    rule = Rule("gamma", gamma=gamma, epsilon=epsilon)
    merge = Rule("epsilon", epsilon=epsilon)
    return queries.relevance(Composite(rule, rule, merge, batch_norm=batch_norm, norm="epsilon", sums="separate"))


def lrp_epsilon_gamma_box(
    queries: ModelQueries,
    *,
    gamma: float = 0.25,
    epsilon: float = 1e-6,
    low: float = 0.0,
    high: float = 1.0,
    batch_norm: str = "fold",
    start: str = "score",
) -> np.ndarray:
    """LRP-ε in dense layers, LRP-γ in convolutions, z^B for the first one: zennit's EpsilonGammaBox.

    γ is as in ``lrp_gamma``. Inputs must lie between ``low`` and ``high``, or ``BadInput`` is raised.
    """
    _refuse_inputs_outside("lrp_epsilon_gamma_box", queries, low, high)
    dense = Rule("epsilon", epsilon=epsilon)
    convolution = Rule("gamma", gamma=gamma, epsilon=epsilon)
    box = Rule("box", epsilon=epsilon, low=low, high=high)
    return queries.relevance(
        Composite(
            convolution, dense, dense, first=box, batch_norm=batch_norm, norm="epsilon", sums="separate", start=start
        )
    )


def lrp_epsilon_plus_flat(
    queries: ModelQueries, *, epsilon: float = 1e-6, batch_norm: str = "fold", start: str = "score"
) -> np.ndarray:
    """LRP-ε in dense layers, LRP-z+ in convolutions, flat for the first layer: zennit's EpsilonPlusFlat."""
    plus, dense, flat = (Rule(kind, epsilon=epsilon) for kind in ("z_plus", "epsilon", "flat"))
    return queries.relevance(
        Composite(plus, dense, plus, first=flat, batch_norm=batch_norm, norm="epsilon", sums="separate", start=start)
    )


def lrp_cp(
    queries: ModelQueries, *, epsilon: float = 1e-6, batch_norm: str = "fold", stabiliser: str = "relative"
) -> np.ndarray:
    """CP-LRP (Ali et al. 2022): LRP-ε with constant attention, gates and denominators of normalization.

    Without biases relevance is conserved exactly: the map's sum is the logit.
    """
    rule = Rule("epsilon", epsilon=epsilon, stabiliser=stabiliser)
    return queries.relevance(Composite(rule, rule, rule, batch_norm=batch_norm, norm="epsilon"))


def lrp_attn(
    queries: ModelQueries, *, epsilon: float = 1e-6, batch_norm: str = "fold", stabiliser: str = "relative"
) -> np.ndarray:
    """AttnLRP (Achtibat et al. 2024): LRP-ε that continues through attention's softmax, halved between two factors.

    Sigmoid gates, for which the paper has no rule, take nothing.
    """
    rule = Rule("epsilon", epsilon=epsilon, stabiliser=stabiliser)
    composite = Composite(rule, rule, rule, batch_norm=batch_norm, norm="epsilon", softmax="taylor")
    return queries.relevance(composite)


def lrp_clevr_xai(
    queries: ModelQueries, *, epsilon: float = 1e-6, low: float = 0.0, high: float = 1.0, batch_norm: str = "pass"
) -> np.ndarray:
    """LRP as in CLEVR-XAI (Arras et al. 2022): z^B for the first convolution, z+ for all other layers.

    A residual block's sum is one such layer; the paper's network has none. Positive biases take their share under z+,
    none under z^B. Inputs must lie between ``low`` and ``high``.

    Raises
    ------
    BadInput
        If an input lies outside: the rule would give relevance of the wrong sign.
    """
    plus = Rule("z_plus", epsilon=epsilon)
    box = Rule("box", epsilon=epsilon, low=low, high=high)
    _refuse_inputs_outside("lrp_clevr_xai", queries, low, high)
    return queries.relevance(Composite(plus, plus, plus, first=box, batch_norm=batch_norm))


def _refuse_inputs_outside(method: str, queries: ModelQueries, low: float, high: float) -> None:
    if len(queries) and not (low <= queries.inputs.min() and queries.inputs.max() <= high):
        raise BadInput(
            f"{method} needs inputs between low={low:g} and high={high:g}; these are between "
            f"{queries.inputs.min():g} and {queries.inputs.max():g}; give the range that all inputs can "
            "have by low= and high= (attribution.explain: --parameters=low=0,high=255)"
        )


def excitation_backprop(
    queries: ModelQueries, *, batch_norm: str = "pass", bias: bool = False, epsilon: float = 0.0
) -> np.ndarray:
    """Excitation Backprop (Zhang et al. 2018): the probability of reaching an input from the target.

    Steps go along a_i w_ij+ without bias, so that a map is non-negative and sums to 1 if every step has a positive
    connection. A residual block's sum is one layer: shares by value would be negative where a branch is. With ``bias``
    positive biases take their share.
    """
    plus = Rule("z_plus", epsilon=epsilon, bias=bias)
    return queries.relevance(Composite(plus, plus, plus, batch_norm=batch_norm, start="one"))
