"""Residuals of the laws on maps' sums: against sums and scores computed here, and against networks that keep them."""

import functools
import re
import warnings

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import MissedSum
from attribution.methods.registry import Residuals

GENERATOR = np.random.default_rng(21)
FIRST, SECOND, END = (GENERATOR.normal(0, 0.6, shape).astype(np.float32) for shape in ((4, 6), (6, 6), (6, 3)))
X = GENERATOR.normal(size=(5, 4)).astype(np.float32)


def without_biases(x):
    hidden = tf.nn.relu(tf.matmul(x, FIRST))
    return tf.matmul(tf.nn.relu(hidden + tf.matmul(hidden, SECOND)), END)


@pytest.fixture(scope="module")
def conservative(from_function):
    return from_function(without_biases, 4)


@pytest.fixture(scope="module")
def smooth(from_function):
    return from_function(lambda x: tf.matmul(tf.tanh(2 * tf.matmul(x, FIRST)), END), 4)


def target_scores(model, x, target):
    return model.scores(x)[:, target].astype(np.float64)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("integrated_gradients", {"points": 3, "baseline": 0.5}),
        ("integrated_gradients", {"points": 3, "baseline": np.linspace(-1, 1, 20).reshape(5, 4)}),
        ("guided_integrated_gradients", {"steps": 3, "baseline": 0.5}),
        ("expected_gradients", {"samples": 3, "references": np.full((1, 4), 0.5)}),
        ("deeplift", {"baseline": 0.5}),
    ],
)
def test_the_residual_is_the_sum_less_the_difference_of_the_scores(method, options, smooth):
    model = smooth
    maps, found = attribution.explain(method, model, X, 1, batch_size=2, return_residuals=True, **options)
    start = np.broadcast_to(options.get("baseline", 0.5), X.shape).astype(np.float32)
    expected = target_scores(model, X, 1) - target_scores(model, start, 1)
    np.testing.assert_allclose(found.expected, expected, atol=1e-6)
    np.testing.assert_allclose(found.absolute, maps.sum(axis=1, dtype=np.float64) - expected, atol=1e-6)
    np.testing.assert_allclose(found.relative, np.abs(found.absolute) / np.abs(expected), rtol=1e-4)
    np.testing.assert_array_equal(maps, attribution.explain(method, model, X, 1, batch_size=2, **options))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("integrated_gradients", {"multiply": False}),
        ("deeplift", {"maxima": "winner"}),
        ("deeplift@captum", {}),
        ("gradient_x_input", {}),
    ],
)
def test_parameters_that_leave_the_sum_open_have_no_residuals(method, options, smooth):
    _, found = attribution.explain(method, smooth, X, 1, return_residuals=True, **options)
    assert found is None
    resolved = attribution.resolve_method(method)
    _, residuals = attribution.explain_many(
        {"open": (resolved, options), "closed": "deeplift"}, smooth, X, 1, return_residuals=True
    )
    assert list(residuals) == ["closed"]


def test_of_several_references_the_mean_score_counts(smooth):
    model = smooth
    references = GENERATOR.normal(size=(3, 4)).astype(np.float32)
    _, found = attribution.explain("expected_gradients", model, X, 2, references=references, return_residuals=True)
    expected = target_scores(model, X, 2) - target_scores(model, references, 2).mean()
    np.testing.assert_allclose(found.expected, expected, atol=1e-6)


def test_the_logit_of_a_residual_is_not_the_probability_that_another_method_asked_for(by_score, inputs):
    model, x = by_score["probabilities", "signal"], inputs["signal"]
    _, found = attribution.explain_many(["occlusion", "lrp_epsilon"], model, x, 1, return_residuals=True)
    np.testing.assert_allclose(found["lrp_epsilon"].expected, by_score["logits", "signal"].scores(x)[:, 1], rtol=1e-5)


@pytest.mark.parametrize(
    ("method", "options", "misses"),
    [
        ("integrated_gradients", {"points": 2}, True),
        ("integrated_gradients", {"points": 300}, False),
        ("integrated_gradients", {"points": 2, "tolerance": 0.9}, True),
        ("deeplift", {}, False),
    ],
)
@pytest.mark.parametrize("targets", [None, 1])
def test_a_sum_that_misses_is_one_warning(method, options, misses, targets, smooth):
    law = r"integrated_gradients misses f\(x\) - f\(baseline\) by more than 5 % on . of 5 inputs: .* by points=N\)"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        attribution.explain(method, smooth, X, targets, batch_size=2, **options)
    assert len(caught) == misses
    for warning in caught:
        assert warning.category is MissedSum and re.match(law, str(warning.message))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attribution.explain(method, smooth, X, targets, return_residuals=True, **options)  # who gets it, needs no word


def test_a_blurred_path_warns(from_function):
    model = from_function(lambda x: tf.exp(tf.reduce_sum(x, axis=1)), 12, 1)
    with pytest.warns(MissedSum, match=r"blur_ig misses f\(x\) - f\(blurred x\) by more than 5 %"):
        attribution.explain("blur_ig", model, np.full((1, 12, 1), 0.5, np.float32), steps=1)


LRP = ["lrp_epsilon", "lrp_epsilon_plus", "lrp_epsilon_plus_flat", "lrp_alpha1beta0", "lrp_cp", "lrp_attn"]


@pytest.mark.parametrize("method", LRP)
def test_relevance_is_conserved_without_biases(method, conservative):
    maps, found = attribution.explain(method, conservative, X, 0, epsilon=0.0, return_residuals=True)
    np.testing.assert_allclose(found.expected, target_scores(conservative, X, 0), rtol=1e-6)
    np.testing.assert_allclose(found.sums, maps.sum(axis=1), rtol=1e-5)
    assert found.relative.max() < 1e-4


def test_gamma_favours_positive_weights(conservative, from_function):
    """Of y = w x, input i gets y x_i (w_i + γ w_i+) / Σ x (w + γ w+); with γ = 0 that is the ε-rule."""
    weights = np.array([[1.0, -1.0], [-0.5, 2.0], [0.25, 0.5]], np.float32)
    model = from_function(lambda x: tf.matmul(x, weights), 3)
    x = np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 5.0]], np.float32)
    shares = x * (weights + 3 * np.maximum(weights, 0))[:, 1]
    expected = shares / shares.sum(axis=1, keepdims=True) * (x @ weights[:, 1:])
    maps, found = attribution.explain("lrp_gamma", model, x, 1, gamma=3.0, epsilon=0.0, return_residuals=True)
    np.testing.assert_allclose(maps, expected, rtol=1e-5)
    assert found.relative.max() < 1e-5
    without, epsilon = (
        attribution.explain(name, conservative, np.abs(X), 0, **options)
        for name, options in (("lrp_gamma", {"gamma": 0.0}), ("lrp_epsilon", {}))
    )
    np.testing.assert_allclose(without, epsilon, atol=1e-4)


def test_gamma_favours_contributions_of_the_sign_of_their_sum(from_function):
    """w = (1, -5/4, 1/2): positive weights favoured, the published denominator of x = (1, 1, 0) would be 0."""
    model = from_function(lambda x: tf.matmul(x, np.array([[1.0], [-1.25], [0.5]], np.float32)), 3)
    x = np.array([[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [-1.0, 1.0, -1.0], [-2.0, -1.0, 4.0]], np.float32)
    maps = attribution.explain("lrp_gamma", model, x, 0, gamma=0.25, epsilon=0.0)
    expected = [
        -0.25 * np.array([1, -1.5625, 0]) / -0.5625,
        0.25 * np.array([-1, 1.5625, 0]) / 0.5625,
        -2.75 * np.array([-1, -1.25, -0.5]) / -2.75,
        1.25 * np.array([-2, 1.5625, 2.5]) / 2.0625,
    ]
    np.testing.assert_allclose(maps, expected, rtol=1e-5)


@pytest.mark.parametrize("gamma", [0.1, 0.25, 1.0])
def test_gamma_amplifies_by_at_most_1_and_2_over_gamma_per_layer(gamma, from_function):
    """Also where inputs and sums have both signs, as in linear bottlenecks."""
    generator = np.random.default_rng(2)
    weights = [generator.normal(size=(12, 12)).astype(np.float32) for _ in range(5)]
    model = from_function(lambda x: functools.reduce(tf.matmul, weights, x), 12)
    x = generator.normal(size=(64, 12)).astype(np.float32)
    maps, logits = attribution.explain("lrp_gamma", model, x, 0, gamma=gamma, epsilon=0.0), model.scores(x)[:, 0]
    assert (np.abs(maps).sum(axis=1) <= (1 + 2 / gamma) ** 5 * np.abs(logits)).all()
    np.testing.assert_allclose(maps.sum(axis=1), logits, atol=1e-3 * np.abs(maps).sum(axis=1).max())


@pytest.mark.parametrize(("epsilon", "bias"), [(0.0, 2.0), (1.0, 0.0)])
def test_what_a_bias_or_epsilon_absorbs_is_the_residual(epsilon, bias, from_function):
    """Of y = w x + b the bias, and ε beside it, keep (b + ε) / (w x + b + ε) of the relevance y."""
    weights = np.array([[1.0, -1.0], [0.5, -2.0]], np.float32)
    model = from_function(lambda x: tf.nn.bias_add(tf.matmul(x, weights), np.array([bias, 0], np.float32)), 2)
    x = np.array([[1.0, 2.0], [3.0, 1.0]], np.float32)
    _, found = attribution.explain("lrp_epsilon", model, x, 0, epsilon=epsilon, return_residuals=True)
    y = x @ weights[:, 0] + bias
    np.testing.assert_allclose(found.relative, (bias + epsilon) / (y + epsilon), rtol=1e-5)
    assert (found.absolute < 0).all()


def test_excitation_backprop_sums_to_one_unless_no_positive_way_leads_on(from_function):
    """A unit with negative inputs alone keeps the probability that reaches it."""
    weights = np.array([[1.0, -1.0], [1.0, -1.0]], np.float32)
    model = from_function(lambda x: tf.matmul(tf.nn.relu(tf.matmul(x, weights) + 1.0), np.eye(2, dtype=np.float32)), 2)
    x = np.array([[0.25, 0.5]], np.float32)
    for target, kept in ((0, 0.0), (1, 1.0)):
        _, found = attribution.explain("excitation_backprop", model, x, target, return_residuals=True)
        np.testing.assert_allclose((found.expected, found.relative), [[1.0], [kept]], atol=1e-6)


def test_relevance_and_deeplift_of_a_model_of_probabilities_are_measured_by_its_logits(by_score, models, inputs):
    probabilities = by_score["probabilities", "signal"]
    for method in ("deeplift", "lrp_epsilon"):
        of_logits = attribution.explain(method, models["signal"], inputs["signal"], 1, return_residuals=True)[1]
        found = attribution.explain(method, probabilities, inputs["signal"], 1, return_residuals=True)[1]
        np.testing.assert_allclose(found.expected, of_logits.expected, atol=1e-5)
    found = attribution.explain("integrated_gradients", probabilities, inputs["signal"], 1, return_residuals=True)[1]
    assert np.abs(found.expected).max() <= 1


@pytest.mark.parametrize("method", ["integrated_gradients", "deeplift", "lrp_epsilon", "excitation_backprop"])
def test_residuals_take_a_forward_pass_at_the_input_and_one_at_the_baseline_at_most(method, models, inputs):
    model, x = models["image"], inputs["image"]

    def cost(**options):
        model.counts.clear()
        attribution.explain(method, model, x, 1, batch_size=7, **options)
        return model.counts.copy()

    more = cost(return_residuals=True) - cost()
    free = dict.fromkeys(("excitation_backprop", "integrated_gradients", "deeplift"), 0)  # their passes give both
    ends = {"lrp_epsilon": 1, **free}.get(method, 2)
    assert more == {key: ends * count for key, count in (("forward", 7), ("forward_passes", 1)) if ends}


def test_methods_explained_together_return_the_residuals_of_those_with_a_law(models, inputs):
    methods = {"fine": ("integrated_gradients", {"points": 9}), "gradient": "gradient", "lrp_cp": "lrp_cp"}
    maps, found = attribution.explain_many(methods, models["signal"], inputs["signal"], return_residuals=True)
    assert list(maps) == list(methods) and list(found) == ["fine", "lrp_cp"]
    maps, alone = attribution.explain("lrp_cp", models["signal"], inputs["signal"], return_residuals=True)
    np.testing.assert_array_equal(found["lrp_cp"].absolute, alone.absolute)
    assert attribution.explain("gradient", models["signal"], inputs["signal"], return_residuals=True)[1] is None


def test_no_inputs_no_residuals(models):
    none = np.zeros((0, 20, 2), np.float32)
    assert attribution.explain("deeplift", models["signal"], none, return_residuals=True)[1].relative.shape == (0,)


def test_a_difference_next_to_nothing_counts_as_a_ten_thousandth_of_the_scores():
    maps = np.array([[0.5, 0.5], [0.5, 0.5], [0.001, 0.0], [0.0, 0.0]])
    at_input, at_baseline = np.array([2.0, 10.0, 10.0, 0.0]), np.array([0.0, 9.0, 10.0, 0.0])
    found = Residuals.of(maps, at_input, at_baseline)
    np.testing.assert_allclose(found.absolute, [-1.0, 0.0, 0.001, 0.0])
    np.testing.assert_allclose(found.relative, [0.5, 0.0, 1.0, np.nan])
