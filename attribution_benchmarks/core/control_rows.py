"""Scores of methods' own maps under a control: what a method finds on another network or for another class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.stats import statistics


def control_row(
    source: MapSource, metric: str, values: npt.ArrayLike, rate: float | None = None, **settings: Any
) -> dict:
    """Return the row of a method under the controls of a kind: of each input's mean over them.

    Parameters
    ----------
    source
        Of the kind.
    metric
        Its name in the row.
    values : (K, N)
        Of K controls of the kind and N inputs, all of them defined.
    rate
        See ``statistics.mean_interval``; without effect on means over several controls, which are no hits.
    settings
        Others of ``statistics.mean_interval``.

    Returns
    -------
    dict
        Keys of ``tables``: ``of`` and ``control`` say of which method and under what; where there are several,
        ``networks`` has the mean of each, in the order of their numbers, nan where there are no values.
    """
    values = np.asarray(values, np.float64)
    several = len(values) > 1
    estimate = statistics.mean_interval(values.mean(axis=0), rate=None if several else rate, **settings)
    row = {"method": source.name, "metric": metric, **estimate._asdict(), "paper": None, "kind": "control",
           "of": source.method, "control": source.control}  # fmt: skip
    if several:
        row["networks"] = values.mean(axis=1).tolist() if values.size else [np.nan] * len(values)
    return row


def format_controls(rows: Iterable[dict], titles: Mapping[str, str], figure: Callable[[float], str]) -> tuple[str, int]:
    """Return the rows of random networks as words, "Gradient 0.41 [0.38, 0.44]", and how many networks there are.

    Where there are several, the figure is their mean, and the least and the largest of theirs stand in brackets.
    """
    rows = list(rows)
    each = [
        f"{titles[row['of']]} {figure(row['value'])}"
        + (f" [{figure(min(row['networks']))}, {figure(max(row['networks']))}]" if "networks" in row else "")
        for row in rows
    ]
    return ", ".join(each), max((len(row.get("networks", "1")) for row in rows), default=0)
