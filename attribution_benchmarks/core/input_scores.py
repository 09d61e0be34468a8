"""One value per input and method, saved next to a table for paired tests.

A file is one JSON document::

    {"benchmark": "signals", "groups": [
      {"where": {"metric": "drop"}, "inputs": ["0", "1"], "clusters": null, "values": {"rise": [3.1, 0.0]}}]}

A group is a set of inputs that every method was scored on by one metric; ``where`` has the metric and other keys of the
table's rows. ``clusters`` is the cluster of each input, such as the image of a question. Missing values are null. With
several networks, a value is a list with one number per network.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attribution.errors import BadInput
from attribution.files import atomic_write
from attribution.reading import read_json


@dataclasses.dataclass(frozen=True)
class InputScores:
    """Values of several methods for the same inputs."""

    where: Mapping[str, str]  # ``metric`` and other keys of the table's rows
    inputs: Sequence[str]  # (N,) names
    # Method or control -> (N,) floats, or (N, K) of K networks, NaN for missing values; their mean is its score.
    values: Mapping[str, Sequence[float] | np.ndarray]
    clusters: Sequence[str] | None = None  # (N,) cluster of each input; None for independent inputs

    def __post_init__(self) -> None:
        for name, column in [*self.values.items(), ("clusters", self.clusters)]:
            if column is not None and len(column) != len(self.inputs):
                raise ValueError(f"{name!r} has {len(column)} values for {len(self.inputs)} inputs")

    def by_network(self, name: str) -> npt.NDArray[np.float64]:
        """Return the values of a method or control, (N, K) float64 of K networks."""
        values = np.asarray(self.values[name], np.float64)
        return values[:, None] if values.ndim == 1 else values


def stack(groups: Sequence[InputScores]) -> InputScores:
    """Return the scores of several networks as one group of (N, K) values, NaN where a network has no score.

    Of one group per network and the same metric. Inputs are those of all groups, methods those of the first.
    """
    inputs = list(dict.fromkeys(name for group in groups for name in group.inputs))
    values = {name: np.stack([_at(group, name, inputs) for group in groups], axis=1) for name in groups[0].values}
    clusters = None
    if groups[0].clusters is not None:
        known = {name: one for group in groups for name, one in zip(group.inputs, group.clusters or (), strict=True)}
        clusters = [known[name] for name in inputs]
    return InputScores(groups[0].where, inputs, values, clusters)


def _at(group: InputScores, name: str, inputs: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the values of a method for some inputs, (N,); NaN for an input or a method that the group lacks."""
    known = dict(zip(group.inputs, np.asarray(group.values.get(name, ()), np.float64).tolist(), strict=False))
    return np.array([known.get(one, math.nan) for one in inputs])


def save(path: str | os.PathLike[str], benchmark: str, groups: Sequence[InputScores]) -> None:
    """Write groups of a benchmark to a file, whole or not at all; float64 values are saved exactly."""
    document = {"benchmark": benchmark, "groups": [_plain(group) for group in groups]}
    atomic_write(path, json.dumps(document, allow_nan=False) + "\n")


def load(path: str | os.PathLike[str]) -> list[InputScores]:
    """Read what ``save`` wrote; raise ``BadInput`` if the file is damaged."""
    try:
        document = read_json(path)
        return [
            InputScores(
                group["where"],
                group["inputs"],
                {name: _floats(column) for name, column in group["values"].items()},
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
        "values": {name: _finite(np.asarray(column, np.float64).tolist()) for name, column in group.values.items()},
    }


def _floats(column: Sequence[Any]) -> list[Any]:
    """Return numbers, or lists of numbers, null as NaN."""
    return [_floats(one) if isinstance(one, list) else math.nan if one is None else float(one) for one in column]


def _finite(column: list[Any]) -> list[Any]:
    """Return numbers, or lists of numbers, NaN as null."""
    return [_finite(one) if isinstance(one, list) else one if math.isfinite(one) else None for one in column]
