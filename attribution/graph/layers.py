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

import collections
import dataclasses
import difflib
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph.view import ACTIVATIONS, CONVOLUTIONS, NORMALIZATIONS, SHAPES, GraphView, functions_of, node_of

LAST_CONVOLUTION = "last convolution"
_FULL_CONVOLUTIONS = [name for name in CONVOLUTIONS if "Depthwise" not in name]
_SUMS = ("Add", "AddV2", "AddN")
# Operations that compute each value from the values at its own position, or scale and shift it.
ELEMENTWISE = (
    *ACTIVATIONS, *_SUMS, *NORMALIZATIONS, "BiasAdd", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "Erf", "Erfc",
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
    *ELEMENTWISE, *CONVOLUTIONS, "Squeeze", "MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "ConcatV2",
    "Reshape", "BatchToSpaceND", "Transpose", "Roll",
)  # fmt: skip
# What the default layer may be: something that was computed, not moved.
_DEFAULTS = (*ELEMENTWISE, *CONVOLUTIONS, "ConcatV2", "Squeeze", "BatchToSpaceND", "Reshape", "Transpose", "Roll")
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
class Part:
    """What an axis counts, or one of several things that it counts.

    Attributes
    ----------
    of
        ``"batch"``, ``"channels"``, or the number of an axis of positions.
    step
        How far apart two neighbors are on that axis: 3 for the number of a window of 3.
    size
        How many there are; ``None`` as long as it is the size of an axis of its own.
    """

    of: str | int
    step: int = 1
    size: int | None = None


BATCH, CHANNELS = (Part("batch"),), (Part("channels"),)
Axes = tuple[tuple[Part, ...], ...]


@dataclasses.dataclass(frozen=True)
class Layout:
    """What the axes of a layer mean.

    Attributes
    ----------
    axes
        What each axis counts, the fastest part last; nothing where a signal became an image of height 1. An image has
        ``(BATCH, (Part(0),), (Part(1),), CHANNELS)``. Empty for a layer whose values are read as they are.
    leading, trailing
        Tokens before and after those of the positions, such as a class token.
    in_batch
        Positions are spread over the batch for a dilated convolution.
    rolled
        By how much axes of positions are rolled, by their numbers.
    covers
        Axes of the input that the positions are: ``"positions"``, those between batch and channels; ``"all"``, every
        one but the batch; empty if positions began inside the network.
    origin
        Node where its positions began, if inside the network.
    """

    axes: Axes = ()
    leading: int = 0
    trailing: int = 0
    in_batch: bool = False
    rolled: tuple[tuple[int | str, int], ...] = ()
    covers: str = _POSITIONS
    origin: str = ""

    @classmethod
    def of(cls, rank: int, channels_first: bool = False, **fields: Any) -> Layout:
        """Return the layout of an image, a signal, a volume, by its number of axes."""
        positions = [(Part(number),) for number in range(rank - 2)]
        return cls((BATCH, CHANNELS, *positions) if channels_first else (BATCH, *positions, CHANNELS), **fields)

    @property
    def channels_first(self) -> bool:
        """Whether channels are the second axis."""
        return len(self.axes) > 2 and self.axes[1] == CHANNELS

    @property
    def is_whole(self) -> bool:
        """Whether each axis behind the first counts one thing at most, all of it, and neighbors are neighbors."""
        alone = all(len(axis) < 2 and all(part.size is None for part in axis) for axis in self.axes[1:])
        return alone and not self.is_cut

    @property
    def is_cut(self) -> bool:
        """Whether positions were rolled or cut into windows."""
        counts = collections.Counter(part.of for axis in self.axes for part in axis if part.of != "channels")
        return bool(self.rolled) or max(counts.values(), default=0) > 1

    @property
    def has_axes(self) -> bool:
        """Whether every position has an axis of its own, in order, beside those of batch and channels."""
        plain = Layout.of(len(self.axes), self.channels_first).axes
        return len(self.axes) > 2 and self.axes == plain and not self.rolled and not self.in_batch

    @property
    def tokens(self) -> tuple[Part, ...]:
        """The positions that the second axis counts, where it counts all of them, in order; else empty."""
        is_sequence = len(self.axes) == 3 and (self.axes[0], self.axes[2]) == (BATCH, CHANNELS) and not self.rolled
        parts = self.axes[1] if is_sequence and not self.in_batch else ()
        return parts if [part.of for part in parts if part.size] == [*range(len(parts))] else ()

    @property
    def is_readable(self) -> bool:
        """Whether ``read`` gives the layer's values at its positions."""
        return not self.axes or self.has_axes or bool(self.tokens)

    @property
    def is_plain(self) -> bool:
        """Whether ``read`` changes nothing, and positions are those of the input."""
        is_same = not self.axes or (self.has_axes and not self.channels_first)
        return is_same and self.covers == _POSITIONS

    def map_shape(self, inputs: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the shape that maps are resized to for inputs of a shape; ``None`` if they keep the layer's."""
        return {_POSITIONS: inputs[1:-1], _ALL: inputs[1:]}.get(self.covers)

    def read(self, values: np.ndarray) -> np.ndarray:
        """Return a layer's values as ``(N, positions..., channels)``."""
        if self.tokens:
            values = values[:, self.leading : values.shape[1] - self.trailing]
            return values.reshape(len(values), *(part.size or 1 for part in self.tokens), values.shape[-1])
        return np.moveaxis(values, 1, -1) if self.channels_first else values

    def fits(self, shape: Sequence[int | None]) -> bool:
        """Return whether a tensor of a shape can have this layout."""
        if len(shape) != len(self.axes):
            return False
        sizes = [[part.size for part in axis] for axis in self.axes]
        others = self.leading + self.trailing
        return all(
            None in (size, *parts) or math.prod(parts) + others * (place == 1) == size  # type: ignore[arg-type]
            for place, (size, parts) in enumerate(zip(shape, sizes, strict=True))
        )

    def transposed(self, order: Sequence[int]) -> Layout:
        """Return the layout of a transpose."""
        return dataclasses.replace(self, axes=tuple(self.axes[axis] for axis in order))

    def moved(self, shifts: Mapping[int, int], sizes: Sequence[int | None]) -> Layout | None:
        """Return the layout after axes, of these sizes, are rolled; ``None`` for axes that are not positions alone."""
        rolled = dict(self.rolled)
        for axis, shift in shifts.items():
            part, size = self.axes[axis][0] if len(self.axes[axis]) == 1 else Part("batch"), sizes[axis]
            if not isinstance(part.of, int) or part.size is not None or size is None:
                return None
            rolled[part.of] = (rolled.get(part.of, 0) + shift) % size
        return dataclasses.replace(self, rolled=tuple(sorted(one for one in rolled.items() if one[1])))

    def reshaped(self, before: list[int | None], after: list[int | None]) -> Layout | None:
        """Return the layout after a reshape, as of time steps that join the batch, or ``None`` if it is not known.

        Parts are given to the new axes from the last one on. What is left goes to the axis that is open, the batch.
        Where more are open, those ahead of the last of them have to stay.
        """
        if self.leading or self.trailing or self.in_batch:
            return self if before[1:] == after[1:] else None
        if (axes := _with_units(self.axes, before, after)) is not None:
            return dataclasses.replace(self, axes=axes)
        opened = [axis for axis, size in enumerate(after) if size is None] or [0]
        kept = opened[0] if len(opened) == 1 else opened[-1] + 1
        if after[:kept] != before[:kept]:
            return None
        sized = zip(self.axes[kept:], before[kept:], strict=True)
        parts = [
            part if part in BATCH or part.size else Part(part.of, 1, size) for axis, size in sized for part in axis
        ]
        found = [_taken(parts, size) for size in reversed(after[kept + (len(opened) == 1) :])]
        rest = [tuple(parts)] if len(opened) == 1 else []
        if None in found or (parts and not rest):
            return None
        return self._with_axes(_merged([*self.axes[:kept], *rest, *reversed(found)]))

    def _with_axes(self, axes: Axes) -> Layout | None:
        """Return the same layout with other axes; positions that joined the channels are none any longer."""
        channels = [place for place, axis in enumerate(axes) if any(part.of == "channels" for part in axis)]
        mixed = [axes[place] for place in channels if len(axes[place]) > 1]
        if not mixed:
            return dataclasses.replace(self, axes=axes)
        number = len(axes) - 2  # of positions that are left
        if mixed != [axes[-1]] or len(axes) < 3 or axes[:-1] != Layout.of(len(axes)).axes[:-1]:
            return None
        is_input = self.covers == _ALL and len(axes) == len(self.axes) - 1
        joined = [part.of for part in axes[-1]] == [*range(number, len(self.axes) - 2), "channels"]
        return Layout.of(len(axes), covers=_POSITIONS if is_input else _NOTHING) if joined else None


def _with_units(axes: Axes, before: Sequence[int | None], after: Sequence[int | None]) -> Axes | None:
    """Return axes after some of size 1 came or went, as for a convolution of a signal; ``None`` for another change."""
    left = [(axis, size) for axis, size in zip(axes, before, strict=True) if axis or size != 1]
    found: list[tuple[Part, ...]] = []
    for size in after:
        if left and left[0][1] == size:
            found.append(left.pop(0)[0])
        elif size == 1:
            found.append(())
        else:
            return None
    return None if left else tuple(found)


def _taken(parts: list[Part], size: int | None) -> tuple[Part, ...] | None:
    """Take parts of a size from the end of a list, the last of them cut if need be; ``None`` if there are none."""
    found: list[Part] = []
    while size is not None and (size > 1 or (not found and parts and parts[-1].size == 1)):
        part = parts.pop() if parts else BATCH[0]
        if part.size is None or max(size, part.size) % min(size, part.size):
            return None
        if part.size > size:
            parts.append(Part(part.of, part.step * size, part.size // size))
            part = dataclasses.replace(part, size=size)
        found.insert(0, part)
        size //= part.size or 1
    return None if size is None else tuple(found)


def _merged(axes: Sequence[Any]) -> Axes:
    """Return axes with adjacent parts joined; what has an axis of its own again has that axis' size."""
    joined: list[list[Part]] = []
    for axis in axes:
        joined.append([])
        for part in axis:
            last = joined[-1][-1] if joined[-1] else BATCH[0]
            if last.of == part.of and last.size and part.size and last.step == part.step * part.size:
                joined[-1][-1] = Part(part.of, part.step, last.size * part.size)
            else:
                joined[-1].append(part)
    counts = collections.Counter(part.of for axis in joined for part in axis)
    return tuple((Part(axis[0].of),) if len(axis) == 1 and counts[axis[0].of] == 1 else tuple(axis) for axis in joined)


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
            self._layouts[source] = Layout.of(self._rank, channels_first)
        self._as_input = {source}  # nodes whose axes are all the input's
        self._spread_over_batch: set[str] = set()  # nodes behind windows, without a layout
        for name in self._path:
            if name != source:
                self._follow(name)

    def layout(self, name: str) -> Layout:
        """Return what the axes of a layer, by its node, mean."""
        return self._layouts.get(name, Layout())

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The nodes of all layers for class activation maps, first to last."""
        return tuple(name for name in self._path if name != self._source and self._is_usable(name))

    @functools.cached_property
    def default(self) -> str:
        """The node of the last layer ahead of pooling and head; see the top of this file.

        Raises
        ------
        BadInput
            If there is no convolution or attention between input and score, or no position is left after them.
        """
        mixing = [name for name in self._path if self._mixes(name)]
        if not mixing:
            run = {function.name for name in self._path for function in functions_of(self._graph.nodes[name])}
            bodies = [one.node_def for one in self._graph.graph_def.library.function if one.signature.name in run]
            reason = "no convolution and no attention"
            if any(node.op in CONVOLUTIONS for body in bodies for node in body):
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
        layers = self.names
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
            is_fixed = all(self._graph.constant(other) is not None for other in others)
            is_bias = is_fixed and node.op in ("BiasAdd", "Add", "AddV2")
            if not is_bias and node.op not in (*_COPIES, "Squeeze", "BatchToSpaceND"):
                break
            names.append(node.name)
            users = [] if is_bias else self._graph.consumers[node.name]
        return names

    def _called(self, wanted: str, names: Sequence[str]) -> list[str]:
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
        layers = self.names
        kept = [name for name in layers if self._graph.nodes[name].op in ACTIVATIONS] or layers
        if self._numbered:
            kept = (
                list(dict.fromkeys(self._keras_names(name)[-1] for name in layers if self._keras_names(name))) or kept
            )
        near = difflib.get_close_matches(wanted, kept, n=5, cutoff=0.3)
        names = near + [name for name in kept if name not in near]
        return f"its layers are {listed(names, 12)}" if names else "it has no layer with positions"

    def _hint(self) -> str:
        layers = self.names
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
        node, shape = self._graph.nodes[name], self._graph.shape(name)
        tensors = [node_of(tensor) for tensor in node.input]
        layout = self._layout_of(node, tensors, shape) if shape.rank else None
        if layout is not None and layout.fits(shape.as_list()):
            self._layouts[name] = layout
        elif any(tensor in self._spread_over_batch or self._is_spread_over_batch(tensor) for tensor in tensors):
            self._spread_over_batch.add(name)
        if node.op in (*ELEMENTWISE, *_KEEPING) and self._as_input.intersection(tensors) and shape.rank == self._rank:
            if shape[-1] == self._graph.shape(self._source)[-1]:
                self._as_input.add(name)

    def _is_spread_over_batch(self, name: str) -> bool:
        layout = self._layouts.get(name, Layout())
        return layout.in_batch or layout.is_cut

    def _layout_of(self, node: Any, tensors: Sequence[str], shape: tf.TensorShape) -> Layout | None:
        """Return what is known of the axes behind an operation; ``None`` where positions cannot be followed."""
        if self._adds_channels(node, shape):
            return Layout.of(shape.rank, covers=_ALL)
        if node.op in CONVOLUTIONS:
            data = tensors[2] if "Backprop" in node.op else tensors[0]
            layout = self._layouts.get(data)
            # A window over tokens, or over what was cut into windows, sees values that are no neighbors in the input.
            return layout if layout is not None and layout.is_whole else self._begun(node, data)
        known = [tensor for tensor in tensors if tensor in self._layouts]
        if not known:
            return None
        layout, before = self._layouts[known[0]], self._graph.shape(known[0]).as_list()
        if node.op in ELEMENTWISE:
            same = [tensor for tensor in known if self._same_positions(self._graph.shape(tensor), shape, layout)]
            return self._layouts[same[0]] if same else None
        if node.op == "ConcatV2":
            return self._concatenated(tensors, shape)
        if node.op == "Pack":  # time steps, of which each was computed by itself
            first = layout.axes[0] if node.attr["axis"].i == 0 else ()
            stacked = len(first) == 2 and first[1:] == BATCH
            return dataclasses.replace(layout, axes=(first[:1], BATCH, *layout.axes[1:])) if stacked else None
        if node.op in _PRODUCTS:
            return layout if len(known) == 1 and self._keeps_positions(node, tensors, layout) else None
        return self._moved(layout, node, tensors, before, shape.as_list()) if tensors[0] in known else None

    def _moved(
        self, layout: Layout, node: Any, tensors: Sequence[str], before: list[Any], after: list[Any]
    ) -> Layout | None:
        """Return the layout after an operation that leaves values as they are, or moves them or a window over them."""
        if node.op == "StridedSlice" and len(after) == len(before) - 1 and layout.axes[1] == BATCH:
            return dataclasses.replace(layout, axes=(layout.axes[0] + BATCH, *layout.axes[2:]))  # one time step
        if node.op in _COPIES:
            return layout
        if node.op in _KEEPING:
            return layout if layout.is_whole and len(after) == len(before) else None
        if node.op in ("SpaceToBatchND", "BatchToSpaceND"):
            return None if layout.is_cut else dataclasses.replace(layout, in_batch=node.op == "SpaceToBatchND")
        if node.op in ("Reshape", *_AXIS_CHANGES):
            return layout.reshaped(before, after)
        constants = [self._graph.constant(tensor) for tensor in tensors[1:]]
        if any(constant is None for constant in constants):
            return None
        if node.op == "Transpose":
            return layout.transposed([int(axis) for axis in constants[0]])  # type: ignore[union-attr]
        if node.op == "Roll":
            shifts, axes = (np.atleast_1d(constant).tolist() for constant in constants)  # type: ignore[arg-type]
            return layout.moved({axis % len(before): shift for axis, shift in zip(axes, shifts, strict=True)}, before)
        return None

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
        if data not in self._on_path or not shape.rank or shape[0] != self._batch:
            return None
        if data in self._spread_over_batch or self._is_spread_over_batch(data):
            return None
        first = node.attr["data_format"].s.startswith(b"NC")
        layout = Layout.of(shape.rank, first, covers=_NOTHING, origin=data)
        behind = self._graph.nodes[data]
        if behind.op == "ExpandDims":  # of a signal, for a convolution of images
            before = self._graph.shape(node_of(behind.input[0])).as_list()
            signal = Layout.of(len(before), first, covers=_NOTHING, origin=data)
            is_signal = len(before) > 2 and before[-1] == shape[-1]
            return signal.reshaped(before, shape.as_list()) if is_signal else layout
        return layout

    def _keeps_positions(self, node: Any, tensors: Sequence[str], layout: Layout) -> bool:
        """Return whether a product with weights acts on the channels of its first operand alone."""
        if tensors[0] not in self._layouts or layout.axes[-1] != CHANNELS:
            return False
        if node.op == "Einsum":
            left, _, right = node.attr["equation"].s.decode().partition(",")
            return bool(left[:-1] == right.partition("->")[2][:-1])
        return node.op in ("BatchMatMulV2", "BatchMatMul") and tensors[1] not in self._on_path

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
        if layout.axes[axis] == CHANNELS:
            varying = [tensor for tensor in parts if tensor in self._on_path]
            return layout if all(self._layouts.get(tensor) == layout for tensor in varying) else None
        # Tokens of another kind before or after those of the positions.
        sizes = [self._graph.shape(tensor)[axis] for tensor in parts]
        others = [tensor for tensor in parts[number + 1 :] if tensor in self._layouts]
        is_signal = layout == Layout.of(3) and sizes[number] is not None
        tokens = (Part(0, 1, sizes[number]),) if is_signal else layout.tokens
        if axis != 1 or others or not tokens or None in sizes:
            return None
        return dataclasses.replace(
            layout,
            axes=(BATCH, tokens, CHANNELS),
            leading=layout.leading + sum(sizes[:number]),
            trailing=layout.trailing + sum(sizes[number + 1 :]),
        )

    # Layers for class activation maps

    def _is_usable(self, name: str) -> bool:
        if self._graph.nodes[name].op not in _LAYERS:
            return False
        layout, shape = self._layouts.get(name), self._graph.shape(name)
        if layout is None:  # the user knows what its axes mean
            # A recurrent layer may put time first: its first axis has a size, where that of the inputs has none.
            return bool(shape.rank and shape.rank == self._rank and shape.rank > 2 and shape[0] == self._batch)
        return layout.is_readable

    def has_positions(self, name: str) -> bool:
        """Return whether a node is a layer with more than one position that can be read."""
        return name in self._on_path and self._is_usable(name) and self._is_spread(name)

    def _is_spread(self, name: str) -> bool:
        """Return whether a node's values lie at more than one position, known where."""
        layout = self._layouts.get(name)
        if layout is None or not layout.is_readable:
            return False
        shape = self._graph.shape(name)
        sizes = shape[2:] if layout.channels_first else shape[1:-1]
        return any(size is None or size > 1 for size in [part.size for part in layout.tokens] or sizes)

    def _can_be_default(self, name: str) -> bool:
        node = self._graph.nodes[name]
        if node.op not in _DEFAULTS or not self.has_positions(name):
            return False
        layout = self._layouts[name]
        # A move computes nothing and repeats the layer before it, unless that one could not be read: time steps or
        # windows that come together again.
        if node.op in ("Reshape", "Transpose", "Roll"):
            before = self._layouts[node_of(node.input[0])]
            return before.axes[0] != BATCH or before.is_cut
        varying = [tensor for tensor in map(node_of, node.input) if tensor in self._on_path]
        # A block of a transformer ends with the sum with what it was given. Inside it, in the wider layer of its
        # perceptron, a map would be of one branch alone.
        if layout.tokens and (node.op not in _SUMS or len(varying) < 2):
            return False  # tokens: the end of a block, not its inside
        is_sequence = self._graph.shape(name).rank == 3
        attends = bool(layout.tokens) or (is_sequence and node.op in _SUMS and len(varying) > 1)
        return not (attends and self._reads_some_tokens_only(name))

    def _before_normalization(self, name: str) -> str:
        """Return the activation that a node scales and shifts by constants, or the node itself."""
        found = name
        while self._graph.nodes[found].op in ("Mul", "Add", "AddV2", "Sub", "RealDiv", *NORMALIZATIONS):
            varying = [tensor for tensor in map(node_of, self._graph.nodes[found].input) if tensor in self._on_path]
            if len(varying) != 1:
                return name
            found = varying[0]
        return found if self._graph.nodes[found].op in ACTIVATIONS and self.has_positions(found) else name

    def _mixes(self, name: str) -> bool:
        """Return whether a node combines positions: a convolution, or a product of two things that depend on them."""
        node = self._graph.nodes[name]
        if node.op in CONVOLUTIONS:
            data = node_of(node.input[2] if "Backprop" in node.op else node.input[0])
            shape = self._graph.shape(data).as_list() if self._graph.shape(data).rank else []
            layout = self._layouts.get(data, Layout())
            positions = shape[2:] if layout.channels_first else shape[1:-1]
            # Where the only position is left, as in a gate of squeeze and excitation or a head of 1x1 convolutions, a
            # convolution is a dense layer: what follows is no place to look for the last layer with positions.
            return any(size != 1 for size in positions)
        return node.op in _PRODUCTS and sum(node_of(tensor) in self._on_path for tensor in node.input) > 1

    def _head(self) -> set[str]:
        """Return the classifier of an output that has positions itself: its last convolution and what follows."""
        end = self._target
        # The last convolution of a segmentation gives its scores: one channel a class, and no map of classes yet.
        while self._graph.nodes[end].op in ("GatherNd", *_COPIES):  # of one position a row
            end = node_of(self._graph.nodes[end].input[0])
        if not self._is_spread(end) or self._layouts[end].tokens:
            return set()
        last = [name for name in self._path if self._graph.nodes[name].op in CONVOLUTIONS][-1:]
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
                by_row = shape.rank == 2 and node.op in ("MatMul", "BiasAdd", *ELEMENTWISE) and not self._mixes(user)
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
        if node.op in (*CONVOLUTIONS, "MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "FusedBatchNormV3"):
            return order[1 if node.attr["data_format"].s.startswith(b"NC") else -1] == 1
        if node.op == "Transpose":
            axes = graph.constant(node.input[1])
            if axes is not None and len(axes) == len(order):
                orders[name] = [order[int(axis)] for axis in axes]
        elif node.op in (*ELEMENTWISE, "Identity", "Cast", "Pad", "PadV2", "MirrorPad", "ExpandDims"):
            orders[name] = order
    return False
