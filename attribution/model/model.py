"""A loaded SavedModel: scores, gradients and relevance of its inputs, batch by batch.

``Model`` is a value. ``model.at(...)`` is another one, a *view*: the same network at another input, inside, at another
position of its output, or with another score. Views count with their model, and share what is compiled.
"""

from __future__ import annotations

import collections
import functools
import numbers
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution import batching
from attribution.batching import Backward, Expected, Inputs, NodeRules, checked_feed, shown
from attribution.errors import BadInput, listed
from attribution.graph.layers import Layers, Layout
from attribution.graph.view import node_of
from attribution.lrp.composite import Composite
from attribution.model import other_inputs
from attribution.model.compiled import CompiledGraph, checked
from attribution.model.other_inputs import JoinedInputs, Step
from attribution.savedmodel.file import Source
from attribution.savedmodel.scores import LOGITS, OUTPUT, PROBABILITIES


class Model:
    """A SavedModel with one score per class, or a view of it. ``attribution.load_model`` makes one.

    Parameters
    ----------
    compiled
        The functions of its graph.
    source
        The files that it was loaded from.
    counts
        See below.
    options
        See below.
    explained
        The default input to explain; see ``at``.
    of, steps
        Of a view: the model that it is of, and what leads there.

    Attributes
    ----------
    score : str
        What the scores are: ``"logits"``, ``"probabilities"`` or ``"output"``, from the operations at the graph's end.
    score_names : tuple[str, ...]
        Which of these the file is known to give, the default first.
    options : dict[str, str]
        The options of loading that are not the default, and the score: with ``fingerprint``, everything that decides
        what the model computes.
    inputs : dict[str, tf.TensorSpec]
        Its inputs by name: the signature's, and in a view those that take their place.
    num_classes : int
        Number of scores per input.
    graph, logits
        The graph, and the name of its tensor of logits.
    counts : collections.Counter
        Rows that passed through the model since it was loaded, ``forward`` and ``backward`` (the latter with a forward
        pass each), and the number of ``forward_passes`` and ``backward_passes``. Padding counts.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        source: Source,
        counts: collections.Counter[str],
        options: Mapping[str, str],
        explained: str | None = None,
        of: Model | None = None,
        steps: tuple[Step, ...] = (),
    ) -> None:
        self._compiled, self._frozen, self._of, self._steps = compiled, compiled.frozen, of, steps
        self._explained = explained
        self.source, self.counts, self.options = source, counts, options
        self.graph, self.logits, self.inputs = compiled.graph, compiled.logits, compiled.frozen.inputs
        self.score, self.score_names = compiled.score, compiled.frozen.score_names
        self.num_classes = compiled.frozen.num_classes

    # The file, and the live network behind it.

    @property
    def path(self) -> pathlib.Path:
        """The directory that holds the network; of changed weights a temporary one, written on the first access."""
        return self.source.path

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the files that were loaded; ``BadInput`` if they have changed since."""
        return self.source.fingerprint

    @property
    def keeps_loaded(self) -> bool:
        """Whether what was loaded still computes, so that its variables must stay as they are."""
        return self._frozen.held is not None

    def load_file(self, tensors: Iterable[str] = ()) -> Any:
        """Load the SavedModel again, with all its signatures and its variables; see ``SavedFile.load``."""
        return self.source.load(tensors)

    def live_network(self) -> Any:
        """Return the live ``keras.Model`` that computes the same, ``None`` if none is known."""
        if self._compiled.live is None and self.source.live_network is not None:
            self._compiled.live = self.source.live_network(self)
        return self._compiled.live

    # Views.

    def at(
        self,
        input: str | None = None,
        *,
        layer: str | None = None,
        position: Sequence[int] | None = None,
        score: str | None = None,
        like: Mapping[str, np.ndarray] | None = None,
    ) -> Model:
        """Return a view, which answers the same queries at another input, layer or position, or for another score.

        Without arguments it is the view that ``explain`` uses by default. ``feed_of`` makes its inputs of this
        model's, ``as_given`` moves its maps back, and ``on`` takes it to another network.

        Parameters
        ----------
        input
            Name of an input, or of a tensor inside: a node, or a layer by its name. The view has it as an input of
            floating point, with its channels last. By default the only input of floating point; where the only input
            is of another type, the first tensor of floating point behind it. Several names separated by commas, or
            ``"all"`` for every input of floating point: these inputs are joined to one vector.
        layer
            Name of a layer as ``layer`` takes it, whose values are the view's input instead.
        position
            Other position of the scores, for a model that was loaded with one.
        score
            ``"logits"``: the view explains them, whatever the model explains.
        like
            A feed, whose sizes count where inputs that are joined leave theirs open.

        Raises
        ------
        BadInput
            If ``input`` is needed and not given, or has no gradient.
        """
        if position is not None or score is not None:
            place = tuple(np.atleast_1d(position).tolist()) if position is not None else None
            moved = () if place is None else (other_inputs.at_position(place),)
            view = self._view(moved, self._explained, score)
            return view if input is None and layer is None else view.at(input, layer=layer, like=like)
        together = [] if layer is not None else self.together(input)
        names = [self.layer(layer, input)] if layer is not None else together or [self._name(input)]
        steps: tuple[Step, ...] = ()
        view = self
        for name in names:
            if name not in view.inputs:
                steps += (other_inputs.at_tensor(name, view._node_inside(name)),)
                view = self._view(steps, name)
        if together:
            joined = JoinedInputs(_no_rows(view, names, like))
            return self._view((*steps, other_inputs.with_joined_inputs(joined)), joined.name)
        if view.has_channels_first(names[0]):
            steps += (other_inputs.with_channels_last(names[0]),)
        return self._view(steps, names[0])

    def _view(self, steps: tuple[Step, ...], explained: str | None, score: str | None = None) -> Model:
        compiled = self._compiled
        for step in steps:
            compiled = compiled.changed(step.key, step.change)
        if score not in (None, self.score):
            compiled = compiled.changed(score, lambda frozen: frozen, score)
        options = {**self.options, "score": compiled.score}  # results of a view are stored under a separate key
        if compiled.frozen.position != self._frozen.position:
            options["position"] = str(compiled.frozen.position)
        return Model(compiled, self.source, self.counts, options, explained, self, steps)

    def on(self, network: Model) -> Model:
        """Return this view of another network with the same graph; the network itself if this is no view."""
        if self._of is None:
            return network
        score = self.score if self.score != self._of.score else None
        return self._of.on(network)._view(self._steps, self._explained, score)

    @property
    def input(self) -> str:
        """Name of the input that a view explains; of a model that is no view, ``explained_input()``."""
        return self._explained if self._explained in self.inputs else self.explained_input()

    @property
    def channels_first(self) -> bool:
        """Whether the input has its channels first in the model that this view is of."""
        return any(step.moves_channels for step in self._steps)

    def feed_of(self, feed: Mapping[str, np.ndarray], batch_size: int | None = None) -> dict[str, np.ndarray]:
        """Return the feed of this view that a feed of its model makes, ``batch_size`` rows per pass.

        A tensor inside is computed, channels are moved to the end, inputs are joined.
        """
        feed, model = dict(feed), self._of or self
        for place, step in enumerate(self._steps):
            view = (self._of or self)._view(self._steps[: place + 1], None)
            if step.feed is not None:
                feed = step.feed(feed)
            else:
                feed[list(view.inputs)[-1]] = model._values(step.node, feed, batch_size)
            model = view
        return feed

    def _values(self, node: str, feed: Mapping[str, np.ndarray], batch_size: int | None) -> np.ndarray:
        """Return the values of a tensor inside."""
        function, parts = self._compiled.values(node), []
        for rows, real in self.chunks(_rows(feed), batch_size):
            arrays = (batching.take(feed[name], rows) for name in self.inputs)
            part = self._compiled.run(function, *arrays).numpy()
            self.counts.update(forward=len(part), forward_passes=1)
            parts.append(batching.real_rows(part, len(rows), real, f"tensor '{node}'"))
        if parts:
            return np.concatenate(parts)
        sizes = self.graph.shape(node)[1:] if self.graph.shape(node).rank else ()
        return np.zeros([0, *(size or 1 for size in sizes)], np.float32)  # no rows

    def joined(self, feed: Mapping[str, np.ndarray]) -> JoinedInputs | None:
        """Return the inputs of which the view's input is the vector, from its feed; ``None`` if that is one input."""
        joined = self._steps[-1].joined if self._steps else None
        return None if joined is None else joined.of(feed[self.input])

    def as_given(self, maps: np.ndarray, feed: Mapping[str, np.ndarray]) -> Any:
        """Return maps of this view, of its feed, with the axes of the model's input.

        Those without the channel axis are the same for both. Maps of several inputs are a mapping from name to array.
        """
        if (joined := self.joined(feed)) is not None:
            return joined.split(maps)
        is_moved = self.channels_first and maps.shape == feed[self.input].shape
        return other_inputs.channels_first(maps) if is_moved else maps

    # What is explained.

    def together(self, input: str | None = None) -> list[str]:
        """Return the names of the inputs that ``at(input)`` joins; none where one is explained alone.

        Raises
        ------
        BadInput
            If a name is empty or given twice.
        """
        input = input or self._explained
        if not isinstance(input, (str, type(None))):
            raise BadInput(
                f"explain_input must be the name of an input or of a tensor, not {input!r}; several names are one "
                "text, 'age,income'"
            )
        if input is None or input in self.inputs:
            return []
        if input == other_inputs.ALL:
            return self._floats()
        names = other_inputs.names_of(input)
        return [self._name(name) for name in names] if len(names) > 1 else []

    def explained_input(self, explain_input: str | None = None) -> str:
        """Return the name of the input to explain: the given one, or the model's only one of floating point.

        Raises
        ------
        BadInput
            If it is not an input, is not of floating point, or is missing where there are several.
        """
        explain_input = explain_input or self._explained
        floats = self._floats()
        if explain_input is None:
            if len(floats) == 1:
                return floats[0]
            if len(self.inputs) == 1:
                raise BadInput(self._has_no_gradient(next(iter(self.inputs))))
            raise BadInput(
                f"the model has the inputs {listed(self.inputs)}; say which to explain with explain_input=, several by "
                "comma, or 'all' of floating point"
            )
        if explain_input not in self.inputs:
            raise BadInput(f"the model has no input '{explain_input}'; its inputs are {listed(self.inputs)}")
        if explain_input not in floats:
            raise BadInput(self._has_no_gradient(explain_input))
        return explain_input

    def _name(self, input: str | None = None) -> str:
        """Return the name of what to explain, an input or a tensor inside; see ``at``."""
        input = input or self._explained
        with_rows = [name for name, spec in self.inputs.items() if spec.shape.rank != 0]
        if input is None and not self._floats() and len(with_rows) == 1:
            first = self._first_floats(with_rows[0])
            if len(first) == 1 and self.inputs[with_rows[0]].dtype.is_integer:
                return first[0]
            raise BadInput(self._has_no_gradient(with_rows[0]))
        if input is not None and input not in self.inputs:
            self._node_inside(input)  # raises if there is none
            return input
        return self.explained_input(input)

    def _floats(self) -> list[str]:
        """Return the names of the inputs of floating point that have rows."""
        return [name for name, spec in self.inputs.items() if spec.dtype.is_floating and spec.shape.rank != 0]

    def _first_floats(self, name: str) -> list[str]:
        return other_inputs.first_floats(self._frozen, self._frozen.input_nodes[name], node_of(self.logits))

    def _node_inside(self, name: str) -> str:
        """Return the node of a tensor inside, by its name."""
        return other_inputs.find_tensor(self._frozen, name, node_of(self.logits))

    def _has_no_gradient(self, name: str) -> str:
        text = f"input '{name}' is of type {self.inputs[name].dtype.name} and has no gradient"
        ways = []
        if first := self._first_floats(name):
            ways.append(f"name a tensor of floating point behind it, explain_input={listed(first[:5])}")
        if self.inputs[name].dtype == tf.string:
            ways.append("export a signature that takes what is read from the text, such as decoded pixels")
        return "; ".join([text, *([", or ".join(ways)] if ways else [])])

    # Names in the graph.

    def input_node(self, explain_input: str | None = None) -> str:
        """Return the graph's node of an input; see ``explained_input``."""
        return self._frozen.input_nodes[self.explained_input(explain_input)]

    def has_channels_first(self, name: str) -> bool:
        """Return whether an input is ``(N, channels, positions...)``, as PyTorch's networks take pictures."""
        return self._compiled.has_channels_first(self._frozen.input_nodes[name])

    def layer(self, name: str | None = None, explain_input: str | None = None) -> str:
        """Return the node of a layer by its name, or of the last one ahead of pooling and head.

        See ``attribution.graph.layers.Layers`` for the names that are understood, the default, and the errors.
        """
        if not isinstance(name, (str, type(None))):
            raise BadInput(f"layer must be the name of a layer, not {name!r}")
        found = self._layers(explain_input)
        return found.default if name is None else found.find(self._frozen.aliases.get(node_of(name), name))

    def layout(self, layer: str, explain_input: str | None = None) -> Layout:
        """Return what the axes of a layer, by its node, mean."""
        return self._layers(explain_input).layout(layer)

    def layers(self, explain_input: str | None = None) -> list[str]:
        """Return the node names of all layers for class activation maps, first to last."""
        return list(self._layers(explain_input).names)

    def _layers(self, explain_input: str | None) -> Layers:
        name = self._name(explain_input)
        return self._compiled.layers(self._frozen.input_nodes.get(name) or self._node_inside(name))

    def has_own_pass(self, layer: str) -> bool:
        """Return whether a layer, by its node, needs a separate pass.

        Batch normalization is computed with the layer before it in all other passes, so that what lies between the two
        does not occur in them.
        """
        return layer in self._compiled.folded.altered

    def compiled_unshared(self) -> CompiledGraph:
        """Return compiled functions that share nothing with the model's, so that their weights can be replaced."""
        return CompiledGraph(self._frozen, self.score, shared=False)

    # Queries.

    def feed(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """Check inputs against the signature and return them by name; see ``attribution.batching.checked_feed``."""
        expected = {
            name: Expected(
                spec.dtype.as_numpy_dtype,
                functools.partial(_fits, spec.shape),
                shown(spec.shape),
                spec.shape.rank == 0,
            )
            for name, spec in self.inputs.items()
        }
        return checked_feed(inputs, expected, "the model")

    def batch_size(self, wanted: int | None = None) -> int:
        """Return the rows per pass: those the signature prescribes, those wanted, or by the size of the network."""
        if wanted is None:
            return self._fixed_batch() or self._compiled.rows_of_pass
        if not isinstance(wanted, numbers.Integral) or isinstance(wanted, bool) or wanted < 1:
            raise BadInput(f"batch_size must be a whole number of at least 1, not {wanted!r}")
        return self._fixed_batch() or int(wanted)

    def scores(self, inputs: Inputs, batch_size: int | None = None) -> np.ndarray:
        """Return the scores of all classes.

        Parameters
        ----------
        inputs
            See ``feed``; N rows.
        batch_size
            Rows per pass; by default as many as the size of the network allows.

        Returns
        -------
        np.ndarray
            ``(N, num_classes)`` float32; logits, or probabilities in [0, 1].

        Raises
        ------
        BadInput
            If inputs do not fit or a score is NaN or infinite.
        """
        feed = self.feed(inputs)
        total = _rows(feed)
        scores = np.empty((total, self.num_classes), np.float32)
        for rows, real in self.chunks(total, batch_size):
            scores[rows[:real]] = self.forward({name: batching.take(array, rows) for name, array in feed.items()})[
                :real
            ]
        return scores

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Return scores of this model, ``(..., num_classes)``, as probabilities in [0, 1].

        Probabilities stay as they are. Of logits they are the sigmoid or the softmax in which the file ends, or the
        softmax where it ends in the logits.

        Raises
        ------
        BadInput
            If the scores are not known to be logits or probabilities.
        """
        from scipy.special import expit, softmax

        if self.score == PROBABILITIES or (self.score == OUTPUT and self._frozen.head.gives_probabilities):
            return scores
        if self.score != LOGITS or PROBABILITIES not in self.score_names:
            raise BadInput(
                f"probabilities are needed, and the scores of {self.path} are not known to have any: its score is "
                f"{self.score} of {self.num_classes} class{'es' * (self.num_classes > 1)}; export the model with the "
                "softmax or sigmoid at its end"
            )
        return np.asarray(expit(scores) if self._frozen.head.activation == "Sigmoid" else softmax(scores, axis=-1))

    def predict(self, inputs: Inputs, batch_size: int | None = None) -> np.ndarray:
        """Return the class of the highest score, ``(N,)`` int64."""
        return np.asarray(np.argmax(self.scores(inputs, batch_size), axis=1))

    def chunks(self, total: int, batch_size: int | None) -> Iterator[tuple[np.ndarray, int]]:
        """Yield row indices for one pass each (``attribution.batching.chunks``)."""
        return batching.chunks(total, self.batch_size(batch_size), equal=self._fixed_batch() is None)

    def forward(self, feed: Mapping[str, np.ndarray]) -> np.ndarray:
        """Run one forward pass of a chunk and return its scores ``(rows, num_classes)``."""
        scores = self._compiled.run(self._compiled.forward(), *feed.values()).numpy()
        self.counts.update(forward=len(scores), forward_passes=1)
        return checked(scores, _rows(feed))

    def backward(
        self,
        feed: Mapping[str, np.ndarray],
        targets: np.ndarray,
        explain_input: str,
        layers: Sequence[str] = (),
        of_input: bool = True,
        rules: NodeRules | None = None,
    ) -> Backward:
        """Run one forward and backward pass of a chunk.

        Parameters
        ----------
        feed
            Input name to array, as many rows in each.
        targets
            ``(rows,)`` int32; -1 is the predicted class.
        explain_input
            Name of the input.
        layers
            Node names of layers whose values and gradients are wanted too.
        of_input
            Whether the pass goes on to the input.
        rules
            Mapping from node name to the name of a gradient registered with ``tf.RegisterGradient``.

        Returns
        -------
        Backward
        """
        self._check_parts()
        function = self._compiled.backward(explain_input, tuple(layers), of_input, tuple(sorted((rules or {}).items())))
        scores, input_gradient, values, gradients = self._compiled.run(function, targets, *feed.values())
        self.counts.update(backward=len(targets), backward_passes=1)
        return Backward(
            scores=checked(scores.numpy(), len(targets)),
            input_gradient=input_gradient.numpy() if of_input else None,
            values=dict(zip(layers, (value.numpy() for value in values), strict=True)),
            gradients=dict(zip(layers, (gradient.numpy() for gradient in gradients), strict=True)),
        )

    def multipliers(
        self,
        feed: Mapping[str, np.ndarray],
        baseline: np.ndarray,
        targets: np.ndarray,
        explain_input: str,
        cross: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return DeepLIFT's multipliers of one chunk, of the input's shape, and the target logits ``(2, rows)``.

        These are at the input and at the baseline. See ``attribution.model._deeplift_rules``.

        Parameters
        ----------
        feed, targets, explain_input
            As for ``backward``.
        baseline
            What the input is compared with, of its shape.
        cross
            Whether maxima have their own rule; otherwise they pass multipliers to the winner at the input.

        Raises
        ------
        BadInput
            If an operation has no rule.
        """
        self._check_parts()
        scores, found, ends = self._compiled.run(
            self._compiled.multipliers(explain_input, cross), targets, baseline, *feed.values()
        )
        self.counts.update(forward=len(targets), forward_passes=1, backward=len(targets), backward_passes=1)
        checked(scores.numpy(), len(targets))
        return np.asarray(found.numpy()), np.asarray(ends.numpy())

    def full_gradient(
        self, feed: Mapping[str, np.ndarray], targets: np.ndarray, explain_input: str, by_channel: bool = False
    ) -> tuple[dict[str, float], list[np.ndarray]]:
        """Decompose the target logits of one chunk by FullGrad (``attribution.methods.gradients``).

        Parameters
        ----------
        feed, targets, explain_input
            As for ``backward``.
        by_channel
            Whether ψ scales each channel of a layer by itself.

        Returns
        -------
        terms : dict[str, float]
            Input times gradient, by the input's name, and bias times gradient of every node that has a bias, each
            summed over rows, channels and positions. Their sum is the sum of the rows' target logits.
        maps : list[np.ndarray]
            ψ of the input and of each layer with positions, not yet upsampled: ``(rows, positions...)``.

        Raises
        ------
        BadInput
            If an operation has no defined bias.
        """
        layers = self._layers(explain_input)
        biases = self._compiled.bias_rules(explain_input)
        layouts = {name: layers.layout(name) for name in biases if layers.has_positions(name)}
        layouts = {name: layout for name, layout in layouts.items() if layout.covers == "positions"}
        axes = tuple((name, 1 if layout.channels_first else -1) for name, layout in layouts.items())
        function = self._compiled.full_gradient(explain_input, tuple(biases.items()), axes, by_channel)
        scores, terms, (of_input, *found) = self._compiled.run(function, targets, *feed.values())
        self.counts.update(backward=len(targets), backward_passes=1)
        checked(scores.numpy(), len(targets))
        maps = [layout.read(one.numpy()) for layout, one in zip(layouts.values(), found, strict=True)]
        named = dict(zip([explain_input, *biases], map(float, terms), strict=True))
        return named, [one[..., 0] for one in (of_input.numpy(), *maps)]

    def relevance(
        self,
        feed: Mapping[str, np.ndarray],
        targets: np.ndarray,
        explain_input: str,
        composite: Composite,
        layers: Sequence[str] | None = None,
    ) -> Any:
        """Run one chunk forward and propagate the relevance of its targets' logits back.

        Parameters
        ----------
        feed, targets, explain_input
            As for ``backward``.
        composite
            A ``lrp.Composite``.
        layers
            Node names whose relevance is wanted instead of the input's.

        Returns
        -------
        np.ndarray or dict[str, np.ndarray]
            Relevance of the input, of its shape; or of each layer's output, by node name.

        Raises
        ------
        BadInput
            If an operation has no rule.
        """
        self._check_parts()
        wanted = (self.input_node(explain_input),) if layers is None else tuple(layers)
        function = self._compiled.relevance(explain_input, composite, wanted)
        scores, *found = self._compiled.run(function, targets, *feed.values())
        self.counts.update(backward=len(targets), backward_passes=1)
        checked(scores.numpy(), len(targets))
        found = [relevance.numpy() for relevance in found]
        return found[0] if layers is None else dict(zip(wanted, found, strict=True))

    def _check_parts(self) -> None:
        """Refuse inputs that are joined where the score has no gradient for one of them."""
        if not (self._of and self._steps and (joined := self._steps[-1].joined)):
            return
        names = tuple(joined.arrays)
        if missing := self._of._view(self._steps[:-1], None)._compiled.without_gradient(names):
            others = ",".join(name for name in names if name not in missing)
            raise BadInput(
                f"the score does not depend on {listed(missing)} through differentiable operations"
                + (f"; explain the others: explain_input='{others}'" if others else "")
            )

    def _fixed_batch(self) -> int | None:
        sizes = [spec.shape[0] for spec in self.inputs.values() if spec.shape.rank and spec.shape[0] is not None]
        return sizes[0] if sizes else None

    def __repr__(self) -> str:
        return f"Model({str(self.path)!r}, score={self.score!r}, inputs={list(self.inputs)})"


def _no_rows(model: Model, names: Iterable[str], like: Mapping[str, np.ndarray] | None) -> dict[str, np.ndarray]:
    """Return no rows of some inputs of a model; sizes that it leaves open are those that a feed leads to."""
    shapes = {name: model.inputs[name].shape[1:] for name in names}
    if open_ := [name for name, shape in shapes.items() if not shape.is_fully_defined()]:
        if like is None:
            raise BadInput(f"the size of {listed(open_)} is open; give like=, inputs that have it")
        row = model.feed_of({name: array[:1] if array.ndim else array for name, array in like.items()}, 1)
        shapes |= {name: row[name].shape[1:] for name in open_}
    return {name: np.zeros((0, *shape), model.inputs[name].dtype.as_numpy_dtype) for name, shape in shapes.items()}


def _rows(feed: Mapping[str, np.ndarray]) -> int:
    """Return how many rows a feed has; single values have none."""
    return next((len(array) for array in feed.values() if array.ndim), 1)


def _fits(expected: tf.TensorShape, shape: tuple[int, ...]) -> bool:
    """Return whether an array of a shape, of however many rows, is what a signature expects."""
    return expected.rank is None or expected.is_compatible_with((*expected[:1], *shape[1:]))
