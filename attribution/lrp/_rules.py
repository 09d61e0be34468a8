"""The rules of ``attribution.lrp.composite`` for sums and products, as sums of products of inputs and weights.

``Sums``: sums, biases and the linear operations below them are one layer. In y = W u + V v + b the contributions of u
and v compete for the relevance of y, however many operations compute the sum. All constants are one bias: a rule that
takes the positive part of b must not see whether a file adds b at once or in two steps.

``Products``: the factors that take the relevance where both depend on the explained input. Denominators (of LayerNorm,
RMSNorm, of any quotient) take none: Ali et al. 2022; Achtibat et al. 2024, proposition 3.4. Gates, which are sigmoids,
take none (Arras et al. 2017, for those of an LSTM), attention none if ``Composite.softmax`` is "constant" (Ali et al.
2022). Otherwise each factor takes half: Achtibat et al. 2024, propositions 3.2 and 3.3.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph.view import rebuild
from attribution.lrp import composite as ops
from attribution.lrp._relevances import Relevances
from attribution.lrp.composite import KINDS, Rule

_BY_SIGN = ("z_plus", "alpha_beta", "gamma")  # kinds of rules that look at signs
_NONNEGATIVE = ("Relu", "Relu6", "Softmax", "Sigmoid", "Square", "Abs")
_MONOTONE = (
    *ops.MOVES, *ops.SELECTS, *ops.AVERAGES, *ops.SUMS, *ops.SCALES, *ops.NORMALIZATIONS, *ops.ACTIVATIONS, "Neg",
)  # fmt: skip


class Part(NamedTuple):
    """A summand of a rule.

    Attributes
    ----------
    weight
        Its factor.
    pairs
        Function from (inputs, weights, layer) to pairs of both, whose products contribute.
    bias
        Function from the bias to its contribution.
    is_nonnegative
        Whether no contribution is negative.
    sign
        1 or -1 if only outputs above or below zero have this summand; 0 if all have.
    """

    weight: float
    pairs: Callable[[tf.Tensor, tf.Tensor, LayerInputs], list[tuple[Any, Any]]]
    bias: Callable[[tf.Tensor], Any]
    is_nonnegative: bool = False
    sign: int = 0

    def share(self, relevance: tf.Tensor, total: tf.Tensor, rule: Rule, output: tf.Tensor) -> Any:
        """Return the relevance per unit of a total of the part's contributions to a layer's output."""
        if self.sign:
            relevance = tf.where(self.sign * output > 0, relevance, tf.zeros_like(relevance))
        share = divide(relevance, total, rule, self.is_nonnegative)
        if isinstance(self.weight, float) and self.weight == 1:
            return share
        return tf.cast(self.weight, total.dtype) * share


class LayerInputs:
    """Facts about the inputs of a layer, a tensor, that do not need their values."""

    def __init__(self, walk: Relevances, tensor: tf.Tensor) -> None:
        self._walk = walk
        self._tensor = tensor

    def is_nonnegative(self) -> bool:
        """Return whether no input can be negative, so that half of z+ need not be computed."""
        tensor = self._tensor
        while tensor.op.type in (*ops.MOVES, "MaxPool", "AvgPool", "Mean", "Pad"):
            tensor = tensor.op.inputs[0]
        return tensor.op.type in _NONNEGATIVE

    def bounds(self, low: float, high: float) -> tuple[Any, Any]:
        """Return the least and greatest values of the layer's inputs if the explained input is in [low, high]."""
        return self._bounds(self._tensor, low, high)

    def _bounds(self, tensor: tf.Tensor, low: float, high: float) -> tuple[Any, Any]:
        operation = tensor.op
        if operation.name == self._walk.source.name:
            shape, dtype = tf.shape(tensor), tensor.dtype
            return tf.fill(shape, tf.cast(low, dtype)), tf.fill(shape, tf.cast(high, dtype))
        if operation.name not in self._walk.near_input:
            return tensor, tensor
        # Operations before the first layer (padding, scaling) must be monotone in each value.
        moving = self._walk.variable_inputs(operation)
        if operation.type not in _MONOTONE or (operation.type in ops.SUMS + ops.SCALES and len(moving) > 1):
            raise BadInput(
                f"the box rule cannot determine the range of {operation.type} (node '{self._walk.name(operation)}') "
                "before the first layer; use another rule there"
            )
        sources = [self._bounds(source, low, high) for source in operation.inputs]
        ends = [rebuild(operation, [source[end] for source in sources], tensor.value_index) for end in (0, 1)]
        return tf.minimum(*ends), tf.maximum(*ends)


def parts(rule: Rule) -> list[Part]:
    """Return a rule as summands.

    Raises
    ------
    BadInput
        If there is no such rule.
    """

    def bias(function: Callable[[tf.Tensor], Any]) -> Callable[[tf.Tensor], Any]:
        return function if rule.bias else tf.zeros_like

    def favour(half: Callable[[tf.Tensor], Any]) -> Callable[[tf.Tensor], Any]:
        return lambda w: w + tf.cast(rule.gamma, w.dtype) * half(w)

    def favoured(half: Callable[[tf.Tensor], Any], other: Callable[[tf.Tensor], Any], sign: int) -> Part:
        """Return the summand of the outputs of one sign: contributions of that sign count 1 + γ times."""

        def pairs(x: tf.Tensor, w: tf.Tensor, layer: LayerInputs) -> list[tuple[Any, Any]]:
            if layer.is_nonnegative():
                return [(x, favour(half)(w))]
            return [(_positive(x), favour(half)(w)), (_negative(x), favour(other)(w))]

        return Part(1.0, pairs, bias(favour(half)), sign=sign)

    def within_box(x: tf.Tensor, w: tf.Tensor, layer: LayerInputs) -> list[tuple[Any, Any]]:
        low, high = layer.bounds(rule.low, rule.high)
        return [(x, w), (-low, _positive(w)), (-high, _negative(w))]

    if rule.kind == "epsilon":
        return [Part(1.0, lambda x, w, _: [(x, w)], bias(lambda b: b))]
    if rule.kind == "z_plus":
        return [Part(1.0, _plus, bias(_positive), True)]
    if rule.kind == "alpha_beta":
        return [Part(rule.alpha, _plus, bias(_positive), True), Part(-rule.beta, _minus, bias(_negative))]
    if rule.kind == "gamma":
        return [favoured(_positive, _negative, 1), favoured(_negative, _positive, -1)]
    if rule.kind == "box":
        return [Part(1.0, within_box, tf.zeros_like)]
    if rule.kind == "flat":
        return [Part(1.0, lambda x, w, _: [(tf.ones_like(x), tf.ones_like(w))], tf.zeros_like)]
    raise BadInput(f"no relevance rule '{rule.kind}'; the rules are {listed(KINDS)}")


def _positive(x: tf.Tensor) -> Any:
    return tf.maximum(x, 0)


def _negative(x: tf.Tensor) -> Any:
    return tf.minimum(x, 0)


def _plus(x: tf.Tensor, w: tf.Tensor, layer: LayerInputs) -> list[tuple[Any, Any]]:
    if layer.is_nonnegative():
        return [(x, _positive(w))]
    return [(_positive(x), _positive(w)), (_negative(x), _negative(w))]


def _minus(x: tf.Tensor, w: tf.Tensor, layer: LayerInputs) -> list[tuple[Any, Any]]:
    if layer.is_nonnegative():
        return [(x, _negative(w))]
    return [(_positive(x), _negative(w)), (_negative(x), _positive(w))]


def divide(relevance: tf.Tensor, total: tf.Tensor, rule: Rule, is_nonnegative: bool = False) -> Any:
    """Return relevance / (total ± ε), or 0 at 0 where ε is 0: always finite.

    The sign of ε is the total's, which need not be found where the total ``is_nonnegative``.
    """
    if isinstance(rule.epsilon, (int, float)) and rule.epsilon == 0:
        return tf.math.divide_no_nan(relevance, total)
    epsilon, quotient = tf.cast(rule.epsilon, total.dtype), tf.divide
    if rule.stabiliser == "relative":
        # Only along the last axis: other axes may hold the inputs of one batch. Values without relevance do not count:
        # a mask of -1e9 is no measure of size.
        sizes = tf.where(relevance != 0, tf.abs(total), tf.zeros_like(total))
        epsilon *= tf.reduce_max(sizes, axis=-1, keepdims=True) if total.shape.rank != 0 else sizes
        quotient = tf.math.divide_no_nan
    return quotient(relevance, total + (epsilon if is_nonnegative else tf.where(total >= 0, epsilon, -epsilon)))


def share_with_constant(
    walk: Relevances,
    rule: Rule,
    source: tf.Tensor,
    varying: tf.Tensor,
    constant: tf.Tensor,
    given: tf.Tensor,
    output: tf.Tensor,
) -> None:
    """Give ``source`` the relevance of ``varying`` in ``varying + constant``, the output of an elementwise function."""
    for part in parts(rule):
        pairs = part.pairs(varying, tf.ones((), varying.dtype), LayerInputs(walk, varying))
        contribution = tf.add_n([value * weight for value, weight in pairs])
        share = part.share(given, contribution + part.bias(constant), rule, output)
        walk.add(source, fit(contribution * share, source))


def fit(relevance: tf.Tensor, tensor: tf.Tensor) -> Any:
    """Sum relevance over the axes along which a tensor was broadcast."""
    if relevance.shape.rank == tensor.shape.rank and relevance.shape[1:].as_list() == tensor.shape[1:].as_list():
        return relevance
    source = tf.identity(tensor)
    return tf.gradients(source + tf.zeros_like(relevance), source, grad_ys=relevance)[0]


_DENOMINATORS = ("Rsqrt", "Sqrt", "Reciprocal")
_PASSED = (*ops.MOVES, "StopGradient", "Neg")
_BOUNDED = ("Minimum", "Maximum", "ClipByValue")


class Products:
    """Determines which factors of a product take relevance, and distributes it."""

    def __init__(self, walk: Relevances) -> None:
        self._walk = walk
        self._gates = ("Sigmoid", *("Softmax",) * (walk.composite.softmax == "constant"))

    def signals(self, operation: tf.Operation) -> list[int]:
        """Return the positions of a product's inputs that take relevance; ``[0]`` for an operation of one input."""
        if len(operation.inputs) == 1:
            return [0]
        factors = [place for place in ops.factors(operation) if not self._walk.is_constant(operation.inputs[place])]
        places = [place for place in factors if not self._is_mask(operation.inputs[place])]
        if operation.type == "RealDiv":
            if places == [1]:
                self._walk.refuse(operation, "of a constant by a divisor that depends on the input")
            return places[:1]
        if len(places) == 1:
            gates_state = self._is_state(operation, 1 - places[0]) and self._gates_at(operation, places, self._gates)
            return [] if gates_state else places
        for kinds in (_DENOMINATORS, self._gates):
            gates = self._gates_at(operation, places, kinds)
            if len(gates) == 1:
                places.remove(gates[0])
                break
        return places

    def share_scaling(self, operation: tf.Operation, given: tf.Tensor) -> None:
        """Pass the relevance of an elementwise product or quotient to the signal, or half to each factor."""
        places = self.signals(operation)
        for place in places:
            tensor = operation.inputs[place]
            self._walk.add(tensor, fit(given / len(places), tensor))

    def share_both(self, operation: tf.Operation, given: tf.Tensor, rule: Rule) -> None:
        """Distribute the relevance of a product of two matrices, half to each."""
        if rule.kind not in ("z_plus", "alpha_beta"):  # the other formulae treat inputs and weights differently
            rule = dataclasses.replace(rule, kind="epsilon")
        places = ops.factors(operation)
        left, right = (operation.inputs[place] for place in places)
        for part in parts(rule):
            total: Any = 0.0
            leaves: list[tuple[tf.Tensor, tf.Tensor]] = []
            for pair in part.pairs(left, right, LayerInputs(self._walk, left)):
                factors = [tf.identity(factor) for factor in pair]
                leaves += zip((left, right), factors, strict=True)
                inputs = list(operation.inputs)
                for place, factor in zip(places, factors, strict=True):
                    inputs[place] = factor
                total += rebuild(operation, inputs)
            share = part.share(given / 2, total, rule, operation.outputs[0])
            self._walk.add_contributions(leaves, total, share)

    def core(self, tensor: tf.Tensor) -> Any:
        """Return the tensor behind scalings by constants and denominators, and behind reshapes."""
        while True:
            operation = tensor.op
            if operation.type in ("Reshape", "ExpandDims", "Squeeze", "BroadcastTo", "Identity", "Cast", "Neg"):
                tensor = operation.inputs[0]
            elif operation.type in ops.SCALES and len(self.signals(operation)) == 1:
                tensor = operation.inputs[self.signals(operation)[0]]
            else:
                return tensor

    def _is_mask(self, tensor: tf.Tensor) -> bool:
        """Return whether a factor is made of truth values, such as which tokens are padding: it takes no relevance."""
        chain = (operation for operation, _, _ in self._affine_chain(tensor))
        return any(operation.type == "Cast" and operation.inputs[0].dtype.is_bool for operation in chain)

    def _gates_at(self, operation: tf.Operation, places: list[int], kinds: tuple[str, ...]) -> list[int]:
        """Return the positions at which an operation's inputs are gates of these kinds."""
        return [place for place in places if self._is_gate(operation.inputs[place], kinds)]

    def _is_gate(self, tensor: tf.Tensor, kinds: tuple[str, ...]) -> bool:
        """Return whether a factor is one of these operations, moved, shifted, scaled and clipped by constants."""
        for operation, scale, bounds in self._affine_chain(tensor):
            if operation.type in kinds or ("Sigmoid" in kinds and _is_hard_sigmoid(operation, scale, bounds)):
                return True
            if operation.type == "RealDiv" and self._walk.is_constant(operation.inputs[0]):
                return "Reciprocal" in kinds
        return False

    def _affine_chain(self, tensor: tf.Tensor) -> Iterator[tuple[tf.Operation, float, list[float]]]:
        """Yield the operations above a tensor that constants move, shift, scale or clip, with scale and bounds."""
        scale = 1.0
        bounds: list[float] = []
        while True:
            operation = tensor.op
            yield operation, scale, bounds
            moving = self._walk.variable_inputs(operation)
            constants = [_number(one) for one in operation.inputs if self._walk.is_constant(one)]
            if operation.type in (*ops.SUMS, "Mul", *_BOUNDED) and len(moving) != 1:
                return
            if operation.type == "Mul":
                scale *= constants[0]
            elif operation.type == "RealDiv":
                scale /= _number(operation.inputs[1])
            elif operation.type in _BOUNDED:
                bounds += constants
            elif operation.type not in (*_PASSED, *ops.SUMS):
                return
            tensor = moving[0]

    def _is_state(self, operation: tf.Operation, place: int) -> bool:
        """Return whether a constant factor has a value for each input, as a recurrent network's initial state has."""
        if operation.type != "Mul" or not self._walk.is_constant(operation.inputs[place]):
            return False
        state, other = operation.inputs[place].shape, operation.inputs[1 - place].shape
        return bool(state.rank and state.rank == other.rank and state[0] != 1)


def _is_hard_sigmoid(operation: tf.Operation, scale: float, bounds: list[float]) -> bool:
    """Return whether an operation is clipped to [0, 1], or is a sixth of Relu6."""
    return sorted(bounds) == [0.0, 1.0] or (operation.type == "Relu6" and abs(6 * scale - 1) < 1e-3)


def _number(tensor: tf.Tensor) -> float:
    """Return the value of a constant that is a single number; NaN for any other."""
    value = tf.get_static_value(tensor)
    return float(value) if value is not None and value.dtype.kind == "f" and value.size == 1 else float("nan")


Leaves = list[tuple[tf.Tensor, tf.Tensor]]  # a tensor of the graph and the copy that contributes


class Sums:
    """Distributes relevance among all inputs of a sum of linear operations."""

    def __init__(self, walk: Relevances, products: Products) -> None:
        self._walk = walk
        self._products = products
        self._composite = walk.composite

    def share(self, operation: tf.Operation, given: tf.Tensor) -> None:
        """Distribute the relevance ``given`` of an operation's output among its inputs."""
        if operation.type in ops.LAYERS and len(self._products.signals(operation)) == 2:
            self._products.share_both(operation, given, self._rule(operation))
        elif self._is_only_a_shift(operation):
            self._share_shift(operation, given)
        elif (value := self._centred(operation)) is not None:
            if self._composite.norm == "pass":
                self._walk.add(value, fit(given, value))
            else:
                self._share_by(self._epsilon_rule(), operation, given)
        elif self._composite.sums == "separate" and self._joins(operation):
            self._share_by_value(operation, given)
        else:
            self._share_by(self._rule(operation), operation, given)

    def share_normalization(self, operation: tf.Operation, given: tf.Tensor) -> None:
        """Pass the relevance of a batch normalization's output to its input, whole or as through an affine layer."""
        source = operation.inputs[0]
        shift = rebuild(operation, [tf.zeros_like(source), *operation.inputs[1:]])
        self._share_affine(operation, source, operation.outputs[0] - shift, shift, given)

    def _share_shift(self, operation: tf.Operation, given: tf.Tensor) -> None:
        """Distribute the relevance of a sum of one tensor, no linear layer, and constants."""
        (tensor,) = self._walk.variable_inputs(operation)
        is_subtracted = operation.type == "Sub" and operation.inputs[1] is tensor
        varying = -tensor if is_subtracted else tensor
        self._share_affine(operation, tensor, varying, operation.outputs[0] - varying, given)

    def _share_affine(
        self, operation: tf.Operation, source: tf.Tensor, varying: tf.Tensor, shift: tf.Tensor, given: tf.Tensor
    ) -> None:
        """Distribute the relevance of ``varying + shift``, of which ``varying`` is ``source`` times constants.

        Before the first layer that is the input's preprocessing, a sum as any other, which takes no relevance where
        the first layer has a rule for the input's values. Behind, it is normalization.
        """
        is_preprocessing = operation.name in self._walk.near_input
        shares_norms = self._composite.norm == "epsilon" and self._composite.batch_norm == "fold"
        if not shares_norms or (is_preprocessing and self._composite.first is not None):
            self._walk.add(source, fit(given, source))
            return
        rule = self._composite.merge if is_preprocessing else self._epsilon_rule()
        share_with_constant(self._walk, rule, source, varying, shift, given, operation.outputs[0])

    def _share_by(self, rule: Rule, operation: tf.Operation, given: tf.Tensor) -> None:
        """Distribute the relevance of a sum by a rule; to one that looks at signs, all its constants are one bias.

        To the other rules they stay as they are, so that the sum is rounded as the network rounds it.
        """
        if operation.type in ops.INTERPOLATIONS and rule.kind in _BY_SIGN:
            self._walk.refuse(operation, "under a rule that looks at signs")
        output, bias = operation.outputs[0], None
        if rule.bias and rule.kind in _BY_SIGN and self._count_constants(output, root=True) > 1:
            bias = self._bias(output, 1.0, root=True)
        for part in parts(rule):
            leaves: Leaves = []
            of_terms = part if bias is None else part._replace(bias=tf.zeros_like)
            total = self._build(output, of_terms, 1.0, leaves, root=True)
            if bias is not None:
                total += part.bias(bias)
            share = part.share(given, total, rule, output)
            self._walk.add_contributions(leaves, total, share)

    def _count_constants(self, tensor: tf.Tensor, root: bool = False) -> int:
        operation = tensor.op
        if self._walk.is_constant(tensor):
            return 1
        if not (root or self._belongs(tensor)) or operation.type not in ops.SUMS + ops.MOVES:
            return 0
        terms = operation.inputs if operation.type in ops.SUMS else operation.inputs[:1]
        return sum(map(self._count_constants, terms))

    def _bias(self, tensor: tf.Tensor, sign: float, root: bool = False) -> Any:
        """Return what constants alone add to a sum, of the sum's shape."""
        operation = tensor.op
        if self._walk.is_constant(tensor):
            return sign * tensor
        if root or self._belongs(tensor):
            if operation.type in ops.SUMS:
                return _sum(operation, [self._bias(*term) for term in _signed(operation, sign)])
            if operation.type in ops.MOVES:
                return rebuild(operation, [self._bias(operation.inputs[0], sign), *operation.inputs[1:]])
        return tf.zeros_like(tensor)

    def _share_by_value(self, operation: tf.Operation, given: tf.Tensor) -> None:
        """Distribute the relevance of a sum among its terms by the ε-rule."""
        share = divide(given, operation.outputs[0], self._epsilon_rule())
        for term, sign in _signed(operation, 1.0):
            if not self._walk.is_constant(term):
                self._walk.add(term, fit(sign * term * share, term))

    def _epsilon_rule(self) -> Rule:
        return dataclasses.replace(self._composite.merge, kind="epsilon")

    def _build(self, tensor: tf.Tensor, part: Part, sign: float, leaves: Leaves, root: bool = False) -> Any:
        """Build one part of a sum again, from copies of its inputs that are appended to ``leaves``."""
        operation = tensor.op
        kind = operation.type
        if self._walk.is_constant(tensor):
            return part.bias(sign * tensor)
        inner = root or self._belongs(tensor)
        if inner and kind in ops.SUMS:
            terms = _signed(operation, sign)
            return _sum(operation, [self._build(term, part, of_term, leaves) for term, of_term in terms])
        if inner and kind in ops.MOVES:
            return rebuild(operation, [self._build(operation.inputs[0], part, sign, leaves), *operation.inputs[1:]])
        return self._linear_part(tensor, part, sign, leaves, inner)

    def _linear_part(self, tensor: tf.Tensor, part: Part, sign: float, leaves: Leaves, inner: bool) -> Any:
        """Build one part of the term of a sum that is a linear layer, or the term itself, again."""
        variable, weights, layer = self._linear(tensor, inner)
        products = part.pairs(variable, weights if sign == 1 else sign * weights, LayerInputs(self._walk, variable))
        copies = [tf.identity(factor) for factor, _ in products]
        leaves += [(variable, copy) for copy in copies]
        kernels = [weight for _, weight in products]
        if len(products) > 1 and _sees_all_channels(tensor.op, variable, weights):
            # One convolution of twice the channels: three channels of a picture leave most of the processor idle.
            return layer(tf.concat(copies, -1), tf.concat(kernels, 2))
        return functools.reduce(operator.add, map(layer, copies, kernels))

    def _linear(self, tensor: tf.Tensor, inner: bool) -> tuple[Any, Any, Callable[[tf.Tensor, tf.Tensor], Any]]:
        """Return the variable of a linear operation, its weights, and the function of both that computes it.

        An operation outside the sum is the variable, with weight 1.
        """
        operation = tensor.op
        if inner and operation.type in ops.LAYERS and len(operation.inputs) > 1:
            (place,) = self._products.signals(operation)
            other = next(factor for factor in ops.factors(operation) if factor != place)

            def layer(x: tf.Tensor, w: tf.Tensor) -> Any:
                inputs = list(operation.inputs)
                inputs[place], inputs[other] = x, w
                return rebuild(operation, inputs)

            return operation.inputs[place], operation.inputs[other], layer
        one = tf.ones((), tensor.dtype)
        if inner and operation.type in ops.AVERAGES + ops.INTERPOLATIONS + ops.LAYERS:
            return operation.inputs[0], one, lambda x, w: w * rebuild(operation, [x, *operation.inputs[1:]])
        return tensor, one, lambda x, w: w * x

    def _rule(self, operation: tf.Operation) -> Rule:
        """Return the rule of a sum, which depends on the linear layers in it."""
        layers, products = list(self._layers_within(operation)), self._products
        # Inputs of layers before which there is the explained input and no other layer.
        factors = (layer.inputs[place] for layer in layers for place in products.signals(layer))
        if self._composite.first is not None and any(one.op.name in self._walk.near_input for one in factors):
            return self._composite.first
        if any(layer.type in ops.CONVOLUTIONS for layer in layers):
            return self._composite.convolution
        return self._composite.dense if layers else self._composite.merge

    def _layers_within(self, operation: tf.Operation) -> Iterator[tf.Operation]:
        stack = [operation.outputs[0]]
        while stack:
            tensor = stack.pop()
            inner = tensor.op.name == operation.name or self._belongs(tensor)
            if self._walk.is_constant(tensor) or not inner:
                continue
            if tensor.op.type in ops.SUMS:
                stack.extend(tensor.op.inputs)
            elif tensor.op.type in ops.MOVES:
                stack.append(tensor.op.inputs[0])
            elif tensor.op.type in ops.LAYERS:
                yield tensor.op

    def _belongs(self, tensor: tf.Tensor) -> bool:
        """Return whether a tensor is a linear operation of a sum and used nowhere else."""
        kind = tensor.op.type
        if kind not in ops.LAYERS + ops.SUMS + ops.MOVES:
            return False
        if kind in ops.LAYERS and len(self._products.signals(tensor.op)) != 1:
            return False
        if self._composite.sums == "separate" and self._joins(tensor.op):
            return False
        if kind in ops.SUMS and self._is_normalization(tensor.op):
            return False
        if kind in ops.MOVES:
            return self._belongs(tensor.op.inputs[0]) and self._walk.has_one_use(tensor)
        return self._walk.has_one_use(tensor)

    def _joins(self, operation: tf.Operation) -> bool:
        """Return whether a sum joins branches that depend on the input, as a residual block's does.

        Products of matrices alone are one dense layer, written as several: a recurrent cell's of its input and its
        state, a Relation Network's of both cells of a pair.
        """
        moving = self._walk.variable_inputs(operation) if operation.type in ops.SUMS else []
        return len(moving) > 1 and not all(map(self._is_dense, moving))

    def _is_dense(self, tensor: tf.Tensor) -> bool:
        """Return whether a tensor belongs to a sum and is a product of matrices with constants."""
        if not self._belongs(tensor):
            return False
        operation = tensor.op
        while operation.type in ops.MOVES:
            operation = operation.inputs[0].op
        if operation.type in ops.SUMS:
            return all(map(self._is_dense, self._walk.variable_inputs(operation)))
        return operation.type in ops.MATRIX_PRODUCTS

    def _is_only_a_shift(self, operation: tf.Operation) -> bool:
        """Return whether a sum adds constants to one tensor that is no linear operation, as normalization does."""
        if operation.type not in ops.SUMS:
            return False
        moving = self._walk.variable_inputs(operation)
        return len(moving) == 1 and not self._belongs(moving[0])

    def _is_normalization(self, operation: tf.Operation) -> bool:
        """Return whether a sum is the end of a normalization, which no sum behind it contains."""
        if not self._is_only_a_shift(operation):
            return self._centred(operation) is not None
        (shifted,) = self._walk.variable_inputs(operation)
        return bool(self._products.core(shifted).op.type != "Mean")  # a shifted mean is part of layer normalization

    def _centred(self, operation: tf.Operation) -> Any:
        """Return the tensor whose mean a sum subtracts, as layer normalization does, or ``None``.

        That is x - m or x s - (m s - b), where m is a mean of x and s and b are constants or denominators.
        """
        if operation.type not in ops.SUMS:
            return None
        terms = self._terms(operation)
        if len(terms) != 2:
            return None
        for value, mean in (terms, reversed(terms)):
            averaged = self._products.core(mean).op
            is_mean = averaged.type == "Mean"
            if is_mean and self._products.core(averaged.inputs[0]) is self._products.core(value):
                return value
        return None

    def _terms(self, operation: tf.Operation) -> list[tf.Tensor]:
        """Return the terms of a sum that depend on the input, through the sums in it."""
        terms, stack = [], list(operation.inputs)
        while stack:
            tensor = stack.pop()
            if tensor.op.type in ops.SUMS and (self._belongs(tensor) or self._is_only_a_shift(tensor.op)):
                stack.extend(tensor.op.inputs)
            elif not self._walk.is_constant(tensor):
                terms.append(tensor)
        return terms


def _sees_all_channels(operation: tf.Operation, variable: tf.Tensor, weights: tf.Tensor) -> bool:
    """Return whether an operation is a convolution without groups whose channels are on the last axis."""
    if operation.type != "Conv2D" or weights.shape.rank != 4 or operation.get_attr("data_format") != b"NHWC":
        return False
    return variable.shape[-1] is not None and variable.shape[-1] == weights.shape[2]


def _signed(operation: tf.Operation, sign: float) -> list[tuple[tf.Tensor, float]]:
    """Return the terms of a sum, each with its sign in ``sign`` times the sum."""
    signs = [sign, -sign] if operation.type == "Sub" else [sign] * len(operation.inputs)
    return list(zip(operation.inputs, signs, strict=True))


def _sum(operation: tf.Operation, terms: list[Any]) -> Any:
    """Return the sum of signed terms as the operation computes it."""
    if operation.type == "BiasAdd":
        return rebuild(operation, terms)
    return tf.add_n(terms) if operation.type == "AddN" else terms[0] + terms[1]
