"""The rows of SVEA's table: scores of one network or several, with intervals, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import attribution
from attribution_benchmarks.core.batch import by_kind
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.rows import control_row
from attribution_benchmarks.metrics import curves
from attribution_benchmarks.stats import correlation, statistics
from svea import controls, paper_table
from svea.metrics import METRICS
from svea.mnist1d import TEST_SIGNALS, TRAIN_SIGNALS
from svea.scoring import NetworkScores


def values_of(networks: Sequence[NetworkScores], name: str, metric: str) -> np.ndarray:
    """Return one value per network and test signal, (networks, 1000) float64, in percent.

    Raises
    ------
    KeyError
        If the method or control has no such metric.
    """
    return np.stack([{**network.methods, **network.controls}[name].values[metric] for network in networks])


def long_rows(networks: Sequence[NetworkScores], metrics: Mapping[str, Metric], seed: int) -> list[dict]:
    """Return the scores in the long form of ``core.tables``.

    The value is the mean over test signals and networks. The interval is over the 1,000 test signals, each
    taken with its mean over the networks; networks and support vector machines stay as they are. Several networks
    add ``std``, the standard deviation of their scores (divided by their number less one), and ``networks``, the scores
    themselves. Rows of methods say in ``zero_maps`` which percentage of all 5,000 maps was zero everywhere.

    Parameters
    ----------
    networks
        Scores of one or several networks, on the same data with the same methods.
    metrics
        Which rows to make, by name.
    seed
        Seed of the bootstrap.
    """
    rows = []
    for kind, scored in (("method", networks[0].methods), ("control", networks[0].controls)):
        for name, scores in scored.items():
            for metric in (metric for metric in metrics if metric in scores.values):
                values = values_of(networks, name, metric)
                defined = np.isfinite(values).all(axis=0)
                estimate = statistics.mean_interval(
                    values[:, defined].mean(axis=0),
                    seed=seed,
                    rate=metrics[metric].hit,
                    bounds=(0.0, 100.0) if metric in METRICS else metrics[metric].bounds,
                )
                row = {
                    "method": name,
                    "metric": metric,
                    **estimate._asdict(),
                    "paper": paper_table.figure(name, metric),
                    "kind": "peer" if name in attribution.METHODS and attribution.METHODS[name].library else kind,
                }
                if len(networks) > 1:
                    row["std"] = float(values.mean(axis=1).std(ddof=1))
                    row["networks"] = values.mean(axis=1).tolist()
                if kind == "method" and metric == "roe_test":
                    row["zero_maps"] = _zero_maps_percent(networks, name)
                rows.append(row)
                if metric in scores.curves:
                    every = [{**one.methods, **one.controls}[name].curves[metric] for one in networks]
                    points = curves.points(metrics[metric], np.mean(every, axis=0), seed=seed)
                    rows += [{"method": name, **point, "kind": row["kind"]} for point in points]
    return rows + _own_rows(networks, metrics, seed)


def _own_rows(networks: Sequence[NetworkScores], metrics: Mapping[str, Metric], seed: int) -> list[dict]:
    """Return the rows of methods' own maps under a control, see ``own_maps.control_row``."""
    rows = []
    for source, members in by_kind(networks[0].own).items():
        for name, metric in metrics.items():
            if not all(name in networks[0].own[member].values for member in members):
                continue
            values = np.array([np.mean([one.own[member].values[name] for one in networks], 0) for member in members])
            bounds = (0.0, 100.0) if name in METRICS else metric.bounds
            defined = values[:, np.isfinite(values).all(axis=0)]
            rows.append(control_row(source, name, defined, metric.hit, seed=seed, bounds=bounds))
    return rows


def input_scores(networks: Sequence[NetworkScores], metrics: Mapping[str, Metric]) -> list[InputScores]:
    """Return one value per test signal, its mean over the networks in percent, of every method and control."""
    inputs = [f"test signal {row}" for row in range(TEST_SIGNALS)]
    scored = {**networks[0].methods, **networks[0].controls}
    return [
        InputScores(
            {"metric": metric},
            inputs,
            {
                name: values_of(networks, name, metric).mean(axis=0)
                for name, scores in scored.items()
                if metric in scores.values
            }
            | {
                source.name: np.mean([one.own[source].values[metric] for one in networks], axis=0)
                for source, scores in networks[0].own.items()
                if metric in scores.values
            },
        )
        for metric in metrics
    ]


def titles(networks: Sequence[NetworkScores]) -> dict[str, str]:
    """Return method or control -> the name to print; a user's own method is called as its function."""
    registered = {name: method.title for name, method in attribution.METHODS.items()}
    return {name: registered.get(name, name.rpartition(":")[2]) for name in networks[0].methods} | dict(controls.TITLES)


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
    names = [name for name in networks[0].methods if name in paper_table.TABLE_1 and name not in without]
    if len(names) < 3:
        return None
    paper = [paper_table.figure(name, metric) for name in names]
    columns = np.stack([values_of(networks, name, metric).mean(axis=0) for name in names], axis=1)
    drawn = correlation.spearman(statistics.bootstrap_means(columns, seed=seed), paper)
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    value = correlation.spearman(columns.mean(axis=0), paper)
    estimate = statistics.Estimate(value, min(float(low), value), max(float(high), value), len(columns))
    return estimate, len(names)


def _zero_maps_percent(networks, name) -> float:
    counts = [network.methods[name].zero_maps for network in networks]
    return 100.0 * float(np.mean(counts)) / (TRAIN_SIGNALS + TEST_SIGNALS)
