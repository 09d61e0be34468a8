"""The rows of SVEA's table: scores of one network or several, with intervals, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.rows import control_row, row_kind
from attribution_benchmarks.metrics import curves
from attribution_benchmarks.stats import correlation, statistics
from svea.mnist1d import TEST_SIGNALS, TRAIN_SIGNALS
from svea.scoring import NetworkScores

# Table 1 of Sattarzadeh et al. (ICCVW 2021), in percent: method -> metric -> figure, in the order of the table.
# SmoothGrad is discussed in the text only.
TABLE_1 = {
    "gradient": {"roe_test": 32.7, "drop": 29.54, "increase": 29.6},
    "xgrad_cam": {"roe_test": 39.3, "drop": 24.69, "increase": 37.7},
    "score_cam": {"roe_test": 42.1, "drop": 27.03, "increase": 28.9},
    "grad_cam": {"roe_test": 47.6, "drop": 26.18, "increase": 36.4},
    "grad_cam_plus_plus": {"roe_test": 59.0, "drop": 17.81, "increase": 33.9},
    "sise": {"roe_test": 61.5, "drop": 12.19, "increase": 38.5},
    "integrated_gradients": {"roe_test": 65.1, "drop": 9.85, "increase": 40.4},
    "rise": {"roe_test": 66.4, "drop": 7.64, "increase": 41.0},
    "raw_signal": {"roe_test": 29.7},
}


def paper_figure(method: str, metric: str) -> float | None:
    """Return the paper's figure in percent, or None where it has none."""
    return TABLE_1.get(method, {}).get(metric)


def values_of(networks: Sequence[NetworkScores], source: MapSource, metric: str) -> np.ndarray:
    """Return one value per network and test signal, (networks, 1000) float64; KeyError where there is none."""
    return np.stack([network.sources[source].values[metric] for network in networks])


def long_rows(networks: Sequence[NetworkScores], metrics: Mapping[str, Metric], seed: int) -> list[dict]:
    """Return the scores in the long form of ``core.tables``.

    The value is the mean over test signals and networks. The interval is over the 1,000 test signals, each taken with
    its mean over the networks; networks and support vector machines stay as they are. Several networks add ``std``, the
    standard deviation of their scores (divided by their number less one), and ``networks``, the scores themselves. Rows
    of methods have the percentage of all 5,000 maps that are zero everywhere in ``zero_maps``. The rows of methods
    under random networks come last, see ``core.rows.control_row``.

    Parameters
    ----------
    networks
        Scores of one or several networks, on the same data with the same methods.
    metrics
        Which rows to make, by name.
    seed
        Seed of the bootstrap.
    """
    rows, of_controls = [], []
    for source, members in by_kind(networks[0].sources).items():
        for name, metric in metrics.items():
            if any(name not in networks[0].sources[member].values for member in members):
                continue
            if source.method and source.control:
                values = np.array([values_of(networks, member, name).mean(axis=0) for member in members])
                defined = values[:, np.isfinite(values).all(axis=0)]
                of_controls.append(control_row(source, name, defined, metric.hit, seed=seed, bounds=metric.bounds))
            else:
                rows += _rows_of(networks, source, metric, seed)
    return rows + of_controls


def _rows_of(networks: Sequence[NetworkScores], source: MapSource, metric: Metric, seed: int) -> list[dict]:
    """Return the row of a method or control by a metric, and the points of its curve."""
    values = values_of(networks, source, metric.name)
    defined = np.isfinite(values).all(axis=0)
    estimate = statistics.mean_interval(
        values[:, defined].mean(axis=0), seed=seed, rate=metric.hit, bounds=metric.bounds
    )
    row = {
        "method": source.name, "metric": metric.name, **estimate._asdict(),
        "paper": paper_figure(source.name, metric.name), "kind": row_kind(source),
    }  # fmt: skip
    if len(networks) > 1:
        row["std"] = float(values.mean(axis=1).std(ddof=1))
        row["networks"] = values.mean(axis=1).tolist()
    scores = [network.sources[source] for network in networks]
    if not source.control and metric.name == "roe_test":
        zero_maps = float(np.mean([each.zero_maps for each in scores]))
        row["zero_maps"] = 100.0 * zero_maps / (TRAIN_SIGNALS + TEST_SIGNALS)
    if metric.name not in scores[0].curves:
        return [row]
    points = curves.points(metric, np.mean([each.curves[metric.name] for each in scores], axis=0), seed=seed)
    return [row, *({"method": source.name, **point, "kind": row["kind"]} for point in points)]


def input_scores(networks: Sequence[NetworkScores], metrics: Mapping[str, Metric]) -> list[InputScores]:
    """Return one value per test signal, its mean over the networks, of every method and control."""
    inputs = [f"test signal {row}" for row in range(TEST_SIGNALS)]
    return [
        InputScores(
            {"metric": metric},
            inputs,
            {
                source.name: values_of(networks, source, metric).mean(axis=0)
                for source, scores in networks[0].sources.items()
                if metric in scores.values
            },
        )
        for metric in metrics
    ]


def rank_correlation(
    networks: Sequence[NetworkScores], metric: str, seed: int, without: Sequence[str] = ()
) -> tuple[statistics.Estimate, int] | None:
    """Compare our order of the methods with the paper's.

    Parameters
    ----------
    networks
        As for ``long_rows``.
    metric
        ``roe_test``, ``drop`` or ``increase``.
    seed
        Seed of the bootstrap.
    without
        Methods to leave out.

    Returns
    -------
    (Estimate, int) or None
        Spearman's rank correlation with its bootstrap interval over the test signals, and the number of methods; None
        for fewer than three methods with a figure in the paper.
    """
    names = [name for name in networks[0].methods if name in TABLE_1 and name not in without]
    if len(names) < 3:
        return None
    paper = [paper_figure(name, metric) for name in names]
    columns = np.stack([values_of(networks, MapSource(name), metric).mean(axis=0) for name in names], axis=1)
    drawn = correlation.spearman(statistics.bootstrap_means(columns, seed=seed), paper)
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    value = correlation.spearman(columns.mean(axis=0), paper)
    estimate = statistics.Estimate(value, min(float(low), value), max(float(high), value), len(columns))
    return estimate, len(names)
