"""The layout of a CLEVR-XAI directory, as in the official release v1.0, and reading and writing its files.

The release has two archives. Unpacked side by side they are two folders in one directory, merged they are one folder.
Both are found, and so is either folder by its path.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import IO

from attribution import reading
from attribution.errors import BadInput, listed
from attribution.files import atomic_write

SCENES = "CLEVR-XAI_scenes.json"
QUESTIONS = "CLEVR-XAI_{kind}_questions.json"
GROUND_TRUTH = "ground_truth_{kind}_questions_{ground_truth}"
IMAGES, MASKS = "images", "masks"
SETTINGS = "generation.json"  # only beside data of our own generator
ARCHIVES = ("CLEVR-XAI_v1.0", "CLEVR-XAI_v1.0_images_masks")


def find(data_dir: pathlib.Path, name: str) -> pathlib.Path | None:
    """Return the path of a file or folder of the release in a directory, None if it is missing.

    A JSON file may be compressed: its path then ends in ``.json.gz``.
    """
    roots = [data_dir, *(data_dir / archive for archive in ARCHIVES)]
    if data_dir.name in ARCHIVES:
        roots += [data_dir.parent / archive for archive in ARCHIVES]
    for root in roots:
        for path in (root / name, root / f"{name}.gz"):
            if path.exists():
                return path
    return None


def read_entries(path: pathlib.Path, name: str, keys: Mapping[str, type | tuple[type, ...]]) -> list[dict]:
    """Return the list under ``name`` in a JSON file after checking its entries.

    Parameters
    ----------
    path
        JSON file, compressed or not.
    name
        "scenes" or "questions".
    keys
        Required keys of every entry with the types of their values.

    Raises
    ------
    BadInput
        With the file's name and the position of the first invalid entry.
    """
    content = reading.read_json(path)
    entries = content.get(name) if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries:
        raise BadInput(f"{path} holds no list {name!r}")
    for position, entry in enumerate(entries):
        place = f"{path}: entry {position} of {name!r}"
        if not isinstance(entry, dict):
            raise BadInput(f"{place} is not an object of JSON")
        if missing := [key for key in keys if key not in entry]:
            raise BadInput(f"{place} lacks {listed(missing)}")
        for key, kinds in keys.items():
            if not isinstance(entry[key], kinds):
                raise BadInput(f"{place} holds {entry[key]!r} as {key!r}")
        if not all(isinstance(item, dict) for item in entry.get("objects", ())):
            raise BadInput(f"{place} holds an object that is not an object of JSON")
    return entries


def read_info(path: pathlib.Path) -> dict:
    """Return the ``info`` of a JSON file that ``write_entries`` wrote, compressed or not."""
    content = reading.read_json(path)
    info = content.get("info") if isinstance(content, dict) else None
    return info if isinstance(info, dict) else {}


def compact(content) -> str:
    """Return content as JSON without spaces."""
    return json.dumps(content, separators=(",", ":"))


def write_json(path: pathlib.Path, content) -> None:
    """Write a JSON file; the same content gives the same bytes."""
    write(path, f"{compact(content)}\n".encode())


def write_entries(path: pathlib.Path, info: dict, name: str, entries: Iterable[str]) -> None:
    """Write a JSON file of ``info``, its first value, and a list under a name.

    ``entries`` are the JSON of each; an iterator is consumed one by one, so that the list need not fit into memory.
    """

    def put(file: IO[bytes]) -> None:
        file.write(f'{{"info":{compact(info)},"{name}":['.encode())
        for place, entry in enumerate(entries):
            file.write(f"{',' if place else ''}{entry}".encode())
        file.write(b"]}\n")

    write(path, put)


def write(path: pathlib.Path, data: bytes | Callable[[IO[bytes]], object]) -> None:
    """Write a file atomically."""
    atomic_write(path, data)
