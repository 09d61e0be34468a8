"""What known truth recommends for a kind of model and input, with its record on benchmarks that it has not seen.

``known_truth.csv`` has the scores of methods on tasks of known truth. A score counts as its share of the way from the
mean of all methods of the task, which is what a random choice gets, to the best one.
"""

from __future__ import annotations

import csv
import functools
import pathlib
from typing import Any

import numpy as np

from attribution_benchmarks.stats.statistics import Estimate, mean_interval

KINDS = {
    "convolutional": "pictures and signals in networks of several convolutions",
    "tokens": "tokens",
    "other": "vectors, and pictures in networks of at most one convolution",
}


class Task:
    """Method -> its share of the way, and its agreement with removal where that was measured."""

    def __init__(self, rows: list[dict[str, str]]):
        self.benchmark, self.kind = rows[0]["benchmark"], rows[0]["kind"]
        scores = np.array([float(row["score"]) for row in rows])
        shares = (scores - scores.mean()) / (scores.max() - scores.mean())
        self.shares = dict(zip((row["method"] for row in rows), shares.tolist(), strict=True))
        self.agreement = {row["method"]: float(row["agreement"]) for row in rows if row["agreement"]}


@functools.cache
def tasks() -> tuple[Task, ...]:
    """Return all tasks."""
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    with open(pathlib.Path(__file__).with_name("known_truth.csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["benchmark"], row["task"]), []).append(row)
    return tuple(map(Task, found.values()))


def kind_of(model: Any, inputs: np.ndarray) -> str:
    """Return the kind of a model and its (N, ...) inputs, a key of ``KINDS``."""
    if inputs.dtype.kind in "iu" and inputs.ndim == 2:
        return "tokens"
    convolutions = sum("Conv" in node.op for node in model.graph.nodes.values())
    return "convolutional" if inputs.ndim > 2 and convolutions > 1 else "other"


def ranked(kind: str = "", without: str = "") -> list[str]:
    """Return the methods that every task has, the best first: by their mean over the benchmarks of a kind.

    ``without`` is a benchmark that does not count. All others count where none is of the kind.
    """
    others = [task for task in tasks() if task.benchmark != without]
    others = [task for task in others if task.kind == kind] or others

    def mean(name: str) -> float:
        benchmarks = {task.benchmark for task in others}
        shares = [[task.shares[name] for task in others if task.benchmark == one] for one in benchmarks]
        return float(np.mean([np.mean(each) for each in shares]))

    everywhere = [name for name in tasks()[0].shares if all(name in task.shares for task in tasks())]
    return sorted(everywhere, key=lambda name: (-mean(name), name))


def record(kind: str) -> Estimate:
    """Return the mean share of the advice over the tasks of a kind, each without its benchmark, as of ``ranked``."""
    of_kind = [task for task in tasks() if task.kind == kind]
    shares = [task.shares[ranked(kind, task.benchmark)[0]] for task in of_kind]
    return mean_interval(shares, clusters=[task.benchmark for task in of_kind])
