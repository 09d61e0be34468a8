"""Methods of tf-keras-vis and tf-explain, computed by the libraries themselves on the live Keras network.

``METHOD@LIBRARY`` (``attribution.methods.libraries``) computes the same by this project's methods on any SavedModel,
and tests compare both. The libraries need a live network, a ``.keras`` file or a SavedModel of this installation, for
which ``saved_models/live_networks.json`` names the function that builds the network. Each method takes the queries of a
batch of inputs and returns maps without the channel axis. ``LIBRARY_METHOD`` is ``LIBRARY.METHOD`` of
``registry.toml``; its card has the definition of the preset.
"""

from __future__ import annotations

import contextlib
import functools
import io
import pathlib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.batching import random_feed
from attribution.errors import BadInput, listed
from attribution.methods import resizing
from attribution.methods.queries import ModelQueries
from attribution.plugins import imported
from attribution.reading import read_json

if TYPE_CHECKING:
    from attribution.model.model import Model

_ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the checkout, or of the installed packages
_TOLERANCE = 1e-4  # largest difference of scores, relative to the largest score
_STRUCTURE = "The structure of `inputs`"  # Keras warns of it where one input is given as a list of one


def bundled(model: Model) -> Any:
    """Return the live network of a SavedModel of this installation; others name no code that would be run for them."""
    path = model.path.resolve()
    places = [one for one in path.parents if one.name == "saved_models" and _ROOT in (one.parent, one.parent.parent)]
    name = read_json(places[0] / "live_networks.json").get(path.relative_to(places[0]).parts[0]) if places else None
    return matching(model, imported(name, "network")(model)) if name else None


def offer(model: Model, build: Callable[[Any], Any]) -> None:
    """Set the function that returns a model's live Keras network; it is called when a method needs the network.

    ``build`` takes a loaded SavedModel, this one or one with other weights, whose weights and scores the network has.
    """
    if hasattr(model, "source"):  # a served model has none
        model.source.live_network = lambda wanted: matching(wanted, build(wanted))


def with_weights(network: Any, model: Model) -> Any:
    """Return a Keras network with the weights of a SavedModel; ``BadInput`` if that has not the same variables."""
    loaded = model.load_file()  # its variables live no longer than it
    variables = getattr(loaded, "variables", ())
    shapes = [tuple(variable.shape) for variable in variables]
    # The state of random generators is among the variables and not among the weights.
    for own in (network.weights, network.variables):
        if [tuple(variable.shape) for variable in own] == shapes:
            for variable, value in zip(own, variables, strict=True):
                variable.assign(value.numpy())
            return network
    raise BadInput(f"'{model.path}' was not exported from this network: its variables have shapes {shapes}")


def matching(model: Model, network: Any) -> Any:
    """Return a ``keras.Model`` as the libraries need it, if it computes a SavedModel's scores of random inputs.

    Its inputs are named as the file's where there are several. Raises ``BadInput`` if it has other inputs or scores.
    """
    import keras

    names, several = [tensor.name for tensor in network.inputs], len(network.inputs) > 1
    if set(names) != set(model.inputs) if several else len(model.inputs) > 1:
        raise BadInput(f"'{model.path}' takes {listed(model.inputs)}, and the network {listed(names)}")
    feed = {
        name: np.ones_like(array) if array.dtype.kind in "iu" else array  # such as words, of which 0 may be none
        for name, array in random_feed(model, 4).items()
    }
    scores = model.scores(feed)
    live = np.asarray(network([feed[name] for name in names] if several else next(iter(feed.values()))))
    if scores.shape != live.shape or np.abs(scores - live).max() > _TOLERANCE * np.abs(scores).max():
        hint = "; load the model with score='probabilities' if the network ends in them" * (model.score == "logits")
        raise BadInput(f"the network does not compute the {model.score} of '{model.path}'{hint}")
    warnings.filterwarnings("ignore", _STRUCTURE, UserWarning)  # at each call of a custom method
    # tf-explain needs attributes that a Sequential lacks.
    network = keras.Model(network.inputs if several else network.inputs[0], network.outputs[0])
    # The libraries take a layer's first call for that of the network; a file's layers may have others.
    return _copied(network) if any(len(layer._inbound_nodes) > 1 for layer in network.layers) else network


def _copied(network: Any) -> Any:
    """Return a copy of a network, whose layers are called by it alone."""
    import keras

    with keras.saving.custom_object_scope({type(layer).__name__: type(layer) for layer in network._flatten_layers()}):
        copied = keras.models.clone_model(network)
    copied.set_weights(network.get_weights())
    return copied


def _of_one_input(queries: ModelQueries, row: int) -> Any:
    """Return a network of the explained input alone, in which the other inputs are constants, those of a row."""
    import keras

    names, explained = [tensor.name for tensor in queries.keras_model.inputs], queries._explained
    if explained not in names:
        raise BadInput(f"tf-keras-vis and tf-explain explain an input of the network, {listed(names)}")
    source = keras.Input(queries.inputs.shape[1:], dtype=queries.inputs.dtype.name)
    firsts = keras.ops.zeros_like(source[(slice(None), *[0] * (source.ndim - 1))], "int32")  # one for each copy
    given = {name: keras.ops.take(queries.feed[name][row : row + 1], firsts, axis=0) for name in names}
    given[explained] = source
    return _copied(keras.Model(source, queries.keras_model.call([given[name] for name in names])))


def _maps(queries: ModelQueries, groups: np.ndarray, run: Callable[..., Any]) -> np.ndarray:
    """Return the maps of ``run(network, inputs, targets, rows)`` for each group of rows, its network of one input."""
    maps, several = np.empty(queries.inputs.shape[:-1], np.float32), len(queries.keras_model.inputs) > 1
    groups = np.arange(len(queries)) if several else groups
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # without Keras's progress bars
        warnings.filterwarnings("ignore", _STRUCTURE, UserWarning)
        for rows in (np.flatnonzero(groups == group) for group in np.unique(groups)):
            network = _of_one_input(queries, rows[0]) if several else queries.keras_model
            found = np.asarray(run(network, queries.inputs[rows], queries.targets[rows], rows))
            maps[rows] = np.abs(found).sum(axis=-1) if found.ndim == queries.inputs.ndim else found
    return maps


def _tf_keras_vis(queries: ModelQueries, name: str, modifier: Any = None, **options: Any) -> np.ndarray:
    """Return the maps of a class ``module:NAME`` of tf-keras-vis, of the network as the modifier leaves it."""
    kind, score = (imported(f"tf_keras_vis.{one}", "class") for one in (name, "utils.scores:CategoricalScore"))

    def run(network: Any, x: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> Any:
        return kind(network, modifier)(score(targets.tolist()), x, **options)

    return _maps(queries, np.zeros(len(queries)), run)


def _tf_explain(queries: ModelQueries, name: str, run: Callable[..., Any], needs_images: bool = False) -> np.ndarray:
    """Return the maps of a class ``module:NAME`` of tf-explain, which explains one class of the network at a time."""
    if needs_images and queries.inputs.ndim != 4:
        raise BadInput("this method of tf-explain explains images alone")
    return _maps(queries, queries.targets, functools.partial(run, imported(f"tf_explain.core.{name}", "class")))


def _cam(name: str, queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Gradcam, GradcamPlusPlus or Scorecam: upsampled with aligned corners, each scaled to [0, 1]."""
    return _tf_keras_vis(queries, name, penultimate_layer=-1)


def _gradient(name: str, queries: ModelQueries) -> np.ndarray:
    """tf-explain's VanillaGradients or GradientsInputs: |gradient| or |input times gradient|, summed over channels."""
    return _tf_explain(queries, name, lambda kind, model, x, targets, _: kind.compute_gradients(x, model, targets[0]))


tf_keras_vis_grad_cam = functools.partial(_cam, "gradcam:Gradcam")
tf_keras_vis_grad_cam_plus_plus = functools.partial(_cam, "gradcam_plus_plus:GradcamPlusPlus")
tf_keras_vis_score_cam = functools.partial(_cam, "scorecam:Scorecam")
tf_explain_gradient = functools.partial(_gradient, "vanilla_gradients:VanillaGradients")
tf_explain_gradient_x_input = functools.partial(_gradient, "gradients_inputs:GradientsInputs")


def tf_keras_vis_gradient(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Saliency: |gradient|, largest channel, each map scaled to [0, 1]."""
    return _tf_keras_vis(queries, "saliency:Saliency")


def tf_keras_vis_smoothgrad(queries: ModelQueries, *, samples: int = 25, noise: float = 0.15) -> np.ndarray:
    """tf-keras-vis's Saliency with noise: as its gradient, of the mean over noisy copies."""
    state = np.random.get_state()  # noqa: NPY002 (its noise comes from this global generator)
    np.random.seed(queries.generator(0, "tf-keras-vis").integers(2**32))  # noqa: NPY002
    try:
        return _tf_keras_vis(queries, "saliency:Saliency", smooth_samples=samples, smooth_noise=noise)
    finally:
        np.random.set_state(state)  # noqa: NPY002


def tf_keras_vis_guided_backprop(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Saliency on a network whose ReLUs its GuidedBackpropagation has replaced."""
    for layer in queries.keras_model._flatten_layers(include_self=False):
        is_relu = getattr(getattr(layer, "activation", None), "__name__", "") == "relu"
        if is_relu and layer not in queries.keras_model.layers:
            raise BadInput(f"tf-keras-vis does not change the ReLU of '{layer.name}', which is inside another layer")
    modifier = imported("tf_keras_vis.utils.model_modifiers:GuidedBackpropagation", "class")()
    return _tf_keras_vis(queries, "saliency:Saliency", modifier)


def tf_explain_integrated_gradients(queries: ModelQueries, *, points: int = 10) -> np.ndarray:
    """tf-explain's IntegratedGradients: |mean gradient on the path|, never multiplied by the input."""

    def run(kind: Any, network: Any, x: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> Any:
        return kind.get_integrated_gradients(kind.generate_interpolations(x, points), network, targets[0], points)

    return _tf_explain(queries, "integrated_gradients:IntegratedGradients", run)


def tf_explain_smoothgrad(queries: ModelQueries, *, samples: int = 5, noise: float = 1.0) -> np.ndarray:
    """tf-explain's SmoothGrad: |mean gradient of the cross-entropy| with noise of a fixed standard deviation."""

    def run(kind: Any, network: Any, x: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> Any:
        added = [queries.generator(row, "tf-explain").normal(0, noise, (samples, *x.shape[1:])) for row in rows]
        noisy = np.repeat(x, samples, axis=0) + np.concatenate(added, dtype=np.float32)
        return kind.get_averaged_gradients(noisy, network, targets[0], samples)

    return _tf_explain(queries, "smoothgrad:SmoothGrad", run)


def tf_explain_grad_cam(queries: ModelQueries, *, layer: str | None = None) -> np.ndarray:
    """tf-explain's GradCAM: gradients guided by activation and sign before they are averaged, no final ReLU."""

    def run(kind: Any, network: Any, x: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> Any:
        # The last Keras layer with a spatial output by default, which the library itself cannot find on Keras 3.
        name = layer or [item.name for item in network.layers if len(item.output.shape) == x.ndim][-1]
        values, gradients = kind.get_gradients_and_filters(network, x, name, int(targets[0]), True)
        return resizing.resize(np.stack(kind.generate_ponderated_output(values, gradients)), x.shape[1:-1])

    return _tf_explain(queries, "grad_cam:GradCAM", run, needs_images=True)


def tf_explain_occlusion(queries: ModelQueries, *, patch: int | None = None) -> np.ndarray:
    """tf-explain's OcclusionSensitivity: 1 - score under a patch of the value 127.5, whatever the input's range."""

    def run(kind: Any, network: Any, x: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> Any:
        target, side = int(targets[0]), patch or -(-x.shape[1] // 8)
        maps = [kind(len(x)).get_sensitivity_map(network, image, target, side) for image in x]
        return resizing.resize(np.stack(maps).astype(np.float32), x.shape[1:-1])

    return _tf_explain(queries, "occlusion_sensitivity:OcclusionSensitivity", run, needs_images=True)
