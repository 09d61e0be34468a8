"""CLEVR's constraints, checked pair by pair on sampled scenes; camera, distances and rays in closed form."""

import itertools
import json

import numpy as np
import pytest

from clevr_xai import vocabulary
from clevr_xai.generation import scenes


@pytest.fixture(scope="module")
def sampled():
    return [scenes.sample_scene(5, index) for index in range(30)]


def test_the_same_seed_and_index_give_the_same_scene(sampled):
    assert json.dumps(scenes.sample_scene(5, 7)) == json.dumps(sampled[7])
    assert scenes.sample_scene(6, 7)["objects"] != sampled[7]["objects"]
    small = scenes.sample_scene(5, 7, 192, 128)
    for item, large in zip(small["objects"], sampled[7]["objects"], strict=True):
        assert item["3d_coords"] == large["3d_coords"]
        np.testing.assert_allclose(np.array(item["pixel_coords"][:2]) * 2.5, large["pixel_coords"][:2], atol=2)


def test_objects_keep_their_distance_and_are_clearly_ordered(sampled):
    for scene in sampled:
        directions = {name: np.array(scene["directions"][name]) for name in vocabulary.RELATIONS}
        for one, other in itertools.combinations(scene["objects"], 2):
            offset = np.array(one["3d_coords"]) - other["3d_coords"]
            # The later one's rim is its size, even for a cube; a cube's own rim is its half side.
            rims = one["3d_coords"][2] + vocabulary.SIZES[other["size"]]
            assert np.hypot(*offset[:2]) - rims >= 0.25
            for direction in directions.values():
                assert not 0 < offset @ direction < 0.4


def test_objects_stand_on_the_ground_within_the_area(sampled):
    for scene in sampled:
        assert 3 <= len(scene["objects"]) <= 10
        for item in scene["objects"]:
            x, y, z = item["3d_coords"]
            assert abs(x) <= 3 and abs(y) <= 3 and 0 <= item["rotation"] <= 360
            radius = {"large": 0.7, "small": 0.35}[item["size"]]
            assert z == pytest.approx(radius / np.sqrt(2) if item["shape"] == "cube" else radius)


def test_every_object_shows_200_pixels(sampled):
    for scene in sampled:
        assert scenes.visible_pixels(scene).min() >= 200


def test_relations_have_a_margin_and_opposites(sampled):
    for scene in sampled:
        related = scene["relationships"]
        centres = np.array([item["3d_coords"] for item in scene["objects"]])
        for name in vocabulary.RELATIONS:
            along = centres @ scene["directions"][name]
            expected = along[None] - along[:, None] > 0.2
            assert [np.flatnonzero(row).tolist() for row in expected] == related[name]
        for one, other in (("left", "right"), ("front", "behind")):
            pairs = {(i, j) for i, others in enumerate(related[one]) for j in others}
            assert pairs == {(j, i) for i, others in enumerate(related[other]) for j in others}
            # Objects are 0.4 apart along each axis, so any two stand in one of the two relations.
            assert len(pairs) == len(centres) * (len(centres) - 1) / 2


POSITION = (7.4, -6.6, 5.2)


def test_the_field_of_view_is_clevrs():
    assert pytest.approx(49.134, abs=5e-4) == scenes.FIELD_OF_VIEW
    forward, right, _ = (np.array(axis) for axis in scenes.axes(POSITION))
    edge = np.array(POSITION) + forward + right * np.tan(np.radians(scenes.FIELD_OF_VIEW / 2))
    assert scenes.project(POSITION, edge, 480, 320) == pytest.approx((480, 160, 1))


def scene(*objects):
    return {
        "camera": list(scenes.CAMERA),
        "objects": [
            {"shape": shape, "size": size, "3d_coords": list(at), "rotation": rotation}
            for shape, size, at, rotation in objects
        ],
    }


def test_a_sphere_is_a_cone_of_rays():
    seen = scenes.seen_objects(scene(("sphere", "large", (1.0, -0.5, 0.7), 0)))
    rows, columns = np.mgrid[:320, :480] + 0.5
    forward, right, up = map(np.array, scenes.axes(scenes.CAMERA))
    focal = 480 * 35 / 32
    rays = forward * focal + right * (columns - 240)[..., None] - up * (rows - 160)[..., None]
    toward = np.array([1.0, -0.5, 0.7]) - scenes.CAMERA
    cosine = rays @ toward / np.linalg.norm(rays, axis=-1) / np.linalg.norm(toward)
    inside = cosine > np.sqrt(1 - 0.7**2 / (toward @ toward))
    np.testing.assert_array_equal(seen == 0, inside)
    assert inside.sum() > 1000
