"""BIM's sets on disk: names of classes, images and folders as in its authors' data, pictures and masks."""

from __future__ import annotations

import filecmp
import os
import shutil

import numpy as np

from attribution.errors import BadInput
from attribution.files import atomic_write
from attribution.reading import read_json, read_pixels
from attribution_benchmarks.core.bundled_models import default_model

OBJECTS = ("backpack", "bird", "dog", "elephant", "kite", "pizza", "stop_sign", "toilet", "truck", "zebra")
SCENES = (
    "bamboo_forest", "bedroom", "bowling_alley", "bus_interior", "cockpit", "corn_field", "laundromat", "runway",
    "ski_slope", "track",
)  # fmt: skip
CHANNEL_MEANS = np.array([123.68, 116.78, 103.94], np.float32)  # of RGB, subtracted from every input
IMAGE_SIDE = 128  # pixels, of MiniPlaces and of every BIM image
FIRST_VALIDATION = 900  # of each pair's 1,000 images, those from here on are for validation
CONTRAST_SETS = tuple(f"scene{count}" for count in range(1, 11))
SAVED_MODELS = str(default_model("bim"))  # the models that come with the repository
MODEL_NAMES = ("obj", "scene", "scene_only", *CONTRAST_SETS)
COMMON_FEATURE = "dog"  # the object whose commonness scene1 .. scene10 vary
CONTRAST_ORDER = ("bedroom", *(scene for scene in SCENES if scene != "bedroom"))
RECORD = "construction.json"  # in a folder of sets: how they were constructed, and whether that is complete
LISTED = "lists"  # as "complete" in the record: lists and masks are complete, and images are drawn when they are read


def coco_name(object_name: str) -> str:
    """Return an object's name in COCO: ``stop_sign`` is ``stop sign`` there."""
    return object_name.replace("_", " ")


def scene_folder(scene: str) -> str:
    """Return a scene's folder below MiniPlaces' ``images/train``, such as ``b/bedroom``."""
    return os.path.join("t", "track", "outdoor") if scene == "track" else os.path.join(scene[0], scene)


def pair_name(object_name: str, scene: str, index: int) -> str:
    """Return the name of an image without its suffix, such as ``dog-bedroom-0901``."""
    return f"{object_name}-{scene}-{index:04d}"


def part_folder(label: str, index: int) -> str:
    """Return the folder of an image within its set: ``val``, or that of its class in ``train``."""
    return "val" if index >= FIRST_VALIDATION else os.path.join("train", label)


def cluster(name: str) -> str:
    """Return the cluster of an image among those of its set, such as ``0901`` of ``dog-bedroom-0901.png``.

    The ten objects of a number are pasted on the ten scenes of the same number, so that each object and each scene
    recurs ten times, and images of different numbers are independent. A name of another form is a separate cluster.
    """
    stem = os.path.splitext(name)[0]
    number = stem.rpartition("-")[2]
    return number if number.isdecimal() and number != stem else stem


def object_and_number(name: str) -> tuple[str, int] | None:
    """Return the object and the number in an image's name, ``("dog", 901)`` of ``dog-bedroom-0901.jpg``.

    None for a name without an object. The suffix may be absent.
    """
    parts = os.path.splitext(name)[0].split("-")
    if len(parts) != 3 or not (parts[2].isascii() and parts[2].isdecimal() and len(parts[2]) <= 9):
        return None
    return parts[0], int(parts[2])


def mask_key(object_name: str, number: int) -> str:
    """Return the name of an object's mask, the same on every scene: ``dog-0901``."""
    return f"{object_name}-{number:04d}"


def scenes_with_dog(set_name: str) -> tuple[str, ...]:
    """Return the scene classes that hold a dog in one of the sets scene1 .. scene10.

    The bedroom is the first, so that the dog is in ``dog_bedroom``'s class in every set; the others follow
    in alphabetical order.
    """
    return CONTRAST_ORDER[: int(set_name.removeprefix("scene"))]


def completeness(data_dir: str) -> bool | str:
    """Return True for finished sets, ``LISTED`` if their images are drawn when they are read, False otherwise."""
    try:
        complete = read_json(os.path.join(data_dir, RECORD)).get("complete")
    except (BadInput, AttributeError):
        return False
    return complete if complete is True or complete == LISTED else False


def link(source: str, target: str) -> None:
    """Make ``target`` the same file as ``source``, or a copy where the file system has no hard links."""
    if os.path.exists(target):
        if os.path.samefile(source, target) or filecmp.cmp(source, target, shallow=False):
            return
        os.unlink(target)  # of an image that was made again since
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:  # by another process that makes the same
        return
    except OSError:
        with open(source, "rb") as file:
            atomic_write(target, lambda copy: shutil.copyfileobj(file, copy), durable=False)


def is_whole(path: str) -> bool:
    """Return whether a JPEG or PNG exists and is not truncated, as after a full disk or a power failure."""
    if not os.path.isfile(path):  # also of a pipe, which would block
        return False
    try:
        with open(path, "rb") as file:
            file.seek(-12, os.SEEK_END)
            end = file.read()
    except OSError:  # shorter than that
        return False
    return end.endswith(b"\xff\xd9") or end == b"\0\0\0\0IEND\xaeB`\x82"


def read_image(path: str, side: int | None = None) -> np.ndarray:
    """Read an image as (H, W, 3) uint8; an image of another side than ``side`` is refused."""
    image = read_pixels(path)
    if side is not None and image.shape != (side, side, 3):
        raise BadInput(f"{path} has {image.shape[1]} x {image.shape[0]} pixels; BIM's images have {side} x {side}")
    return image


def save_masks(path: str, masks, keys) -> None:
    """Write masks of different shapes, (h, w) bool each, as packed bits without pickles.

    ``keys`` are as many names, ``mask_key`` of object and number: a mask is found by it, whatever else a set
    holds.
    """
    masks = list(masks)
    shapes = np.array([mask.shape for mask in masks], np.int32).reshape(-1, 2)
    bits = np.packbits(np.concatenate([np.ravel(mask) for mask in masks]).astype(bool))
    atomic_write(path, lambda file: np.savez(file, bits=bits, shapes=shapes, keys=np.array(keys, "U64")), durable=False)
