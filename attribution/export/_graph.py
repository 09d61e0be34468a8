"""Signatures of explanations: attribution methods as TensorFlow graphs, written with the model's own signatures.

``GraphQueries`` answers the queries of ``attribution.methods.queries.ModelQueries`` with symbolic tensors of a function
that is being built. A method that only combines these answers runs on them unchanged. One that computes with NumPy has
its counterpart here, under the same name and with the same parameters. Methods that draw random numbers have none,
because a request carries neither the run's seed nor the inputs' keys.

All signatures share the model's weights: where the frozen graph kept a copy of a variable, the variable itself takes
its place, so that each method adds only operations.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import fingerprint_pb2

from attribution.errors import BadInput, listed
from attribution.export.signatures import EXPLAIN, LAYER, SCORES, SHEET, TARGETS
from attribution.graph.layers import has_channels_first
from attribution.graph.view import GraphView, node_of
from attribution.lrp.composite import Composite
from attribution.methods import cam, deeplift, gradients, modified_relu, perturbation, resizing
from attribution.methods.libraries import PresetFunction
from attribution.methods.method import Method
from attribution.model._registered_gradients import forget_gradient_names

if TYPE_CHECKING:
    from attribution.model.compiled import CompiledGraph
    from attribution.model.model import Model


def write(
    model: Any,
    explain_input: str,
    chosen: Mapping[str, tuple[Method, dict[str, Any]]],
    directory: str | os.PathLike[str],
    sheet: Callable[[], str],
    skipping: Callable[[str], contextlib.AbstractContextManager[None]],
) -> None:
    """Write the model with its signatures and those of explanations to a directory.

    ``chosen`` has method and parameters by label. ``skipping`` may take a label out of it, whose method then is not
    written; ``sheet`` describes those that are, as JSON.
    """
    _refuse_what_no_graph_holds(model, explain_input)
    loaded = model.load_file()
    original = dict(loaded.signatures)
    taken = [name for name in original if name.startswith((EXPLAIN, "explanation_"))]
    if taken:
        raise BadInput(f"'{model.path}' has explanations already ({listed(taken[:3])}...); export from the original")
    weights = _Weights(original.values())
    weights.put_into(model.graph)
    compiled = model.compiled_anew()
    weights.put_into(compiled.folded)
    added = {}
    specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in model.inputs.items()]
    rows = model.inputs[explain_input].shape[:1]
    targets = tf.TensorSpec(rows, tf.int32, TARGETS)

    def signature(build: Callable[..., Any], *arguments: Any) -> Any:
        """Return the concrete function of the arguments that ``build`` turns into outputs."""

        @tf.function(autograph=False)  # type: ignore[untyped-decorator]
        def function(**arrays: Any) -> Any:
            asked = arrays.pop(TARGETS, None)
            ordered = {name: arrays[name] for name in model.inputs}
            outputs = build(GraphQueries(model, compiled, explain_input, ordered, asked))
            forget_gradient_names()
            return outputs

        return function.get_concrete_function(**{spec.name: spec for spec in arguments})

    def scores(passes: GraphQueries) -> dict[str, Any]:
        return {"scores": passes.scores}

    added[SCORES] = signature(scores, *specs)
    for label, (method, parameters) in list(chosen.items()):
        with skipping(label):
            added[EXPLAIN + label] = signature(_explaining(label, method, parameters), *specs, targets)
        if label in chosen and method.query == "layer gradient":
            layer = parameters["layer"]

            def values(passes: GraphQueries, layer: str | None = layer) -> dict[str, Any]:
                value, gradient = passes.layer_gradient(layer)
                return {"values": value, "gradients": gradient, **_target(passes)}

            added.setdefault(LAYER, signature(values, *specs, targets))
    added[SHEET] = _sheet_signature(sheet())
    root = tf.Module()
    root.model = loaded
    root.weights = list(weights.variables.values())
    # AutoGraph writes Python files for it, which would stay in the system's temporary folder if this process is killed.
    with tempfile.TemporaryDirectory(dir=directory) as folder, _temporary_files_in(folder):
        tf.saved_model.save(root, directory, signatures={**original, **added})
    _replace_random_identifier(pathlib.Path(directory, "fingerprint.pb"))


@contextlib.contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = before


def _replace_random_identifier(file: pathlib.Path) -> None:
    """Derive the identifier in a SavedModel's fingerprint from its hashes, so that each export has the same bytes."""
    fingerprint = fingerprint_pb2.FingerprintDef.FromString(file.read_bytes())
    fingerprint.uuid = ""
    digest = hashlib.sha256(fingerprint.SerializeToString(deterministic=True)).digest()
    fingerprint.uuid = str(int.from_bytes(digest[:16], "big"))
    file.write_bytes(fingerprint.SerializeToString(deterministic=True))


def _refuse_what_no_graph_holds(model: Model, explain_input: str) -> None:
    """Raise BadInput for a model whose explanations need more than its frozen graph."""
    if model._frozen.loaded is not None:
        inexact = model._frozen.inexact
        raise BadInput(f"'{model.path}' cannot be exported: the gradients of {inexact} are not in its graph")
    if any(weight.dtype == tf.resource for weight in model.graph.weights.values()):
        raise BadInput(f"'{model.path}' cannot be exported: it looks things up in tables, which its graph has not")
    if has_channels_first(model.graph, model.input_node(explain_input), node_of(model.logits)):
        raise BadInput(f"'{model.path}' takes inputs with the channels first; export one that takes them last")


def _explaining(label: str, method: Method, parameters: Mapping[str, Any]) -> Callable[[GraphQueries], dict[str, Any]]:
    """Return the function from passes to the outputs of a method's signature."""

    def build(passes: GraphQueries) -> dict[str, Any]:
        try:
            maps = _maps(method.function, passes, parameters)
            maps = tf.cast(tf.convert_to_tensor(maps), tf.float32)
        except BadInput:
            raise
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:160]
            if isinstance(error, AttributeError) and error.obj is passes:
                reason = f"queries.{error.name}"
            raise BadInput(
                f"method '{label}' cannot be part of a graph: it uses more than its queries and TensorFlow ({reason})"
            ) from error
        return {"map": maps, **_target(passes)}

    return build


def _maps(function: Callable[..., Any], passes: GraphQueries, parameters: Mapping[str, Any]) -> Any:
    if isinstance(function, PresetFunction):
        base = function.function
        return function.run(_COUNTERPARTS.get(base, base), passes, parameters, tf.experimental.numpy)
    return _COUNTERPARTS.get(function, function)(passes, **parameters)


def _target(passes: GraphQueries) -> dict[str, Any]:
    return {"target": passes.targets, "score": passes.target_scores}


def _sheet_signature(sheet: str) -> Any:
    """Return a signature with the same text for every row; REST cannot call one without inputs."""

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def describe(rows: np.ndarray) -> Any:
        return {"sheet": tf.fill(tf.shape(rows), sheet)}

    return describe.get_concrete_function(tf.TensorSpec((None,), tf.int32, "rows"))


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

    def variant_scores(self, variant: Any) -> Any:
        """Return the target scores at other values of the explained input."""
        scores = self._compiled.forward()(*{**self._arrays, self._explain_input: variant}.values())
        return tf.gather(scores, self.targets, batch_dims=1)

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
    total = _loop(points, add, tf.zeros_like(passes.inputs, tf.float64))
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
    return _combine(passes, values, tf.reduce_mean(given, _positions(values)), resize, rectify)


def _guided_grad_cam(passes: GraphQueries, *, layer: str, **other: Any) -> Any:
    _refuse_other(cam.guided_grad_cam, other)
    return _grad_cam(passes, layer=layer, resize=True)[..., tf.newaxis] * modified_relu.guided_backprop(passes)  # type: ignore[arg-type]


def _grad_cam_plus_plus(
    passes: GraphQueries,
    *,
    layer: str,
    resize: bool,
    averaged: bool,
    normalized: bool,
    exponential: bool,
    epsilon: float,
) -> Any:
    values, given = passes.layer_gradient(layer)
    axes = _positions(values)
    combined = tf.reduce_mean if averaged else tf.reduce_sum
    square = tf.square(given)
    denominator = 2 * square + combined(values, axes, keepdims=True) * square * given
    alpha = tf.math.divide_no_nan(square, tf.where(square != 0, denominator + epsilon, 0))
    if normalized:
        alpha = tf.math.divide_no_nan(alpha, tf.reduce_sum(alpha, axes, keepdims=True))
    if exponential:
        given *= tf.reshape(tf.exp(passes.target_scores), [-1] + [1] * (len(axes) + 1))
    return _combine(passes, values, combined(alpha * tf.nn.relu(given), axes), resize)


def _layer_cam(passes: GraphQueries, *, layer: str, resize: bool) -> Any:
    values, given = passes.layer_gradient(layer)
    return _rectified(passes, tf.reduce_sum(tf.nn.relu(given) * values, axis=-1), resize)


def _hires_cam(passes: GraphQueries, *, layer: str, resize: bool) -> Any:
    values, given = passes.layer_gradient(layer)
    return _rectified(passes, tf.reduce_sum(given * values, axis=-1), resize)


def _xgrad_cam(passes: GraphQueries, *, layer: str, resize: bool) -> Any:
    values, given = passes.layer_gradient(layer)
    axes = _positions(values)
    weights = tf.math.divide_no_nan(tf.reduce_sum(values * given, axes), tf.reduce_sum(values, axes))
    return _combine(passes, values, weights, resize)


def _score_cam(passes: GraphQueries, *, layer: str | None, resize: bool, **other: Any) -> Any:
    _refuse_other(cam.score_cam, other)
    values, _ = passes.layer_gradient(layer)
    live = _live(values)
    scores = tf.where(live, _masked_scores(passes, values), -np.inf)
    largest = tf.maximum(tf.reduce_max(scores, axis=1, keepdims=True), np.finfo(np.float32).min)
    exponentials = tf.exp(scores - largest)
    weights = tf.math.divide_no_nan(exponentials, tf.reduce_sum(exponentials, axis=1, keepdims=True))
    return _combine(passes, values, weights, resize)


def _sise(passes: GraphQueries, *, layer: str, resize: bool) -> Any:
    values, given = passes.layer_gradient(layer)
    spatial, channels = _sizes(passes.inputs), values.shape[-1]
    axes = _positions(values)
    chosen = _live(values) & (tf.reduce_mean(given, axes) > 0)
    per_channel = tf.zeros_like(tf.reduce_sum(values, axes))

    def add(number: Any, ranges: Any) -> Any:
        flat = _resized(tf.gather(values, number, axis=-1), spatial)
        found = [reduce(flat, axes) for reduce in (tf.reduce_min, tf.reduce_max, tf.reduce_sum)]
        return ranges + tf.one_hot(number, channels) * tf.stack(found)[..., tf.newaxis]

    low, _, total = tf.unstack(_loop(channels, add, tf.stack([per_channel] * 3)))
    mass = total - np.prod(spatial) * low  # of the scaled mask, times its scale
    weights = tf.where(chosen, tf.math.divide_no_nan(_masked_scores(passes, values), mass), 0.0)
    maps = tf.einsum("n...c,nc->n...", values, weights)
    maps -= tf.reshape(tf.reduce_sum(weights * low, axis=1), [-1, *[1] * (values.shape.rank - 2)])
    return tf.nn.relu(_resized(maps, spatial) if resize else maps)


def _score_cam_constant_masks(passes: GraphQueries, *, layer: str, resize: bool) -> Any:
    values, _ = passes.layer_gradient(layer)
    channels = values.shape[-1]
    middle = [1] * (values.shape.rank - 2)
    middles = [tf.reshape(_resized(values[..., channel], middle), [-1]) for channel in range(channels)]
    middles = tf.stack(middles, axis=1)
    ends = [-1, *[1] * (passes.inputs.shape.rank - 1)]

    def add(number: Any, scores: Any) -> Any:
        found = passes.variant_scores(passes.inputs * tf.reshape(tf.gather(middles, number, axis=1), ends))
        return scores + tf.one_hot(number, channels) * found[:, tf.newaxis]

    scores = _loop(channels, add, tf.zeros_like(middles))
    dark = passes.variant_scores(tf.zeros_like(passes.inputs))
    return _combine(passes, values, scores - dark[:, tf.newaxis], resize)


def _occlusion(passes: GraphQueries, *, patch: Any, stride: Any, groups: Any, baseline: Any, **other: Any) -> Any:
    _refuse_other(perturbation.occlusion, other)
    if groups is not None:
        raise BadInput("an exported graph covers the same patches of every input; do not set groups")
    has_channels = passes.inputs.shape.rank > 2
    spatial = _sizes(passes.inputs) if has_channels else _sizes(passes.inputs[..., tf.newaxis])
    patch = 1 if patch is None and not has_channels else patch
    windows = perturbation.occlusion_windows(tuple(spatial), patch, stride)
    corners = np.array([[part.start for part in window] for window in windows], np.int32)
    sides = [part.stop - part.start for part in windows[0]]
    cover = np.zeros(spatial)
    for window in windows:
        cover[window] += 1

    whole = passes.target_scores

    def add(number: Any, drops: Any) -> Any:
        inside = tf.ones([1] * len(spatial), tf.bool)
        for axis, (size, side) in enumerate(zip(spatial, sides, strict=True)):
            places = np.arange(size, dtype=np.int32) - tf.gather(corners, number)[axis]
            shape = [size if other == axis else 1 for other in range(len(spatial))]
            inside &= tf.reshape((places >= 0) & (places < side), shape)
        over_channels = inside[..., tf.newaxis] if has_channels else inside
        covered = tf.where(over_channels[tf.newaxis], _path_start(passes.inputs, baseline), passes.inputs)
        drop = tf.cast(whole - passes.variant_scores(covered), tf.float64)
        return drops + tf.reshape(drop, [-1] + [1] * len(spatial)) * tf.cast(inside[tf.newaxis], tf.float64)

    start = tf.zeros_like(passes.inputs[..., 0] if has_channels else passes.inputs, tf.float64)
    return _loop(len(windows), add, start) / cover


def _masked_scores(passes: GraphQueries, values: Any) -> Any:
    """Return target scores ``(N, channels)`` of the inputs times each channel's mask (see ``cam.score_cam``)."""
    channels = values.shape[-1]
    axes = tuple(range(1, values.shape.rank - 1))

    def add(number: Any, scores: Any) -> Any:
        mask = _resized(tf.gather(values, number, axis=-1), _sizes(passes.inputs))
        low, high = tf.reduce_min(mask, axes, keepdims=True), tf.reduce_max(mask, axes, keepdims=True)
        mask = (mask - low) / tf.where(high > low, high - low, 1.0)
        found = passes.variant_scores(passes.inputs * mask[..., tf.newaxis])
        return scores + tf.one_hot(number, channels) * found[:, tf.newaxis]

    return _loop(channels, add, tf.zeros_like(tf.reduce_sum(values, axes)))


def _loop(count: int, add: Callable[[Any, Any], Any], start: Any) -> Any:
    """Return ``start`` after ``add(number, total)`` for every number below ``count``, one after another."""
    numbered = tf.while_loop(
        lambda number, _: number < count,
        lambda number, total: (number + 1, add(number, total)),
        (0, start),
        # The number of rows is not known, and stays.
        shape_invariants=(tf.TensorShape(()), start.shape),
        parallel_iterations=1,
    )
    return numbered[1]


def _refuse_other(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise BadInput for a parameter that an exported graph has at its default only."""
    for name, value in given.items():
        default = inspect.signature(function).parameters[name].default
        if value != default:
            raise BadInput(f"an exported graph has {name}={default!r} only")


def _combine(passes: GraphQueries, values: Any, weights: Any, resize: bool, rectify: bool = True) -> Any:
    """Return ReLU of the weighted sum of channels, upsampled if ``resize``."""
    return _rectified(passes, tf.einsum("n...c,nc->n...", values, weights), resize, rectify)


def _rectified(passes: GraphQueries, maps: Any, resize: bool, rectify: bool = True) -> Any:
    maps = tf.nn.relu(maps) if rectify else maps
    return _resized(maps, _sizes(passes.inputs)) if resize else maps


def _resized(maps: Any, spatial: Sequence[int]) -> Any:
    """Return maps ``(N, positions...)`` resized as ``attribution.methods.resizing`` does."""
    for axis, (size, new_size) in enumerate(zip(maps.shape[1:], spatial, strict=True), start=1):
        if size != new_size:
            matrix = resizing.interpolation_matrix(size, new_size)
            order = list(range(maps.shape.rank - 1))
            order.insert(axis, maps.shape.rank - 1)
            maps = tf.transpose(tf.tensordot(maps, matrix, [[axis], [1]]), order)
    return maps


def _sizes(tensor: Any) -> list[int]:
    """Return the sizes of the axes between batch and channels."""
    sizes: list[int] = tensor.shape[1:-1].as_list()
    if None in sizes:
        raise BadInput(f"the model takes inputs of any size {tensor.shape}, this method needs a size in its signature")
    return sizes


def _positions(values: Any) -> tuple[int, ...]:
    return tuple(range(1, values.shape.rank - 1))


def _live(values: Any) -> Any:
    """Return which channels are not constant over positions, ``(N, channels)`` bool."""
    axes = _positions(values)
    return tf.reduce_max(values, axes) > tf.reduce_min(values, axes)


_COUNTERPARTS: dict[Callable[..., Any], Callable[..., Any]] = {
    gradients.integrated_gradients: _integrated_gradients,
    deeplift.deeplift: _deeplift,
    cam.grad_cam: _grad_cam,
    cam.guided_grad_cam: _guided_grad_cam,
    cam.grad_cam_plus_plus: _grad_cam_plus_plus,
    cam.hires_cam: _hires_cam,
    cam.layer_cam: _layer_cam,
    cam.xgrad_cam: _xgrad_cam,
    cam.score_cam: _score_cam,
    cam.score_cam_constant_masks: _score_cam_constant_masks,
    cam.sise: _sise,
    perturbation.occlusion: _occlusion,
}
