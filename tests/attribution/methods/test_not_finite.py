"""Methods that walk from a baseline name a score or a gradient that is NaN there."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput

X = np.random.default_rng(0).random((2, 6, 6, 3)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(3, 2)).astype(np.float32)


def min_max(x):
    """The score at a constant picture is finite, because a rectifier drops NaN; the gradient is NaN."""
    low, high = tf.reduce_min(x, [1, 2, 3], True), tf.reduce_max(x, [1, 2, 3], True)
    return tf.reduce_mean(tf.nn.relu(tf.matmul((x - low) / (high - low), WEIGHTS)), axis=[1, 2])


def by_deviation(x):
    """The score at a constant picture is NaN."""
    mean, variance = tf.nn.moments(x, [1, 2, 3], keepdims=True)
    return tf.reduce_mean(tf.sigmoid(tf.matmul((x - mean) / tf.sqrt(variance), WEIGHTS)), axis=[1, 2])


def root(x):
    """The gradient at 0 is infinite."""
    return tf.reduce_mean(tf.matmul(tf.sqrt(tf.abs(x)), WEIGHTS), axis=[1, 2])


PATHS = (
    ("integrated_gradients", {"points": 5}), ("integrated_gradients", {"tolerance": 0.1}),
    ("guided_integrated_gradients", {"steps": 3}), ("idgi", {"points": 5}), ("deeplift", {}),
)  # fmt: skip


@pytest.fixture(scope="module")
def networks(from_function):
    return {scores: from_function(scores, 6, 6, 3) for scores in (min_max, by_deviation, root)}


@pytest.mark.parametrize("targets", [None, 1])
@pytest.mark.parametrize(
    ("method", "options", "scores"),
    [
        (*path, scores)
        for path in PATHS
        for scores in (min_max, by_deviation, root)
        if (path[0], scores) != ("deeplift", root)
    ],  # the chord of a root is finite
)
def test_a_path_that_begins_where_the_gradient_is_not_finite(method, options, scores, targets, networks):
    with pytest.raises(BadInput, match=r"NaN or infinite at the baseline \(.*; choose another baseline="):
        attribution.explain(method, networks[scores], X, targets, **options)
    start = np.linspace(0.3, 0.9, 6 * 6 * 3, dtype=np.float32).reshape(6, 6, 3)
    assert np.isfinite(attribution.explain(method, networks[scores], X, targets, baseline=start, **options)).all()


@pytest.mark.parametrize("method", ["occlusion", "kernel_shap", "shapley_sampling", "rise"])
def test_a_score_that_is_not_finite_where_all_is_removed(method, networks):
    groups = {"groups": np.zeros((6, 6), int)}
    with pytest.raises(BadInput, match=r"NaN or infinite at the baseline .*; choose another baseline="):
        attribution.explain(method, networks[by_deviation], X, 0, **groups)


@pytest.mark.parametrize(
    ("method", "scores", "message"),
    [
        ("expected_gradients", root, "NaN or infinite at the reference .*; choose another references="),
        ("xrai", min_max, "the network's score or its gradient is NaN or infinite at an input that the method changed"),
    ],
)
def test_other_paths(method, scores, message, networks):
    with pytest.raises(BadInput, match=message):
        attribution.explain(method, networks[scores], np.where(X < 0.5, 0, X), 0)


def test_an_input_whose_own_score_is_not_finite_blames_no_baseline(networks):
    with pytest.raises(BadInput, match="the model's scores are NaN or infinite; check its weights"):
        attribution.explain("integrated_gradients", networks[by_deviation], np.ones_like(X), baseline=X)
