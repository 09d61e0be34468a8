"""What a trained Relation Network gets wrong: by how much of an object is to be seen, and on scenes it learnt from."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

import numpy as np

from attribution_benchmarks.core import tables
from clevr_xai.training.training_set import MOST_OBJECTS, TrainingSet

SHOWN = (0, 40, 100, 200)  # pixels of 128x128 at which a row of the card begins


@dataclasses.dataclass(frozen=True)
class Share:
    """How many of some questions are answered rightly."""

    right: int
    number: int

    def __str__(self) -> str:
        return f"{100 * self.right / self.number:.1f}" if self.number else "–"


def shown_pixels(data: TrainingSet, rows: np.ndarray) -> np.ndarray:
    """Return how many pixels show the object whose attribute a simple question asks for.

    Parameters
    ----------
    data
        Images with their objects.
    rows : (Q,) int
        Positions of simple questions.

    Returns
    -------
    (Q,) int
        Of the image's 128x128.
    """
    found = data.sets[rows]
    asked_for = found[np.arange(len(rows)), (found > 0).argmax(axis=1)]  # of the node nearest to the answer: "unique"
    position = np.round(np.log2(asked_for)).astype(np.int64)
    counts = np.array([np.bincount(owners.ravel(), minlength=MOST_OBJECTS + 1) for owners in data.owners])
    return counts[data.image_of[rows], position + 1]


def by_shown_pixels(data: TrainingSet, rows: np.ndarray, right: np.ndarray) -> dict[str, Share]:
    """Return how many simple questions are answered rightly, by how much of the object asked for is to be seen.

    ``rows`` are their positions, (Q,), and ``right``, (Q,) bool, tells which are.
    """
    band = np.searchsorted(SHOWN, shown_pixels(data, rows), side="right") - 1
    names = [f"{low} to {high - 1}" for low, high in itertools.pairwise(SHOWN)] + [f"{SHOWN[-1]} or more"]
    return {name: _share(right[band == number]) for number, name in enumerate(names)}


def spread_rows(data: TrainingSet, number: int) -> np.ndarray:
    """Return the positions of so many questions of each kind, or all that there are, spread evenly over the images."""
    return np.concatenate(
        [
            rows[np.linspace(0, len(rows) - 1, min(number, len(rows))).round().astype(np.int64)]
            for rows in data.rows_of_kind().values()
        ]
    )


def by_kind(data: TrainingSet, rows: np.ndarray, right: np.ndarray) -> dict[str, Share]:
    """Return how many simple and how many complex questions among ``rows`` are answered rightly."""
    simple = np.char.startswith(data.families[rows], "simple ")
    return {"simple": _share(right[simple]), "complex": _share(right[~simple])}


def card_lines(shown: Mapping[str, Share], learnt: Mapping[str, Share]) -> list[str]:
    """Return a section of a model card in Markdown.

    Parameters
    ----------
    shown
        Of ``by_shown_pixels``, on the scenes that the card counts.
    learnt
        Of ``by_kind``, on scenes that the network was trained on.
    """
    rows = [[name, str(share), f"{share.number:,}"] for name, share in shown.items()]
    told = " and ".join(f"{share} % of {share.number:,} {kind} ones" for kind, share in learnt.items() if share.number)
    return [
        "## What it misses", "",
        "Simple questions, by how many of the image's 16,384 pixels show the object asked for:", "",
        *tables.markdown_table(["pixels", "%", "number"], rows).splitlines(), "",
        "Of questions about scenes that it was trained on it answers", f"{told} rightly.",
        "Where that is no more than on unseen scenes, it is a hint, and no proof, that more of them would not help.",
        "",
    ]  # fmt: skip


def _share(right: np.ndarray) -> Share:
    return Share(int(np.count_nonzero(right)), len(right))
