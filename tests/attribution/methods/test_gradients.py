"""Gradient methods against closed forms and their own laws."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.methods import gradients

POINTS = np.random.default_rng(3).normal(size=(9, 3)).astype(np.float32)


def derivative(points):
    return np.stack([np.full(len(points), 5.0), 2 * points[:, 1], np.cos(points[:, 2])], axis=1)


def test_gradient_and_gradient_x_input(closed_form):
    signs = np.array([1, -1] * 4 + [1])
    targets = (signs < 0).astype(int)
    expected = signs[:, np.newaxis] * derivative(POINTS)
    np.testing.assert_allclose(attribution.explain("gradient", closed_form, POINTS, targets), expected, rtol=1e-5)
    maps = attribution.explain("gradient_x_input", closed_form, POINTS, targets)
    np.testing.assert_allclose(maps, POINTS * expected, rtol=1e-5)


def test_integrated_gradients_equal_the_integral(closed_form):
    """∫ 5 = 5, ∫ 2αy = y, ∫ cos(αz) = sin(z)/z; each times its coordinate."""
    expected = np.stack([5 * POINTS[:, 0], POINTS[:, 1] ** 2, np.sin(POINTS[:, 2])], axis=1)
    maps = attribution.explain("integrated_gradients", closed_form, POINTS, 0, points=401)
    np.testing.assert_allclose(maps, expected, atol=2e-5)


@pytest.mark.parametrize("baseline", [0.0, 0.7, np.array([1.0, -1.0, 2.0], np.float32)])
def test_integrated_gradients_are_complete(baseline, closed_form):
    maps = attribution.explain("integrated_gradients", closed_form, POINTS, 0, points=301, baseline=baseline)
    start = np.broadcast_to(baseline, POINTS.shape).astype(np.float32)
    difference = closed_form.scores(POINTS)[:, 0] - closed_form.scores(start)[:, 0]
    np.testing.assert_allclose(maps.sum(axis=1), difference, atol=1e-4)


def test_the_median_of_an_input_with_channels_is_that_of_each_channel(from_function):
    x = np.random.default_rng(5).normal(size=(3, 5, 2)).astype(np.float32)
    model = from_function(lambda x: tf.reduce_sum(x, axis=1), 5, 2)
    maps = attribution.explain("integrated_gradients", model, x, 1, points=2, baseline="median")
    np.testing.assert_allclose(maps[..., 1], x[..., 1] - np.median(x[..., 1], axis=1, keepdims=True), atol=1e-6)


def test_an_unknown_word_as_baseline_raises(closed_form):
    with pytest.raises(BadInput, match="no baseline 'mean'; give a number, an array or 'median'"):
        attribution.explain("integrated_gradients", closed_form, POINTS, 0, baseline="mean")


def test_the_trapezoid_completes_better_than_the_plain_mean(models, inputs):
    model, x = models["image"], inputs["image"]
    targets = model.predict(x)
    rows = np.arange(len(x))
    difference = model.scores(x)[rows, targets] - model.scores(np.zeros_like(x))[rows, targets]

    def gap(points, quadrature):
        maps = attribution.explain("integrated_gradients", model, x, targets, points=points, quadrature=quadrature)
        return np.abs(maps.sum(axis=(1, 2, 3)) - difference).max()

    assert gap(64, "trapezoid") < gap(64, "uniform")
    assert gap(512, "trapezoid") < gap(64, "trapezoid") / 4


def test_path_rules():
    np.testing.assert_allclose(gradients.path_rule(5, "trapezoid")[1], [1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 8])
    np.testing.assert_allclose(gradients.path_rule(5, "uniform"), [[0, 1 / 4, 1 / 2, 3 / 4, 1], [0.2] * 5])
    for name, points in {"left": [0, 0.5], "midpoint": [0.25, 0.75], "right": [0.5, 1]}.items():
        np.testing.assert_allclose(gradients.path_rule(2, name), [points, [0.5, 0.5]])
    points, weights = gradients.path_rule(3, "gauss_legendre")
    np.testing.assert_allclose([(weights * points**power).sum() for power in range(6)], 1 / np.arange(1, 7), atol=1e-6)
    with pytest.raises(BadInput, match="at least 2 points, not 1"):
        gradients.path_rule(1, "uniform")
    with pytest.raises(BadInput, match="no quadrature 'simpson'"):
        gradients.path_rule(5, "simpson")


def test_smoothgrad_with_one_noiseless_sample_is_the_gradient(models, inputs):
    for kind in ("signal", "image"):
        maps = attribution.explain("smoothgrad", models[kind], inputs[kind], samples=1, noise=0.0)
        np.testing.assert_allclose(maps, attribution.explain("gradient", models[kind], inputs[kind]), atol=1e-7)


def test_smoothgrad_estimates_the_gradient_of_the_smoothed_function(closed_form):
    """E[2 (y + σε)] = 2y and E[cos(z + σε)] = cos(z) exp(-σ²/2), within five standard errors."""
    samples, noise = 4000, 0.2
    maps = attribution.explain("smoothgrad", closed_form, POINTS, 0, samples=samples, noise=noise, batch_size=512)
    sigma = noise * (POINTS.max(axis=1) - POINTS.min(axis=1))
    expected = derivative(POINTS)
    expected[:, 2] *= np.exp(-(sigma**2) / 2)
    allowed = 5 * 2 * sigma / np.sqrt(samples)
    assert (np.abs(maps - expected).max(axis=1) < allowed).all()


def test_squared_smoothgrad_and_vargrad_are_the_moments_of_the_same_gradients(closed_form):
    options = {"samples": 40, "noise": 0.2, "seed": 5}
    mean = attribution.explain("smoothgrad", closed_form, POINTS, 0, **options)
    square = attribution.explain("smoothgrad", closed_form, POINTS, 0, squared=True, **options)
    variance = attribution.explain("vargrad", closed_form, POINTS, 0, **options)
    np.testing.assert_allclose(variance, square - mean.astype(float) ** 2, atol=1e-4)
    # The score is linear in the first coordinate: its gradient does not vary.
    np.testing.assert_allclose(variance[:, 0], 0, atol=1e-10)
    assert (variance[:, 1] > 0).all()


@pytest.mark.parametrize("method", ["smoothgrad", "vargrad", "expected_gradients", "random"])
def test_noise_depends_on_the_key_not_on_batch_or_order(method, closed_form):
    names = [f"image-{i}" for i in range(9)]
    whole = attribution.explain(method, closed_form, POINTS, 0, keys=names, batch_size=32)
    order = np.array([4, 0, 8])
    some = attribution.explain(method, closed_form, POINTS[order], 0, keys=[names[i] for i in order], batch_size=2)
    np.testing.assert_allclose(some, whole[order], rtol=1e-6)
    other_seed = attribution.explain(method, closed_form, POINTS, 0, keys=names, seed=1)
    assert np.abs(other_seed - whole).max() > 1e-3


def test_the_number_of_passes_is_the_number_of_samples(models, inputs):
    model, x = models["signal"], inputs["signal"]
    for name, overrides, samples in (
        ("gradient", {}, 1),
        ("gradient_x_input", {}, 1),
        ("integrated_gradients", {"points": 10}, 10),
        ("smoothgrad", {"samples": 8}, 8),
        ("vargrad", {"samples": 8}, 8),
        ("expected_gradients", {"samples": 6}, 6),
        ("guided_integrated_gradients", {"steps": 4}, 4),
    ):
        model.counts.clear()
        attribution.explain(name, model, x, 0, batch_size=7, **overrides)
        assert (model.counts["backward"], model.counts["forward"]) == (7 * samples, 0), name
        # Where targets have to be predicted, a gradient at the input predicts them: itself, or a path's end.
        model.counts.clear()
        attribution.explain(name, model, x, batch_size=7, **overrides)
        predicting = 0 if name in ("gradient", "gradient_x_input", "integrated_gradients") else 7
        assert (model.counts["backward"], model.counts["forward"]) == (7 * samples + predicting, 0), name


@pytest.mark.parametrize("batch_size", [2, 32])
def test_a_baseline_for_each_input(batch_size, closed_form):
    baselines = POINTS[::-1] * 0.5
    found = attribution.explain(
        "integrated_gradients", closed_form, POINTS, 0, points=201, baseline=baselines, batch_size=batch_size
    )
    ends = [5 * v[:, 0] + v[:, 1] ** 2 + np.sin(v[:, 2]) for v in (POINTS, baselines)]
    np.testing.assert_allclose(found.sum(axis=1), ends[0] - ends[1], rtol=1e-4, atol=1e-4)
    for row in (0, 8):
        alone = attribution.explain(
            "integrated_gradients", closed_form, POINTS[row : row + 1], 0, points=201, baseline=baselines[row]
        )
        np.testing.assert_allclose(found[row], alone[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        (np.zeros((2, 3)), "an array of 2 rows for 9 inputs; give one for each, or one"),
        (np.zeros(4), r"broadcasts to 9 inputs of shape \(3,\)"),
        (np.full(3, np.nan), r"broadcasts to 9 inputs of shape \(3,\)"),
    ],
)
def test_a_baseline_that_does_not_fit_is_refused(baseline, message, closed_form):
    with pytest.raises(BadInput, match=message):
        attribution.explain("integrated_gradients", closed_form, POINTS, 0, baseline=baseline, batch_size=2)


@pytest.mark.parametrize("noise", [-0.1, np.nan, np.inf])
def test_invalid_noise_raises(noise, closed_form):
    for method in ("smoothgrad", "vargrad"):
        with pytest.raises(BadInput, match=r"noise >= 0|must be a number"):
            attribution.explain(method, closed_form, POINTS, 0, noise=noise)


def test_the_logarithm_of_a_probability_that_underflows_is_refused(from_function):
    model = from_function(lambda x: tf.nn.softmax(x * [[1.0, -200.0]]), 2)
    model = attribution.load_model(model.path, score="probabilities")
    x = np.ones((2, 2), np.float32)
    with pytest.raises(BadInput, match=r"a probability is 0 in float32, .* it has underflowed"):
        attribution.explain("smoothgrad", model, x, 1, samples=2, noise=0, logarithm=True)
    assert np.isfinite(attribution.explain("smoothgrad", model, x, 0, samples=2, noise=0, logarithm=True)).all()


@pytest.mark.parametrize("options", [{}, {"quadrature": "uniform"}, {"quadrature": "left"}, {"map_error": 1e-6}])
def test_paths_begin_exactly_at_the_baseline(options, from_function):
    """Where all values of a window of max-pooling are equal, the first takes the gradient; a rounding picks another."""

    def pooled(x):
        return tf.reduce_sum(tf.nn.max_pool2d(x, 2, 2, "VALID"), (1, 2))

    inputs = np.random.default_rng(0).random((3, 4, 4, 1), np.float32)
    start = np.full_like(inputs, 0.1)
    count = 10
    alphas = np.arange(count) / (count if options.get("quadrature") == "left" else count - 1)
    weights = np.full(count, 1 / count)
    if "quadrature" not in options:
        weights = np.full(count, 1 / (count - 1))
        weights[[0, -1]] /= 2
    expected = np.zeros_like(inputs)
    for alpha, weight in zip(alphas, weights, strict=True):
        point = tf.constant(start if alpha == 0 else (start + alpha * (inputs - start)).astype(np.float32))
        with tf.GradientTape() as tape:
            tape.watch(point)
            score = pooled(point)
        expected += weight * tape.gradient(score, point).numpy()
    model = from_function(pooled, 4, 4, 1)
    maps = attribution.explain("integrated_gradients", model, inputs, 0, points=count, baseline=0.1, **options)
    np.testing.assert_allclose(maps, (inputs - start) * expected, atol=1e-6)
