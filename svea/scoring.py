"""Score regions on one network: per test signal, was its window classified rightly, and what did confidence do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import attribution
from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.leaderboard.store import ScoreStore
from svea import controls, faithfulness, roe
from svea.mnist1d import CLASSES, LENGTH, TRAIN_SIGNALS, Mnist1D
from svea.regions import find_regions

METRICS = {"roe_test": "ROE test %", "drop": "Drop %", "increase": "Increase %"}


@dataclass(frozen=True)
class Scores:
    """What one method, or one control, got on one network.

    Attributes
    ----------
    values
        Metric -> (1000,) float64, one value per test signal, in percent; their mean is the score.
    zero_maps
        How many of the 5,000 maps are zero everywhere; None for a control.
    starts
        (5000,) int, where the windows begin, training signals first; None where there is no window.
    """

    values: Mapping[str, np.ndarray]
    zero_maps: int | None = None
    starts: np.ndarray | None = None


@dataclass(frozen=True)
class NetworkScores:
    """Scores of all methods and controls on one network.

    Attributes
    ----------
    methods, controls
        Name -> Scores.
    probabilities
        (1000, 10), the network's output for the test signals.
    """

    methods: Mapping[str, Scores]
    controls: Mapping[str, Scores]
    probabilities: np.ndarray

    def accuracy(self, data: Mnist1D) -> float:
        """Return the accuracy on the test signals in percent."""
        return float(100 * np.mean(self.probabilities.argmax(axis=1) == data.test.labels))


def load_network(path: str):
    """Load a network on MNIST-1D that gives probabilities.

    Parameters
    ----------
    path
        SavedModel directory.

    Returns
    -------
    attribution.model.Model

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


def attach_live_network(model) -> None:
    """Put the baseline's live network behind its SavedModel, for the methods of other libraries.

    Raises
    ------
    BadInput
        If the SavedModel is another network than SVEA's.
    """
    from attribution import peers
    from svea import baseline

    peers.attach(model, baseline.build(seed=0))


def score_network(
    model, data: Mnist1D, methods: Mapping, seed: int, batch_size: int, store: ScoreStore | None = None
) -> NetworkScores:
    """Explain all 5,000 signals with each method and score the regions, the controls' too.

    Parameters
    ----------
    model
        Result of ``load_network``.
    data
        MNIST-1D.
    methods
        Result of ``methods.settings``.
    seed
        Of random methods and of the random window.
    batch_size
        Rows in one pass.
    store
        Where regions are kept, so that none is found twice; None keeps none.
    """
    signals = np.concatenate([data.train.signals, data.test.signals])
    probabilities = model.scores(data.test.signals[..., None], batch_size)
    regions = find_regions(model, signals, methods, seed, batch_size, store)

    def scores(starts, **more):
        return Scores(_window_values(model, data, signals, starts, probabilities, batch_size), starts=starts, **more)

    scored = {name: scores(found.starts, zero_maps=int(found.zero.sum())) for name, found in regions.items()}
    whole = roe.linear_svm_correct(data.train.signals, data.train.labels, data.test.signals, data.test.labels)
    baseline = {controls.RAW_SIGNAL: Scores({"roe_test": 100.0 * whole})}
    for name, control in controls.CONTROLS.items():
        peaks = [control(data.train, seed, 0), control(data.test, seed, TRAIN_SIGNALS)]
        baseline[name] = scores(roe.window_starts(np.concatenate(peaks)))
    return NetworkScores(scored, baseline, probabilities)


def example_maps(model, data: Mnist1D, methods: Mapping, rows, seed: int, batch_size: int) -> dict[str, dict]:
    """Explain some test signals for figures; the maps are those that were scored.

    Parameters
    ----------
    model, data, methods, seed, batch_size
        As for ``score_network``.
    rows
        Test signals.

    Returns
    -------
    dict
        Method -> row -> (40,) map.
    """
    rows = list(rows)
    found = attribution.explain_many(
        methods,
        model,
        data.test.signals[rows][..., None],
        seed=seed,
        batch_size=batch_size,
        keys=[TRAIN_SIGNALS + row for row in rows],
    )
    return {name: dict(zip(rows, maps.reshape(-1, LENGTH), strict=True)) for name, maps in found.items()}


def _window_values(model, data: Mnist1D, signals, starts, probabilities, batch_size) -> dict[str, np.ndarray]:
    """Return the three metrics' values of the test signals, in percent."""
    cut = roe.windows(signals, starts)
    correct = roe.linear_svm_correct(cut[:TRAIN_SIGNALS], data.train.labels, cut[TRAIN_SIGNALS:], data.test.labels)
    kept = faithfulness.keep_windows(data.test.signals, starts[TRAIN_SIGNALS:])
    rows, top = np.arange(len(kept)), probabilities.argmax(axis=1)
    before, after = probabilities[rows, top], model.scores(kept[..., None], batch_size)[rows, top]
    return {
        "roe_test": 100.0 * correct,
        "drop": 100.0 * faithfulness.confidence_drop(before, after),
        "increase": 100.0 * faithfulness.confidence_increase(before, after),
    }
