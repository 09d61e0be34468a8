"""From a map to the object's attribution, by hand and against scipy."""

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from bim import scores


def test_a_map_is_clipped_summed_and_scaled_by_hand():
    # 200 pixels: -5 counts as 0, channels are summed, p99 of 0 .. 199 is 197.01.
    values = np.arange(200, dtype=float).reshape(1, 10, 20)
    maps = np.stack([values, np.full_like(values, -5.0)], axis=3)
    scaled, flat = scores.two_dimensional(maps)
    assert not flat[0]
    np.testing.assert_allclose(scaled[0].ravel(), np.minimum(np.arange(200) / 197.01, 1))


def test_scaling_does_not_change_with_the_unit_of_the_map():
    maps = np.random.default_rng(0).standard_normal((3, 16, 16, 3))
    np.testing.assert_allclose(scores.two_dimensional(maps)[0], scores.two_dimensional(1e-9 * maps)[0], atol=1e-9)


def test_maps_without_a_scale_are_told_and_never_nan():
    maps = np.zeros((4, 20, 20))
    maps[1, 3, 4] = 2.0  # under 1 % of active pixels: the 99th percentile is 0
    maps[2] = -1.0
    maps[3] = np.arange(400).reshape(20, 20)
    scaled, flat = scores.two_dimensional(maps)
    assert flat.tolist() == [True, True, True, False]
    assert np.isfinite(scaled).all() and scaled[0].sum() == 0 and scaled[1].sum() == 1 and scaled[1, 3, 4] == 1


def test_the_attribution_is_the_mean_over_the_mask():
    scaled = np.arange(12, dtype=float).reshape(1, 3, 4) / 11
    mask = np.zeros((1, 3, 4), bool)
    mask[0, 1, 1:3] = True
    np.testing.assert_allclose(scores.object_attribution(scaled, mask), [(5 + 6) / 2 / 11])
    assert scores.object_attribution(scaled, np.zeros_like(mask)).tolist() == [0.0]


def test_a_mask_is_placed_as_pillow_resizes_it():
    mask = np.add.outer(np.arange(9), np.arange(14)) % 5 > 1
    placed = scores.place_mask(mask, (10, 21, 50, 101), 224)
    resized = np.array(Image.fromarray(mask.astype(np.uint8)).resize((176 - 36, 87 - 17), Image.BILINEAR))
    expected = np.zeros((224, 224), bool)
    expected[17:87, 36:176] = resized > 0
    np.testing.assert_array_equal(placed, expected)


def test_a_full_mask_fills_its_box_and_an_empty_box_nothing():
    placed = scores.place_mask(np.ones((5, 6), bool), (3, 4, 60, 77), 128)
    assert placed[3:60, 4:77].all() and placed.sum() == 57 * 73
    assert not scores.place_mask(np.ones((5, 6), bool), (0, 0, 0, 0), 128).any()


@pytest.mark.parametrize(("old", "new"), [((4, 4), (32, 32)), ((7, 5), (224, 13)), ((1, 3), (4, 9)), ((9, 9), (3, 4))])
def test_resizing_mirrors_at_the_border_as_scikit_image_does(old, new):
    image = np.random.default_rng(1).standard_normal(old)
    places = [(np.arange(n) + 0.5) * o / n - 0.5 for o, n in zip(old, new, strict=True)]
    expected = ndimage.map_coordinates(image, np.meshgrid(*places, indexing="ij"), order=1, mode="mirror")
    np.testing.assert_allclose(scores.resize_like_skimage(image, new), expected, atol=1e-12)


def test_resizing_to_the_same_shape_changes_nothing():
    image = np.random.default_rng(2).standard_normal((6, 7, 2))
    np.testing.assert_array_equal(scores.resize_like_skimage(image, (6, 7)), image)
