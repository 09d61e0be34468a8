"""The parts of a dataset of our own that depend on nothing else: an image, questions of a block, their ground truths.

Each is made by one call, wherever: files that are there are not made again, those that are written are whole, and a
call that runs twice, even at the same time, leaves the same. What is returned is plain JSON; scenes and questions are
written out already, which takes a fifth of the memory.
"""

from __future__ import annotations

import io
import json
import pathlib
from collections.abc import Sequence

import numpy as np
from PIL import Image

from attribution.file_io.reading import read_picture
from clevr_xai import layout, masks
from clevr_xai.generation import questions, render, scenes
from clevr_xai.generation.settings import Settings


def make_image(output_dir: pathlib.Path, settings: Settings, index: int) -> str:
    """Sample a scene, render it unless its image and mask image are there, and return its JSON."""
    scene = scenes.sample_scene(settings.seed, index, settings.width, settings.height)
    image_file = output_dir / layout.IMAGES / scene["image_filename"]
    mask_file = output_dir / layout.MASKS / scene["mask_filename"]
    if not (image_file.exists() and mask_file.exists()):
        image, indices = render.render(scene, settings.width, settings.height, settings.samples)
        picture = Image.fromarray(image)
        if settings.stored_size:
            picture = picture.resize((settings.stored_size,) * 2, Image.Resampling.BILINEAR)
        layout.write(mask_file, _png(render.mask_image(indices)))
        layout.write(image_file, _png(picture))
    return layout.compact(scene)


def ask(kind: str, seed: int, wording: str, block: Sequence[str]) -> list[str]:
    """Return the JSON of the questions about a block's scenes, all but their ``question_index``."""
    return [layout.compact(question) for question in questions.generate_block(_read(block), kind, seed, wording)]


def write_ground_truths(
    output_dir: pathlib.Path, kind: str, seed: int, block: tuple[int, Sequence[str]]
) -> dict[str, str]:
    """Write the ``.npy`` files that are missing of a block's questions.

    Parameters
    ----------
    output_dir
        Of the dataset.
    kind, seed
        Of the questions, which are asked again: that costs less than to carry them.
    block
        Number of the first question, and the scenes' JSON.

    Returns
    -------
    dict
        Ground truth -> JSON of its part of the statistics, without the outer brackets.
    """
    first, texts = block
    found = _read(texts)
    scene_of = {scene["image_filename"]: scene for scene in found}
    statistics: dict[str, dict] = {name: {} for name in masks.GROUND_TRUTHS[kind]}
    known: dict[str, np.ndarray] = {}
    for number, question in enumerate(questions.generate_block(found, kind, seed), start=first):
        scene = scene_of[question["image_filename"]]
        count = len(scene["objects"])
        for name, told in statistics.items():
            objects = masks.ground_truth_objects(question["program"], name, count)
            if not objects:
                continue
            told[str(number)] = {"target_objects": len(objects), "total_objects": count}
            file = output_dir / layout.GROUND_TRUTH.format(kind=kind, ground_truth=name) / f"{number}.npy"
            if file.exists():
                continue
            if scene["image_filename"] not in known:  # questions about one image follow each other
                known = {scene["image_filename"]: _object_masks(output_dir, scene)}
            layout.write(file, _npy(known[scene["image_filename"]][objects].any(axis=0)))
    return {name: layout.compact(told)[1:-1] for name, told in statistics.items()}


def _read(texts: Sequence[str]) -> list[dict]:
    return [json.loads(text) for text in texts]


def _object_masks(output_dir: pathlib.Path, scene: dict) -> np.ndarray:
    """Return the masks of a scene's objects from its mask image, (objects, size, size) bool."""
    picture = read_picture(output_dir / layout.MASKS / scene["mask_filename"])
    indices = masks.object_indices(np.asarray(picture), [item["mask_color"] for item in scene["objects"]])
    return masks.object_masks(indices, len(scene["objects"]))


def _png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()
