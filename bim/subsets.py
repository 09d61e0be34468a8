"""The lists of BIM's sets, and the sets that consist of images of other sets.

``val.txt`` has lines ``name label``, ``val_loc.txt`` lines ``name row0,col0,row1,col1`` in 128-pixel
coordinates; an image without an object has the box 0,0,0,0.
"""

from __future__ import annotations

import itertools
import os

import numpy as np

from attribution.file_io.files import atomic_write
from bim import layout
from bim.dataset import link
from bim.masks import save_masks

NO_BOX = (0, 0, 0, 0)
NUM_TCAV_IMAGES = 100
NUM_RANDOM_SETS = 10


def write_lists(data_dir: str, validation, boxes: dict, masks: dict) -> None:
    """Write ``val.txt``, ``val_loc.txt`` and ``val_mask.npz`` of obj, scene and scene_only.

    Parameters
    ----------
    data_dir
        Folder of the sets.
    validation
        Indices of the validation images of each pair.
    boxes
        Image name -> row0, col0, row1, col1.
    masks
        Object name -> list of (h, w) bool, one per validation index.
    """
    triples = list(itertools.product(layout.OBJECTS, layout.SCENES, validation))
    names = [layout.pair_name(*triple) for triple in triples]
    for set_name in ("obj", "scene", "scene_only"):
        classes, position = (layout.OBJECTS, 0) if set_name == "obj" else (layout.SCENES, 1)
        folder = os.path.join(data_dir, set_name)
        write_list(folder, names, [classes.index(triple[position]) for triple in triples])
        write_boxes(folder, names, [boxes[name] for name in names])
        _write_masks(folder, validation, masks)


def write_list(folder: str, names, labels, suffix: str = ".jpg") -> None:
    """Write ``val.txt`` of a set."""
    _write_lines(folder, "val.txt", [f"{name}{suffix} {label}" for name, label in zip(names, labels, strict=True)])


def write_boxes(folder: str, names, boxes, suffix: str = ".jpg") -> None:
    """Write ``val_loc.txt`` of a set."""
    lines = [f"{name}{suffix} {','.join(map(str, box))}" for name, box in zip(names, boxes, strict=True)]
    _write_lines(folder, "val_loc.txt", lines)


def write_subsets(data_dir: str, indices, boxes: dict, dog_masks, seed: int) -> None:
    """Make scene1 .. scene10, dog_bedroom, bamboo_forest and tcav of the images of scene and scene_only.

    Parameters
    ----------
    data_dir
        Folder of the sets.
    indices
        All indices of a pair, training and validation.
    boxes
        Image name -> box.
    dog_masks
        Masks of the validation dogs.
    seed
        Seed of TCAV's choice of images.
    """
    validation = [index for index in indices if index >= layout.FIRST_VALIDATION]
    for set_name in layout.CONTRAST_SETS:
        _write_contrast_set(data_dir, set_name, indices, boxes)
        _write_masks(os.path.join(data_dir, set_name), validation, {layout.COMMON_FEATURE: dog_masks})
    for set_name, source, scene in (
        ("dog_bedroom", "scene", "bedroom"),
        ("bamboo_forest", "scene_only", "bamboo_forest"),
    ):
        folder = os.path.join(data_dir, set_name)
        names = [layout.pair_name("dog", scene, index) for index in validation]
        for name in names:
            link(os.path.join(data_dir, source, "val", name + ".jpg"), os.path.join(folder, "val", name + ".jpg"))
        write_list(folder, names, [layout.SCENES.index(scene)] * len(names))
        write_boxes(folder, names, [boxes[name] for name in names])
        _write_masks(folder, validation, {layout.COMMON_FEATURE: dog_masks})
    _write_tcav(data_dir, indices, seed)


def _write_contrast_set(data_dir: str, set_name: str, indices, boxes: dict) -> None:
    """Make one of scene1 .. scene10: a dog in the first i scene classes, no object in the others."""
    folder = os.path.join(data_dir, set_name)
    with_dog = layout.scenes_with_dog(set_name)
    names, labels, places = [], [], []
    for label, scene in enumerate(layout.SCENES):
        os.makedirs(os.path.join(folder, "train", scene), exist_ok=True)
        source = "scene" if scene in with_dog else "scene_only"
        for index in indices:
            dog_name = layout.pair_name("dog", scene, index)
            name = dog_name if scene in with_dog else f"{scene}-{index:04d}"
            part = layout.part_folder(scene, index)
            link(os.path.join(data_dir, source, part, dog_name + ".jpg"), os.path.join(folder, part, name + ".jpg"))
            if part == "val":
                names.append(name)
                labels.append(label)
                places.append(boxes[name] if scene in with_dog else NO_BOX)
    write_list(folder, names, labels)
    write_boxes(folder, names, places)


def _write_tcav(data_dir: str, indices, seed: int) -> None:
    """Choose TCAV's images: dogs on scenes as the concept, and random sets of other objects on scenes.

    The target is ``dog_bedroom``, so none of the images shows a bedroom.
    Training images are used if there are any.
    """
    pool = [index for index in indices if index < layout.FIRST_VALIDATION] or list(indices)
    scenes = [scene for scene in layout.SCENES if scene != "bedroom"]
    others = [name for name in layout.OBJECTS if name != layout.COMMON_FEATURE]
    for number in range(NUM_RANDOM_SETS + 1):
        rng = np.random.default_rng([seed, 1907, number])
        triples = list(itertools.product(others if number else [layout.COMMON_FEATURE], scenes, pool))
        chosen = rng.choice(len(triples), min(NUM_TCAV_IMAGES, len(triples)), replace=False)
        folder = os.path.join(data_dir, "tcav", f"random_{number - 1}" if number else "dog_scene")
        for position in sorted(chosen):
            name, scene, index = triples[position]
            file = layout.pair_name(name, scene, index) + ".jpg"
            link(os.path.join(data_dir, "scene", layout.part_folder(scene, index), file), os.path.join(folder, file))


def _write_masks(folder: str, validation, masks: dict) -> None:
    """Write the masks of some objects, one per validation index, each under its name."""
    keys = [layout.mask_key(name, index) for name in masks for index in validation]
    save_masks(os.path.join(folder, "val_mask.npz"), [mask for name in masks for mask in masks[name]], keys)


def _write_lines(folder: str, name: str, lines) -> None:
    """Write a text file whole or not at all."""
    atomic_write(os.path.join(folder, name), "".join(f"{line}\n" for line in lines), durable=False)
