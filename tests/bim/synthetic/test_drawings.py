"""The drawn corpora: reproducible, in the public layouts, and objects not told apart by colour."""

import contextlib
import hashlib
import io
import os

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


def test_the_annotations_are_cocos_and_fit_the_silhouettes(corpora):
    from pycocotools.coco import COCO

    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(os.path.join(corpora, drawings.ANNOTATIONS))
    assert {c["name"] for c in coco.dataset["categories"]} == {layout.coco_name(name) for name in layout.OBJECTS}
    assert len(coco.dataset["images"]) == 30
    for annotation in coco.dataset["annotations"][::7]:
        mask = coco.annToMask(annotation).astype(bool)
        x, y, width, height = annotation["bbox"]
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        # COCO's masks lose up to a pixel at each end, as its polygons run through the border pixels' centres.
        assert abs(rows[0] - y) <= 1 and 0 <= height - (np.ptp(rows) + 1) <= 2
        assert abs(columns[0] - x) <= 1 and 0 <= width - (np.ptp(columns) + 1) <= 2
        assert 0.9 < mask.sum() / annotation["area"] < 1.7  # holes are not part of COCO's polygons
        (record,) = coco.loadImgs([annotation["image_id"]])
        assert os.path.isfile(os.path.join(corpora, "coco", "train2017", record["file_name"]))


def test_a_part_of_the_corpus_equals_that_part_of_the_whole(corpora, tmp_path):
    drawings.write_corpora(str(tmp_path), [901], seed=0)
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            if name.endswith(".jpg"):
                relative = os.path.relpath(os.path.join(folder, name), tmp_path)
                with open(os.path.join(corpora, relative), "rb") as whole, open(tmp_path / relative, "rb") as part:
                    assert whole.read() == part.read()


def test_drawings_are_the_same_bytes_as_ever():
    digest = hashlib.sha256()
    for name in layout.OBJECTS:
        for array in draw_objects.draw_object(name, np.random.default_rng([0, 7]), 96):
            digest.update(array.tobytes())
    for name in layout.SCENES:
        digest.update(draw_scenes.draw_scene(name, np.random.default_rng([5, 7])).tobytes())
    assert digest.hexdigest() == "f2e8c879d6cc80ddc94d20f803bd6153fa95dc38e23a94134d71d7609a40162b"
