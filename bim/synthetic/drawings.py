"""Drawings in the place of MSCOCO and MiniPlaces, which need a download, under the names of their files.

The seed of a drawing depends on the run's seed, its class and its index, so that a part of the drawings equals that
part of the whole.
"""

from __future__ import annotations

import os
import zlib

import numpy as np
from PIL import Image

from attribution.files import atomic_write
from bim.layout import OBJECTS, is_whole, scene_folder
from bim.synthetic.draw_objects import draw_object
from bim.synthetic.draw_scenes import draw_scene


def draw_source(task, saved: bool = True) -> dict:
    """Draw one picture of one class; return "path", the file, and of an object all of ``construct.load_cutout``.

    ``task`` is the directory of the drawings, ``"object"`` or ``"scene"``, class, index and seed. The picture is
    written if it is missing and ``saved``.
    """
    directory, kind, name, index, seed = task
    rng = np.random.default_rng([seed, zlib.crc32(f"{kind}/{name}/{index}".encode())])
    if kind == "scene":
        folder = os.path.join(directory, "miniplaces", "images", "train", scene_folder(name))
        path = os.path.join(folder, f"{index + 1:08d}.jpg")
        if saved and not is_whole(path):
            save_picture(path, draw_scene(name, rng))
        return {"path": path}
    import cv2

    number = OBJECTS.index(name) * 1000 + index + 1
    path = os.path.join(directory, "coco", "train2017", f"{number:012d}.jpg")
    missing = saved and not is_whole(path)
    image, silhouette = draw_object(name, rng, finished=missing)
    if missing:
        save_picture(path, image)
    # The outer outlines as COCO's polygons.
    outlines, _ = cv2.findContours(silhouette.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    polygons = [outline.reshape(-1).tolist() for outline in outlines if len(outline) >= 3]
    return {"path": path, "segmentation": polygons, "height": len(silhouette), "width": len(silhouette)}


def save_picture(path: str, image: np.ndarray) -> None:
    """Write a (H, W, 3) uint8 picture whole or not at all; the suffix says JPEG or PNG."""
    kind = "PNG" if path.endswith(".png") else "JPEG"
    options = {"quality": 95} if kind == "JPEG" else {}
    atomic_write(path, lambda file: Image.fromarray(image).save(file, kind, **options), durable=False)
