"""Sums, biases and the linear operations below them, treated as one layer.

In y = W u + V v + b the contributions of u and v compete for the relevance of y, however many operations compute the
sum.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from attribution.graph.nodes import rebuild
from attribution.lrp.composite import Rule
from attribution.lrp.rules import operations as ops
from attribution.lrp.rules.formulae import LayerInputs, Part, divide, fit, parts, share_with_constant
from attribution.lrp.rules.products import Products

if TYPE_CHECKING:
    from attribution.lrp.engine import Walk

Leaves = list[tuple[tf.Tensor, tf.Tensor]]  # a tensor of the graph and the copy that contributes


class Sums:
    """Distributes relevance among all inputs of a sum of linear operations.

    Parameters
    ----------
    walk
        The walk through the graph.
    products
        Determines which factor of a product takes relevance.
    """

    def __init__(self, walk: Walk, products: Products) -> None:
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
        if not self._shares_norms() or (is_preprocessing and self._composite.first is not None):
            self._walk.add(source, fit(given, source))
            return
        rule = self._composite.merge if is_preprocessing else self._epsilon_rule()
        share_with_constant(self._walk, rule, source, varying, shift, given, operation.outputs[0])

    def _share_by(self, rule: Rule, operation: tf.Operation, given: tf.Tensor) -> None:
        for part in parts(rule):
            leaves: Leaves = []
            total = self._build(operation.outputs[0], part, 1.0, leaves, root=True)
            share = part.share(given, total, rule, operation.outputs[0])
            self._walk.add_contributions(leaves, total, share)

    def _share_by_value(self, operation: tf.Operation, given: tf.Tensor) -> None:
        """Distribute the relevance of a sum among its terms by the ε-rule."""
        signs = [1, -1] if operation.type == "Sub" else [1] * len(operation.inputs)
        share = divide(given, operation.outputs[0], self._epsilon_rule())
        for term, sign in zip(operation.inputs, signs, strict=True):
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
            signs = [sign, -sign] if kind == "Sub" else [sign] * len(operation.inputs)
            pairs = zip(operation.inputs, signs, strict=True)
            return _sum(operation, [self._build(term, part, term_sign, leaves) for term, term_sign in pairs])
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
        if inner and operation.type in ops.AVERAGES + ops.LAYERS:
            return operation.inputs[0], one, lambda x, w: w * rebuild(operation, [x, *operation.inputs[1:]])
        return tensor, one, lambda x, w: w * x

    def _rule(self, operation: tf.Operation) -> Rule:
        """Return the rule of a sum, which depends on the linear layers in it."""
        layers = list(self._layers_within(operation))
        if self._composite.first is not None and any(map(self._sees_input, layers)):
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

    def _sees_input(self, layer: tf.Operation) -> bool:
        """Return whether a layer has the explained input before it without another layer between."""
        return any(layer.inputs[place].op.name in self._walk.near_input for place in self._products.signals(layer))

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

    def _shares_norms(self) -> bool:
        return self._composite.norm == "epsilon" and self._composite.batch_norm == "fold"

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


def _sum(operation: tf.Operation, terms: list[Any]) -> Any:
    """Return the sum of signed terms as the operation computes it."""
    if operation.type == "BiasAdd":
        return rebuild(operation, terms)
    return tf.add_n(terms) if operation.type == "AddN" else terms[0] + terms[1]
