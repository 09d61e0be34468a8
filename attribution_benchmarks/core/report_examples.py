"""Inputs to look at: their pictures, where the truth is, and the maps of all methods, in one file for a report.

Maps are kept as a report shows them, reduced to one byte a position, in the store of all scores: what was drawn once is
not explained again. Which inputs are worth a look is read from the scores: those that tell most methods' best and
worst cases.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from zipfile import BadZipFile

import numpy as np

from attribution.errors import BadInput
from attribution.file_io.files import atomic_write
from attribution_benchmarks.core.batch import LazyBatch
from attribution_benchmarks.core.evaluator import Evaluator
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.metrics.per_sample import PerSampleMetric

FILE = "inputs.npz"
# Methods of the user's own whose extremes are looked for. They cost two inputs under all methods, more than the method
# itself, so that a second one is shown on the inputs that are there.
_OWN_AT_MOST = 1


@dataclasses.dataclass(frozen=True)
class ExampleView:
    """One picture under one network.

    Attributes
    ----------
    title
        What it is, such as the network that is asked.
    picture
        (H, W, 3) uint8, or (T,) numbers of a signal.
    truth
        (positions...) bool, where a map should be; None where nothing is known.
    maps
        Method -> (positions...) uint8, as ``MapPicture`` has them.
    facts
        What is known of it, such as the predicted class; a few words.
    """

    title: str
    picture: np.ndarray
    truth: np.ndarray | None
    maps: Mapping[str, np.ndarray]
    facts: str = ""


@dataclasses.dataclass(frozen=True)
class Example:
    """An input with its views.

    Attributes
    ----------
    input
        Its name among the input scores.
    metrics
        Metrics whose scores of this name are its own.
    title
        What it is, in a few words.
    views
        One, or two where a metric compares two networks or two pictures.
    """

    input: str
    metrics: tuple[str, ...]
    title: str
    views: tuple[ExampleView, ...]


@dataclasses.dataclass(frozen=True)
class InputPictures:
    """The pictures of all inputs of some metrics: ``pictures`` are (N, H, W, 3) uint8 or (N, T) numbers."""

    metrics: tuple[str, ...]
    inputs: tuple[str, ...]
    pictures: np.ndarray


class MapPicture(PerSampleMetric):
    """A map as a picture: one byte a position, kept as text.

    The function returns (N, positions) whole numbers from 0 to 255. ``SIGNED`` is what zero is for maps with a sign.
    """

    SIGNED = 127

    def to_records(self, numbers: np.ndarray) -> list[str]:
        """Return each map as base64."""
        numbers = np.asarray(numbers).reshape(len(numbers), -1)
        if numbers.shape[1] != self.width:
            raise ValueError(f"measure '{self.name}' gave {numbers.shape[1]} positions a map, not {self.width}")
        return [base64.b64encode(line.astype(np.uint8).tobytes()).decode() for line in numbers]

    def from_record(self, record: str) -> np.ndarray:
        """Return the (width,) float64 numbers of a record."""
        numbers = np.frombuffer(base64.b64decode(record, validate=True), np.uint8)
        if numbers.shape != (self.width,):
            raise ValueError(f"{len(numbers)} positions in place of {self.width}")
        return numbers.astype(np.float64)


def unsigned(maps: np.ndarray) -> np.ndarray:
    """Return maps of [0, 1] as bytes; what lies outside is cut off."""
    return np.rint(255 * np.clip(np.nan_to_num(maps), 0, 1)).astype(np.uint8)


def signed(maps: np.ndarray) -> np.ndarray:
    """Return maps as bytes, each scaled by its largest size, zero at ``MapPicture.SIGNED``; (N, positions...)."""
    maps = np.nan_to_num(np.asarray(maps, np.float64))
    largest = np.abs(maps).reshape(len(maps), -1).max(axis=1).reshape(-1, *[1] * (maps.ndim - 1))
    scaled = np.divide(maps, largest, out=np.zeros_like(maps), where=largest > 0)
    return np.rint(MapPicture.SIGNED * (1 + scaled)).astype(np.uint8)


def maps_of(
    explainer: Any,
    measure: MapPicture,
    lazy_batches: Iterable[LazyBatch],
    key: Mapping,
    code: Sequence[Callable] = (),
    store: ScoreStore | None = None,
    shape: Sequence[int] = (),
) -> dict[str, np.ndarray]:
    """Return the maps of a run's methods as pictures, from the store where they are there.

    Parameters
    ----------
    explainer, key, code, store
        As of ``evaluator.Evaluator``.
    measure
        Makes the pictures.
    lazy_batches
        The inputs.
    shape
        Of one map.

    Returns
    -------
    dict
        Method -> (N, *shape) uint8.
    """
    measure = dataclasses.replace(measure, of_controls=False)
    scored = Evaluator(explainer, [measure], key, code, store).run(lazy_batches)
    return {
        source.method: scored.numbers(source, measure).astype(np.uint8).reshape(-1, *shape)
        for source in scored.sources
        if source.method and not source.control
    }


def choose(
    groups: Sequence[InputScores], less_is_better: Sequence[str], methods: Sequence[str], count: int
) -> list[int]:
    """Choose inputs that show the methods of the house at their best and at their worst, then those of one's own.

    Best and worst are against the mean of all methods on the same input, so that hard inputs are not everybody's worst.
    The choice among the house's methods knows nothing of those of one's own, so that adding one shows other inputs
    besides, and not instead.

    Parameters
    ----------
    groups
        Scores of the same inputs under some metrics.
    less_is_better
        Metrics of which less is better.
    methods
        To look at.
    count
        Inputs; up to two more for the first method of one's own.

    Returns
    -------
    list of int
        Places among the inputs, rising.
    """
    methods = [name for name in methods if all(name in group.values for group in groups)]
    house = [name for name in methods if ":" not in name] or list(methods)
    if not house:
        return list(range(min(count, len(groups[0].inputs))))
    goals = np.concatenate([_goals(group, group.where["metric"] in less_is_better, house, house) for group in groups])
    chosen: list[int] = []
    reached = np.zeros(len(goals))
    for _ in range(min(count, goals.shape[1])):
        gain = np.maximum(goals, reached[:, None]).sum(axis=0)
        gain[chosen] = -1
        chosen.append(int(gain.argmax()))
        reached = np.maximum(reached, goals[:, chosen[-1]])
    for name in [name for name in methods if ":" in name][:_OWN_AT_MOST]:
        best, worst = _goals(groups[0], groups[0].where["metric"] in less_is_better, house, [name])
        for ends in (best, worst):
            if not any(ends[place] == ends.max() for place in chosen):
                chosen.append(int(ends.argmax()))
    return sorted(chosen)


def _goals(group: InputScores, less: bool, among: Sequence[str], methods: Sequence[str]) -> np.ndarray:
    """Return how far each input is each method's best, and its worst: shares of 1, (2 methods, inputs)."""
    values = {name: np.nan_to_num(np.asarray(group.values[name], float)) for name in {*among, *methods}}
    mean = np.mean([values[name] for name in among], axis=0)
    led = np.stack([(mean - values[name]) if less else (values[name] - mean) for name in methods])
    ranks = (led[:, :, None] > led[:, None, :]).mean(axis=2) if led.shape[1] <= 300 else _ranks(led)
    return np.concatenate([ranks, 1 - ranks])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return shares of smaller values along each line, without a table of all pairs."""
    ordered = np.sort(values, axis=1)
    return np.stack([np.searchsorted(line, row) for line, row in zip(ordered, values, strict=True)]) / values.shape[1]


def save(directory: str | os.PathLike, shown: Sequence[Example], pictures: Sequence[InputPictures]) -> str:
    """Write ``inputs.npz`` into a directory, whole or not at all, and return its path; the same input, same bytes."""
    arrays: dict[str, Any] = {}

    def kept(array: np.ndarray | None) -> str | None:
        if array is None:
            return None
        name = f"array_{len(arrays)}"
        arrays[name] = np.asarray(array)
        return name

    def described(view: ExampleView) -> dict:
        return {
            "title": view.title, "facts": view.facts, "picture": kept(view.picture), "truth": kept(view.truth),
            "methods": list(view.maps), "maps": kept(np.stack(list(view.maps.values())) if view.maps else None),
        }  # fmt: skip

    index = {
        "shown": [
            {"input": one.input, "metrics": one.metrics, "title": one.title, "views": list(map(described, one.views))}
            for one in shown
        ],
        "pictures": [
            {"metrics": one.metrics, "inputs": one.inputs, "pictures": kept(one.pictures)} for one in pictures
        ],
    }
    path = os.path.join(directory, FILE)
    written = np.array(json.dumps(index))
    atomic_write(path, lambda file: np.savez_compressed(file, index=written, **arrays))
    return path


def load(path: str | os.PathLike) -> tuple[list[Example], list[InputPictures]]:
    """Read what ``save`` wrote.

    Raises
    ------
    BadInput
        If the file is damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            index = json.loads(str(arrays["index"]))

            def array(name: str | None) -> Any:
                return None if name is None else arrays[name]

            def view(one: Mapping) -> ExampleView:
                maps = array(one["maps"])
                named = {} if maps is None else dict(zip(one["methods"], maps, strict=True))
                return ExampleView(one["title"], array(one["picture"]), array(one["truth"]), named, one["facts"])

            return [
                Example(one["input"], tuple(one["metrics"]), one["title"], tuple(map(view, one["views"])))
                for one in index["shown"]
            ], [
                InputPictures(tuple(one["metrics"]), tuple(one["inputs"]), array(one["pictures"]))
                for one in index["pictures"]
            ]
    except (OSError, EOFError, ValueError, KeyError, TypeError, RecursionError, BadZipFile, zlib.error) as error:
        raise BadInput(f"{path} cannot be read ({error}); remove it to make it anew") from error
