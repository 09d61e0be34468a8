"""Published figures beside ours: where they are kept, and how the orders of the methods compare."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attribution_benchmarks.core.scores import ALONG, InputScores
from attribution_benchmarks.stats import correlation, statistics


def read_figures(path: pathlib.Path) -> tuple[dict[str, Any], ...]:
    """Return the figures of ``definition.Benchmark.paper`` from a JSON file beside a definition."""
    return tuple(json.loads(path.read_text("utf-8")))


def rank_correlation(
    group: InputScores, rows: Sequence[Mapping[str, Any]], seed: int, without: Sequence[str] = ()
) -> tuple[statistics.Estimate, int] | None:
    """Compare our order of the methods with the published one, by one metric.

    Parameters
    ----------
    group, rows
        The values of the inputs by the metric, and rows with their published figures.
    seed
        Of the bootstrap.
    without
        Methods that are left out.

    Returns
    -------
    tuple or None
        Spearman's rank correlation with its bootstrap interval over inputs and networks, and the number of methods;
        None for fewer than three with a published figure.
    """
    published = {
        row["method"]: row["paper"]
        for row in rows
        if row["paper"] is not None and row["kind"] == "method" and ALONG not in row
        and all(row.get(key) == value for key, value in group.where.items())
        and row["method"] not in without
    }  # fmt: skip
    if len(published) < 3:
        return None
    columns = np.stack([group.by_network(name) for name in published], axis=-1)
    figures = list(published.values())
    drawn = correlation.spearman(bootstrap_means(columns, group.clusters, seed), figures)
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    value = correlation.spearman(np.nanmean(columns, axis=(0, 1)), figures)
    estimate = statistics.Estimate(value, min(float(low), value), max(float(high), value), len(columns))
    return estimate, len(published)


def bootstrap_means(values: np.ndarray, clusters: statistics.Clusters, seed: int, draws: int = 1000) -> np.ndarray:
    """Return the means of (N, K, P) columns over inputs, and three networks or more, drawn again, (draws, P)."""
    known = np.isfinite(values)
    sums, sizes = (statistics.cluster_sums(each, clusters) for each in (np.where(known, values, 0.0), known))
    generator, networks = np.random.default_rng(seed), values.shape[1]

    def times(count: int) -> np.ndarray:
        return generator.multinomial(count, np.full(count, 1 / count), draws).astype(np.float64)

    of_inputs = times(len(sums))
    of_networks = times(networks) if networks >= statistics.MIN_NETWORKS else np.ones((draws, networks))
    total, count = (np.einsum("dg,dk,gkp->dp", of_inputs, of_networks, each, optimize=True) for each in (sums, sizes))
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))
