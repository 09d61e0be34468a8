"""A loaded SavedModel: scores, gradients and relevance of its inputs, batch by batch."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import numbers
import os
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph import layers
from attribution.graph.layers import Layers
from attribution.graph.view import node_of
from attribution.lrp.composite import Composite
from attribution.model import _loading_checks, _other_inputs, _output_head, batching, op_allowlist, saved_model
from attribution.model._other_inputs import JoinedInputs
from attribution.model._output_head import LOGITS, OUTPUT, PROBABILITIES, SCORES
from attribution.model.batching import Expected, checked_feed, checked_targets
from attribution.model.compiled import CompiledGraph
from attribution.model.protocols import Backward, Inputs, NodeRules
from attribution.model.saved_model import FrozenModel
from attribution.model_paths import content_of_array, file_states, find_saved_model, fingerprint

# What ``Model.options`` holds.
_OPTIONS = ("score", "signature", "inputs", "output", "position", "explain_input", "jit_compile", "given")


def load_model(
    path: str | os.PathLike[str],
    *,
    score: str | None = None,
    signature: str | None = None,
    inputs: Any = None,
    output: str | None = None,
    position: Sequence[int] | str | None = None,
    explain_input: str | None = None,
    jit_compile: bool = False,
    loaded: Any = None,
    given: Mapping[str, Any] | None = None,
) -> Model:
    """Load a SavedModel to be explained.

    Parameters
    ----------
    path
        Directory of the SavedModel, or its parent with numbered versions.
    score
        Scores to explain: ``"logits"``, ``"probabilities"``, or ``"output"``, the file's output as it is. A softmax,
        sigmoid or log-softmax at the end (behind moves of axes, reshapes included) gives logits and probabilities. An
        affine end is logits. Any other end is the output, which is also taken for wanted logits; probabilities are
        refused. By default the logits, else the output.
    signature, inputs, output
        See ``attribution.model.saved_model.freeze``; needed only where the file has several.
    position
        For an output with axes between batch and classes, such as a segmentation map ``(N, H, W, classes)``: the
        position whose scores are explained, as ``(row, column)``; or ``"per_row"``, for a position
        of each row: the model then has one more input, ``position``, whole numbers ``(N, axes)``. The last axis must be
        that of the classes; a softmax over another one is refused, and a sigmoid or logits do not show it.
    explain_input
        What is explained where a call names nothing else; see ``attribution.explain``.
    jit_compile
        Compile with XLA. Worth it on a GPU. On a CPU small networks of signals are faster with it, networks of images
        slower, and the first call takes several times as long.
    loaded
        The result of ``attribution.model.saved_model.load`` for this path, if the caller has it. Its variables may have
        been assigned since; their present values are used.
    given
        Values of inputs that are the same in every call, by name, such as ``{"training": False}``. The model no longer
        has these inputs, and not the branches of the network that they rule out.

    Returns
    -------
    Model

    Raises
    ------
    BadInput
        If the file, the signature or the score does not exist, the output is not of floating point, or the scores of
        a row depend on other rows.
    """
    if not isinstance(jit_compile, bool):
        raise BadInput(f"jit_compile must be True or False, not {jit_compile!r}")
    return Model(path, score, signature, inputs, output, position, jit_compile, loaded, explain_input, given)


class Model:
    """A SavedModel with one score per class.

    Attributes
    ----------
    path : pathlib.Path
        The loaded directory. A network with changed weights is written to a temporary directory on first access.
    score : str
        What the scores are: ``"logits"``, ``"probabilities"`` or ``"output"``, from the operations at the graph's end.
    options : dict[str, str]
        The options of loading that are not the default, and the score: with ``fingerprint``, everything that decides
        what the model computes.
    score_names : tuple[str, ...]
        Which of these the file is known to give, the default first.
    inputs : dict[str, tf.TensorSpec]
        The signature's inputs.
    num_classes : int
        Number of scores per input.
    live : keras.Model or None
        The live network, once a method needed it.
    write : Callable or None
        Writes a network with changed weights to a ``tempfile.TemporaryDirectory``, which lives as long as the model;
        None where ``path`` exists.
    live_source : Callable or None
        Attaches the live network to the model when a method needs it; see
        ``attribution.methods.third_party.offer``.
    counts : collections.Counter
        Rows that passed through the model since it was loaded, ``forward`` and ``backward`` (the latter with a forward
        pass each), and the number of ``forward_passes`` and ``backward_passes``. Padding counts.
    """

    def __init__(
        self,
        path: Any,
        score: str | None,
        signature: str | None,
        inputs: Any,
        output: str | None,
        position: Any,
        jit_compile: bool,
        loaded: Any,
        explain_input: str | None = None,
        given: Any = None,
    ) -> None:
        if score not in (None, *SCORES):
            raise BadInput(f"no score '{score}'; the scores are {listed(SCORES)}")
        self._path = find_saved_model(path)
        self._files = self._path, file_states(self._path)
        self._is_trusted = op_allowlist.is_trusted()
        self.write: Callable[[], tempfile.TemporaryDirectory[str]] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self.score = OUTPUT
        self.live: Any = None
        self.live_source: Callable[[Any], None] | None = None
        self.counts = collections.Counter()
        self._parts: tuple[Model, list[str]] | None = None  # of a vector of inputs: what has them, and their names
        self._changes: tuple[Callable[[FrozenModel], FrozenModel], ...] = ()  # of the file's graph, by ``explaining``
        per_row = isinstance(position, str) and position == _output_head.PER_ROW
        self._position = () if per_row else _whole_numbers(position)
        self._jit_compile = jit_compile
        frozen = saved_model.freeze(path, signature, inputs, output, loaded, given)
        if position is not None:
            _output_head.check_classes_are_last(frozen.graph, frozen.output)
        frozen = _output_head.with_moved_logits(frozen)
        self._positions_end = _output_head.limits(frozen) if per_row else None
        frozen = _output_head.with_position(frozen) if per_row else frozen
        head = _output_head.find_head(frozen.graph, frozen.output)
        self.score_names = head.names
        if frozen.loaded is not None and head.gives_probabilities:
            self.score_names = (PROBABILITIES,)  # the logits are inside the loaded function
        self.score = self._chosen_score(score, frozen.inexact)
        self._take(frozen)
        self.num_classes = self._number_of_classes()
        if self.num_classes == 1 and head.activation is None and LOGITS in self.score_names:
            self.score_names = (LOGITS,)
            self.score = self._chosen_score(score, frozen.inexact)
        if loaded is None:
            _loading_checks.check_rows(
                self, self._compiled_as(False, self._position) if jit_compile else self._compiled
            )
        self._default: str | None = None
        values = {name: content_of_array(value) for name, value in (given or {}).items()}
        chosen = (self.score, signature, inputs, output, position, explain_input, jit_compile or None, values or None)
        self.options = {name: str(value) for name, value in zip(_OPTIONS, chosen, strict=True) if value is not None}
        if explain_input:
            for name in self.explained_together(explain_input) or [explain_input]:
                if self.explained_name(name) not in self.inputs:
                    _other_inputs.find_tensor(self._frozen, name, node_of(self.logits))
        self._default = explain_input

    def _take(self, frozen: FrozenModel) -> None:
        """Compute with a frozen model from now on."""
        self._frozen = frozen
        self.inputs = frozen.inputs
        self.graph = frozen.graph
        self._compiled = self._compiled_as(self._jit_compile, self._position)
        self.logits = self._compiled.logits
        self._layers: dict[str, Layers] = {}
        self._inner: dict[str, tuple[Any, Model]] = {}
        self._logits_alone: Model | None = None
        self._channels_first: dict[str, bool] = {}

    @property
    def path(self) -> pathlib.Path:
        """The directory that holds the network."""
        if self.write is not None:
            self._directory, self.write = self.write(), None
            self._path = pathlib.Path(self._directory.name)
        return self._path

    def load_file(self, tensors: Iterable[str] = ()) -> Any:
        """Load the SavedModel again, with all its signatures and its variables.

        Parameters
        ----------
        tensors
            See ``attribution.model.saved_model.load``.

        Returns
        -------
        object
            As ``tf.saved_model.load`` returns it.
        """
        with op_allowlist.trusted(self._is_trusted):
            return saved_model.load(self.path, tensors=tensors)

    @property
    def keeps_loaded(self) -> bool:
        """Whether what was loaded still computes, so that its variables must stay as they are."""
        return self._frozen.held is not None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the files that were loaded.

        Raises
        ------
        BadInput
            If they have changed since.
        """
        path, loaded = self._files
        if self.path == path and file_states(path) != loaded:
            raise BadInput(f"the files in {path} have changed since the model was loaded; load it again")
        return fingerprint(self.path)

    def input_node(self, explain_input: str | None = None) -> str:
        """Return the graph's node of the input called ``explain_input`` (see ``explained_input``)."""
        return self._frozen.input_nodes[self.explained_input(explain_input)]

    def layer(self, name: str | None = None, explain_input: str | None = None) -> str:
        """Return the node of a layer by its name, or of the last one ahead of pooling and head.

        See ``attribution.graph.layers.Layers`` for the names that are understood, the default, and the errors.
        """
        if not isinstance(name, (str, type(None))):
            raise BadInput(f"layer must be the name of a layer, not {name!r}")
        found = self._layers_of(explain_input)
        return found.default() if name is None else found.find(self._frozen.aliases.get(node_of(name), name))

    def layout(self, layer: str, explain_input: str | None = None) -> layers.Layout:
        """Return what the axes of a layer, by its node, mean."""
        return self._layers_of(explain_input).layout(layer)

    def layers(self, explain_input: str | None = None) -> list[str]:
        """Return the node names of all layers for class activation maps, first to last."""
        return self._layers_of(explain_input).names()

    def _layers_of(self, explain_input: str | None) -> Layers:
        if self._frozen.loaded is not None:
            raise BadInput(
                f"no layer of this model can be explained: the gradients of {self._frozen.inexact} are known only as "
                "gradients of the model's own inputs"
            )
        name = self.explained_name(explain_input)
        source = self._frozen.input_nodes.get(name) or _other_inputs.find_tensor(
            self._frozen, name, node_of(self.logits)
        )
        if source not in self._layers:
            first = self._has_channels_first(source)
            self._layers[source] = layers.Layers(self.graph, source, node_of(self.logits), self._frozen.numbered, first)
        return self._layers[source]

    def explaining(
        self, feed: Mapping[str, np.ndarray], explain_input: str | None = None, batch_size: int = 32
    ) -> Explained:
        """Return what methods explain, which is of floating point and has its channels last.

        Parameters
        ----------
        feed
            As ``feed`` returns it.
        explain_input
            Name of an input, or of a tensor inside: a node, or a layer by its name. By default the only input of
            floating point; where the only input is of another type, the first tensor of floating point behind it.
            Several names separated by commas, or ``"all"`` for every input of floating point: these inputs are joined
            to one vector.
        batch_size
            Rows per pass, where a tensor inside has to be computed.

        Raises
        ------
        BadInput
            If ``explain_input`` is needed and not given, or is nothing that has a gradient.
        """
        if names := self.explained_together(explain_input):
            return self._explaining_together(names, feed, batch_size)
        name = self.explained_name(explain_input)
        model, feed = self._with_input(name, feed, batch_size)
        if not model._has_channels_first(model.input_node(name)):
            return Explained(model, feed, name, False)
        transposed = f"{name} with channels last"
        if transposed not in self._inner:
            change = functools.partial(_other_inputs.with_channels_last, name=name)
            self._inner[transposed] = None, model._with(change)
        return Explained(
            self._inner[transposed][1], {**feed, name: _other_inputs.channels_last(feed[name])}, name, True
        )

    def _with_input(self, name: str, feed: Mapping[str, np.ndarray], batch_size: int) -> tuple[Model, Any]:
        """Return a model and its feed of which ``name`` is an input: the same, or at a tensor inside."""
        if name in self.inputs:
            return self, feed
        if name not in self._inner:
            node = _other_inputs.find_tensor(self._frozen, name, node_of(self.logits))
            values = self._compiled.values(node)
            change = functools.partial(_other_inputs.at_tensor, name=name, node=node)
            self._inner[name] = values, self._with(change)
        values, model = self._inner[name]
        parts = []
        for rows, real in self.chunks(_rows(feed), batch_size):
            part = self._run(values, *(batching.take(array, rows) for array in feed.values())).numpy()
            self.counts.update(forward=len(part), forward_passes=1)
            parts.append(batching.real_rows(part, len(rows), real, f"tensor '{name}'"))
        return model, {**feed, name: np.concatenate(parts) if parts else _none_of(model.inputs[name].shape)}

    def explained_together(self, explain_input: str | None = None) -> list[str]:
        """Return the names of the inputs that are explained together; none where one is explained alone.

        Raises
        ------
        BadInput
            If a name is empty or given twice.
        """
        explain_input = explain_input or self._default
        if not isinstance(explain_input, (str, type(None))):
            raise BadInput(
                f"explain_input must be the name of an input or of a tensor, not {explain_input!r}; several names are "
                "one text, 'age,income'"
            )
        if explain_input is None or explain_input in self.inputs:
            return []
        if explain_input == _other_inputs.ALL:
            return [name for name in self._floats() if not self._is_position(name)]
        names = _other_inputs.names_of(explain_input)
        return names if len(names) > 1 else []

    def _explaining_together(self, names: list[str], feed: Mapping[str, np.ndarray], batch_size: int) -> Explained:
        model = self
        for name in names:
            model, feed = model._with_input(self.explained_name(name), feed, batch_size)
        first = [name for name in names if model._has_channels_first(model.input_node(name))]
        joined = JoinedInputs({name: feed[name] for name in names}, first)
        key = f"{joined.shapes}"
        if key not in self._inner:
            change = functools.partial(_other_inputs.with_joined_inputs, joined=joined)
            self._inner[key] = None, model._with(change)
            self._inner[key][1]._parts = model, names
        others = {name: array for name, array in feed.items() if name not in joined.arrays}
        return Explained(self._inner[key][1], {**others, joined.name: joined.vector}, joined.name, False, joined)

    def _check_parts(self) -> None:
        """Refuse inputs that are explained together where the score has no gradient for one of them."""
        model, names = self._parts or (self, [])
        if missing := model._compiled.without_gradient(names) if names else []:
            others = ",".join(name for name in names if name not in missing)
            raise BadInput(
                f"the score does not depend on {listed(missing)} through differentiable operations"
                + (f"; explain the others: explain_input='{others}'" if others else "")
            )
        self._parts = None

    def _floats(self) -> list[str]:
        """Return the names of the inputs of floating point that have rows."""
        return [name for name, spec in self.inputs.items() if spec.dtype.is_floating and spec.shape.rank != 0]

    def has_channels_first(self, name: str) -> bool:
        """Return whether an input is ``(N, channels, positions...)``, as PyTorch's networks take pictures."""
        return self._has_channels_first(self._frozen.input_nodes[name])

    def _has_channels_first(self, source: str) -> bool:
        if source not in self._channels_first:
            found = layers.has_channels_first(self.graph, source, node_of(self.logits))
            self._channels_first[source] = found
        return self._channels_first[source]

    def of_logits(self) -> Model:
        """Return a model of the same network, counting with this one, whose scores are its logits."""
        if self.score == LOGITS:
            return self
        if self._logits_alone is None:
            other = copy.copy(self)
            other.score = LOGITS
            other._take(self._frozen)
            self._logits_alone = other
        return self._logits_alone

    def _with(self, change: Callable[[FrozenModel], FrozenModel]) -> Model:
        """Return a model that counts with this one and computes with a changed graph."""
        other = copy.copy(self)
        other._take(change(self._frozen))
        other._changes = (*self._changes, change)
        return other

    def with_inputs_of(self, other: Model) -> Model:
        """Return this model with the inputs that ``explaining`` gave to another of the same graph."""
        return functools.reduce(Model._with, other._changes, self)

    def explained_name(self, explain_input: str | None = None) -> str:
        """Return the name of what to explain, an input or a tensor inside; see ``explaining``.

        Raises
        ------
        BadInput
            If ``explain_input`` is needed and not given, or is an input that is not of floating point.
        """
        explain_input = explain_input or self._default
        floats = self._floats()
        with_rows = [name for name, spec in self.inputs.items() if spec.shape.rank != 0 and not self._is_position(name)]
        if explain_input is None and not floats and len(with_rows) == 1:
            first = self._first_floats(with_rows[0])
            if len(first) == 1 and self.inputs[with_rows[0]].dtype.is_integer:
                return first[0]
            raise BadInput(f"{self._has_no_gradient(with_rows[0])}")
        return (
            self.explained_input(explain_input)
            if explain_input is None or explain_input in self.inputs
            else explain_input
        )

    def _is_position(self, name: str) -> bool:
        """Return whether an input says where scores are taken, and is nothing that the file's network sees."""
        return self._positions_end is not None and name == _output_head.POSITION

    def _first_floats(self, name: str) -> list[str]:
        return _other_inputs.first_floats(self._frozen, self._frozen.input_nodes[name], node_of(self.logits))

    def _has_no_gradient(self, name: str) -> str:
        text = f"input '{name}' is of type {self.inputs[name].dtype.name} and has no gradient"
        ways = []
        if first := self._first_floats(name):
            ways.append(f"name a tensor of floating point behind it, explain_input={listed(first[:5])}")
        if self.inputs[name].dtype == tf.string:
            ways.append("export a signature that takes what is read from the text, such as decoded pixels")
        return "; ".join([text, *([", or ".join(ways)] if ways else [])])

    def compiled_anew(self) -> CompiledGraph:
        """Return compiled functions that share nothing with the model's, so that their weights can be replaced."""
        return self._compiled_as(jit_compile=False, shared=False)

    def _compiled_as(self, jit_compile: bool, position: tuple[int, ...] = (), shared: bool = True) -> CompiledGraph:
        return CompiledGraph(self._frozen, self.score, jit_compile, position, shared)

    def has_own_pass(self, layer: str) -> bool:
        """Return whether a layer, by its node, needs a separate pass.

        Batch normalization is computed with the layer before it in all other passes, so that what lies between the two
        does not occur in them.
        """
        return self._compiled.folds_away(layer)

    def explained_input(self, explain_input: str | None = None) -> str:
        """Return the name of the input to explain: ``explain_input``, or the model's only one of floating point.

        Raises
        ------
        BadInput
            If ``explain_input`` is not an input, is not of floating point, or is missing where there are several.
        """
        explain_input = explain_input or self._default
        floats = self._floats()
        if explain_input is None:
            if len(floats) != 1:
                if len(self.inputs) == 1:
                    raise BadInput(self._has_no_gradient(next(iter(self.inputs))))
                raise BadInput(
                    f"the model has the inputs {listed(self.inputs)}; say which to explain with explain_input=, "
                    "several by comma, or 'all' of floating point"
                )
            return floats[0]
        if explain_input not in self.inputs:
            raise BadInput(f"the model has no input '{explain_input}'; its inputs are {listed(self.inputs)}")
        if explain_input not in floats:
            raise BadInput(self._has_no_gradient(explain_input))
        return explain_input

    def feed(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """Check inputs against the signature and return them by name, in the signature's types.

        Parameters
        ----------
        inputs
            Array ``(N, ...)`` for a model with one input, or a mapping from input name to array.

        Raises
        ------
        BadInput
            If names, shapes, lengths or values do not fit.
        """
        expected = {
            name: Expected(
                spec.dtype.as_numpy_dtype,
                functools.partial(_fits, spec.shape),
                _shown(spec.shape),
                spec.shape.rank == 0,
            )
            for name, spec in self.inputs.items()
        }
        feed = checked_feed(inputs, expected, "the model")
        if self._positions_end is not None:
            _output_head.check_positions(feed[_output_head.POSITION], self._positions_end)
        return feed

    def batch_size(self, wanted: int) -> int:
        """Return the rows per pass: the batch size wanted, or the one the signature prescribes."""
        if not isinstance(wanted, numbers.Integral) or isinstance(wanted, bool) or wanted < 1:
            raise BadInput(f"batch_size must be a whole number of at least 1, not {wanted!r}")
        return self._fixed_batch() or int(wanted)

    def scores(self, inputs: Inputs, batch_size: int = 32) -> np.ndarray:
        """Return the scores of all classes.

        Parameters
        ----------
        inputs
            See ``feed``; N rows.
        batch_size
            Rows per pass.

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

        if self.score == PROBABILITIES or (self.score == OUTPUT and self._compiled.gives_probabilities):
            return scores
        if self.score != LOGITS or PROBABILITIES not in self.score_names:
            raise BadInput(
                f"probabilities are needed, and the scores of {self.path} are not known to have any: its score is "
                f"{self.score} of {self.num_classes} class{'es' * (self.num_classes > 1)}; export the model with the "
                "softmax or sigmoid at its end"
            )
        return np.asarray(expit(scores) if self._compiled.activation == "Sigmoid" else softmax(scores, axis=-1))

    def predict(self, inputs: Inputs, batch_size: int = 32) -> np.ndarray:
        """Return the class of the highest score, ``(N,)`` int64."""
        return np.asarray(np.argmax(self.scores(inputs, batch_size), axis=1))

    def gradients(
        self,
        inputs: Inputs,
        targets: Any,
        batch_size: int = 32,
        explain_input: str | None = None,
        rules: NodeRules | None = None,
    ) -> np.ndarray:
        """Return the gradient of each row's target score with respect to that row's input.

        Parameters
        ----------
        inputs
            See ``feed``; N rows.
        targets
            ``(N,)`` int, a class per row.
        batch_size
            Rows per pass.
        explain_input
            Name of the input, where there are several.
        rules
            Gradient registered in TensorFlow under each of these names, by node name, in place of the true one.

        Returns
        -------
        np.ndarray
            Float32 of the input's shape, ``(N, ...)``.
        """
        feed = self.feed(inputs)
        name = self.explained_input(explain_input)
        targets = checked_targets(targets, len(feed[name]), self.num_classes)
        gradients = np.empty(feed[name].shape, np.float32)
        for rows, real in self.chunks(len(gradients), batch_size):
            chunk = {key: batching.take(array, rows) for key, array in feed.items()}
            gradient = self.backward(chunk, targets[rows], name, rules=rules).input_gradient
            assert gradient is not None
            gradients[rows[:real]] = gradient[:real]
        return gradients

    def chunks(self, total: int, batch_size: int) -> Iterator[tuple[np.ndarray, int]]:
        """Yield row indices for one pass each (``attribution.model.batching.chunks``)."""
        return batching.chunks(total, self.batch_size(batch_size), equal=self._fixed_batch() is None)

    def forward(self, feed: Mapping[str, np.ndarray]) -> np.ndarray:
        """Run one forward pass of a chunk and return its scores ``(rows, num_classes)``."""
        scores = self._run(self._compiled.forward(), *feed.values()).numpy()
        self.counts.update(forward=len(scores), forward_passes=1)
        return _checked(scores, _rows(feed))

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
        scores, input_gradient, values, gradients = self._run(function, targets, *feed.values())
        self.counts.update(backward=len(targets), backward_passes=1)
        return Backward(
            scores=_checked(scores.numpy(), len(targets)),
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
        scores, found, ends = self._run(
            self._compiled.multipliers(explain_input, cross), targets, baseline, *feed.values()
        )
        self.counts.update(forward=len(targets), forward_passes=1, backward=len(targets), backward_passes=1)
        _checked(scores.numpy(), len(targets))
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
        layers = self._layers_of(explain_input)
        biases = self._compiled.bias_rules(explain_input)
        layouts = {name: layers.layout(name) for name in biases if layers.has_positions(name)}
        layouts = {name: layout for name, layout in layouts.items() if layout.covers == "positions"}
        axes = tuple((name, 1 if layout.channels_first else -1) for name, layout in layouts.items())
        function = self._compiled.full_gradient(explain_input, tuple(biases.items()), axes, by_channel)
        scores, terms, (of_input, *found) = self._run(function, targets, *feed.values())
        self.counts.update(backward=len(targets), backward_passes=1)
        _checked(scores.numpy(), len(targets))
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
        scores, *found = self._run(self._compiled.relevance(explain_input, composite, wanted), targets, *feed.values())
        self.counts.update(backward=len(targets), backward_passes=1)
        _checked(scores.numpy(), len(targets))
        found = [relevance.numpy() for relevance in found]
        return found[0] if layers is None else dict(zip(wanted, found, strict=True))

    def _run(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Call a compiled function.

        Raises
        ------
        BadInput
            If XLA cannot compile it, an operation of it fails on these inputs, or scores are not one row for each.
        tf.errors.ResourceExhaustedError
            If there is too little memory; a smaller batch may fit.
        """
        try:
            return function(*arrays)
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError as error:
            if self._jit_compile and isinstance(error, (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)):
                gist = " ".join(str(error.message).split())[:200]
                raise BadInput(f"XLA cannot compile this model ({gist}); load it without jit_compile") from error
            if isinstance(error, tf.errors.InvalidArgumentError) and function is not self._compiled.forward():
                # Scores of another number of rows make a pass fail; the forward pass refuses them by that reason.
                self.forward(dict(zip(self.inputs, arrays[-len(self.inputs) :], strict=True)))
            if self._takes_single_rows(arrays[-len(self.inputs) :]):
                raise BadInput(
                    "the model computes one input at a time; choose batch_size=1 (--batch_size=1), or export a "
                    "function of a batch"
                ) from error
            raise BadInput(f"the model cannot be computed on these inputs: {_failed_operation(error)}") from error

    def _takes_single_rows(self, arrays: Sequence[Any]) -> bool:
        """Return whether the first row of a feed alone has scores, and copies of it have none."""
        worked = []
        for rows in (1, max(np.shape(array)[0] for array in arrays if np.ndim(array))):
            try:
                self._compiled.forward()(*(np.repeat(one[:1], rows, 0) if np.ndim(one) else one for one in arrays))
            except (tf.errors.OpError, ValueError):
                worked.append(False)
            else:
                worked.append(True)
        return worked == [True, False]

    def _fixed_batch(self) -> int | None:
        sizes = [spec.shape[0] for spec in self.inputs.values() if spec.shape.rank and spec.shape[0] is not None]
        return sizes[0] if sizes else None

    def _number_of_classes(self) -> int:
        dtype = self.graph.dtype(self._frozen.output)
        if not dtype.is_floating:
            kind = "class numbers or counts" if dtype.is_integer else "values of this type"
            raise BadInput(
                f"the model's output is of type {dtype.name}; scores of floating point are needed, not {kind}; export "
                "them, or choose another output with output= (--output_tensor=)"
            )
        shape = self._compiled.output_shape
        if shape.rank is None:
            raise BadInput(
                "the file does not declare the shape of its output, which random inputs do not show either; give it by "
                "tf.ensure_shape in the network"
            )
        classes = _output_head.classes_of(shape, self._position)
        if classes is None:
            raise BadInput(self._why_no_classes(shape))
        for index, size in zip(self._position, shape[1:], strict=False):
            if index < 0 or (size is not None and index >= size):
                raise BadInput(f"position {self._position} is outside the model's output of shape {_shown(shape)}")
        return classes

    def _why_no_classes(self, shape: tf.TensorShape) -> str:
        if self._position:
            return (
                f"position {self._position} does not fit the model's output of shape {_shown(shape)}: it needs one "
                "number for each axis between batch and classes"
            )
        more = "; where it has positions, choose one with position=" if shape.rank > 2 else ""
        if others := self._frozen.other_outputs:
            more += f"; or choose another output with output= (--output_tensor=): {listed(others)}"
        return f"the model's output has shape {_shown(shape)}; scores of shape (batch, classes) are needed{more}"

    def _chosen_score(self, wanted: str | None, inexact: str | None) -> str:
        """Return the score to explain.

        Raises
        ------
        BadInput
            If the file is not known to give the wanted one.
        """
        names = self.score_names
        if wanted is None:
            return names[0]
        if wanted in (*names, OUTPUT):
            return wanted
        if wanted == LOGITS and names == (OUTPUT,):
            return OUTPUT
        if wanted == LOGITS:
            raise BadInput(
                f"the logits of this model cannot be explained: the gradients of {inexact} are known only from input "
                "to output, and the output is probabilities; load it with score='probabilities'"
            )
        if names == (LOGITS,):
            raise BadInput(
                "the model has one output and no sigmoid at its end, so that it gives no probabilities; explain it "
                "with score='logits'"
            )
        raise BadInput(
            "the model's output is not known to be probabilities: it ends in no softmax, sigmoid or log-softmax; load "
            "it with score='output', which explains it as it is"
        )

    def __repr__(self) -> str:
        return f"Model({str(self.path)!r}, score={self.score!r}, inputs={list(self.inputs)})"


@dataclasses.dataclass(frozen=True)
class Explained:
    """A model and inputs as methods see them.

    Attributes
    ----------
    model
        The model, whose input ``explain_input`` is of floating point and has its channels last.
    feed
        Input name to array.
    explain_input
        Name of the explained input.
    channels_first
        Whether the caller's input has its channels first.
    joined
        The inputs of which ``explain_input`` is the vector, where several are explained together.
    """

    model: Model
    feed: Mapping[str, np.ndarray]
    explain_input: str
    channels_first: bool
    joined: JoinedInputs | None = None

    def as_given(self, maps: np.ndarray) -> Any:
        """Return maps with the axes of the caller's input; those without the channel axis are the same for both.

        Maps of several inputs are a mapping from name to array.
        """
        if self.joined is not None:
            return self.joined.split(maps)
        return (
            _other_inputs.channels_first(maps)
            if self.channels_first and maps.shape == self.feed[self.explain_input].shape
            else maps
        )


def _whole_numbers(position: Any) -> tuple[int, ...]:
    """Return a position as whole numbers, one for each axis."""
    if position is None:
        return ()
    array = np.atleast_1d(np.asarray(position))
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise BadInput(
            "position must be whole numbers, one for each axis between batch and classes, or 'per_row', not "
            f"{position!r}"
        )
    return tuple(int(index) for index in array)


def _none_of(shape: tf.TensorShape) -> np.ndarray:
    """Return no rows of a tensor, with one value along each axis of unknown size."""
    return np.zeros([0, *((size or 1) for size in (shape[1:] if shape.rank else ()))], np.float32)


def _rows(feed: Mapping[str, np.ndarray]) -> int:
    """Return how many rows a feed has; single values have none."""
    return next((len(array) for array in feed.values() if array.ndim), 1)


def _checked(scores: np.ndarray, fed: int) -> np.ndarray:
    if len(scores) != fed:
        raise BadInput(f"the model gives {len(scores)} rows of scores for {fed} inputs; one row for each is needed")
    if not np.isfinite(scores).all():
        message = "the model's scores are NaN or infinite; check its weights and the range of the inputs"
        raise batching.NotFinite(message)
    return scores


def _failed_operation(error: tf.errors.OpError) -> str:
    """Return the node that failed and the reason, from TensorFlow's message.

    The reason is the line above ``[[{{node NAME}}]]``; what precedes it is a trace of where the node was made.
    """
    above, _, after = error.message.partition("[[{{")
    lines = [line.strip() for line in above.splitlines() if line.strip()]
    reason = (lines[-1] if lines else type(error).__name__)[:300]
    if "grouped convolution" in reason:  # on processors without AVX-512
        reason += " Set TF_ENABLE_ONEDNN_OPTS=1 in the environment, and TensorFlow supports them."
    node = re.search(r"\bnode ([^}]*)\}\}", after)
    return f"operation '{node[1].removeprefix('model/')}' failed: {reason}" if node else reason


def _shown(shape: tf.TensorShape) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")" if shape.rank else str(shape)


def _fits(expected: tf.TensorShape, shape: tuple[int, ...]) -> bool:
    """Return whether an array of a shape, of however many rows, is what a signature expects."""
    return expected.rank is None or expected.is_compatible_with((*expected[:1], *shape[1:]))
