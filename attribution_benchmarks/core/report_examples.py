"""Example inputs of a report: their pictures, the ground truth and the maps of all methods, in one file.

Maps are stored beside the scores with one byte a position, so none is computed twice. The examples are the inputs that
show the best and the worst case of most methods by their scores.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.core.batch import LazyBatch
from attribution_benchmarks.core.evaluator import Evaluator
from attribution_benchmarks.core.metric import PerSampleMetric
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.core.store import ScoreStore

# Custom methods whose extremes are added. They cost two inputs by all methods, more than the method itself, so a second
# custom method is shown on the inputs already chosen.
_CUSTOM_METHODS = 1


class MapPicture(PerSampleMetric):
    """A map as a picture: one byte a position, stored as text.

    The function returns (N, positions) integers from 0 to 255. ``SIGNED`` is the value of zero in signed maps.
    """

    SIGNED = 127

    def to_records(self, numbers: npt.ArrayLike) -> list[str]:
        """Return each map as base64."""
        numbers = np.asarray(numbers)
        numbers = numbers.reshape(len(numbers), -1)
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
    """Return maps as bytes, clipped to [0, 1]."""
    return np.asarray(np.rint(255 * np.clip(np.nan_to_num(maps), 0, 1)), np.uint8)


def maps_of(
    explainer: Any,
    measure: MapPicture,
    lazy_batches: Iterable[LazyBatch],
    key: Mapping[str, Any],
    code: Sequence[Callable[..., Any]] = (),
    store: ScoreStore | None = None,
    shape: Sequence[int] = (),
) -> dict[str, np.ndarray]:
    """Return the maps of a run's methods as pictures, method -> (N, *shape) uint8; stored ones are not computed again.

    ``measure`` makes the pictures of the inputs ``lazy_batches``. For ``explainer``, ``key``, ``code`` and ``store``
    see ``evaluator.Evaluator``.
    """
    measure = dataclasses.replace(measure, of_controls=False)
    scored = Evaluator(explainer, [measure], key, code, store).run(lazy_batches)
    return {
        source.method: scored.of(source, measure).astype(np.uint8).reshape(-1, *shape)
        for source in scored.sources
        if source.method and not source.control
    }


def choose(
    groups: Sequence[InputScores], less_is_better: Sequence[str], methods: Sequence[str], count: int
) -> list[int]:
    """Choose inputs that show the registered methods at their best and at their worst, then those of a custom method.

    Best and worst are relative to the mean of all methods on the same input, so that hard inputs are not the worst of
    every method. Custom methods do not influence the choice for registered ones: adding one adds inputs.

    Parameters
    ----------
    groups
        Scores of the same inputs under some metrics, of which less is better for ``less_is_better``.
    methods
        Names of the methods.
    count
        Number of inputs; up to two more for the first custom method.

    Returns
    -------
    list of int
        Positions among the inputs, in rising order.
    """
    scored_by_all = set(methods).intersection(*(group.values for group in groups))
    methods = list(filter(scored_by_all.__contains__, methods))
    custom = [name for name in methods if ":" in name]
    registered = [name for name in methods if name not in custom] or methods
    if not registered:
        return list(range(min(count, len(groups[0].inputs))))
    goals = [_goals(group, less_is_better, registered, registered) for group in groups]
    chosen = _cover(np.concatenate(goals), count)
    for name in custom[:_CUSTOM_METHODS]:
        for ends in _goals(groups[0], less_is_better, registered, [name]):
            if ends[chosen].max() < ends.max():
                chosen.append(int(ends.argmax()))
    return sorted(chosen)


def _cover(goals: np.ndarray, count: int) -> list[int]:
    """Choose inputs, one after the other, each of which raises the sum of the goals' maxima most; (goals, inputs)."""
    chosen: list[int] = []
    reached = np.zeros(len(goals))
    for _ in range(min(count, goals.shape[1])):
        gain = np.maximum(goals, reached[:, None]).sum(axis=0)
        gain[chosen] = -1
        chosen.append(int(gain.argmax()))
        reached = np.maximum(reached, goals[:, chosen[-1]])
    return chosen


def _goals(
    group: InputScores, less_is_better: Sequence[str], among: Sequence[str], methods: Sequence[str]
) -> np.ndarray:
    """Return the rank of each input among each method's best, and among its worst, in [0, 1]; (2 methods, inputs)."""
    values = {name: np.nan_to_num(group.by_network(name)).mean(axis=1) for name in {*among, *methods}}
    mean = np.mean([values[name] for name in among], axis=0)
    sign = -1 if group.where["metric"] in less_is_better else 1
    led = np.stack([sign * (values[name] - mean) for name in methods])
    smaller = [np.searchsorted(np.sort(line), line) for line in led]
    ranks = np.stack(smaller) / led.shape[1]
    return np.concatenate([ranks, 1 - ranks])
