"""Figures in files, as a journal takes them: pixels or lines, nothing cut off, the same bytes each time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from attribution.errors import BadInput, listed
from attribution.file_io.files import atomic_write

# What a file says of itself; a date would make every run's bytes others.
FORMATS: dict[str, dict] = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}

_LEVEL = 4  # of compression: a hundredth larger than by the usual one, in two thirds of the time


def define_plot_format(flag_values: flags.FlagValues) -> None:
    """Define ``--plot_format``."""
    flags.DEFINE_list(
        "plot_format", ["png"], "formats of the figures, of png, pdf and svg; the last two are lines, not pixels",
        flag_values=flag_values,
    )  # fmt: skip


def check_plot_format(formats: Sequence[str]) -> None:
    """Refuse formats that are none.

    Raises
    ------
    BadInput
        If there is no format, or one that is unknown.
    """
    for name in formats or ["nothing"]:
        if name not in FORMATS:
            raise BadInput(f"--plot_format has '{name}'; choose of {listed(FORMATS)}")


def save_figure(
    figure: Any,
    directory: str | os.PathLike,
    stem: str,
    formats: Sequence[str] = ("png",),
    dpi: int = 110,
    trim: bool = True,
) -> list[str]:
    """Write a figure of matplotlib whole or not at all, once a format.

    Parameters
    ----------
    figure
        A ``matplotlib.figure.Figure``.
    directory
        Made where it is missing.
    stem
        File name without its ending.
    formats
        Of ``FORMATS``.
    dpi
        Pixels an inch of what has pixels.
    trim
        Whether to look for what sticks out or is left over at the edges, for which a figure is drawn twice; one that
        was laid out to its edges needs it not.

    Returns
    -------
    list of str
        The files.
    """
    import matplotlib

    written = []
    edges = {"bbox_inches": "tight", "pad_inches": 0.06} if trim else {}
    for name in dict.fromkeys(formats):
        path = os.path.join(directory, f"{stem}.{name}")

        def save(file: Any, name: str = name) -> None:
            packed = {"pil_kwargs": {"compress_level": _LEVEL}} if name == "png" else {}
            figure.savefig(file, format=name, dpi=dpi, metadata=FORMATS[name], **edges, **packed)

        # Names inside an SVG are random unless they have a salt.
        with matplotlib.rc_context({"svg.hashsalt": stem, "pdf.fonttype": 42}):
            atomic_write(path, save)
        written.append(path)
    return written
