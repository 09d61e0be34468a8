"""Image files of BIM's sets: reading, hard links, completeness; failures of the file system in one line."""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
from collections.abc import Iterator

import numpy as np

from attribution.errors import BadInput
from attribution.file_io.files import atomic_write
from attribution.file_io.reading import read_picture


@contextlib.contextmanager
def failures_in_one_line() -> Iterator[None]:
    """Convert errors of the file system (no such folder, no permission, disk full) to ``BadInput``."""
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        raise BadInput(f"{where}{error.strerror or error}; give a file or folder that can be used") from error


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
    try:
        with open(path, "rb") as file:
            file.seek(-12, os.SEEK_END)
            end = file.read()
    except OSError:  # missing, or shorter than that
        return False
    return end.endswith(b"\xff\xd9") or end == b"\0\0\0\0IEND\xaeB`\x82"


def read_image(path: str, side: int | None = None) -> np.ndarray:
    """Read an image as (H, W, 3) uint8; an image of another side than ``side`` is refused."""
    image = np.asarray(read_picture(path))
    if side is not None and image.shape != (side, side, 3):
        raise BadInput(f"{path} has {image.shape[1]} x {image.shape[0]} pixels; BIM's images have {side} x {side}")
    return image
