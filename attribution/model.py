"""A loaded SavedModel that answers with scores and gradients, batch by batch."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from attribution import batching, saved_model
from attribution.compiled import CompiledGraph
from attribution.feed import Expected, checked_feed
from attribution.graph_nodes import node_of
from attribution_benchmarks.command_line import BadInput, listed

SCORES = ("logits", "probabilities")


def load_model(path, *, score="logits", signature=None, inputs=None, output=None, jit_compile=False) -> Model:
    """Load a SavedModel to be explained.

    Parameters
    ----------
    path
        Directory of the SavedModel, or its parent with numbered versions.
    score
        ``"logits"`` or ``"probabilities"``: what is explained, whichever of the two the file returns.
    signature, inputs, output
        See ``attribution.saved_model.freeze``; needed only where the file leaves a choice.
    jit_compile
        Compile with XLA. Worth it on a GPU; on a CPU it is slower.

    Returns
    -------
    Model

    Raises
    ------
    BadInput
        If the file, the signature or the score does not exist.
    """
    return Model(path, score=score, signature=signature, inputs=inputs, output=output, jit_compile=jit_compile)


class Model:
    """A SavedModel with one score per class.

    Attributes
    ----------
    path : pathlib.Path
        The directory that was loaded.
    score : str
        ``"logits"`` or ``"probabilities"``.
    inputs : dict[str, tf.TensorSpec]
        The signature's inputs.
    num_classes : int
        Number of scores per input.
    live : keras.Model or None
        The live network, where ``attribution.peers.attach`` gave one.
    live_source : Callable or None
        Builds the live network when a method asks for it; see ``attribution.peers.offer``.
    counts : collections.Counter
        What went through the model since it was loaded: rows ``forward`` and ``backward`` (each of these with
        a forward pass of its own) in so many ``forward_passes`` and ``backward_passes``. Padding counts,
        because it costs.
    """

    def __init__(self, path, *, score, signature, inputs, output, jit_compile):
        if score not in SCORES:
            raise BadInput(f"no score '{score}'; the scores are {listed(SCORES)}")
        self.path = saved_model.find_saved_model(path)
        self.score = score
        self.live = None
        self.live_source = None
        self.counts = collections.Counter()
        self._frozen = saved_model.freeze(path, signature, inputs, output)
        self.inputs = self._frozen.inputs
        self.graph = self._frozen.graph
        self._compiled = CompiledGraph(self._frozen, score, jit_compile)
        self.logits = self._compiled.logits
        self.num_classes = self._number_of_classes()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model's files: it changes when they do."""
        return saved_model.fingerprint(self.path)

    def input_node(self, wrt=None) -> str:
        """Return the graph's node of the input called ``wrt`` (see ``explained_input``)."""
        return self._frozen.input_nodes[self.explained_input(wrt)]

    def layer(self, name=None, wrt=None) -> str:
        """Return the node of a layer by its name, or of the last convolution's activation.

        See ``GraphView.find_layer`` for the names that are understood, and the errors.
        """
        source, target = self.input_node(wrt), node_of(self.logits)
        if name is None:
            return self.graph.last_convolution(source, target)
        return self.graph.find_layer(self._frozen.aliases.get(node_of(name), name), source, target)

    def layers(self, wrt=None) -> list[str]:
        """Return the node names of all layers a map can stand on, first to last."""
        return self.graph.layers(self.input_node(wrt), node_of(self.logits))

    def has_own_pass(self, layer: str) -> bool:
        """Return whether a layer, by its node, is asked for in passes of its own.

        Batch normalisation is computed with the layer before it in all other passes, so that what lies between the two
        does not occur in them.
        """
        return self._compiled.folds_away(layer)

    def explained_input(self, wrt=None) -> str:
        """Return the name of the input to explain: ``wrt``, or the model's only one of floating point.

        Raises
        ------
        BadInput
            If ``wrt`` is no input, is not of floating point, or is needed and not given.
        """
        floats = [name for name, spec in self.inputs.items() if spec.dtype.is_floating]
        if wrt is None:
            if len(floats) != 1:
                raise BadInput(f"the model has the inputs {listed(self.inputs)}; say which to explain with wrt=")
            return floats[0]
        if wrt not in self.inputs:
            raise BadInput(f"the model has no input '{wrt}'; its inputs are {listed(self.inputs)}")
        if wrt not in floats:
            raise BadInput(f"input '{wrt}' is of type {self.inputs[wrt].dtype.name} and has no gradient")
        return wrt

    def feed(self, inputs) -> dict[str, np.ndarray]:
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
                lambda shape, spec=spec: spec.shape.is_compatible_with((spec.shape[0],) + shape[1:]),
                _shown(spec.shape),
            )
            for name, spec in self.inputs.items()
        }
        return checked_feed(inputs, expected, "the model")

    def batch_size(self, wanted: int) -> int:
        """Return the rows per pass: the batch size wanted, or the one the signature prescribes."""
        if int(wanted) < 1:
            raise BadInput(f"batch_size must be at least 1, not {wanted}")
        fixed = [spec.shape[0] for spec in self.inputs.values() if spec.shape.rank and spec.shape[0] is not None]
        return fixed[0] if fixed else int(wanted)

    def scores(self, inputs, batch_size=32) -> np.ndarray:
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
        total = len(next(iter(feed.values())))
        scores = np.empty((total, self.num_classes), np.float32)
        for rows, real in self.chunks(total, batch_size):
            scores[rows[:real]] = self.forward({name: batching.take(array, rows) for name, array in feed.items()})[
                :real
            ]
        return scores

    def predict(self, inputs, batch_size=32) -> np.ndarray:
        """Return the class of the highest score, ``(N,)`` int64."""
        return self.scores(inputs, batch_size).argmax(axis=1)

    def gradients(self, inputs, targets, batch_size=32, wrt=None, rules=None) -> np.ndarray:
        """Return the gradient of each row's target score with respect to that row's input.

        Parameters
        ----------
        inputs
            See ``feed``; N rows.
        targets
            ``(N,)`` int, a class per row.
        batch_size
            Rows per pass.
        wrt
            Name of the input, where there are several.
        rules
            Gradient registered in TensorFlow under each of these names, by node name, in place of the true one.

        Returns
        -------
        np.ndarray
            Float32 of the input's shape, ``(N, ...)``.
        """
        feed = self.feed(inputs)
        name = self.explained_input(wrt)
        targets = self.check_targets(targets, len(feed[name]))
        gradients = np.empty(feed[name].shape, np.float32)
        for rows, real in self.chunks(len(gradients), batch_size):
            chunk = {key: batching.take(array, rows) for key, array in feed.items()}
            result = self.backward(chunk, targets[rows], name, rules=rules)
            gradients[rows[:real]] = result.input_gradient[:real]
        return gradients

    def check_targets(self, targets, total) -> np.ndarray:
        """Return targets as ``(total,)`` int32, after checking that each is one of the classes."""
        array = np.asarray(targets)
        if not (np.issubdtype(array.dtype, np.integer) and array.shape in ((), (total,))):
            raise BadInput(
                f"targets must be {total} whole numbers, one per input, not {array.dtype} of shape {array.shape}"
            )
        wrong = array[(array < 0) | (array >= self.num_classes)]
        if wrong.size:
            raise BadInput(f"target {wrong.flat[0]} is outside the model's classes 0 to {self.num_classes - 1}")
        return np.broadcast_to(array, (total,)).astype(np.int32)

    def chunks(self, total, batch_size):
        """Yield row indices for one pass each (``attribution.batching.chunks``)."""
        return batching.chunks(total, self.batch_size(batch_size), equal=not self._has_fixed_batch())

    def forward(self, feed: Mapping[str, np.ndarray]) -> np.ndarray:
        """Run one forward pass of a chunk and return its scores ``(rows, num_classes)``."""
        scores = self._compiled.forward()(*feed.values()).numpy()
        self.counts.update(forward=len(scores), forward_passes=1)
        return _finite(scores)

    def backward(self, feed, targets, wrt, layers: Sequence[str] = (), of_input=True, rules=None) -> Backward:
        """Run one forward and backward pass of a chunk.

        Parameters
        ----------
        feed
            Input name to array, as many rows in each.
        targets
            ``(rows,)`` int32; -1 stands for the predicted class.
        wrt
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
        function = self._compiled.backward(wrt, tuple(layers), of_input, tuple(sorted((rules or {}).items())))
        scores, input_gradient, values, gradients = function(targets, *feed.values())
        self.counts.update(backward=len(targets), backward_passes=1)
        return Backward(
            scores=_finite(scores.numpy()),
            input_gradient=input_gradient.numpy() if of_input else None,
            values=dict(zip(layers, (value.numpy() for value in values), strict=True)),
            gradients=dict(zip(layers, (gradient.numpy() for gradient in gradients), strict=True)),
        )

    def relevance(self, feed, targets, wrt, composite, layers: Sequence[str] | None = None):
        """Run one chunk forward and propagate the relevance of its targets' logits back.

        Parameters
        ----------
        feed, targets, wrt
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
        wanted = (self.input_node(wrt),) if layers is None else tuple(layers)
        scores, *found = self._compiled.relevance(wrt, composite, wanted)(targets, *feed.values())
        self.counts.update(backward=len(targets), backward_passes=1)
        _finite(scores.numpy())
        found = [relevance.numpy() for relevance in found]
        return found[0] if layers is None else dict(zip(wanted, found, strict=True))

    def _has_fixed_batch(self) -> bool:
        return any(spec.shape.rank and spec.shape[0] is not None for spec in self.inputs.values())

    def _number_of_classes(self) -> int:
        shape = self.graph.shape(node_of(self.logits))
        if shape.rank == 1:
            return 1
        if shape.rank != 2 or shape[1] is None:
            raise BadInput(
                f"the model's output has shape {_shown(shape)}; scores of shape (batch, classes) are needed; where "
                "there are several outputs, choose one with output="
            )
        return int(shape[1])

    def __repr__(self):
        return f"Model({str(self.path)!r}, score={self.score!r}, inputs={list(self.inputs)})"


class Backward(collections.namedtuple("Backward", "scores input_gradient values gradients")):
    """What one backward pass gives.

    ``scores`` (rows, classes); ``input_gradient`` of the input's shape or ``None``; ``values`` and
    ``gradients``: layer name to array, of the layer's shape.
    """


def _finite(scores: np.ndarray) -> np.ndarray:
    if not np.isfinite(scores).all():
        raise BadInput("the model's scores are NaN or infinite; check its weights and the range of the inputs")
    return scores


def _shown(shape: tf.TensorShape) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")" if shape.rank else str(shape)
