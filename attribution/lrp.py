"""Layer-wise relevance propagation and Excitation Backprop: rules, composites and methods by name.

A *rule* says how the relevance of a layer's outputs is shared out among its inputs; a *composite* says which
rule holds where. ``relevance.py`` carries them out on the graph. With a the inputs of a layer, w its weights, b its
bias, (·)+ and (·)- the positive and negative parts, R_j the relevance of output j:

==========  ========================================================================================
epsilon     R_i = Σ_j a_i w_ij / (Σ_i a_i w_ij + b_j + ε sign) R_j
z_plus      R_i = Σ_j (a_i+ w_ij+ + a_i- w_ij-) / (Σ_i (...) + b_j+ + ε) R_j
alpha_beta  α times z_plus, minus β times the same with (a_i+ w_ij- + a_i- w_ij+) and b_j-
gamma       epsilon with w + γ w+ and b + γ b+
box         R_i = Σ_j (a_i w_ij - l w_ij+ - h w_ij-) / Σ_i (...) R_j, for inputs in [l, h] (z^B)
flat        R_i = Σ_j R_j / (number of inputs of j)
==========  ========================================================================================

Sources: Bach et al. 2015 (epsilon, alpha_beta), Montavon et al. 2017 (z_plus, box), Montavon et al. 2019 (gamma),
Zhang et al. 2018 (Excitation Backprop).
"""

from __future__ import annotations

import dataclasses

KINDS = ("epsilon", "z_plus", "alpha_beta", "gamma", "box", "flat")
BATCH_NORMS = ("pass", "fold")


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule with its numbers; ``kind`` is one of ``KINDS``, ``bias`` whether the bias takes its share."""

    kind: str
    epsilon: float = 1e-6
    alpha: float = 1.0
    beta: float = 0.0
    gamma: float = 0.25
    low: float = 0.0
    high: float = 1.0
    bias: bool = True


@dataclasses.dataclass(frozen=True)
class Composite:
    """Which rule holds where.

    Attributes
    ----------
    convolution, dense
        Rules of these layers.
    merge
        Rule of sums of layers, of means and pooled means.
    first
        Rule of the layers that see the input itself; ``None`` for no difference.
    batch_norm
        ``"pass"``: normalisation hands relevance on unchanged. ``"fold"``: it is first multiplied into a
        neighbouring layer where that is exact (``canonise.fold_batch_norm``).
    start
        ``"score"``: the target's score is shared out. ``"one"``: 1 is.
    """

    convolution: Rule
    dense: Rule
    merge: Rule
    first: Rule | None = None
    batch_norm: str = "pass"
    start: str = "score"


def lrp_epsilon(passes, *, epsilon=1e-6, batch_norm="fold"):
    """LRP-ε everywhere (Bach et al. 2015). On a ReLU network it is input times gradient as ε goes to 0."""
    rule = Rule("epsilon", epsilon=epsilon)
    return passes.relevance(Composite(rule, rule, rule, batch_norm=batch_norm))


def lrp_epsilon_plus(passes, *, epsilon=1e-6, batch_norm="fold"):
    """LRP-ε in dense layers, LRP-z+ in convolutions (Montavon et al. 2019)."""
    plus = Rule("z_plus", epsilon=epsilon)
    return passes.relevance(Composite(plus, Rule("epsilon", epsilon=epsilon), plus, batch_norm=batch_norm))


def lrp_alpha1beta0(passes, *, epsilon=1e-6, batch_norm="fold"):
    """LRP-α1β0, which is LRP-z+, everywhere (Bach et al. 2015; Montavon et al. 2017)."""
    plus = Rule("z_plus", epsilon=epsilon)
    return passes.relevance(Composite(plus, plus, plus, batch_norm=batch_norm))


def lrp_clevr_xai(passes, *, epsilon=1e-6, low=0.0, high=1.0, batch_norm="pass"):
    """LRP as CLEVR-XAI has it (Arras et al. 2022): z^B for the first convolution, z+ for all other layers.

    Parameters
    ----------
    passes
        Passes of a block of inputs.
    epsilon
        Stabiliser.
    low, high
        Range of the input's values.
    batch_norm
        ``"pass"`` or ``"fold"``; see ``Composite``.
    """
    plus = Rule("z_plus", epsilon=epsilon)
    box = Rule("box", epsilon=epsilon, low=low, high=high)
    return passes.relevance(Composite(plus, plus, plus, first=box, batch_norm=batch_norm))


def excitation_backprop(passes, *, batch_norm="pass"):
    """Excitation Backprop (Zhang et al. 2018): the probability of reaching an input from the target.

    Steps go along a_i w_ij+ without bias, so that a map is non-negative and sums to 1 where every step has a
    positive way on.
    """
    plus = Rule("z_plus", epsilon=0.0, bias=False)
    return passes.relevance(Composite(plus, plus, plus, batch_norm=batch_norm, start="one"))
