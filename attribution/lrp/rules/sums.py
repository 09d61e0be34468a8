"""Sums, biases and the linear operations below them, shared out together as one layer.

In y = W u + V v + b the contributions of u and v compete for the relevance of y, however many operations the graph
spells the sum with.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from attribution.graph.nodes import rebuild
from attribution.lrp.composite import Rule
from attribution.lrp.rules import operations as ops
from attribution.lrp.rules.bounds import LayerInputs
from attribution.lrp.rules.formulae import divide, fit, parts


class Sums:
    """Shares relevance out among all inputs of a sum of linear operations.

    Parameters
    ----------
    walk : attribution.lrp.engine.Walk
        The walk through the graph.
    products : attribution.lrp.rules.products.Products
        Which factor of a product takes relevance.
    """

    def __init__(self, walk, products):
        self._walk = walk
        self._products = products
        self._composite = walk.composite

    def share_out(self, operation: tf.Operation, given: tf.Tensor) -> Any:
        """Share the relevance ``given`` of an operation's output out among its inputs."""
        if operation.type in ops.LAYERS and len(self._products.signals(operation)) == 2:
            self._products.share_both(operation, given, self._rule(operation))
        elif self._is_only_a_shift(operation) and not self._shares_norms():
            moving = self._moving(operation)
            self._walk.add(moving[0], fit(given, moving[0]))
        elif self._composite.norm == "pass" and (value := self._centred(operation)) is not None:
            self._walk.add(value, fit(given, value))
        elif self._composite.sums == "separate" and self._joins(operation):
            for tensor, share in self._by_value(operation, given):
                self._walk.add(tensor, share)
        else:
            self._share_by(self._rule(operation), operation, given)

    def share_normalisation(self, operation: tf.Operation, given: tf.Tensor) -> Any:
        """Share the relevance of a batch normalisation's output: to its input whole, or as of an affine layer."""
        tensor = operation.inputs[0]
        if not self._shares_norms():
            self._walk.add(tensor, given)
            return
        rule = dataclasses.replace(self._composite.merge, kind="epsilon")
        factor = tf.identity(tensor)
        total = rebuild(operation, [factor, *operation.inputs[1:]])
        (gradient,) = tf.gradients(total, [factor], grad_ys=divide(given, total, rule))
        self._walk.add(tensor, factor * gradient)

    def _share_by(self, rule, operation, given):
        for part in parts(rule):
            leaves = []
            total = self._build(operation.outputs[0], part, 1.0, leaves, root=True)
            share = tf.cast(part.weight, total.dtype) * divide(given, total, rule)
            factors = [factor for _, factor in leaves]
            gradients = tf.gradients(total, factors, grad_ys=share)
            for (tensor, factor), gradient in zip(leaves, gradients, strict=True):
                self._walk.add(tensor, factor * gradient)

    def _build(self, tensor, part, sign, leaves, root=False):
        """Build one part of a sum anew, from copies of its inputs that are collected in ``leaves``."""
        operation = tensor.op
        inner = root or self._belongs(tensor)
        kind = operation.type
        if self._walk.is_constant(tensor):
            return part.bias(sign * tensor)
        if inner and kind in ops.SUMS:
            signs = [sign, -sign] if kind == "Sub" else [sign] * len(operation.inputs)
            terms = [
                self._build(term, part, term_sign, leaves)
                for term, term_sign in zip(operation.inputs, signs, strict=True)
            ]
            if kind == "BiasAdd":
                return rebuild(operation, terms)
            return tf.add_n(terms) if kind == "AddN" else terms[0] + terms[1]
        if inner and kind in ops.MOVES:
            return rebuild(operation, [self._build(operation.inputs[0], part, sign, leaves), *operation.inputs[1:]])
        if inner and kind in ops.LAYERS and len(operation.inputs) > 1:
            (place,) = self._products.signals(operation)
            other = next(factor for factor in ops.factors(operation) if factor != place)
            variable, weights = operation.inputs[place], operation.inputs[other]

            def layer(x, w):
                given = list(operation.inputs)
                given[place], given[other] = x, w
                return rebuild(operation, given)
        elif inner and (kind in ops.AVERAGES or kind in ops.LAYERS):
            variable, weights = operation.inputs[0], tf.ones((), tensor.dtype)

            def layer(x, w):
                return w * rebuild(operation, [x, *operation.inputs[1:]])
        else:
            variable, weights = tensor, tf.ones((), tensor.dtype)

            def layer(x, w):
                return w * x

        total = None
        for factor, weight in part.pairs(variable, sign * weights, LayerInputs(self._walk, variable)):
            factor = tf.identity(factor)
            leaves.append((variable, factor))
            value = layer(factor, weight)
            total = value if total is None else total + value
        return total

    def _by_value(self, operation, given):
        """Yield the terms of a sum, each with its share of the relevance by the ε-rule."""
        rule = dataclasses.replace(self._composite.merge, kind="epsilon")
        signs = [1, -1] if operation.type == "Sub" else [1] * len(operation.inputs)
        share = divide(given, operation.outputs[0], rule)
        for term, sign in zip(operation.inputs, signs, strict=True):
            if not self._walk.is_constant(term):
                yield term, fit(sign * term * share, term)

    def _rule(self, operation) -> Rule:
        """Return the rule of a sum, by the linear operations in it."""
        kinds, sees_input = set(), False
        stack, root = [operation.outputs[0]], True
        while stack:
            tensor = stack.pop()
            kind = tensor.op.type
            if self._walk.is_constant(tensor) or not (root or self._belongs(tensor)):
                continue
            root = False
            if kind in ops.SUMS:
                stack.extend(tensor.op.inputs)
            elif kind in ops.MOVES:
                stack.append(tensor.op.inputs[0])
            elif kind in ops.LAYERS:
                kinds.add(kind)
                variable = [tensor.op.inputs[place] for place in self._products.signals(tensor.op)]
                sees_input = sees_input or any(one.op.name in self._walk.near_input for one in variable)
        if sees_input and self._composite.first is not None:
            return self._composite.first
        if kinds & set(ops.CONVOLUTIONS):
            return self._composite.convolution
        return self._composite.dense if kinds else self._composite.merge

    def _belongs(self, tensor) -> bool:
        """Return whether a tensor is computed inside a sum alone, so that it can be shared out with it."""
        kind = tensor.op.type
        if kind not in ops.LAYERS + ops.SUMS + ops.MOVES:
            return False
        if kind in ops.LAYERS and len(self._products.signals(tensor.op)) != 1:
            return False
        if self._composite.sums == "separate" and self._joins(tensor.op):
            return False
        if kind in ops.MOVES:
            return self._belongs(tensor.op.inputs[0]) and self._walk.has_one_use(tensor)
        return self._walk.has_one_use(tensor)

    def _moving(self, operation) -> list:
        return [tensor for tensor in operation.inputs if not self._walk.is_constant(tensor)]

    def _joins(self, operation) -> bool:
        """Return whether a sum joins branches that depend on the input, as a residual block's does.

        Products of matrices alone are one dense layer, spelled as several: a recurrent cell's of its input and its
        state, a Relation Network's of both cells of a pair.
        """
        moving = self._moving(operation) if operation.type in ops.SUMS else []
        return len(moving) > 1 and not all(map(self._is_dense, moving))

    def _is_dense(self, tensor) -> bool:
        """Return whether a tensor is computed inside a sum alone, by products of matrices with constants."""
        if not self._belongs(tensor):
            return False
        operation = tensor.op
        while operation.type in ops.MOVES:
            operation = operation.inputs[0].op
        if operation.type in ops.SUMS:
            return all(map(self._is_dense, self._moving(operation)))
        return operation.type in ops.MATRIX_PRODUCTS

    def _shares_norms(self) -> bool:
        return self._composite.norm == "epsilon" and self._composite.batch_norm == "fold"

    def _is_only_a_shift(self, operation) -> bool:
        """Return whether a sum adds constants to one tensor that no linear operation gave: normalisation does."""
        if operation.type not in ops.SUMS:
            return False
        moving = self._moving(operation)
        return len(moving) == 1 and not self._belongs(moving[0])

    def _centred(self, operation):
        """Return the value of which a sum takes the mean, as layer normalisation does, or ``None``.

        That is x - m or x s - (m s - b), where m is a mean of x and s and b are constants or denominators.
        """
        if operation.type not in ops.SUMS:
            return None
        terms, stack = [], list(operation.inputs)
        while stack:
            tensor = stack.pop()
            if tensor.op.type in ops.SUMS and self._belongs(tensor):
                stack.extend(tensor.op.inputs)
            elif not self._walk.is_constant(tensor):
                terms.append(tensor)
        if len(terms) != 2:
            return None
        cores = [self._products.core(term) for term in terms]
        for value, mean in ((0, 1), (1, 0)):
            averaged = cores[mean].op
            if averaged.type == "Mean" and self._products.core(averaged.inputs[0]) is cores[value]:
                return terms[value]
        return None
