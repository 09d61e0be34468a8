"""Synthetic MSCOCO and MiniPlaces in the layouts of the originals, which need a download.

The same construction code reads both: a COCO annotation file with polygons, a folder of images, and MiniPlaces' folders
of scenes. The seed of a drawing depends on the run's seed, its class and its index, so that a part of the corpus equals
that part of the whole.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence

import numpy as np
from PIL import Image

from attribution.files import atomic_write, locked_directory
from attribution_benchmarks.beam.parallel_map import ParallelMap, serial_map
from bim.layout import OBJECTS, SCENES, coco_name, scene_folder
from bim.set_files import is_whole
from bim.synthetic.draw_objects import draw_object
from bim.synthetic.draw_scenes import draw_scene

COCO_CATEGORY = dict(zip(OBJECTS, (27, 16, 18, 22, 38, 59, 13, 70, 8, 24), strict=True))  # COCO's own numbers
ANNOTATIONS = os.path.join("coco", "annotations", "instances_train2017.json")


def write_corpora(directory: str, indices: Sequence[int], seed: int = 0, each: ParallelMap = serial_map) -> None:
    """Draw both corpora below ``directory``, in ``coco/`` and ``miniplaces/``; pictures that are there are kept.

    ``indices`` are the drawings of each class to make; drawing i is the same whatever the others. ``each`` applies
    functions to many items.
    """
    with locked_directory(directory, "drawings"):
        place = os.path.abspath(directory)  # a process on another machine works elsewhere
        tasks = [(place, kind, name, i, seed) for i in indices for kind, name in _CLASSES]
        annotations = [done["annotation"] for done in each("drawings", draw_source, tasks) if "annotation" in done]
        atomic_write(os.path.join(directory, ANNOTATIONS), json.dumps(_document(annotations)))


def _document(annotations: list[dict]) -> dict:
    """Return COCO's document about drawings, in the order of their numbers."""
    annotations.sort(key=lambda annotation: annotation["image_id"])
    side = annotations[0].pop("side")
    for number, annotation in enumerate(annotations, start=1):
        annotation.pop("side", None)
        annotation["id"] = number
    return {
        "images": [
            {"id": a["image_id"], "file_name": f"{a['image_id']:012d}.jpg", "height": side, "width": side}
            for a in annotations
        ],
        "annotations": annotations,
        "categories": [{"id": number, "name": coco_name(name)} for name, number in COCO_CATEGORY.items()],
    }


_CLASSES = [("object", name) for name in OBJECTS] + [("scene", name) for name in SCENES]


def draw_source(task, saved: bool = True) -> dict:
    """Draw one picture of one class; return "path", the file, and of an object "annotation", as COCO has it.

    ``task`` is the directory of the corpora, ``"object"`` or ``"scene"``, class, index and seed. The picture is written
    if it is missing and ``saved``.
    """
    directory, kind, name, index, seed = task
    rng = np.random.default_rng([seed, zlib.crc32(f"{kind}/{name}/{index}".encode())])
    if kind == "scene":
        folder = os.path.join(directory, "miniplaces", "images", "train", scene_folder(name))
        path = os.path.join(folder, f"{index + 1:08d}.jpg")
        if saved and not is_whole(path):
            save_picture(path, draw_scene(name, rng))
        return {"path": path}
    number = OBJECTS.index(name) * 1000 + index + 1
    path = os.path.join(directory, "coco", "train2017", f"{number:012d}.jpg")
    missing = saved and not is_whole(path)
    image, silhouette = draw_object(name, rng, finished=missing)
    if missing:
        save_picture(path, image)
    rows, columns = np.flatnonzero(silhouette.any(1)), np.flatnonzero(silhouette.any(0))
    annotation = {
        "image_id": number,
        "category_id": COCO_CATEGORY[name],
        "segmentation": _outline_polygons(silhouette),
        "area": int(silhouette.sum()),
        "bbox": [int(columns[0]), int(rows[0]), int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1],
        "iscrowd": 0,
        "side": len(silhouette),
    }
    return {"path": path, "annotation": annotation}


def _outline_polygons(silhouette: np.ndarray) -> list[list[float]]:
    """Return the outer outlines of a (H, W) bool silhouette as COCO polygons, lists of x0, y0, x1, y1, ..."""
    import cv2

    outlines, _ = cv2.findContours(silhouette.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return [outline.reshape(-1).tolist() for outline in outlines if len(outline) >= 3]


def save_picture(path: str, image: np.ndarray) -> None:
    """Write a (H, W, 3) uint8 picture whole or not at all; the suffix says JPEG or PNG."""
    kind = "PNG" if path.endswith(".png") else "JPEG"
    options = {"quality": 95} if kind == "JPEG" else {}
    atomic_write(path, lambda file: Image.fromarray(image).save(file, kind, **options), durable=False)
