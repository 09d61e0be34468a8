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
from attribution_benchmarks.parts.classes import ClassTable
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
    if not np.isin(labels, np.arange(len(classes))).all():
        raise BadInput(f"{folder / 'dataset_test.json'} has classes that are not in {folder / 'classes.json'}")
    names = [f"{label}/{number:06d}" for number, label in enumerate(labels)]
    objects = [len(re.findall(r"\d+", str(_background(row)))) for row in rows]
    inputs = _pictures([folder / "test" / f"{name}.png" for name in names])
    maps = _pictures([folder / "test_part_map" / f"{name}.png" for name in names], inputs.shape[1:])
    regions = np.stack([_regions(one, max(objects)) for one in maps])
    table = ClassTable(classes, np.arange(len(classes)))
    return Examples(
        inputs.astype(np.float32) / 255,
        masks={
            "parts": np.asarray(regions[:, : len(PARTS)].any(axis=1)),
            **{part: regions[:, place] for place, part in enumerate(PARTS)},
        },
        targets=labels,
        truth=table.truth(classes[labels], labels, regions, np.arange(max(objects)) < np.array(objects)[:, np.newaxis]),
        names=names,
    )


def interventions(data: Examples, data_dir: str) -> Iterator[np.ndarray]:
    """Yield each image with all 32 sets of parts, then without one background object each; (32 + objects, H, W, 3)."""
    for name, there in zip(data.names, data.truth["there"], strict=True):
        folder = pathlib.Path(data_dir) / "test_interventions" / name
        files = ["_".join(["body", *itertools.compress(PARTS, kept)]) for kept in coalitions(len(PARTS))]
        files += [f"background_interventions/{number}" for number in range(int(there.sum()))]
        found = _pictures([folder / f"{file}.png" for file in files], data.inputs.shape[1:])
        yield found.astype(np.float32) / 255


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


def _pictures(paths: Sequence[pathlib.Path], shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Return images without alpha, (N, H, W, 3) uint8, of one ``shape``, that of the first where None."""
    from PIL import Image

    found = []
    for path in paths:
        try:
            with Image.open(path) as image:
                found.append(np.asarray(image.convert("RGB")))
        except OSError as error:
            raise BadInput(f"{path} is missing or not an image") from error
        shape = shape or found[0].shape
        if found[-1].shape != shape:
            raise BadInput(f"{path} has the shape {found[-1].shape}, others {shape}")
    return np.stack(found)


def _regions(part_map: np.ndarray, objects: int) -> np.ndarray:
    """Return the pixels of the parts and background objects, (5 + objects, H, W) bool."""
    colors = [*COLORS.values(), *([(_OBJECT, _OBJECT, _OBJECT + number)] for number in range(objects))]
    return np.stack([np.any([(part_map == color).all(axis=2) for color in each], axis=0) for each in colors])
