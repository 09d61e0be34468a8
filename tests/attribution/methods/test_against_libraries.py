"""Presets against the libraries themselves, on networks with the same weights."""

import contextlib
import functools
import tempfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution import batching
from attribution.methods.libraries import EXACT, libraries
from attribution.methods.perturbation import random_masks

pytestmark = [pytest.mark.filterwarnings("ignore::attribution.errors.MissedSum", "ignore::UserWarning")]
ROWS = 3
TARGETS = np.array([0, 2, 1])


def images():
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            keras.layers.Conv2D(6, 3, 2, padding="same", activation="relu"),
            keras.layers.Conv2D(8, 3, 2, padding="same", activation="relu", name="last"),
            keras.layers.Flatten(),
            keras.layers.Dense(4, name="scores"),
        ]
    )


def normalized():
    """Not square, with batch normalization and pooling, ending in a softmax."""
    return keras.Sequential(
        [
            keras.Input((14, 20, 2)),
            keras.layers.Conv2D(6, 3, padding="same"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(8, 3, padding="same", name="last"),
            keras.layers.BatchNormalization(),
            keras.layers.Activation("relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(4),
            keras.layers.Softmax(),
        ]
    )


def signals():
    return keras.Sequential(
        [
            keras.Input((24, 2)),
            keras.layers.Conv1D(6, 5, 2, padding="same", activation="relu"),
            keras.layers.Conv1D(8, 3, 2, padding="same", activation="relu", name="last"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(4),
        ]
    )


def relu_activations():
    """As the second network, but square, and each ReLU is the activation of a layer."""
    return keras.Sequential(
        [
            keras.Input((16, 16, 2)),
            keras.layers.Conv2D(6, 3, padding="same", activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu", name="last"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )


NETWORKS = {"images": images, "normalized": normalized, "signals": signals, "relu": relu_activations}


@functools.cache
def trial(kind):
    """Return the network, the same network for explanations, and inputs."""
    network, generator = NETWORKS[kind](), np.random.default_rng(3)
    for variable in network.weights:
        low = 0.5 if "gamma" in variable.name or "variance" in variable.name else -0.5
        variable.assign(generator.uniform(low, low + 1, variable.shape))
    score = "probabilities" if kind in ("normalized", "relu") else "logits"
    model = attribution.load_model(network, score=score)
    return network, model, generator.random((ROWS, *network.input_shape[1:]), dtype=np.float32)


def noise(x, samples):
    """Return the noise of our methods, of standard deviation 1, (samples, N, ...)."""
    drawn = np.empty((len(x), samples, *x.shape[1:]), np.float32)
    for row, of_row in enumerate(drawn):
        generator = batching.generator(0, row, "noise")
        for one in of_row:
            generator.standard_normal(out=one.reshape(-1), dtype=np.float32)
    return drawn.swapaxes(0, 1)


@contextlib.contextmanager
def numpy_noise(draws):
    """Let ``np.random.normal`` return deviations times given numbers, one array a call."""
    draws, original = iter(draws), np.random.normal
    np.random.normal = lambda mean, deviation, shape: deviation * next(draws).reshape(shape)
    try:
        yield
    finally:
        np.random.normal = original


def one_hot(network):
    return np.eye(network.output_shape[-1], dtype=np.float32)[TARGETS]


# Each function below returns the maps of a library on a network of ``NETWORKS``.


def categorical():
    return pytest.importorskip("tf_keras_vis.utils.scores").CategoricalScore(TARGETS.tolist())


def vis_saliency(kind, x, modifier=None, **options):
    library = pytest.importorskip("tf_keras_vis.saliency")
    return library.Saliency(trial(kind)[0], model_modifier=modifier, clone=True)(categorical(), x, **options)


def vis_smoothgrad(kind, x):
    with numpy_noise([noise(x, 20)]):
        return vis_saliency(kind, x, smooth_samples=20)


def vis_guided(kind, x):
    library = pytest.importorskip("tf_keras_vis.utils.model_modifiers")
    return vis_saliency(kind, x, library.GuidedBackpropagation())


def vis_cam(module, name):
    def run(kind, x):
        library = pytest.importorskip(f"tf_keras_vis.{module}")
        return getattr(library, name)(functional(trial(kind)[0]), clone=False)(categorical(), x)

    return run


def functional(network):
    return keras.Model(network.inputs, network.outputs[0])


# Xplique


def xplique(name, **options):
    def run(kind, x):
        library, network = pytest.importorskip("xplique.attributions"), trial(kind)[0]
        explainer = getattr(library, name)(functional(network), **options)
        return np.asarray(explainer.explain(x, one_hot(network)))

    return run


def xplique_noise(name):
    def run(kind, x):
        library = pytest.importorskip("xplique.attributions.gradient_statistics.gradient_statistic")

        samples, original = (
            iter(np.split(noise(x, 50), [32], axis=0) * ROWS),
            library.GradientStatistic._perturb_samples,
        )
        rows = iter(np.repeat(np.arange(ROWS), 2))

        def perturb(inputs, count, deviation):
            part, row = next(samples), next(rows)
            assert len(part) == count and len(inputs) == 1
            return tf.repeat(inputs, count, axis=0) + deviation * part[:, row]

        library.GradientStatistic._perturb_samples = staticmethod(perturb)
        try:
            return xplique(name)(kind, x)
        finally:
            library.GradientStatistic._perturb_samples = original

    return run


# saliency, one input a call


@functools.cache
def call_model(kind):
    network = trial(kind)[0]
    both = keras.Model(network.inputs, [network.get_layer("last").output, network.outputs[0]])

    @tf.function(reduce_retracing=True)
    def passes(inputs, target):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            values, scores = both(inputs)
            score = tf.gather(scores, target, axis=1)
        return (score, values, *tape.gradient(score, [inputs, values]))

    names = (
        "OUTPUT_LAYER_VALUES",
        "CONVOLUTION_LAYER_VALUES",
        "INPUT_OUTPUT_GRADIENTS",
        "CONVOLUTION_OUTPUT_GRADIENTS",
    )

    def call(x, call_model_args=None, expected_keys=None):
        found = passes(tf.constant(np.asarray(x, np.float32)), tf.constant(call_model_args))
        return dict(zip(names, map(np.asarray, found), strict=True))

    return call


def saliency(name, call="GetMask", draws=None, **options):
    def run(kind, x):
        saliency = pytest.importorskip("saliency.core")
        explain, maps = getattr(getattr(saliency, name)(), call), []
        for row, target in enumerate(TARGETS):
            with numpy_noise(draws(x)[:, row] if draws else ()):
                maps.append(explain(x[row], call_model(kind), int(target), **options))
        return np.stack(maps)

    return run


def guided_ig(kind, x):
    """NumPy 2.4 has no ``interpolation`` any more; it is given back."""
    original = np.quantile
    np.quantile = lambda values, share, interpolation=None, **rest: original(
        values, share, **rest | ({"method": interpolation} if interpolation else {})
    )
    try:
        return saliency("GuidedIG")(kind, x)
    finally:
        np.quantile = original


def guided_of_a_graph(kind, x):
    """The network as a graph of TensorFlow 1, which the library needs."""
    saliency, v1, given = pytest.importorskip("saliency.tf1"), tf.compat.v1, trial(kind)[0].get_weights()
    with v1.Graph().as_default() as graph, v1.Session() as session, tempfile.TemporaryDirectory() as folder:
        values = inputs = v1.placeholder(tf.float32, (None, *x.shape[1:]))
        weights = [v1.Variable(weight) for weight in given]
        for kernel, bias in (weights[:2], weights[2:4]):
            values = tf.nn.relu(tf.nn.conv2d(values, kernel, 2, "SAME") + bias)
        scores = tf.reshape(values, (-1, weights[4].shape[0])) @ weights[4] + weights[5]
        target = v1.placeholder(tf.int32)
        session.run(v1.global_variables_initializer())
        explainer = saliency.GuidedBackprop(graph, session, scores[0, target], inputs, f"{folder}/weights")
        return np.stack([explainer.GetMask(one, {target: int(number)}) for one, number in zip(x, TARGETS, strict=True)])


# tf-explain, one class a call


def explained(module, name, compute, absolute=True):
    def run(kind, x):
        library = pytest.importorskip(f"tf_explain.core.{module}")
        network, method = functional(trial(kind)[0]), getattr(library, name)
        maps = [compute(method, network, x[row : row + 1], int(target)) for row, target in enumerate(TARGETS)]
        maps = np.concatenate([np.asarray(one) for one in maps])
        return np.abs(maps).sum(axis=-1) if absolute else maps

    return run


def explain_gradient(method, network, x, target):
    return method.compute_gradients(x, network, target)


def explain_path(method, network, x, target):
    return method.get_integrated_gradients(method.generate_interpolations(x, 10), network, target, 10)


def explain_smooth(method, network, x, target):
    row = next(row for row, one in enumerate(TARGETS) if one == target)
    drawn = noise(np.zeros((ROWS, *x.shape[1:]), np.float32), 5)[:, row]
    with numpy_noise([drawn]):
        return method.get_averaged_gradients(method.generate_noisy_images(x, 5, 1.0), network, target, 5)


def explain_cam(method, network, x, target):
    import cv2

    values, gradients = method.get_gradients_and_filters(network, x, "last", target, True)
    maps = [np.asarray(one) for one in method.generate_ponderated_output(values, gradients)]
    return np.stack([cv2.resize(one, x.shape[2:0:-1]) for one in maps])


def explain_occlusion(method, network, x, target):
    return method(1).get_sensitivity_map(network, x[0], target, 3)[np.newaxis]


# Networks of a preset; all but the first are exhaustive.
IMAGES = ("normalized", "images", "relu")
ALL = ("normalized", "signals", "images")
# Name to the library's call, the networks that it takes, and parameters that both are given.
CALLS = {
    "gradient@tf_keras_vis": (vis_saliency, ALL, {}),
    "smoothgrad@tf_keras_vis": (vis_smoothgrad, ALL, {}),
    "guided_backprop@tf_keras_vis": (vis_guided, ("relu", "images", "signals"), {}),
    "grad_cam@tf_keras_vis": (vis_cam("gradcam", "Gradcam"), ALL, {}),
    "grad_cam_plus_plus@tf_keras_vis": (vis_cam("gradcam_plus_plus", "GradcamPlusPlus"), ALL, {}),
    "score_cam@tf_keras_vis": (vis_cam("scorecam", "Scorecam"), ALL, {}),
    "layer_cam@tf_keras_vis": (vis_cam("layercam", "Layercam"), ALL, {}),
    "gradient@xplique": (xplique("Saliency"), ALL, {}),
    "gradient_x_input@xplique": (xplique("GradientInput"), ALL, {}),
    "integrated_gradients@xplique": (xplique("IntegratedGradients"), ALL, {}),
    "smoothgrad@xplique": (xplique_noise("SmoothGrad"), ALL, {}),
    "vargrad@xplique": (xplique_noise("VarGrad"), ALL, {}),
    "square_grad@xplique": (xplique_noise("SquareGrad"), ALL, {}),
    "guided_backprop@xplique": (xplique("GuidedBackprop"), ALL, {}),
    "deconvnet@xplique": (xplique("DeconvNet"), ALL, {}),
    "grad_cam@xplique": (xplique("GradCAM"), IMAGES, {}),
    "grad_cam_plus_plus@xplique": (xplique("GradCAMPP"), IMAGES, {}),
    "occlusion@xplique": (xplique("Occlusion"), IMAGES, {}),
    "gradient@saliency": (saliency("GradientSaliency"), ALL, {}),
    "integrated_gradients@saliency": (saliency("IntegratedGradients"), ALL, {}),
    "smoothgrad@saliency": (saliency("GradientSaliency", "GetSmoothedMask", lambda x: noise(x, 25)), ALL, {}),
    "grad_cam@saliency": (saliency("GradCam", three_dims=False), IMAGES, {"layer": "last"}),
    "occlusion@saliency": (saliency("Occlusion", size=5), IMAGES, {"patch": 5}),
    "blur_ig@saliency": (saliency("BlurIG"), ("relu", "images"), {}),
    "guided_integrated_gradients@saliency": (guided_ig, IMAGES, {}),
    "guided_backprop@saliency": (guided_of_a_graph, ("images",), {}),
    "xrai@saliency": (saliency("XRAI"), IMAGES, {}),
    "gradient@tf_explain": (explained("vanilla_gradients", "VanillaGradients", explain_gradient), IMAGES, {}),
    "gradient_x_input@tf_explain": (explained("gradients_inputs", "GradientsInputs", explain_gradient), IMAGES, {}),
    "integrated_gradients@tf_explain": (
        explained("integrated_gradients", "IntegratedGradients", explain_path), IMAGES, {},
    ),
    "smoothgrad@tf_explain": (explained("smoothgrad", "SmoothGrad", explain_smooth), ("normalized", "relu"), {}),
    "grad_cam@tf_explain": (explained("grad_cam", "GradCAM", explain_cam, False), IMAGES, {"layer": "last"}),
    "occlusion@tf_explain": (
        explained("occlusion_sensitivity", "OcclusionSensitivity", explain_occlusion, False),
        ("relu", "images"), {"patch": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[pytest.mark.exhaustive] * (place > 0))
        for name, (_, kinds, _) in CALLS.items()
        for place, kind in enumerate(kinds)
    ],
)
def test_a_preset_is_what_the_library_computes(name, kind):
    run, _, options = CALLS[name]
    _, model, x = trial(kind)
    theirs = np.asarray(run(kind, x))
    ours = attribution.explain(name, model, x, TARGETS, **options)
    if theirs.ndim > ours.ndim:  # one channel, or the same numbers in each
        np.testing.assert_array_equal(theirs, np.broadcast_to(theirs[..., :1], theirs.shape))
        theirs = theirs[..., 0]
    assert theirs.shape == ours.shape and np.abs(theirs).max() > 0
    allowed = 1e-5 * np.abs(theirs).max()
    if name.startswith("occlusion"):  # a sum of differences of scores, each rounded
        allowed += np.abs(model.scores(x)).max() * 2 * np.finfo(np.float32).eps
    assert np.abs(ours - theirs).max() <= allowed


@pytest.mark.parametrize(
    ("name", "kind"), [("guided_integrated_gradients@saliency", "signals"), ("blur_ig@saliency", "normalized")]
)
def test_rounding_decides_at_ties_and_kinks_alone(name, kind, monkeypatch):
    """Gradients that are equal, or at a kink of a ReLU, depend on their rounding: both get those of one function."""
    _, model, x = trial(kind)

    def call(x, call_model_args=None, expected_keys=None):
        return {
            "INPUT_OUTPUT_GRADIENTS": attribution.explain("gradient", model, np.asarray(x, np.float32), call_model_args)
        }

    monkeypatch.setitem(globals(), "call_model", lambda kind: call)
    theirs = CALLS[name][0](kind, x)
    ours = attribution.explain(name, model, x, TARGETS, batch_size=1)
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


def test_what_the_page_says_of_layers_that_libraries_do_not_change():
    values = keras.layers.ReLU()(keras.layers.Conv2D(4, 3)(given := keras.Input((8, 8, 3))))
    logits = keras.layers.Dense(3, name="logits")(keras.layers.Flatten()(values))
    network = keras.Model(given, keras.layers.Softmax()(logits))
    x, rows = np.random.default_rng(0).random((ROWS, 8, 8, 3), dtype=np.float32), np.eye(3, dtype=np.float32)
    xplique = pytest.importorskip("xplique.attributions")
    whole, named = (xplique.Saliency(network, layer).explain(x, rows) for layer in (None, "logits"))
    np.testing.assert_array_equal(whole, named)
    vis, score = pytest.importorskip("tf_keras_vis.saliency"), categorical()
    modifier = pytest.importorskip("tf_keras_vis.utils.model_modifiers").GuidedBackpropagation()
    plain, guided = (vis.Saliency(network, one, clone=True)(score, x) for one in (None, modifier))
    np.testing.assert_array_equal(plain, guided)


@pytest.mark.slow
def test_rise_of_xplique_has_masks_of_the_same_distribution_and_the_same_sum(monkeypatch):
    library = pytest.importorskip("xplique.attributions.rise")
    _, model, x = trial("images")
    ours = random_masks([batching.generator(0, number, "rise") for number in range(4000)], (16, 16), 7, 0.5, "fraction")
    tf.random.set_seed(0)
    grids = library.Rise._get_masks(x.shape, 4000, 7, 0.5)
    theirs = [library.Rise._apply_masks(x[0], part)[1][..., 0] for part in np.split(grids, 125)]
    theirs = np.concatenate(theirs).reshape(4000, -1)
    for moment in (lambda masks: masks.mean(axis=0), lambda masks: masks.T @ masks / len(masks)):
        np.testing.assert_allclose(moment(ours.reshape(4000, -1)), moment(theirs), atol=0.05)

    given = iter(np.split(np.tile(ours, (ROWS, 1, 1))[..., np.newaxis], ROWS * 125))

    def apply(single_input, grids, value):
        masks = next(given)
        return masks * single_input, masks

    monkeypatch.setattr(library.Rise, "_apply_masks", staticmethod(apply))
    expected = xplique("Rise")("images", x)[..., 0]
    maps = attribution.explain("rise@xplique", model, x, TARGETS)
    assert np.abs(maps - expected).max() <= 1e-5 * np.abs(expected).max()


def test_every_preset_of_a_library_on_tensorflow_is_compared():
    on_tensorflow = [library for library in libraries().values() if library.framework == "TensorFlow"]
    exact = [f"{name}@{one.name}" for one in on_tensorflow for name in one.presets if one.presets[name].status == EXACT]
    assert sorted(exact) == sorted(CALLS)
