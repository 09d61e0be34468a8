"""The lists of BIM's sets, and the sets that consist of images of other sets.

``val.txt`` has lines ``name label``, ``val_loc.txt`` lines ``name row0,col0,row1,col1`` in 128-pixel
coordinates; an image without an object has the box 0,0,0,0.
"""

from __future__ import annotations

import itertools
import os

import numpy as np

from attribution.files import atomic_write
from bim import layout
from bim.dataset import link
from bim.masks import save_masks

NO_BOX = (0, 0, 0, 0)
NUM_TCAV_IMAGES = 100
SUBSETS = (*layout.CONTRAST_SETS, "dog_bedroom", "bamboo_forest")
TCAV_FOLDERS = ("dog_scene", *(f"random_{number}" for number in range(10)))


def write_lists(data_dir: str, validation, boxes: dict, masks: dict) -> None:
    """Write ``val.txt``, ``val_loc.txt`` and ``val_mask.npz`` of all sets.

    ``validation`` are the indices of the validation images of each pair, ``boxes`` image name -> row0, col0, row1,
    col1, and ``masks`` object name -> list of (h, w) bool, one per validation index.
    """
    triples = list(itertools.product(layout.OBJECTS, layout.SCENES, validation))
    names = [layout.pair_name(*triple) for triple in triples]
    for set_name in ("obj", "scene", "scene_only"):
        classes, position = (layout.OBJECTS, 0) if set_name == "obj" else (layout.SCENES, 1)
        folder = os.path.join(data_dir, set_name)
        write_list(folder, names, [classes.index(triple[position]) for triple in triples])
        write_boxes(folder, names, [boxes[name] for name in names])
        _write_masks(folder, validation, masks)
    for set_name in SUBSETS:
        folder = os.path.join(data_dir, set_name)
        names, scenes, _ = zip(*_images_of(set_name, validation), strict=True)
        write_list(folder, names, map(layout.SCENES.index, scenes))
        write_boxes(folder, names, [boxes.get(name, NO_BOX) for name in names])
        _write_masks(folder, validation, {layout.COMMON_FEATURE: masks[layout.COMMON_FEATURE]})


def write_list(folder: str, names, labels, suffix: str = ".jpg") -> None:
    """Write ``val.txt`` of a set."""
    _write_lines(folder, "val.txt", [f"{name}{suffix} {label}" for name, label in zip(names, labels, strict=True)])


def write_boxes(folder: str, names, boxes, suffix: str = ".jpg") -> None:
    """Write ``val_loc.txt`` of a set."""
    lines = [f"{name}{suffix} {','.join(map(str, box))}" for name, box in zip(names, boxes, strict=True)]
    _write_lines(folder, "val_loc.txt", lines)


def origin(set_name: str, name: str) -> tuple[str, str]:
    """Return the set that an image was made for, ``scene`` or ``scene_only``, and the image's name there.

    Its name in the set that it is in, such as ``obj`` or ``scene3``, is ``dog-bedroom-0901``, without suffix, or
    ``bedroom-0901`` in the contrast sets.
    """
    if layout.object_and_number(name) is None:
        return "scene_only", f"{layout.COMMON_FEATURE}-{name}"
    return "scene_only" if set_name in ("scene_only", "bamboo_forest") else "scene", name


def link_subsets(data_dir: str, indices, seed: int) -> None:
    """Make scene1 .. scene10, dog_bedroom, bamboo_forest and tcav of the images of scene and scene_only.

    ``indices`` are all of a pair, training and validation; ``seed`` is that of TCAV's choice of images.
    """
    for set_name in layout.CONTRAST_SETS:
        for scene in layout.SCENES:
            os.makedirs(os.path.join(data_dir, set_name, "train", scene), exist_ok=True)
    for set_name in SUBSETS:
        for name, scene, index in _images_of(set_name, indices):
            source, original = origin(set_name, name)
            part = layout.part_folder(scene, index)
            target = os.path.join(data_dir, set_name, part, name + ".jpg")
            link(os.path.join(data_dir, source, part, original + ".jpg"), target)
    for folder in TCAV_FOLDERS:
        for name, scene, index in tcav_images(folder, indices, seed):
            file = layout.pair_name(name, scene, index) + ".jpg"
            source = os.path.join(data_dir, "scene", layout.part_folder(scene, index), file)
            link(source, os.path.join(data_dir, "tcav", folder, file))


def _images_of(set_name: str, indices) -> list[tuple[str, str, int]]:
    """Return name, scene and index of each image of one of ``SUBSETS``.

    One of scene1 .. scene10 has a dog in the first i scene classes and no object in the others. The other subsets have
    validation images of one scene.
    """
    if set_name not in layout.CONTRAST_SETS:
        scene = set_name.removeprefix("dog_")
        validation = [index for index in indices if index >= layout.FIRST_VALIDATION]
        return [(layout.pair_name("dog", scene, index), scene, index) for index in validation]
    with_dog = layout.scenes_with_dog(set_name)
    return [
        (layout.pair_name("dog", scene, index) if scene in with_dog else f"{scene}-{index:04d}", scene, index)
        for scene in layout.SCENES
        for index in indices
    ]


def tcav_images(folder: str, indices, seed: int) -> list[tuple[str, str, int]]:
    """Choose images for TCAV: dogs on scenes as the concept, or a random set of other objects on scenes.

    The target is ``dog_bedroom``, so none of the images shows a bedroom. Training images are used if there are any.
    ``folder`` is one of ``TCAV_FOLDERS``. Returns object, scene and index of each image.
    """
    pool = [index for index in indices if index < layout.FIRST_VALIDATION] or list(indices)
    scenes = [scene for scene in layout.SCENES if scene != "bedroom"]
    others = [name for name in layout.OBJECTS if name != layout.COMMON_FEATURE]
    number = TCAV_FOLDERS.index(folder)
    rng = np.random.default_rng([seed, 1907, number])
    triples = list(itertools.product(others if number else [layout.COMMON_FEATURE], scenes, pool))
    chosen = rng.choice(len(triples), min(NUM_TCAV_IMAGES, len(triples)), replace=False)
    return [triples[position] for position in sorted(chosen)]


def _write_masks(folder: str, validation, masks: dict) -> None:
    """Write the masks of some objects, one per validation index, each under its name."""
    keys = [layout.mask_key(name, index) for name in masks for index in validation]
    save_masks(os.path.join(folder, "val_mask.npz"), [mask for name in masks for mask in masks[name]], keys)


def _write_lines(folder: str, name: str, lines) -> None:
    """Write a text file whole or not at all."""
    atomic_write(os.path.join(folder, name), "".join(f"{line}\n" for line in lines), durable=False)
