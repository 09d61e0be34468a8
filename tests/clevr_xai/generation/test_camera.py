"""The camera's axes and its projection."""

import numpy as np
import pytest

from clevr_xai.generation import camera

POSITION = (7.4, -6.6, 5.2)


def test_the_axes_are_orthonormal_and_look_at_the_origin():
    axes = np.array(camera.axes(POSITION))
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.cross(axes[1], axes[2]), -axes[0], atol=1e-12)  # right, up, toward the viewer
    np.testing.assert_allclose(axes[0] * np.linalg.norm(POSITION), -np.array(POSITION), atol=1e-12)


def test_directions_lie_on_the_ground_and_oppose_each_other():
    directions = {name: np.array(vector) for name, vector in camera.directions(POSITION).items()}
    for one, other in (("left", "right"), ("front", "behind"), ("below", "above")):
        np.testing.assert_array_equal(directions[one], -directions[other])
        assert np.linalg.norm(directions[one]) == pytest.approx(1)
    assert directions["right"] @ directions["behind"] == pytest.approx(0, abs=1e-12)
    assert directions["right"][2] == directions["behind"][2] == 0


def test_the_field_of_view_is_clevrs():
    assert pytest.approx(49.134, abs=5e-4) == camera.FIELD_OF_VIEW
    forward, right, _ = (np.array(axis) for axis in camera.axes(POSITION))
    edge = np.array(POSITION) + forward + right * np.tan(np.radians(camera.FIELD_OF_VIEW / 2))
    assert camera.project(POSITION, edge, 480, 320) == pytest.approx((480, 160, 1))


def test_what_is_right_and_above_is_seen_there():
    assert camera.project(POSITION, (0, 0, 0), 480, 320) == pytest.approx((240, 160, np.linalg.norm(POSITION)))
    directions = camera.directions(POSITION)
    assert camera.project(POSITION, directions["right"], 480, 320)[0] > 240
    assert camera.project(POSITION, directions["above"], 480, 320)[1] < 160
    assert camera.project(POSITION, directions["behind"], 480, 320)[2] > np.linalg.norm(POSITION)
