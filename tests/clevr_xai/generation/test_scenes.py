"""CLEVR's constraints, checked pair by pair on sampled scenes."""

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
