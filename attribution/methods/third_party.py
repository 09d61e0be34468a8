"""Methods of tf-keras-vis and tf-explain, computed by the libraries themselves on the live Keras network.

``METHOD@LIBRARY`` (``attribution.methods.libraries``) computes the same by this project's methods on any SavedModel;
docs/libraries.md describes both, and tests compare them. Neither library can explain a SavedModel, so that each method
here needs the live Keras network behind it. A live network or a ``.keras`` file that was loaded has it. For the
SavedModels of this installation, ``saved_models/live_networks.json`` names the function that builds it.

Every function takes the queries of a batch of inputs and returns maps without the channel axis. ``LIBRARY_METHOD`` is
the method ``LIBRARY.METHOD`` of ``registry.toml``; its card has the definition of the preset.
"""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput, listed
from attribution.methods.queries import ModelQueries
from attribution.plugins import imported
from attribution.reading import read_json

if TYPE_CHECKING:
    from attribution.model.model import Model

_ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the checkout, or of the installed packages
_MODELS, _NETWORKS = "saved_models", "live_networks.json"
_TOLERANCE = 1e-4  # largest difference of scores, relative to the largest score


def bundled(model: Model) -> Any:
    """Return the live network of a SavedModel of this installation; others name no code that would be run for them."""
    path = model.path.resolve()
    parts = path.relative_to(_ROOT).parts if path.is_relative_to(_ROOT) else ()
    if _MODELS not in parts[:2]:
        return None
    above = parts[: parts.index(_MODELS) + 1]
    names = read_json(_ROOT.joinpath(*above, _NETWORKS))
    name = names.get(parts[len(above)])
    return matching(model, imported(name, "network")(model)) if name else None


def offer(model: Model, build: Callable[[Any], Any]) -> None:
    """Set the function that returns a model's live Keras network; it is called when a method needs the network.

    Parameters
    ----------
    model : attribution.model.model.Model
        The loaded SavedModel.
    build
        Takes a loaded SavedModel, this one or one with other weights, and returns a ``keras.Model`` that has its
        weights (``with_weights``) and its scores.
    """
    if hasattr(model, "source"):  # a served model has none
        model.source.live_network = lambda wanted: matching(wanted, build(wanted))


def with_weights(network: Any, model: Model) -> Any:
    """Return a Keras network after giving it the weights of a SavedModel that lists them in the same order.

    Raises
    ------
    BadInput
        If the SavedModel has other variables.
    """
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
    """Return a Keras network as the libraries need it, if it computes a SavedModel's scores of random inputs.

    Parameters
    ----------
    model : attribution.model.model.Model
        The loaded SavedModel.
    network : keras.Model
        Its inputs are named as the file's where there are several.

    Raises
    ------
    BadInput
        If the network has other inputs or other scores.
    """
    import keras

    from attribution.batching import random_feed

    names = [tensor.name for tensor in network.inputs]
    several = len(names) > 1
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
    warnings.filterwarnings("ignore", "The structure of `inputs`", UserWarning)  # at each call of a custom method
    inputs = network.inputs if several else network.inputs[0]
    network = keras.Model(inputs, network.outputs[0])  # tf-explain needs attributes that a Sequential lacks
    # The libraries take a layer's first call for that of the network; a file's layers may have others.
    is_called_again = any(len(layer._inbound_nodes) > 1 for layer in network.layers)
    return _copied(network) if is_called_again else network


def _copied(network: Any) -> Any:
    """Return a copy of a network, whose layers are called by it alone."""
    import keras

    classes = {type(layer).__name__: type(layer) for layer in network._flatten_layers()}
    with keras.saving.custom_object_scope(classes):
        copied = keras.models.clone_model(network)
    copied.set_weights(network.get_weights())
    return copied


def tf_keras_vis_gradient(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Saliency: |gradient|, largest channel, each map scaled to [0, 1]."""
    return _saliency(queries)


def tf_keras_vis_smoothgrad(queries: ModelQueries, *, samples: int = 25, noise: float = 0.15) -> np.ndarray:
    """tf-keras-vis's Saliency with noise: as its gradient, of the mean over noisy copies."""
    return _saliency(queries, smooth_samples=samples, smooth_noise=noise)


def tf_keras_vis_guided_backprop(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Saliency on a network whose ReLUs its GuidedBackpropagation has replaced."""
    from tf_keras_vis.utils.model_modifiers import GuidedBackpropagation

    network = queries.keras_model
    for layer in network._flatten_layers(include_self=False):
        if getattr(getattr(layer, "activation", None), "__name__", "") == "relu" and layer not in network.layers:
            raise BadInput(f"tf-keras-vis does not change the ReLU of '{layer.name}', which is inside another layer")
    return _saliency(queries, modifier=GuidedBackpropagation())


def tf_keras_vis_grad_cam(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Gradcam: linear upsampling with aligned corners, each map scaled to [0, 1]."""
    from tf_keras_vis.gradcam import Gradcam

    return _cam(queries, Gradcam)


def tf_keras_vis_grad_cam_plus_plus(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's GradcamPlusPlus: upsampled and scaled as its Gradcam."""
    from tf_keras_vis.gradcam_plus_plus import GradcamPlusPlus

    return _cam(queries, GradcamPlusPlus)


def tf_keras_vis_score_cam(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Scorecam: upsampled and scaled as its Gradcam."""
    from tf_keras_vis.scorecam import Scorecam

    return _cam(queries, Scorecam)


def tf_explain_gradient(queries: ModelQueries) -> np.ndarray:
    """tf-explain's VanillaGradients: |gradient|, summed over channels."""
    from tf_explain.core.vanilla_gradients import VanillaGradients

    return _by_class(queries, lambda x, target, network, _: VanillaGradients.compute_gradients(x, network, target))


def tf_explain_gradient_x_input(queries: ModelQueries) -> np.ndarray:
    """tf-explain's GradientsInputs: |input times gradient|, summed over channels."""
    from tf_explain.core.gradients_inputs import GradientsInputs

    return _by_class(queries, lambda x, target, network, _: GradientsInputs.compute_gradients(x, network, target))


def tf_explain_integrated_gradients(queries: ModelQueries, *, points: int = 10) -> np.ndarray:
    """tf-explain's IntegratedGradients: |mean gradient on the path|, never multiplied by the input."""
    from tf_explain.core.integrated_gradients import IntegratedGradients

    def run(x: np.ndarray, target: int, network: Any, rows: np.ndarray) -> Any:
        path = IntegratedGradients.generate_interpolations(x, points).astype(np.float32)
        return IntegratedGradients.get_integrated_gradients(path, network, target, points)

    return _by_class(queries, run)


def tf_explain_smoothgrad(queries: ModelQueries, *, samples: int = 5, noise: float = 1.0) -> np.ndarray:
    """tf-explain's SmoothGrad: |mean gradient of the cross-entropy| with noise of a fixed standard deviation."""
    from tf_explain.core.smoothgrad import SmoothGrad

    def run(x: np.ndarray, target: int, network: Any, rows: np.ndarray) -> Any:
        noisy = np.repeat(x, samples, axis=0)
        noisy += np.concatenate(
            [queries.generator(row, "tf-explain").normal(0, noise, (samples, *x.shape[1:])) for row in rows],
            dtype=np.float32,
        )
        return SmoothGrad.get_averaged_gradients(noisy, network, target, samples)

    return _by_class(queries, run)


def tf_explain_grad_cam(queries: ModelQueries, *, layer: str | None = None) -> np.ndarray:
    """tf-explain's GradCAM: gradients guided by activation and sign before they are averaged, no final ReLU.

    ``layer`` is a Keras layer's name; by default the last with a spatial output, which the library itself cannot
    find on Keras 3.
    """
    from tf_explain.core.grad_cam import GradCAM

    from attribution.methods import resizing

    def run(x: np.ndarray, target: int, network: Any, rows: np.ndarray) -> Any:
        name = layer or [item.name for item in network.layers if len(item.output.shape) == x.ndim][-1]
        values, gradients = GradCAM.get_gradients_and_filters(network, x, name, int(target), True)
        maps = np.stack([np.asarray(one) for one in GradCAM.generate_ponderated_output(values, gradients)])
        return resizing.resize(maps, x.shape[1:-1])

    return _by_class(queries, run, needs_images=True)


def tf_explain_occlusion(queries: ModelQueries, *, patch: int | None = None) -> np.ndarray:
    """tf-explain's OcclusionSensitivity: 1 - score under a patch of the value 127.5, whatever the input's range."""
    from tf_explain.core.occlusion_sensitivity import OcclusionSensitivity

    from attribution.methods import resizing

    def run(x: np.ndarray, target: int, network: Any, rows: np.ndarray) -> Any:
        side = patch or -(-x.shape[1] // 8)
        maps = [OcclusionSensitivity(len(x)).get_sensitivity_map(network, image, int(target), side) for image in x]
        return resizing.resize(np.stack(maps).astype(np.float32), x.shape[1:-1])

    return _by_class(queries, run, needs_images=True)


def _networks(queries: ModelQueries) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield networks of one input, as both libraries take them, and the rows that each explains.

    A network of several inputs becomes one for each row, in which the other inputs are constants.
    """
    import keras

    network, rows, explained = queries.keras_model, np.arange(len(queries)), queries._explained
    names = [tensor.name for tensor in network.inputs]
    if len(names) == 1:
        yield rows, network
        return
    if explained not in names:
        raise BadInput(f"tf-keras-vis and tf-explain explain an input of the network, {listed(names)}")

    class Constant(keras.layers.Layer):  # type: ignore[misc]
        """The same values for every row of its input."""

        def __init__(self, value: Any, kind: str, **others: Any) -> None:
            super().__init__(dtype=kind, autocast=False, **others)
            self.value, self.kind = value, kind

        def call(self, x: Any) -> Any:
            value = keras.ops.convert_to_tensor(self.value, self.kind)
            return keras.ops.repeat(value[None], keras.ops.shape(x)[0], axis=0)

        def compute_output_spec(self, x: Any) -> Any:
            return keras.KerasTensor((None, *np.shape(self.value)), self.kind)

        def get_config(self) -> dict[str, Any]:
            return {"value": self.value, "kind": self.kind, "name": self.name}

    for row in rows:
        source = keras.Input(queries.inputs.shape[1:], dtype=queries.inputs.dtype.name)
        given = [
            source if name == explained else Constant(array[row].tolist(), array.dtype.name)(source)
            for name, array in ((name, queries.feed[name]) for name in names)
        ]
        shared = keras.Model(source, network.call(given))
        yield rows[row : row + 1], _copied(shared)


def _score(queries: ModelQueries, rows: np.ndarray) -> Any:
    from tf_keras_vis.utils.scores import CategoricalScore

    return CategoricalScore(queries.targets[rows].tolist())


def _saliency(queries: ModelQueries, modifier: Any = None, **options: Any) -> np.ndarray:
    from tf_keras_vis.saliency import Saliency

    def run(network: Any, rows: np.ndarray) -> Any:
        return Saliency(network, model_modifier=modifier, clone=True)(
            _score(queries, rows), queries.inputs[rows], **options
        )

    # Its noise comes from NumPy's global generator, whose state is restored.
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(queries.generator(0, "tf-keras-vis").integers(2**32))  # noqa: NPY002
    try:
        return _by_network(queries, run)
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _cam(queries: ModelQueries, kind: Any) -> np.ndarray:
    return _by_network(
        queries,
        lambda network, rows: kind(network, clone=False)(
            _score(queries, rows), queries.inputs[rows], penultimate_layer=-1
        ),
    )


def _by_class(queries: ModelQueries, run: Callable[..., Any], needs_images: bool = False) -> np.ndarray:
    """Run a method of tf-explain, which explains one class per call, on the inputs of each class."""
    if needs_images and queries.inputs.ndim != 4:
        raise BadInput("this method of tf-explain explains images alone")

    def by_class(network: Any, rows: np.ndarray) -> np.ndarray:
        maps = np.empty(queries.inputs[rows].shape[:-1], np.float32)
        for target in np.unique(queries.targets[rows]):
            chosen = queries.targets[rows] == target
            result = np.asarray(run(queries.inputs[rows[chosen]], target, network, rows[chosen]))
            maps[chosen] = np.abs(result).sum(axis=-1) if result.ndim == queries.inputs.ndim else result
        return maps

    return _by_network(queries, by_class)


def _by_network(queries: ModelQueries, run: Callable[[Any, np.ndarray], Any]) -> np.ndarray:
    """Return the maps that ``run(network, rows)`` returns, without Keras's progress bars."""
    import keras

    shown = keras.config.is_interactive_logging_enabled()
    keras.config.disable_interactive_logging()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The structure of `inputs`", UserWarning)  # which is a list of one
            return np.concatenate([np.asarray(run(network, rows)) for rows, network in _networks(queries)])
    finally:
        if shown:
            keras.config.enable_interactive_logging()
