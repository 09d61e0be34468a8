"""Reading of BIM's sets and their image files, and construction of the embedded sets from synthetic images.

A set has ``val/`` with its images, ``val.txt`` with lines ``name label``, ``val_loc.txt`` with lines
``name row0,col0,row1,col1`` and the objects' masks; see ``bim.construct``.

A mask has the shape of the object as it was cut out, before it was resized into its box: bits in ``val_mask.npz``. The
authors pickled theirs.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Sequence

import numpy as np

from attribution.errors import BadInput, listed
from attribution.files import cache_directory, check_directory
from attribution.reading import inside, opened, read_arrays, read_json
from bim import layout
from bim.layout import LISTED, RECORD, completeness, is_whole, read_image

EMBEDDED_VAL = 100  # validation images of each pair, as many as the authors'
MOST_BYTES = 1 << 28  # of a mask file, unpacked; the authors' masks have some 10 MB
MOST_SIDE = 1 << 15  # pixels


@dataclasses.dataclass(frozen=True)
class BimSet:
    """The validation images of one set, read on access.

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
        data_dir, name = os.path.split(self.directory)
        return read_images(data_dir, f"{name}/val", [self.names[row] for row in rows])

    def draw(self, rows) -> None:
        """Draw the images of some rows, if they are missing and of the embedded sets."""
        data_dir, name = os.path.split(self.directory)
        _draw_missing(data_dir, f"{name}/val", [self.names[row] for row in rows])

    def path(self, row: int) -> str:
        """Return the file of a row's image."""
        return os.path.join(self.directory, "val", self.names[row])

    def digest(self, rows) -> list[str]:
        """Return for each of some rows a hash of the data of its score: pixels, label, box, mask."""
        digests = []
        self.draw(rows)
        for row in rows:
            with opened(self.path(row), "image") as file:
                content = hashlib.sha256(file.read())
            content.update(f"{self.names[row]} {self.labels[row]} {self.boxes[row].tolist()}".encode())
            if self.boxes[row].any():
                content.update(np.packbits(self.mask(row)).tobytes())
            digests.append(content.hexdigest()[:32])
        return digests

    def fingerprint(self) -> str:
        """Return a hash of the set's lists. The pixels of an image are part of its score's key."""
        content = hashlib.sha256()
        for row, name in enumerate(self.names):
            content.update(f"{name} {self.labels[row]} {self.boxes[row].tolist()}".encode())
        return content.hexdigest()

    def mask(self, row: int) -> np.ndarray:
        """Return the mask of a row's object as it was cut out, (h, w) bool, by the image's name.

        Raises
        ------
        BadInput
            If there is none, or it is empty.
        """
        name = self.names[row]
        shown = layout.object_and_number(name)
        mask = self._masks.get(layout.mask_key(*shown)) if shown else None
        if mask is None:
            raise BadInput(f"{self.directory} has {len(self._masks)} masks, none is for {name}")
        if not mask.any():
            raise BadInput(f"{self.directory}: the mask for {name} is empty; construct the sets again")
        return mask

    @functools.cached_property
    def _masks(self) -> dict[str, np.ndarray]:
        return load_masks(self.directory)


def check_same_objects(first: BimSet, first_rows, second: BimSet, second_rows) -> None:
    """Refuse two sets that contradict each other about the same images.

    Parameters
    ----------
    first, second
        Two sets with the same objects, or none, at the same places.
    first_rows, second_rows
        As many rows of each, in the same order.

    Raises
    ------
    BadInput
        With the first image whose box or mask is not the same in both.
    """
    for one, other in zip(first_rows, second_rows, strict=True):
        same = (first.boxes[one] == second.boxes[other]).all()
        if not same or (first.boxes[one].any() and not np.array_equal(first.mask(one), second.mask(other))):
            raise BadInput(
                f"{first.names[one]} has another {'mask' if same else 'box'} in {first.directory} than in "
                f"{second.directory}; construct the sets again"
            )


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
    names = tuple(name for name, _ in labels)
    try:
        located = {name: list(map(int, box.split(","))) for name, box in boxes}
        corners = np.array([located[name] for name in names], np.int64).reshape(len(names), 4)
        numbers = np.array([int(label) for _, label in labels], np.int64)
    except (KeyError, ValueError, OverflowError) as error:
        raise BadInput(f"{directory}: val.txt and val_loc.txt do not fit each other ({error})") from error
    if len(located) < len(boxes) or len(set(names)) < len(names):
        raise BadInput(f"{directory}: val.txt or val_loc.txt names an image twice; expected one line an image")
    for name, label, box in zip(names, numbers, corners, strict=True):
        inside(os.path.join(directory, "val"), name, os.path.join(directory, "val.txt"))
        if not 0 <= label < len(layout.SCENES):
            raise BadInput(f"{directory}/val.txt: label {label} of {name} is not in 0 to {len(layout.SCENES) - 1}")
        row0, col0, row1, col1 = box.tolist()
        if not (0 <= row0 <= row1 <= layout.IMAGE_SIDE and 0 <= col0 <= col1 <= layout.IMAGE_SIDE):
            raise BadInput(f"{directory}/val_loc.txt: the box of {name} does not lie in {layout.IMAGE_SIDE} pixels")
        # An image without an object has the box 0,0,0,0.
        if (row0 == row1 or col0 == col1) and (box.any() or set_name not in layout.CONTRAST_SETS):
            raise BadInput(f"{directory}/val_loc.txt: the box of {name} is empty; construct the sets again")
    return BimSet(directory, names, numbers, corners)


def _read_list(directory: str, name: str, form: str) -> list[tuple[str, str]]:
    """Return the two columns of a list."""
    path = os.path.join(directory, name)
    if not os.path.lexists(path):
        raise BadInput(f"no {path}; expected lines '{form}', as scripts/construct_bim_dataset.py writes them")
    with opened(path, "list") as file:
        lines = file.read().decode("utf-8", "replace").split("\n")
    rows = [tuple(line.split(None, 1)) for line in lines if line.strip()]
    if not rows or any(len(row) != 2 for row in rows):
        raise BadInput(f"{path}: expected lines '{form}'")
    return [(first, second.strip()) for first, second in rows]


@dataclasses.dataclass(frozen=True)
class TrainingImages:
    """The images of some files, of which ``images[rows]`` reads a part: all of 90,000 would not fit into memory."""

    paths: Sequence[str]

    def __len__(self):
        return len(self.paths)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return (N, 128, 128, 3)."""
        return len(self.paths), layout.IMAGE_SIDE, layout.IMAGE_SIDE, 3

    def __getitem__(self, rows) -> np.ndarray:
        return np.stack([read_image(self.paths[row], layout.IMAGE_SIDE) for row in rows])


def load_train(data_dir: str, set_name: str) -> tuple[TrainingImages, np.ndarray]:
    """Return a set's training images and their labels.

    Returns
    -------
    images : TrainingImages
        (N, 128, 128, 3) uint8, sorted by class and name; a file that appears under several names counts once
        for each.
    labels : numpy.ndarray
        (N,) int64.
    """
    paths, labels = [], []
    for label, name in enumerate(layout.OBJECTS if set_name == "obj" else layout.SCENES):
        folder = os.path.join(data_dir, set_name, "train", name)
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        files = [file for file in files if not file.startswith(".")]
        if not files:
            raise BadInput(f"no training images in {folder}; construct the sets with --num_train above 0")
        if others := [file for file in files if not file.lower().endswith((".jpg", ".jpeg", ".png"))]:
            raise BadInput(f"{os.path.join(folder, others[0])} is not an image (.jpg, .png); remove it")
        paths += [os.path.join(folder, file) for file in files]
        labels += [label] * len(files)
    return TrainingImages(paths), np.array(labels)


def _draw_missing(data_dir: str, folder: str, names: Sequence[str]) -> None:
    """Draw the images of a folder that are missing; nothing in finished sets."""
    if completeness(data_dir) != LISTED:
        return
    directory = os.path.join(data_dir, *folder.split("/"))
    if missing := [name for name in names if not is_whole(os.path.join(directory, name))]:
        from bim.construct import draw_images

        draw_images(data_dir, folder, missing)


def read_images(data_dir: str, folder: str, names: Sequence[str]) -> np.ndarray:
    """Read images of a folder of the sets, such as ``obj/val`` or ``tcav/random_0``; draw embedded ones if missing.

    Returns
    -------
    numpy.ndarray
        (len(names), 128, 128, 3) uint8.
    """
    _draw_missing(data_dir, folder, names)
    directory = os.path.join(data_dir, *folder.split("/"))
    return np.stack([read_image(os.path.join(directory, name), layout.IMAGE_SIDE) for name in names])


def image_names(data_dir: str, folder: str) -> list[str]:
    """Return the sorted names of the images of a folder of the sets."""
    set_name, _, part = folder.partition("/")
    if completeness(data_dir) != LISTED:
        path = os.path.join(data_dir, set_name, part)
        return sorted(os.listdir(path)) if os.path.isdir(path) else []
    if set_name != "tcav":
        return sorted(load_set(data_dir, set_name).names)
    from bim.construct import TCAV_FOLDERS, tcav_images

    record = read_json(os.path.join(data_dir, RECORD))
    indices = range(layout.FIRST_VALIDATION, layout.FIRST_VALIDATION + record["num_val"])
    chosen = tcav_images(part, indices, record["seed"]) if part in TCAV_FOLDERS else []
    return sorted(layout.pair_name(*image) + ".jpg" for image in chosen)


def resolve_data_dir(data_dir: str = "") -> str:
    """Return ``data_dir``, or the embedded sets' folder, whose images are drawn when they are read.

    Parameters
    ----------
    data_dir
        The user's own folder of sets; empty for the embedded default.
    """
    if data_dir:
        if not os.path.isdir(data_dir):
            raise BadInput(f"no folder {data_dir}; expected BIM's sets {listed(layout.MODEL_NAMES[:3])}, ...")
        return data_dir
    directory = str(cache_directory(f"bim_drawn_1_{EMBEDDED_VAL}"))
    if not completeness(directory):
        from bim.construct import list_drawn

        check_directory("cache_dir", directory)
        list_drawn(directory, EMBEDDED_VAL)
    return directory


def load_masks(folder: str) -> dict[str, np.ndarray]:
    """Read the masks of a set, (h, w) bool each, by the name of object and number, from ``val_mask.npz``.

    Raises ``BadInput`` if the file is missing or damaged.
    """
    path = os.path.join(folder, "val_mask.npz")
    if not os.path.lexists(path):
        raise BadInput(f"no masks in {folder}; expected val_mask.npz, as scripts/construct_bim_dataset.py writes it")
    try:
        arrays = read_arrays(path, MOST_BYTES)
        shapes, bits, keys = arrays["shapes"].astype(np.int64), arrays["bits"], arrays["keys"].tolist()
        if shapes.ndim != 2 or shapes.shape[1] != 2 or ((shapes < 1) | (shapes > MOST_SIDE)).any():
            raise ValueError("its shapes are not those of masks")
        sizes = shapes.prod(axis=1)
        if bits.dtype != np.uint8 or bits.shape != (-(-int(sizes.sum()) // 8),):
            raise ValueError("its number of bits does not match its shapes")
        if not len(set(keys)) == len(keys) == len(shapes):
            raise ValueError(f"it has {len(shapes)} masks under {len(set(keys))} names")
    except (BadInput, ValueError, TypeError, KeyError) as error:
        raise BadInput(f"{path} is damaged ({error}); construct the sets again") from error
    parts = np.split(np.unpackbits(bits, count=int(sizes.sum())).astype(bool), np.cumsum(sizes)[:-1])
    return dict(zip(keys, map(np.reshape, parts, shapes), strict=True))
