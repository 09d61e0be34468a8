"""What a Relation Network learns from: images with what lies in each cell, and questions asked about them anew.

Images and scenes come from a directory of our generator; the questions of the files there are not read, since any
number of rounds of other ones can be asked about the same scenes. Mirrored images double the data: "left" and "right"
change places in the questions.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
from PIL import Image

from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.command_line.reading import inside, read_picture
from clevr_xai import layout, masks, programs, questions, tokens
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, QUESTION_WORDS, answer_text

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
        """Return the same images with the questions of some kinds; images without any are left out."""
        rows = np.sort(np.concatenate([self.rows_of_kind()[kind] for kind in kinds]))
        kept, image_of = np.unique(self.image_of[rows], return_inverse=True)
        chosen = {name: getattr(self, name)[rows] for name in ("tokens", "answers", "programs", "sets", "families")}
        if self.codes is not None:
            chosen["codes"] = self.codes[:, rows]
        shown = {name: getattr(self, name)[kept] for name in ("images", "centres", "owners", "attributes")}
        first = np.searchsorted(image_of, np.arange(len(kept) + 1))
        return dataclasses.replace(self, **shown, **chosen, image_of=image_of, first_question=first)


def load(data_dir: str | pathlib.Path, rounds: dict[str, int], num_images: int = 0) -> TrainingSet:
    """Read images and scenes and ask questions about them.

    Parameters
    ----------
    data_dir
        Output of ``scripts/generate_clevr_xai.py``.
    rounds
        How many times questions of each kind are asked, each time other ones: {"simple": 3, "complex": 1}.
    num_images
        Use the first so many; 0 for all.

    Raises
    ------
    BadInput
        For a directory without such data, or whose seed is 0: the embedded scenes begin that sequence.
    """
    data_dir = pathlib.Path(data_dir)
    for name in (layout.SCENES, layout.IMAGES, layout.MASKS):
        if layout.find(data_dir, name) is None:
            raise BadInput(f"no {name} in {data_dir}; make training data with scripts/generate_clevr_xai.py")
    content = layout.read_json(layout.find(data_dir, layout.SCENES))
    seed = content["info"].get("seed")
    if seed is None or seed == 0:
        raise BadInput(f"{data_dir} has the seed {seed}; training data need one other than 0, that of the embedded set")
    scenes = content["scenes"][: num_images or None]
    images = np.stack(
        [_image(inside(layout.find(data_dir, layout.IMAGES), scene["image_filename"], data_dir)) for scene in scenes]
    )
    centres = np.full((len(scenes), MOST_OBJECTS, 2), np.nan, np.float32)
    owners = np.zeros((len(scenes), 128, 128), np.uint8)
    attributes = np.zeros((len(scenes), MOST_OBJECTS, len(ATTRIBUTES)), np.int64)
    for row, scene in enumerate(scenes):
        number = len(scene["objects"])
        mask_file = inside(layout.find(data_dir, layout.MASKS), scene["mask_filename"], data_dir)
        centres[row, :number], owners[row] = _parts(mask_file, scene)
        for position, item in enumerate(scene["objects"]):
            attributes[row, position] = [values.index(item[name]) for name, values in ATTRIBUTES.items()]
    asked = [
        question
        for kind, number in rounds.items()
        for again in range(number)
        for question in questions.generate(scenes, kind, seed + 1000 * again)
    ]
    position = {scene["image_index"]: row for row, scene in enumerate(scenes)}
    asked.sort(key=lambda question: question["image_index"])  # stable: kinds and rounds stay in order
    image_of = np.array([position[question["image_index"]] for question in asked], np.int64)
    return TrainingSet(
        images=images,
        centres=centres,
        owners=owners,
        attributes=attributes,
        tokens=tokens.encode([question["question"] for question in asked], QUESTION_WORDS),
        answers=np.array([ANSWERS.index(answer_text(question["answer"])) for question in asked]),
        programs=np.array([program_nodes(question["program"]) for question in asked]),
        sets=np.array([found_sets(question["program"]) for question in asked], np.int16),
        families=np.array(
            [f"{question['template_filename'][:-5]} {question['question_family_index']}" for question in asked]
        ),
        image_of=image_of,
        first_question=np.searchsorted(image_of, np.arange(len(scenes) + 1)),
        seed=seed,
        rendered=_rendered(data_dir),
    )


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


def _rendered(data_dir: pathlib.Path) -> str:
    """Return the size that the generator rendered a directory's images at."""
    path = layout.find(data_dir, layout.SETTINGS)
    settings = layout.read_json(path) if path else {}
    return f"{settings['width']}x{settings['height']}" if {"width", "height"} <= set(settings) else "an unknown size"


def _image(path: pathlib.Path) -> np.ndarray:
    return np.asarray(read_picture(path).convert("RGB").resize((128, 128), Image.Resampling.BILINEAR))


def _parts(path: pathlib.Path, scene: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return where each object's visible part is, in pixels of a 128x128 image.

    Returns
    -------
    centres : (objects, 2)
        Mean column and row.
    owners : (128, 128) uint8
        1 plus the position of the object that a pixel shows, 0 for none.
    """
    colors = np.asarray(read_picture(path).convert("RGB"))
    indices = masks.object_indices(colors, [item["mask_color"] for item in scene["objects"]])
    height, width = indices.shape
    rows, columns = np.nonzero(indices >= 0)
    owner = indices[rows, columns]
    count = np.bincount(owner, minlength=len(scene["objects"]))
    place = [np.bincount(owner, axis + 0.5, len(count)) / count for axis in (columns, rows)]
    centres = np.stack([place[0] * 128 / width - 0.5, place[1] * 128 / height - 0.5], axis=-1)
    nearest = [((np.arange(128) + 0.5) * size / 128).astype(np.int64) for size in (height, width)]
    return centres, (indices[np.ix_(*nearest)] + 1).astype(np.uint8)
