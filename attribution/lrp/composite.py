"""Rules and composites of layer-wise relevance propagation (LRP), and the operations that have a rule.

A *rule* distributes the relevance of a layer's outputs among its inputs. A *composite* assigns a rule to each kind of
layer. ``attribution.lrp._engine`` applies them to the graph. With a the inputs of a layer, w its weights, b its bias,
(·)+ and (·)- the positive and negative parts, R_j the relevance of output j:

==========  ========================================================================================
epsilon     R_i = Σ_j a_i w_ij / (Σ_i a_i w_ij + b_j + ε sign) R_j
z_plus      R_i = Σ_j (a_i+ w_ij+ + a_i- w_ij-) / (Σ_i (...) + b_j+ + ε) R_j
alpha_beta  α times z_plus, minus β times the same with (a_i+ w_ij- + a_i- w_ij+) and b_j-
gamma       epsilon with contributions a_i w_ij, and the bias, times 1 + γ where they have the sign of their sum
box         R_i = Σ_j (a_i w_ij - l w_ij+ - h w_ij-) / Σ_i (...) R_j, for inputs in [l, h] (z^B)
flat        R_i = Σ_j R_j / (number of inputs of j)
==========  ========================================================================================

Sources: Bach et al. 2015 (epsilon, alpha_beta), Montavon et al. 2017 (z_plus, box), Montavon et al. 2019 (gamma),
Zhang et al. 2018 (Excitation Backprop). Relevance has the unit of the score.

gamma is the general form of Andéol et al. 2021. For a_i ≥ 0 and a positive sum it is the published one, epsilon with
w + γ w+ and b + γ b+. That one has denominators near 0 where a sum is negative. In the general one no denominator is
smaller than the sum, and the magnitudes of the shares of an output add up to at most 1 + 2/γ times its relevance.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput, listed

# End of the message that an operation has no rule.
WITHOUT_RULES = "; 'integrated_gradients', 'smoothgrad', 'kernel_shap' and 'occlusion' need no rules"
CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative", "Conv3D", "Conv2DBackpropInput", "Conv3DBackpropInputV2")
MATRIX_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMul", "BatchMatMulV3", "Einsum")
LAYERS = CONVOLUTIONS + MATRIX_PRODUCTS
# Linear, with constant positive weights.
AVERAGES = (
    "Mean", "Sum", "AvgPool", "AvgPool3D", "ResizeBilinear", "SegmentSum", "UnsortedSegmentSum", "Cumsum",
)  # fmt: skip
# Linear, with constant weights of both signs.
INTERPOLATIONS = ("ResizeBicubic", "ScaleAndTranslate")
SUMS = ("Add", "AddV2", "AddN", "Sub", "BiasAdd")
# Every value of the output is a value of the first input, perhaps in another number format.
MOVES = (
    "Identity", "Cast", "Reshape", "Squeeze", "ExpandDims", "Transpose", "Tile", "BroadcastTo", "Slice",
    "StridedSlice", "Gather", "GatherV2", "BatchToSpaceND", "DepthToSpace", "SpaceToDepth", "ReverseV2", "Roll",
)  # fmt: skip
# Every value of the output is a value of an input, or a constant that absorbs its relevance.
SELECTS = (
    "MaxPool", "MaxPoolV2", "MaxPool3D", "Max", "Min", "Pad", "PadV2", "MirrorPad", "SpaceToBatchND",
    "ConcatV2", "Concat", "Pack", "Unpack", "Split", "SplitV", "GatherNd", "ExtractImagePatches", "MatrixBandPart",
    "ResizeNearestNeighbor", "Select", "SelectV2", "Maximum", "Minimum", "ClipByValue", "TopKV2",
)  # fmt: skip
SCALES = ("Mul", "RealDiv")
NORMALIZATIONS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")  # by constants
# Elementwise, 0 at 0, of the sign of their input. Others are recognised by that law: see ``_engine.py``.
ACTIVATIONS = ("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Tanh")


def factors(operation: Any) -> tuple[int, int]:
    """Return the positions of a product's two factors among its inputs, values before weights."""
    return (2, 1) if operation.type in ("Conv2DBackpropInput", "Conv3DBackpropInputV2") else (0, 1)


KINDS = ("epsilon", "z_plus", "alpha_beta", "gamma", "box", "flat")
SUM_CHOICES = ("joint", "separate")
_STABILISERS = ("absolute", "relative")
_CHOICES = {
    "batch_norm": ("pass", "fold"),
    "norm": ("pass", "epsilon"),
    "sums": SUM_CHOICES,
    "softmax": ("constant", "taylor"),
    "start": ("score", "one"),
}
_SCALARS = ("epsilon", "alpha", "beta", "gamma")
_ANY_RANGE = {"low": 0.0, "high": 1.0}
_NUMBERS = (*_SCALARS, *_ANY_RANGE)
_RULES = ("convolution", "dense", "merge", "first")


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule with its numbers.

    Attributes
    ----------
    kind
        One of ``KINDS``.
    epsilon
        Stabiliser, at least 0.
    alpha, beta, gamma, low, high
        Numbers of the rules that have them.
    bias
        Whether the bias takes its share.
    stabiliser
        ``"absolute"``: ε is added to the denominator. ``"relative"``: ε times the greatest magnitude along the last
        axis is added, so that scaling the network's scores scales its maps.
    """

    kind: str
    epsilon: float = 1e-6
    alpha: float = 1.0
    beta: float = 0.0
    gamma: float = 0.25
    low: float = 0.0
    high: float = 1.0
    bias: bool = True
    stabiliser: str = "absolute"

    def __post_init__(self) -> None:
        _check("stabiliser", self.stabiliser, _STABILISERS)
        if isinstance(self.epsilon, numbers.Real) and not 0 <= self.epsilon < float("inf"):
            raise BadInput(f"epsilon must be a number of at least 0, not {self.epsilon}")
        if isinstance(self.low, numbers.Real) and isinstance(self.high, numbers.Real) and not self.low <= self.high:
            raise BadInput(f"inputs are between low and high, so low must not be greater: {self.low} > {self.high}")


@dataclasses.dataclass(frozen=True)
class Composite:
    """A rule for each kind of layer.

    Attributes
    ----------
    convolution, dense
        Rules of these layers; dense are all products of matrices, attention's with its values among them.
    merge
        Rule of sums of layers, of means and pooled means, and of shifts of the input before the first layer.
    first
        Rule of the layers that see the explained input; ``None`` for no difference. Shifts before these layers, as of
        preprocessing, then pass relevance on unchanged. Under ``box`` what does not come straight from the input, as a
        recurrent network's state, takes none.
    batch_norm
        ``"pass"``: batch normalization passes relevance on unchanged. ``"fold"``: it is first multiplied into a
        neighbouring layer where that is exact (``attribution.graph.fold_batch_norm``).
    norm
        Normalization that is part of no layer: LayerNorm and its variants, and a BatchNorm that could not be folded.
        ``"pass"``: it passes relevance on unchanged. ``"epsilon"``: the value, the mean subtracted from it and the
        shift share by the ε-rule. In both cases the denominator is a constant.
    sums
        ``"joint"``: the layers that end in one sum share its relevance as one layer. ``"separate"``: the terms of the
        sum first share by value (the ε-rule), then each layer by its rule, as in zennit. Both are the same if all
        layers have the ε-rule. A sum of products of matrices alone, as in a recurrent cell, is always one dense layer.
    softmax
        ``"constant"``: attention is a gate that takes no relevance (Ali et al. 2022). ``"taylor"``: it takes half, and
        passes on R_i = x_i (R_i - s_i Σ R_j) (Achtibat et al. 2024).
    start
        Relevance of the target's score: ``"score"``, its value, or ``"one"``.
    """

    convolution: Rule
    dense: Rule
    merge: Rule
    first: Rule | None = None
    batch_norm: str = "pass"
    norm: str = "pass"
    sums: str = "joint"
    softmax: str = "constant"
    start: str = "score"

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            _check(name, getattr(self, name), known)

    def numbers(self) -> np.ndarray:
        """Return the numbers of all rules, ``(4, 6)`` float64, for ``with_numbers``."""
        rules = [getattr(self, name) or Rule("epsilon") for name in _RULES]
        return np.array([[getattr(rule, number) for number in _NUMBERS] for rule in rules], np.float64)

    def without_numbers(self) -> Composite:
        """Return the common form of all composites that differ only in their numbers; zeros stay zeros."""
        return self._map(lambda rule, _: {name: float(bool(getattr(rule, name))) for name in _SCALARS} | _ANY_RANGE)

    def with_numbers(self, numbers: Any) -> Composite:
        """Return a composite without numbers with these, which may be tensors: one trace serves every ε."""

        def numbers_of(rule: Rule, row: int) -> dict[str, Any]:
            wanted = [name for name in _NUMBERS if name in _ANY_RANGE or getattr(rule, name)]
            return {name: numbers[row, _NUMBERS.index(name)] for name in wanted}

        return self._map(numbers_of)

    def _map(self, numbers_of: Callable[[Rule, int], dict[str, Any]]) -> Composite:
        rules: dict[str, Any] = {
            name: dataclasses.replace(rule, **numbers_of(rule, row))
            for row, name in enumerate(_RULES)
            if (rule := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, **rules)


def _check(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise BadInput(f"no {name} {value!r}; choose one of {listed(known)}")
