"""Reads the released FunnyBirds data set, whose files hold images of the birds with all sets of parts.

    classes.json, parts.json, dataset_test.json
    test/CLASS/000000.png
    test_part_map/CLASS/000000.png
    test_interventions/CLASS/000000/body_beak_eye.png          the parts that are left, in alphabetical order
    test_interventions/CLASS/000000/background_interventions/0.png     without the first background object

Images are RGBA; alpha is dropped. Hesse, Schaub-Meyer and Roth, ICCV 2023. A map's pixels of left and right are one
part, and are dilated together.
"""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.reading import read_json
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.parts.classes import minimal
from attribution_benchmarks.stats.coalitions import coalitions

COLORS: Mapping[str, Sequence[tuple[int, int, int]]] = {
    "beak": ((255, 255, 0),),
    "eye": ((255, 255, 253), (255, 255, 254)),
    "foot": ((255, 0, 1), (255, 0, 2)),
    "tail": ((0, 0, 255),),
    "wing": ((0, 255, 1), (0, 255, 2)),
}
PARTS = tuple(COLORS)
_OBJECT = 204  # red, green and, plus the object's number, blue of a background object's color


def examples(count: int, seed: int, data_dir: str) -> Examples:
    """Read the first ``count`` test images with masks of the parts; ``seed`` is not used."""
    folder = pathlib.Path(data_dir)
    rows = _read(folder / "dataset_test.json", list)[:count]
    if not rows:
        raise BadInput(f"{folder / 'dataset_test.json'} lists no images")
    classes = _classes(folder)
    labels = np.array([_integer(row, "class_idx", folder / "dataset_test.json") for row in rows])
    names = [f"{label}/{number:06d}" for number, label in enumerate(labels)]
    objects = [len(re.findall(r"\d+", str(_background(row)))) for row in rows]
    maps = [_rgb(folder / "test_part_map" / f"{name}.png") for name in names]
    regions = np.stack([_regions(one, max(objects)) for one in maps])
    whole = np.asarray(regions[:, : len(PARTS)].any(axis=1))
    sufficient = _sufficient_sets(classes)
    pairs = [_shared_pairs(classes, label) for label in labels]
    return Examples(
        np.stack([_rgb(folder / "test" / f"{name}.png") for name in names]).astype(np.float32) / 255,
        masks={
            "parts": whole,
            **{p: regions[:, i] for i, p in enumerate(PARTS)},
        },
        targets=labels,
        truth={
            "regions": regions,
            "there": np.arange(max(objects)) < np.array(objects)[:, np.newaxis],
            "sufficient": sufficient[labels],
            "pair": np.array([classes_ for classes_, _ in pairs]),
            "pair_parts": np.array([parts for _, parts in pairs]),
        },
        names=names,
    )


def interventions(data: Examples, data_dir: str) -> Iterator[np.ndarray]:
    """Yield each image with all 32 sets of parts, then without one background object each; (32 + objects, H, W, 3)."""
    for name, there in zip(data.names, data.truth["there"], strict=True):
        folder = pathlib.Path(data_dir) / "test_interventions" / name
        files = ["_".join(["body", *itertools.compress(PARTS, kept)]) for kept in coalitions(len(PARTS))]
        files += [f"background_interventions/{number}" for number in range(int(there.sum()))]
        yield np.stack([_rgb(folder / f"{file}.png") for file in files]).astype(np.float32) / 255


def _read(path: pathlib.Path, kind: type) -> Any:
    if not path.is_file():
        raise BadInput(f"{path} is missing; --data_dir is the folder of the FunnyBirds data set with classes.json")
    found = read_json(path)
    if not isinstance(found, kind):
        raise BadInput(f"{path} is not a JSON {kind.__name__}")
    return found


def _integer(row: Any, key: str, path: pathlib.Path) -> int:
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, int):
        raise BadInput(f"{path}: a row has no integer '{key}'")
    return value


def _background(row: Mapping[str, Any]) -> Any:
    """Return the first list of the background objects' parameters, which has one number for each object."""
    return next((value for key, value in row.items() if key.startswith("bg_")), "")


def _classes(folder: pathlib.Path) -> np.ndarray:
    """Return the variant of each part of each class, (classes, 5) int."""
    path = folder / "classes.json"
    rows = sorted(_read(path, list), key=lambda row: _integer(row, "class_idx", path))
    try:
        return np.array([[int(row["parts"][part]) for part in PARTS] for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path}: a class has no variant of each of {', '.join(PARTS)}") from error


def _rgb(path: pathlib.Path) -> np.ndarray:
    """Return an image without alpha, (H, W, 3) uint8."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))
    except OSError as error:
        raise BadInput(f"{path} is missing or not an image") from error


def _regions(part_map: np.ndarray, objects: int) -> np.ndarray:
    """Return the pixels of the parts and background objects, (5 + objects, H, W) bool."""
    colors = [*COLORS.values(), *([(_OBJECT, _OBJECT, _OBJECT + number)] for number in range(objects))]
    return np.stack([np.any([(part_map == color).all(axis=2) for color in each], axis=0) for each in colors])


def _sufficient_sets(classes: np.ndarray) -> np.ndarray:
    """Return the minimal sets of parts that distinguish each class from all others, (classes, 32) bool."""
    same = classes[:, np.newaxis] == classes
    matches = (~coalitions(len(PARTS)) | same[:, :, np.newaxis]).all(axis=3)  # class, other class, set
    return minimal(matches.sum(axis=1) == 1)


def _shared_pairs(classes: np.ndarray, label: int) -> tuple[list[int], np.ndarray]:
    """Return the first two classes that share two parts each with a class, without overlap, and these parts."""
    shared = classes == classes[label]
    for first, second in itertools.combinations(np.flatnonzero(shared.sum(axis=1) == 2), 2):
        if not (shared[first] & shared[second]).any():
            return [int(first), int(second)], shared[[first, second]]
    return [-1, -1], np.zeros((2, len(PARTS)), bool)
