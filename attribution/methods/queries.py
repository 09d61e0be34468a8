"""What a method may ask of a model about some inputs; each pass is run once, however many methods ask.

This is the only argument of an attribution method besides its parameters. A method of one's own is a function
``method(queries, **parameters)`` that returns one map per input. The arrays given to it are read-only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.lrp.composite import Composite
from attribution.methods.protocols import Rules
from attribution.model import batching


@dataclasses.dataclass(frozen=True)
class RequiredQueries:
    """What a method will ask of its queries, declared so that methods explained together can share one pass.

    Attributes
    ----------
    input_gradient
        It asks for ``ModelQueries.input_gradient()``.
    layers
        It asks for ``ModelQueries.layer_gradient`` of these layers; ``None`` among them is the default layer.
    squares
        It asks for second moments of ``ModelQueries.gradient_moments``.
    """

    input_gradient: bool = False
    layers: frozenset = frozenset()
    squares: bool = False

    def __or__(self, other: RequiredQueries) -> RequiredQueries:
        return RequiredQueries(
            self.input_gradient or other.input_gradient,
            self.layers | other.layers,
            self.squares or other.squares,
        )


@dataclasses.dataclass(frozen=True)
class BatchPosition:
    """Where a block stands among all inputs.

    Attributes
    ----------
    rows
        Its rows.
    total
        Number of all inputs.
    channels_first
        Whether the caller's inputs have their channels first; those of the block have them last.
    """

    rows: slice
    total: int
    channels_first: bool = False


class ModelQueries:
    """A block of inputs, their targets, and the passes through the model that explain them.

    Attributes
    ----------
    model : attribution.model.model.Model
        The model.
    inputs : np.ndarray
        ``(N, ...)`` float32, or float64 where the model takes that: what is explained.
    seed : int
        Seed of the run, for what all inputs share.
    keys : Sequence
        N names or indices, for what is drawn per input.
    """

    def __init__(self, model, feed, explain_input, targets, batch_size, seed, keys, expected=None, place=None):
        self.model = model
        self.inputs = _locked(_precise(feed[explain_input]).view())
        self.seed = seed
        self.keys = keys
        self._feed = feed
        self._explain_input = explain_input
        self._targets = targets
        self._batch_size = batch_size
        self._expected = expected or RequiredQueries()
        self._place = place or BatchPosition(slice(None), len(self.inputs))
        self._memory = {}

    def __len__(self):
        return len(self.inputs)

    @property
    def feed(self) -> Mapping[str, np.ndarray]:
        """What the model is given, by the names of its inputs, ``(N, ...)`` each: ``inputs`` and all beside it."""
        return {name: _locked(np.asarray(array).view()) for name, array in self._feed.items()}

    @property
    def has_targets(self) -> bool:
        """Whether the classes to explain are known without a pass."""
        return self._targets is not None

    def given(self, value: Any) -> np.ndarray:
        """Return a number or an array that a caller gave for all inputs, for those of this block.

        Parameters
        ----------
        value
            A number, or an array that broadcasts to the caller's inputs; one with as many axes as these has a row for
            each of them, or one for all.

        Returns
        -------
        np.ndarray
            Float32 that broadcasts to ``inputs``.

        Raises
        ------
        BadInput
            If it does not broadcast.
        """
        array = self.channels_last(value)
        if array.ndim == self.inputs.ndim and len(array) == self._place.total != 1:
            array = array[self._place.rows]
        try:
            fits = np.broadcast_shapes(array.shape, self.inputs.shape) == self.inputs.shape
        except ValueError:
            fits = False
        if not fits or not np.isfinite(array).all():
            raise BadInput(
                f"a finite number or array is needed that broadcasts to {self._place.total} inputs of shape "
                f"{self.inputs.shape[1:]}, not one of shape {np.shape(value)}"
            )
        return array

    def channels_last(self, value: Any) -> np.ndarray:
        """Return an array in the caller's layout as float32 in that of ``inputs``, whose channels are last."""
        array = np.asarray(value, np.float32)
        if self._place.channels_first and array.ndim >= self.inputs.ndim - 1 and array.ndim > 0:
            return np.moveaxis(array, -self.inputs.ndim + 1, -1)
        return array

    @property
    def targets(self) -> np.ndarray:
        """``(N,)`` int32: the classes to explain; the predicted ones unless others were asked for."""
        if self._targets is None:
            self._targets = self.scores.argmax(axis=1).astype(np.int32)
        return self._targets

    @property
    def scores(self) -> np.ndarray:
        """``(N, classes)``: scores of the inputs."""
        return self._once("scores", lambda: _locked(self.model.scores(self._feed, self._batch_size)))

    @property
    def target_scores(self) -> np.ndarray:
        """``(N,)``: score of each input's target."""
        return self.scores[np.arange(len(self)), self.targets]

    def of_logits(self) -> ModelQueries:
        """Return passes of the same inputs and targets whose scores are logits, whatever the model explains."""
        if self.model.score == "logits":
            return self

        def queries():
            model = self.model.of_logits()
            return ModelQueries(
                model,
                self._feed,
                self._explain_input,
                self.targets,
                self._batch_size,
                self.seed,
                self.keys,
                place=self._place,
            )

        return self._once("logits", queries)

    @property
    def keras_model(self) -> Any:
        """The live ``keras.Model`` behind the SavedModel, with its weights, for methods of other libraries.

        Raises BadInput where there is none; see ``attribution.load_model``.
        """
        model = self.model
        if getattr(model, "live", None) is None and getattr(model, "live_source", None) is not None:
            model.live_source(model)
        if getattr(model, "live", None) is None:  # a served model has neither
            raise BadInput(
                "this method needs the live Keras network behind the SavedModel; give it with "
                "load_model(..., keras_model=) or --keras_model=module:function"
            )
        return model.live

    def generator(self, row: int, purpose: str) -> np.random.Generator:
        """Return a random generator that depends on the run's seed, the input's key and the purpose alone."""
        return batching.generator(self.seed, self.keys[row], purpose)

    def input_gradient(self, rules: Callable | None = None) -> np.ndarray:
        """Return the gradient of the target score, of the inputs' shape.

        Parameters
        ----------
        rules
            Function from (graph, input node, score node) to a mapping from node name to registered gradient;
            ``None`` for the true gradient.
        """
        if rules is not None:
            return self._once(
                ("modified", rules), lambda: _locked(self._backward((), True, self._node_rules(rules))[0])
            )
        if "input" not in self._memory:
            self._joint_backward(of_input=True)
        return self._memory["input"]

    def relevance(self, composite: Composite) -> np.ndarray:
        """Return the relevance of the inputs, of their shape, after a ``lrp.Composite``."""

        def run():
            relevance = np.empty(self.inputs.shape, np.float32)
            targets = np.full(len(self), -1, np.int32) if self._targets is None else self._targets
            for rows, real in self.model.chunks(len(self), self._batch_size):
                feed = {name: batching.take(array, rows) for name, array in self._feed.items()}
                relevance[rows[:real]] = self.model.relevance(feed, targets[rows], self._explain_input, composite)[
                    :real
                ]
            return _locked(relevance)

        return self._once(composite, run)

    def layer_gradient(self, layer: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return a layer's values and the gradient of the target score with respect to them.

        Parameters
        ----------
        layer
            Name as ``Model.layer`` takes it; by default the last one ahead of pooling and head.

        Returns
        -------
        values, gradients : np.ndarray
            Each ``(N, positions..., channels)``: of the layer's shape, or with its channels moved to the end, or its
            tokens on their grid.
        """
        node = self.model.layer(layer, self._explain_input)
        if ("layer", node) not in self._memory:
            self._joint_backward(layers=(node,))
        return self._memory["layer", node]

    def attention_nodes(self) -> list[str]:
        """Return the nodes of Softmax operations with heads between input and score, first to last."""
        graph, source = self.model.graph, self.model.input_node(self._explain_input)
        if not hasattr(graph, "shape"):
            raise BadInput(f"{self.model.path} does not show its attention; explain the file itself")
        path = graph.between(source, self.model.logits.split(":")[0])
        return [name for name in path if graph.nodes[name].op == "Softmax" and graph.shape(name).rank == 4]

    def node_gradients(self, nodes: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return nodes' values and the gradient of the target score with respect to them, of whatever shape."""

        def run():
            _, _, values, gradients = self._backward(tuple(nodes), False, None)
            return [(_locked(values[node]), _locked(gradients[node])) for node in nodes]

        return self._once(("nodes", *nodes), run)

    def multipliers(self, baseline: np.ndarray) -> np.ndarray:
        """Return DeepLIFT's multipliers, of the inputs' shape, against a baseline that broadcasts to them."""
        baseline = np.broadcast_to(baseline, self.inputs.shape).astype(self._feed[self._explain_input].dtype)
        targets = np.full(len(self), -1, np.int32) if self._targets is None else self._targets
        found = np.empty(self.inputs.shape, np.float32)
        for rows, real in self.model.chunks(len(self), self._batch_size):
            feed = {name: batching.take(array, rows) for name, array in self._feed.items()}
            part = self.model.multipliers(feed, baseline[rows], targets[rows], self._explain_input)
            found[rows[:real]] = part[:real]
        return found

    def gradient_moments(self, count: int, variant: Callable, key: Any = None) -> batching.Moments:
        """Return the moments of the gradient over variants of each input, streamed.

        Parameters
        ----------
        count
            Number of variants of each input.
        variant
            Function from (number of the variant, rows of the inputs) to these inputs' variants.
        key
            Under which the moments are kept for a second method that asks for the same.
        """

        def run():
            moments = batching.Moments(self.inputs.shape, squares=self._expected.squares)
            for _, rows, gradients in self.variant_gradients(count, variant):
                moments.add(rows, gradients)
            return moments

        return run() if key is None else self._once(key, run)

    def variant_gradients(
        self, rows: int | Sequence, variant: Callable, rules: Rules | None = None
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield ``(number of the variant, rows, gradients at these rows' variants)``; see ``variant_scores``."""
        node_rules = self._node_rules(rules)
        if self._targets is None:
            # A gradient at the input predicts them, by the function that is needed anyway: a second one, for scores
            # alone, would hold the model's weights once more.
            self.input_gradient()

        def run(feed, targets):
            return self.model.backward(feed, targets, self._explain_input, rules=node_rules).input_gradient

        yield from self._stream(self._grid(rows), variant, run)

    def variant_scores(self, rows: int | Sequence, variant: Callable) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield ``(number of the variant, rows, target scores of these rows' variants)``.

        Parameters
        ----------
        rows
            Number of variants of each input, or for each variant the rows of the inputs that have it.
        variant
            Function from (number of the variant, rows of the inputs) to these inputs' variants.
        """

        def run(feed, targets):
            return self.model.forward(feed)[np.arange(len(targets)), targets]

        yield from self._stream(self._grid(rows), variant, run)

    def shared(self, key: Any, compute: Callable) -> Any:
        """Return ``compute()``, computed at the first call with this key and kept for the other methods."""
        return self._once(key, compute)

    def _grid(self, rows: int | Sequence) -> Sequence:
        return [np.arange(len(self))] * rows if isinstance(rows, int) else rows

    def _stream(self, grid, variant, run):
        """Fill passes with (variant, input) pairs, variant by variant, and yield the results in pieces."""
        numbers = np.repeat(np.arange(len(grid)), [len(rows) for rows in grid])
        inputs = np.concatenate([np.asarray(rows, np.int64) for rows in grid]) if len(grid) else np.zeros(0, np.int64)
        targets = self.targets
        for pairs, real in self.model.chunks(len(numbers), self._batch_size):
            pieces = _pieces(numbers[pairs[:real]])
            rows = inputs[pairs]
            others = {name: array for name, array in self._feed.items() if name != self._explain_input}
            feed = {name: array[rows] if array.ndim else array for name, array in others.items()}
            changed = [variant(number, rows[start:stop]) for number, start, stop in pieces]
            changed.extend([changed[-1][-1:]] * (len(pairs) - real))
            variants = changed[0] if len(changed) == 1 else np.concatenate(changed)
            feed[self._explain_input] = variants.astype(self._feed[self._explain_input].dtype, copy=False)
            results = run({name: feed[name] for name in self._feed}, targets[rows])
            for number, start, stop in pieces:
                yield number, rows[start:stop], results[start:stop]

    def _joint_backward(self, of_input=False, layers=()):
        """Run one backward pass for what is asked for now and what is expected to be asked for later."""
        if not any(map(self.model.has_own_pass, layers)):
            of_input = of_input or (self._expected.input_gradient and "input" not in self._memory)
            expected = [self.model.layer(name, self._explain_input) for name in sorted(self._expected.layers, key=str)]
            expected = [layer for layer in expected if not self.model.has_own_pass(layer)]
            layers = tuple(dict.fromkeys([*layers, *expected]))
            layers = tuple(layer for layer in layers if ("layer", layer) not in self._memory)
        gradient, scores, values, gradients = self._backward(layers, of_input, None)
        if of_input:
            self._memory["input"] = _locked(gradient)
        for layer in layers:
            layout = self._layout(layer)
            self._memory["layer", layer] = _locked(layout(values[layer])), _locked(layout(gradients[layer]))
        if self._targets is None:  # the pass has predicted the classes that it explained
            self._targets = scores.argmax(axis=1).astype(np.int32)

    def _backward(self, layers, of_input, node_rules):
        """Run backward passes over all inputs; return input gradient, scores, and values and gradients by layer."""
        targets = np.full(len(self), -1, np.int32) if self._targets is None else self._targets
        parts = []
        for rows, real in self.model.chunks(len(self), self._batch_size):
            feed = {name: batching.take(array, rows) for name, array in self._feed.items()}
            result = self.model.backward(feed, targets[rows], self._explain_input, layers, of_input, node_rules)
            parts.append((result, len(rows), real))
        gradient = _joined([part.input_gradient[:real] for part, _, real in parts]) if of_input else None
        scores = _joined([part.scores[:real] for part, _, real in parts])
        values = {layer: self._by_input(layer, [(part.values[layer], *n) for part, *n in parts]) for layer in layers}
        gradients = {
            layer: self._by_input(layer, [(part.gradients[layer], *n) for part, *n in parts]) for layer in layers
        }
        return gradient, scores, values, gradients

    def _by_input(self, layer, parts):
        """Join a layer's arrays of all queries, each with the numbers of rows fed and real; see ``batching``."""
        graph, size = self.model.graph, None
        if (
            hasattr(graph, "shape")
            and self.model.inputs[self._explain_input].shape[0] is None
            and graph.shape(layer).rank
        ):
            size = graph.shape(layer)[0]
        return _joined([batching.real_rows(array, fed, real, f"layer '{layer}'", size) for array, fed, real in parts])

    def _layout(self, layer):
        """Return how a layer's values are read; those that a server sends are ready to be used."""
        return self.model.layout(layer, self._explain_input).read if hasattr(self.model, "layout") else _same

    def _node_rules(self, rules):
        if rules is None:
            return None
        return rules(self.model.graph, self.model.input_node(self._explain_input), self.model.logits.split(":")[0])

    def _once(self, key, compute):
        if key not in self._memory:
            self._memory[key] = compute()
        return self._memory[key]


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _precise(array: np.ndarray) -> np.ndarray:
    """Return half precision as float32, in which methods compute; other types as they are."""
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _locked(array: np.ndarray) -> np.ndarray:
    """Return an array that a method cannot change by accident: other methods are given the same one."""
    array.flags.writeable = False
    return array


def _pieces(numbers: np.ndarray) -> list[tuple[int, int, int]]:
    """Return (value, start, stop) of each run of equal values."""
    starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
    return [
        (int(numbers[start]), int(start), int(stop))
        for start, stop in zip(starts, [*starts[1:], len(numbers)], strict=True)
    ]
