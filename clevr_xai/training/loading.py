"""Read a directory of our generator as a training set.

The questions of the files there are not read, since any number of rounds of other ones can be asked about the same
scenes. A block of scenes with their images, masks and questions becomes arrays at once, in processes beside each other,
so that no more than some blocks' questions are held with all that they say.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence

import numpy as np
from PIL import Image

from attribution.errors import BadInput
from attribution.file_io.reading import inside, read_picture
from attribution_benchmarks.cli.workers import available_cores, processes
from clevr_xai import layout, masks, tokens
from clevr_xai.generation import questions
from clevr_xai.training.training_set import MOST_OBJECTS, TrainingSet, found_sets, program_nodes
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, QUESTION_WORDS, answer_text

WORTH_PROCESSES = 4  # blocks from which on processes beside each other are worth their start


def load(
    data_dir: str | pathlib.Path,
    rounds: dict[str, int],
    num_images: int = 0,
    wordings: Sequence[str] = ("plain",),
) -> TrainingSet:
    """Read images and scenes and ask questions about them.

    Parameters
    ----------
    data_dir
        Output of ``scripts/generate_clevr_xai.py``.
    rounds
        How many times questions of each kind are asked, each time other ones: {"simple": 3, "complex": 1}.
    num_images
        Use the first so many; 0 for all.
    wordings
        Of ``questions.WORDINGS``; all rounds are asked in each of them, other questions each time.

    Raises
    ------
    BadInput
        For a directory without such data, or whose seed is 0: the embedded scenes begin that sequence.
    """
    import tqdm

    data_dir = pathlib.Path(data_dir)
    for name in (layout.SCENES, layout.IMAGES, layout.MASKS):
        if layout.find(data_dir, name) is None:
            raise BadInput(f"no {name} in {data_dir}; make training data with scripts/generate_clevr_xai.py")
    content = layout.read_json(layout.find(data_dir, layout.SCENES))
    seed = content["info"].get("seed")
    if seed is None or seed == 0:
        raise BadInput(f"{data_dir} has the seed {seed}; training data need one other than 0, that of the embedded set")
    scenes = content["scenes"][: num_images or None]
    blocks = questions.in_blocks(scenes)
    seen = _empty(len(scenes))
    asked: list[dict[str, np.ndarray]] = []
    read = functools.partial(_block, data_dir, rounds, wordings, seed)
    with processes(available_cores() if len(blocks) >= WORTH_PROCESSES else 1) as mapped:
        first = 0
        for shown, told in tqdm.tqdm(mapped(read, blocks, 1), "scenes", len(blocks), mininterval=1.0, leave=False):
            number = len(shown["images"])
            for name, values in shown.items():
                seen[name][first : first + number] = values
            asked.append(told | {"image_of": told["image_of"] + first})
            first += number
    together = {name: np.concatenate(_alike([part[name] for part in asked])) for name in asked[0]}
    return TrainingSet(
        **seen,
        **together,
        first_question=np.searchsorted(together["image_of"], np.arange(len(scenes) + 1)),
        seed=seed,
        rendered=_rendered(data_dir),
    )


def _empty(number: int) -> dict[str, np.ndarray]:
    """Return a training set's arrays of so many images, to be filled."""
    return {
        "images": np.zeros((number, 128, 128, 3), np.uint8),
        "centres": np.full((number, MOST_OBJECTS, 2), np.nan, np.float32),
        "owners": np.zeros((number, 128, 128), np.uint8),
        "attributes": np.zeros((number, MOST_OBJECTS, len(ATTRIBUTES)), np.int64),
    }


def _block(
    data_dir: pathlib.Path, rounds: dict[str, int], wordings: Sequence[str], seed: int, scenes: Sequence[dict]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return a block's part of the images' arrays, and of the questions' with ``image_of`` counted from its first."""
    return _shown(data_dir, scenes), _asked(rounds, wordings, seed, scenes)


def _shown(data_dir: pathlib.Path, scenes: Sequence[dict]) -> dict[str, np.ndarray]:
    """Return images and their objects."""
    found = _empty(len(scenes))
    for row, scene in enumerate(scenes):
        number = len(scene["objects"])
        image_file = inside(layout.find(data_dir, layout.IMAGES), scene["image_filename"], data_dir)
        mask_file = inside(layout.find(data_dir, layout.MASKS), scene["mask_filename"], data_dir)
        found["images"][row] = _image(image_file)
        found["centres"][row, :number], found["owners"][row] = _parts(mask_file, scene)
        for position, item in enumerate(scene["objects"]):
            found["attributes"][row, position] = [values.index(item[name]) for name, values in ATTRIBUTES.items()]
    return found


def _asked(rounds: dict[str, int], wordings: Sequence[str], seed: int, scenes: Sequence[dict]) -> dict[str, np.ndarray]:
    """Ask every round of questions about a block's scenes, in every wording."""
    asked = [
        {**question, "wording": wording}
        for kind, number in rounds.items()
        for again, wording in enumerate(wording for wording in wordings for _ in range(number))
        for question in questions.generate_block(scenes, kind, seed + 1000 * again, wording)
    ]
    position = {scene["image_index"]: row for row, scene in enumerate(scenes)}
    asked.sort(key=lambda question: question["image_index"])  # stable: kinds and rounds stay in order
    return {
        "tokens": tokens.encode([question["question"] for question in asked], QUESTION_WORDS),
        "answers": np.array([ANSWERS.index(answer_text(question["answer"])) for question in asked]),
        "programs": np.array([program_nodes(question["program"]) for question in asked]),
        "sets": np.array([found_sets(question["program"]) for question in asked], np.int16),
        "families": np.array(
            [f"{question['template_filename'][:-5]} {question['question_family_index']}" for question in asked]
        ),
        "wordings": np.array([question["wording"] for question in asked]),
        "image_of": np.array([position[question["image_index"]] for question in asked], np.int64),
    }


def _alike(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return arrays as they are, or rows of tokens all as long as the longest, padded behind."""
    if parts[0].ndim < 2:
        return list(parts)
    longest = max(part.shape[1] for part in parts)
    return [np.pad(part, ((0, 0), (0, longest - part.shape[1])), constant_values=tokens.PADDING) for part in parts]


def _rendered(data_dir: pathlib.Path) -> str:
    """Return the size that the generator rendered a directory's images at."""
    path = layout.find(data_dir, layout.SETTINGS)
    settings = layout.read_json(path) if path else {}
    return f"{settings['width']}x{settings['height']}" if {"width", "height"} <= set(settings) else "an unknown size"


def _image(path: pathlib.Path) -> np.ndarray:
    return np.asarray(read_picture(path).resize((128, 128), Image.Resampling.BILINEAR))


def _parts(path: pathlib.Path, scene: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return where each object's visible part is, in pixels of a 128x128 image.

    Returns
    -------
    centres : (objects, 2)
        Mean column and row.
    owners : (128, 128) uint8
        1 plus the position of the object that a pixel shows, 0 for none.
    """
    colors = np.asarray(read_picture(path))
    indices = masks.object_indices(colors, [item["mask_color"] for item in scene["objects"]])
    height, width = indices.shape
    rows, columns = np.nonzero(indices >= 0)
    owner = indices[rows, columns]
    count = np.bincount(owner, minlength=len(scene["objects"]))
    place = [np.bincount(owner, axis + 0.5, len(count)) / count for axis in (columns, rows)]
    centres = np.stack([place[0] * 128 / width - 0.5, place[1] * 128 / height - 0.5], axis=-1)
    nearest = [((np.arange(128) + 0.5) * size / 128).astype(np.int64) for size in (height, width)]
    return centres, (indices[np.ix_(*nearest)] + 1).astype(np.uint8)
