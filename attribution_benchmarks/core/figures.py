"""The figures of ``--plot_dir``: some inputs, the truth about them, and the maps of all methods."""

from __future__ import annotations

import functools
import itertools
import pathlib
import sys
from typing import Any

from attribution import plot
from attribution.errors import print_line, printable
from attribution.files import atomic_write
from attribution_benchmarks.core.batch import Batch

INPUTS = 4  # of a figure


def write_figures(evaluation: Any, directory: str) -> None:
    """Write ``NAME.png`` for each evaluator of an evaluation, such as one for each network, by ``attribution.plot``.

    It shows those of ``INPUTS`` inputs, evenly spread, that count; there is none where none counts.
    """
    for evaluator in itertools.chain(*evaluation.measurements()):
        batch, maps = evaluator.some_maps(INPUTS)
        if not len(batch):
            continue
        truths = {f"{name} (truth)": mask.astype(float) for name, mask in batch.masks.items()}
        figure = plot({**truths, **maps}, batch.pictures, titles=_titles(batch))
        path = pathlib.Path(directory, f"{pathlib.PurePath(evaluator.name).name}.png")
        atomic_write(path, functools.partial(figure.savefig, format="png"))
        print_line(f"figure: {path}", file=sys.stderr)


def _titles(batch: Batch) -> list[str]:
    """Return the question and its answer, or the name of the input and its class, for each input."""
    truth = batch.truth
    names = [printable(str(name)) for name in truth.get("question", truth["file"])]
    if "answer" in truth:
        return [f"{name} – {printable(str(answer))}" for name, answer in zip(names, truth["answer"], strict=True)]
    targets = batch.targets
    return names if targets is None else [f"{name}, class {one}" for name, one in zip(names, targets, strict=True)]
