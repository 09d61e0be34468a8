"""Methods of tf-keras-vis and tf-explain, computed by the libraries themselves on the live Keras network.

``METHOD@LIBRARY`` (``attribution.methods.libraries``) computes the same by this project's methods on any SavedModel;
docs/libraries.md describes both, and tests compare them. Neither library can explain a SavedModel, so that each method
here needs the live Keras network behind it: ``attach(model, network)`` gives a network of the same architecture the
file's weights and checks that both agree.

Every function takes the queries of a batch of inputs and returns maps without the channel axis.
"""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput, listed
from attribution.keras_models import read_file
from attribution.methods.libraries import MARK, libraries
from attribution.methods.method import DETERMINISTIC, SEED_PER_INPUT, Method, MethodCard
from attribution.methods.queries import ModelQueries
from attribution.model.protocols import ScoredModel
from attribution.plugins import imported

if TYPE_CHECKING:
    from attribution.model.model import Model


def attach(model: Model, network: Any, tolerance: float = 1e-4) -> None:
    """Give a SavedModel the live Keras network that some methods need.

    Parameters
    ----------
    model : attribution.model.model.Model
        The loaded SavedModel.
    network : keras.Model
        The architecture it was exported from; its weights are replaced by the file's. Its output must be the score
        the model was loaded for, logits or probabilities.
    tolerance
        Largest difference of scores on random inputs, relative to the largest score.

    Raises
    ------
    BadInput
        If the network has other variables or other scores.
    """
    loaded = model.load_file()
    if not hasattr(loaded, "variables"):
        raise BadInput(
            f"'{model.path}' does not list its variables as keras.Model.export does; give a network that already "
            "has its weights to attribution.methods.third_party.take"
        )
    variables = loaded.variables
    shapes = _shapes(variables)
    # The state of random generators is among the variables and not among the weights.
    own = next((one for one in (network.weights, network.variables) if _shapes(one) == shapes), None)
    if own is None:
        raise BadInput(f"'{model.path}' was not exported from this network: its variables have shapes {shapes}")
    for variable, value in zip(own, variables, strict=True):
        variable.assign(value.numpy())
    take(model, network, tolerance=tolerance)


def _shapes(variables: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tuple(variable.shape) for variable in variables]


def take(
    model: ScoredModel, network: Any, sample: Mapping[str, np.ndarray] | None = None, tolerance: float = 1e-4
) -> None:
    """Make a network that has a SavedModel's weights its live network, if both compute the same scores.

    Parameters
    ----------
    model : attribution.model.model.Model
        The loaded SavedModel.
    network : keras.Model
        Its inputs are named as the file's where there are several.
    sample
        Inputs to compare the scores on, by name; by default random numbers in [0, 1], and zeros for inputs of integers.
    tolerance
        Largest difference of scores, relative to the largest.

    Raises
    ------
    BadInput
        If the network has other inputs or other scores.
    """
    import keras

    from attribution.model._loading_checks import random_feed

    names = [tensor.name for tensor in network.inputs]
    several = len(names) > 1
    has_names = set(names) == set(model.inputs) if several else len(model.inputs) == 1
    if not has_names:
        raise BadInput(f"'{model.path}' takes {listed(model.inputs)}, and the network {listed(names)}")
    feed = random_feed(model, 4) if sample is None else sample
    scores = model.scores(feed)
    live = np.asarray(network([feed[name] for name in names] if several else next(iter(feed.values()))))
    if scores.shape != live.shape or np.abs(scores - live).max() > tolerance * np.abs(scores).max():
        hint = "; load the model with score='probabilities' if the network ends in them" * (model.score == "logits")
        raise BadInput(f"the network does not compute the {model.score} of '{model.path}'{hint}")
    _ignore_list_warnings()
    inputs = network.inputs if several else network.inputs[0]
    model.live = keras.Model(inputs, network.outputs[0])  # tf-explain needs attributes that a Sequential lacks


def _ignore_list_warnings() -> None:
    """Silence the warning of Keras at each call of a library that wraps inputs in a list, which Keras accepts."""
    warnings.filterwarnings("ignore", "The structure of `inputs`", UserWarning)


def offer(model: ScoredModel, source: Any) -> None:
    """Set the source of a SavedModel's live Keras network, which is built when a method needs it.

    Parameters
    ----------
    model : attribution.model.model.Model
        The loaded SavedModel.
    source
        A ``keras.Model``; a function that builds one; ``"module:function"`` or ``"file.py:function"``, which names such
        a function; or the path of a ``.keras`` file.

    Raises
    ------
    BadInput
        If the source is neither.
    """
    build = _builder(source)

    def build_and_attach(model: Model) -> None:
        with _quiet():
            attach(model, _built(build))
        _ignore_list_warnings()  # again: filters set within the context end with it

    model.live_source = build_and_attach


def _builder(source: Any) -> Callable[[], Any]:
    """Return the function that builds the network of a source as ``offer`` takes it."""
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        if ":" in text and not text.endswith(".keras"):
            return imported(text, "network")
        if not os.path.isfile(text):
            raise BadInput(
                f"'{text}' is not a Keras network; expected module:function, file.py:function or a .keras file"
            )
        return functools.partial(read_file, text)
    if not hasattr(source, "get_weights") and not callable(source):
        raise BadInput(
            f"keras_model is of type {type(source).__name__}; give a keras.Model or a function that builds it"
        )
    build: Callable[[], Any] = (lambda: source) if hasattr(source, "get_weights") else source
    return build


def _built(build: Callable[[], Any]) -> Any:
    """Return the network that a user's function builds."""
    try:
        network = build()
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"the Keras network could not be built: {type(error).__name__}: {error}") from error
    if not hasattr(network, "get_weights"):
        raise BadInput(f"the Keras network is of type {type(network).__name__}; a keras.Model is needed")
    return network


def _tf_keras_vis_gradient(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Saliency: |gradient|, largest channel, each map scaled to [0, 1]."""
    return _saliency(queries)


def _tf_keras_vis_smoothgrad(queries: ModelQueries, *, samples: int = 25, noise: float = 0.15) -> np.ndarray:
    """tf-keras-vis's Saliency with noise: as its gradient, of the mean over noisy copies."""
    return _saliency(queries, smooth_samples=samples, smooth_noise=noise)


def _tf_keras_vis_guided_backprop(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Saliency on a network whose ReLUs its GuidedBackpropagation has replaced."""
    from tf_keras_vis.utils.model_modifiers import GuidedBackpropagation

    return _saliency(queries, modifier=GuidedBackpropagation())


def _tf_keras_vis_grad_cam(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Gradcam: linear upsampling with aligned corners, each map scaled to [0, 1]."""
    from tf_keras_vis.gradcam import Gradcam

    return _cam(queries, Gradcam)


def _tf_keras_vis_grad_cam_plus_plus(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's GradcamPlusPlus: upsampled and scaled as its Gradcam."""
    from tf_keras_vis.gradcam_plus_plus import GradcamPlusPlus

    return _cam(queries, GradcamPlusPlus)


def _tf_keras_vis_score_cam(queries: ModelQueries) -> np.ndarray:
    """tf-keras-vis's Scorecam: upsampled and scaled as its Gradcam."""
    from tf_keras_vis.scorecam import Scorecam

    return _cam(queries, Scorecam)


def _tf_explain_gradient(queries: ModelQueries) -> np.ndarray:
    """tf-explain's VanillaGradients: |gradient|, summed over channels."""
    from tf_explain.core.vanilla_gradients import VanillaGradients

    return _by_class(queries, lambda x, target, network: VanillaGradients.compute_gradients(x, network, target))


def _tf_explain_gradient_x_input(queries: ModelQueries) -> np.ndarray:
    """tf-explain's GradientsInputs: |input times gradient|, summed over channels."""
    from tf_explain.core.gradients_inputs import GradientsInputs

    return _by_class(queries, lambda x, target, network: GradientsInputs.compute_gradients(x, network, target))


def _tf_explain_integrated_gradients(queries: ModelQueries, *, points: int = 10) -> np.ndarray:
    """tf-explain's IntegratedGradients: |mean gradient on the path|, never multiplied by the input."""
    from tf_explain.core.integrated_gradients import IntegratedGradients

    def run(x: np.ndarray, target: int, network: Any) -> Any:
        path = IntegratedGradients.generate_interpolations(x, points).astype(np.float32)
        return IntegratedGradients.get_integrated_gradients(path, network, target, points)

    return _by_class(queries, run)


def _tf_explain_smoothgrad(queries: ModelQueries, *, samples: int = 5, noise: float = 1.0) -> np.ndarray:
    """tf-explain's SmoothGrad: |mean gradient of the cross-entropy| with noise of a fixed standard deviation."""
    from tf_explain.core.smoothgrad import SmoothGrad

    def run(x: np.ndarray, target: int, network: Any, rows: np.ndarray) -> Any:
        noisy = np.repeat(x, samples, axis=0)
        noisy += np.concatenate(
            [queries.generator(row, "tf-explain").normal(0, noise, (samples, *x.shape[1:])) for row in rows],
            dtype=np.float32,
        )
        return SmoothGrad.get_averaged_gradients(noisy, network, target, samples)

    return _by_class(queries, run, with_rows=True)


def _tf_explain_grad_cam(queries: ModelQueries, *, layer: str | None = None) -> np.ndarray:
    """tf-explain's GradCAM: gradients guided by activation and sign before they are averaged, no final ReLU.

    ``layer`` is a Keras layer's name; by default the last with a spatial output, which the library itself cannot
    find on Keras 3.
    """
    from tf_explain.core.grad_cam import GradCAM

    from attribution.methods import resizing

    network = _of_one_input(queries)
    name = layer or [item.name for item in network.layers if len(item.output.shape) == queries.inputs.ndim][-1]

    def run(x: np.ndarray, target: int, network: Any) -> Any:
        values, gradients = GradCAM.get_gradients_and_filters(network, x, name, int(target), True)
        maps = np.stack([np.asarray(one) for one in GradCAM.generate_ponderated_output(values, gradients)])
        return resizing.resize(maps, x.shape[1:-1])

    return _by_class(queries, run)


def _tf_explain_occlusion(queries: ModelQueries, *, patch: int | None = None) -> np.ndarray:
    """tf-explain's OcclusionSensitivity: 1 - score under a patch of the value 127.5, whatever the input's range."""
    from tf_explain.core.occlusion_sensitivity import OcclusionSensitivity

    from attribution.methods import resizing

    def run(x: np.ndarray, target: int, network: Any) -> Any:
        side = patch or -(-x.shape[1] // 8)
        maps = [OcclusionSensitivity(len(x)).get_sensitivity_map(network, image, int(target), side) for image in x]
        return resizing.resize(np.stack(maps).astype(np.float32), x.shape[1:-1])

    return _by_class(queries, run)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Keras from showing a progress bar or a warning about wrapped inputs at each call."""
    import keras

    shown = keras.config.is_interactive_logging_enabled()
    keras.config.disable_interactive_logging()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The structure of `inputs`", UserWarning)
            yield
    finally:
        if shown:
            keras.config.enable_interactive_logging()


def _of_one_input(queries: ModelQueries) -> Any:
    """Return the live network, which must have one input for both libraries."""
    network = queries.keras_model
    if len(network.inputs) > 1:
        names = listed(tensor.name for tensor in network.inputs)
        raise BadInput(
            f"tf-keras-vis and tf-explain take networks of one input, and this one takes {names}; a custom method can "
            "call queries.keras_model with queries.feed"
        )
    return network


def _score(queries: ModelQueries) -> Any:
    from tf_keras_vis.utils.scores import CategoricalScore

    return CategoricalScore([int(target) for target in queries.targets])


def _saliency(queries: ModelQueries, modifier: Any = None, **options: Any) -> np.ndarray:
    from tf_keras_vis.saliency import Saliency

    explainer = Saliency(_of_one_input(queries), model_modifier=modifier, clone=True)
    # Its noise comes from NumPy's global generator, whose state is restored.
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(queries.generator(0, "tf-keras-vis").integers(2**32))  # noqa: NPY002
    try:
        with _quiet():
            return np.asarray(explainer(_score(queries), queries.inputs, **options))
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _cam(queries: ModelQueries, kind: Any) -> np.ndarray:
    with _quiet():
        return np.asarray(
            kind(_of_one_input(queries), clone=False)(_score(queries), queries.inputs, penultimate_layer=-1)
        )


def _by_class(queries: ModelQueries, run: Callable[..., Any], with_rows: bool = False) -> np.ndarray:
    """Run a method of tf-explain, which explains one class per call, on the inputs of each class."""
    if queries.inputs.ndim != 4:
        raise BadInput("tf-explain explains images alone")
    network, maps = _of_one_input(queries), np.empty(queries.inputs.shape[:-1], np.float32)
    for target in np.unique(queries.targets):
        rows = np.flatnonzero(queries.targets == target)
        with _quiet():
            result = np.asarray(run(queries.inputs[rows], target, network, *([rows] if with_rows else [])))
        maps[rows] = np.abs(result).sum(axis=-1) if result.ndim == 4 else result
    return maps


def _library_method(
    function: Callable[..., Any], family: str, title: str, cost: str, randomness: str = DETERMINISTIC
) -> Method:
    """Return a method of another library; its preset says what it computes (``attribution.methods.libraries``)."""
    name = "tf_explain" if function.__name__.startswith("_tf_explain_") else "tf_keras_vis"
    library, method = libraries()[name], function.__name__.removeprefix(f"_{name}_")
    images = " Images." if name == "tf_explain" else ""
    preset = library.presets[method]
    return Method(
        f"{name}.{method}",
        f"{title} ({library.title})",
        function,
        MethodCard(
            f"{library.title}, version {library.version.rpartition('.')[0]}; `{method}{MARK}{name}` computes the same",
            f"The live Keras network (attribution.methods.third_party.attach).{images}",
            cost,
            randomness,
            f"{preset.definition} {preset.differs}".strip(),
        ),
        library.package,
        is_random=randomness is not DETERMINISTIC,
        family=family,
        needs_positions=True,
    )


_BOTH_PASSES = "1 forward and 1 backward pass"
LIBRARY_METHODS = (
    _library_method(_tf_keras_vis_gradient, "gradient", "Saliency", "1 gradient"),
    _library_method(
        _tf_keras_vis_smoothgrad, "gradient", "SmoothGrad", "1 gradient per sample",
        "Gaussian noise, from a seed per batch of inputs.",
    ),
    _library_method(_tf_keras_vis_guided_backprop, "changed ReLU", "Guided Backprop", "1 gradient"),
    _library_method(_tf_keras_vis_grad_cam, "class activation", "Grad-CAM", _BOTH_PASSES),
    _library_method(_tf_keras_vis_grad_cam_plus_plus, "class activation", "Grad-CAM++", _BOTH_PASSES),
    _library_method(_tf_keras_vis_score_cam, "class activation", "Score-CAM", "1 forward pass per channel"),
    _library_method(_tf_explain_gradient, "gradient", "Vanilla Gradient", "1 gradient"),
    _library_method(_tf_explain_gradient_x_input, "path", "Gradient x Input", "1 gradient"),
    _library_method(_tf_explain_integrated_gradients, "path", "Integrated Gradients", "1 gradient per point"),
    _library_method(
        _tf_explain_smoothgrad, "gradient", "SmoothGrad", "1 gradient per sample", f"Gaussian noise, {SEED_PER_INPUT}."
    ),
    _library_method(_tf_explain_grad_cam, "class activation", "Grad-CAM", _BOTH_PASSES),
    _library_method(_tf_explain_occlusion, "masks", "Occlusion", "1 forward pass per patch"),
)  # fmt: skip
