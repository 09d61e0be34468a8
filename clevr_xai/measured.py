"""The evaluation of questions: a sharded run, and its numbers by source of the maps."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.evaluator import Evaluator, Results, ShardedRun
from attribution_benchmarks.core.metric import DROP, UNIFORM, Metric, PerSampleMetric
from attribution_benchmarks.core.store import ScoreStore
from clevr_xai import masks
from clevr_xai.answering import Questions
from clevr_xai.methods import BASELINES
from clevr_xai.metrics import DIGITS, METRICS, POOLINGS, path_gap, relevance_accuracy


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
    questions
        Those to explain.
    explainer
        Makes the maps: ``Explainer`` of the questions' network, or ``SavedMaps``.
    predictions
        Answers that saved maps explain, from ``answering.read_predictions``; None counts all as right. Where the
        questions have a network, its answers are used instead.
    shared
        Metrics of all benchmarks to compute besides, by name; against the questions' first ground truth.
    store
        Where scores are stored; None stores none.
    batch_size
        Questions in one block.
    maps_directory
        Where maps are saved; None saves none.
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
