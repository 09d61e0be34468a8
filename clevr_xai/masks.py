"""Ground-truth masks: the objects that a question is about, and the pixels that show them.

Arras, Osman and Samek, Information Fusion 81 (2022), sections on ground truth, and the masks of the official
release. The objects follow from the ``_output`` of the program's nodes, the pixels from the mask image.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable

import numpy as np
from PIL import Image

from attribution.errors import BadInput
from attribution.reading import read_pixels
from clevr_xai.programs import is_set_node, node_type

SIMPLE = ("single_object", "all_objects")
COMPLEX = ("unique", "unique_firstnonempty", "union", "all_objects")
GROUND_TRUTHS = {"simple": SIMPLE, "complex": COMPLEX}
KINDS = tuple(GROUND_TRUTHS)
SIZE = 128  # of the masks in the release
BACKGROUND = (64, 64, 64)  # 8-bit sRGB, of the mask images


def linear(component: int) -> float:
    """Return an 8-bit sRGB component as linear light in [0, 1] (IEC 61966-2-1)."""
    value = component / 255
    return value / 12.92 if value < 0.0405 else ((value + 0.055) / 1.055) ** 2.4


_LINEAR = np.array([linear(component) for component in range(256)])


def ground_truth_objects(program: list[dict], ground_truth: str, num_objects: int) -> list[int]:
    """Return the objects of a ground truth.

    Parameters
    ----------
    program
        Nodes with their ``_output``.
    ground_truth
        "single_object", "all_objects", "unique", "unique_firstnonempty" or "union".
    num_objects
        Number of objects of the scene.

    Returns
    -------
    list of int
        Sorted indices. Empty: the question has no such mask.
    """
    filters = [node["_output"] for node in program if node_type(node).startswith("filter_")]
    unique = {node["_output"] for node in program if node_type(node) == "unique"}
    rules: dict[str, Callable[[], Iterable[int]]] = {
        "all_objects": lambda: range(num_objects),
        "single_object": lambda: filters[-1] if filters else [],
        "unique": lambda: unique,
        "union": lambda: {index for node in program if is_set_node(node) for index in node["_output"]},
        "unique_firstnonempty": lambda: unique | _first_nonempty(program),
    }
    return sorted(rules[ground_truth]())


def _first_nonempty(program: list[dict]) -> set[int]:
    """Return the first non-empty set found from the end of a program backwards.

    Each branch of an empty union or intersection contributes its first non-empty set. The authors' text says so of
    comparisons, too; their code, and so the release, does not do it.
    """
    for node in reversed(program):
        kind = node_type(node)
        if is_set_node(node) and node["_output"]:
            return set(node["_output"])
        if kind in ("union", "intersect"):
            return {index for start in node["inputs"] for index in _first_in_chain(program, start)}
    return set()


def _first_in_chain(program: list[dict], start: int) -> list[int]:
    """Return the first non-empty set on the way back from a node through nodes of a single input."""
    node = program[start]
    while True:
        if is_set_node(node) and node["_output"]:
            return node["_output"]
        if len(node["inputs"]) != 1:
            return []
        node = program[node["inputs"][0]]


def object_indices(mask_image: np.ndarray, mask_colors: list) -> np.ndarray:
    """Return the object that each pixel of a mask image shows.

    Parameters
    ----------
    mask_image : (H, W, 3) uint8
        Flat sRGB colours on the background (64, 64, 64).
    mask_colors
        One *linear* colour an object, components in [0, 1], as in the scene's JSON.

    Returns
    -------
    (H, W) int16
        Index of the object whose colour is nearest, -1 for the background.

    Raises
    ------
    ValueError
        If two colours of the image are nearest to the same object.
    """
    red, green, blue = np.moveaxis(mask_image[..., :3].astype(np.int32), -1, 0)
    codes = (red << 16 | green << 8 | blue).ravel()
    # The image consists of long runs of one colour: only their beginnings need to be looked up.
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    present, which = np.unique(codes[starts], return_inverse=True)
    colors = np.stack([present >> 16, present >> 8 & 255, present & 255], axis=1)
    known = np.array([_LINEAR[list(BACKGROUND)], *mask_colors], np.float64)
    nearest = np.square(_LINEAR[colors][:, None] - known).sum(axis=2).argmin(axis=1)
    if len(set(nearest)) != len(nearest):
        raise ValueError(f"{len(colors)} colours for {len(set(nearest))} objects and background")
    lengths = np.diff(starts, append=len(codes))
    return np.repeat((nearest - 1).astype(np.int16)[which], lengths).reshape(mask_image.shape[:2])


def read_indices(path: pathlib.Path, scene: dict) -> np.ndarray:
    """Return the object that each pixel of a scene's mask image shows, see ``object_indices``.

    Raises
    ------
    BadInput
        If the file cannot be read, an object has no colour, or the colours are not those of the objects.
    """
    pixels = read_pixels(path)
    try:
        return object_indices(pixels, [item["mask_color"] for item in scene["objects"]])
    except KeyError:
        raise BadInput(f"the scene of {scene['image_filename']} has an object without 'mask_color'") from None
    except (ValueError, TypeError) as error:
        raise BadInput(f"{path} does not fit the scene's mask colours: {error}") from None


def resize(mask: np.ndarray, size: int = SIZE) -> np.ndarray:
    """Return a mask at another size by the release's rule: it includes every pixel that the mask touches.

    Pillow's bilinear filter on float values, which widens when it shrinks, then greater than zero.

    Parameters
    ----------
    mask : (H, W) bool
    size
        Height and width of the result.

    Returns
    -------
    (size, size) bool
    """
    values = Image.fromarray(np.asarray(mask, np.float32))
    return np.asarray(values.resize((size, size), Image.Resampling.BILINEAR)) > 0


def object_masks(indices: np.ndarray, num_objects: int, size: int = SIZE) -> np.ndarray:
    """Return each object's resized mask, (num_objects, size, size) bool, from an (H, W) index image.

    The filter's weights are not negative, so the mask of several objects is the union of their masks.
    """
    return np.stack([resize(indices == index, size) for index in range(num_objects)])


def visible_centres(indices: np.ndarray, num_objects: int, size: int = SIZE) -> np.ndarray:
    """Return the mean column and row of each object's visible pixels, (num_objects, 2), from an (H, W) index image.

    They are in pixels of an image of another size, nan for an object that is not visible.
    """
    height, width = indices.shape
    rows, columns = np.nonzero(indices >= 0)
    owner = indices[rows, columns]
    count = np.bincount(owner, minlength=num_objects).astype(np.float64)
    count[count == 0] = np.nan
    column, row = (np.bincount(owner, axis + 0.5, num_objects) / count for axis in (columns, rows))
    return np.stack([column * size / width - 0.5, row * size / height - 0.5], axis=-1)
