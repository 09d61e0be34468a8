"""One value per input and method, saved next to a table for paired tests.

A file is one JSON document::

    {"benchmark": "signals", "groups": [
      {"where": {"metric": "drop"}, "inputs": ["0", "1"], "clusters": null, "values": {"rise": [3.1, 0.0]}}]}

A group is a set of inputs that every method was scored on by one metric; ``where`` has the metric and other keys of the
table's rows. ``clusters`` is the cluster of each input, such as the image of a question. Missing values are null.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.file_io.files import atomic_write
from attribution.file_io.reading import read_json


@dataclasses.dataclass(frozen=True)
class InputScores:
    """Values of several methods for the same inputs.

    Attributes
    ----------
    where
        ``metric`` and other keys of the table's rows.
    inputs
        (N,) names.
    values
        Method or control -> (N,) floats, NaN for missing values; their mean is the method's score.
    clusters
        (N,) cluster of each input; None for independent inputs.
    """

    where: Mapping[str, str]
    inputs: Sequence[str]
    values: Mapping[str, Sequence[float] | np.ndarray]
    clusters: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, column in [*self.values.items(), ("clusters", self.clusters)]:
            if column is not None and len(column) != len(self.inputs):
                raise ValueError(f"{name!r} has {len(column)} values for {len(self.inputs)} inputs")


def save(path: str | os.PathLike[str], benchmark: str, groups: Sequence[InputScores]) -> None:
    """Write groups to a file, whole or not at all.

    Parameters
    ----------
    path
        File to write; an existing one is replaced.
    benchmark
        Its name.
    groups
        Scores; float64 values are saved exactly.
    """
    document = {"benchmark": benchmark, "groups": [_plain(group) for group in groups]}
    atomic_write(path, json.dumps(document, allow_nan=False) + "\n")


def load(path: str | os.PathLike[str]) -> list[InputScores]:
    """Read what ``save`` wrote.

    Raises
    ------
    BadInput
        If the file is damaged.
    """
    try:
        document = read_json(path)
        return [
            InputScores(
                group["where"],
                group["inputs"],
                {
                    name: [math.nan if value is None else float(value) for value in column]
                    for name, column in group["values"].items()
                },
                group["clusters"],
            )
            for group in document["groups"]
        ]
    except (BadInput, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} holds no scores of inputs ({error}); remove it to compute it again") from error


def _plain(group: InputScores) -> dict[str, Any]:
    """Return a group as JSON, NaN as null."""
    return {
        "where": dict(group.where),
        "inputs": [str(name) for name in group.inputs],
        "clusters": None if group.clusters is None else [str(name) for name in group.clusters],
        "values": {
            name: [float(value) if math.isfinite(value) else None for value in column]
            for name, column in group.values.items()
        },
    }
