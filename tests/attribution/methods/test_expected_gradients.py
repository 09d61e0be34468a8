"""Expected Gradients against closed forms and its own laws."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput

POINTS = np.random.default_rng(3).normal(size=(5, 3)).astype(np.float32)
REFERENCES = np.random.default_rng(4).normal(size=(4, 3)).astype(np.float32)


def test_one_reference_and_many_samples_are_integrated_gradients(closed_form):
    """∫ 5 = 5, ∫ 2αy = y, ∫ cos(αz) = sin(z)/z, up to the error of 4,000 samples."""
    maps = attribution.explain("expected_gradients", closed_form, POINTS, 0, samples=4000)
    expected = np.stack([5 * POINTS[:, 0], POINTS[:, 1] ** 2, np.sin(POINTS[:, 2])], axis=1)
    spread = np.stack([0 * POINTS[:, 0], POINTS[:, 1] ** 2 / np.sqrt(3), np.abs(POINTS[:, 2])], axis=1)
    assert (np.abs(maps - expected) < 5 * spread / np.sqrt(4000) + 1e-5).all()


def test_complete_in_expectation(closed_form):
    maps = attribution.explain("expected_gradients", closed_form, POINTS, 0, samples=4000, references=REFERENCES)
    difference = closed_form.scores(POINTS)[:, 0] - closed_form.scores(REFERENCES)[:, 0].mean()
    # One sample's sum deviates by the spread of f over the references and of the gradient along the path.
    np.testing.assert_allclose(maps.sum(axis=1), difference, atol=5 * 10 / np.sqrt(4000))


def test_a_linear_model_needs_one_sample(from_function):
    weights = np.array([[2.0, -1.0], [0.5, 3.0], [1.0, 0.0]], np.float32)
    model = from_function(lambda x: tf.matmul(x, weights), 3)
    maps = attribution.explain("expected_gradients", model, POINTS, 1, samples=1, references=REFERENCES[2])
    np.testing.assert_allclose(maps, (POINTS - REFERENCES[2]) * weights[:, 1], rtol=1e-5)


def test_every_reference_is_drawn(from_function):
    model = from_function(lambda x: tf.reduce_sum(x, axis=1, keepdims=True), 3)
    references = np.eye(3, dtype=np.float32)
    maps = attribution.explain("expected_gradients", model, 0 * POINTS, 0, samples=100, references=references)
    assert (maps < -0.1).all()  # less than a tenth of 100 draws: once in some ten million times


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "at least 1 sample is needed, not 0"),
        ({"references": np.zeros((2, 5))}, r"references of shape \(2, 5\) do not fit inputs of shape \(20, 2\)"),
        ({"references": np.zeros((0, 20, 2))}, "do not fit"),
    ],
)
def test_invalid_options_raise(options, message, models, inputs):
    with pytest.raises(BadInput, match=message):
        attribution.explain("expected_gradients", models["signal"], inputs["signal"], **options)
