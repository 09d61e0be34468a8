"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import pathlib


def write_whole(path: str | os.PathLike, content: str) -> None:
    """Write text to a file in UTF-8; one that exists is replaced, and stays as it is if the writing fails.

    Line ends stay as they are on every platform: same text, same bytes.
    """
    path = pathlib.Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with open(unfinished, "w", encoding="utf-8", newline="") as stream:
            stream.write(content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
