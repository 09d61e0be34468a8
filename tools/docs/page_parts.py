"""Parts of a page that a program writes, each between two comments, in a page that is written by hand."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping

from attribution.files import atomic_write

ROOT = pathlib.Path(__file__).resolve().parents[2]


def replace_parts(page: pathlib.Path, parts: Mapping[str, str]) -> None:
    """Write parts by name between ``<!-- NAME: written by PROGRAM -->`` and ``<!-- /NAME -->``.

    Raises
    ------
    ValueError
        If the page has no such comments.
    """
    text = page.read_text("utf-8")
    for name, part in parts.items():
        found = re.search(rf"<!-- {name}: [^\n]*-->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
        if not found:
            raise ValueError(f"{page} has no comments around a part '{name}'")
        text = f"{text[: found.start(1)]}\n{part.strip()}\n\n{text[found.end(1) :]}"
    atomic_write(page, text)
