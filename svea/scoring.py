"""Score the regions of explanation on one network: a value of each metric for each test signal."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import attribution
from attribution.errors import BadInput
from attribution.methods import third_party
from attribution_benchmarks.core import manifest
from attribution_benchmarks.core.batch import Batch, LazyBatch, MapSource
from attribution_benchmarks.core.evaluator import Evaluator, Numbers
from attribution_benchmarks.core.fingerprint import code_fingerprint
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
from attribution_benchmarks.core.store import ScoreStore
from svea import baseline, metrics
from svea.methods import RAW_SIGNAL
from svea.mnist1d import CLASSES, LENGTH, TEST_SIGNALS, TRAIN_SIGNALS, Mnist1D

if TYPE_CHECKING:
    from attribution.model.model import Model

SIGNALS = TRAIN_SIGNALS + TEST_SIGNALS


@dataclasses.dataclass(frozen=True)
class SourceScores:
    """The scores of one method or control on one network.

    Attributes
    ----------
    values
        Metric -> (1000,) float64, one value per test signal, SVEA's own in percent; their mean is the score.
    zero_maps
        How many of the 5,000 maps are zero everywhere; None for a control.
    starts
        (5000,) int, where the windows begin, training signals first; None where there is no window.
    curves
        Metric with a curve -> (1000, points) float64.
    """

    values: Mapping[str, np.ndarray]
    zero_maps: int | None = None
    starts: np.ndarray | None = None
    curves: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class NetworkScores:
    """The scores of all methods and controls on one network.

    Attributes
    ----------
    sources
        Source of maps -> scores: methods, controls, methods under a control such as random networks.
    probabilities
        (1000, 10), the network's output for the test signals.
    """

    sources: Mapping[MapSource, SourceScores]
    probabilities: np.ndarray

    @property
    def methods(self) -> dict[str, SourceScores]:
        """Scores of the methods by name."""
        return {source.method: scores for source, scores in self.sources.items() if not source.control}

    @property
    def controls(self) -> dict[str, SourceScores]:
        """Scores of the model-independent controls by name."""
        return {source.control: scores for source, scores in self.sources.items() if not source.method}

    def accuracy(self, data: Mnist1D) -> float:
        """Return the accuracy on the test signals in percent."""
        return float(100 * np.mean(self.probabilities.argmax(axis=1) == data.test.labels))


def load_network(path: str | os.PathLike) -> Model:
    """Return a network on MNIST-1D that gives probabilities, from the directory of a SavedModel.

    Raises
    ------
    BadInput
        If it cannot be loaded, takes no signals of shape (40, 1), has not ten classes, or gives NaN.
    """
    model = attribution.load_model(path, score="probabilities")
    if model.num_classes != CLASSES:
        raise BadInput(f"the network {str(path)!r} has {model.num_classes} classes; MNIST-1D has {CLASSES}")
    model.scores(np.zeros((1, LENGTH, 1), np.float32))  # raises for a wrong input shape and for weights of NaN
    third_party.offer(model, baseline.live_network)  # for methods of other libraries and custom ones
    return model


def file_of(row: int) -> str:
    """Return the name of a signal's saved map, "train_0000" or "test_0000"."""
    return f"train_{row:04d}" if row < TRAIN_SIGNALS else f"test_{row - TRAIN_SIGNALS:04d}"


def batches(data: Mnist1D, size: int, chosen: Sequence[int] = range(SIGNALS)) -> Iterator[LazyBatch]:
    """Yield signals in batches of ``size``, by default all 5,000, the training signals first."""
    signals, centres, templates = (
        np.concatenate([getattr(split, name) for split in (data.train, data.test)])
        for name in ("signals", "template_centre", "template")
    )

    def batch(rows: list[int]) -> Batch:
        return Batch(
            signals[rows][:, :, None],
            rows,
            masks={"template": templates[rows]},
            truth={"template_centre": centres[rows], "file": list(map(file_of, rows))},
        )

    for start in range(0, len(chosen), size):
        rows = list(chosen[start : start + size])
        yield LazyBatch(list(map(str, rows)), list(map(file_of, rows)), functools.partial(batch, rows))


def evaluator(
    explainer: Any, model: Any, data: Mnist1D, measures: Sequence[PerSampleMetric], store: ScoreStore | None = None,
    **settings: Any,
) -> Evaluator:  # fmt: skip
    """Return what measures the maps of signals; ``settings`` are others of ``Evaluator``."""
    key = {"benchmark": "svea", "model": model.fingerprint, "data": data.fingerprint}
    return Evaluator(explainer, measures, key, [batches], store, **settings)


def _region(maps: np.ndarray, batch: Batch, scores_of: Callable) -> np.ndarray:
    """Return where each map's region begins and whether the map is zero everywhere, (N, 2) int64."""
    return np.stack([metrics.region_of_explanation(maps), metrics.all_zero(maps)], axis=1)


REGION = PerSampleMetric("region", _region, width=2)


def of_test_signals(measure: PerSampleMetric) -> PerSampleMetric:
    """Return a measure of the test signals alone; the others only train the machines of the ROE test."""

    def measured(maps: np.ndarray, batch: Batch, scores_of: Callable) -> np.ndarray:
        numbers = np.full((len(batch), measure.width), np.nan)
        rows = np.flatnonzero(np.asarray(batch.seeds) >= TRAIN_SIGNALS)
        if len(rows) == len(batch):  # the batch itself, so that memoized queries of it are found again
            return measure.function(maps, batch, scores_of)
        if len(rows):
            numbers[rows] = np.reshape(measure.function(maps[rows], batch.take(rows), scores_of), (len(rows), -1))
        return numbers

    return dataclasses.replace(measure, function=measured)


def score_network(
    model: Any,
    data: Mnist1D,
    numbers: Numbers,
    shared: Mapping[str, Metric] | None = None,
    batch_size: int = 1000,
    store: ScoreStore | None = None,
    with_roe: bool = True,
) -> NetworkScores:
    """Return the scores of the regions of all methods and controls on a network.

    Parameters
    ----------
    model, data
        A network of ``load_network``, MNIST-1D.
    numbers
        Of an ``evaluator`` with ``REGION`` and the measures of ``shared``.
    shared
        Metrics of all benchmarks, by name.
    batch_size
        Signals in one pass.
    store
        Where the answers of support vector machines are stored; None keeps them in memory.
    with_roe
        Whether these machines are trained, for the ROE test.
    """
    signals = np.concatenate([data.train.signals, data.test.signals])
    probabilities = model.scores(data.test.signals[..., None], batch_size)
    rows, top = np.arange(TEST_SIGNALS), probabilities.argmax(axis=1)
    machines = SvmCache(data, store)

    def scores_of(source: MapSource) -> SourceScores:
        starts, zero = numbers.of(source, REGION).astype(np.int64).T
        kept = metrics.keep_windows(data.test.signals, starts[TRAIN_SIGNALS:])
        before, after = probabilities[rows, top], model.scores(kept[..., None], batch_size)[rows, top]
        values = {"roe_test": 100.0 * machines.correct(metrics.windows(signals, starts))} if with_roe else {}
        values |= {
            "drop": 100.0 * metrics.confidence_drop(before, after),
            "increase": 100.0 * metrics.confidence_increase(before, after),
        }
        curves = {}
        for name, metric in (shared or {}).items():
            if not metric.measure.applies_to(source):
                continue
            found = numbers.of(source, metric.measure)[TRAIN_SIGNALS:]
            values[name] = found[:, 0]
            if metric.curve:
                curves[name] = found[:, 1:]
        return SourceScores(values, None if source.control else int(zero.sum()), starts, curves)

    by_kind = {source: scores_of(source) for source in numbers.sources if not source.control}
    if with_roe:
        by_kind[MapSource(control=RAW_SIGNAL.name)] = SourceScores({"roe_test": 100.0 * machines.correct(signals)})
    by_kind |= {source: scores_of(source) for source in numbers.sources if not source.method}
    by_kind |= {source: scores_of(source) for source in numbers.sources if source.method and source.control}
    return NetworkScores(by_kind, probabilities)


class SvmCache:
    """The answers of the ROE test's support vector machines, stored by the features that the machines are trained on.

    Parameters
    ----------
    data
        MNIST-1D.
    store
        Where answers are stored; None keeps them in memory.
    """

    def __init__(self, data: Mnist1D, store: ScoreStore | None = None):
        self._data = data
        self._series = (store or ScoreStore(None)).series(
            benchmark="svea", data=data.fingerprint, machines=code_fingerprint(metrics.linear_svm_correct),
            versions=manifest.versions(),
        )  # fmt: skip

    def correct(self, features: np.ndarray) -> np.ndarray:
        """Return which test signals are classified correctly by machines trained on the training signals, (1000,) bool.

        Parameters
        ----------
        features
            (5000, D) numbers, those of the training signals first.

        Raises
        ------
        BadInput
            If the stored answers are damaged.
        """
        features = np.ascontiguousarray(features)
        name = hashlib.sha256(f"{features.shape} {features.dtype}".encode() + features.tobytes()).hexdigest()[:32]
        if name not in self._series:
            train, test = self._data.train.labels, self._data.test.labels
            found = metrics.linear_svm_correct(features[:TRAIN_SIGNALS], train, features[TRAIN_SIGNALS:], test)
            self._series.append({name: "".join("01"[one] for one in found.astype(int))})
            return found
        record = self._series[name]
        if not isinstance(record, str) or len(record) != TEST_SIGNALS or set(record) - set("01"):
            raise BadInput(f"{self._series.path} holds no answers of machines; remove it to compute them again")
        return np.array(list(record)) == "1"
