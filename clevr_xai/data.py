"""Read CLEVR-XAI: the official release v1.0, data of our own generator, or the embedded 200 images.

Questions and scenes are read by the constructor, images and masks batch by batch. Masks come from the release's
``.npy`` files where there are such folders, and otherwise from the mask images by the release's rule, which gives the
same pixels.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from PIL import Image

from attribution.errors import BadInput, listed
from attribution.reading import inside, read_array, read_pixels
from clevr_xai import layout, masks
from clevr_xai.programs import InvalidProgram, check_outputs
from clevr_xai.vocabulary import answer_text

EMBEDDED = pathlib.Path(__file__).parent / "embedded"
KINDS = masks.KINDS
_QUESTION = {"question": str, "answer": (str, int), "program": list, "image_filename": str}  # true is an int, too
_SCENE = {"image_filename": str, "objects": list}
MIN_SIDE = 16  # pixels
_CACHED = 128  # images in memory with the masks of their objects: at most 27 MB at 128 pixels


@dataclasses.dataclass(frozen=True)
class QuestionBatch:
    """Some rows of a dataset.

    Attributes
    ----------
    rows : (N,) int64
        Positions in the dataset.
    images : (N, size, size, 3) uint8
    questions, answers : list of str
        Answers are among ``vocabulary.ANSWERS``.
    masks : dict of (N, size, size) bool
        By the name of the ground truth; all False where the question has none.
    available : dict of (N,) bool
        Whether the question has such a mask.
    """

    rows: np.ndarray
    images: np.ndarray
    questions: list[str]
    answers: list[str]
    masks: dict[str, np.ndarray]
    available: dict[str, np.ndarray]

    def digests(self) -> list[str]:
        """Return for each row the SHA-256 of question, answer, image and masks, 64 hexadecimal digits."""
        found = []
        for row, (question, answer) in enumerate(zip(self.questions, self.answers, strict=True)):
            digest = hashlib.sha256(f"{question}\0{answer}\0".encode())
            for array in (self.images, *self.masks.values()):
                digest.update(array[row].tobytes())
            found.append(digest.hexdigest())
        return found


def wording(kind: str, data_dir: str | pathlib.Path = "") -> str:
    """Return the wording of a directory's questions, "official" or "plain", see ``generation.questions``.

    Data that this project's generator did not make count as official. The parameters are those of ``Dataset``.
    """
    directory = pathlib.Path(data_dir) if data_dir else EMBEDDED
    if layout.find(directory, layout.SETTINGS) is None:
        return "official"
    file = layout.find(directory, layout.QUESTIONS.format(kind=kind))
    return layout.read_info(file).get("wording", "plain") if file else "plain"


class _PackedList(Sequence[dict]):
    """JSON objects that are stored as text and parsed when they are read.

    The 100,000 complex questions of the release take 0.1 GB so, and 0.6 GB as dictionaries, in each process.
    """

    def __init__(self, objects: Iterable[dict]):
        self._texts = [json.dumps(each, separators=(",", ":")).encode() for each in objects]

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, row):
        return json.loads(self._texts[row])


class Dataset:
    """The simple or the complex questions of a CLEVR-XAI directory.

    Parameters
    ----------
    kind
        "simple" or "complex".
    data_dir
        Directory of the official release, unpacked side by side or merged, or of our generator's output; the
        embedded set when empty.
    size
        Height and width of images and masks. Images of another size are resized with Pillow's bilinear
        filter, masks by the release's rule.

    Attributes
    ----------
    questions : sequence of dict
        As in the JSON file.
    ground_truths : tuple of str
        Names of the masks: ``masks.SIMPLE`` or ``masks.COMPLEX``.

    Raises
    ------
    BadInput
        For a missing, unreadable or inconsistent file; the message names it.
    """

    def __init__(self, kind: str, data_dir: str | pathlib.Path = "", size: int = masks.SIZE):
        if kind not in KINDS:
            raise BadInput(f"no questions {kind!r}; these exist: {listed(KINDS)}")
        self.kind, self.size = kind, size
        self.data_dir = pathlib.Path(data_dir) if data_dir else EMBEDDED
        self.ground_truths = masks.GROUND_TRUTHS[kind]
        if not self.data_dir.is_dir():
            raise BadInput(f"no directory {self.data_dir}; name one that holds {layout.SCENES}")
        self._questions_file = self._required(layout.QUESTIONS.format(kind=kind))
        self._scenes_file = self._required(layout.SCENES)
        questions = layout.read_entries(self._questions_file, "questions", _QUESTION)
        scenes = layout.read_entries(self._scenes_file, "scenes", _SCENE)
        self.scenes = {scene["image_filename"]: scene for scene in scenes}
        if len(self.scenes) < len(scenes):
            raise BadInput(f"{self._scenes_file}: some image_filename occurs twice")
        self._images = self._required(layout.IMAGES)
        self._masks = layout.find(self.data_dir, layout.MASKS)
        # Questions that have no numbers are numbered in their order.
        numbers = [question.setdefault("question_index", row) for row, question in enumerate(questions)]
        if strange := [number for number in numbers if type(number) is not int or not 0 <= number < 1 << 53]:
            raise BadInput(f"{self._questions_file}: question_index {strange[0]!r} is not a whole number from 0 on")
        if len(set(numbers)) != len(numbers):
            raise BadInput(f"{self._questions_file}: some question_index occurs twice")
        for question in questions:
            place, name = f"{self._questions_file}: question {question['question_index']}", question["image_filename"]
            if not question["question"].isprintable():
                raise BadInput(f"{place} holds what cannot be printed")
            if name not in self.scenes:
                raise BadInput(f"{place} is about {name}, which {self._scenes_file.name} does not hold")
        self.questions = _PackedList(questions)
        self._files = {name: self._ground_truth_folder(name) for name in self.ground_truths}
        self._programs_seen: set[int] = set()
        # Questions on one image follow each other, and so do requests for the ground truths of a batch.
        self._image = functools.lru_cache(maxsize=_CACHED)(self._read_image)
        self._object_masks = functools.lru_cache(maxsize=_CACHED)(self._read_object_masks)

    def __len__(self) -> int:
        return len(self.questions)

    @functools.cached_property
    def answers(self) -> list[str]:
        """Every question's answer as one of the 28 words of ``vocabulary.ANSWERS``."""
        found = []
        for question in self.questions:
            try:
                found.append(answer_text(question["answer"]))
            except ValueError as error:
                place = f"{self._questions_file}: question {question['question_index']}"
                raise BadInput(f"{place}: {error}") from None
        return found

    def scene(self, row: int) -> dict:
        """Return the scene that a question is about."""
        return self.scenes[self.questions[row]["image_filename"]]

    def images(self, rows: Sequence[int]) -> np.ndarray:
        """Return the images of some questions, (N, size, size, 3) uint8."""
        names = [self.questions[row]["image_filename"] for row in rows]
        return np.array([self._image(name) for name in names], np.uint8).reshape(-1, self.size, self.size, 3)

    def masks(self, ground_truth: str, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return one ground truth of some questions.

        Parameters
        ----------
        ground_truth
            One of ``ground_truths``.
        rows
            Positions in the dataset.

        Returns
        -------
        masks : (N, size, size) bool
            All False where the question has no such mask.
        available : (N,) bool
        """
        found = np.zeros((len(rows), self.size, self.size), bool)
        available = np.zeros(len(rows), bool)
        for position, row in enumerate(rows):
            objects = self.objects(ground_truth, row)
            available[position] = bool(objects)
            if not objects:
                continue
            folder = self._files[ground_truth]
            if folder is None:
                found[position] = self._object_masks(self.questions[row]["image_filename"])[objects].any(axis=0)
                continue
            path = folder / f"{self.questions[row]['question_index']}.npy"
            if not path.exists():
                raise BadInput(f"no {path}, though the question's program has such objects")
            mask = read_array(path)
            if mask.shape != found.shape[1:] or mask.dtype != bool:
                raise BadInput(f"{path} holds {mask.dtype} of shape {mask.shape}; expected bool of {found.shape[1:]}")
            found[position] = mask
        return found, available

    def objects(self, ground_truth: str, row: int) -> list[int]:
        """Return the indices of the objects that a ground truth of a question shows, none if it has none."""
        question = self.questions[row]
        number = len(self.scene(row)["objects"])
        if row not in self._programs_seen:
            try:
                check_outputs(question["program"], number)
            except InvalidProgram as error:
                raise BadInput(
                    f"{self._questions_file}: the program of question {question['question_index']} about "
                    f"{question['image_filename']}: {error}"
                ) from None
            self._programs_seen.add(row)
        return masks.ground_truth_objects(question["program"], ground_truth, number)

    def batches(
        self,
        batch_size: int = 32,
        rows: Sequence[int] | None = None,
        ground_truths: Sequence[str] | None = None,
    ) -> Iterator[QuestionBatch]:
        """Iterate over some rows (all by default) with some ground truths (all by default)."""
        rows = np.arange(len(self)) if rows is None else np.asarray(rows, np.int64)
        names = self.ground_truths if ground_truths is None else ground_truths
        for start in range(0, len(rows), batch_size):
            chosen = rows[start : start + batch_size]
            truths = {name: self.masks(name, chosen) for name in names}
            yield QuestionBatch(
                rows=chosen,
                images=self.images(chosen),
                questions=[self.questions[row]["question"] for row in chosen],
                answers=[self.answers[row] for row in chosen],
                masks={name: found for name, (found, _) in truths.items()},
                available={name: available for name, (_, available) in truths.items()},
            )

    def _required(self, name: str) -> pathlib.Path:
        if path := layout.find(self.data_dir, name):
            return path
        raise BadInput(
            f"no {name} in {self.data_dir}; expected the unpacked archives {listed(layout.ARCHIVES)} or the output of "
            "scripts/generate_clevr_xai.py"
        )

    def _ground_truth_folder(self, ground_truth: str) -> pathlib.Path | None:
        """Return the folder of a ground truth's files, None when masks are to be made from mask images."""
        name = layout.GROUND_TRUTH.format(kind=self.kind, ground_truth=ground_truth)
        folder = layout.find(self.data_dir, name)
        if folder is None or self.size != masks.SIZE:
            if self._masks is None:
                raise BadInput(
                    f"neither {name} nor {layout.MASKS} in {self.data_dir}"
                    + (f"; masks of {self.size} pixels are made from mask images" if folder else "")
                )
            return None
        return folder

    def _read_image(self, name: str) -> np.ndarray:
        """Return an image file as (size, size, 3) uint8."""
        picture = Image.fromarray(read_pixels(inside(self._images, name, self._questions_file)))
        if min(picture.size) < MIN_SIDE:
            raise BadInput(f"{self._images / name} has {picture.width} x {picture.height} pixels; no scene can be seen")
        if picture.size != (self.size, self.size):
            picture = picture.resize((self.size, self.size), Image.Resampling.BILINEAR)
        return np.asarray(picture)

    def _read_object_masks(self, name: str) -> np.ndarray:
        """Return the masks of all objects of an image, (objects, size, size) bool, from its mask image."""
        scene = self.scenes[name]
        path = inside(self._masks, scene.get("mask_filename", name), self._scenes_file)
        return masks.object_masks(masks.read_indices(path, scene), len(scene["objects"]), self.size)
