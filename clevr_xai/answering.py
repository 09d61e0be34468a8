"""A network that answers questions about images, from its SavedModel, and the live Keras network behind it.

Then the evaluation of questions: their batches, filters of correct answers, samples, precomputed answers, and the
numbers of a run by source of the maps. The
authors' tools keep heatmaps as ``METHOD/QUESTION_INDEX.npy`` and predictions as ``predictions.json``, a list of
``answer`` and ``question_index``. Whole maps keep their channels, (H, W, C) float32; the authors' evaluation script
reads pooled ones, (H, W).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import attribution
from attribution.errors import BadInput
from attribution.files import atomic_write
from attribution.reading import read_json
from attribution_benchmarks.core.batch import Batch, LazyBatch, MapSource
from attribution_benchmarks.core.evaluator import Evaluator, PredictionFilter, Results, ShardedRun
from attribution_benchmarks.core.explainer import load_array
from attribution_benchmarks.core.metric import DROP, UNIFORM, Metric, PerSampleMetric
from attribution_benchmarks.core.store import ScoreStore
from clevr_xai import masks, vocabulary
from clevr_xai.data import Dataset, QuestionBatch
from clevr_xai.methods import BASELINES
from clevr_xai.metrics import DIGITS, METRICS, POOLINGS, path_gap, relevance_accuracy
from clevr_xai.vocabulary import answer_text

if TYPE_CHECKING:
    import keras

    from attribution.model.model import Model

INPUTS = ("image", "question")
PREDICTIONS = "predictions.json"  # beside the maps


class Answering:
    """A SavedModel with the signature of the Relation Network, its words and its answers.

    Parameters
    ----------
    path
        Directory of the SavedModel; its assets are described in ``vocabulary.read_assets``.

    Attributes
    ----------
    model : attribution.model.model.Model
        Loaded to explain logits.
    words, answers : list of str
        In the order of the tokens and of the logits.
    size : int
        Height and width of its images.

    Raises
    ------
    BadInput
        If there is no such SavedModel, it takes other inputs, or does not carry its words and answers.
    """

    def __init__(self, path: str | pathlib.Path):
        self.model = attribution.load_model(path, score="logits")
        given = self.model.inputs
        shape = given["image"].shape if set(given) == set(INPUTS) else None
        if shape is None or shape.rank != 4 or shape[1] is None or shape[1] != shape[2] or shape[3] != 3:
            shown = ", ".join(f"{name} {tuple(one.shape)}" for name, one in given.items())
            raise BadInput(
                f"{path} takes {shown}; a network for CLEVR-XAI takes image (batch, side, side, 3) and question "
                "(batch, words)"
            )
        self.words, self.answers = vocabulary.read_assets(self.model.path)
        if len(self.answers) != self.model.num_classes:
            raise BadInput(
                f"{path} gives {self.model.num_classes} logits, but its {vocabulary.ANSWERS_FILE} lists "
                f"{len(self.answers)} answers"
            )
        self.size = int(shape[1])

    def inputs(self, images: np.ndarray, questions: Sequence[str]) -> dict[str, np.ndarray]:
        """Return images, (N, side, side, 3) uint8, and sentences as the network takes them."""
        return {"image": scaled(images), "question": self.encoded(questions)}

    def encoded(self, questions: Sequence[str]) -> np.ndarray:
        """Return sentences as the network takes them, (N, words) int32."""
        width = self.model.inputs["question"].shape[1]  # None unless the signature is of so many words
        return vocabulary.encode(questions, self.words, None if width is None else int(width))

    def targets(self, answers: Sequence[str]) -> np.ndarray:
        """Return the logits' places of answers, (N,) int64; -1 for one that the network cannot give."""
        places = {answer: place for place, answer in enumerate(self.answers)}
        return np.array([places.get(answer, -1) for answer in answers], np.int64)


def scaled(images: np.ndarray) -> np.ndarray:
    """Return uint8 images as float32 in [0, 1]."""
    return images.astype(np.float32) / 255


def confidences(logits: np.ndarray) -> np.ndarray:
    """Return the softmax of each row's highest logit, (N,) float64."""
    logits = np.asarray(logits, np.float64)
    return 1 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)


def live_network(model: Model) -> keras.Model:
    """Return the live network behind a Relation Network of any width, of two inputs, ``image`` and ``question``.

    Raises
    ------
    BadInput
        If the SavedModel is of another architecture.
    """
    from clevr_xai import relation_network

    loaded = model.load_file()  # a variable, since its variables live no longer than it
    variables = loaded.signatures["serving_default"].variables
    values = {variable_name(variable.name.split(":")[0]): variable for variable in variables}
    widths = _widths(values, "relations/g1_question/kernel", "relations/g{}/kernel")
    head = _widths(values, "f/f1/kernel", "f/f{}/kernel")
    channels, size = _widths(values, "convolutions/conv1/kernel", ""), model.inputs["image"].shape[1]
    live = relation_network.build(widths, head, channels[0], size) if widths and head and channels else None
    if live is None or _shapes(values) != {variable_name(weight.path): tuple(weight.shape) for weight in live.weights}:
        raise BadInput(
            f"this method needs the live Keras network behind '{model.path}', which is not a Relation Network exported "
            "by scripts/train_relation_network.py; no other network of CLEVR-XAI has one"
        )
    live.set_weights([values[variable_name(weight.path)].numpy() for weight in live.weights])
    return _without_networks_inside(live)


def _without_networks_inside(live: keras.Model) -> keras.Model:
    """Return the same function without networks as layers, in which tf-keras-vis finds no convolution."""
    import keras

    def applied(name: str, values: Any) -> Any:
        return functools.reduce(lambda found, layer: layer(found), live.get_layer(name).layers, values)

    image, question = live.inputs
    cells = live.get_layer("coordinates")(applied("convolutions", image))
    related = live.get_layer("relations")(cells, live.get_layer("question_encoder")(question))
    return keras.Model([image, question], applied("f", related))


def variable_name(path: str) -> str:
    """Return a variable's name without the number that Keras gives a layer built for the second time in a process."""
    return re.sub(r"_\d+(?=/recurrent)", "", path)


def _shapes(values) -> dict[str, tuple]:
    return {name: tuple(value.shape) for name, value in values.items()}


def _widths(values, first: str, pattern: str) -> list[int]:
    """Return the last axis of the kernels of a chain of layers, from the first on, as far as they exist."""
    found, name = [], first
    while name in values:
        found.append(int(values[name].shape[-1]))
        name = pattern.format(len(found) + 1)
    return found


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

    def __init__(self, dataset: Dataset, rows: Sequence[int], network: Answering | None = None, ground_truth: str = ""):
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

    def take(self, rows: Sequence[int]) -> Questions:
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


@dataclasses.dataclass(frozen=True)
class Measured:
    """Numbers of n questions.

    Attributes
    ----------
    kind, ground_truths
        Of the data set.
    rows, indices
        (n,) places in the data set, and the questions' own numbers.
    images
        (n,) file names; questions about one image belong together.
    right
        (n,) bool, whether the answer was right; only these questions were explained.
    confidence
        (n,) softmax of the answer; None for precomputed maps.
    pixels
        Ground truth -> (n,) size of the mask, 0 where the question has none.
    fingerprint
        SHA-256 of the questions, answers, images and masks.
    sources
        Sources of the scored maps.
    scores
        Function from a label to (n, ground truths, metrics, poolings) float64; NaN where undefined and where the
        answer was wrong. One label at a time is read, so that memory does not hold them all.
    curves
        Such a metric with a curve -> function from a label to (n, points) float64.
    positions
        Pixels of an image.
    degenerate_maps
        "uniform" or "drop": how ``counted`` treats a pooled map that is zero everywhere.
    gaps
        Method of Integrated Gradients -> (n,) share by which the sum of its map misses the difference of the scores.
    shared
        Metric of all benchmarks -> function from a label to (n,) float64, NaN likewise; None where the metric is not
        of such maps.
    """

    kind: str
    ground_truths: tuple[str, ...]
    rows: np.ndarray
    indices: np.ndarray
    images: list[str]
    right: np.ndarray
    confidence: np.ndarray | None
    pixels: dict[str, np.ndarray]
    fingerprint: str
    sources: tuple[MapSource, ...]
    scores: Callable[[MapSource], np.ndarray]
    gaps: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    shared: Mapping[str, Callable[[MapSource], np.ndarray | None]] = dataclasses.field(default_factory=dict)
    curves: Mapping[str, Callable[[MapSource], np.ndarray | None]] = dataclasses.field(default_factory=dict)
    positions: int = masks.SIZE**2
    degenerate_maps: str = UNIFORM

    def counted(self, label: MapSource) -> np.ndarray:
        """Return a label's scores as they count, (n, ground truths, metrics, poolings) float64.

        A pooled map that is zero everywhere has no accuracy. It counts as the uniform map, whose mass and whose
        expected rank accuracy are the mask's share of the image; or is NaN where ``degenerate_maps`` is
        "drop". NaN where the answer was wrong and where a question has no such mask.
        """
        scores = self.scores(label)
        if self.degenerate_maps == DROP:
            return scores
        sizes = np.stack([self.pixels[name] for name in self.ground_truths], axis=1)[:, :, np.newaxis, np.newaxis]
        empty = np.isnan(scores) & (sizes > 0) & self.right[:, np.newaxis, np.newaxis, np.newaxis]
        return np.where(empty, sizes / self.positions, scores)


def sharded_run(
    questions: Questions,
    explainer,
    predictions: Mapping[str, str] | None = None,
    shared: Mapping[str, Metric] | None = None,
    store: ScoreStore | None = None,
    batch_size: int = 8,
    maps_directory=None,
    degenerate_maps: str = UNIFORM,
) -> ShardedRun:
    """Return the questions with their evaluator.

    Parameters
    ----------
    explainer
        ``Explainer`` of the questions' network, or ``SavedMaps``.
    predictions
        Answers that saved maps explain, from ``read_predictions``; None counts all as correct. Where the questions have
        a network, its answers are used instead.
    shared
        Metrics of all benchmarks to compute as well, by name; against the questions' first ground truth.
    store, maps_directory
        Where scores and maps are saved; None saves none.
    degenerate_maps
        Treatment of maps that are zero everywhere; see ``Measured.counted``.
    """
    dataset, network = questions.dataset, questions.network
    answers = questions.predicted() if network else None
    if not network and predictions is not None:
        answers = questions.given(predictions)
    measures = _measures(questions, explainer, shared, degenerate_maps)
    evaluator = Evaluator(
        explainer,
        [measures.accuracy, *measures.shared.values(), *measures.gaps.values()],
        {
            "benchmark": "clevr_xai",
            "model": network.model.fingerprint if network else "",
            "questions": dataset.kind,
            "ground_truths": list(dataset.ground_truths),
        },
        [Questions],
        store,
        answers,
        maps_directory,
    )
    return ShardedRun(
        dataset.kind, evaluator, questions.rows.tolist(), batch_size,
        lambda rows, size: questions.take(rows).batches(size),
    )  # fmt: skip


def collect(
    questions: Questions,
    results: Results,
    shared: Mapping[str, Metric] | None = None,
    degenerate_maps: str = UNIFORM,
) -> Measured:
    """Return the numbers of a sharded run that was evaluated; parameters as of ``sharded_run``."""
    dataset = questions.dataset
    accuracy, further, gaps = _measures(questions, results.evaluator.explainer, shared, degenerate_maps)
    pixels = np.array([questions.mask_pixels[row] for row in questions.rows])

    def values_of(measure: PerSampleMetric, part: int | slice = 0) -> Callable[[MapSource], np.ndarray | None]:
        return lambda label: results.numbers(label, measure)[:, part] if measure.applies_to(label) else None

    shape = (-1, len(dataset.ground_truths), len(METRICS), len(POOLINGS))
    return Measured(
        dataset.kind,
        dataset.ground_truths,
        questions.rows,
        np.array(questions.indices, np.int64),
        [dataset.questions[row]["image_filename"] for row in questions.rows],
        results.counted,
        np.array([sure for _, sure in results.predictions], np.float64) if questions.network else None,
        dict(zip(dataset.ground_truths, pixels.T, strict=True)),
        hashlib.sha256("\n".join(results.names).encode()).hexdigest(),
        results.sources,
        lambda label: results.numbers(label, accuracy).reshape(shape),
        {name: results.numbers(MapSource(name), gap)[:, 0] for name, gap in gaps.items()},
        {name: values_of(measure) for name, measure in further.items()},
        {name: values_of(further[name], slice(1, None)) for name, metric in (shared or {}).items() if metric.curve},
        dataset.size**2,
        degenerate_maps,
    )


class _Measures(NamedTuple):
    """Both accuracies, metrics of all benchmarks by name, completeness errors by method."""

    accuracy: PerSampleMetric
    shared: dict[str, PerSampleMetric]
    gaps: dict[str, PerSampleMetric]


def _measures(questions: Questions, explainer, shared: Mapping[str, Metric] | None, degenerate_maps: str) -> _Measures:
    network, ground_truth = questions.network, questions.truths[0]
    further = {name: _against(metric.measure, ground_truth, degenerate_maps) for name, metric in (shared or {}).items()}
    paths = [name for name in BASELINES if network and MapSource(name) in explainer.sources]
    return _Measures(
        # Precomputed maps are scored again each time, so there is no store to keep small.
        relevance_accuracy(questions.dataset.ground_truths, DIGITS if network else None),
        further,
        {name: path_gap(name, explainer.methods[name][1]["baseline"]) for name in paths},
    )


def _against(measure: PerSampleMetric, ground_truth: str, degenerate_maps: str) -> PerSampleMetric:
    """Return a measure under a name that says which mask it looks at, so that no other mask's numbers are found."""
    return dataclasses.replace(measure, name=f"{measure.name} {ground_truth}", degenerate_maps=degenerate_maps)
