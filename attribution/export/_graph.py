"""Signatures of explanations: attribution methods as TensorFlow graphs, written with the model's own signatures.

``GraphQueries`` answers the queries of ``attribution.methods.queries.ModelQueries`` with symbolic tensors of a function
that is being built. A method that only combines these answers runs on them unchanged. Integrated Gradients, DeepLIFT
and Grad-CAM compute with NumPy; they have their counterparts here, under the same names and with the same parameters.

All signatures share the model's weights: where the frozen graph kept a copy of a variable, the variable itself takes
its place, so that each method adds only operations.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.export.signatures import EXPLAIN, LAYER, SCORES, SHEET, TARGETS
from attribution.graph.layers import has_channels_first
from attribution.graph.view import GraphView, node_of
from attribution.lrp.composite import Composite
from attribution.methods import cam, deeplift, gradients, map_steps
from attribution.methods.registry import Method, PresetFunction
from attribution.model._registered_gradients import forget_gradient_names
from attribution.savedmodel.file import without_patterns

if TYPE_CHECKING:
    from attribution.model.compiled import CompiledGraph
    from attribution.model.model import Model


class ExplainedFile:
    """A model's file with signatures of explanations, written together by ``write``.

    Parameters
    ----------
    model : attribution.model.model.Model
        The model, whose graph from then on reads its weights from variables.
    explain_input
        Name of the explained input.
    """

    def __init__(self, model: Any, explain_input: str) -> None:
        if model._frozen.kept:
            raise BadInput(f"'{model.path}' cannot be exported: {model._frozen.kept}")
        if any(weight.dtype == tf.resource for weight in model.graph.weights.values()):
            raise BadInput(f"'{model.path}' cannot be exported: it looks things up in tables, which its graph has not")
        if has_channels_first(model.graph, model.input_node(explain_input), node_of(model.logits)):
            raise BadInput(f"'{model.path}' takes inputs with the channels first; export one that takes them last")
        self._model, self._explain_input, self._loaded = model, explain_input, model.load_file()
        self._original = dict(self._loaded.signatures)
        if taken := [name for name in self._original if name.startswith((EXPLAIN, "explanation_"))]:
            raise BadInput(
                f"'{model.path}' has explanations already ({listed(taken[:3])}...); export from the original"
            )
        self._weights = _Weights(self._original.values())
        self._weights.put_into(model.graph)
        self._compiled = model.compiled_unshared()
        self._weights.put_into(self._compiled.folded)
        self._specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in model.inputs.items()]
        self._targets = tf.TensorSpec(model.inputs[explain_input].shape[:1], tf.int32, TARGETS)
        self._added = {SCORES: self._function(lambda queries: {"scores": queries.scores}, *self._specs)}

    def _function(self, build: Callable[[GraphQueries], dict[str, Any]], *arguments: Any) -> Any:
        """Return the concrete function of the arguments that ``build`` turns into outputs."""

        @tf.function(autograph=False)  # type: ignore[untyped-decorator]
        def function(**arrays: Any) -> Any:
            asked = arrays.pop(TARGETS, None)
            ordered = {name: arrays[name] for name in self._model.inputs}
            outputs = build(GraphQueries(self._model, self._compiled, self._explain_input, ordered, asked))
            forget_gradient_names()
            return outputs

        return function.get_concrete_function(**{spec.name: spec for spec in arguments})

    def signature(self, label: str, method: Method, parameters: Mapping[str, Any]) -> Any:
        """Return the signature of a method; raise ``BadInput`` for one that needs more than a request carries."""
        if method.is_random:
            raise BadInput(f"method '{label}' cannot be exported: a request does not carry its random numbers' seeds")

        def build(queries: GraphQueries) -> dict[str, Any]:
            try:
                maps = tf.cast(tf.convert_to_tensor(_maps(method.function, queries, parameters)), tf.float32)
            except BadInput:
                raise
            except Exception as error:  # of NumPy, or of a query that no graph answers
                reason = " ".join(str(error).split())[:160]
                if isinstance(error, AttributeError) and error.obj is queries:
                    reason = f"queries.{error.name}"
                raise BadInput(
                    f"method '{label}' cannot be exported: it uses more than its queries and TensorFlow ({reason})"
                ) from error
            return {"map": maps, **_target(queries)}

        return self._function(build, *self._specs, self._targets)

    def add(self, label: str, signature: Any, method: Method, parameters: Mapping[str, Any]) -> None:
        """Add the signature of a method, and that of the layer of a class activation map."""
        self._added[EXPLAIN + label] = signature

        def values(queries: GraphQueries) -> dict[str, Any]:
            value, gradient = queries.layer_gradient(parameters["layer"])
            return {"values": value, "gradients": gradient, **_target(queries)}

        if method.query == "layer gradient" and LAYER not in self._added:
            self._added[LAYER] = self._function(values, *self._specs, self._targets)

    def write(self, directory: pathlib.Path, sheet: str) -> None:
        """Write the file and its description, the same text for every row: REST cannot call one without inputs."""

        @tf.function(autograph=False)  # type: ignore[untyped-decorator]
        def describe(rows: np.ndarray) -> Any:
            return {"sheet": tf.fill(tf.shape(rows), sheet)}

        described = describe.get_concrete_function(tf.TensorSpec((None,), tf.int32, "rows"))
        root = tf.Module()
        root.model = self._loaded
        root.weights = list(self._weights.variables.values())
        signatures = {**self._original, **self._added, SHEET: described}
        tf.saved_model.save(root, without_patterns(directory), signatures=signatures)


def _maps(function: Callable[..., Any], passes: GraphQueries, parameters: Mapping[str, Any]) -> Any:
    if isinstance(function, PresetFunction):
        base = function.function
        return function.run(_COUNTERPARTS.get(base, base), passes, parameters, tf.experimental.numpy)
    return _COUNTERPARTS.get(function, function)(passes, **parameters)


def _target(passes: GraphQueries) -> dict[str, Any]:
    return {"target": passes.targets, "score": passes.target_scores}


class _Weights:
    """The variables for a frozen graph's weights: those of the file where they have the same values."""

    def __init__(self, signatures: Iterable[Any]) -> None:
        self.variables = {}
        for function in signatures:
            for variable in function.variables:
                if variable.dtype.is_floating:
                    self.variables.setdefault(_content(variable.numpy()), variable)

    def put_into(self, view: GraphView) -> None:
        """Replace the tensors of a graph's weights by variables, which a file holds once for all signatures."""
        for name, weight in view.weights.items():
            content = _content(weight.numpy())
            if content not in self.variables:
                self.variables[content] = tf.Variable(weight, trainable=False)
            view.weights[name] = self.variables[content]


def _content(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.str, array.shape, array.tobytes()


class GraphQueries:
    """Symbolic passes through a model.

    Parameters
    ----------
    compiled : attribution.model.compiled.CompiledGraph
        Functions of the model.
    arrays
        Input name to tensor, in the order of the model's inputs.
    targets
        ``(N,)`` int32 tensor; -1 is the predicted class.
    """

    def __init__(
        self, model: Model, compiled: CompiledGraph, explain_input: str, arrays: Mapping[str, Any], targets: Any
    ) -> None:
        self.model = model
        self.inputs = arrays[explain_input]
        self.num_classes = model.num_classes
        self._compiled = compiled
        self._explain_input = explain_input
        self._arrays = arrays
        self._asked = targets
        self._scores = None
        self._memory = {}

    @property
    def scores(self) -> Any:
        """``(N, classes)``: scores of the inputs, from whatever pass was built first."""
        if self._scores is None:
            self._scores = self._compiled.forward()(*self._arrays.values())
        return self._scores

    @property
    def targets(self) -> Any:
        """``(N,)`` int32: the classes to explain."""
        predicted = tf.argmax(self.scores, axis=1, output_type=tf.int32)
        return tf.where(self._asked < 0, predicted, self._asked)

    @property
    def target_scores(self) -> Any:
        """``(N,)``: score of each input's target."""
        return tf.gather(self.scores, self.targets, batch_dims=1)

    def input_gradient(self, rules: Any = None) -> Any:
        """Return the gradient of the target score, of the inputs' shape; see ``ModelQueries.input_gradient``."""
        return self._once(("input", rules), lambda: self._backward(self.inputs, self._asked, (), True, rules)[1])

    def layer_gradient(self, layer: str | None = None) -> Any:
        """Return a layer's values and gradients; see ``ModelQueries.layer_gradient``."""
        node = self.model.layer(layer, self._explain_input)
        if not self.model.layout(node, self._explain_input).is_plain:
            raise BadInput(f"layer '{node}' holds tokens or has its channels first; exported maps need plain layers")

        def build() -> Any:
            _, _, values, given = self._backward(self.inputs, self._asked, (node,), False, None)
            return values[0], given[0]

        return self._once(("layer", node), build)

    def relevance(self, composite: Composite) -> Any:
        """Return the relevance of the inputs, of their shape."""

        def build() -> Any:
            wanted = (self.model.input_node(self._explain_input),)
            with tf.init_scope():  # folding of normalization computes with the weights' values
                function = self._compiled.relevance(self._explain_input, composite, wanted)
            self._scores, relevance = function(self._asked, *self._arrays.values())
            return relevance

        return self._once(composite, build)

    def multipliers(self, baseline: Any, cross: bool = True) -> Any:
        """Return DeepLIFT's multipliers, of the inputs' shape, against a baseline that broadcasts to them."""
        function = self._compiled.multipliers(self._explain_input, cross).python_function  # see ``_backward``
        start = tf.broadcast_to(tf.cast(baseline, self.inputs.dtype), tf.shape(self.inputs))
        self._scores, found, _ = function(self._asked, start, *self._arrays.values())
        return found

    def variant_gradient(self, variant: Any) -> Any:
        """Return the gradient at other values of the explained input, for the same targets."""
        return self._backward(variant, self.targets, (), True, None, of_inputs=False)[1]

    def _backward(
        self, values: Any, targets: Any, layers: tuple[str, ...], of_input: bool, rules: Any, of_inputs: bool = True
    ) -> Any:
        if rules is not None:
            source, target = self.model.input_node(self._explain_input), node_of(self.model.logits)
            rules = rules(self.model.graph, source, target)
        function = self._compiled.backward(self._explain_input, layers, of_input, tuple(sorted((rules or {}).items())))
        if rules:  # built right here, where the names of its gradients can be taken out again
            function = function.python_function
        result = function(targets, *{**self._arrays, self._explain_input: values}.values())
        if of_inputs:
            self._scores = result[0]
        return result

    def _once(self, key: Any, build: Callable[[], Any]) -> Any:
        if key not in self._memory:
            self._memory[key] = build()
        return self._memory[key]


def _integrated_gradients(
    passes: GraphQueries,
    *,
    points: int,
    quadrature: str,
    baseline: Any,
    tolerance: float | None,
    multiply: bool,
    map_error: float,
) -> Any:
    if tolerance or map_error:
        raise BadInput("an exported graph takes the same points of every input; do not set tolerance or map_error")
    alphas, weights = gradients.path_rule(points, quadrature)
    difference = passes.inputs - _path_start(passes.inputs, baseline)

    def add(number: Any, total: Any) -> Any:
        variant = passes.inputs - (1 - tf.gather(alphas, number)) * difference
        return total + tf.gather(weights, number) * tf.cast(passes.variant_gradient(variant), tf.float64)

    passes.input_gradient()  # predicts the targets by the function that is needed anyway
    _, total = tf.while_loop(
        lambda number, _: number < points,
        lambda number, total: (number + 1, add(number, total)),
        (0, tf.zeros_like(passes.inputs, tf.float64)),
        # The number of rows is not known, and stays.
        shape_invariants=(tf.TensorShape(()), passes.inputs.shape),
        parallel_iterations=1,
    )
    return tf.cast(difference, tf.float64) * total if multiply else total


def _deeplift(passes: GraphQueries, *, baseline: Any, maxima: str) -> Any:
    start = _path_start(passes.inputs, baseline)
    return (passes.inputs - start) * passes.multipliers(start, maxima == "cross")


def _path_start(inputs: Any, baseline: Any) -> Any:
    if not gradients.is_median(baseline):
        return np.asarray(baseline, np.float32)
    channels = inputs.shape[-1] if inputs.shape.rank > 2 else 1
    values = tf.sort(tf.reshape(inputs, (tf.shape(inputs)[0], -1, channels)), axis=1)
    middle = tf.shape(values)[1] - 1
    medians = (values[:, middle // 2] + values[:, (middle + 1) // 2]) / 2
    return tf.reshape(medians, (-1, *[1] * (inputs.shape.rank - 2), channels)[: inputs.shape.rank])


def _grad_cam(passes: GraphQueries, *, layer: str, resize: bool, rectify: bool = True, guided: bool = False) -> Any:
    values, given = passes.layer_gradient(layer)
    if guided:
        given *= tf.cast((values > 0) & (given > 0), given.dtype)
    weights = tf.reduce_mean(given, tuple(range(1, values.shape.rank - 1)))
    maps = tf.einsum("n...c,nc->n...", values, weights)
    maps = tf.nn.relu(maps) if rectify else maps
    return map_steps.apply("half_pixel_bilinear", maps, passes, tf.experimental.numpy) if resize else maps


_COUNTERPARTS: dict[Callable[..., Any], Callable[..., Any]] = {
    gradients.integrated_gradients: _integrated_gradients,
    deeplift.deeplift: _deeplift,
    cam.grad_cam: _grad_cam,
}
