"""Read BIM's sets from disk, and make the embedded ones when nothing was downloaded.

A set has ``val/`` with its images, ``val.txt`` with lines ``name label``, ``val_loc.txt`` with lines
``name row0,col0,row1,col1`` and the objects' masks; see ``bim.construct`` and ``bim.masks``.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os

import numpy as np

from attribution_benchmarks.command_line import BadInput, cache_directory, check_directory, listed
from attribution_benchmarks.command_line.directories import held
from bim import layout
from bim.disk import failures_in_one_line, read_image
from bim.masks import load_masks

EMBEDDED_VAL = 100  # validation images of each pair, as many as the authors'


@dataclasses.dataclass(frozen=True)
class BimSet:
    """The validation images of one set, read when asked for.

    Attributes
    ----------
    directory
        The set's folder.
    names
        File names of the N images, as ``val.txt`` gives them.
    labels
        (N,) int64.
    boxes
        (N, 4) int64: row0, col0, row1, col1 in pixels of the images; zeros where there is no object.
    """

    directory: str
    names: tuple[str, ...]
    labels: np.ndarray
    boxes: np.ndarray

    def __len__(self):
        return len(self.names)

    def images(self, rows) -> np.ndarray:
        """Return the images of some rows, (len(rows), 128, 128, 3) uint8."""
        return np.stack([read_image(self.path(row), layout.IMAGE_SIDE) for row in rows])

    def path(self, row: int) -> str:
        """Return the file of a row's image."""
        return os.path.join(self.directory, "val", self.names[row])

    def digest(self, rows) -> list[str]:
        """Return for each of some rows a hash of all that its score depends on: pixels, label, box, mask."""
        digests = []
        for row in rows:
            with failures_in_one_line(), open(self.path(row), "rb") as file:
                content = hashlib.sha256(file.read())
            content.update(f"{self.names[row]} {self.labels[row]} {self.boxes[row].tolist()}".encode())
            if self.boxes[row].any():
                content.update(np.packbits(self.mask(row)).tobytes())
            digests.append(content.hexdigest()[:32])
        return digests

    def fingerprint(self) -> str:
        """Return a hash of the set's lists; the pixels of each scored image are part of its score's key."""
        content = hashlib.sha256()
        for row, name in enumerate(self.names):
            content.update(f"{name} {self.labels[row]} {self.boxes[row].tolist()}".encode())
        return content.hexdigest()

    def mask(self, row: int) -> np.ndarray:
        """Return the mask of a row's object as it was cut out, (h, w) bool."""
        number = self._mask_numbers[row]
        if number >= len(self._masks):
            raise BadInput(f"{self.directory} has {len(self._masks)} masks, none is for {self.names[row]}")
        return self._masks[number]

    @functools.cached_property
    def _masks(self) -> list[np.ndarray]:
        return load_masks(self.directory)

    @functools.cached_property
    def _mask_numbers(self) -> list[int]:
        """Return each row's place in the mask file: so many per object class, classes in alphabetical order."""
        parts = [os.path.splitext(name)[0].split("-") for name in self.names]
        shown = [part for part in parts if len(part) == 3]  # others are named after their scene alone
        objects = sorted({part[0] for part in shown})
        unknown = set(objects) - set(layout.OBJECTS)
        if unknown:
            raise BadInput(f"{self.directory} has images of {listed(sorted(unknown))}, which are none of BIM's objects")
        indices = sorted({part[2] for part in shown})
        if len(self._masks) != len(objects) * len(indices):  # the file covers all classes whatever the set shows
            objects = list(layout.OBJECTS)
        each = len(self._masks) // len(objects)
        return [
            objects.index(part[0]) * each + indices.index(part[2]) if len(part) == 3 else len(self._masks)
            for part in parts
        ]


def load_set(data_dir: str, set_name: str) -> BimSet:
    """Read the lists of a set's validation images.

    Raises
    ------
    BadInput
        If a list is missing or does not fit the others.
    """
    directory = os.path.join(data_dir, set_name)
    labels = _read_list(directory, "val.txt", "name label")
    boxes = _read_list(directory, "val_loc.txt", "name row0,col0,row1,col1")
    try:
        names = tuple(name for name, _ in labels)
        located = {name: [int(value) for value in box.split(",")] for name, box in boxes}
        corners = np.array([located[name] for name in names], np.int64).reshape(len(names), 4)
        numbers = np.array([int(label) for _, label in labels], np.int64)
    except (KeyError, ValueError, OverflowError) as error:
        raise BadInput(f"{directory}: val.txt and val_loc.txt do not fit each other ({error})") from error
    if len(set(names)) < len(names):
        raise BadInput(f"{directory}/val.txt names an image twice; expected one line an image")
    for name, label, (row0, col0, row1, col1) in zip(names, numbers, corners, strict=True):
        if not 0 <= label < len(layout.SCENES):
            raise BadInput(f"{directory}/val.txt: label {label} of {name} is none of 0 to {len(layout.SCENES) - 1}")
        if not (0 <= row0 <= row1 <= layout.IMAGE_SIDE and 0 <= col0 <= col1 <= layout.IMAGE_SIDE):
            raise BadInput(f"{directory}/val_loc.txt: the box of {name} does not lie in {layout.IMAGE_SIDE} pixels")
    return BimSet(directory, names, numbers, corners)


def _read_list(directory: str, name: str, form: str) -> list[tuple[str, str]]:
    """Return the two columns of a list."""
    path = os.path.join(directory, name)
    if not os.path.isfile(path):
        raise BadInput(f"no {path}; expected lines '{form}', as scripts/construct_bim_dataset.py writes them")
    with failures_in_one_line(), open(path, encoding="utf-8", errors="replace") as file:
        rows = [tuple(line.split(None, 1)) for line in file if line.strip()]
    if not rows or any(len(row) != 2 for row in rows):
        raise BadInput(f"{path}: expected lines '{form}'")
    return [(first, second.strip()) for first, second in rows]


def load_train(data_dir: str, set_name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read a set's training images.

    Returns
    -------
    images : numpy.ndarray
        (N, 128, 128, 3) uint8, sorted by class and name; a file that appears under several names counts once
        for each.
    labels : numpy.ndarray
        (N,) int64.
    """
    paths, labels = _train_files(data_dir, set_name)
    images = np.empty((len(paths), layout.IMAGE_SIDE, layout.IMAGE_SIDE, 3), np.uint8)
    for row, path in enumerate(paths):
        images[row] = read_image(path, layout.IMAGE_SIDE)
    return images, np.array(labels)


def train_names(data_dir: str, set_name: str) -> list[str]:
    """Return the file names of a set's training images, in the order of ``load_train``."""
    return [os.path.basename(path) for path in _train_files(data_dir, set_name)[0]]


def _train_files(data_dir: str, set_name: str) -> tuple[list[str], list[int]]:
    """Return the paths and labels of a set's training images, sorted by class and name."""
    classes = layout.OBJECTS if set_name == "obj" else layout.SCENES
    per_class = _images_per_class(data_dir, set_name)
    paths, labels = [], []
    for label, name in enumerate(classes):
        folder = os.path.join(data_dir, set_name, "train", name)
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        files = [file for file in files if not file.startswith(".")]  # what is hidden is no image
        if not files:
            raise BadInput(f"no training images in {folder}; construct the sets with --num_train above 0")
        strangers = [file for file in files if not file.lower().endswith((".jpg", ".jpeg", ".png"))]
        if strangers:
            raise BadInput(f"{os.path.join(folder, strangers[0])} is no image, only these belong here; remove it")
        if per_class is not None and len(files) != per_class:
            raise BadInput(
                f"{folder} has {len(files)} images, its construction says {per_class}; construct the sets anew"
            )
        paths += [os.path.join(folder, file) for file in files]
        labels += [label] * len(files)
    return paths, labels


def _images_per_class(data_dir: str, set_name: str) -> int | None:
    """Return how many training images of a class were constructed; None where the sets were made by others."""
    from bim.construct import RECORD

    path = os.path.join(data_dir, RECORD)
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            number = json.load(file)["num_train"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(f"{path} is damaged; construct the sets anew") from error
    # Every image of the pair sets shows one of ten objects, or stands for one; the contrast sets have one a scene.
    return number * (1 if set_name in layout.CONTRAST_SETS else len(layout.OBJECTS))


def embedded_directory() -> str:
    """Return where the embedded sets are kept: in the cache, see ``command_line.cache_directory``."""
    return str(cache_directory(f"bim_drawn_1_{EMBEDDED_VAL}"))


def resolve_data_dir(data_dir: str = "", jobs: int | None = None) -> str:
    """Return ``data_dir``, or the embedded sets' folder after making what is missing of it.

    Parameters
    ----------
    data_dir
        The user's own folder of sets; empty for the embedded default.
    jobs
        Processes for making the embedded sets; all cores when None.
    """
    if data_dir:
        if not os.path.isdir(data_dir):
            raise BadInput(f"no folder {data_dir}; expected BIM's sets {listed(layout.MODEL_NAMES[:3])}, ...")
        return data_dir
    from bim.construct import construct, is_complete
    from bim.drawings import write_corpora

    directory = embedded_directory()
    if is_complete(directory):
        return directory
    check_directory("cache_dir", directory)
    jobs = jobs or os.cpu_count() or 1
    with held(directory, "drawn images"):
        if is_complete(directory):  # made by another process, for which this one has waited
            return directory
        corpora = os.path.join(directory, "corpora")
        first = layout.FIRST_VALIDATION
        write_corpora(corpora, range(first, first + EMBEDDED_VAL), seed=0, jobs=jobs)
        coco = os.path.join(corpora, "coco")
        construct(
            directory,
            os.path.join(coco, "annotations", "instances_train2017.json"),
            os.path.join(coco, "train2017"),
            os.path.join(corpora, "miniplaces"),
            num_train=0,
            num_val=EMBEDDED_VAL,
            seed=0,
            jobs=jobs,
        )
    return directory
