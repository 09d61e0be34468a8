"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import pathlib


def write_whole(path: str | os.PathLike, content: str | bytes) -> None:
    """Write bytes, or text in UTF-8, to a file; one that exists is replaced, and stays as it is if the writing fails.

    Line ends stay as they are on every platform: same text, same bytes.
    """
    path = pathlib.Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
