"""Guided Integrated Gradients: its path, its limits, and an oracle that takes the same steps one input at a time."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput

METHOD = "guided_integrated_gradients"


def test_without_freedom_it_is_integrated_gradients(models, inputs, oracle):
    """At distance 0 every value keeps its place on the straight path: the gradient's left Riemann sum."""
    model, x = models["image"], inputs["image"][:2]
    maps = attribution.explain(METHOD, model, x, 1, steps=10, max_distance=0.0)
    total = sum(attribution.explain("gradient", model, share * x, np.ones(2, int)) for share in np.arange(10) / 10) / 10
    np.testing.assert_allclose(maps, x * total, atol=1e-5 * np.abs(maps).max())


def test_the_path_goes_first_where_the_gradient_is_small(from_function):
    """f = x y from (0, 0) to (1, 1) with all freedom: x moves alone, then y, which gets it all."""
    model = from_function(lambda v: tf.stack([v[:, 0] * v[:, 1] + 0.1 * v[:, 1], v[:, 0]], axis=1), 2)
    point = np.ones((1, 2), np.float32)
    maps = attribution.explain(METHOD, model, point, 0, steps=200, fraction=0.5, max_distance=1.0)
    np.testing.assert_allclose(maps, [[0.0, 1.1]], atol=2e-2)
    straight = attribution.explain("integrated_gradients", model, point, 0)
    np.testing.assert_allclose(straight, [[0.5, 0.6]], atol=1e-5)


@pytest.mark.parametrize("steps", [5, 50, 500])
def test_complete_up_to_the_steps_size(steps, from_function):
    """A step of length s, in the sum of absolute values, misses at most s²/2 where no second derivative exceeds 1."""
    model = from_function(lambda v: tf.stack([v[:, 0] * v[:, 1] + tf.sin(v[:, 1]), v[:, 0]], axis=1), 2)
    points = np.array([[1.0, 2.0], [-1.5, 0.7], [0.3, -1.2]], np.float32)
    maps = attribution.explain(METHOD, model, points, 0, steps=steps, max_distance=1.0)
    gaps = np.abs(maps.sum(axis=1) - model.scores(points)[:, 0])
    assert (gaps <= 0.5 * np.abs(points).sum(axis=1) ** 2 / steps + 1e-5).all()


def slow_oracle(gradient, end, steps, fraction, distance):
    """The method for one input from 0, value by value, as the paper tells it."""
    place, found = np.zeros(end.size), np.zeros(end.size)
    end = end.ravel().astype(float)
    for step in range(1, steps + 1):
        least, most = max(step / steps - distance, 0) * end, min(step / steps + distance, 1) * end
        slope = gradient(place)
        before = place.copy()
        for i in range(end.size):
            if abs(place[i]) < abs(least[i]):
                place[i] = least[i]
        free = [i for i in range(end.size) if place[i] != most[i]]
        while np.abs(end - place).sum() > np.abs(end).sum() * (1 - step / steps) * (1 + 1e-12) + 1e-9 and free:
            missing = np.abs(end - place).sum() - np.abs(end).sum() * (1 - step / steps)
            sizes = sorted([abs(slope[i]) for i in free] + [np.inf] * (end.size - len(free)))
            limit = sizes[int(np.floor(fraction * (end.size - 1)))]
            group = [i for i in free if abs(slope[i]) <= limit]
            reach = sum(abs(most[i] - place[i]) for i in group)
            for i in group:
                place[i] = most[i] if missing >= reach else place[i] + missing / reach * (most[i] - place[i])
            free = [i for i in free if place[i] != most[i]]
        found += (place - before) * slope
    return found


def test_equal_to_one_input_at_a_time(models, inputs):
    model, x = models["signal"], inputs["signal"][:2]
    options = {"steps": 8, "fraction": 0.3, "max_distance": 0.1}
    maps = attribution.explain(METHOD, model, x, 1, **options)
    for row in range(2):

        def gradient(place):
            point = place.reshape(1, *x.shape[1:]).astype(np.float32)
            return attribution.explain("gradient", model, point, np.ones(1, int)).ravel().astype(float)

        expected = slow_oracle(gradient, x[row], 8, 0.3, 0.1)
        np.testing.assert_allclose(maps[row].ravel(), expected, atol=1e-5 * np.abs(expected).max())


def test_nothing_for_an_input_that_is_its_baseline(models, inputs):
    maps = attribution.explain(METHOD, models["image"], np.zeros_like(inputs["image"]), 0, steps=3)
    np.testing.assert_array_equal(maps, 0)


@pytest.mark.parametrize("options", [{"steps": 0}, {"fraction": 0.0}, {"max_distance": 1.5}])
def test_impossible_settings_are_refused(options, models, inputs):
    with pytest.raises(BadInput, match=r"steps >= 1, fraction in \(0, 1\] and max_distance in \[0, 1\]"):
        attribution.explain(METHOD, models["signal"], inputs["signal"], **options)
