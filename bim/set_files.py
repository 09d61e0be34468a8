"""Files of BIM's sets: pictures, masks, and the record of their construction."""

from __future__ import annotations

import filecmp
import os
import shutil

import numpy as np

from attribution.errors import BadInput
from attribution.files import atomic_write
from attribution.reading import read_json, read_picture

RECORD = "construction.json"  # in a folder of sets: how they were constructed, and whether that is complete
LISTED = "lists"  # as "complete" in the record: lists and masks are complete, and images are drawn when they are read


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
    image = np.asarray(read_picture(path))
    if side is not None and image.shape != (side, side, 3):
        raise BadInput(f"{path} has {image.shape[1]} x {image.shape[0]} pixels; BIM's images have {side} x {side}")
    return image


def save_masks(path: str, masks, keys) -> None:
    """Write masks of different shapes, (h, w) bool each, as packed bits without pickles.

    ``keys`` are as many names, ``layout.mask_key`` of object and number: a mask is found by it, whatever else a set
    holds.
    """
    masks = list(masks)
    shapes = np.array([mask.shape for mask in masks], np.int32).reshape(-1, 2)
    bits = np.packbits(np.concatenate([np.ravel(mask) for mask in masks]).astype(bool))
    atomic_write(path, lambda file: np.savez(file, bits=bits, shapes=shapes, keys=np.array(keys, "U64")), durable=False)
