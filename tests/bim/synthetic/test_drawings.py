"""The drawn corpora: reproducible, in the public layouts, and objects not told apart by colour."""

import hashlib
import zlib

import numpy as np
import pytest

from bim import layout
from bim.synthetic import draw_objects, draw_scenes, drawings


@pytest.mark.parametrize("name", layout.OBJECTS)
def test_an_object_is_one_picture_with_its_silhouette(name):
    image, silhouette = draw_objects.draw_object(name, np.random.default_rng(3), 96)
    again, _ = draw_objects.draw_object(name, np.random.default_rng(3), 96)
    other, _ = draw_objects.draw_object(name, np.random.default_rng(4), 96)
    assert image.shape == (96, 96, 3) and image.dtype == np.uint8
    np.testing.assert_array_equal(image, again)
    assert (image != other).any()
    assert 0.05 < silhouette.mean() < 0.75
    border = np.concatenate([silhouette[0], silhouette[-1], silhouette[:, 0], silhouette[:, -1]])
    assert border.mean() < 0.1  # a foot may be cut off, as in a photograph


@pytest.mark.parametrize("name", layout.SCENES)
def test_a_scene_fills_its_picture(name):
    image = draw_scenes.draw_scene(name, np.random.default_rng(3))
    np.testing.assert_array_equal(image, draw_scenes.draw_scene(name, np.random.default_rng(3)))
    assert image.shape == (128, 128, 3) and image.std() > 10
    assert (image != draw_scenes.draw_scene(name, np.random.default_rng(5))).any()


def test_the_mean_colour_does_not_tell_the_object():
    # A nearest-mean classifier on the colour inside the silhouette: chance is 10 %.
    def colours(seeds):
        found = []
        for name in layout.OBJECTS:
            for seed in seeds:
                image, silhouette = draw_objects.draw_object(name, np.random.default_rng([seed, len(name)]), 48)
                found.append(image[silhouette].mean(axis=0))
        return np.array(found).reshape(10, -1, 3)

    means, tested = colours(range(40)).mean(axis=1), colours(range(40, 60))
    distance = np.linalg.norm(tested[:, :, None] - means, axis=3)
    accuracy = (distance.argmin(axis=2) == np.arange(10)[:, None]).mean()
    assert accuracy < 0.3


@pytest.mark.parametrize("name", layout.OBJECTS)
def test_the_outlines_are_cocos_and_fit_the_silhouettes(name):
    from pycocotools import mask as coco_mask

    entry = drawings.draw_source(("", "object", name, 901, 0), saved=False)
    size = entry["height"], entry["width"]
    found = coco_mask.decode(coco_mask.merge(coco_mask.frPyObjects(entry["segmentation"], *size))).astype(bool)
    rng = np.random.default_rng([0, zlib.crc32(f"object/{name}/901".encode())])
    _, silhouette = draw_objects.draw_object(name, rng, finished=False)
    # COCO's masks lose up to a pixel at each end, as its polygons run through the border pixels' centres.
    for axis in (0, 1):
        ends = [np.flatnonzero(mask.any(axis))[[0, -1]] for mask in (found, silhouette)]
        assert np.abs(ends[0] - ends[1]).max() <= 1
    assert 0.9 < found.sum() / silhouette.sum() < 1.7  # holes are not part of COCO's polygons


def test_drawings_are_the_same_bytes_as_ever():
    digest = hashlib.sha256()
    for name in layout.OBJECTS:
        for array in draw_objects.draw_object(name, np.random.default_rng([0, 7]), 96):
            digest.update(array.tobytes())
    for name in layout.SCENES:
        digest.update(draw_scenes.draw_scene(name, np.random.default_rng([5, 7])).tobytes())
    assert digest.hexdigest() == "f2e8c879d6cc80ddc94d20f803bd6153fa95dc38e23a94134d71d7609a40162b"
