"""Scores of maps, and the curves behind them, as rows of a table: means over inputs with their intervals.

The rows have the long form of ``core.tables``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.stats import statistics

if TYPE_CHECKING:
    from attribution_benchmarks.core.evaluator import Results


ALONG = "removed"  # key of a row's position on a curve, such as an insertion curve


def row_kind(source: MapSource) -> str:
    """Return the ``kind`` of a row: "method", "control", or "peer" for a method of another library."""
    from attribution import METHODS

    if source.control:
        return "control"
    return "peer" if source.method in METHODS and METHODS[source.method].library else "method"


def control_row(
    source: MapSource, metric: str, values: npt.ArrayLike, rate: float | None = None, **settings: Any
) -> dict[str, Any]:
    """Return the row of a method under the controls of one kind: of each input's mean over them.

    ``values`` are (K, N), of K controls of the kind and N inputs, all of them defined; ``rate`` and ``settings`` are
    those of ``statistics.mean_interval``. In the row, which has the keys of ``tables``, ``of`` is the method and
    ``control`` the control. With several controls, ``networks`` holds the mean of each, in the order of their numbers;
    NaN without values.
    """
    values = np.asarray(values, np.float64)
    several = len(values) > 1
    estimate = statistics.mean_interval(values.T, rate=rate, **settings)
    row = {"method": source.name, "metric": metric, **estimate._asdict(), "paper": None, "kind": "control",
           "of": source.method, "control": source.control}  # fmt: skip
    if several:
        row["networks"] = values.mean(axis=1).tolist() if values.size else [np.nan] * len(values)
    return row


def score_rows(
    sources: Iterable[MapSource], groups: Sequence[InputScores], metrics: Mapping[str, Metric]
) -> list[dict[str, Any]]:
    """Return one row for each metric and source; undefined inputs are dropped and counted in ``undefined``.

    A method under several random networks has one row, see ``control_row``.
    """
    rows = []
    for group in groups:
        metric = metrics[group.where["metric"]]
        for source, members in by_kind(sources).items():
            columns = np.array([group.values[member.name] for member in members], np.float64)
            defined = np.isfinite(columns.mean(axis=0))
            clusters = None if group.clusters is None else np.asarray(group.clusters)[defined]
            settings: dict[str, Any] = {"clusters": clusters, "bounds": metric.bounds}
            if source.method and source.control:
                row = control_row(source, metric.name, columns[:, defined], metric.hit, **settings)
                if source not in members:  # random networks, be it one alone
                    row.setdefault("networks", [row["value"]])
            else:
                estimate = statistics.mean_interval(columns[0, defined], rate=metric.hit, **settings)
                row = {"method": source.name, "metric": metric.name, **estimate._asdict(), "paper": None,
                       "kind": row_kind(source)}  # fmt: skip
            row["undefined"] = int((~defined).sum())
            if not defined.any():
                row["reason"] = "undefined for every input"
            rows.append(row)
    return rows


def curve_name(metric: Metric) -> str:
    """Return the name of a metric's curve in rows, such as ``insertion_curve``."""
    return f"{metric.name}_curve"


def curve_points(metric: Metric, curves: np.ndarray, clusters: statistics.Clusters = None) -> list[dict[str, Any]]:
    """Return the mean curve of some inputs with its intervals, one row per point; none without inputs.

    ``curves`` are (N, points) numbers of a metric with ``curve``; inputs with NaN are dropped. ``clusters`` is the
    cluster of each input; None for independent inputs. Rows have ``metric``, ``value``, ``low``, ``high``, ``n``,
    ``paper`` and ``removed``.
    """
    curves = np.asarray(curves, np.float64)
    known = np.isfinite(curves).all(axis=1)
    curves = curves[known]
    if not len(curves):
        return []
    kept = None if clusters is None else np.asarray(clusters)[known]
    found = statistics.means(curves, kept)
    low, high = np.nan_to_num(found.intervals(), nan=np.inf)  # clipped below
    least, most = metric.bounds or (-np.inf, np.inf)
    means = curves.mean(axis=0)
    return [
        {
            "metric": curve_name(metric), "value": float(mean), "low": float(np.clip(min(a, mean), least, most)),
            "high": float(np.clip(max(b, mean), least, most)), "n": len(curves), "paper": None, ALONG: share,
        }
        for mean, a, b, share in zip(means, low, high, metric.curve, strict=True)
    ]  # fmt: skip


def curve_rows(
    results: Results, metrics: Iterable[Metric], clusters: Sequence[Any] | None = None
) -> list[dict[str, Any]]:
    """Return the points of the curves of some metrics, a row each, of methods and model-independent controls."""
    return [
        {"method": source.name, **point, "kind": row_kind(source)}
        for metric in metrics
        if metric.curve and metric.measure
        for source in results.sources
        if not (source.method and source.control)
        for point in curve_points(metric, results.numbers(source, metric.measure)[:, 1:], clusters)
    ]


def format_controls(
    rows: Iterable[dict[str, Any]], titles: Mapping[str, str], figure: Callable[[float], str]
) -> tuple[str, int]:
    """Return rows of random networks as text, "Gradient 0.41 [0.38, 0.44]", and the number of networks.

    The value is the mean over the networks; the brackets hold the lowest and the highest of several.
    """
    rows = list(rows)
    each = [
        f"{titles[row['of']]} {figure(row['value'])}"
        + (f" [{figure(min(row['networks']))}, {figure(max(row['networks']))}]" if "networks" in row else "")
        for row in rows
    ]
    return ", ".join(each), max((len(row.get("networks", "1")) for row in rows), default=0)


def undefined_notes(groups: Iterable[InputScores]) -> list[str]:
    """Return a sentence for each metric that is undefined for some inputs."""
    notes = []
    for group in groups:
        counts = {name: int(np.isnan(np.asarray(column, np.float64)).sum()) for name, column in group.values.items()}
        metric = group.where["metric"]
        if len(counts) > 1 and len(set(counts.values())) == 1 and any(counts.values()):
            notes.append(f"{metric} is undefined for {next(iter(counts.values()))} inputs, which are left out.")
            continue
        undefined = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
        if undefined:
            notes.append(f"{metric} is undefined for some inputs, which are left out: {undefined}.")
    return notes
