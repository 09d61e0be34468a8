"""Integrated Gradients with a tolerance: each input uses as many steps as it needs, counted exactly."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.methods.gradients import step_levels

STRAIGHT, CURVED, JUMPING = [1.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 0.99]


@pytest.fixture(scope="module")
def model(from_function):
    """Scores f and -f: one coordinate is linear, one turns quickly, and one has its gradient in a narrow band."""

    def scores(v):
        band = tf.nn.relu(v[:, 2] - 0.97) - tf.nn.relu(v[:, 2] - 0.98)
        f = 5 * v[:, 0] + tf.sin(2 * v[:, 1]) + band
        return tf.stack([f, -f], axis=1)

    return from_function(scores, 3)


def explained(model, inputs, points=161, **parameters):
    before, parameters = dict(model.counts), {"points": points, "batch_size": 4, **parameters}
    maps = attribution.explain("integrated_gradients", model, np.array(inputs, np.float32), 0, **parameters)
    return maps, {name: model.counts[name] - before.get(name, 0) for name in ("forward", "backward", "backward_passes")}


def fixed(model, points, steps):
    return attribution.explain("integrated_gradients", model, np.array(points, np.float32), 0, points=steps + 1)


def gap(model, point, steps):
    f = model.scores(np.array([point, [0, 0, 0]], np.float32))[:, 0].astype(float)
    return abs(fixed(model, [point], steps).sum() - (f[0] - f[1])) / abs(f[0] - f[1])


def test_each_level_is_a_divisor_of_the_next():
    assert step_levels(300) == [5, 25, 75, 150, 300] and step_levels(304) == [19, 38, 76, 152, 304]
    assert step_levels(24) == [3, 6, 12, 24] and step_levels(5) == [5] and step_levels(1) == [1]
    for steps in range(1, 400):
        levels = step_levels(steps)
        assert levels[-1] == steps and all(two % one == 0 < two - one for one, two in itertools.pairwise(levels))


def test_each_input_stops_where_it_is_complete(model):
    levels = step_levels(160)
    expected = {}
    for point in (STRAIGHT, CURVED, JUMPING):
        near = [gap(model, point, steps) <= 0.02 for steps in levels]
        stops = [level for level in range(1, len(levels)) if near[level]]
        expected[tuple(point)] = levels[stops[0] if stops else -1]
    assert expected[tuple(STRAIGHT)] == 10 and expected[tuple(CURVED)] == 40
    assert expected[tuple(JUMPING)] == 160
    maps, counts = explained(model, [STRAIGHT, CURVED, JUMPING, STRAIGHT], tolerance=0.02)
    for point, one in zip([STRAIGHT, CURVED, JUMPING, STRAIGHT], maps, strict=True):
        np.testing.assert_allclose(one, fixed(model, [point], expected[tuple(point)])[0], rtol=1e-5, atol=1e-6)
    # A path of n steps takes n + 1 gradients, whatever levels led to it, and both ends first. Passes are of 4.
    stops = [expected[tuple(point)] for point in (STRAIGHT, CURVED, JUMPING, STRAIGHT)]
    new = [levels[0] - 1, *levels[:-1]]
    gradients = [2 * 4, *(sum(stop >= level for stop in stops) * n for level, n in zip(levels, new, strict=True))]
    assert sum(gradients) == sum(stop + 1 for stop in stops)
    assert (counts["forward"], counts["backward_passes"]) == (0, sum(-(-count // 4) for count in gradients))


def test_an_input_alone_gives_the_same_map(model):
    together, _ = explained(model, [JUMPING, STRAIGHT, CURVED], tolerance=0.02)
    alone, counts = explained(model, [CURVED], tolerance=0.02)
    np.testing.assert_allclose(alone[0], together[2], rtol=1e-5, atol=1e-6)
    assert counts["forward"] == 0


@pytest.mark.parametrize("quadrature", ["trapezoid", "uniform"])
def test_each_map_has_the_points_that_its_estimated_error_needs(quadrature, model):
    def of(steps):  # the rule of 161 points, from the integral of other steps and the gradients at both ends
        integral = fixed(model, inputs, steps).astype(float)
        ends = inputs * (gradients(inputs) + gradients(np.zeros_like(inputs))) / 2
        return integral if quadrature == "trapezoid" else (160 * integral + ends) / 161

    def gradients(points):
        return attribution.explain("gradient", model, points, 0)

    inputs, levels = np.array([STRAIGHT, CURVED, JUMPING], np.float32), step_levels(160)
    scores = model.scores(np.concatenate([inputs, np.zeros((1, 3), np.float32)]))[:, 0].astype(float)
    expected, stops = of(levels[-1]), [levels[-1]] * 3
    for row in range(3):
        for before, level in itertools.pairwise(levels):
            new, allowed = of(level)[row], 0.1 * np.abs(of(level)[row]).sum()
            missed = abs(fixed(model, inputs, level)[row].sum() - (scores[row] - scores[-1]))
            if np.abs(new - of(before)[row]).sum() <= allowed and missed <= allowed:
                expected[row], stops[row] = new, level
                break
    assert stops[0] <= stops[1] < stops[2] == 160
    maps, counts = explained(model, inputs, quadrature=quadrature, map_error=0.1)
    np.testing.assert_allclose(maps, expected, rtol=1e-5, atol=1e-6)
    assert counts["backward"] <= sum(stop + 1 for stop in stops) + 3 * len(levels)  # padded
    alone, _ = explained(model, inputs[1:2], quadrature=quadrature, map_error=0.1)
    np.testing.assert_allclose(alone[0], maps[1], rtol=1e-5, atol=1e-6)


def test_a_map_that_needs_all_points_is_that_of_no_error(model):
    """No gradient is taken twice, also where a level is not half of the next, as 65 steps and 13."""
    for points in (161, 131, 132):
        maps, counts = explained(model, [CURVED, JUMPING], points, quadrature="uniform", map_error=1e-4)
        full, _ = explained(model, [CURVED, JUMPING], points, quadrature="uniform")
        np.testing.assert_allclose(maps, full, rtol=1e-6)
        assert 2 * points <= counts["backward"] <= 2 * points + 4 * len(step_levels(points - 1))  # passes of 4


def test_no_tolerance_takes_all_points(model):
    maps, counts = explained(model, [STRAIGHT, CURVED])
    np.testing.assert_allclose(maps, fixed(model, [STRAIGHT, CURVED], 160), rtol=1e-6, atol=1e-7)
    assert counts["forward"] == 0 and 2 * 161 <= counts["backward"] < 2 * 161 + 4


@pytest.mark.parametrize("parameters", [{"tolerance": 1.5}, {"tolerance": 0.02, "quadrature": "uniform"}])
def test_invalid_tolerances_raise(parameters, model):
    with pytest.raises(BadInput, match="one of the two lies between 0 and 1, and needs"):
        explained(model, [STRAIGHT], **parameters)
