"""Fold batch normalisation into a neighbouring linear layer of a frozen graph.

Folding changes no score, but what relevance is shared out along: the layer that the network computes instead of
the two factors it was trained with.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from attribution.graph import GraphView, node_of

_LAYERS = ("Conv2D", "DepthwiseConv2dNative", "MatMul")
_FUSED = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_ARITHMETIC = ("Mul", "RealDiv", "Add", "AddV2", "Sub", "BiasAdd")
_MOVES = ("Identity", "Squeeze", "Reshape")


def fold_batch_norm(graph: GraphView) -> tf.compat.v1.GraphDef:
    """Return a graph with the same scores in which normalisation is part of the layers, where that is exact.

    That is after a layer (with or without bias between), or right before a matrix product or a convolution
    without padding. Elsewhere normalisation stays. Node names do not change.

    Parameters
    ----------
    graph
        A frozen graph with channels on the last axis.
    """
    return _Folding(graph).run()


class _Folding:
    def __init__(self, graph):
        self.graph = graph
        self.variable = graph.below(name for name, node in graph.nodes.items() if node.op == "Placeholder")
        self.constants = graph.constant_values(
            node_of(tensor)
            for name in self.variable
            if graph.nodes[name].op in _LAYERS + _FUSED + _ARITHMETIC
            for tensor in graph.nodes[name].input
            if node_of(tensor) not in self.variable
        )
        self.folded = tf.compat.v1.GraphDef()
        self.folded.CopyFrom(graph.graph_def)
        self.nodes = {node.name: node for node in self.folded.node}
        self.done = set()

    def run(self):
        names = [name for name in self.graph.nodes if name in self.variable]
        for name in names:
            if self._is_layer(name):
                self._fold_into_layer_above(name)
        for name in names:
            if name not in self.done and self._step(name) is not None:
                self._fold_into_layer_below(name)
        return self.folded

    def _fold_into_layer_above(self, layer):
        steps, scale, shift, normalises, _ = self._chain(self._only_use(layer))
        if not normalises:
            return
        kernel = self._kernel(layer)
        if self.graph.nodes[layer].op == "DepthwiseConv2dNative":
            channels = kernel.shape[2] * kernel.shape[3]
            folded = kernel * np.broadcast_to(scale, (channels,)).reshape(kernel.shape[2:])
        else:
            channels = kernel.shape[-1]
            folded = kernel * scale
        self._set_kernel(layer, folded)
        for name in steps[:-1]:
            self._replace(name, "Identity", [self._moving_input(name)])
        bias = self._constant(steps[-1] + "/folded_bias", np.broadcast_to(shift, (channels,)))
        self._replace(steps[-1], "AddV2", [self._moving_input(steps[-1]), bias])
        self.done.update(steps)

    def _fold_into_layer_below(self, first):
        steps, scale, shift, normalises, layer = self._chain(first)
        self.done.update(steps)
        if not normalises or layer is None or not self._is_layer(layer) or not self._is_unpadded(layer):
            return
        kernel = self._kernel(layer)
        channel_axis = kernel.ndim - 2  # of HWIO and of (inputs, outputs)
        inputs = kernel.shape[channel_axis]
        column = (inputs, 1)
        bias = (kernel * np.broadcast_to(shift, (inputs,)).reshape(column)).reshape(-1, kernel.shape[-1]).sum(axis=0)
        self._set_kernel(layer, kernel * np.broadcast_to(scale, (inputs,)).reshape(column))
        for name in steps:
            self._replace(name, "Identity", [self._moving_input(name)])
        # The layer keeps its name for what it gives, which now includes a bias.
        product = self.folded.node.add()
        product.CopyFrom(self.nodes[layer])
        product.name = layer + "/product"
        bias = self._constant(layer + "/folded_bias", bias)
        self._replace(layer, "AddV2", [product.name, bias])

    def _chain(self, name):
        """Follow scalings and shifts by constants from a node on.

        Returns
        -------
        steps : list[str]
            The nodes that scale or shift.
        scale, shift : np.ndarray
            What they do together, per channel.
        normalises : bool
            Whether any of them scales.
        end : str or None
            The only node that uses the result, if it is only one.
        """
        steps, scale, shift, normalises = [], np.float32(1), np.float32(0), False
        while name is not None and name in self.variable:
            step = self._step(name)
            if step is not None:
                steps.append(name)
                scale, shift = scale * step[0], shift * step[0] + step[1]
                normalises = normalises or self.graph.nodes[name].op in ("Mul", "RealDiv", *_FUSED)
            elif not self._moves_no_channel(name):
                break
            name = self._only_use(name)
        return steps, scale, shift, normalises, name

    def _step(self, name):
        """Return the (scale, shift) per channel that a node applies to its one variable input, or ``None``."""
        node = self.graph.nodes[name]
        values = [self.constants.get(node_of(tensor)) for tensor in node.input]
        if node.op in _FUSED and all(value is not None for value in values[1:5]) and values[0] is None:
            gamma, beta, mean, variance = values[1:5]
            if _attribute(node, "is_training").b or _attribute(node, "data_format").s not in (b"", b"NHWC"):
                return None
            scale = gamma / np.sqrt(variance + _attribute(node, "epsilon").f)
            return scale, beta - mean * scale
        if node.op not in _ARITHMETIC or len(values) != 2 or (values[0] is None) == (values[1] is None):
            return None
        first = values[0] is not None
        constant = values[0] if first else values[1]
        if constant.size != (constant.shape[-1] if constant.ndim else 1):
            return None  # not one number per channel
        constant = constant.reshape(-1)
        if node.op == "Mul":
            return constant, np.float32(0)
        if node.op == "RealDiv":
            return None if first else (1 / constant, np.float32(0))
        if node.op == "Sub":
            return (np.float32(-1), constant) if first else (np.float32(1), -constant)
        return np.float32(1), constant

    def _is_layer(self, name):
        node = self.graph.nodes[name]
        transposed = _attribute(node, "transpose_a").b or _attribute(node, "transpose_b").b
        return (
            node.op in _LAYERS
            and not transposed
            and _attribute(node, "data_format").s in (b"", b"NHWC")
            and node_of(node.input[1]) in self.constants
        )

    def _is_unpadded(self, name):
        node = self.graph.nodes[name]
        return node.op == "MatMul" or (node.op == "Conv2D" and _attribute(node, "padding").s == b"VALID")

    def _moves_no_channel(self, name):
        node = self.graph.nodes[name]
        if node.op not in _MOVES:
            return False
        before, after = self.graph.shape(node_of(node.input[0])), self.graph.shape(name)
        return bool(before.rank and after.rank) and before[-1] == after[-1] and after[-1] is not None

    def _only_use(self, name):
        uses = self.graph.uses(name)
        return uses[0] if len(uses) == 1 else None

    def _moving_input(self, name):
        return next(tensor for tensor in self.graph.nodes[name].input if node_of(tensor) in self.variable)

    def _kernel(self, layer):
        return self.constants[node_of(self.graph.nodes[layer].input[1])]

    def _set_kernel(self, layer, kernel):
        self.nodes[layer].input[1] = self._constant(layer + "/folded_kernel", kernel)

    def _constant(self, name, value):
        value = np.asarray(value, np.float32)
        node = self.folded.node.add(name=name, op="Const")
        node.attr["dtype"].type = tf.float32.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        return name

    def _replace(self, name, op, inputs):
        node = self.nodes[name]
        node.op = op
        del node.input[:]
        node.input.extend(inputs)
        node.attr.clear()
        node.attr["T"].type = tf.float32.as_datatype_enum


def _attribute(node, name):
    """Return a node's attribute, or an empty one; reading a missing key of the map itself would write to the node."""
    return node.attr[name] if name in node.attr else tf.compat.v1.AttrValue()
