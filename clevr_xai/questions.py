"""The questions of a run: samples of them, their batches, and filters of correct answers.

The authors' tools keep heatmaps as ``METHOD/QUESTION_INDEX.npy`` and predictions as ``predictions.json``, a list of
``answer`` and ``question_index``. Whole maps keep their channels, (H, W, C) float32; the authors' evaluation script
reads pooled ones, (H, W).
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from attribution.errors import BadInput
from attribution.files import atomic_write
from attribution.reading import read_json
from attribution_benchmarks.core.batch import Batch, LazyBatch
from attribution_benchmarks.core.evaluator import PredictionFilter
from attribution_benchmarks.core.explainer import load_array
from clevr_xai.data import Dataset, QuestionBatch
from clevr_xai.network import Answering, confidences, scaled
from clevr_xai.vocabulary import answer_text

PREDICTIONS = "predictions.json"  # beside the maps


class Questions:
    """Some questions of a data set, in batches for an evaluator.

    Parameters
    ----------
    dataset
        Of the image size of network or maps.
    rows
        (n,) their rows in it.
    network
        Answers the questions; None for precomputed maps.
    ground_truth
        The mask that metrics of all benchmarks look at: the first of a block's masks. Empty for the data set's first.

    Attributes
    ----------
    mask_pixels
        Row -> (ground truths,) size of its masks, of the questions that ``batches`` has read.
    """

    def __init__(
        self,
        dataset: Dataset,
        rows: Sequence[int] | np.ndarray,
        network: Answering | None = None,
        ground_truth: str = "",
    ):
        self.dataset, self.rows, self.network = dataset, np.asarray(rows, np.int64), network
        self.truths = tuple(dict.fromkeys([ground_truth or dataset.ground_truths[0], *dataset.ground_truths]))
        self.indices = [dataset.questions[row]["question_index"] for row in self.rows]
        self.mask_pixels: dict[int, np.ndarray] = {}
        self.answers = dict(zip(map(str, self.indices), (dataset.answers[row] for row in self.rows), strict=True))

    def batches(self, size: int) -> Iterator[LazyBatch]:
        """Yield the questions in batches of ``size``.

        A question's name changes with its words, answer, image and masks, so these are read even where all numbers are
        in the store. Reading costs little compared with explaining.
        """
        for batch in self.dataset.batches(size, self.rows):
            pixels = np.stack([batch.masks[name].sum(axis=(1, 2)) for name in self.dataset.ground_truths], axis=1)
            self.mask_pixels.update(zip(batch.rows, pixels, strict=True))
            files = [str(self.dataset.questions[row]["question_index"]) for row in batch.rows]
            digests = batch.digests()
            yield LazyBatch(
                [f"{file} {digest[:16]}" for file, digest in zip(files, digests, strict=True)],
                files,
                lambda batch=batch, files=files: self._block(batch, files),
            )

    def _block(self, batch: QuestionBatch, files: list[str]) -> Batch:
        network = self.network
        return Batch(
            network.inputs(batch.images, batch.questions) if network else {"image": scaled(batch.images)},
            [f"{self.dataset.kind}/{file}" for file in files],
            network.targets(batch.answers) if network else None,
            explained="image",
            masks={name: batch.masks[name] for name in self.truths},
            truth={"row": batch.rows, "file": files, "question": batch.questions, "answer": batch.answers},
        )

    def take(self, rows: Sequence[int] | np.ndarray) -> Questions:
        """Return other questions of the same data set, for the same network."""
        other = Questions(self.dataset, rows, self.network, self.truths[0])
        other.mask_pixels = self.mask_pixels
        return other

    def predicted(self) -> PredictionFilter:
        """Return the filter of questions that the network answers correctly."""
        return PredictionFilter("prediction", self._ask, self._judge)

    def _ask(self, block: Batch) -> list[list]:
        """Return the answer's place among the logits and its softmax, of each question."""
        logits = self.network.model.scores(block.inputs, len(block))
        pairs = zip(logits.argmax(axis=1), confidences(logits), strict=True)
        return [[int(answer), float(sure)] for answer, sure in pairs]

    def _judge(self, records: Sequence, part: LazyBatch) -> tuple[np.ndarray, None]:
        given = np.array([[int(answer), float(sure)] for answer, sure in records]).reshape(-1, 2)
        return given[:, 0] == self.network.targets([self.answers[file] for file in part.files]), None

    def given(self, predictions: Mapping[str, str]) -> PredictionFilter:
        """Return the filter of correct predictions, question index -> answer; a missing one counts as wrong."""

        def ask(block: Batch) -> list[str | None]:
            return [predictions.get(file) for file in block.truth["file"]]

        def judge(records: Sequence, part: LazyBatch) -> tuple[np.ndarray, None]:
            wanted = (self.answers[file] for file in part.files)
            return np.array([said == answer for said, answer in zip(records, wanted, strict=True)], bool), None

        return PredictionFilter("given", ask, judge)


def rows_until_right(dataset: Dataset, network: Answering, count: int, seed: int, batch_size: int = 32) -> np.ndarray:
    """Return rows of sampled questions of which ``count`` are answered correctly, in rising order.

    They are sampled in the order of ``draw_rows``; all questions where these are not enough. One forward pass each.
    """
    order, right = np.random.default_rng([seed, 128]).permutation(len(dataset)), 0
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        names = [dataset.questions[row]["question"] for row in rows]
        logits = network.model.scores(network.inputs(dataset.images(rows), names), batch_size)
        hits = logits.argmax(axis=1) == network.targets([dataset.answers[row] for row in rows])
        if right + hits.sum() >= count:
            return np.sort(order[: start + int(np.flatnonzero(np.cumsum(hits) + right == count)[0]) + 1])
        right += int(hits.sum())
    return np.sort(order)


def draw_rows(total: int, count: int | str, seed: int) -> np.ndarray:
    """Return which questions to score, in rising order; fewer are a part of more, so that scores can be reused."""
    if count == "all" or int(count) >= total:
        return np.arange(total)
    return np.sort(np.random.default_rng([seed, 128]).permutation(total)[: int(count)])


def side(folders: Mapping[str, pathlib.Path]) -> int:
    """Return the height and width of saved maps in pixels, from the first of them; all others must have it too."""
    path = min(next(iter(folders.values())).rglob("*.npy"))
    shape = [length for length in load_array(path).shape if length > 4]  # neither batch nor channels
    if len(shape) != 2 or shape[0] != shape[1]:
        raise BadInput(f"{path} is no map of a square image; numbers of shape (side, side, C) are needed")
    return shape[0]


def save_predictions(directory: str, answers: Iterable[tuple[int, str]]) -> None:
    """Write the answers that maps explain, (question index, answer) each."""
    entries = [{"answer": answer, "question_index": int(index)} for index, answer in answers]
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    atomic_write(pathlib.Path(directory) / PREDICTIONS, json.dumps(entries) + "\n")


def read_predictions(directory: str) -> dict[str, str] | None:
    """Return question index -> answer; None where there is no such file, and so every answer counts as right.

    Raises
    ------
    BadInput
        If the file is no list of answers.
    """
    path = pathlib.Path(directory) / PREDICTIONS
    if not path.exists():
        return None
    try:
        entries = read_json(path)
        return {str(int(entry["question_index"])): answer_text(entry["answer"]) for entry in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f'{path} is no list of answers ({error}); expected [{{"answer": "red", "question_index": 0}}, ...]'
        ) from None
