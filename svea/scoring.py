"""Score regions on one network: per test signal, was its window classified rightly, and what did confidence do."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, LazyBatch, MapSource
from attribution_benchmarks.core.evaluator import Evaluator
from attribution_benchmarks.core.explainer import Explainer
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import has_variables, networks
from attribution_benchmarks.core.saved_maps import MapsDirectory, SavedMaps
from attribution_benchmarks.core.sharded_run import ShardedRun
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.metrics.per_sample import PerSampleMetric
from svea import controls, faithfulness, mnist1d, regions, roe
from svea.methods import COSTLY
from svea.mnist1d import CLASSES, LENGTH, TRAIN_SIGNALS, Mnist1D
from svea.svm_cache import KeptMachines

if TYPE_CHECKING:
    from attribution.model.model import Model


@dataclass(frozen=True)
class Scores:
    """What one method, or one control, got on one network.

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


@dataclass(frozen=True)
class NetworkScores:
    """Scores of all methods and controls on one network.

    Attributes
    ----------
    methods, controls
        Name -> Scores.
    probabilities
        (1000, 10), the network's output for the test signals.
    own
        MapSource -> Scores of a method's own maps under a control, such as on a random network.
    """

    methods: Mapping[str, Scores]
    controls: Mapping[str, Scores]
    probabilities: np.ndarray
    own: Mapping[MapSource, Scores] = dataclasses.field(default_factory=dict)

    def accuracy(self, data: Mnist1D) -> float:
        """Return the accuracy on the test signals in percent."""
        return float(100 * np.mean(self.probabilities.argmax(axis=1) == data.test.labels))


def load_network(path: str | os.PathLike) -> Model:
    """Load a network on MNIST-1D that gives probabilities.

    Parameters
    ----------
    path
        SavedModel directory.

    Returns
    -------
    attribution.model.model.Model

    Raises
    ------
    BadInput
        If it cannot be loaded, takes no signals of shape (40, 1), has not ten classes, or gives NaN.
    """
    model = attribution.load_model(path, score="probabilities")
    if model.num_classes != CLASSES:
        raise BadInput(f"the network {str(path)!r} has {model.num_classes} classes; MNIST-1D has {CLASSES}")
    # A wrong input shape, or weights that are NaN, are found here, before the work.
    model.scores(np.zeros((1, LENGTH, 1), np.float32))
    return model


def fit(name: str, model: Any, data: Mnist1D, layer: str = "") -> str:
    """Say how a network that fits SVEA does on the test signals, and which layer its class activation maps are of."""
    accuracy = 100 * np.mean(model.predict(data.test.signals[..., None], 1000) == data.test.labels)
    return (
        f"{name} fits SVEA: signals (batch, {LENGTH}, 1) to {CLASSES} classes, {accuracy:.1f} % of the test signals "
        f"right; {layer_of(model, layer)}"
    )


def layer_of(model: Any, layer: str = "") -> str:
    """Say which layer class activation maps are of, or why there is none."""
    try:
        return f"class activation maps of the layer {model.layer(layer or None)}"
    except BadInput as error:
        return f"no class activation maps ({error})"


def attach_live_network(model: Any) -> None:
    """Put the baseline's live network behind its SavedModel, for the methods of other libraries.

    Raises
    ------
    BadInput
        If the SavedModel is another network than SVEA's.
    """
    from attribution.methods import third_party
    from svea import baseline

    third_party.attach(model, baseline.build(seed=0))


def score_network(
    model: Any,
    data: Mnist1D,
    explainer: Explainer | SavedMaps,
    shared: Mapping[str, Metric] | None = None,
    batch_size: int = 1000,
    store: ScoreStore | None = None,
    maps_directory: MapsDirectory | None = None,
    progress: bool = False,
) -> NetworkScores:
    """Explain all 5,000 signals with each method and score the regions, the controls' too.

    Parameters
    ----------
    model
        Result of ``load_network``.
    data
        MNIST-1D.
    explainer
        Makes the maps: from ``explainer``, or ``scoring.saved_maps.SavedMaps``.
    shared
        Metrics of all benchmarks to compute beside SVEA's own, by name.
    batch_size
        Signals in one batch and in one pass.
    store
        Where regions are kept, so that none is found twice; None keeps none.
    maps_directory
        Where maps are saved; None saves none.
    progress
        Whether to show a progress bar.
    """
    import tqdm

    measures = _measures(shared)
    signals = regions.signals_of(data)
    probabilities = model.scores(data.test.signals[..., None], batch_size)
    run = _run(model, explainer, measures, store, maps_directory)
    with tqdm.tqdm(total=len(signals), desc="signals explained", unit="signal", disable=not progress) as bar:
        found = run.run(regions.batches(data, batch_size), bar.update)

    machines = KeptMachines(data, store)

    def scores(source: MapSource) -> Scores:
        region = regions.regions_of(found, source)
        values = _window_values(model, data, signals, region.starts, probabilities, batch_size, machines)
        curves = {}
        for name, measure in measures.items():
            if not measure.applies_to(source):
                continue
            numbers = found.numbers(source, measure)[TRAIN_SIGNALS:]
            values[name] = numbers[:, 0]
            if (shared or {})[name].curve:
                curves[name] = numbers[:, 1:]
        zero_maps = int(region.zero.sum()) if source.method and not source.control else None
        return Scores(values, zero_maps, region.starts, curves)

    whole = machines.correct(signals)
    return NetworkScores(
        {source.method: scores(source) for source in found.sources if source.method and not source.control},
        {
            controls.RAW_SIGNAL.name: Scores({"roe_test": 100.0 * whole}),
            **{source.control: scores(source) for source in found.sources if source.control and not source.method},
        },
        probabilities,
        {source: scores(source) for source in found.sources if source.control and source.method},
    )


def sharded_run(
    name: str,
    model: Any,
    data: Mnist1D,
    explainer: Explainer,
    shared: Mapping[str, Metric] | None = None,
    batch_size: int = 1000,
    store: ScoreStore | None = None,
    maps_directory: MapsDirectory | None = None,
) -> ShardedRun:
    """Return what ``score_network`` explains and measures, as work in batches; parameters as there."""
    run = _run(model, explainer, _measures(shared), store, maps_directory)
    return ShardedRun(
        name, run, range(regions.SIGNALS), batch_size, lambda rows, size: regions.batches(data, size, rows)
    )


def _measures(shared: Mapping[str, Metric] | None) -> dict[str, PerSampleMetric]:
    return {name: _of_test_signals(metric.measure) for name, metric in (shared or {}).items()}


def _run(model, explainer, measures: Mapping[str, PerSampleMetric], store, maps_directory) -> Evaluator:
    return Evaluator(
        explainer,
        [regions.REGION, *measures.values()],
        _key(model),
        [regions.batches],
        store,
        maps_directory=maps_directory,
    )


def explainer(model: Any, methods: Mapping, seed: int, batch_size: int, random_networks: int = 0) -> Explainer:
    """Return what explains SVEA's signals: methods of ``methods.settings``, and SVEA's controls.

    Parameters
    ----------
    model, methods, seed, batch_size
        As of ``Explainer``.
    random_networks
        How many networks of random weights methods are held against, all but ``svea.methods.COSTLY``; a network without
        variables, which has no weights to draw, against none.
    """
    count = random_networks if has_variables(model.path) else 0
    own = [name for name in methods if name not in COSTLY]
    chosen = (*networks([controls.OWN] if count else [], count), *controls.CONTROLS)
    return Explainer(model, methods, chosen, own, seed=seed, batch_size=batch_size)


def example_maps(
    explainer: Explainer | SavedMaps, data: Mnist1D, rows: Any, model: Any, store: ScoreStore | None = None
) -> dict[str, dict]:
    """Explain some test signals for figures; the maps are those that were scored.

    Parameters
    ----------
    explainer, data, model, store
        As for ``score_network``; what the store has is not explained again.
    rows
        Test signals.

    Returns
    -------
    dict
        Method -> row -> (40,) map.
    """
    rows = list(rows)
    (whole,) = regions.batches(data, regions.SIGNALS)
    places = [TRAIN_SIGNALS + row for row in rows]
    names, files = ([column[place] for place in places] for column in (whole.names, whole.files))
    run = Evaluator(explainer, [_WHOLE], _key(model), [regions.batches], store)
    found = run.run([LazyBatch(names, files, lambda: whole.load().take(places))])
    return {
        source.method: dict(zip(rows, found.numbers(source, _WHOLE), strict=True))
        for source in found.sources
        if source.method and not source.control
    }


def _whole_map(maps: np.ndarray, batch: Batch, scores: Callable) -> np.ndarray:
    """Return maps as they are, (N, 40)."""
    return np.reshape(maps, (len(maps), LENGTH))


_WHOLE = PerSampleMetric("whole_map", _whole_map, width=LENGTH, digits=9, of_controls=False)  # digits of a float32


def _key(model: Any) -> dict[str, str]:
    """Return what scores depend on besides method, code and input."""
    return {"benchmark": "svea", "model": model.fingerprint, "data": mnist1d.FINGERPRINT}


def _of_test_signals(measure: PerSampleMetric) -> PerSampleMetric:
    """Return a measure of the scored signals alone: the others train the ROE test's machines and have no other use."""

    def of_test_signals(maps: np.ndarray, batch: Batch, scores: Callable) -> np.ndarray:
        numbers = np.full((len(batch), measure.width), np.nan)
        rows = np.flatnonzero(np.asarray(batch.seeds) >= TRAIN_SIGNALS)
        if len(rows) == len(batch):  # as it is, so that what is asked of a batch once stays so
            return measure.function(maps, batch, scores)
        if len(rows):
            found = measure.function(maps[rows], batch.take(rows), scores)
            numbers[rows] = np.reshape(found, (len(rows), measure.width))
        return numbers

    return dataclasses.replace(measure, function=of_test_signals)


def _window_values(
    model, data: Mnist1D, signals, starts, probabilities, batch_size, machines: KeptMachines
) -> dict[str, np.ndarray]:
    """Return the three metrics' values of the test signals, in percent."""
    correct = machines.correct(roe.windows(signals, starts))
    kept = faithfulness.keep_windows(data.test.signals, starts[TRAIN_SIGNALS:])
    rows, top = np.arange(len(kept)), probabilities.argmax(axis=1)
    before, after = probabilities[rows, top], model.scores(kept[..., None], batch_size)[rows, top]
    return {
        "roe_test": 100.0 * correct,
        "drop": 100.0 * faithfulness.confidence_drop(before, after),
        "increase": 100.0 * faithfulness.confidence_increase(before, after),
    }
