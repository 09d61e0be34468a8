"""The drawn corpora: reproducible, in the public layouts, and objects not told apart by colour."""

import hashlib
import zlib

import numpy as np
import pytest

from bim import layout
from bim.synthetic import draw_objects, draw_scenes, drawings


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
        (start, end), (first, last) = (np.flatnonzero(mask.any(axis))[[0, -1]] for mask in (found, silhouette))
        assert abs(start - first) <= 1 and 0 <= (last - first) - (end - start) <= 2
    assert 0.9 < found.sum() / silhouette.sum() < 1.7  # holes are not part of COCO's polygons


def test_drawings_are_the_same_bytes_as_ever():
    digest = hashlib.sha256()
    for name in layout.OBJECTS:
        for array in draw_objects.draw_object(name, np.random.default_rng([0, 7]), 96):
            digest.update(array.tobytes())
    for name in layout.SCENES:
        digest.update(draw_scenes.draw_scene(name, np.random.default_rng([5, 7])).tobytes())
    assert digest.hexdigest() == "f2e8c879d6cc80ddc94d20f803bd6153fa95dc38e23a94134d71d7609a40162b"
