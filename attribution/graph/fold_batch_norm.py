"""Fold batch normalization into a neighbouring linear layer of a frozen graph.

Folding changes no score. Relevance is propagated through the folded layer instead of the two factors that were
trained.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph._loops import value_of
from attribution.graph.view import NORMALIZATIONS, WEIGHT, GraphView, constant, node_of, set_placeholder, without_nodes

_TYPES = {dtype.as_datatype_enum: dtype.as_numpy_dtype for dtype in (tf.float32, tf.float64)}
_LAYERS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative", "MatMul")
_ARITHMETIC = ("Mul", "RealDiv", "Add", "AddV2", "Sub", "BiasAdd")
_MOVES = ("Identity", "Squeeze", "Reshape", "BatchToSpaceND")
# These keep the values in order or copy whole rows of channels, as long as the last axis stays what it is.
_MOVES_OF_ROWS = (*_MOVES, "ExpandDims", "Transpose", "Tile", "BroadcastTo")


def fold_batch_norm(graph: GraphView, only_above: bool = False) -> GraphView:
    """Return a graph with the same scores in which normalization is part of the layers, where that is exact.

    That is after a layer (with or without bias between), or before matrix products and convolutions without padding,
    if they alone use the result. The normalized tensor may be reshaped and concatenated with other channels in between,
    as a Relation Network concatenates cells with their coordinates: it is then folded into its columns of each layer.
    Elsewhere normalization stays. Node names do not change. Channels are on the last axis or, after a Conv2D that has
    them there, on the first one behind the batch.

    With ``only_above``, fold only after layers. The ``altered`` nodes of the result are then those from each layer to
    where normalization ended, which is not altered.
    """
    return _Folding(graph).run(only_above)


class _Folding:
    def __init__(self, graph: GraphView) -> None:
        self.graph = graph
        self.inputs = [
            name for name, node in graph.nodes.items() if node.op == "Placeholder" and name not in graph.weights
        ]
        self.variable = graph.below(self.inputs)
        # What depends on the inputs' shapes alone is neither variable nor constant: the first state of an LSTM.
        self.shaped = set(self.inputs)
        for name, node in graph.nodes.items():
            if any(node_of(tensor) in self.shaped for tensor in node.input):
                self.shaped.add(name)
        self.constants = graph.constant_values(
            node_of(tensor)
            for name in self.variable
            if graph.nodes[name].op in _LAYERS + NORMALIZATIONS + _ARITHMETIC
            for tensor in graph.nodes[name].input
            if node_of(tensor) not in self.shaped
        )
        self.folded = tf.compat.v1.GraphDef()
        self.folded.CopyFrom(graph.graph_def)
        self.weights = dict(graph.weights)
        self.nodes = {node.name: node for node in self.folded.node}
        self.done = set()
        self.altered = set()
        self.kernels: dict[str, np.ndarray] = {}  # of layers, as folded so far
        self.biases: dict[str, np.ndarray] = {}  # what folding adds to the layers' outputs

    def run(self, only_above: bool) -> GraphView:
        """Return the graph with normalization folded."""
        names = [name for name in self.graph.nodes if name in self.variable]
        for name in names:
            if self._is_layer(name):
                self._fold_into_layer_above(name)
        for name in names:
            if not only_above and name not in self.done and self._step(name) is not None:
                self._fold_into_layers_below(name)
        for layer in list(self.kernels):  # let go one by one: they may be large
            self.nodes[layer].input[1] = self._constant(layer + "/folded_kernel", self.kernels.pop(layer))
        for layer, bias in self.biases.items():
            # The layer's name now refers to the sum with the bias.
            product = self.folded.node.add()
            product.CopyFrom(self.nodes[layer])
            product.name = layer + "/product"
            self._replace(layer, "AddV2", [product.name, self._constant(layer + "/folded_bias", bias)])
        view = GraphView(self.folded, self.weights)
        # Three quarters of a ResNet-50's nodes are then of no use: importing them would take most of a trace.
        ends = [name for name in self.graph.nodes if not self.graph.uses(name)]  # also scores that are constant
        used = view.above([*view.below(self.inputs), *ends])
        folded = without_nodes(self.folded, view.nodes.keys() - used)
        return GraphView(folded, self.weights, self.altered, self.graph.outputs)

    def _fold_into_layer_above(self, layer: str) -> None:
        """Scale the kernel of a layer by the normalization behind it, and let the last step add what is left as bias.

        The bias is added at the end because a bias of the layer itself lies between: both are one sum then, of one
        layer, and every node behind has the values that it had.
        """
        axis = 1 if self._has_channels_first(layer) else -1
        steps, scale, shift, normalizes, axis = self._chain(self._only_use(layer), axis)
        if not normalizes:
            return
        kernel = self._kernel(layer)
        if self.graph.nodes[layer].op == "DepthwiseConv2dNative":
            channels = kernel.shape[2] * kernel.shape[3]
            scale = np.broadcast_to(scale, (channels,)).reshape(kernel.shape[2:])
        else:
            channels = kernel.shape[-1]
        self.kernels[layer] = (kernel * scale).astype(kernel.dtype)
        for name in steps[:-1]:
            self._replace(name, "Identity", [self._moving_input(name)])
        bias_values = np.broadcast_to(shift, (channels,)).reshape(self._shape_of_constant(steps[-1], axis))
        dtype = _TYPES[self.graph.nodes[steps[-1]].attr["T"].type]
        bias = self._constant(steps[-1] + "/folded_bias", bias_values.astype(dtype))
        self._replace(steps[-1], "AddV2", [self._moving_input(steps[-1]), bias])
        self.done.update(steps)
        altered: str | None = layer
        while altered is not None and altered != steps[-1]:
            self.altered.add(altered)
            altered = self._only_use(altered)

    def _fold_into_layers_below(self, first: str) -> None:
        """Scale the kernels of the layers behind a normalization, and add to each what the shift gives there.

        All of them have to take it: one user that is left alone would read values that are no longer normalized.
        """
        steps, scale, shift, normalizes, axis = self._chain(first)
        self.done.update(steps)
        channels = self.graph.shape(steps[-1])[-1] if self.graph.shape(steps[-1]).rank else None
        if not normalizes or channels is None or axis == 1:
            return
        layers = self._layers_below(steps[-1], 0, channels)
        if not layers:
            return
        for layer, start in layers:
            columns = (..., slice(start, start + channels), slice(None))  # of HWIO and of (inputs, outputs)
            kernel = self._kernel(layer).copy()
            share = kernel[columns] * np.broadcast_to(shift, (channels,))[:, np.newaxis]
            bias = share.reshape(-1, kernel.shape[-1]).sum(axis=0).astype(kernel.dtype)
            kernel[columns] *= np.broadcast_to(scale, (channels,))[:, np.newaxis]
            self.kernels[layer] = kernel
            self.biases[layer] = self.biases.get(layer, np.float32(0)) + bias
        for name in steps:
            self._replace(name, "Identity", [self._moving_input(name)])

    def _layers_below(self, name: str, start: int, width: int) -> list[tuple[str, int]] | None:
        """Return the layers that use a node's tensor, each with where its first channel of interest lies.

        ``start`` is the place of that channel in the tensor, ``width`` the number of all. ``None`` is returned if
        anything else uses the tensor.
        """
        found: list[tuple[str, int]] = []
        for user in dict.fromkeys(self.graph.uses(name)):
            below = self._layers_of_user(user, name, start, width)
            if below is None:
                return None
            found += below
        return found or None

    def _layers_of_user(self, user: str, name: str, start: int, width: int) -> list[tuple[str, int]] | None:
        """Return the layers that one user of a tensor leads to; parameters as for ``_layers_below``."""
        node = self.graph.nodes[user]
        positions = [position for position, tensor in enumerate(node.input) if node_of(tensor) == name]
        if any(node.input[position] not in (name, name + ":0") for position in positions):
            return None
        if node.op == "ConcatV2":
            widths = self._joined_widths(user)
            if widths is None:
                return None
            parts = [self._layers_below(user, sum(widths[:one]) + start, sum(widths)) for one in positions]
            known = [part for part in parts if part is not None]
            return [layer for part in known for layer in part] if len(known) == len(parts) else None
        if positions != [0]:
            return None
        if self._is_layer(user):
            fits = self._is_unpadded(user) and self._kernel(user).shape[-2] == width
            return [(user, start)] if fits else None
        return self._layers_below(user, start, width) if self._moves_whole_rows(user, width) else None

    def _joined_widths(self, name: str) -> list[int] | None:
        """Return the number of channels of each tensor that a node joins along the channels, or ``None``."""
        tensors = self.graph.nodes[name].input[:-1]
        shapes = [self.graph.shape(node_of(tensor)) for tensor in tensors]
        axis = value_of(self.graph.graph_def, self.graph.nodes[name].input[-1])
        known = all(shape.rank and shape[-1] is not None for shape in shapes)
        if not known or axis is None or axis.item() not in (-1, shapes[0].rank - 1):
            return None
        return [shape[-1] for shape in shapes]

    def _moves_whole_rows(self, name: str, width: int) -> bool:
        """Return whether a node keeps rows of ``width`` channels together, in their order, on the last axis."""
        node = self.graph.nodes[name]
        if node.op not in _MOVES_OF_ROWS:
            return False
        before, after = self.graph.shape(node_of(node.input[0])), self.graph.shape(name)
        if node.op == "Transpose":
            order = value_of(self.graph.graph_def, node.input[1])
            return order is not None and order[-1] == len(order) - 1 and before.rank and before[-1] == width
        if after.rank and after[-1] is not None:
            return bool(after[-1] == width)
        # A reshape to an unknown number of channels keeps the order; the layer at its end must take rows of width.
        return node.op in _MOVES

    def _chain(self, name: str | None, axis: int = -1) -> tuple[list[str], Any, Any, bool, int]:
        """Follow scalings and shifts by constants from a node on, whose channels are on an axis.

        PyTorch transposes images behind each layer, so that their channels are first.

        Returns
        -------
        steps : list[str]
            The nodes that scale or shift.
        scale, shift : np.ndarray
            What they do together, per channel.
        normalizes : bool
            Whether any of them scales.
        axis : int
            The axis of channels at the last step: the last, -1, or that behind the batch, 1.
        """
        steps, scale, shift, normalizes = [], np.float32(1), np.float32(0), False
        last = axis
        while name is not None and name in self.variable:
            step = self._step(name, axis)
            if step is not None:
                steps.append(name)
                last = axis
                scale, shift = scale * step[0], shift * step[0] + step[1]
                normalizes = normalizes or self.graph.nodes[name].op in ("Mul", "RealDiv", *NORMALIZATIONS)
            elif (moved := self._transposed(name, axis)) is not None:
                axis = moved
            elif not self._moves_no_channel(name, axis):
                break
            name = self._only_use(name)
        return steps, scale, shift, normalizes, last

    def _transposed(self, name: str, axis: int) -> int | None:
        """Return the axis of channels behind a transpose; ``None`` for another node, and for axes between others."""
        node = self.graph.nodes[name]
        order = value_of(self.graph.graph_def, node.input[1]) if node.op == "Transpose" else None
        return None if order is None else {1: 1, len(order) - 1: -1}.get(order.tolist().index(axis % len(order)))

    def _shape_of_constant(self, name: str, axis: int) -> list[int]:
        """Return the shape of a constant with one number for each channel of a node."""
        rank = self.graph.shape(name).rank
        return [-1, *[1] * (rank - 2)] if axis == 1 else [-1]

    def _step(self, name: str, axis: int = -1) -> tuple[Any, Any] | None:
        """Return the (scale, shift) per channel that a node applies to its one variable input, or ``None``."""
        node = self.graph.nodes[name]
        if node.op in NORMALIZATIONS:
            return self._step_of_fused(node, axis)
        values = [self.constants.get(node_of(tensor)) for tensor in node.input]
        known = [value for value in values if value is not None]
        if node.op not in _ARITHMETIC or len(values) != 2 or len(known) != 1:
            return None
        first, constant = values[0] is not None, known[0]
        moving = self.graph.shape(node_of(node.input[1] if first else node.input[0]))
        if axis == 1 and not moving.rank:
            return None
        if axis == 1 and node.op == "BiasAdd":
            constant = constant.reshape(self._shape_of_constant(name, axis))
        place = -1 if axis == -1 else 1 - moving.rank
        if constant.size > 1 and (constant.ndim < -place or constant.size != constant.shape[place]):
            return None  # not one number per channel
        if constant.size > 1 and moving.rank and moving[axis] not in (None, constant.size):
            return None  # not scaled but repeated
        return _scale_and_shift(node.op, constant.reshape(-1), first)

    def _step_of_fused(self, node: Any, axis: int) -> tuple[Any, Any] | None:
        """Return the (scale, shift) per channel of a fused batch normalization, or ``None``."""
        values = [self.constants.get(node_of(tensor)) for tensor in node.input[:5]]
        known = [value for value in values[1:] if value is not None]
        if values[0] is not None or len(known) != 4:
            return None
        formats = (b"NCHW",) if axis == 1 else (b"", b"NHWC")
        if _attribute(node, "is_training").b or _attribute(node, "data_format").s not in formats:
            return None
        gamma, beta, mean, variance = known
        scale = gamma / np.sqrt(variance + _attribute(node, "epsilon").f)
        return scale, beta - mean * scale

    def _is_layer(self, name: str) -> bool:
        node = self.graph.nodes[name]
        transposed = _attribute(node, "transpose_a").b or _attribute(node, "transpose_b").b
        return (
            node.op in _LAYERS
            and _attribute(node, "T").type in _TYPES
            and not transposed
            and (_attribute(node, "data_format").s in (b"", b"NHWC", b"NDHWC") or self._has_channels_first(name))
            and node_of(node.input[1]) in self.constants
        )

    def _has_channels_first(self, name: str) -> bool:
        node = self.graph.nodes[name]
        return bool(node.op == "Conv2D" and _attribute(node, "data_format").s == b"NCHW")

    def _is_unpadded(self, name: str) -> bool:
        """Return whether a shift ahead of a layer is a bias behind it: zeros that it pads with are not shifted."""
        node = self.graph.nodes[name]
        is_valid = node.op in ("Conv2D", "Conv3D") and _attribute(node, "padding").s == b"VALID"
        return bool(node.op == "MatMul" or (is_valid and not self._has_channels_first(name)))

    def _moves_no_channel(self, name: str, axis: int = -1) -> bool:
        node = self.graph.nodes[name]
        if node.op == "Cast":  # Keras on PyTorch normalizes in float32 where layers compute in float64
            return all(node.attr[kind].type in _TYPES for kind in ("SrcT", "DstT"))
        if node.op not in _MOVES:
            return False
        before, after = self.graph.shape(node_of(node.input[0])), self.graph.shape(name)
        if axis == 1:
            is_known = before.rank and after.rank and before[:2].is_fully_defined()
            return bool(node.op == "Identity" or (node.op != "BatchToSpaceND" and is_known and before[:2] == after[:2]))
        return bool(before.rank and after.rank) and before[-1] == after[-1] and after[-1] is not None

    def _only_use(self, name: str) -> str | None:
        uses = self.graph.uses(name)
        return uses[0] if len(uses) == 1 else None

    def _moving_input(self, name: str) -> str:
        return str(next(tensor for tensor in self.graph.nodes[name].input if node_of(tensor) in self.variable))

    def _kernel(self, layer: str) -> np.ndarray:
        if layer in self.kernels:
            return self.kernels[layer]
        return self.constants[node_of(self.graph.nodes[layer].input[1])]

    def _constant(self, name: str, value: Any) -> str:
        """Add a constant to the graph, an array to its weights instead; return its name."""
        if np.size(value) < WEIGHT:
            self.folded.node.append(constant(name, np.asarray(value)))
        else:
            set_placeholder(self.folded.node.add(name=name), tf.as_dtype(value.dtype), value.shape)
            self.weights[name] = tf.constant(value)
        return name

    def _replace(self, name: str, op: str, inputs: Iterable[str]) -> None:
        node = self.nodes[name]
        node.op = op
        del node.input[:]
        node.input.extend(inputs)
        dtype = node.attr["T"].type
        node.attr.clear()
        node.attr["T"].type = dtype


def _scale_and_shift(op: str, constant: np.ndarray, first: bool) -> tuple[Any, Any] | None:
    """Return the (scale, shift) of an operation with one constant operand, its ``first`` or its second."""
    if op == "Mul":
        return constant, np.float32(0)
    if op == "RealDiv":
        return None if first else (1 / constant, np.float32(0))
    if op == "Sub":
        return (np.float32(-1), constant) if first else (np.float32(1), -constant)
    return np.float32(1), constant


def _attribute(node: Any, name: str) -> Any:
    """Return a node's attribute, or an empty one; reading a missing key of the map itself would write to the node."""
    return node.attr[name] if name in node.attr else tf.compat.v1.AttrValue()
