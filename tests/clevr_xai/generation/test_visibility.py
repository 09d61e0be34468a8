"""The ray marcher against closed forms."""

import numpy as np
import pytest

from clevr_xai.generation import camera, visibility

POSITION = [7.481, -6.508, 5.344]


def scene(*objects):
    return {
        "camera": POSITION,
        "objects": [
            {"shape": shape, "size": size, "3d_coords": list(at), "rotation": rotation}
            for shape, size, at, rotation in objects
        ],
    }


def test_a_sphere_is_a_cone_of_rays():
    seen = visibility.seen_objects(scene(("sphere", "large", (1.0, -0.5, 0.7), 0)))
    rows, columns = np.mgrid[:320, :480] + 0.5
    forward, right, up = map(np.array, camera.axes(POSITION))
    focal = 480 * 35 / 32
    rays = forward * focal + right * (columns - 240)[..., None] - up * (rows - 160)[..., None]
    toward = np.array([1.0, -0.5, 0.7]) - POSITION
    cosine = rays @ toward / np.linalg.norm(rays, axis=-1) / np.linalg.norm(toward)
    inside = cosine > np.sqrt(1 - 0.7**2 / (toward @ toward))
    np.testing.assert_array_equal(seen == 0, inside)
    assert inside.sum() > 1000


@pytest.mark.parametrize("shape", ["cube", "sphere", "cylinder"])
def test_the_nearer_object_hides_the_farther_one(shape):
    toward = np.array(POSITION) / np.linalg.norm(POSITION)
    near, far = toward * 2.5, (0.0, 0.0, 0.0)
    alone = visibility.visible_pixels(scene((shape, "small", far, 0)))
    both = visibility.visible_pixels(scene((shape, "small", far, 0), (shape, "large", near, 0)))
    assert alone[0] > 200
    assert both[0] == 0 and both[1] > 1000


def test_a_cube_turned_by_a_quarter_is_the_same_cube():
    straight = visibility.seen_objects(scene(("cube", "large", (0.3, 0.2, 0.5), 20.0)))
    turned = visibility.seen_objects(scene(("cube", "large", (0.3, 0.2, 0.5), 110.0)))
    assert (straight != turned).sum() <= 2  # rays that graze an edge
    other = visibility.seen_objects(scene(("cube", "large", (0.3, 0.2, 0.5), 65.0)))
    assert (straight != other).sum() > 50


def test_what_is_outside_the_picture_is_not_seen():
    seen = visibility.visible_pixels(scene(("sphere", "small", (-30, 0, 0.35), 0), ("cube", "small", (0, 0, 0), 0)))
    assert seen[0] == 0 and seen[1] > 0
