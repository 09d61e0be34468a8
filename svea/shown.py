"""Test signals for a report to show: signal, true template, and the maps of all methods."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.batch import Batch, LazyBatch
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.store import ScoreStore
from svea import mnist1d, regions
from svea.metrics import METRICS
from svea.mnist1d import LENGTH, TRAIN_SIGNALS, Mnist1D

COUNT = 10


def map_bytes(maps: np.ndarray, batch: Batch, scores: Callable) -> np.ndarray:
    """Return maps as bytes with a sign, (N, 40)."""
    return report_examples.signed(np.asarray(maps).reshape(len(maps), LENGTH))


PICTURE = report_examples.MapPicture("picture", map_bytes, width=LENGTH)


def save(
    directory: str | os.PathLike,
    data: Mnist1D,
    model: Any,
    explainer: Any,
    groups: Sequence[InputScores],
    probabilities: np.ndarray,
    store: ScoreStore | None = None,
) -> str:
    """Write the signals that tell the methods apart, and return the file.

    Parameters
    ----------
    directory
        Where to write.
    data, model, explainer, store
        As for ``scoring.score_network``.
    groups
        Scores of the test signals, in their order.
    probabilities
        (1000, 10), the network's output for them.
    """
    metrics = tuple(group.where["metric"] for group in groups)
    methods = [source.method for source in explainer.sources if source.method and not source.control]
    less = [name for name, metric in METRICS.items() if metric.better == "less"]
    own = [group for group in groups if group.where["metric"] in METRICS] or list(groups)
    rows = report_examples.choose(own, less, methods, COUNT)
    (whole,) = regions.batches(data, regions.SIGNALS)
    places = [TRAIN_SIGNALS + row for row in rows]
    names, files = ([column[place] for place in places] for column in (whole.names, whole.files))
    maps = report_examples.maps_of(
        explainer,
        PICTURE,
        [LazyBatch(names, files, lambda: whole.load().take(places))],
        {"benchmark": "svea", "model": model.fingerprint, "data": mnist1d.FINGERPRINT},
        [regions.batches],
        store,
        (LENGTH,),
    )
    examples = []
    for place, row in enumerate(rows):
        predicted, truth = int(probabilities[row].argmax()), int(data.test.labels[row])
        facts = f"predicted class {predicted}, {'rightly' if predicted == truth else f'true class {truth}'}"
        view = report_examples.ExampleView("", data.test.signals[row], data.test.template[row],
                          {name: found[place] for name, found in maps.items()}, facts)  # fmt: skip
        examples.append(report_examples.Example(groups[0].inputs[row], metrics, f"Test signal {row}", (view,)))
    every = report_examples.InputPictures(metrics, tuple(groups[0].inputs), data.test.signals.astype(np.float32))
    return report_examples.save(directory, examples, [every])
