"""Queries of a model about a batch of inputs; each pass runs once, however many methods need it.

``ModelQueries`` is the only argument of an attribution method besides its parameters. A custom method is a function
``method(queries, **parameters)`` that returns one map per input. The arrays that it receives are read-only.
docs/own_models.md lists the queries with their costs.

Types describe points other than the inputs, such as points of a path or noisy copies:

Variant
    ``variant(number, rows)`` returns variant ``number`` of some inputs, ``(R, ...)``. ``rows`` is ``(R,)`` integer: the
    inputs' positions in ``queries.inputs``. ``lambda number, rows: queries.inputs[rows] / (number + 1)`` is x, then
    x / 2, and so on. It is called once or more for each number, in rising order.
PairVariant
    ``variant(numbers, rows)`` returns the variants of one pass, ``(P, ...)``: of each pair of a number and a row.
Grid
    An integer: the number of variants of every input. Or a sequence with one integer array for each variant: the rows
    that have it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from attribution import batching
from attribution.batching import NodeRules, Rules, as_array, converts
from attribution.errors import BadInput
from attribution.lrp.composite import Composite

Variant = Callable[[int, np.ndarray], np.ndarray]
PairVariant = Callable[[np.ndarray, np.ndarray], np.ndarray]
Grid = int | Sequence[np.ndarray]
Result = TypeVar("Result")


class NotFiniteVariant(BadInput):
    """A score, or a gradient of it, is NaN or infinite at other points than the inputs, such as a baseline."""

    def __init__(self, where: str = "at an input that the method changed") -> None:
        super().__init__(f"the network's score or its gradient is NaN or infinite {where}")


@dataclasses.dataclass(frozen=True)
class RequiredQueries:
    """Queries that a method declares in advance, so that methods explained together can share one pass.

    Attributes
    ----------
    input_gradient
        ``ModelQueries.input_gradient()``.
    layers
        Layers of ``ModelQueries.layer_gradient``; ``None`` among them is the default layer.
    squares
        Second moments of ``ModelQueries.gradient_moments``.
    """

    input_gradient: bool = False
    layers: frozenset[str | None] = frozenset()
    squares: bool = False

    def __or__(self, other: RequiredQueries) -> RequiredQueries:
        return RequiredQueries(
            self.input_gradient or other.input_gradient,
            self.layers | other.layers,
            self.squares or other.squares,
        )


@dataclasses.dataclass(frozen=True)
class BatchPosition:
    """Position of a batch among all inputs.

    Attributes
    ----------
    rows
        Rows of the batch.
    total
        Number of all inputs.
    channels_first
        Whether the caller's inputs have their channels first; those of the batch have them last.
    """

    rows: slice
    total: int
    channels_first: bool = False


class ModelQueries:
    """A batch of inputs, their targets, and the results of the passes that explain them.

    Parameters
    ----------
    model : attribution.model.model.Model
        The model.
    feed
        Input name to array ``(N, ...)``, or to a single number.
    explain_input
        Name of the explained input.
    targets
        ``(N,)`` int32: classes to explain; ``None`` for the predicted ones.
    batch_size
        Rows in one pass.
    seed
        Seed of the run.
    keys
        N names or indices, which seed random numbers per input.
    expected
        Queries of the methods explained together.
    position
        Position of the batch among all inputs; by default it is all of them.

    Attributes
    ----------
    inputs : np.ndarray
        ``(N, ...)`` float32, or float64 if the model takes that: the explained input.
    ends : np.ndarray or None
        ``(2, N)``: target scores at the input and the baseline, set by a method whose maps' sum must be their
        difference and whose passes give both.
    """

    def __init__(
        self,
        model: Any,
        feed: Mapping[str, np.ndarray],
        explain_input: str,
        targets: np.ndarray | None,
        batch_size: int,
        seed: int,
        keys: Sequence[Any],
        expected: RequiredQueries | None = None,
        position: BatchPosition | None = None,
    ) -> None:
        self.model = model
        precision = np.float64 if feed[explain_input].dtype == np.float64 else np.float32
        self.inputs = read_only(feed[explain_input].astype(precision, copy=False))
        self.seed = seed
        self.keys = keys if isinstance(keys, range) else tuple(keys)
        self._feed = feed
        self._explained = explain_input
        self._targets, self._given = targets, targets is not None
        self._batch_size = batch_size
        self._expected = expected or RequiredQueries()
        self._position = position or BatchPosition(slice(None), len(self.inputs))
        self._memory: dict[Any, Any] = {}
        self.ends: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def feed(self) -> Mapping[str, np.ndarray]:
        """All inputs of the model by name, ``(N, ...)`` each, the explained one included."""
        return {name: read_only(np.asarray(array)) for name, array in self._feed.items()}

    @property
    def has_targets(self) -> bool:
        """Whether the classes to explain were given; else they are the predicted ones."""
        return self._given

    def given(self, value: Any) -> np.ndarray:
        """Return a caller's number or array for all inputs as one for this batch.

        Parameters
        ----------
        value
            A number, or an array that broadcasts to the caller's inputs. An array with as many axes as these has a row
            for each of them, or one for all.

        Returns
        -------
        np.ndarray
            Float32 that broadcasts to ``inputs``.

        Raises
        ------
        BadInput
            If it does not broadcast.
        """
        array = self.batch_rows(self.channels_last(value), self.inputs.ndim)
        if not broadcasts(array.shape, self.inputs.shape) or not np.isfinite(array).all():
            raise BadInput(
                f"a finite number or array is needed that broadcasts to {self._position.total} inputs of shape "
                f"{self.inputs.shape[1:]}, not one of shape {np.shape(value)}"
            )
        return array

    def batch_rows(self, array: np.ndarray, ndim: int) -> np.ndarray:
        """Return the rows of this batch where an array has ``ndim`` axes and so a row for each of the caller's inputs.

        Raises
        ------
        BadInput
            If it has neither so many rows nor one for all.
        """
        if array.ndim != ndim or len(array) == 1:
            return array
        if len(array) != self._position.total:
            raise BadInput(
                f"an array of {len(array)} rows for {self._position.total} inputs; give one for each, or one"
            )
        return array[self._position.rows]

    def channels_last(self, value: Any) -> np.ndarray:
        """Return an array in the caller's layout as float32 in that of ``inputs``, whose channels are last."""
        given = as_array(value, "a number or an array")
        if not converts(given.dtype, np.dtype(np.float32)):
            raise BadInput(f"a number or an array of real numbers is needed, not {given.dtype}")
        with np.errstate(over="ignore"):  # ``given`` refuses infinite values
            array = given.astype(np.float32)
        if self._position.channels_first and array.ndim >= self.inputs.ndim - 1 and array.ndim > 0:
            return np.moveaxis(array, -self.inputs.ndim + 1, -1)
        return array

    @property
    def targets(self) -> np.ndarray:
        """``(N,)`` int32: the classes to explain, by default the predicted ones."""
        found = self._known_targets()
        if found is None:
            found = self._once("targets", lambda: self.scores.argmax(axis=1).astype(np.int32))
        return read_only(found)

    def _known_targets(self) -> np.ndarray | None:
        """Return the targets given, or those that a pass has predicted."""
        return self._memory.get("targets") if self._targets is None else self._targets

    @property
    def scores(self) -> np.ndarray:
        """``(N, classes)`` float32: scores of the inputs."""
        return self._once("scores", lambda: read_only(self.model.scores(self._feed, self._batch_size)))

    @property
    def target_scores(self) -> np.ndarray:
        """``(N,)`` float32: score of each input's target."""
        return np.asarray(self.scores[np.arange(len(self)), self.targets])

    def of_logits(self) -> ModelQueries:
        """Return queries of the same inputs and targets whose scores are logits, whatever the model explains."""

        def of_logits() -> ModelQueries:
            queries = copy.copy(self)
            queries.model, queries._targets = self.model.at(score="logits"), self.targets
            queries._expected, queries._memory = RequiredQueries(), {}
            return queries

        return self if self.model.score == "logits" else self._once("logits", of_logits)

    @property
    def keras_model(self) -> Any:
        """The live ``keras.Model`` behind the SavedModel, with its weights, for methods of other libraries.

        Raises ``BadInput`` if there is none; see ``attribution.load_model``.
        """
        network = self.model.live_network() if hasattr(self.model, "live_network") else None  # not of a served model
        if network is None:
            raise BadInput(
                "this method needs the live Keras network behind the SavedModel; load the network itself, or its "
                ".keras file, instead of the SavedModel"
            )
        return network

    def generator(self, row: int, purpose: str) -> np.random.Generator:
        """Return a random generator that depends only on the run's seed, the input's key and the purpose."""
        return batching.generator(self.seed, self.keys[row], purpose)

    def input_gradient(self, rules: Rules | None = None) -> np.ndarray:
        """Return the gradient of the target score at the inputs, of their shape; see ``variant_gradients`` for others.

        Parameters
        ----------
        rules
            Replace the gradients of some nodes by registered ones; ``None`` is the true gradient.

        Raises
        ------
        TypeError
            If ``rules`` is not a function, for example an array of other inputs.
        """
        if rules is not None:
            if not callable(rules):
                raise TypeError(
                    f"input_gradient() takes no {type(rules).__name__}: it is the gradient at queries.inputs; for "
                    "other points, call variant_gradients(1, lambda number, rows: points[rows])"
                )
            return self._once(("modified", rules), lambda: self._backward((), True, self._node_rules(rules))[0])
        if "input" not in self._memory:
            self._joint_backward(of_input=True)
        gradient: np.ndarray = self._memory["input"]
        return gradient

    def gradient_scores(self) -> np.ndarray:
        """Return the target scores ``(N,)`` of the pass of ``input_gradient``."""
        self.input_gradient()
        return np.asarray(self._memory["scores with the gradient"][np.arange(len(self)), self.targets])

    def relevance(self, composite: Composite) -> np.ndarray:
        """Return the relevance of the inputs by a composite of LRP rules, float32 of their shape."""

        def run() -> np.ndarray:
            relevance = np.empty(self.inputs.shape, np.float32)
            for rows, real, feed, targets in self._passes():
                relevance[rows[:real]] = self.model.relevance(feed, targets, self._explained, composite)[:real]
            return read_only(relevance)

        return self._once(composite, run)

    def multipliers(self, baseline: np.ndarray, cross: bool = True) -> np.ndarray:
        """Return DeepLIFT's multipliers, float32 of the inputs' shape, for a baseline that broadcasts to them.

        ``cross`` is whether maxima share their difference between the winners at the input and at the baseline.
        """
        baseline = np.broadcast_to(baseline, self.inputs.shape).astype(self._feed[self._explained].dtype)
        multipliers, ends = np.empty(self.inputs.shape, np.float32), np.empty((2, len(self)))
        for rows, real, feed, targets in self._passes():
            part, logits = self.model.multipliers(feed, baseline[rows], targets, self._explained, cross)
            multipliers[rows[:real]], ends[:, rows[:real]] = part[:real], logits[:, :real]
        if not np.isfinite(multipliers).all():
            raise NotFiniteVariant
        self.ends = ends
        return multipliers

    def full_gradient(self, by_channel: bool = False) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Yield the rows of each pass and ψ of FullGrad's terms, which may have more rows (``Model.full_gradient``).

        Raises
        ------
        BadInput
            If the model is behind a server, or an operation has no defined bias.
        """
        if not hasattr(self.model, "full_gradient"):
            raise BadInput(f"{self.model.path} does not show its biases; explain the file itself")
        for rows, real, feed, targets in self._passes():
            yield rows[:real], self.model.full_gradient(feed, targets, self._explained, by_channel)[1]

    def layer_gradient(self, layer: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return a layer's values and the gradient of the target score, ``(N, positions..., channels)`` each.

        Channels are moved to the end and tokens to their grid. ``layer`` is a name as ``Model.layer`` takes it, by
        default the last layer before pooling and head.
        """
        node = self.model.layer(layer, self._explained)
        if ("layer", node) not in self._memory:
            self._joint_backward(layers=(node,))
        values, gradients = self._memory["layer", node]
        return values, gradients

    def map_shape(self, layer: str | None = None) -> tuple[int, ...] | None:
        """Return the axes of ``inputs`` that a layer's positions are, as the shape that its maps are resized to.

        These are the positions; all axes but the first, where the network adds an axis of channels itself; or ``None``
        if the layer's positions are no axes of the input, such as a spectrogram's. ``layer`` is as in
        ``layer_gradient``.
        """
        if not hasattr(self.model, "layout"):  # a served model
            return self.inputs.shape[1:-1]
        shape: tuple[int, ...] | None = self._layer_and_layout(layer)[1].map_shape(self.inputs.shape)
        return shape

    def mask_shape(self, layer: str | None = None) -> tuple[int, ...]:
        """Return ``map_shape``, for masks that a layer's channels lay over the input.

        Raises
        ------
        BadInput
            If the layer's positions are no axes of the input.
        """
        shape = self.map_shape(layer)
        if shape is None:
            node, layout = self._layer_and_layout(layer)
            hint = f"; explain the tensor where they begin: explain_input='{layout.origin}'" if layout.origin else ""
            raise BadInput(f"the positions of layer '{node}' are no axes of the input and give no mask of it{hint}")
        return shape

    def _layer_and_layout(self, layer: str | None) -> tuple[str, Any]:
        node = self.model.layer(layer, self._explained)
        return node, self.model.layout(node, self._explained)

    def at_layer(self, layer: str | None = None) -> tuple[ModelQueries, int]:
        """Return queries of the rest of the model, whose ``inputs`` are a layer's values, and their axis of channels.

        ``layer`` is as in ``layer_gradient``, but axes are not moved and tokens not brought to their grid.

        Raises
        ------
        BadInput
            If the model is behind a server, which computes whole networks only.
        """
        if not hasattr(self.model, "at"):
            raise BadInput(f"{self.model.path} does not compute from a layer on; explain the file itself")
        node = self.model.layer(layer, self._explained)
        rest = self.model.at(self._explained, layer=node)
        channels_first = self.model.layout(node, self._explained).channels_first and not rest.channels_first
        feed = rest.feed_of(self._feed, self._batch_size)
        queries = ModelQueries(rest, feed, rest.input, self.targets, self._batch_size, self.seed, self.keys)
        return queries, 1 if channels_first else queries.inputs.ndim - 1

    def attention_nodes(self) -> list[str]:
        """Return the nodes of Softmax operations with heads between input and score, first to last."""
        graph, source = self.model.graph, self.model.input_node(self._explained)
        if not hasattr(graph, "shape"):
            raise BadInput(f"{self.model.path} does not show its attention; explain the file itself")
        path = graph.between(source, self.model.logits.split(":")[0])
        return [name for name in path if graph.nodes[name].op == "Softmax" and graph.shape(name).rank == 4]

    def node_gradients(self, nodes: Sequence[str]) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return each node's values and the gradient of the target score with respect to them, of any shape."""

        def run() -> tuple[tuple[np.ndarray, np.ndarray], ...]:
            _, _, values, gradients = self._backward(tuple(nodes), False, None)
            return tuple((read_only(values[node]), read_only(gradients[node])) for node in nodes)

        return self._once(("nodes", *nodes), run)

    def gradient_moments(
        self,
        count: int,
        variant: Variant,
        key: Any = None,
        changed: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> batching.Moments:
        """Return the moments of the gradient over ``count`` variants of each input, streamed; see ``Variant``.

        With a ``key`` they are cached for other methods that need the same moments. ``changed(gradients, scores)``
        returns what takes the gradients' place, of their shape.
        """

        def run() -> batching.Moments:
            moments = batching.Moments(self.inputs.shape, squares=self._expected.squares)
            for _, rows, gradients, scores in self.variant_backward(count, variant):
                moments.add(rows, changed(gradients, scores) if changed else gradients)
            return moments

        return run() if key is None else self.shared(key, run)

    def variant_gradients(
        self, rows: Grid, variant: Variant, rules: Rules | None = None
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield ``(number, rows, gradients)`` of the target score at variants of the inputs; see ``Grid``, ``Variant``.

        ``gradients`` is ``(R, ...)`` at variant ``number`` of the inputs ``rows``, ``(R,)``. A variant may come in
        several pieces, and all variants share passes of the batch size.
        """
        for number, found, gradients, _ in self.variant_backward(rows, variant, rules):
            yield number, found, gradients

    def variant_backward(
        self, rows: Grid, variant: Variant, rules: Rules | None = None
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield ``(number, rows, gradients, target scores)`` as ``variant_gradients`` does, from the same passes."""
        node_rules = self._node_rules(rules)
        if self._known_targets() is None:
            # The function that gradients need anyway predicts the targets: a second one, for scores alone, would hold
            # the model's weights once more.
            self.input_gradient()

        def run(feed: Mapping[str, np.ndarray], targets: np.ndarray) -> tuple[Any, ...]:
            result = self.model.backward(feed, targets, self._explained, rules=node_rules)
            return result.input_gradient, result.scores[np.arange(len(targets)), targets]

        yield from self._stream(rows, variant, run)

    def variant_scores(
        self, rows: Grid, variant: Variant, softmax: bool = False
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield ``(number, rows, target scores)`` as ``variant_gradients`` does, by forward passes alone.

        With ``softmax`` they are shares of a softmax over the classes, whatever the model's score is.
        """
        yield from self._stream(rows, variant, self._softmax if softmax else self._forward)

    def pair_scores(self, rows: Grid, variant: PairVariant) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield ``(numbers, rows, target scores)``, ``(P,)`` each, of one pass after another."""
        yield from self._pair_stream(rows, variant, self._forward)

    def _forward(self, feed: Mapping[str, np.ndarray], targets: np.ndarray) -> tuple[np.ndarray]:
        return (self.model.forward(feed)[np.arange(len(targets)), targets],)

    def _softmax(self, feed: Mapping[str, np.ndarray], targets: np.ndarray) -> tuple[np.ndarray]:
        scores = self.model.forward(feed)
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        return (exponentials[np.arange(len(targets)), targets] / exponentials.sum(axis=1),)

    def shared(self, key: Any, compute: Callable[[], Result]) -> Result:
        """Return ``compute()``, computed at the first call with this key and cached for the other methods."""
        return self._once(("shared", key), compute)

    def _once(self, key: Any, compute: Callable[[], Result]) -> Result:
        if key not in self._memory:
            self._memory[key] = compute()
        result: Result = self._memory[key]
        return result

    def _stream(
        self, grid: Grid, variant: Variant, run: Callable[[Mapping[str, np.ndarray], np.ndarray], tuple[Any, ...]]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the results of ``_pair_stream`` in pieces of one variant each."""

        def changed(numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return _joined([variant(number, rows[start:stop]) for number, start, stop in batching.pieces(numbers)])

        for numbers, rows, *results in self._pair_stream(grid, changed, run):
            for number, start, stop in batching.pieces(numbers):
                yield number, rows[start:stop], *(result[start:stop] for result in results)

    def _pair_stream(
        self, grid: Grid, variant: PairVariant, run: Callable[[Mapping[str, np.ndarray], np.ndarray], tuple[Any, ...]]
    ) -> Iterator[tuple[Any, ...]]:
        """Fill passes with (variant, input) pairs, variant by variant, and yield them with their results."""
        if isinstance(grid, int):
            grid = [np.arange(len(self))] * grid
        numbers = np.repeat(np.arange(len(grid)), [len(rows) for rows in grid])
        inputs = np.concatenate([np.asarray(rows, np.int64) for rows in [(), *grid]])
        targets = self.targets
        for pairs, real in self.model.chunks(len(numbers), self._batch_size):
            rows = inputs[pairs]
            changed = variant(numbers[pairs[:real]], rows[:real])
            variants = _joined([changed, *[changed[-1:]] * (len(pairs) - real)])
            variants = variants.astype(self._feed[self._explained].dtype, copy=False)
            feed = {
                name: variants if name == self._explained else array[rows] if array.ndim else array
                for name, array in self._feed.items()
            }
            try:
                results = run(feed, targets[rows])
            except batching.NotFinite as error:
                raise NotFiniteVariant from error
            if not all(np.isfinite(result).all() for result in results):
                raise NotFiniteVariant
            yield numbers[pairs[:real]], rows[:real], *(result[:real] for result in results)

    def _passes(self) -> Iterator[tuple[np.ndarray, int, dict[str, np.ndarray], np.ndarray]]:
        """Yield the rows of each pass, the number of them that are not padding, their feed and their targets."""
        known = self._known_targets()
        targets = np.full(len(self), -1, np.int32) if known is None else known
        for rows, real in self.model.chunks(len(self), self._batch_size):
            yield rows, real, {name: batching.take(array, rows) for name, array in self._feed.items()}, targets[rows]

    def _joint_backward(self, of_input: bool = False, layers: tuple[str, ...] = ()) -> None:
        """Run one backward pass for the current query and for those declared in advance."""
        if not any(map(self.model.has_own_pass, layers)):
            of_input = of_input or (self._expected.input_gradient and "input" not in self._memory)
            known = [self.model.layer(name, self._explained) for name in sorted(self._expected.layers, key=str)]
            can_share = [
                one for one in known if ("layer", one) not in self._memory and not self.model.has_own_pass(one)
            ]
            layers = tuple(dict.fromkeys([*layers, *can_share]))
        gradient, scores, values, gradients = self._backward(layers, of_input, None)
        if of_input:
            self._memory["input"], self._memory["scores with the gradient"] = gradient, scores
        for layer in layers:
            both = values[layer], gradients[layer]
            if hasattr(self.model, "layout"):  # a server's have their channels last already
                both = tuple(map(self.model.layout(layer, self._explained).read, both))
            self._memory["layer", layer] = tuple(map(read_only, both))
        if self._known_targets() is None:  # the pass has predicted the classes that it explained
            self._memory["targets"] = scores.argmax(axis=1).astype(np.int32)

    def _backward(
        self, layers: tuple[str, ...], of_input: bool, node_rules: NodeRules | None
    ) -> tuple[Any, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Run backward passes over all inputs; return input gradient, scores, and values and gradients by layer."""
        parts: list[tuple[Any, int, int]] = []
        for rows, real, feed, targets in self._passes():
            result = self.model.backward(feed, targets, self._explained, layers, of_input, node_rules)
            parts.append((result, len(rows), real))
        gradient = read_only(_joined([part.input_gradient[:real] for part, _, real in parts])) if of_input else None
        scores = _joined([part.scores[:real] for part, _, real in parts])
        values = {layer: self._by_input(layer, [(part.values[layer], *n) for part, *n in parts]) for layer in layers}
        gradients = {
            layer: self._by_input(layer, [(part.gradients[layer], *n) for part, *n in parts]) for layer in layers
        }
        return gradient, scores, values, gradients

    def _by_input(self, layer: str, parts: list[tuple[Any, ...]]) -> np.ndarray:
        """Join a layer's arrays of all passes, each with the numbers of rows fed and real; see ``batching``."""
        graph, size = self.model.graph, None
        has_shapes = hasattr(graph, "shape") and self.model.inputs[self._explained].shape[0] is None
        if has_shapes and graph.shape(layer).rank:
            size = graph.shape(layer)[0]
        return _joined([batching.real_rows(array, fed, real, f"layer '{layer}'", size) for array, fed, real in parts])

    def _node_rules(self, rules: Rules | None) -> NodeRules | None:
        if rules is None:
            return None
        return rules(self.model.graph, self.model.input_node(self._explained), self.model.logits.split(":")[0])


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Return whether an array of one shape broadcasts to another shape."""
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def _joined(parts: list[Any]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of an array that stays read-only, because several methods receive it.

    Its base is a read-only buffer: ``setflags(write=True)`` is refused, and ``base`` is no array to write to.
    """
    return np.asarray(memoryview(array).toreadonly())  # type: ignore[arg-type]
