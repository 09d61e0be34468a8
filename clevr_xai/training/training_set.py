"""The training set of the Relation Network: images with their objects, and questions as numbers.

The questions in the files of a directory are not read: every round of training generates others about the same scenes.
Blocks of scenes are converted to arrays in parallel processes, so that only a few blocks of questions are in memory
with all of their text.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pathlib
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image

from attribution.errors import BadInput
from attribution.files import atomic_write
from attribution.reading import inside, opened, read_json, read_picture
from attribution_benchmarks.beam.workers import available_cores, processes
from attribution_benchmarks.core.fingerprint import code_fingerprint
from clevr_xai import layout, masks, programs, vocabulary
from clevr_xai.generation import families, questions
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, QUESTION_WORDS, answer_text

MAX_OBJECTS = 10
_SCENE = {"image_index": int, "image_filename": str, "mask_filename": str, "objects": list, "relationships": dict}
CELLS = 7  # rows and columns of the last feature map
CELL, FIRST_CENTRE = 16, 15  # pixels between the centres of cells, and of the first one: four 3x3 kernels, stride 2
MAX_WORDS = 48  # of a sentence
MAX_NODES = 24  # of a program, counted from its end; further ones are not predicted
NODES = (
    "", "scene", "unique", "union", "intersect", "count", "exist", "equal_integer", "less_than", "greater_than",
    *(f"{kind}_{name}" for kind in ("same", "query", "equal") for name in ATTRIBUTES),
    *(f"filter_{name} {value}" for name, values in ATTRIBUTES.items() for value in values),
    *(f"relate {name}" for name in ("left", "right", "front", "behind")),
)  # fmt: skip
# Sampling weight of questions by the file of their family, 1 for others: simple ones are few, and questions about two
# phrases are learnt last.
SAMPLING_WEIGHTS = {"simple": 2, "comparison": 3, "compare_integer": 2, "single_and": 2, "single_or": 2}
_MIN_PARALLEL_BLOCKS = 4  # fewer blocks are read in this process
_PER_IMAGE = ("images", "centres", "segmentation", "attributes")
_PER_QUESTION = ("tokens", "answers", "programs", "sets", "families", "wordings")


@dataclasses.dataclass
class TrainingSet:
    """Images with their objects, and the questions about each.

    Attributes
    ----------
    images : (N, 128, 128, 3) uint8
    centres : (N, 10, 2) float32
        Column and row, in pixels of the image, of the visible part of each object; nan beyond the last object.
    segmentation : (N, 128, 128) uint8
        1 plus the position of the object that each pixel shows, 0 for the background.
    attributes : (N, 10, 4) int64
        Position of each object's size, colour, material and shape in ``vocabulary.ATTRIBUTES``.
    tokens : (Q, L) int32
    answers : (Q,) int64
        Positions in ``vocabulary.ANSWERS``.
    programs : (Q, 24) int64
        Positions in ``NODES`` of the program's nodes, the last first; 0 beyond its first node.
    sets : (Q, 24) int16
        Objects that each of these nodes finds, object k as bit k; -1 for nodes that find no set of objects.
    families : (Q,) of str
        "simple 0", "one_hop 3", ...
    wordings : (Q,) of str
        "official" or "plain".
    image_of : (Q,) int64
        Image of each question, ascending.
    seed
        Of the scenes.
    rendered
        Size at which the images were rendered, such as "192x128".
    codes : (2, Q, 128) float32, optional
        Code of each question, from ``Learner.codes``: as it is, and with left and right exchanged.
    """

    images: np.ndarray
    centres: np.ndarray
    segmentation: np.ndarray
    attributes: np.ndarray
    tokens: np.ndarray
    answers: np.ndarray
    programs: np.ndarray
    sets: np.ndarray
    families: np.ndarray
    wordings: np.ndarray
    image_of: np.ndarray
    seed: int
    rendered: str
    codes: np.ndarray | None = None

    @functools.cached_property
    def first_question(self) -> np.ndarray:
        """Return (N + 1,) int64: questions about image i are ``first_question[i]`` to ``first_question[i + 1] - 1``."""
        return np.searchsorted(self.image_of, np.arange(len(self.images) + 1))

    @functools.cached_property
    def sampling_weights(self) -> np.ndarray:
        """Return the sampling weight of each question among those about its image, (Q,)."""
        return np.select([self.files == name for name in SAMPLING_WEIGHTS], list(SAMPLING_WEIGHTS.values()), 1)

    @property
    def files(self) -> np.ndarray:
        """Return the file of each question's family, (Q,) of str: "simple", "one_hop", ..."""
        return np.array([family.rsplit(" ", 1)[0] for family in self.families])

    def rows_of_kind(self) -> dict[str, np.ndarray]:
        """Return the positions of the simple and of the complex questions."""
        simple = np.char.startswith(self.families, "simple ")
        return {"simple": np.flatnonzero(simple), "complex": np.flatnonzero(~simple)}

    def only(self, kinds: Sequence[str]) -> TrainingSet:
        """Return the questions of some kinds and the images that have any; ``self`` if that is all of them."""
        rows = np.sort(np.concatenate([self.rows_of_kind()[kind] for kind in kinds]))
        kept, image_of = np.unique(self.image_of[rows], return_inverse=True)
        if len(rows) == len(self.tokens) and len(kept) == len(self.images):
            return self
        chosen = {name: getattr(self, name)[rows] for name in _PER_QUESTION}
        chosen |= {name: getattr(self, name)[kept] for name in _PER_IMAGE}
        if self.codes is not None:
            chosen["codes"] = self.codes[:, rows]
        return dataclasses.replace(self, **chosen, image_of=image_of)


def load(
    data_dir: str | pathlib.Path,
    rounds: dict[str, int],
    num_images: int = 0,
    wordings: Sequence[str] = ("official",),
) -> TrainingSet:
    """Read images and scenes, and generate questions about them.

    Parameters
    ----------
    data_dir
        Output of ``scripts/generate_clevr_xai.py``.
    rounds
        Number of rounds of questions of each kind, each with other questions: {"simple": 3, "complex": 1}.
    num_images
        Number of images, from the first on; 0 for all.
    wordings
        Of ``questions.WORDINGS``. Each wording gets all rounds, with other questions.

    Raises
    ------
    BadInput
        If the directory lacks such data, or its seed is 0: the embedded scenes begin that sequence.
    """
    import tqdm

    data_dir = pathlib.Path(data_dir)
    seed, scenes = _read_scenes(data_dir)
    scenes = scenes[: num_images or None]
    blocks = questions.in_blocks(scenes)
    per_image = _empty(len(scenes))
    per_question: list[dict[str, np.ndarray]] = []
    read = functools.partial(_block, data_dir, rounds, wordings, seed)
    with processes(available_cores() if len(blocks) >= _MIN_PARALLEL_BLOCKS else 1) as mapped:
        first = 0
        for images, asked in tqdm.tqdm(mapped(read, blocks, 1), "scenes", len(blocks), mininterval=1.0, leave=False):
            number = len(images["images"])
            for name, values in images.items():
                per_image[name][first : first + number] = values
            per_question.append(asked | {"image_of": asked["image_of"] + first})
            first += number
    joined = {name: np.concatenate([part[name] for part in per_question]) for name in per_question[0]}
    joined["tokens"] = joined["tokens"][:, : np.count_nonzero(joined["tokens"].any(axis=0))]
    return TrainingSet(**per_image, **joined, seed=seed, rendered=_rendered(data_dir))


def _read_scenes(data_dir: pathlib.Path) -> tuple[int, list[dict]]:
    """Return the seed and the scenes of a directory that has images and masks, too."""
    for name in (layout.SCENES, layout.IMAGES, layout.MASKS):
        if layout.find(data_dir, name) is None:
            raise BadInput(f"no {name} in {data_dir}; make training data with scripts/generate_clevr_xai.py")
    file = layout.find(data_dir, layout.SCENES)
    scenes = layout.read_entries(file, "scenes", _SCENE)
    for scene in scenes:
        if not _is_known(scene["objects"]):
            where = f"{file}: {scene['image_filename']}"
            raise BadInput(f"{where} has more than {MAX_OBJECTS} objects, or an attribute that CLEVR does not have")
    seed = layout.read_info(file).get("seed")
    if not isinstance(seed, int) or seed <= 0:
        raise BadInput(f"{data_dir} has the seed {seed}; training data need one above 0, that of the embedded set")
    return seed, scenes


def _is_known(objects: Sequence[dict[str, str]]) -> bool:
    """Return whether the network can learn a scene's objects: their number, and the values of their attributes."""
    known = (item.get(name) in values for item in objects for name, values in ATTRIBUTES.items())
    return len(objects) <= MAX_OBJECTS and all(known)


def load_cached(file: pathlib.Path, data_dir: str | pathlib.Path, *arguments: Any) -> TrainingSet:
    """Return ``load(data_dir, *arguments)`` from ``file`` if it holds exactly that, otherwise compute and write it."""
    scenes = layout.find(pathlib.Path(data_dir), layout.SCENES)
    if scenes is None:
        return load(data_dir, *arguments)  # raises BadInput
    code = code_fingerprint("clevr_xai.training.training_set:load", files=[families.FOLDER])
    described = json.dumps([str(scenes.resolve()), scenes.stat().st_mtime, *arguments, code])

    def compute() -> dict:
        data = load(data_dir, *arguments)
        return {name: value for name, value in vars(data).items() if value is not None}

    values = cached_arrays(file, described, compute)
    return TrainingSet(**values | {"seed": int(values["seed"]), "rendered": str(values["rendered"])})


def cached_arrays(file: pathlib.Path, described: str, compute: Callable[[], dict]) -> dict:
    """Return the arrays of ``file`` if it holds what is described, undamaged; otherwise compute and write them."""
    damage = (OSError, EOFError, ValueError, KeyError, TypeError, MemoryError, zipfile.BadZipFile, zlib.error)
    with contextlib.suppress(*damage):
        with opened(file) as stream, np.load(stream, allow_pickle=False) as stored:
            if str(stored["described"]) == described:
                return {name: stored[name] for name in stored.files if name != "described"}
    values = compute()
    atomic_write(file, lambda stream: np.savez(stream, described=described, **values))
    return values


def program_nodes(program: Sequence[dict]) -> list[int]:
    """Return the positions in ``NODES`` of a program's last 24 nodes, the last first, padded with 0."""
    nodes = [NODES.index(" ".join([node["type"], *node["value_inputs"]])) for node in program[::-1][:MAX_NODES]]
    return nodes + [0] * (MAX_NODES - len(nodes))


def found_sets(program: Sequence[dict]) -> list[int]:
    """Return the objects that the same nodes find, object k as bit k; -1 for a node that finds none."""
    found = []
    for node in program[::-1][:MAX_NODES]:
        if programs.is_set_node(node["type"]):
            found.append(sum(1 << index for index in node["_output"]))
        else:
            found.append(1 << node["_output"] if node["type"] == "unique" else -1)
    return found + [-1] * (MAX_NODES - len(found))


def cell_of(centres: np.ndarray) -> np.ndarray:
    """Return row x 7 + column of the cell nearest to each (..., 2) centre, -1 where that is nan."""
    nearest = np.clip(np.round((np.nan_to_num(centres) - FIRST_CENTRE) / CELL), 0, CELLS - 1).astype(np.int64)
    return np.where(np.isnan(centres).any(axis=-1), -1, nearest[..., 1] * CELLS + nearest[..., 0])


def _empty(number: int) -> dict[str, np.ndarray]:
    """Return a training set's arrays of ``number`` images, to be filled."""
    return {
        "images": np.zeros((number, 128, 128, 3), np.uint8),
        "centres": np.full((number, MAX_OBJECTS, 2), np.nan, np.float32),
        "segmentation": np.zeros((number, 128, 128), np.uint8),
        "attributes": np.zeros((number, MAX_OBJECTS, len(ATTRIBUTES)), np.int64),
    }


def _block(data_dir: pathlib.Path, rounds, wordings, seed: int, scenes: Sequence[dict]) -> tuple[dict, dict]:
    """Return the arrays of a block's images and of its questions, ``image_of`` counted from the block's first image."""
    return _read_images(data_dir, scenes), _generate_questions(rounds, wordings, seed, scenes)


def _read_images(data_dir: pathlib.Path, scenes: Sequence[dict]) -> dict[str, np.ndarray]:
    found = _empty(len(scenes))
    for row, scene in enumerate(scenes):
        number = len(scene["objects"])
        image_file = inside(layout.find(data_dir, layout.IMAGES), scene["image_filename"], data_dir)
        mask_file = inside(layout.find(data_dir, layout.MASKS), scene["mask_filename"], data_dir)
        picture = read_picture(image_file).resize((128, 128), Image.Resampling.BILINEAR)
        found["images"][row] = np.asarray(picture)
        found["centres"][row, :number], found["segmentation"][row] = _read_mask_image(mask_file, scene)
        for position, item in enumerate(scene["objects"]):
            found["attributes"][row, position] = [values.index(item[name]) for name, values in ATTRIBUTES.items()]
    return found


def _generate_questions(
    rounds: dict[str, int], wordings: Sequence[str], seed: int, scenes: Sequence[dict]
) -> dict[str, np.ndarray]:
    """Return every round of questions about a block's scenes, in every wording."""
    asked = []
    for kind, number in rounds.items():
        for again, wording in enumerate(np.repeat(wordings, number).tolist()):
            found = questions.generate_block(scenes, kind, seed + 1000 * again, wording)
            asked += [{**question, "wording": wording} for question in found]
    asked.sort(key=lambda question: question["image_index"])  # stable: kinds and rounds stay in order
    return _question_arrays(asked, {scene["image_index"]: row for row, scene in enumerate(scenes)})


def _question_arrays(asked: list[dict], position: dict[int, int]) -> dict[str, np.ndarray]:
    """Return the arrays of questions; ``position`` is that of each image by its index."""
    nodes = [question["program"] for question in asked]
    names = [f"{question['template_filename'][:-5]} {question['question_family_index']}" for question in asked]
    return {
        "tokens": vocabulary.encode([question["question"] for question in asked], QUESTION_WORDS, MAX_WORDS),
        "answers": np.array([ANSWERS.index(answer_text(question["answer"])) for question in asked]),
        "programs": np.array(list(map(program_nodes, nodes))),
        "sets": np.array(list(map(found_sets, nodes)), np.int16),
        "families": np.array(names),
        "wordings": np.array([question["wording"] for question in asked]),
        "image_of": np.array([position[question["image_index"]] for question in asked], np.int64),
    }


def _rendered(data_dir: pathlib.Path) -> str:
    """Return the size at which the generator rendered a directory's images."""
    path = layout.find(data_dir, layout.SETTINGS)
    settings = read_json(path) if path else {}
    return f"{settings['width']}x{settings['height']}" if {"width", "height"} <= set(settings) else "an unknown size"


def _read_mask_image(path: pathlib.Path, scene: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean column and row of each object's visible pixels, (objects, 2), and the segmentation."""
    indices = masks.read_indices(path, scene)
    height, width = indices.shape
    rows, columns = np.nonzero(indices >= 0)
    owner = indices[rows, columns]
    count = np.bincount(owner, minlength=len(scene["objects"]))
    place = [np.bincount(owner, axis + 0.5, len(count)) / count for axis in (columns, rows)]
    centres = np.stack([place[0] * 128 / width - 0.5, place[1] * 128 / height - 0.5], axis=-1)
    nearest = [((np.arange(128) + 0.5) * size / 128).astype(np.int64) for size in (height, width)]
    return centres, (indices[np.ix_(*nearest)] + 1).astype(np.uint8)
