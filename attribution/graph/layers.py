"""The layers that class activation maps can use, the default one, and how to read its values.

A map needs a layer with positions: ``(batch, positions..., channels)``. From the input on, every operation is followed
that is known to keep positions where they are. Channels may come first, images may be cut into tokens or windows and
rolled, time steps may be folded into the batch; the meaning of a layer's axes is recorded with it.

Where an axis of channels is added to the input, as to a gray image ``(batch, height, width)``, all axes of the input
are positions. Where positions cannot be followed, as through a Fourier transform or a recurrent layer, new ones begin
at the next convolution: a spectrogram's frames and bins, the rows and columns of a video's last state. Maps of such a
layer have its resolution.

The default layer is the last one ahead of pooling and head that every path to the score passes through and that has
more than one position: a residual sum, a concatenation of branches, a closing activation. A layer with positions of the
input precedes any with new ones. Normalization of an activation is skipped, because it only scales and shifts the
activation's channels.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph.view import ACTIVATIONS, CONVOLUTIONS, SHAPES, GraphView, functions_of, node_of

LAST_CONVOLUTION = "last convolution"
_CONVOLUTIONS = (*CONVOLUTIONS, "Conv2DBackpropInput", "Conv3DBackpropInputV2")
_FULL_CONVOLUTIONS = [name for name in _CONVOLUTIONS if "Depthwise" not in name]
_SUMS = ("Add", "AddV2", "AddN")
_NORMALIZATIONS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
# Operations that compute each value from the values at its own position, or scale and shift it.
_ELEMENTWISE = (
    *ACTIVATIONS, *_SUMS, *_NORMALIZATIONS, "BiasAdd", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "Erf", "Erfc",
    "Exp", "Log", "Log1p", "Neg", "Abs", "Square", "Sqrt", "Rsqrt", "Pow", "Sin", "Cos", "Sign", "SquaredDifference",
    "Select", "SelectV2", "LRN", "Softmax", "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars",
    "FakeQuantWithMinMaxVarsPerChannel",
)  # fmt: skip
# Operations that leave values as they are, or move a window over the positions.
_KEEPING = (
    "Identity", "IdentityN", "Cast", "StopGradient", "Pad", "PadV2", "MirrorPad", "MaxPool", "AvgPool", "MaxPool3D",
    "AvgPool3D", "MaxPoolV2", "ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea",
    "StridedSlice", "Slice", "SpaceToDepth", "DepthToSpace", "CheckNumerics", "EnsureShape",
)  # fmt: skip
# Operations whose output a user may name as a layer.
_LAYERS = (
    *_ELEMENTWISE, *_CONVOLUTIONS, "Squeeze", "MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "ConcatV2",
    "Reshape", "BatchToSpaceND", "Transpose", "Roll",
)  # fmt: skip
# What the default layer may be: something that was computed, not moved.
_DEFAULTS = (*_ELEMENTWISE, *_CONVOLUTIONS, "ConcatV2", "Squeeze", "BatchToSpaceND", "Reshape", "Transpose", "Roll")
# Of these, leave every value in its position.
_COPIES = ("Identity", "IdentityN", "Cast", "StopGradient", "CheckNumerics", "EnsureShape")
_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")
# Operations that no convolutional layer contains: their name scope is that of several layers.
_BETWEEN = frozenset(("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "Mean", "Max", "Sum", "MatMul"))
_AXIS_CHANGES = ("ExpandDims", "Squeeze")
# What the positions of a layer are in the input: its positions, or all its axes but the first.
_POSITIONS, _ALL, _NOTHING = "positions", "all", ""
_SELECTING = ("StridedSlice", "Slice", "Gather", "GatherV2", "Split", "SplitV", "Unpack")


@dataclasses.dataclass(frozen=True)
class _Moved:
    """Positions that were rolled or cut into windows.

    Attributes
    ----------
    grid
        The positions that there are.
    shape
        Axes of one input ahead of the channels, the first of them spread over the batch.
    order
        Number of the position that each place of ``shape`` holds.
    """

    grid: tuple[int, ...]
    shape: tuple[int, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, layout: Layout, sizes: list[Any]) -> _Moved | None:
        """Return the positions of a layer of the shape ``sizes``, or ``None`` if they cannot be followed."""
        if layout.moved is not None:
            return layout.moved
        hidden = not layout.is_readable or layout.channels_first or layout.leading or layout.trailing
        hidden = hidden or layout.covers != _POSITIONS
        if hidden or len(sizes) < 3 or None in sizes[1:-1]:
            return None
        grid = layout.grid or tuple(sizes[1:-1])
        return cls(grid, (1, *sizes[1:-1]), tuple(range(math.prod(grid))))

    def changed(self, change: Callable[[np.ndarray], np.ndarray]) -> Layout:
        """Return the layout after a function moves the places, array of ``shape`` to array."""
        places = change(np.array(self.order).reshape(self.shape))
        moved = _Moved(self.grid, places.shape, tuple(places.ravel().tolist()))
        at_home = len(places) == 1 and moved.order == tuple(range(len(moved.order)))
        if at_home and places.shape[1:] == self.grid:
            return Layout()
        return Layout(grid=self.grid) if at_home and places.ndim == 2 else Layout(moved=moved)


@dataclasses.dataclass(frozen=True)
class Layout:
    """What the axes of a layer mean.

    Attributes
    ----------
    channels_first
        Channels are the second axis.
    grid
        Positions of the tokens that the second axis counts; ``None`` where positions have axes of their own.
    leading, trailing
        Tokens before and after those, such as a class token.
    in_batch, split
        Positions are spread over the batch, or channels over two axes: such a layer cannot be read.
    time_first, folded
        Time steps come before the batch, or are spread over the batch or over one node each; neither can be read.
    moved
        Which position each place of an input has, where they were rolled or cut into windows; cannot be read.
    covers
        Axes of the input that the positions are: ``"positions"``, those between batch and channels; ``"all"``, every
        one but the batch; empty if positions began inside the network.
    axes
        Number of axes of such a layer; ``None`` for as many as the input has.
    origin
        Node where its positions began, if inside the network.
    """

    channels_first: bool = False
    grid: tuple[int, ...] | None = None
    leading: int = 0
    trailing: int = 0
    in_batch: bool = False
    split: bool = False
    time_first: bool = False
    folded: bool = False
    moved: _Moved | None = None
    covers: str = _POSITIONS
    axes: int | None = None
    origin: str = ""

    @property
    def is_readable(self) -> bool:
        """Whether ``read`` gives the layer's values at its positions."""
        return not (self.in_batch or self.split or self.time_first or self.folded or self.moved)

    @property
    def is_plain(self) -> bool:
        """Whether ``read`` changes nothing."""
        return self == Layout()

    def map_shape(self, inputs: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the shape that maps are resized to for inputs of a shape; ``None`` if they keep the layer's."""
        return {_POSITIONS: inputs[1:-1], _ALL: inputs[1:]}.get(self.covers)

    def read(self, values: np.ndarray) -> np.ndarray:
        """Return a layer's values as ``(N, positions..., channels)``."""
        if self.grid is not None:
            tokens = values[:, self.leading : values.shape[1] - self.trailing]
            return tokens.reshape(len(values), *self.grid, values.shape[-1])
        return np.moveaxis(values, 1, -1) if self.channels_first else values


class Layers:
    """The layers between an input and a score.

    Parameters
    ----------
    graph
        The frozen graph.
    source, target
        Nodes of the input and of the score.
    numbered
        Whether every layer's name scope ends in a number that its name has not, as Keras 3 writes them.
    channels_first
        Whether the input's channels come before its positions.
    """

    def __init__(
        self, graph: GraphView, source: str, target: str, numbered: bool = False, channels_first: bool = False
    ) -> None:
        self._graph = graph
        self._source = source
        self._target = target
        self._numbered = numbered
        self._path = graph.between(source, target)
        self._on_path = set(self._path)
        self._rank = graph.shape(source).rank
        self._batch = graph.shape(source)[0] if self._rank else None
        self._layouts: dict[str, Layout] = {}
        if self._rank and self._rank > 2:
            self._layouts[source] = Layout(channels_first=channels_first)
        self._as_input = {source}  # nodes whose axes are all the input's
        self._spread_over_batch: set[str] = set()  # nodes behind windows, without a layout
        for name in self._path:
            if name != source:
                self._follow(name)

    def layout(self, name: str) -> Layout:
        """Return what the axes of a layer, by its node, mean."""
        return self._layouts.get(name, Layout())

    def names(self) -> list[str]:
        """Return the nodes of all layers for class activation maps, first to last."""
        return list(self._names)

    @functools.cached_property
    def _names(self) -> list[str]:
        return [name for name in self._path if name != self._source and self._is_usable(name)]

    def default(self) -> str:
        """Return the node of the last layer ahead of pooling and head; see the top of this file.

        Raises
        ------
        BadInput
            If there is no convolution or attention between input and score, or no position is left after them.
        """
        return self._default

    @functools.cached_property
    def _default(self) -> str:
        mixing = [name for name in self._path if self._mixes(name)]
        if not mixing:
            run = {function.name for name in self._path for function in functions_of(self._graph.nodes[name])}
            bodies = [one.node_def for one in self._graph.graph_def.library.function if one.signature.name in run]
            reason = "no convolution and no attention"
            if any(node.op in _CONVOLUTIONS for body in bodies for node in body):
                reason = "no convolution outside of a loop and no attention"
            raise BadInput(f"the model has {reason} between input and score; {self._hint()}")
        ahead = self._graph.below(mixing) - self._head()
        candidates = [name for name in reversed(self._path) if name in ahead]
        for inside in (False, True):
            known = [name for name in candidates if (self.layout(name).covers == _NOTHING) == inside]
            if found := self._first_default(known):
                return found
        raise BadInput(f"{self._why_no_default(ahead)}; {self._hint()}")

    def _first_default(self, candidates: Sequence[str]) -> str | None:
        """Return the first node that ends a block, else the first that can be read; ``None`` without either."""
        cuts = set(self._cuts())
        for name in candidates:
            if name in cuts and self._can_be_default(name):
                return self._before_normalization(name)
        readable = (name for name in candidates if self._graph.nodes[name].op in _DEFAULTS and self.has_positions(name))
        return next(readable, None)

    def find(self, layer: str) -> str:
        """Return the node that a user's layer name means.

        Parameters
        ----------
        layer
            A Keras layer's name, a node or tensor name, or one component of it such as ``block_layer4``; a name of
            several nodes means the last of them. ``"last convolution"`` is the output of the last layer that is a
            convolution, as other libraries take it by default: before a normalization or an activation that are layers
            of their own.

        Raises
        ------
        BadInput
            If no layer between input and score has this name; the message lists those that exist.
        """
        layers = self.names()
        wanted = node_of(layer)
        if wanted == LAST_CONVOLUTION and (last := self._last_convolution(layers)):
            return last
        if found := self._called(wanted, layers):
            return found[-1]
        if found := self._called(wanted, self._path):
            raise BadInput(f"layer '{layer}' {self._why_unfit(found[-1])}; {self._known(wanted)}")
        raise BadInput(f"the model has no layer '{layer}'; {self._known(wanted)}")

    def _last_convolution(self, layers: Sequence[str]) -> str | None:
        """Return the output of the layer of the last convolution; ``None`` if there is none.

        The layer is the convolution's name scope, unless that holds more than a layer, as where a ``tf.Module`` names
        no scopes: then it is the convolution and what adds its bias.
        """
        convolutions = [name for name in self._path if self._graph.nodes[name].op in _FULL_CONVOLUTIONS]
        if not convolutions:
            return None
        scope = convolutions[-1].rpartition("/")[0]
        inside = [name for name in self._path if scope and name.startswith(f"{scope}/")]
        operations = [self._graph.nodes[name].op for name in inside]
        if sum(operation in _FULL_CONVOLUTIONS for operation in operations) != 1 or not _BETWEEN.isdisjoint(operations):
            inside = self._with_bias(convolutions[-1])
        found = [name for name in layers if name in inside]
        return found[-1] if found else None

    def _with_bias(self, convolution: str) -> list[str]:
        """Return a convolution, the nodes after it that keep its values, and the sum with a constant after them."""
        names, users = [convolution], self._graph.consumers[convolution]
        while len(users) == 1:
            node = self._graph.nodes[users[0]]
            others = [tensor for tensor in node.input if node_of(tensor) != names[-1]]
            is_bias = node.op in ("BiasAdd", "Add", "AddV2") and all(map(self._is_constant, others))
            if not is_bias and node.op not in (*_COPIES, "Squeeze", "BatchToSpaceND"):
                break
            names.append(node.name)
            users = [] if is_bias else self._graph.consumers[node.name]
        return names

    def _is_constant(self, tensor: str) -> bool:
        return self._graph.constant(tensor) is not None

    def _called(self, wanted: str, names: list[str]) -> list[str]:
        """Return which of some nodes a user's name means."""
        if wanted in names:
            return [wanted]
        found = [name for name in names if wanted in self._keras_names(name)]
        return found or [name for name in names if f"/{wanted}/" in f"/{name}/"]

    def _why_no_default(self, names: set[str]) -> str:
        """Return why none of some nodes, which are ahead of pooling and head, is the default layer."""
        for name in reversed(self._path):
            shape = self._graph.shape(name)
            if name in names and self._graph.nodes[name].op in _DEFAULTS and (shape.rank or 0) > 2:
                if any(size != 1 for size in shape[1:-1]):
                    return f"there is no default layer, because '{name}' {self._why_unfit(name)}"
        return "no layer of the model has more than one position ahead of its score"

    def _why_unfit(self, name: str) -> str:
        """Return why a map cannot be read from a node."""
        shape, layout = self._graph.shape(name), self._layouts.get(name)
        if (shape.rank or 0) < 3:
            return "has no positions for a map"
        if shape.rank != self._rank and not (layout and layout.is_readable):
            source = self._graph.shape(self._source)
            if self._rank < 3:
                return f"has shape {shape}, but the input {source} has no positions to draw a map on"
            return f"has shape {shape}, and a map needs a layer with the {self._rank} axes of the input {source}"
        if shape[0] != self._batch:
            return f"has shape {shape}: its first axis does not count the inputs"
        return "has its positions in an order that cannot be followed back to the input's"

    def _known(self, wanted: str) -> str:
        layers = self.names()
        kept = [name for name in layers if self._graph.nodes[name].op in ACTIVATIONS] or layers
        if self._numbered:
            kept = (
                list(dict.fromkeys(self._keras_names(name)[-1] for name in layers if self._keras_names(name))) or kept
            )
        near = difflib.get_close_matches(wanted, kept, n=5, cutoff=0.3)
        names = near + [name for name in kept if name not in near]
        return f"its layers are {listed(names, 12)}" if names else "it has no layer with positions"

    def _hint(self) -> str:
        layers = self.names()
        if layers:
            return f"name the layer to explain with layer=, such as '{layers[-1]}'"
        return "none of its operations is a layer with positions that layer= could name"

    def _keras_names(self, name: str) -> list[str]:
        """Return the names of the Keras layers that a node lies in, outermost first; none for other files."""
        if not self._numbered:
            return []
        matches = [re.fullmatch(r"(.+)_\d+", component) for component in name.split("/")[:-1]]
        return [match[1] for match in matches if match]

    # Layouts

    def _follow(self, name: str) -> None:
        """Record what is known of a node's axes."""
        node, layout, shape = self._graph.nodes[name], self._layout_of(name), self._graph.shape(name)
        tensors = [node_of(tensor) for tensor in node.input]
        if layout is not None:
            self._layouts[name] = layout
        elif any(tensor in self._spread_over_batch or self._is_spread_over_batch(tensor) for tensor in tensors):
            self._spread_over_batch.add(name)
        if node.op in (*_ELEMENTWISE, *_KEEPING) and self._as_input.intersection(tensors) and shape.rank == self._rank:
            if shape[-1] == self._graph.shape(self._source)[-1]:
                self._as_input.add(name)

    def _is_spread_over_batch(self, name: str) -> bool:
        layout = self._layouts.get(name, Layout())
        return layout.in_batch or layout.moved is not None

    def _layout_of(self, name: str) -> Layout | None:
        node, shape = self._graph.nodes[name], self._graph.shape(name)
        tensors = [node_of(tensor) for tensor in node.input]
        known = [tensor for tensor in tensors if tensor in self._layouts]
        if shape.rank is None:
            return None
        if self._adds_channels(node, shape):
            return Layout(covers=_ALL, axes=shape.rank)
        layout = self._layouts[known[0]] if known else Layout()
        if layout.moved and node.op in (*_CONVOLUTIONS, *_KEEPING, *_AXIS_CHANGES) and node.op not in _COPIES:
            return None  # adjacent values there are not neighbours in the input
        if node.op in _CONVOLUTIONS:
            data = tensors[2] if "Backprop" in node.op else tensors[0]
            return self._layouts.get(data) or self._begun(node, data)
        if not known:
            return None
        if node.op in _ELEMENTWISE:
            same = [tensor for tensor in known if self._same_positions(self._graph.shape(tensor), shape, layout)]
            return self._layouts[same[0]] if same else None
        return self._layout_behind(known, node, tensors, shape)

    def _adds_channels(self, node: Any, shape: tf.TensorShape) -> bool:
        """Return whether a node adds an axis of one channel behind all axes of the input."""
        if node.op not in ("ExpandDims", "Reshape", "StridedSlice") or node_of(node.input[0]) not in self._as_input:
            return False
        before = self._graph.shape(node_of(node.input[0]))
        is_added = shape.rank == before.rank + 1 and shape[-1] == 1 and before.rank > 1
        return bool(is_added and shape[1:-1].as_list() == before[1:].as_list())

    def _begun(self, node: Any, data: str) -> Layout | None:
        """Return the layout of a convolution of ``data``, whose positions cannot be followed back to the input's."""
        shape = self._graph.shape(data)
        if data not in self._on_path or data in self._spread_over_batch or not shape.rank or shape[0] != self._batch:
            return None
        behind, axes = self._graph.nodes[data], shape.rank
        if behind.op == "ExpandDims":  # of a signal, for a convolution of images
            before = self._graph.shape(node_of(behind.input[0]))
            axes -= before.rank == axes - 1 and before[-1] == shape[-1]
        first = node.attr["data_format"].s.startswith(b"NC")
        return Layout(channels_first=first, covers=_NOTHING, axes=axes, origin=data)

    def _layout_behind(
        self, known: Sequence[str], node: Any, tensors: Sequence[str], shape: tf.TensorShape
    ) -> Layout | None:
        """Return the layout after any other operation, of whose inputs, ``tensors``, some have a known layout."""
        layout, before = self._layouts[known[0]], self._graph.shape(known[0])
        if node.op == "ConcatV2":
            return self._concatenated(tensors, shape)
        if (steps := self._time_steps(layout, node, before, shape)) is not None:
            return steps
        if node.op in _PRODUCTS:
            return layout if len(known) == 1 and self._keeps_positions(node, tensors, layout) else None
        if node.op in (*_KEEPING, *_AXIS_CHANGES):
            changes = shape.rank != before.rank if node.op in _KEEPING else layout.grid is not None
            moves_tokens = layout.grid is not None and node.op in _SELECTING
            return None if changes or moves_tokens or tensors[0] not in known else layout
        return self._rearranged(layout, node, tensors, before, shape)

    def _time_steps(self, layout: Layout, node: Any, before: tf.TensorShape, shape: tf.TensorShape) -> Layout | None:
        """Return the layout of one time step, or of time steps that are stacked; ``None`` for anything else."""
        if layout.time_first and node.op == "StridedSlice" and shape.rank == before.rank - 1:
            return dataclasses.replace(layout, time_first=False, folded=True)
        if node.op == "Pack" and layout.folded and node.attr["axis"].i == 0 and shape.rank == self._rank:
            return dataclasses.replace(layout, time_first=True, folded=False)
        return None

    def _keeps_positions(self, node: Any, tensors: Sequence[str], layout: Layout) -> bool:
        """Return whether a product with weights acts on the channels of its first operand alone."""
        if tensors[0] not in self._layouts:
            return False
        if node.op == "Einsum":
            left, _, right = node.attr["equation"].s.decode().partition(",")
            return bool(left[:-1] == right.partition("->")[2][:-1])
        by_weights = node.op in ("BatchMatMulV2", "BatchMatMul") and tensors[1] not in self._on_path
        return by_weights and not layout.channels_first

    def _rearranged(
        self, layout: Layout, node: Any, tensors: Sequence[str], before: tf.TensorShape, shape: tf.TensorShape
    ) -> Layout | None:
        """Return the layout after an operation that moves values; ``None`` if it cannot be followed."""
        if node.op == "Roll" and tensors[0] in self._layouts:
            return self._rolled(layout, before.as_list(), *map(self._graph.constant, tensors[1:]))
        if node.op in ("SpaceToBatchND", "BatchToSpaceND") and not layout.moved:
            return dataclasses.replace(layout, in_batch=node.op == "SpaceToBatchND")
        if node.op == "Transpose":
            return self._transposed(layout, tensors[1], shape.rank)
        if node.op == "Reshape":
            return self._reshaped(layout, before.as_list(), shape.as_list())
        return None

    def _same_positions(self, one: tf.TensorShape, other: tf.TensorShape, layout: Layout) -> bool:
        if one.rank != other.rank:
            return False
        places = range(2, one.rank) if layout.channels_first else range(1, max(one.rank - 1, 2))
        return all(one[place] == other[place] for place in places)

    def _concatenated(self, tensors: Sequence[str], shape: tf.TensorShape) -> Layout | None:
        constant = self._graph.constant(tensors[-1])
        if constant is None:
            return None
        axis, parts = int(constant) % shape.rank, tensors[:-1]
        number = next(number for number, tensor in enumerate(parts) if tensor in self._layouts)
        layout = self._layouts[parts[number]]
        if axis == (1 if layout.channels_first else shape.rank - 1):
            varying = [tensor for tensor in parts if tensor in self._on_path]
            return layout if all(self._layouts.get(tensor) == layout for tensor in varying) else None
        # Tokens of another kind before or after those of the positions.
        others = [tensor for tensor in parts[number + 1 :] if tensor in self._layouts]
        if axis != 1 or shape.rank != 3 or others:
            return None
        sizes = [self._graph.shape(tensor)[axis] for tensor in parts]
        tokens = layout.grid or ((sizes[number],) if layout == Layout() else None)
        if tokens is None or None in (*sizes, *tokens):
            return None
        return dataclasses.replace(
            layout,
            grid=tuple(tokens),
            leading=layout.leading + sum(sizes[:number]),
            trailing=layout.trailing + sum(sizes[number + 1 :]),
        )

    def _transposed(self, layout: Layout, order: str, rank: int) -> Layout | None:
        constant = self._graph.constant(order)
        if constant is None or layout.grid is not None or layout.split:
            return None
        axes = [int(axis) for axis in constant]
        if layout.moved:
            moves_places = axes[0] == 0 and axes[-1] == rank - 1
            return layout.moved.changed(lambda places: places.transpose(axes[:-1])) if moves_places else None
        if axes == list(range(rank)):
            return layout
        if rank > 3 and axes == [1, 0, *range(2, rank)]:
            return dataclasses.replace(layout, time_first=not layout.time_first)
        to_last, to_first = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
        if axes == (to_last if layout.channels_first else to_first):
            return dataclasses.replace(layout, channels_first=not layout.channels_first)
        return None

    def _reshaped(self, layout: Layout, before: list[Any], after: list[Any]) -> Layout | None:
        if layout.channels_first or layout.in_batch:
            return None
        if layout.moved:
            return self._cut(layout, before, after)
        if layout.grid is not None:
            has_other_tokens = layout.leading or layout.trailing
            if not has_other_tokens and tuple(after[1:-1]) == layout.grid:
                return dataclasses.replace(layout, grid=None)
            return layout if after[1:] == before[1:] else self._cut(layout, before, after)
        if layout.folded or layout.split:
            return self._unfolded(layout, before, after)
        return self._folded(layout, before, after)

    def _unfolded(self, layout: Layout, before: list[Any], after: list[Any]) -> Layout | None:
        """Return the layout after time steps leave the batch, or split channels are joined."""
        if len(after) == self._rank:
            if layout.folded and after[2:] == before[1:]:
                return dataclasses.replace(layout, folded=False)
            if layout.split and after[1:-1] == before[1 : self._rank - 1]:
                return dataclasses.replace(layout, split=False)
        return layout if after[1:] == before[1:] else None

    def _folded(self, layout: Layout, before: list[Any], after: list[Any]) -> Layout | None:
        """Return the layout after time steps join the batch, positions become tokens, or channels are split."""
        positions, more = before[1:-1], len(after) - len(before)
        if more == 0 and after[1:-1] == positions:
            return layout
        if more == -1 and len(after) > 2 and after[1:] == before[2:] and None not in after[1:]:
            return dataclasses.replace(layout, folded=True)
        if more == -1 and len(after) > 2 and after[1:-1] == before[1:-2] and _is_product(after[-1], before[-2:]):
            if layout.covers == _ALL and len(after) == self._rank:  # the last axis is channels again
                return Layout()
            return dataclasses.replace(layout, covers=_NOTHING, axes=len(after))
        if None not in positions and len(after) == 3 and after[1:] == [math.prod(positions), before[-1]]:
            return dataclasses.replace(layout, grid=tuple(positions))
        if more == 1 and after[1 : len(before) - 1] == positions:
            return dataclasses.replace(layout, split=True)
        return self._cut(layout, before, after)

    def _cut(self, layout: Layout, before: list[Any], after: list[Any]) -> Layout | None:
        """Return the layout of windows: a reshape that keeps channels and moves axes of positions into the batch."""
        moved = _Moved.of(layout, before)
        if moved is None or len(after) < 3 or None in after[1:] or after[-1] != before[-1]:
            return None
        if len(moved.order) % math.prod(after[1:-1]):
            return None
        return moved.changed(lambda places: places.reshape(-1, *after[1:-1]))

    def _rolled(
        self, layout: Layout, before: list[Any], shifts: np.ndarray | None, axes: np.ndarray | None
    ) -> Layout | None:
        moved = _Moved.of(layout, before)
        if moved is None or shifts is None or axes is None:
            return None
        steps, rolled = np.atleast_1d(shifts).tolist(), [int(axis) % len(before) for axis in np.atleast_1d(axes)]
        if not set(rolled) <= set(range(1, len(before) - 1)):
            return None
        return moved.changed(lambda places: np.roll(places, steps, rolled))

    # Layers for class activation maps

    def _is_usable(self, name: str) -> bool:
        if self._graph.nodes[name].op not in _LAYERS:
            return False
        layout, shape = self._layouts.get(name), self._graph.shape(name)
        if layout is None:  # the user knows what its axes mean
            # A recurrent layer may put time first: its first axis has a size, where that of the inputs has none.
            return bool(shape.rank and shape.rank == self._rank and shape.rank > 2 and shape[0] == self._batch)
        return layout.is_readable and shape.rank == (3 if layout.grid is not None else layout.axes or self._rank)

    def has_positions(self, name: str) -> bool:
        """Return whether a node is a layer with more than one position that can be read."""
        return name in self._on_path and self._is_usable(name) and self._is_spread(name)

    def _is_spread(self, name: str) -> bool:
        """Return whether a node's values lie at more than one position, known where."""
        layout = self._layouts.get(name)
        if layout is None or not layout.is_readable:
            return False
        shape = self._graph.shape(name)
        sizes = layout.grid or (shape[2:] if layout.channels_first else shape[1:-1])
        return any(size is None or size > 1 for size in sizes)

    def _can_be_default(self, name: str) -> bool:
        node = self._graph.nodes[name]
        if node.op not in _DEFAULTS or not self.has_positions(name):
            return False
        layout = self._layouts[name]
        if node.op in ("Reshape", "Transpose", "Roll"):  # time steps or windows that come together again
            before = self._layouts[node_of(node.input[0])]
            return before.folded or before.time_first or before.moved is not None
        varying = [tensor for tensor in map(node_of, node.input) if tensor in self._on_path]
        if layout.grid is not None and (node.op not in _SUMS or len(varying) < 2):
            return False  # tokens: the end of a block, not its inside
        is_sequence = self._graph.shape(name).rank == 3
        attends = layout.grid is not None or (is_sequence and node.op in _SUMS and len(varying) > 1)
        return not (attends and self._reads_some_tokens_only(name))

    def _before_normalization(self, name: str) -> str:
        """Return the activation that a node scales and shifts by constants, or the node itself."""
        found = name
        while self._graph.nodes[found].op in ("Mul", "Add", "AddV2", "Sub", "RealDiv", *_NORMALIZATIONS):
            varying = [tensor for tensor in map(node_of, self._graph.nodes[found].input) if tensor in self._on_path]
            if len(varying) != 1:
                return name
            found = varying[0]
        return found if self._graph.nodes[found].op in ACTIVATIONS and self.has_positions(found) else name

    def _mixes(self, name: str) -> bool:
        """Return whether a node combines positions: a convolution, or a product of two things that depend on them."""
        node = self._graph.nodes[name]
        if node.op in _CONVOLUTIONS:
            data = node_of(node.input[2] if "Backprop" in node.op else node.input[0])
            shape = self._graph.shape(data).as_list() if self._graph.shape(data).rank else []
            layout = self._layouts.get(data, Layout())
            positions = shape[2:] if layout.channels_first else shape[1:-1]
            return any(size != 1 for size in positions)
        return node.op in _PRODUCTS and sum(node_of(tensor) in self._on_path for tensor in node.input) > 1

    def _head(self) -> set[str]:
        """Return the classifier of an output that has positions itself: its last convolution and what follows."""
        end = self._target
        while self._graph.nodes[end].op in ("GatherNd", *_COPIES):  # of one position a row
            end = node_of(self._graph.nodes[end].input[0])
        layout = self._layouts.get(end, Layout())
        if self._graph.shape(end).rank != (layout.axes or self._rank) or not self._is_spread(end):
            return set()
        last = [name for name in self._path if self._graph.nodes[name].op in _CONVOLUTIONS][-1:]
        return self._graph.below(last)

    def _cuts(self) -> list[str]:
        """Return the nodes that every path from input to score passes through, first to last."""
        place = {name: number for number, name in enumerate(self._path)}
        farthest, cuts = 0, []
        for number, name in enumerate(self._path):
            if number >= farthest:
                cuts.append(name)
            reached = [place[user] for user in self._graph.uses(name) if user in place]
            farthest = max([farthest, *reached])
        return cuts

    def _reads_some_tokens_only(self, name: str) -> bool:
        """Return whether nothing but a selection of a layer's tokens reaches the score, such as a class token.

        All other tokens of it have no gradient. What follows is computed token by token until tokens are selected,
        pooled or related to one another.
        """
        count = self._graph.shape(name)[1]
        stack, seen, ends = [name], {name}, set()
        while stack:
            for user in self._graph.uses(stack.pop()):
                if user not in self._on_path or user in seen:
                    continue
                seen.add(user)
                node, shape = self._graph.nodes[user], self._graph.shape(user)
                by_token = shape.rank not in (None, 1, 2) and shape[1] in (count, None) and not self._mixes(user)
                by_row = shape.rank == 2 and node.op in ("MatMul", "BiasAdd", *_ELEMENTWISE) and not self._mixes(user)
                if by_token or by_row or self._stacks_tokens(user):
                    stack.append(user)
                else:
                    ends.add(node.op)
        return bool(ends) and ends <= set(_SELECTING) | set(SHAPES)

    def _stacks_tokens(self, name: str) -> bool:
        """Return whether a node stacks tokens as rows of a dense layer's input."""
        node = self._graph.nodes[name]
        if node.op != "Reshape" or self._graph.shape(name).rank != 2:
            return False
        width = self._graph.shape(node_of(node.input[0]))[-1]
        users = [self._graph.nodes[user] for user in self._graph.uses(name)]
        return all(user.op == "MatMul" and self._graph.shape(node_of(user.input[1]))[0] == width for user in users)


def _is_product(size: int | None, factors: Sequence[int | None]) -> bool:
    """Return whether a size is the product of others, as far as they are known."""
    return None in (size, *factors) or size == math.prod(factors)  # type: ignore[arg-type]


def has_channels_first(graph: GraphView, source: str, target: str) -> bool:
    """Return whether an input is ``(batch, channels, positions...)``, by the first convolution or pooling it meets."""
    rank = graph.shape(source).rank
    if rank is None or rank < 3:
        return False
    orders = {source: list(range(rank))}
    for name in graph.between(source, target):
        node = graph.nodes[name]
        known = [orders[tensor] for tensor in map(node_of, node.input) if tensor in orders]
        if not known:
            continue
        order = known[0]
        if node.op in (*_CONVOLUTIONS, "MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "FusedBatchNormV3"):
            return order[1 if node.attr["data_format"].s.startswith(b"NC") else -1] == 1
        if node.op == "Transpose":
            axes = graph.constant(node.input[1])
            if axes is not None and len(axes) == len(order):
                orders[name] = [order[int(axis)] for axis in axes]
        elif node.op in (*_ELEMENTWISE, "Identity", "Cast", "Pad", "PadV2", "MirrorPad", "ExpandDims"):
            orders[name] = order
    return False
