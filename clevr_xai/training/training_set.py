"""What a Relation Network learns from: images with what lies in each cell, and questions about them as numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from clevr_xai import programs
from clevr_xai.vocabulary import ATTRIBUTES

MOST_OBJECTS = 10
CELL, FIRST_CENTRE = 16, 15  # pixels between the centres of cells, and of the first one: four 3x3 kernels, stride 2
MOST_NODES = 24  # of a program, counted from its end; further ones are not predicted
_VALUES = [(name, value) for name, values in ATTRIBUTES.items() for value in values]
_NODES = ("", "scene", "unique", "union", "intersect", "count", "exist", "equal_integer", "less_than", "greater_than")
NODES = (
    *_NODES,
    *(f"{kind}_{name}" for kind in ("same", "query", "equal") for name in ATTRIBUTES),
    *(f"filter_{name} {value}" for name, value in _VALUES),
    *(f"relate {name}" for name in ("left", "right", "front", "behind")),
)

OF_QUESTIONS = ("tokens", "answers", "programs", "sets", "families", "wordings")


@dataclasses.dataclass
class TrainingSet:
    """Images with their objects, and the questions about each.

    Attributes
    ----------
    images : (N, 128, 128, 3) uint8
    centres : (N, 10, 2) float32
        Column and row, in pixels of the image, of the visible part of each object; nan beyond the last object.
    owners : (N, 128, 128) uint8
        Which object each pixel shows: 1 plus its position, 0 for none.
    attributes : (N, 10, 4) int64
        Position of each object's size, colour, material and shape in ``vocabulary.ATTRIBUTES``.
    tokens : (Q, L) int32
    answers : (Q,) int64
        Positions in ``vocabulary.ANSWERS``.
    programs : (Q, 24) int64
        Positions in ``NODES`` of the program's nodes, the last first; 0 beyond its first node.
    sets : (Q, 24) int16
        Which objects each of these nodes finds, object k as bit k; -1 for nodes that find no set of objects.
    families : (Q,) of str
        "simple 0", "one_hop 3", ...
    wordings : (Q,) of str
        "plain" or "official".
    image_of : (Q,) int64
        Image of each question, ascending.
    first_question : (N + 1,) int64
        The questions about image i are ``first_question[i]`` to ``first_question[i + 1] - 1``.
    seed
        Of the scenes.
    rendered
        Size at which the images were rendered, "192x128".
    codes : (2, Q, 128) float32, optional
        Of each question, from ``Learner.codes``: as it stands, and with left and right exchanged.
    """

    images: np.ndarray
    centres: np.ndarray
    owners: np.ndarray
    attributes: np.ndarray
    tokens: np.ndarray
    answers: np.ndarray
    programs: np.ndarray
    sets: np.ndarray
    families: np.ndarray
    wordings: np.ndarray
    image_of: np.ndarray
    first_question: np.ndarray
    seed: int
    rendered: str
    codes: np.ndarray | None = None

    def rows_of_kind(self) -> dict[str, np.ndarray]:
        """Return the positions of the simple and of the complex questions."""
        simple = np.char.startswith(self.families, "simple ")
        return {"simple": np.flatnonzero(simple), "complex": np.flatnonzero(~simple)}

    def only(self, kinds: Sequence[str]) -> TrainingSet:
        """Return the same images with the questions of some kinds; images without any are left out.

        With every question kept, that is this training set itself and no copy of its images.
        """
        rows = np.sort(np.concatenate([self.rows_of_kind()[kind] for kind in kinds]))
        kept, image_of = np.unique(self.image_of[rows], return_inverse=True)
        if len(rows) == len(self.tokens) and len(kept) == len(self.images):
            return self
        chosen = {name: getattr(self, name)[rows] for name in OF_QUESTIONS}
        if self.codes is not None:
            chosen["codes"] = self.codes[:, rows]
        shown = {name: getattr(self, name)[kept] for name in ("images", "centres", "owners", "attributes")}
        first = np.searchsorted(image_of, np.arange(len(kept) + 1))
        return dataclasses.replace(self, **shown, **chosen, image_of=image_of, first_question=first)


def program_nodes(program: Sequence[dict]) -> list[int]:
    """Return the positions in ``NODES`` of a program's last 24 nodes, the last first, filled up with 0."""
    nodes = [NODES.index(" ".join([node["type"], *node["value_inputs"]])) for node in program[::-1][:MOST_NODES]]
    return nodes + [0] * (MOST_NODES - len(nodes))


def found_sets(program: Sequence[dict]) -> list[int]:
    """Return what the same nodes find: a set of objects, or one object, with object k as bit k; else -1."""
    found = []
    for node in program[::-1][:MOST_NODES]:
        if programs.is_set_node(node["type"]):
            found.append(sum(1 << index for index in node["_output"]))
        else:
            found.append(1 << node["_output"] if node["type"] == "unique" else -1)
    return found + [-1] * (MOST_NODES - len(found))


def cell_of(centres: np.ndarray, cells: int = 7) -> np.ndarray:
    """Return row x cells + column of the cell nearest to each (..., 2) centre, -1 where that is nan."""
    places = np.clip(np.round((np.nan_to_num(centres) - FIRST_CENTRE) / CELL), 0, cells - 1).astype(np.int64)
    return np.where(np.isnan(centres).any(axis=-1), -1, places[..., 1] * cells + places[..., 0])
