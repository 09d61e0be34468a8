"""Which metrics tell the truth itself, taken as a map, from maps that know no network.

A metric that does not do that says little of methods. On every input the truth's value stands against each control's:
"told" is the share of inputs on which the truth has the better one, ties as one half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attribution_benchmarks.core.definition import ORACLE
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report.matrix import Column, Matrix
from attribution_benchmarks.stats import statistics


class Told(NamedTuple):
    """How well one metric tells the truth from a control: the share of ``n`` inputs, with its interval."""

    control: str
    share: float
    low: float
    high: float
    n: int


class Power(NamedTuple):
    """What a column's metric makes of the truth: its control that is a bound, its value, and each rival, worst first.

    ``told`` is empty where the controls have the same inputs as nothing else.
    """

    column: Column
    truth: str
    value: float
    told: tuple[Told, ...]


def ranked(matrix: Matrix, scores: Mapping[str, Sequence[InputScores]], seed: int = 0) -> list[Power]:
    """Return the columns whose truth is known as a map, from the one that tells it from every control most often.

    Parameters
    ----------
    matrix, scores
        As of ``verdicts.judge``.
    seed
        Of the intervals' draws.
    """
    found = []
    for column in matrix.columns:
        groups = [group for group in scores.get(column.benchmark, ()) if column.takes(group.where)]
        bounds = [name for name, why in column.excluded.items() if why == ORACLE]
        if len(groups) != 1:
            continue
        (group,) = groups
        rivals = [name for name in matrix.controls if name in group.values and name not in column.excluded]
        for truth in [name for name in bounds if name in group.values and rivals][:1]:
            values = np.asarray(group.values[truth], np.float64)
            told = [_told(group, values, name, column, seed) for name in rivals]
            told = sorted((one for one in told if one.n), key=lambda one: (one.share, one.control))
            if told:
                found.append(Power(column, truth, float(np.nanmean(values)), tuple(told)))
    return sorted(found, key=lambda one: (-one.told[0].share, -float(np.mean([each.share for each in one.told]))))


def _told(group: InputScores, truth: np.ndarray, name: str, column: Column, seed: int) -> Told:
    ahead = truth - np.asarray(group.values[name], np.float64)
    known = np.isfinite(ahead)
    won = (1 + np.sign(ahead[known] if column.higher_is_better else -ahead[known])) / 2
    clusters = None if group.clusters is None else np.asarray(group.clusters)[known]
    estimate = statistics.mean_interval(won, seed=seed, clusters=clusters, bounds=(0.0, 1.0))
    return Told(name, estimate.value, estimate.low, estimate.high, int(known.sum()))
