"""Write figures to PNG, PDF and SVG files reproducibly."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from attribution.file_io.files import atomic_write

# Metadata; without dates, so that files are reproducible.
FORMATS: dict[str, dict] = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}

_LEVEL = 4  # of compression: 1 % larger than the default, in two thirds of the time


def save_figure(
    figure: Any,
    directory: str | os.PathLike,
    stem: str,
    formats: Sequence[str] = ("png",),
    dpi: int = 110,
    trim: bool = True,
) -> list[str]:
    """Write a matplotlib figure in some of ``FORMATS``, each file completely or not at all; return their paths.

    ``stem`` is the file name without suffix; ``directory`` is created if it is missing. ``trim`` fits the edges to the
    content, which draws the figure twice.
    """
    import matplotlib

    written = []
    edges = {"bbox_inches": "tight", "pad_inches": 0.06} if trim else {}
    for name in dict.fromkeys(formats):
        path = os.path.join(directory, f"{stem}.{name}")

        def save(file: Any, name: str = name) -> None:
            packed = {"pil_kwargs": {"compress_level": _LEVEL}} if name == "png" else {}
            figure.savefig(file, format=name, dpi=dpi, metadata=FORMATS[name], **edges, **packed)

        # Identifiers in SVG files are random without a salt.
        with matplotlib.rc_context({"svg.hashsalt": stem, "pdf.fonttype": 42}):
            atomic_write(path, save)
        written.append(path)
    return written
